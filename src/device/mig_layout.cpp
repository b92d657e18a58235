// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/mig_layout.hpp"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "identity.hpp"

namespace gpemu::device {
namespace {

using profile::MigProfile;

constexpr int kFirst[] = {0};
constexpr int kEach[] = {0, 1, 2, 3, 4, 5, 6};
constexpr int kPairs[] = {0, 2, 4};
constexpr int kHalves[] = {0, 4};

constexpr std::span<const int> each(std::size_t slices) {
  return std::span<const int>(kEach).first(slices);
}
constexpr std::span<const int> pairs(std::size_t count) {
  return std::span<const int>(kPairs).first(count);
}

constexpr MigComputeProfile kOfOne[] = {{0, 1, kFirst}};
constexpr MigComputeProfile kOfTwo[] = {{0, 1, each(2)}, {1, 2, kFirst}};
constexpr MigComputeProfile kOfThree[] = {{0, 1, each(3)}, {1, 2, kFirst}, {2, 3, kFirst}};
constexpr MigComputeProfile kOfFour[] = {{0, 1, each(4)}, {1, 2, pairs(2)}, {3, 4, kFirst}};
constexpr MigComputeProfile kOfSeven[] = {
    {0, 1, each(7)}, {1, 2, pairs(3)}, {2, 3, kHalves}, {3, 4, kFirst}, {4, 7, kFirst}};

bool overlap(int start, int size, int other_start, int other_size) {
  return start < other_start + other_size && other_start < start + size;
}

const MigComputeProfile* compute_profile(int compute_slices, int id) {
  for (const MigComputeProfile& kind : mig_compute_profiles(compute_slices)) {
    if (kind.id == id) return &kind;
  }
  return nullptr;
}

/// Returns nothing if there is no such kind.
const MigComputeProfile* compute_profile_of(const MigLayout& layout, const MigInstance& instance,
                                            int id) {
  const MigProfile* profile = layout.profile(instance.profile);
  return profile == nullptr ? nullptr : compute_profile(profile->compute_slices, id);
}

int slices_of(int compute_profile_id) {
  for (const MigComputeProfile& kind : kOfSeven) {
    if (kind.id == compute_profile_id) return kind.slices;
  }
  return kMostMigSlices;
}

// A word has a byte for the GPU instance that begins at its slice, its profile's place in the list
// and 1, then a byte for each of the instance's compute slices: for the compute instance that
// begins there, kUsed, its id and its profile.
constexpr std::uint64_t kUsed = 0x80;
constexpr int kIdShift = 3;
constexpr int kByteBits = 8;
constexpr std::uint64_t kLowBits = 7;

std::uint64_t byte_of(std::uint64_t word, int index) {
  return word >> (index * kByteBits) & 0xff;
}

}  // namespace

std::span<const MigComputeProfile> mig_compute_profiles(int compute_slices) {
  switch (compute_slices) {
    case 1:
      return kOfOne;
    case 2:
      return kOfTwo;
    case 3:
      return kOfThree;
    case 4:
      return kOfFour;
    case 7:
      return kOfSeven;
    default:
      return {};
  }
}

MigLayout::MigLayout(std::span<const MigProfile> profiles, const Words& words)
    : profiles_(profiles) {
  for (int start = 0; start < kMostMigSlices; ++start) {
    const std::uint64_t word = words.at(static_cast<std::size_t>(start));
    const auto place = static_cast<std::size_t>(byte_of(word, 0));
    if (place == 0 || place > profiles_.size()) continue;
    const Result<int> id = create(profiles_[place - 1].id, start);
    if (!id) continue;
    MigInstance& instance = *find(*id);
    for (int slice = 0; slice + 1 < kMostMigSlices; ++slice) {
      const std::uint64_t byte = byte_of(word, slice + 1);
      if ((byte & kUsed) == 0) continue;
      const MigComputeInstance compute{static_cast<int>(byte >> kIdShift & kLowBits),
                                       static_cast<int>(byte & kLowBits), slice};
      const bool id_is_free = std::ranges::find(instance.compute, compute.id,
                                                &MigComputeInstance::id) == instance.compute.end();
      const MigComputeProfile* kind = compute_profile_of(*this, instance, compute.profile);
      if (!id_is_free || kind == nullptr) continue;
      const std::vector<int> starts = free_starts(instance, *kind);
      if (std::ranges::find(starts, slice) == starts.end()) continue;
      instance.compute.push_back(compute);
    }
  }
}

MigLayout::Words MigLayout::words() const {
  Words words{};
  for (const MigInstance& instance : instances_) {
    std::uint64_t& word = words.at(static_cast<std::size_t>(instance.start));
    word = static_cast<std::uint64_t>(profile(instance.profile) - profiles_.data()) + 1;
    for (const MigComputeInstance& compute : instance.compute) {
      const auto byte = kUsed | static_cast<std::uint64_t>(compute.id) << kIdShift |
                        static_cast<std::uint64_t>(compute.profile);
      word |= byte << ((compute.start + 1) * kByteBits);
    }
  }
  return words;
}

const MigProfile* MigLayout::profile(int id) const {
  const auto found = std::ranges::find(profiles_, id, &MigProfile::id);
  return found == profiles_.end() ? nullptr : &*found;
}

MigInstance* MigLayout::find(int id) {
  const auto found = std::ranges::find(instances_, id, &MigInstance::id);
  return found == instances_.end() ? nullptr : &*found;
}

const MigInstance* MigLayout::instance(int id) const {
  const auto found = std::ranges::find(instances_, id, &MigInstance::id);
  return found == instances_.end() ? nullptr : &*found;
}

const MigComputeInstance* MigLayout::compute_instance(int id, int compute_id) const {
  const MigInstance* in = instance(id);
  if (in == nullptr) return nullptr;
  const auto found = std::ranges::find(in->compute, compute_id, &MigComputeInstance::id);
  return found == in->compute.end() ? nullptr : &*found;
}

bool MigLayout::is_free(const MigProfile& profile, int start) const {
  return std::ranges::none_of(instances_, [&](const MigInstance& instance) {
    const MigProfile& other = *this->profile(instance.profile);
    return (profile.media_extensions && other.media_extensions) ||
           overlap(start, profile.memory_slices, instance.start, other.memory_slices);
  });
}

std::vector<int> MigLayout::free_starts(const MigProfile& profile) const {
  std::vector<int> starts;
  for (const int start : profile.starts) {
    if (is_free(profile, start)) starts.push_back(start);
  }
  return starts;
}

int MigLayout::free_count(const MigProfile& profile) const {
  // Placements of one profile do not overlap each other: their starts are multiples of their size.
  return std::min(static_cast<int>(free_starts(profile).size()), profile.max_instances());
}

int MigLayout::placements_taken_by(const MigProfile& profile, int start) const {
  int taken = 0;
  for (const MigProfile& other : profiles_) {
    if (other.media_extensions) continue;
    for (const int other_start : other.starts) {
      const bool both = overlap(start, profile.memory_slices, other_start, other.memory_slices);
      if (both && is_free(other, other_start)) ++taken;
    }
  }
  return taken;
}

std::optional<int> MigLayout::default_start(const MigProfile& profile) const {
  std::optional<int> best;
  int fewest = 0;
  for (const int start : free_starts(profile)) {
    const int taken = placements_taken_by(profile, start);
    if (best && taken >= fewest) continue;
    best = start;
    fewest = taken;
  }
  return best;
}

int MigLayout::id_of(const MigProfile& profile, int start) const {
  const int parts = profile::memory_slices_of(profiles_) / profile.memory_slices;
  return parts - 1 + start / profile.memory_slices;
}

void MigLayout::insert(MigInstance instance) {
  const auto after = std::ranges::upper_bound(instances_, instance.start, {}, &MigInstance::start);
  instances_.insert(after, std::move(instance));
}

Result<int> MigLayout::create(int profile_id, std::optional<int> start) {
  const MigProfile* profile = this->profile(profile_id);
  if (profile == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "the GPU has no GPU instance profile {}", profile_id);
  }
  if (start && std::ranges::find(profile->starts, *start) == profile->starts.end()) {
    return fail(ErrorCode::kInvalidArgument, "{} cannot begin at memory slice {}; it can at {}",
                profile->name, *start, fmt::join(profile->starts, ", "));
  }
  const std::vector<int> starts = free_starts(*profile);
  const bool fits = start ? std::ranges::find(starts, *start) != starts.end() : !starts.empty();
  if (!fits) {
    return fail(ErrorCode::kUnavailable, "there is no room for another GPU instance {}",
                profile->name);
  }
  const int place = start ? *start : *default_start(*profile);
  MigInstance instance{.id = id_of(*profile, place), .profile = profile_id, .start = place};
  const int id = instance.id;
  insert(std::move(instance));
  return id;
}

