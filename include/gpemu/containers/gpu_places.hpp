// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/profile/mig_profile.hpp"

namespace gpemu::containers {

/// A GPU instance of MIG in a GPU: its profile's id, and its first memory slice.
struct MigPlacement {
  int profile = 0;
  int start = 0;
  friend auto operator<=>(const MigPlacement&, const MigPlacement&) = default;
};

/// GPUs of a pool by number, each with the instances of MIG in it; none: the whole GPU.
using GpuPlaces = std::map<std::size_t, std::set<MigPlacement>>;

/// Between the name of a container's folder and that of its holder.
inline constexpr char kOfHolder = '@';

/// Returns the name of the folder of a container with these GPUs: "gpus-0-3", and with instances of
/// MIG "gpus-0.9.4" (GPU, profile, start).
[[nodiscard]] std::string folder_name(const GpuPlaces& places);

/// Returns what a folder's name says, also with a holder behind it; nothing for another folder.
[[nodiscard]] GpuPlaces places_of_folder(std::string_view name);

/// Returns whether two containers cannot have these at the same time.
[[nodiscard]] bool overlap(const GpuPlaces& one, const GpuPlaces& other);

/// Returns a layout with one instance of each profile that is named, which has one compute
/// instance. The largest are placed first, so that they fit if any order of them does.
///
/// Errors: kInvalidArgument for a profile that there is not, and for one too many.
[[nodiscard]] Result<device::MigLayout> layout_with(std::span<const profile::MigProfile> profiles,
                                                    std::span<const std::string> names);

/// Returns a layout with these instances. Errors: as MigLayout::create().
[[nodiscard]] Result<device::MigLayout> layout_with(std::span<const profile::MigProfile> profiles,
                                                    const std::set<MigPlacement>& placements);

}  // namespace gpemu::containers
