// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <utility>

namespace gpemu {

/// One object for each thread that asks for it. It is not a thread-local variable, because a
/// library that is loaded late has little space for these.
template <typename Object>
class PerThread {
 public:
  /// Returns the calling thread's object, or null if the host is out of memory or after the
  /// thread's variables were destroyed: destructors of statics may still call.
  [[nodiscard]] static Object* get() { return object_ != nullptr ? object_ : make(); }

 private:
  struct End {
    End() = default;
    End(const End&) = delete;
    End& operator=(const End&) = delete;
    ~End() {
      ended_ = true;
      delete std::exchange(object_, nullptr);
    }
  };

  static Object* make() {
    if (ended_) return nullptr;
    thread_local const End end;
    return object_ = new (std::nothrow) Object();
  }

  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Object* object_ = nullptr;
  static inline thread_local constinit bool ended_ = false;
};

}  // namespace gpemu
