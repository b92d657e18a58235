// SPDX-License-Identifier: Apache-2.0
#include "gpemu/sim/clock.hpp"

#include "cli/command_line.hpp"
#include "cli/world.hpp"

int main(int argc, char** argv) {
  gpemu::sim::RealClock clock;
  return gpemu::tools::run_command_line(argc, argv, gpemu::tools::real_world(clock));
}
