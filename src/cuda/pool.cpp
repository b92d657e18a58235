// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory: freed memory can be reused by the same stream at once, and by others when
// the stream has reached the point of the free.
#include "pool.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/memory/allocation.hpp"
#include "gpemu/memory/memory_state.hpp"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/peer.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/context.hpp"

#include "capture.hpp"

struct gpemu_cuda_pool {
  struct Cached {
    std::uint64_t address, bytes, stream_id;
    gpemu::device::Moment ready;
  };
  gpemu::process::DeviceState* device = nullptr;
  std::uint64_t max_bytes = 0;  ///< 0: no limit.
  std::uint64_t threshold = 0;
  std::uint64_t reuse[3] = {1, 1, 1};
  std::uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  std::vector<Cached> cached;
  std::set<int> peers;     ///< devices other than its own that may use its memory.
  bool destroyed = false;  ///< ends with its last memory.
};

namespace gpemu::cuda {

constexpr std::size_t kMaxPools = 1 << 12;

struct InUse {
  gpemu_cuda_pool* pool;
  Bytes taken;  ///< of the pool.
  Bytes asked;  ///< by the program: what counts as used, as on an H200 with driver 580.159.
};

struct Pools {
  Mutex mutex;
  process::HandleTable<gpemu_cuda_pool>& table =
      *new process::HandleTable<gpemu_cuda_pool>(kMaxPools);
  std::map<std::uint64_t, InUse> in_use GPEMU_GUARDED_BY(mutex);
  std::set<gpemu_cuda_pool*> all GPEMU_GUARDED_BY(mutex);
  std::map<int, gpemu_cuda_pool*> defaults GPEMU_GUARDED_BY(mutex);  ///< by device.
  std::map<int, gpemu_cuda_pool*> currents GPEMU_GUARDED_BY(mutex);  ///< by device.
  std::atomic<bool> idle{false};  ///< whether any pool may hold idle memory.
};

namespace {

Pools& pools() {
  static constinit process::MadeOnce<Pools> made;
  return made.get();
}

/// Frees memory for which `is_idle` holds until a pool keeps no more than `keep`. Requires: the
/// lock.
template <typename IsIdle>
void trim(gpemu_cuda_pool& pool, Bytes keep, IsIdle is_idle) {
  std::erase_if(pool.cached, [&](const gpemu_cuda_pool::Cached& entry) {
    if (pool.reserved <= keep || !is_idle(entry)) return false;
    static_cast<void>(memory::free_block(entry.address, false));
    pool.reserved -= entry.bytes;
    return true;
  });
}

/// The same for memory that is idle now.
void trim(gpemu_cuda_pool& pool, Bytes keep) {
  if (pool.reserved <= keep) return;
  const TimePoint now = process::clock().now();
  trim(pool, keep, [now](const auto& entry) { return entry.ready.is_over(now); });
}

/// Takes more memory of the device for a pool; if necessary, frees idle memory of the pool. If only
/// running work can make room, the stream waits for it. Source: CUDA Programming Guide,
/// "Stream-Ordered Memory Allocator", on cudaMemPoolReuseAllowInternalDependencies. Requires: the
/// lock. Errors: OUT_OF_MEMORY.
process::Status grow(gpemu_cuda_pool& pool, Bytes bytes, gpemu_cuda_stream& stream,
                     std::uint64_t* address) {
  const auto take = [&]() -> process::Status {
    if (pool.max_bytes != 0 && pool.reserved + bytes > pool.max_bytes) {
      return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    }
    return memory::allocate_on(*pool.device, bytes, memory::Origin::kPool, address);
  };
  process::Status status = take();
  if (status == GPEMU_CUDA_ERROR_OUT_OF_MEMORY) {
    // Memory that the stream freed is idle for that stream at once.
    const TimePoint now = process::clock().now();
    trim(pool, 0, [&](const auto& entry) {
      return entry.stream_id == stream.id || entry.ready.is_over(now);
    });
    status = take();
  }
  const auto ready = [](const auto& entry) { return entry.ready.time(); };
  const bool may_wait = pool.reuse[GPEMU_CUDA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES - 1] != 0;
  while (status == GPEMU_CUDA_ERROR_OUT_OF_MEMORY && may_wait && !pool.cached.empty()) {
    const TimePoint end = ready(std::ranges::min(pool.cached, {}, ready));
    trim(pool, 0, [&](const auto& entry) {
      if (ready(entry) > end) return false;
      stream.stream->wait(entry.ready);
      return true;
    });
    status = take();
  }
  GPEMU_CUDA_TRY(status);
  pool.reserved += bytes;
  return GPEMU_CUDA_SUCCESS;
}

/// Frees all memory of a device's pools and resets them.
void empty_pools(process::DeviceState& device) {
  Pools& state = pools();
  const Lock lock(state.mutex);
  std::erase_if(state.in_use, [&](const auto& entry) {
    if (entry.second.pool->device != &device) return false;
    static_cast<void>(memory::free_block(entry.first, false));
    return true;
  });
  for (gpemu_cuda_pool* const pool : state.all) {
    if (pool->device != &device) continue;
    for (const auto& entry : pool->cached)
      static_cast<void>(memory::free_block(entry.address, false));
    pool->cached.clear();
    pool->peers.clear();
    pool->threshold = 0;
    pool->reserved = pool->reserved_high = pool->used = pool->used_high = 0;
    std::ranges::fill(pool->reuse, 1);
  }
  state.currents.erase(device.ordinal);
}

/// Returns a new pool, or null if there are too many.
gpemu_cuda_pool* make_pool(process::DeviceState& device, Bytes max_bytes)
    GPEMU_REQUIRES(pools().mutex) {
  gpemu_cuda_pool* const pool = pools().table.create();
  if (pool == nullptr) return nullptr;
  pool->device = &device;
  pool->max_bytes = max_bytes;
  pools().all.insert(pool);
  device.end_with_context(process::ContextPart::kPools, empty_pools);
  return pool;
}

gpemu_cuda_pool* default_of(process::DeviceState& device) GPEMU_REQUIRES(pools().mutex) {
  gpemu_cuda_pool*& pool = pools().defaults[device.ordinal];
  if (pool == nullptr) pool = make_pool(device, 0);
  return pool;
}

/// Finds a pool; NULL is the current device's default.
process::Status find(gpemu_cuda_pool_handle handle, gpemu_cuda_pool** pool)
    GPEMU_REQUIRES(pools().mutex) {
  if (handle == nullptr) {
    process::DeviceState* device = nullptr;
    GPEMU_CUDA_TRY(streams::current_device(&device));
    *pool = default_of(*device);
    return *pool == nullptr ? GPEMU_CUDA_ERROR_OUT_OF_MEMORY : GPEMU_CUDA_SUCCESS;
  }
  *pool = pools().table.find(handle);
  return *pool == nullptr || (*pool)->destroyed ? GPEMU_CUDA_ERROR_INVALID_VALUE
                                                : GPEMU_CUDA_SUCCESS;
}

/// Finds the pool for a stream's allocations; NULL is its device's current one.
process::Status find_for(gpemu_cuda_stream& stream, gpemu_cuda_pool_handle handle,
                         gpemu_cuda_pool** pool) GPEMU_REQUIRES(pools().mutex) {
  if (handle != nullptr) return find(handle, pool);
  const auto current = pools().currents.find(stream.device->ordinal);
  *pool = current == pools().currents.end() ? default_of(*stream.device) : current->second;
  return *pool == nullptr ? GPEMU_CUDA_ERROR_OUT_OF_MEMORY : GPEMU_CUDA_SUCCESS;
}

/// Ends a destroyed pool without memory in use.
void end_if_unused(gpemu_cuda_pool* pool) GPEMU_REQUIRES(pools().mutex) {
  if (!pool->destroyed || pool->used > 0) return;
  for (const auto& entry : pool->cached)
    static_cast<void>(memory::free_block(entry.address, false));
  pools().all.erase(pool);
  pools().table.destroy(pool);
}

/// Returns the address of a pool's attribute, or null.
std::uint64_t* value_of(gpemu_cuda_pool& pool, gpemu_cuda_pool_attribute attribute) {
  switch (attribute) {
    case GPEMU_CUDA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case GPEMU_CUDA_POOL_REUSE_ALLOW_OPPORTUNISTIC:
    case GPEMU_CUDA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return &pool.reuse[attribute - 1];
    case GPEMU_CUDA_POOL_RELEASE_THRESHOLD:
      return &pool.threshold;
    case GPEMU_CUDA_POOL_RESERVED_CURRENT:
      return &pool.reserved;
    case GPEMU_CUDA_POOL_RESERVED_HIGH:
      return &pool.reserved_high;
    case GPEMU_CUDA_POOL_USED_CURRENT:
      return &pool.used;
    case GPEMU_CUDA_POOL_USED_HIGH:
      return &pool.used_high;
  }
  return nullptr;
}

/// Memory that a graph allocates and frees at its launches is not emulated. Errors: NOT_SUPPORTED.
process::Status refuse_nodes_of_memory(gpemu_cuda_stream& stream) {
  if (!capturing(stream)) return GPEMU_CUDA_SUCCESS;
  process::record_not_supported("cuda", "graph nodes that allocate memory");
  static_cast<void>(refuse_captured(stream));
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

gpemu_cuda_pool* pool_of(std::uint64_t address) {
  const Lock lock(pools().mutex);
  auto found = pools().in_use.upper_bound(address);
  if (found == pools().in_use.begin()) return nullptr;
  --found;
  return address - found->first < found->second.taken ? found->second.pool : nullptr;
}

bool forget_pooled(std::uint64_t address) {
  const Lock lock(pools().mutex);
  const auto found = pools().in_use.find(address);
  if (found == pools().in_use.end()) return false;
  gpemu_cuda_pool* const pool = found->second.pool;
  pool->used -= found->second.asked;
  pool->reserved -= found->second.taken;
  static_cast<void>(memory::free_block(address, false));
  pools().in_use.erase(found);
  end_if_unused(pool);
  return true;
}

void trim_pools() {
  Pools& state = pools();
  if (!state.idle.load(std::memory_order_relaxed)) return;
  const Lock lock(state.mutex);
  bool idle = false;
  for (gpemu_cuda_pool* const pool : state.all) {
    trim(*pool, pool->threshold);
    idle |= !pool->cached.empty();
  }
  state.idle.store(idle, std::memory_order_relaxed);
}

bool reclaim_pooled(const process::DeviceState& device) {
  Pools& state = pools();
  const Lock lock(state.mutex);
  bool reclaimed = false;
  for (gpemu_cuda_pool* const pool : state.all) {
    if (pool->device != &device) continue;
    const Bytes before = pool->reserved;
    trim(*pool, 0);
    reclaimed |= pool->reserved < before;
  }
  return reclaimed;
}

process::Status create_pool(process::DeviceState& device, Bytes max_bytes, gpemu_cuda_pool** pool) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* const created = make_pool(device, max_bytes);
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *pool = created;
  return GPEMU_CUDA_SUCCESS;
}

process::Status destroy_pool(gpemu_cuda_pool_handle pool) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  if (default_of(*found->device) == found) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  std::erase_if(pools().currents, [&](const auto& entry) { return entry.second == found; });
  found->destroyed = true;
  end_if_unused(found);
  return GPEMU_CUDA_SUCCESS;
}

process::Status default_pool(process::DeviceState& device, gpemu_cuda_pool** pool) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* const created = default_of(device);
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *pool = created;
  return GPEMU_CUDA_SUCCESS;
}

