// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/containers/container_edits.hpp"
#include "gpemu/containers/gpu_places.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/profile/fault_plan.hpp"
#include "gpemu/profile/mig_profile.hpp"
#include "gpemu/profile/topology_spec.hpp"

namespace gpemu::containers {

/// What a container gets that has some of the replicas of a GPU.
enum class Division : std::uint8_t {
  kNone,   ///< the GPU, with all others that have one: they take turns.
  kShare,  ///< its part of the memory and of the compute time, and what others leave of the latter.
  kLimit,  ///< its part of both, and never more.
};

/// The GPUs of a machine, which containers get one or several of.
struct GpuPoolOptions {
  std::string machine;  ///< UUIDs follow from it; a node's name.
  std::vector<device::DeviceConfig> gpus;
  /// What goes wrong with them: a FaultPlan's `toml`; times count from the pool's start. Empty:
  /// nothing.
  std::string faults;
  /// How they are joined; containers see it of theirs. None: as nodes without one.
  std::optional<profile::TopologySpec> topology = std::nullopt;
  device::TimeSliceSettings slices;
  std::filesystem::path folder;        ///< of the host, in which containers' nodes are made.
  std::filesystem::path installation;  ///< see edits_for().
  int replicas = 1;                    ///< of each GPU; more than 1: several containers share it.
  Division division = Division::kNone;
  /// The profiles of MIG that the GPUs have, which then are of one kind; needed for instances.
  std::vector<profile::MigProfile> mig_profiles;
  /// The names of profiles: MIG divides each GPU into these instances. Empty: it does not.
  std::vector<std::string> mig;
};

/// One thing that a container can get: a GPU, a replica of one, or a MIG device.
struct PoolDevice {
  /// Its UUID; of replicas "UUID::NUMBER", as NVIDIA's plugin has them.
  std::string id;
  std::size_t gpu = 0;
  std::optional<MigPlacement> mig;
  std::string profile;  ///< of a MIG device, its name: "3g.20gb".
};

/// What a holder gets of a GPU, as parts of the whole.
struct GpuPart {
  std::size_t gpu = 0;
  double memory = 1;
  double compute = 1;  ///< 0: what others leave.
  /// A GPU instance in place of the GPU; then the above are 1.
  std::optional<MigPlacement> mig;
};

/// Hands out emulated GPUs to containers. A container that has GPUs to itself gets a node of its
/// own with these alone, so that it can neither see nor disturb others; those that share a GPU
/// share its node. A node with all GPUs, which no container uses, stands for the machine: programs
/// that watch it open it by machine_folder(). The pool keeps no state but what is in its folder, so
/// it may be ended and made anew; faults that begin by time then begin anew, too.
///
/// Thread safety: none.
class GpuPool {
 public:
  /// Makes the folder. Errors: those of edits_for(); kInvalidArgument for no GPUs, numbers out of
  /// range, and instances for which a GPU has no profile or no room; kUnsupported for replicas of
  /// MIG devices; kIo.
  [[nodiscard]] static Result<GpuPool> create(GpuPoolOptions options);

  /// Returns where a pool in a folder has the node kNodeName with all GPUs of its machine.
  [[nodiscard]] static std::filesystem::path machine_folder(const std::filesystem::path& folder);

  /// Returns that node.
  [[nodiscard]] const device::Node& machine() const { return *machine_; }

  /// Returns whether containers can get a GPU now: it is not lost, and none of its NVLinks is
  /// broken. Faults that begin by count have begun if they have in a container's node.
  [[nodiscard]] bool is_healthy(std::size_t gpu) const;

  /// Returns all devices, by GPU and replica. Their names are always the same for a machine's name.
  [[nodiscard]] const std::vector<PoolDevice>& devices() const { return devices_; }

  /// Returns how the GPUs are joined, if it is known.
  [[nodiscard]] const std::optional<profile::TopologySpec>& topology() const {
    return options_.topology;
  }

  /// Returns which of the free devices are best for a container that wants so many: `must` and
  /// those beside; replicas of one GPU if it has enough, and of such GPUs the one with the fewest;
  /// else, of whole GPUs whose topology is known, those that are joined best and leave the best;
  /// else those with the lowest numbers.
  [[nodiscard]] std::vector<std::string> prefer(std::span<const std::string> available,
                                                std::span<const std::string> must,
                                                std::size_t count) const;

  /// Gives devices to a container, and returns what it needs. What an earlier container left of
  /// GPUs that are not shared is gone.
  ///
  /// Errors: kNotFound for an unknown device; kInvalidArgument for none, or for replicas of several
  ///   GPUs; those of Node::create() and of making MIG's instances.
  [[nodiscard]] Result<ContainerEdits> allocate(std::span<const std::string> ids);

  /// Gives GPUs, or parts of one, to a holder, and returns what all its containers need: the same
  /// node each time, until it is taken back. What is free is for the caller to know. A folder is
  /// for this or for allocate(). `division`: whether its part of the compute time is a limit.
  ///
  /// Requires: a holder's name can be that of a file and has no '@'; names with a '.' belong to
  ///   the holder before it. Errors: kNotFound for an unknown GPU; kInvalidArgument for none, for
  ///   parts of several GPUs, of more than a whole, or of MIG beside others; kResourceLimit for
  ///   more holders than can share a GPU; those of Node::create() and of making MIG's instances.
  [[nodiscard]] Result<ContainerEdits> give(const std::string& holder,
                                            std::span<const GpuPart> parts,
                                            Division division = Division::kLimit);

  /// Removes what a holder was given, if anything. Errors: kIo.
  [[nodiscard]] Result<void> take_back(const std::string& holder);

 private:
  GpuPool(GpuPoolOptions options, std::shared_ptr<device::Node> machine)
      : options_(std::move(options)), machine_(std::move(machine)) {}
  [[nodiscard]] Result<PoolDevice> device_of(std::string_view id) const;
  void add_devices(std::size_t gpu, std::span<const device::MigDevice> instances);
  /// Returns the number of the container that has these replicas among those on its GPU, from 1.
  [[nodiscard]] int tenant_of(std::span<const std::string> ids) const;
  /// Returns the number of a holder among those that share a GPU, from 1, which it keeps.
  [[nodiscard]] Result<int> tenant_of(const std::string& holder, std::size_t gpu) const;
  /// Returns whether a folder has a node with these GPUs, of this kind and name: an earlier pool
  /// may have had others.
  [[nodiscard]] bool has_node(const std::filesystem::path& folder, const GpuPlaces& places) const;
  [[nodiscard]] Result<void> make_node(const std::filesystem::path& folder,
                                       const GpuPlaces& places) const;
  [[nodiscard]] Result<std::filesystem::path> node_folder(const GpuPlaces& places);
  /// Returns the UUIDs of GPUs and of MIG devices.
  [[nodiscard]] Result<std::vector<std::string>> uuids_of(const GpuPlaces& places) const;
  /// Returns what a container with the node in a folder needs.
  [[nodiscard]] Result<ContainerEdits> edits_of(const std::filesystem::path& folder,
                                                const GpuPlaces& places) const;

  GpuPoolOptions options_;
  std::shared_ptr<device::Node> machine_;
  TimePoint started_;
  profile::FaultPlan faults_;
  std::vector<std::string> uuids_;
  std::vector<PoolDevice> devices_;
};

}  // namespace gpemu::containers
