// SPDX-License-Identifier: Apache-2.0
#include "host_time.hpp"

#include <algorithm>
#include <utility>

namespace gpemu::process {

HostTime::Parts HostTime::divide(std::int64_t gap, std::int64_t now, ProcessorTime processor_time) {
  const std::int64_t late = std::min(std::exchange(late_wait_, 0), gap);
  gap -= late;
  if (gap <= kShortGap) return {.computing = gap, .blocked = late};
  const HostTime last = *this;
  sample(now, processor_time);
  if (last.sampled_at_ == 0 || last.sampled_at_ >= now) return {.computing = 0, .blocked = late};
  const double share = static_cast<double>(sampled_processor_ - last.sampled_processor_) /
                       static_cast<double>(now - last.sampled_at_);
  const auto computing =
      static_cast<std::int64_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(gap));
  return {.computing = computing, .blocked = late + gap - computing};
}

}  // namespace gpemu::process
