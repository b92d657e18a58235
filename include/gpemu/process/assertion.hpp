// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/moment.hpp"

namespace gpemu::process {

/// The first assertion that failed in a kernel of a device. The context has its error when the
/// kernel has ended. Thread safety: any thread.
class FailedAssertion {
 public:
  /// Stores an assertion of a kernel that ends at a moment, unless there is one already.
  void set(const device::Moment& end, std::string text) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    if (!failure_) failure_ = Failure{end, std::move(text)};
  }

  /// Returns the text if its kernel has ended at `now`.
  [[nodiscard]] std::optional<std::string> due(TimePoint now) const GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    if (!failure_ || !failure_->end.is_over(now)) return std::nullopt;
    return failure_->text;
  }

 private:
  struct Failure {
    device::Moment end;
    std::string text;
  };
  mutable Mutex mutex_;
  std::optional<Failure> failure_ GPEMU_GUARDED_BY(mutex_);
};

}  // namespace gpemu::process
