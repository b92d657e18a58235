// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "status.hpp"

namespace gpemu::cuda {

/// Tells the user, and whoever registered for log lines, that something went wrong. Thread safety:
/// any thread.
void tell(std::string_view message);

/// Has a function of the program told as well. Errors: OUT_OF_MEMORY; INVALID_VALUE.
[[nodiscard]] Status register_log(gpemu_cuda_log_callback callback, void* data,
                                  gpemu_cuda_log** log);
[[nodiscard]] Status unregister_log(gpemu_cuda_log_handle log);

}  // namespace gpemu::cuda
