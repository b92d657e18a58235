// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/gpu_places.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <ranges>
#include <utility>

#include <fmt/ranges.h>

namespace gpemu::containers {
namespace {

constexpr std::string_view kPrefix = "gpus-";

/// Makes a GPU instance that is one device.
Result<void> add_instance(device::MigLayout& layout, const profile::MigProfile& profile,
                          std::optional<int> start) {
  GPEMU_ASSIGN(const int id, layout.create(profile.id, start));
  const auto kinds = device::mig_compute_profiles(profile.compute_slices);
  GPEMU_ASSIGN([[maybe_unused]] const int compute, layout.create_compute(id, kinds.back().id));
  return {};
}

/// Returns the numbers of "0.9.4".
std::vector<int> numbers_of(std::string_view text) {
  std::vector<int> numbers;
  for (const auto word : std::views::split(text, '.')) {
    std::from_chars(word.data(), word.data() + word.size(), numbers.emplace_back());
  }
  return numbers;
}

}  // namespace

std::string folder_name(const GpuPlaces& places) {
  std::vector<std::string> words;
  for (const auto& [gpu, instances] : places) {
    if (instances.empty()) words.push_back(std::to_string(gpu));
    for (const MigPlacement& mig : instances) {
      words.push_back(fmt::format("{}.{}.{}", gpu, mig.profile, mig.start));
    }
  }
  return fmt::format("{}{}", kPrefix, fmt::join(words, "-"));
}

GpuPlaces places_of_folder(std::string_view name) {
  GpuPlaces places;
  if (!name.starts_with(kPrefix)) return places;
  name = name.substr(0, name.find(kOfHolder)).substr(kPrefix.size());
  for (const auto word : std::views::split(name, '-')) {
    const std::vector<int> numbers = numbers_of(std::string_view(word.data(), word.size()));
    std::set<MigPlacement>& instances = places[static_cast<std::size_t>(numbers.front())];
    if (numbers.size() == 3) instances.insert({.profile = numbers[1], .start = numbers[2]});
  }
  return places;
}

bool overlap(const GpuPlaces& one, const GpuPlaces& other) {
  return std::ranges::any_of(one, [&](const auto& place) {
    const auto found = other.find(place.first);
    if (found == other.end()) return false;
    const auto& [mine, its] = std::pair(place.second, found->second);
    if (mine.empty() || its.empty()) return true;
    return std::ranges::any_of(mine, [&](const auto& instance) { return its.contains(instance); });
  });
}

Result<device::MigLayout> layout_with(std::span<const profile::MigProfile> profiles,
                                      std::span<const std::string> names) {
  std::vector<const profile::MigProfile*> wanted;
  for (const std::string& name : names) {
    const auto found = std::ranges::find(profiles, name, &profile::MigProfile::name);
    if (found == profiles.end()) {
      std::vector<std::string> all;
      for (const profile::MigProfile& profile : profiles) all.push_back(profile.name);
      return fail(ErrorCode::kInvalidArgument, "MIG has no profile '{}' on this GPU; it has {}",
                  name, all.empty() ? "none at all" : fmt::format("{}", fmt::join(all, ", ")));
    }
    wanted.push_back(&*found);
  }
  std::ranges::stable_sort(wanted, std::greater{}, &profile::MigProfile::memory_slices);
  device::MigLayout layout(profiles);
  for (const profile::MigProfile* const profile : wanted) {
    const auto added = add_instance(layout, *profile, std::nullopt);
    if (added) continue;
    return fail(ErrorCode::kInvalidArgument, "a GPU has no room for the instances {}: {}",
                fmt::join(names, ", "), added.error().message);
  }
  return layout;
}

Result<device::MigLayout> layout_with(std::span<const profile::MigProfile> profiles,
                                      const std::set<MigPlacement>& placements) {
  device::MigLayout layout(profiles);
  for (const MigPlacement& mig : placements) {
    const profile::MigProfile* const profile = layout.profile(mig.profile);
    if (profile == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "MIG has no profile {} on this GPU", mig.profile);
    }
    GPEMU_TRY(add_instance(layout, *profile, mig.start));
  }
  return layout;
}

}  // namespace gpemu::containers
