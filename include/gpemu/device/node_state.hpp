// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::device {

/// An engine runs work. A device has one of each kind.
enum class Engine : std::uint8_t { kCompute, kCopyHostToDevice, kCopyDeviceToHost };
inline constexpr int kEngineCount = 3;

/// Which processes may use a device at the same time, and how.
enum class SharingPolicy : std::uint8_t {
  kFifo,        ///< work runs in the order in which it was queued.
  kTimeSlices,  ///< kernels run in time slices, one process after the other.
  kMig,         ///< processes use MIG devices, which the GPUs are divided into.
  kMps,         ///< kernels run side by side: all processes are clients of one MPS server.
  // Processes of the class kLow launch kernels only as these allow, to the benefit of the others:
  kAntMan,  ///< kernels run in time slices,
  kTgs,     ///< likewise;
  kOrion,   ///< kernels run side by side.
};

/// Returns whether kernels run in time slices, one process after the other.
[[nodiscard]] constexpr bool uses_time_slices(SharingPolicy policy) {
  return policy == SharingPolicy::kTimeSlices || policy == SharingPolicy::kAntMan ||
         policy == SharingPolicy::kTgs;
}
/// Returns whether all processes are clients of one MPS server.
[[nodiscard]] constexpr bool is_side_by_side(SharingPolicy policy) {
  return policy == SharingPolicy::kMps || policy == SharingPolicy::kOrion;
}

/// Returns whether processes of the class kLow may be held back when they launch kernels.
[[nodiscard]] constexpr bool has_launch_policy(SharingPolicy policy) {
  return policy == SharingPolicy::kAntMan || policy == SharingPolicy::kTgs ||
         policy == SharingPolicy::kOrion;
}

/// The width of a whole GPU.
inline constexpr std::uint32_t kWholeWidth = 10'000;

/// What a client of an MPS server may use of a device.
struct MpsClient {
  /// Clients of one server run side by side; for others, they are one process. Not 0.
  std::uint64_t server = 1;
  std::uint32_t width = kWholeWidth;  ///< the share of the GPU that its kernels can use; not 0.
  std::optional<Bytes> memory{};      ///< the most memory that it may hold, if there is a limit.
};

/// How urgent the kernels of a process are, compared to those of others on its device.
enum class ProcessPriority : std::int8_t { kHigh = -1, kNormal = 0, kLow = 1 };

/// Tenants of a node have numbers from 1 to this. Source: as many processes can share a device.
inline constexpr std::size_t kMostTenants = 64;

/// Which part of the time of a device's multiprocessors a process gets, if it wants it.
struct ComputeShare {
  std::uint32_t part = 0;  ///< of kWholeWidth; 0: what others leave, in equal parts.
  bool capped = false;     ///< it never gets more; else what others leave, too.
  /// Processes of the same tenant, such as a container, have one part together, and one limit of
  /// memory. 0: the process is alone.
  std::uint8_t tenant = 0;
};

/// How a process takes part in the sharing of a device.
struct SharingRole {
  std::optional<MpsClient> client{};  ///< of MPS, if it is one.
  ProcessPriority priority = ProcessPriority::kNormal;
  ComputeShare share{};
};

/// Which processes may have contexts on a device. The numbers are NVML's, nvmlComputeMode_t.
enum class ComputeMode : std::uint8_t {
  kDefault = 0,           ///< any.
  kProhibited = 2,        ///< none: all are refused with kUnavailable.
  kExclusiveProcess = 3,  ///< one; a second one is refused with kUnavailable.
};

/// How long the time slices of a device are. The numbers are those of `nvidia-smi compute-policy
/// --set-timeslice`.
enum class TimeSliceLength : std::uint8_t { kDefault = 0, kShort = 1, kMedium = 2, kLong = 3 };

