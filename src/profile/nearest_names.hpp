// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace gpemu::profile {

/// Returns the part of a "not found" message that helps with a mistyped name, e.g. " (did you mean
/// resnet18 or resnet34?)": up to three of `names` that contain `name` or are a few edits away,
/// ignoring case. Empty when none is near.
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string> names);

}  // namespace gpemu::profile
