// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace gpemu {

/// Undoes a step at the end of its scope, unless the steps after it succeeded, too. The action must
/// not throw.
template <typename Action>
class Undo {
 public:
  explicit Undo(Action action) : action_(std::move(action)) {}
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    if (!kept_) action_();
  }

  /// Lets the step stand.
  void keep() { kept_ = true; }

 private:
  Action action_;
  bool kept_ = false;
};

}  // namespace gpemu