process::Status current_pool(process::DeviceState& device, gpemu_cuda_pool** pool) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* const found = default_of(device);
  if (found == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  const auto current = pools().currents.find(device.ordinal);
  *pool = current == pools().currents.end() ? found : current->second;
  return GPEMU_CUDA_SUCCESS;
}

process::Status set_current_pool(process::DeviceState& device, gpemu_cuda_pool_handle pool) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  if (found->device != &device) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  pools().currents[device.ordinal] = found;
  return GPEMU_CUDA_SUCCESS;
}

process::Status get_pool_value(gpemu_cuda_pool_handle pool, gpemu_cuda_pool_attribute attribute,
                               std::uint64_t* value) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  const std::uint64_t* const kept = value_of(*found, attribute);
  if (kept == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  *value = *kept;
  return GPEMU_CUDA_SUCCESS;
}

process::Status set_pool_value(gpemu_cuda_pool_handle pool, gpemu_cuda_pool_attribute attribute,
                               std::uint64_t value) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  const bool high =
      attribute == GPEMU_CUDA_POOL_RESERVED_HIGH || attribute == GPEMU_CUDA_POOL_USED_HIGH;
  std::uint64_t* const kept = value_of(*found, attribute);
  // High watermarks can only be reset.
  if (kept == nullptr || attribute == GPEMU_CUDA_POOL_RESERVED_CURRENT ||
      attribute == GPEMU_CUDA_POOL_USED_CURRENT || (high && value != 0)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  *kept = !high ? value : attribute == GPEMU_CUDA_POOL_USED_HIGH ? found->used : found->reserved;
  return GPEMU_CUDA_SUCCESS;
}

