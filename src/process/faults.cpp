// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/faults.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/saturate.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/mps.hpp"

#include "fatal.hpp"

namespace gpemu::process {
namespace {

/// Ends this process as `kill -9` does.
void end_process() {
  ::kill(::getpid(), SIGKILL);
}

/// Returns when this process loses a device: a driver that comes back serves new processes only.
TimePoint lost_from(const DeviceState& device) {
  return process().node->faults().lost_from(device.index, process().attached);
}

/// How late a thread that waits for a device notices that another process has ended its context.
constexpr Duration kFatalPeriod = std::chrono::milliseconds(20);

}  // namespace

void count_kernel_for_faults(DeviceState& device) {
  if (!process().node->faults().count_kernel(device.index, clock().now())) return;
  tell(
      fmt::format("Xid ({}): 31, a kernel of this process uses an illegal address on GPU {} of "
                  "node '{}', as its faults say",
                  device.info.pci_bus_id, device.index, process().node->name()));
  const Status status = GPEMU_CUDA_ERROR_ILLEGAL_ADDRESS;
  if (process().mps == nullptr) {
    end_one_context(device, status);
  } else {
    process().mps->report(status);
    end_all_contexts(status);
  }
}

void fail_assertion(DeviceState& device, const device::Moment& end, std::string text) {
  device.assertion.set(end, std::move(text));
  device.has_faults.store(true, std::memory_order_relaxed);
}

Status check_faulty_device(DeviceState& device) {
  const Status fatal = device.fatal.load(std::memory_order_relaxed);
  if (fatal != GPEMU_CUDA_SUCCESS) return fatal;
  if (const auto failed = device.assertion.due(clock().now())) {
    if (end_one_context(device, GPEMU_CUDA_ERROR_ASSERT)) {
      tell(fmt::format("a device-side assertion failed on GPU {}: {}", device.index, *failed));
    }
    return device.fatal.load(std::memory_order_relaxed);
  }
  if (clock().now() < lost_from(device)) return GPEMU_CUDA_SUCCESS;
  if (!device.told_lost.exchange(true)) {
    tell(fmt::format("Xid ({}): 79, GPU {} of node '{}' has fallen off the bus, as its faults say",
                     device.info.pci_bus_id, device.index, process().node->name()));
  }
  return kLostStatus;
}

void wait_on_device(const device::Moment& moment, const DeviceState* device) {
  if (device == nullptr || !device->has_faults) return moment.wait(clock());
  while (true) {
    const std::uint32_t seen = moment.news();
    const TimePoint now = clock().now();
    const TimePoint lost = lost_from(*device);
    if (now >= lost || device->fatal != GPEMU_CUDA_SUCCESS || moment.is_over(now)) return;
    // Other processes can end this one's contexts at any time.
    const bool is_client = process().mps != nullptr;
    const TimePoint look = is_client ? saturating_add(now, kFatalPeriod) : TimePoint::max();
    moment.wait_for_news(clock(), seen, std::min(lost, look));
  }
}

std::optional<Duration> time_to_loss(const DeviceState& device) {
  if (!device.has_faults) return std::nullopt;
  const TimePoint lost = lost_from(device);
  if (lost == TimePoint::max()) return std::nullopt;
  const TimePoint now = clock().now();
  return lost <= now ? Duration() : lost - now;
}

double link_share(int device, int peer, topology::LinkClass link) {
  const bool is_nvlink = link == topology::LinkClass::kNvlink;
  return process().node->faults().link_share(
      device, peer, is_nvlink ? profile::GpuLink::kNvlink : profile::GpuLink::kPcie, clock().now());
}

Status check_nvlink(DeviceState& device, int peer) {
  const device::Node& node = *process().node;
  if (!node.faults().nvlink_is_broken(device.index, peer, clock().now())) return GPEMU_CUDA_SUCCESS;
  if (!device.told_broken_link.exchange(true)) {
    tell(fmt::format(
        "Xid ({}): 74, the NVLink of GPU {} of node '{}' to GPU {} is broken, as its faults say",
        device.info.pci_bus_id, device.index, node.name(), peer));
  }
  return GPEMU_CUDA_ERROR_NVLINK_UNCORRECTABLE;
}

void start_faults(const DeviceState& device) {
  // On virtual time, a thread that waits would make time pass.
  if (!device.has_faults || !process().time_is_real) return;
  const TimePoint end = process().node->faults().killed_at(device.index, clock().now());
  if (end == TimePoint::max()) return;
  // The clock and the node are never destroyed.
  std::thread thread = start_thread("gpemu faults", [end] {
    clock().wait_until(end);
    end_process();
  });
  if (thread.joinable()) {
    thread.detach();
  } else {
    tell("cannot start a thread that kills this process when its node's faults say so");
  }
}

void count_for_faults(const DeviceState& device) {
  if (!device.has_faults) return;
  if (process().node->faults().count_collective(device.index, clock().now())) end_process();
}

}  // namespace gpemu::process
