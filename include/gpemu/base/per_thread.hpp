// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace gpemu {

/// An object of each thread that asks for it. It lies apart from the threads' variables, for which
/// a library that is loaded late finds little room.
template <typename Object>
class PerThread {
 public:
  /// Returns the calling thread's object, or null once the thread's variables have ended:
  /// destructors of statics may still call.
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
    return object_ = new Object();
  }

  [[gnu::tls_model("initial-exec")]] static inline thread_local constinit Object* object_ = nullptr;
  static inline thread_local constinit bool ended_ = false;
};

}  // namespace gpemu