/// How a GPU divides its time among processes. The values are those of a device that was not made
/// from a specification, as in tests: an RTX 3090's (catalog/generations.toml).
struct TimeSliceRules {
  Duration quantum = std::chrono::milliseconds(2);           ///< the length of a time slice.
  Duration context_switch = std::chrono::microseconds(145);  ///< before another process's slice.
  /// Of which processes have shares. Source: gpemu's own choice, the period of the limits that
  /// Linux and Kubernetes set for processors (cpu.cfs_period_us).
  Duration period = std::chrono::milliseconds(100);
};

/// Returns the length of a device's time slices, if a default one is `quantum`: half of it, twice
/// or four times as long. Source: gpemu's own choice, because NVIDIA publishes no lengths.
[[nodiscard]] Duration slice_length(Duration quantum, TimeSliceLength length);

/// What tools show about a kind of GPU. Zero and "" mean that a value is not known. The segment
/// contains this structure as it is.
struct GpuFacts {
  char product_name[96] = {};  ///< as NVML reports it, e.g. "Tesla V100-PCIE-32GB".
  char architecture[32] = {};  ///< e.g. "Volta".
  std::int32_t compute_capability_major = 0;
  std::int32_t compute_capability_minor = 0;
  std::int32_t multiprocessors = 0;
  std::int32_t cuda_cores = 0;
  std::int32_t memory_bus_bits = 0;
  std::int32_t pcie_generation = 0;
  std::int32_t pcie_lanes = 0;
  std::int32_t nvlink_links = 0;
  std::int32_t nvlink_gpus = 0;      ///< how many GPUs of the node NVLink joins; 1 without NVLink.
  std::int32_t nvlink_switches = 0;  ///< 1: NVSwitches join more than two GPUs.
  std::int32_t has_mig = 0;          ///< 1: MIG can divide it.
  std::int32_t nvml_architecture = 0;  ///< NVML_DEVICE_ARCH_...
  double base_clock_mhz = 0;
  double boost_clock_mhz = 0;
  double memory_clock_mhz = 0;
  Bytes reserved_memory_bytes = 0;  ///< which the driver keeps beside the device's memory.
  double nvlink_version = 0;        ///< 2.2 for NVLink 2.2.
  TimeSliceRules time_slices;       ///< how it divides its time.
};

/// What is set for a node, instead of what is usual for each GPU.
struct TimeSliceSettings {
  std::optional<Duration> quantum{};
  std::optional<Duration> context_switch{};

  /// Returns how a GPU of the node divides its time.
  [[nodiscard]] TimeSliceRules on(const GpuFacts& facts) const {
    return {.quantum = quantum.value_or(facts.time_slices.quantum),
            .context_switch = context_switch.value_or(facts.time_slices.context_switch)};
  }
};

/// The shortest and the longest quantum. Source: 20 times longer and shorter than any that was
/// measured.
inline constexpr Duration kShortestQuantum = std::chrono::microseconds(50);
inline constexpr Duration kLongestQuantum = std::chrono::milliseconds(100);

/// One device of a node to be created.
struct DeviceConfig {
  std::string gpu;         ///< name of its specification, e.g. "V100-PCIE-32GB".
  Bytes memory_bytes = 0;  ///< capacity of its memory.
  double max_power_w = 0;
  double idle_power_w = 0;
  GpuFacts facts;
  /// As which GPU of another node it shows itself, by that node's name and its number there: its
  /// UUID and PCI address are the same. Empty: as what it is.
  std::string shown_node;
  std::size_t shown_number = 0;
};

struct NodeConfig {
  std::string name;  ///< letters, digits, '.', '_' and '-'; at most 63.
  std::vector<DeviceConfig> devices;
  SharingPolicy policy = SharingPolicy::kFifo;
  TimeSliceSettings slices;                          ///< if the policy is kTimeSlices.
  ComputeMode compute_mode = ComputeMode::kDefault;  ///< of all devices, until it is changed.
  mode_t mode = 0600;                                ///< permissions of the segment.
  bool temporary = false;  ///< belongs to one run: removed once no process uses it.
  /// What joins the devices: a TopologySpec's `toml`. Empty if that is not described.
  std::string topology;
  std::string faults;  ///< what goes wrong with them: a FaultPlan's `toml`. Empty: nothing.
};

