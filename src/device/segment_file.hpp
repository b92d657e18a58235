// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/device/node_state.hpp"
#include "gpemu/profile/fault_plan.hpp"
#include "gpemu/profile/topology_spec.hpp"

#include "layout.hpp"
#include "node_path.hpp"

namespace gpemu::device {

/// Returns whether a text can be the name of a device's GPU. A path cannot: code that looks up the
/// name would open it.
[[nodiscard]] bool is_gpu_name(std::string_view text);

/// The facts of a device that never change, checked, in this process's own memory.
struct DeviceFacts {
  std::string gpu;
  std::string uuid;
  std::string pci_bus_id;
  Bytes memory_bytes = 0;
  double max_power_w = 0;
  double idle_power_w = 0;
  GpuFacts facts;
};

/// Reads the topology of a node with these devices. `origin` names the text in messages. Texts in
/// the result are printable.
///
/// Errors: kCorruptData for the first fault of the text; kInvalidArgument if it does not describe
/// these devices.
[[nodiscard]] Result<profile::TopologySpec> read_topology(std::string_view toml,
                                                          std::string_view origin,
                                                          const std::vector<DeviceFacts>& devices);

/// The facts of a node that never change, likewise.
struct NodeFacts {
  SharingPolicy policy = SharingPolicy::kFifo;
  TimeSliceSettings slices;
  bool temporary = false;
  std::vector<DeviceFacts> devices;
  std::optional<profile::TopologySpec> topology;
  profile::FaultPlan faults;
  TimePoint made{};  ///< on the node's clock.

  /// The offsets of the parts of such a node's segment.
  [[nodiscard]] layout::Offsets offsets() const {
    return layout::Offsets(devices.size(), topology ? topology->toml.size() : 0, faults.toml.size(),
                           policy);
  }
  /// Returns the device to which a place of the segment belongs.
  [[nodiscard]] int device_of(int place) const {
    const auto count = static_cast<int>(devices.size());
    return place < count ? place : (place - count) / static_cast<int>(layout::kMigPlaces);
  }
  /// Returns how the device of a place divides its time.
  [[nodiscard]] TimeSliceRules slices_of(int place) const {
    return slices.on(devices[static_cast<std::size_t>(device_of(place))].facts);
  }
  /// Returns the place of a MIG device. Requires: the policy is kMig.
  [[nodiscard]] int mig_place(int device, int slice) const {
    return static_cast<int>(devices.size()) + device * static_cast<int>(layout::kMigPlaces) + slice;
  }
};

/// Returns the error kIncompatible for a file that is not a segment.
[[nodiscard]] std::unexpected<Error> not_a_segment(const NodePath& node, std::string_view why);

/// Opens a segment without waiting or following links. `access` is O_RDONLY or O_RDWR.
///
/// Errors: kNotFound without such a file, or for one of another user; kIo; kIncompatible for a file
/// that is not a regular one.
[[nodiscard]] Result<FileDescriptor> open_segment(const NodePath& node, int access);

/// The facts that segments of all versions have.
struct SegmentPrefix {
  std::uint32_t version = 0;
  bool temporary = false;
};
/// Errors: kIncompatible for a file that is not a segment; kIo.
[[nodiscard]] Result<SegmentPrefix> read_prefix(const FileDescriptor& file, const NodePath& node);

/// Reads the part that never changes and checks it. Errors: kIncompatible for a file that is not a
/// segment, or has another version; kCorruptData for a damaged one; kIo.
[[nodiscard]] Result<NodeFacts> read_facts(const FileDescriptor& file, const NodePath& node);

/// Reads bytes of a segment that must exist. Errors: kCorruptData if the file was truncated, kIo.
[[nodiscard]] Result<void> read_exactly(const FileDescriptor& file, const NodePath& node,
                                        void* destination, std::size_t count, std::uint64_t offset);

/// Returns the bytes at the start of a segment; the rest of it is zero. `made`: the time on the
/// node's clock.
[[nodiscard]] std::vector<std::byte> static_part(const NodeConfig& config, TimePoint made = {});

/// Returns where the parts of the segment of such a node are.
[[nodiscard]] layout::Offsets offsets_of(const NodeConfig& config);

/// Returns the facts in those bytes. Errors: kCorruptData.
[[nodiscard]] Result<NodeFacts> parse_static_part(std::vector<std::byte> bytes,
                                                  std::uint64_t file_size, const NodePath& node);

/// Returns whether no process takes part in the node of an open segment of this version.
[[nodiscard]] bool is_unused(const FileDescriptor& file);

}  // namespace gpemu::device
