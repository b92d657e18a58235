// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// What a kernel needs to run at full pace beside others, as parts of kWholeWidth.
struct KernelNeeds {
  std::uint32_t compute = 0;  ///< of the multiprocessors; 0: all that its process may use.
  std::uint32_t memory = 0;   ///< of the rate of the device's memory.
  bool operator==(const KernelNeeds&) const = default;
};

/// Work that a process wants an engine to do without a pause: from `earliest` on, but not before
/// `after` has passed since the end of the demand before it.
struct Demand {
  TimePoint earliest{};
  Duration after{};
  Duration cost{};
  KernelNeeds needs{};
};

}  // namespace gpemu::device