process::Status set_pool_access(gpemu_cuda_pool_handle pool, int device, bool read_write) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  if (device == found->device->ordinal) {
    // The device that holds the memory always has access.
    return read_write ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_INVALID_DEVICE;
  }
  if (read_write) {
    // Source: CUDA C++ Programming Guide, "Device Accessibility for Multi-GPU Support".
    if (!process::can_access(process::device_at(device), *found->device))
      return GPEMU_CUDA_ERROR_INVALID_DEVICE;
    found->peers.insert(device);
  } else {
    found->peers.erase(device);
  }
  return GPEMU_CUDA_SUCCESS;
}

process::Status get_pool_access(gpemu_cuda_pool_handle pool, int device, bool* read_write) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  *read_write = device == found->device->ordinal || found->peers.contains(device);
  return GPEMU_CUDA_SUCCESS;
}

process::Status trim_pool(gpemu_cuda_pool_handle pool, Bytes keep) {
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  trim(*found, keep);
  return GPEMU_CUDA_SUCCESS;
}

process::Status allocate_async(Bytes bytes, gpemu_cuda_pool_handle pool, gpemu_cuda_stream& stream,
                               std::uint64_t* address) {
  GPEMU_CUDA_TRY(refuse_nodes_of_memory(stream));
  if (bytes == 0) {
    *address = 0;
    return GPEMU_CUDA_SUCCESS;
  }
  const Lock lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find_for(stream, pool, &found));
  if (bytes > found->device->info.total_memory) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t taken = memory::round_up(bytes, 512);
  const TimePoint now = process::clock().now();
  const auto again = std::ranges::find_if(found->cached, [&](const auto& entry) {
    return entry.bytes == taken && (entry.stream_id == stream.id || entry.ready.is_over(now));
  });
  // Made before the memory is taken, which would be lost if there were no room for this.
  std::map<std::uint64_t, InUse> entry{{0, InUse{.pool = found, .taken = taken, .asked = bytes}}};
  if (again != found->cached.end()) {
    *address = again->address;
    found->cached.erase(again);
  } else {
    GPEMU_CUDA_TRY(grow(*found, taken, stream, address));
  }
  auto node = entry.extract(entry.begin());
  node.key() = *address;
  pools().in_use.insert(std::move(node));
  found->used += bytes;
  found->used_high = std::max(found->used_high, found->used);
  found->reserved_high = std::max(found->reserved_high, found->reserved);
  trim(*found, found->threshold);
  return GPEMU_CUDA_SUCCESS;
}

process::Status free_async(std::uint64_t address, gpemu_cuda_stream& stream) {
  GPEMU_CUDA_TRY(refuse_nodes_of_memory(stream));
  if (address == 0) return GPEMU_CUDA_SUCCESS;
  const Lock lock(pools().mutex);
  const auto found = pools().in_use.find(address);
  if (found == pools().in_use.end()) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_pool* const pool = found->second.pool;
  pool->used -= found->second.asked;
  pool->cached.push_back({.address = address,
                          .bytes = found->second.taken,
                          .stream_id = stream.id,
                          .ready = stream.stream->tail()});
  pools().in_use.erase(found);
  pools().idle.store(true, std::memory_order_relaxed);
  end_if_unused(pool);
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
