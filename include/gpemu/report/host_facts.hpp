// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "gpemu/base/units.hpp"

namespace gpemu::report {

/// The facts that a result reports about the machine on which it was measured.
struct HostFacts {
  std::string cpu;  ///< e.g. "AMD EPYC 7R13 Processor"; empty where the kernel does not tell.
  int cores = 0;    ///< that this process may use.
  Bytes memory = 0;
  std::string kernel;       ///< e.g. "Linux 6.1.0".
  double load_average = 0;  ///< over the last minute.
};

[[nodiscard]] HostFacts host_facts();

/// Returns the number of cores that this process may use.
[[nodiscard]] int usable_cores();

}  // namespace gpemu::report
