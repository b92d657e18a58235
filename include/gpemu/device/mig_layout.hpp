// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/profile/mig_profile.hpp"

namespace gpemu::device {

/// Memory slices of a GPU, and the most GPU instances. Source: the tables of catalog/gpus/.
inline constexpr int kMostMigSlices = 8;

/// A kind of compute instance that a GPU instance can hold.
struct MigComputeProfile {
  int id;                       ///< of nvidia-smi, and NVML_COMPUTE_INSTANCE_PROFILE_*.
  int slices;                   ///< compute slices.
  std::span<const int> starts;  ///< compute slices of the GPU instance at which it may begin.
};

/// Returns the kinds of compute instances of a GPU instance with that many compute slices, the
/// smallest first; the last one takes the whole instance. Empty if there is no such GPU instance.
/// Source: "NVIDIA Multi-Instance GPU User Guide", v580, 2025.
[[nodiscard]] std::span<const MigComputeProfile> mig_compute_profiles(int compute_slices);

/// A compute instance in a GPU instance.
struct MigComputeInstance {
  int id = 0;       ///< the smallest that was free when it was made.
  int profile = 0;  ///< the id of its MigComputeProfile.
  int start = 0;    ///< its first compute slice in the GPU instance.
  bool operator==(const MigComputeInstance&) const = default;
};

/// A GPU instance. Its id depends on its placement only: 0 is the whole GPU, 1 and 2 its halves, 3
/// to 6 its quarters and 7 to 14 its eighths, each in the order of their slices.
struct MigInstance {
  int id = 0;
  int profile = 0;                          ///< the id of its MigProfile.
  int start = 0;                            ///< its first memory slice.
  std::vector<MigComputeInstance> compute;  ///< by start.
  bool operator==(const MigInstance&) const = default;
};

/// A compute instance as a device for programs.
struct MigDevice {
  int gpu = 0;  ///< in its node.
  int gpu_instance = 0;
  int compute_instance = 0;
  std::string name;  ///< e.g. "3g.20gb", "1c.3g.20gb".
  std::string uuid;  ///< "MIG-…": the same for the same instances of the same GPU.
  int profile = 0;   ///< the id of the GPU instance's MigProfile.
  int memory_slices = 0;
  int compute_slices = 0;
  int multiprocessors = 0;
  Bytes memory_bytes = 0;  ///< of the GPU instance; its compute instances share it.
  /// Memory slices of the GPU that no other device has: the place of what its GPU instance has, and
  /// of what it has alone.
  int memory_place = 0;
  int compute_place = 0;
  std::array<std::uint64_t, 2> entry{};  ///< how MigLayout::Words has it; to find it there again.
};

/// The instances into which MIG divides one GPU, and the rules that its driver follows: a pure
/// value, which nothing else sees until it is written somewhere.
///
/// A GPU instance occupies the memory slices from its start on; instances do not overlap, and only
/// one has media extensions. If no place is given, the one is chosen that takes the fewest of the
/// placements that are still possible from all profiles without media extensions, and the first of
/// these. NVIDIA does not document its choice; this one gives what the guide shows. Compute
/// instances take the first free place.
///
/// Errors of all functions that change it: kInvalidArgument if the GPU has no such profile or
/// placement, kNotFound if there is no such instance, kUnavailable if there is no room for the new
/// instance, or the GPU instance to destroy has compute instances. Thread safety: none.
class MigLayout {
 public:
  /// A layout in a form that fits in shared memory: a word for each memory slice.
  using Words = std::array<std::uint64_t, kMostMigSlices>;

  /// An empty one. Requires: the profiles outlive it.
  explicit MigLayout(std::span<const profile::MigProfile> profiles) : profiles_(profiles) {}
  /// Reads words() again; what no layout can have is left out.
  MigLayout(std::span<const profile::MigProfile> profiles, const Words& words);
  [[nodiscard]] Words words() const;

  [[nodiscard]] std::span<const profile::MigProfile> profiles() const { return profiles_; }
  /// Returns nothing if there is no such profile.
  [[nodiscard]] const profile::MigProfile* profile(int id) const;
  /// Returns the GPU instances, by start.
  [[nodiscard]] const std::vector<MigInstance>& instances() const { return instances_; }
  /// Returns nothing if there is no such instance.
  [[nodiscard]] const MigInstance* instance(int id) const;
  [[nodiscard]] const MigComputeInstance* compute_instance(int id, int compute_id) const;

  /// Returns where an instance of this profile can be made now.
  [[nodiscard]] std::vector<int> free_starts(const profile::MigProfile& profile) const;
  /// Returns how many instances of this profile can be made now.
  [[nodiscard]] int free_count(const profile::MigProfile& profile) const;
  /// Returns where the driver would make one; nothing if it cannot.
  [[nodiscard]] std::optional<int> default_start(const profile::MigProfile& profile) const;
  /// Returns the new GPU instance's id.
  Result<int> create(int profile_id, std::optional<int> start = std::nullopt);
  Result<void> destroy(int id);

  /// Returns where, or how many, compute instances of this kind can be made in `instance` now.
  [[nodiscard]] static std::vector<int> free_starts(const MigInstance& instance,
                                                    const MigComputeProfile& kind);
  [[nodiscard]] static int free_count(const MigInstance& instance, const MigComputeProfile& kind) {
    return static_cast<int>(free_starts(instance, kind).size());
  }
  /// Returns the new compute instance's id in its GPU instance.
  Result<int> create_compute(int id, int compute_profile, std::optional<int> start = std::nullopt);
  Result<void> destroy_compute(int id, int compute_id);

  /// Returns the MIG devices, one for each compute instance, by the ids of its instances: in
  /// nvidia-smi's and CUDA's order. Those whose size is not known are left out. `gpu`: the GPU's
  /// index in its node. `uuid`: the GPU's.
  [[nodiscard]] std::vector<MigDevice> devices(int gpu, std::string_view uuid) const;
  /// Returns the name of a compute instance, e.g. "3g.20gb", or "1c.3g.20gb" if it is not all of
  /// its GPU instance.
  [[nodiscard]] static std::string name_of(const profile::MigProfile& profile,
                                           const MigComputeProfile& kind);
  /// Returns how many multiprocessors a compute instance has; nothing if that is not known. One
  /// that is not all of its GPU instance has those of the profile with one slice for each of its
  /// slices: exact for the A100 and A30, and not published for later GPUs.
  [[nodiscard]] std::optional<int> multiprocessors_of(const profile::MigProfile& profile,
                                                      const MigComputeProfile& kind) const;

  bool operator==(const MigLayout& other) const { return instances_ == other.instances_; }

 private:
  [[nodiscard]] MigInstance* find(int id);
  [[nodiscard]] bool is_free(const profile::MigProfile& profile, int start) const;
  [[nodiscard]] int id_of(const profile::MigProfile& profile, int start) const;
  [[nodiscard]] int placements_taken_by(const profile::MigProfile& profile, int start) const;
  void insert(MigInstance instance);

  std::span<const profile::MigProfile> profiles_;
  std::vector<MigInstance> instances_;
};

}  // namespace gpemu::device
