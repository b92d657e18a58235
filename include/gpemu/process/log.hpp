// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpemu/process/status.hpp"

namespace gpemu::process {

/// Reports a problem to the user and to the registered callbacks. Thread safety: any thread.
void tell(std::string_view message);

/// While one exists on a thread, messages to the program's callbacks are delayed until its end,
/// because callbacks may call gpemu and would wait for a lock that the thread holds. Made before
/// the lock is taken.
class TellLater {
 public:
  TellLater();
  TellLater(const TellLater&) = delete;
  TellLater& operator=(const TellLater&) = delete;
  ~TellLater();

  /// The thread's first, or null.
  static thread_local constinit TellLater* first;

  std::vector<std::string> messages;
};

/// Registers a callback of the program. Errors: OUT_OF_MEMORY; INVALID_VALUE.
[[nodiscard]] Status register_log(gpemu_cuda_log_callback callback, void* data,
                                  gpemu_cuda_log** log);
[[nodiscard]] Status unregister_log(gpemu_cuda_log_handle log);

}  // namespace gpemu::process
