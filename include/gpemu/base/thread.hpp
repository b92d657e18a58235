// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <system_error>
#include <thread>
#include <utility>

#include "gpemu/base/signals.hpp"

namespace gpemu {

/// Starts a thread that gets none of the program's signals. `name`: at most 15 characters, for
/// tools that show threads. Returns a thread that is not joinable if the system starts no more.
template <typename Function>
[[nodiscard]] std::thread start_thread(const char* name, Function function) {
  const SignalsHeld held;
  try {
    return std::thread([name, function = std::move(function)]() mutable {
      ::pthread_setname_np(::pthread_self(), name);
      function();
    });
  } catch (const std::system_error&) {
    return {};
  }
}

}  // namespace gpemu
