// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "gpemu/cost/launch_facts.hpp"

#include "image.hpp"

namespace gpemu::cuda {

/// What the arguments of a kernel may be, in order: where they may be pointers, what is there
/// tells. From the mangled name, or else from the code; empty where neither tells.
[[nodiscard]] std::vector<cost::ParameterKind> parameter_kinds(std::string_view name,
                                                               const KernelCode* code);

/// Reads the arguments of a launch. Requires: `arguments` has an address for each kind.
[[nodiscard]] cost::LaunchFacts launch_facts(const std::vector<cost::ParameterKind>& kinds,
                                             void* const* arguments,
                                             cost::LaunchFacts::Arithmetic arithmetic);

}  // namespace gpemu::cuda