Result<void> MigLayout::destroy(int id) {
  const auto found = std::ranges::find(instances_, id, &MigInstance::id);
  if (found == instances_.end()) {
    return fail(ErrorCode::kNotFound, "there is no GPU instance {}", id);
  }
  if (!found->compute.empty()) {
    return fail(ErrorCode::kUnavailable,
                "GPU instance {} has compute instances; destroy them first", id);
  }
  instances_.erase(found);
  return {};
}

std::vector<int> MigLayout::free_starts(const MigInstance& instance,
                                        const MigComputeProfile& kind) {
  std::vector<int> starts;
  for (const int start : kind.starts) {
    const bool taken =
        std::ranges::any_of(instance.compute, [&](const MigComputeInstance& compute) {
          return overlap(start, kind.slices, compute.start, slices_of(compute.profile));
        });
    if (!taken) starts.push_back(start);
  }
  return starts;
}

Result<int> MigLayout::create_compute(int id, int compute_profile, std::optional<int> start) {
  MigInstance* instance = find(id);
  if (instance == nullptr) {
    return fail(ErrorCode::kNotFound, "there is no GPU instance {}", id);
  }
  const MigComputeProfile* kind = compute_profile_of(*this, *instance, compute_profile);
  if (kind == nullptr) {
    return fail(ErrorCode::kInvalidArgument, "GPU instance {} has no compute instance profile {}",
                id, compute_profile);
  }
  if (start && std::ranges::find(kind->starts, *start) == kind->starts.end()) {
    return fail(ErrorCode::kInvalidArgument,
                "such a compute instance cannot begin at slice {}; it can at {}", *start,
                fmt::join(kind->starts, ", "));
  }
  const std::vector<int> starts = free_starts(*instance, *kind);
  const bool fits = start ? std::ranges::find(starts, *start) != starts.end() : !starts.empty();
  if (!fits) {
    return fail(ErrorCode::kUnavailable,
                "GPU instance {} has no room for another such compute instance", id);
  }
  MigComputeInstance made{
      .id = 0, .profile = compute_profile, .start = start.value_or(starts.front())};
  while (compute_instance(id, made.id) != nullptr) ++made.id;
  const auto after =
      std::ranges::upper_bound(instance->compute, made.start, {}, &MigComputeInstance::start);
  instance->compute.insert(after, made);
  return made.id;
}

