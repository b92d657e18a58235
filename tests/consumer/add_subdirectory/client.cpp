// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/clock.hpp"

int main() {
  gpemu::sim::VirtualClock clock;
  const gpemu::TimePoint deadline(gpemu::from_seconds(3600));
  clock.wait_until(deadline);
  return clock.now() == deadline ? 0 : 1;
}
