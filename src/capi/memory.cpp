// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <unordered_map>
#include <utility>

#include "gpemu/base/log.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/device/pinned_memory.hpp"
#include "gpemu/gpemu.h"

#include "guard.hpp"
#include "handles.hpp"

namespace gpemu {
namespace {

/// Pinned blocks by address, so that they can be freed by address. One table per process, like its
/// heap.
struct PinnedBlocks {
  gpemu::Mutex mutex;
  std::unordered_map<void*, device::PinnedMemory> blocks GPEMU_GUARDED_BY(mutex);
};

PinnedBlocks& pinned_blocks() {
  static auto* const blocks = new PinnedBlocks();
  return *blocks;
}

/// Reports once per process that memory could not be locked.
void tell_not_locked(Bytes bytes) {
  static std::atomic_flag told;
  if (!told.test_and_set()) log(LogLevel::kWarning, "{}", device::not_locked_text(bytes));
}

}  // namespace
}  // namespace gpemu

using gpemu::ErrorCode;
using gpemu::fail;
using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_device_allocate(gpemu_device* device, uint64_t bytes, uint64_t* address) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_allocate", device, address));
    GPEMU_ASSIGN(*address, device->device->allocate(bytes));
    return {};
  });
}

gpemu_status gpemu_device_free(gpemu_device* device, uint64_t address) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_free", device));
    return device->device->free(address);
  });
}

gpemu_status gpemu_device_memory(const gpemu_device* device, uint64_t* free_bytes,
                                 uint64_t* total_bytes) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_memory", device, free_bytes, total_bytes));
    GPEMU_TRY(device->device->check_owner());
    const gpemu::device::MemoryInfo info = device->device->memory_info();
    *free_bytes = info.free;
    *total_bytes = info.total;
    return {};
  });
}

gpemu_status gpemu_pinned_allocate(uint64_t bytes, void** memory) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_pinned_allocate", memory));
    GPEMU_ASSIGN(auto pinned, gpemu::device::PinnedMemory::allocate(bytes));
    if (!pinned.locked()) gpemu::tell_not_locked(bytes);
    void* const address = pinned.bytes().data();
    auto& pinned_blocks = gpemu::pinned_blocks();
    const gpemu::Lock lock(pinned_blocks.mutex);
    pinned_blocks.blocks.emplace(address, std::move(pinned));
    *memory = address;
    return {};
  });
}

gpemu_status gpemu_pinned_lock(void* memory, uint64_t bytes) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_pinned_lock", memory));
    if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "cannot pin 0 bytes");
    GPEMU_ASSIGN(const bool locked,
                 gpemu::device::lock_pages({static_cast<std::byte*>(memory), bytes}));
    if (!locked) gpemu::tell_not_locked(bytes);
    return {};
  });
}

gpemu_status gpemu_pinned_free(void* memory) {
  return guard([=]() -> Result<void> {
    auto& pinned_blocks = gpemu::pinned_blocks();
    const gpemu::Lock lock(pinned_blocks.mutex);
    if (memory == nullptr || pinned_blocks.blocks.erase(memory) == 1) return {};
    return fail(ErrorCode::kInvalidArgument, "{} is not a block of pinned memory", memory);
  });
}
