// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gpemu/kernels/kernel_work.hpp"

namespace gpemu::process {

using kernels::WriterId;

/// Returns the number of a kernel's or a library function's name; the same for the same name.
[[nodiscard]] WriterId writer_id(std::string_view name);

/// Returns the name for a number from writer_id(), or "" for 0.
[[nodiscard]] std::string writer_name(WriterId id);

}  // namespace gpemu::process
