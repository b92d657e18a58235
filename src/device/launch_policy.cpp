// SPDX-License-Identifier: Apache-2.0
#include "launch_policy.hpp"

namespace gpemu::device {

std::unique_ptr<LaunchPolicy> make_launch_policy(SharingPolicy policy,
                                                 const TimeSliceRules& rules) {
  switch (policy) {
    case SharingPolicy::kAntMan:
      return make_antman(rules);
    case SharingPolicy::kTgs:
      return make_tgs();
    case SharingPolicy::kOrion:
      return make_orion();
    case SharingPolicy::kFifo:
    case SharingPolicy::kTimeSlices:
    case SharingPolicy::kMig:
    case SharingPolicy::kMps:
      break;
  }
  return nullptr;
}

}  // namespace gpemu::device
