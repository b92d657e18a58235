// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gpemu::cuda {

/// Tells the user, and whoever registered for log lines, that something went wrong. Thread safety:
/// any thread.
void tell(std::string_view message);

}  // namespace gpemu::cuda
