// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/launch_facts.hpp"
#include "gpemu/launch/image.hpp"

namespace gpemu::launch {

/// A parameter of a kernel.
struct LaunchParameter {
  kernels::ParameterKind kind = kernels::ParameterKind::kOther;
  Bytes bytes = 0;  ///< 0 if it is not known.

  friend bool operator==(const LaunchParameter&, const LaunchParameter&) = default;
};

/// Returns the possible kinds of a kernel's arguments, in order; whether an argument is really a
/// pointer shows only in its value. They come from the mangled name or else from the code, whose
/// `places` have the sizes; empty if neither is known.
[[nodiscard]] std::vector<LaunchParameter> launch_parameters(
    std::string_view name, const std::vector<ParameterPlace>& places);

/// Reads the arguments of a launch, and the content of structs of known size. Requires: `arguments`
/// has an address for each parameter.
[[nodiscard]] kernels::LaunchFacts launch_facts(const std::vector<LaunchParameter>& parameters,
                                                void* const* arguments,
                                                kernels::LaunchFacts::Arithmetic arithmetic);

}  // namespace gpemu::launch
