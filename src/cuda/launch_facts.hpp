// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gpemu/cost/launch_facts.hpp"

#include "image.hpp"

namespace gpemu::cuda {

/// A parameter of a kernel.
struct LaunchParameter {
  cost::ParameterKind kind = cost::ParameterKind::kOther;
  Bytes bytes = 0;  ///< 0 where it is not known.

  friend bool operator==(const LaunchParameter&, const LaunchParameter&) = default;
};

/// What the arguments of a kernel may be, in order: where they may be pointers, what is there
/// tells. From the mangled name, or else from the code, which is what `places` come from and which
/// tells the sizes; empty where neither tells.
[[nodiscard]] std::vector<LaunchParameter> launch_parameters(
    std::string_view name, const std::vector<ParameterPlace>& places);

/// Reads the arguments of a launch, and what structs of known size hold. Requires: `arguments` has
/// an address for each parameter.
[[nodiscard]] cost::LaunchFacts launch_facts(const std::vector<LaunchParameter>& parameters,
                                             void* const* arguments,
                                             cost::LaunchFacts::Arithmetic arithmetic);

}  // namespace gpemu::cuda
