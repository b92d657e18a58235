// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <type_traits>
#include <utility>

#include "gpemu/base/mutex.hpp"

namespace gpemu::process {

/// An object that is made on first use and never destroyed. Thread safety: any thread.
template <typename Object>
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;
  ~MadeOnce() = default;

  /// Returns the object; makes it from `arguments` if it does not exist.
  template <typename... Arguments>
  [[nodiscard]] Object& get(Arguments&&... arguments) {
    Object* const made = made_.load(std::memory_order_acquire);
    return made != nullptr ? *made : make(std::forward<Arguments>(arguments)...);
  }

 private:
  template <typename... Arguments>
  [[gnu::noinline]] Object& make(Arguments&&... arguments) {
    const Lock lock(mutex_);
    if (made_.load(std::memory_order_relaxed) == nullptr) {
      made_.store(new Object(std::forward<Arguments>(arguments)...), std::memory_order_release);
    }
    return *made_.load(std::memory_order_relaxed);
  }

  std::atomic<Object*> made_{nullptr};
  Mutex mutex_;
};
// Threads of the program may call while it exits.
static_assert(std::is_trivially_destructible_v<MadeOnce<int>>);

}  // namespace gpemu::process
