// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cuda.h"
#include "gpemu/device/device.hpp"
#include "gpemu/process/assertion.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/topology/shared_links.hpp"

namespace gpemu::process {

/// The parts that the process keeps for a context, in the order in which they end with it.
enum class ContextPart : std::uint8_t { kPools, kImports, kMemory, kPhysicalMemory, kVariables };
inline constexpr std::size_t kContextParts = 5;

/// One device that this process sees. Never moves once the process is attached.
struct DeviceState {
  /// Ends a part of the device's context: frees everything that the part holds for it.
  using EndPart = void (*)(DeviceState& device);

  int ordinal = 0;  ///< as CUDA numbers it, after CUDA_VISIBLE_DEVICES.
  int index = 0;    ///< in the node; of a MIG device, its GPU's.
  int place = 0;    ///< in the node: a number that no other device and no other MIG device has.
  std::optional<device::MigDevice> mig;
  std::optional<Bytes> memory_limit;     ///< for this process, if it has one.
  device::ComputeShare compute_share{};  ///< of this process.
  profile::GpuSpec spec;
  const profile::TopologySpec* machine = nullptr;  ///< what joins the node's GPUs, if described.
  /// What copies from and to the host share with those of other GPUs.
  std::vector<topology::SharedLink> links_from_host, links_to_host;
  gpemu_cuda_device info{};
  double multiprocessor_share = 1;  ///< 1 / info.multiprocessors: divisions make launches slow.
  std::unique_ptr<cost::OperationCostModel> costs;
  /// The primary context; null until it is needed.
  std::unique_ptr<device::Device> device;
  std::atomic<bool> active{false};  ///< whether the context exists and was not reset.
  /// Whether any are planned for it, others may end it, as with MPS, or an assertion failed.
  std::atomic<bool> has_faults{false};
  FailedAssertion assertion;
  /// Not SUCCESS after a fatal error: from then on, all calls that use the device fail with it.
  std::atomic<gpemu_cuda_status> fatal{GPEMU_CUDA_SUCCESS};
  std::string uuid;    ///< as NVML shows it.
  int mps_number = 0;  ///< as an MPS server numbers it.
  /// Of which the process is a client on this device.
  std::optional<device::MpsClient> mps_client;
  std::atomic<bool> told_lost{false};         ///< whether the user knows that it is lost.
  std::atomic<bool> told_broken_link{false};  ///< likewise, of an NVLink.
  device::DeviceAddress context = 0;          ///< its own memory; guarded by the process's mutex.
  std::atomic<int> context_users{0};
  /// Whether the runtime API uses the context and therefore keeps it without other users.
  std::atomic<bool> runtime_uses{false};
  /// Devices whose memory the context may use; guarded by the process's mutex.
  std::set<int> peers;
  std::map<std::int32_t, std::uint64_t> limits;  ///< that were set; guarded likewise.
  gpemu_cuda_stream* default_stream = nullptr;
  std::atomic<bool> has_priorities{false};  ///< some stream had another priority than 0.
  /// The functions that end the parts; null for parts that never held anything for the device.
  std::array<std::atomic<EndPart>, kContextParts> parts{};

  /// Makes a part end with each context from now on. Called when it first holds something.
  void end_with_context(ContextPart part, EndPart end) {
    parts[static_cast<std::size_t>(part)].store(end, std::memory_order_release);
  }
};

}  // namespace gpemu::process
