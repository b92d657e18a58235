// SPDX-License-Identifier: Apache-2.0
#include "gpemu/streams/context.hpp"

#include <memory>

#include "gpemu/base/mutex.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/mps.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::streams {
namespace {

/// Makes the primary context of a device if necessary. Errors: DEVICE_UNAVAILABLE, NO_DEVICE,
/// OUT_OF_MEMORY.
process::Status make_context(process::DeviceState& device) {
  process::Process& state = process::process();
  Lock lock(state.mutex);
  if (device.active) return GPEMU_CUDA_SUCCESS;
  std::unique_ptr<device::Device> first;
  if (device.device == nullptr) {
    if (device.mps_client) {
      const process::Status allowed = state.mps->enter(device);
      if (allowed != GPEMU_CUDA_SUCCESS) {
        lock.unlock();
        process::tell(fmt::format("the MPS server refuses a context on GPU {} ({})", device.index,
                                  static_cast<int>(allowed)));
        return allowed;
      }
    }
    auto opened = device.mig ? device::Device::open(state.node, *device.mig, *state.clock,
                                                    device.compute_share)
                             : device::Device::open(state.node, device.index, *state.clock,
                                                    device.mps_client, device.compute_share);
    if (!opened) {
      lock.unlock();
      process::tell(opened.error().message);
      const bool has_no_place = opened.error().code == ErrorCode::kResourceLimit;
      if (device.mps_client && has_no_place) return GPEMU_CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED;
      return opened.error().code == ErrorCode::kUnavailable ? GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE
                                                            : GPEMU_CUDA_ERROR_NO_DEVICE;
    }
    first = *std::move(opened);
    if (device.memory_limit) first->limit_memory(*device.memory_limit);
  }
  const Bytes bytes = state.settings->context_bytes.value_or(device::context_bytes(device.spec));
  const auto context = (first ? first : device.device)->allocate(bytes);
  if (!context) {
    lock.unlock();
    process::tell(context.error().message);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  device.context = *context;
  const bool is_first = first != nullptr;
  if (is_first) {
    device.device = std::move(first);
    make_default_stream(device);
    process::record_device(device);
    device.device->observe(
        [&device](const device::StartedWork& work) { process::record_start(device, work); });
  }
  device.active = true;
  lock.unlock();
  if (is_first) process::start_faults(device);
  return GPEMU_CUDA_SUCCESS;
}

/// As device_with_context, for a device that has no context or may be lost. Apart, so that the
/// usual case is small enough to be inlined.
[[gnu::noinline]] process::Status check_and_make_context(process::DeviceState& device) {
  GPEMU_CUDA_TRY(process::check_device(device));
  return device.active.load(std::memory_order_acquire) ? GPEMU_CUDA_SUCCESS : make_context(device);
}

/// Yields the first device whose compute mode allows this process: that of a thread that has chosen
/// none. Source: CUDA C++ Programming Guide, Compute Modes.
[[gnu::noinline]] process::Status first_available(process::DeviceState** device) {
  process::Status status = GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE;
  for (int i = 0; i < process::device_count() && status == GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE;
       ++i) {
    status = device_with_context(i, device);
  }
  return status;
}

}  // namespace

process::Status device_with_context(int ordinal, process::DeviceState** device) {
  GPEMU_CUDA_TRY(process::attach());
  if (ordinal < 0 || ordinal >= process::device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  process::DeviceState& found = process::device_at(ordinal);
  *device = &found;
  const bool is_usual = found.active.load(std::memory_order_acquire) && !found.has_faults;
  return is_usual ? GPEMU_CUDA_SUCCESS : check_and_make_context(found);
}

process::Status current_device(process::DeviceState** device) {
  return device_with_context(process::thread_state.current_device(), device);
}

process::Status enter_context(process::DeviceState** device) {
  process::ThreadState& thread = process::thread_state;  // Finding it takes a call.
  process::Status status = device_with_context(thread.current_device(), device);
  if (status == GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE && thread.depth == 0) {
    status = first_available(device);
  }
  GPEMU_CUDA_TRY(status);
  return thread.depth == 0 ? thread.push((*device)->ordinal) : GPEMU_CUDA_SUCCESS;
}

void end_context(process::DeviceState& device) {
  for (const auto& part : device.parts) {
    const process::DeviceState::EndPart end = part.load(std::memory_order_acquire);
    if (end != nullptr) end(device);
  }
  process::Process& state = process::process();
  const Lock lock(state.mutex);
  if (!device.active.exchange(false)) return;
  const auto freed = device.device->free(device.context);
  GPEMU_CHECK(freed.has_value(), "the ledger knows a context's memory");
  device.runtime_uses = false;
  device.peers.clear();
  device.limits.clear();
  for (const auto& other : state.devices) other->peers.erase(device.ordinal);
}

}  // namespace gpemu::streams