Result<void> MigLayout::destroy_compute(int id, int compute_id) {
  MigInstance* instance = find(id);
  if (instance == nullptr || compute_instance(id, compute_id) == nullptr) {
    return fail(ErrorCode::kNotFound, "there is no compute instance {} in GPU instance {}",
                compute_id, id);
  }
  std::erase_if(instance->compute,
                [&](const MigComputeInstance& compute) { return compute.id == compute_id; });
  return {};
}

std::string MigLayout::name_of(const MigProfile& profile, const MigComputeProfile& kind) {
  if (kind.slices == profile.compute_slices) return profile.name;
  return fmt::format("{}c.{}", kind.slices, profile.name);
}

std::optional<int> MigLayout::multiprocessors_of(const MigProfile& profile,
                                                 const MigComputeProfile& kind) const {
  if (kind.slices == profile.compute_slices) return profile.multiprocessors;
  const auto one = std::ranges::find_if(profiles_, [](const MigProfile& other) {
    return other.compute_slices == 1 && other.memory_slices == 1;
  });
  if (one == profiles_.end() || !one->multiprocessors || !profile.multiprocessors) {
    return std::nullopt;
  }
  return std::min(kind.slices * *one->multiprocessors, *profile.multiprocessors);
}

std::vector<MigDevice> MigLayout::devices(int gpu, std::string_view uuid) const {
  std::vector<MigDevice> devices;
  const Words all = words();
  for (const MigInstance& instance : instances_) {
    const MigProfile& profile = *this->profile(instance.profile);
    for (const MigComputeInstance& compute : instance.compute) {
      const MigComputeProfile& kind = *compute_profile(profile.compute_slices, compute.profile);
      const std::optional<int> multiprocessors = multiprocessors_of(profile, kind);
      if (!multiprocessors || !profile.memory_bytes) continue;
      const std::uint64_t word = all.at(static_cast<std::size_t>(instance.start));
      devices.push_back({.gpu = gpu,
                         .gpu_instance = instance.id,
                         .compute_instance = compute.id,
                         .name = name_of(profile, kind),
                         .uuid = mig_uuid(uuid, instance.id, compute.id),
                         .profile = profile.id,
                         .memory_slices = profile.memory_slices,
                         .compute_slices = kind.slices,
                         .multiprocessors = *multiprocessors,
                         .memory_bytes = *profile.memory_bytes,
                         .memory_place = instance.start,
                         .compute_place = instance.start + compute.start,
                         .entry = {byte_of(word, 0), byte_of(word, compute.start + 1)}});
    }
  }
  std::ranges::sort(devices, {}, [](const MigDevice& device) {
    return std::pair(device.gpu_instance, device.compute_instance);
  });
  return devices;
}

}  // namespace gpemu::device
