// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "status.hpp"

namespace gpemu::cuda {

/// Tells the user, and whoever registered for log lines, that something went wrong. Thread safety:
/// any thread.
void tell(std::string_view message);

/// While one lives on a thread, functions of the program are told nothing there, but what they are
/// to be told at its end: they may call back, and would wait for a lock that the thread holds. Made
/// before the lock is taken.
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

/// Has a function of the program told as well. Errors: OUT_OF_MEMORY; INVALID_VALUE.
[[nodiscard]] Status register_log(gpemu_cuda_log_callback callback, void* data,
                                  gpemu_cuda_log** log);
[[nodiscard]] Status unregister_log(gpemu_cuda_log_handle log);

}  // namespace gpemu::cuda