/// What faults do to a device at some time.
struct DeviceHealth {
  bool lost = false;  ///< it has fallen off the bus.
  double clock = 1;   ///< the share of its clock that is left.
};

/// The power settings of a device, and what comes of them (docs/design/power.md).
struct PowerSnapshot {
  double limit_w = 0;           ///< of its power; by default the board's.
  double min_limit_w = 0;       ///< the lowest limit that can be set.
  double locked_clock_mhz = 0;  ///< 0: the clock is not locked.
  double clock = 1;             ///< the share of the boost clock at which kernels run.
  bool capped = false;          ///< the power limit holds the clock down, and nothing else does.
  double busy_w = 0;            ///< the power while kernels run.
  double energy_j = 0;          ///< that the device has used since the host started.
  Duration capped_time{};       ///< for which kernels ran at a clock that the limit held down.
};

/// NVLinks of a device. Source: nvml.h, NVML_NVLINK_MAX_LINKS.
inline constexpr std::size_t kMostNvlinks = 18;

/// Bytes that went over a link of a device since the node was made.
struct LinkTraffic {
  Bytes sent = 0, received = 0;
};

/// A serious event of a device, which a driver would report.
struct DeviceXid {
  TimePoint time{};  ///< on the node's clock.
  int number = 0;    ///< NVIDIA's: 31 for memory, 74 for an NVLink, 79 for a device off the bus.
};

/// Counters of one engine since the node was created.
struct EngineSnapshot {
  Duration busy{};  ///< work done so far, without work that is queued for later.
  std::uint64_t operations = 0;
  Bytes bytes = 0;
  TimePoint idle_from{};  ///< end of the work that is queued.
};

struct ProcessSnapshot {
  pid_t pid = 0;
  /// 0 if the pid belongs to this process's pid namespace; else the inode of its namespace.
  std::uint64_t foreign_namespace = 0;
  std::string name;  ///< printable, like all text from a segment.
  Bytes memory_held = 0;
  /// Its part of the work that each engine has done, without work that is queued for later.
  std::array<Duration, kEngineCount> busy{};
  bool is_mps_client = false;
  int mig_place = -1;  ///< the compute_place of its MIG device; -1 without one.
  int tenant = 0;      ///< see ComputeShare.
};

/// What processes of one tenant have had of a device since the node was created.
struct TenantSnapshot {
  int tenant = 0;
  std::array<Duration, kEngineCount> busy{};  ///< as ProcessSnapshot::busy, of ended ones, too.
  Bytes memory_held = 0;                      ///< by living ones.
};

/// Whether MIG divides a device, and whether it will once nobody uses the device.
struct MigMode {
  bool divided = false;
  bool pending = false;

  bool operator==(const MigMode&) const = default;
};

/// The state of a device. Only living processes count.
struct DeviceSnapshot {
  int index = 0;
  std::string gpu;
  std::string uuid;        ///< "GPU-…", the same for the same node name and index.
  std::string pci_bus_id;  ///< "00000000:01:00.0", likewise.
  Bytes memory_total = 0;
  Bytes memory_used = 0;
  double max_power_w = 0;
  double idle_power_w = 0;
  GpuFacts facts;
  std::array<EngineSnapshot, kEngineCount> engines;
  std::vector<ProcessSnapshot> processes;
  std::vector<TenantSnapshot> tenants;  ///< by number, who had work or memory; none with MIG.
  DeviceHealth health;
  ComputeMode compute_mode = ComputeMode::kDefault;
  TimeSliceLength time_slice = TimeSliceLength::kDefault;
  PowerSnapshot power;
  LinkTraffic pcie;  ///< copies from and to the host and, where it joins GPUs, between them.
  std::array<LinkTraffic, kMostNvlinks> nvlinks;  ///< by their numbers.
  MigMode mig;
};

/// A file in the folder of nodes.
struct NodeEntry {
  std::string name;
  std::optional<Error> problem;  ///< why it cannot be opened, with what to do.
};

}  // namespace gpemu::device
