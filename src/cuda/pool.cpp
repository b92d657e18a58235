// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory: what a stream freed is given again to that stream at once, and to others
// when the stream has come so far.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "capture.hpp"
#include "handle_table.hpp"
#include "memory_state.hpp"
#include "stream.hpp"

struct gpemu_cuda_pool {
  struct Cached {
    std::uint64_t address, bytes, stream_id;
    gpemu::TimePoint ready;
  };
  gpemu::cuda::DeviceState* device = nullptr;
  std::uint64_t max_bytes = 0;  ///< 0: no limit.
  std::uint64_t threshold = 0;
  std::uint64_t reuse[3] = {1, 1, 1};
  std::uint64_t reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  std::vector<Cached> cached;
  std::set<int> peers;     ///< devices other than its own that may use its memory.
  bool destroyed = false;  ///< ends with its last memory.
};

namespace gpemu::cuda {
namespace {

constexpr std::size_t kMaxPools = 1 << 12;

struct InUse {
  gpemu_cuda_pool* pool;
  Bytes bytes;
};

struct Pools {
  std::mutex mutex;
  HandleTable<gpemu_cuda_pool>& table = *new HandleTable<gpemu_cuda_pool>(kMaxPools);
  std::map<std::uint64_t, InUse> in_use;
  std::set<gpemu_cuda_pool*> all;
  std::map<int, gpemu_cuda_pool*> defaults, currents;  ///< by device.
  std::atomic<bool> idle{false};                       ///< whether any may keep idle memory.
};

Pools& pools() {
  static auto* const instance = new Pools;
  return *instance;
}

/// Gives memory that is idle at a time back until a pool keeps no more than `keep`; what the stream
/// of an id freed is idle for that stream at once. Requires: the lock.
void trim(gpemu_cuda_pool& pool, Bytes keep, TimePoint time, std::uint64_t stream_id = 0) {
  if (pool.reserved <= keep) return;
  std::erase_if(pool.cached, [&](const gpemu_cuda_pool::Cached& entry) {
    const bool idle = entry.ready <= time || entry.stream_id == stream_id;
    if (pool.reserved <= keep || !idle) return false;
    static_cast<void>(free_block(entry.address, false));
    pool.reserved -= entry.bytes;
    return true;
  });
}

/// Takes more memory of the device for a pool; what idles in the pool makes room. Where only work
/// that goes on makes room, the stream waits for it. Source: CUDA Programming Guide,
/// "Stream-Ordered Memory Allocator", on cudaMemPoolReuseAllowInternalDependencies. Requires: the
/// lock. Errors: OUT_OF_MEMORY.
Status grow(gpemu_cuda_pool& pool, Bytes bytes, gpemu_cuda_stream& stream, std::uint64_t* address) {
  const auto take = [&]() -> Status {
    if (pool.max_bytes != 0 && pool.reserved + bytes > pool.max_bytes) {
      return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    }
    return allocate_on(*pool.device, bytes, GPEMU_CUDA_MEMORY_DEVICE, address);
  };
  Status status = take();
  if (status == GPEMU_CUDA_ERROR_OUT_OF_MEMORY) {
    trim(pool, 0, gpemu::cuda::clock().now(), stream.id);
    status = take();
  }
  TimePoint end{};
  const bool may_wait = pool.reuse[GPEMU_CUDA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES - 1] != 0;
  while (status == GPEMU_CUDA_ERROR_OUT_OF_MEMORY && may_wait && !pool.cached.empty()) {
    end = std::ranges::min(pool.cached, {}, &gpemu_cuda_pool::Cached::ready).ready;
    trim(pool, 0, end);
    status = take();
  }
  GPEMU_CUDA_TRY(status);
  if (end != TimePoint{}) stream.stream->wait(device::Event(end));
  pool.reserved += bytes;
  return GPEMU_CUDA_SUCCESS;
}

/// Requires: the lock.
gpemu_cuda_pool* default_of(DeviceState& device) {
  gpemu_cuda_pool*& pool = pools().defaults[device.ordinal];
  if (pool == nullptr) {
    pool = pools().table.create();
    if (pool == nullptr) return nullptr;
    pool->device = &device;
    pools().all.insert(pool);
  }
  return pool;
}

/// Finds a pool; NULL is the current device's default. Requires: the lock.
Status find(gpemu_cuda_pool_handle handle, gpemu_cuda_pool** pool) {
  if (handle == nullptr) {
    DeviceState* device = nullptr;
    GPEMU_CUDA_TRY(current_device(&device));
    *pool = default_of(*device);
    return *pool == nullptr ? GPEMU_CUDA_ERROR_OUT_OF_MEMORY : GPEMU_CUDA_SUCCESS;
  }
  *pool = pools().table.find(handle);
  return *pool == nullptr || (*pool)->destroyed ? GPEMU_CUDA_ERROR_INVALID_VALUE
                                                : GPEMU_CUDA_SUCCESS;
}

/// Finds the pool that a stream's allocations come from; NULL is its device's current one.
/// Requires: the lock.
Status find_for(gpemu_cuda_stream& stream, gpemu_cuda_pool_handle handle, gpemu_cuda_pool** pool) {
  if (handle != nullptr) return find(handle, pool);
  const auto current = pools().currents.find(stream.device->ordinal);
  *pool = current == pools().currents.end() ? default_of(*stream.device) : current->second;
  return *pool == nullptr ? GPEMU_CUDA_ERROR_OUT_OF_MEMORY : GPEMU_CUDA_SUCCESS;
}

/// Ends a destroyed pool that nothing is in use of. Requires: the lock.
void end_if_unused(gpemu_cuda_pool* pool) {
  if (!pool->destroyed || pool->used > 0) return;
  for (const auto& entry : pool->cached) static_cast<void>(free_block(entry.address, false));
  pools().all.erase(pool);
  pools().table.destroy(pool);
}

/// Memory that a graph takes and gives back at its launches is not emulated. Errors: NOT_SUPPORTED.
Status refuse_nodes_of_memory(gpemu_cuda_stream& stream) {
  if (!capturing(stream)) return GPEMU_CUDA_SUCCESS;
  gpemu_cuda_not_supported("cuda", "graph nodes that allocate memory");
  static_cast<void>(refuse_captured(stream));
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

bool forget_pooled(std::uint64_t address) {
  Pools& state = pools();
  const std::lock_guard lock(state.mutex);
  const auto found = state.in_use.find(address);
  if (found == state.in_use.end()) return false;
  gpemu_cuda_pool* const pool = found->second.pool;
  pool->used -= found->second.bytes;
  pool->reserved -= found->second.bytes;
  static_cast<void>(free_block(address, false));
  state.in_use.erase(found);
  end_if_unused(pool);
  return true;
}

void trim_pools() {
  Pools& state = pools();
  if (!state.idle.load(std::memory_order_relaxed)) return;
  const TimePoint now = clock().now();
  const std::lock_guard lock(state.mutex);
  bool idle = false;
  for (gpemu_cuda_pool* const pool : state.all) {
    trim(*pool, pool->threshold, now);
    idle |= !pool->cached.empty();
  }
  state.idle.store(idle, std::memory_order_relaxed);
}

bool reclaim_pooled(const DeviceState& device) {
  Pools& state = pools();
  const TimePoint now = clock().now();
  const std::lock_guard lock(state.mutex);
  bool reclaimed = false;
  for (gpemu_cuda_pool* const pool : state.all) {
    if (pool->device != &device) continue;
    const Bytes before = pool->reserved;
    trim(*pool, 0, now);
    reclaimed |= pool->reserved < before;
  }
  return reclaimed;
}

void empty_pools(DeviceState& device) {
  Pools& state = pools();
  const std::lock_guard lock(state.mutex);
  std::erase_if(state.in_use, [&](const auto& entry) {
    if (entry.second.pool->device != &device) return false;
    static_cast<void>(free_block(entry.first, false));
    return true;
  });
  for (gpemu_cuda_pool* const pool : state.all) {
    if (pool->device != &device) continue;
    for (const auto& entry : pool->cached) static_cast<void>(free_block(entry.address, false));
    pool->cached.clear();
    pool->peers.clear();
    pool->threshold = 0;
    pool->reserved = pool->reserved_high = pool->used = pool->used_high = 0;
    std::ranges::fill(pool->reuse, 1);
  }
  state.currents.erase(device.ordinal);
}

}  // namespace gpemu::cuda

// ---- The C interface

using gpemu::cuda::attach;
using gpemu::cuda::default_of;
using gpemu::cuda::device_count;
using gpemu::cuda::device_with_context;
using gpemu::cuda::DeviceState;
using gpemu::cuda::end_if_unused;
using gpemu::cuda::find;
using gpemu::cuda::find_for;
using gpemu::cuda::grow;
using gpemu::cuda::InUse;
using gpemu::cuda::pools;
using gpemu::cuda::refuse_nodes_of_memory;
using gpemu::cuda::resolve_for_work;
using gpemu::cuda::round_up;
using gpemu::cuda::Status;
using gpemu::cuda::trim;

gpemu_cuda_status gpemu_cuda_pool_create(int32_t device, uint64_t max_bytes,
                                         gpemu_cuda_pool_handle* pool) {
  if (pool == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  DeviceState* found = nullptr;
  GPEMU_CUDA_TRY(device_with_context(device, &found));
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* const created = pools().table.create();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  created->device = found;
  created->max_bytes = max_bytes;
  pools().all.insert(created);
  *pool = created;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_pool_destroy(gpemu_cuda_pool_handle pool) {
  GPEMU_CUDA_TRY(attach());
  if (pool == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  if (default_of(*found->device) == found) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  std::erase_if(pools().currents, [&](const auto& entry) { return entry.second == found; });
  found->destroyed = true;
  end_if_unused(found);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_pool_default(int32_t device, gpemu_cuda_pool_handle* pool) {
  if (pool == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  DeviceState* found = nullptr;
  GPEMU_CUDA_TRY(device_with_context(device, &found));
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* const created = default_of(*found);
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *pool = created;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_pool_current(int32_t device, gpemu_cuda_pool_handle* pool) {
  gpemu_cuda_pool_handle found = nullptr;
  if (pool == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(gpemu_cuda_pool_default(device, &found));
  const std::lock_guard lock(pools().mutex);
  const auto current = pools().currents.find(device);
  *pool = current == pools().currents.end() ? found : current->second;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_pool_set_current(int32_t device, gpemu_cuda_pool_handle pool) {
  DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(device_with_context(device, &state));
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  if (found->device != state) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  pools().currents[device] = found;
  return GPEMU_CUDA_SUCCESS;
}

namespace {

/// Returns where a pool keeps an attribute, or null.
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

}  // namespace

gpemu_cuda_status gpemu_cuda_pool_get(gpemu_cuda_pool_handle pool,
                                      gpemu_cuda_pool_attribute attribute, uint64_t* value) {
  if (value == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  const std::uint64_t* const kept = value_of(*found, attribute);
  if (kept == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  *value = *kept;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_pool_set(gpemu_cuda_pool_handle pool,
                                      gpemu_cuda_pool_attribute attribute, uint64_t value) {
  GPEMU_CUDA_TRY(attach());
  const std::lock_guard lock(pools().mutex);
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

gpemu_cuda_status gpemu_cuda_pool_set_access(gpemu_cuda_pool_handle pool, int32_t device,
                                             int32_t read_write) {
  GPEMU_CUDA_TRY(attach());
  if (device < 0 || device >= device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  if (device == found->device->ordinal) {
    // The device that holds the memory always has access.
    return read_write != 0 ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_INVALID_DEVICE;
  }
  if (read_write != 0) {
    found->peers.insert(device);
  } else {
    found->peers.erase(device);
  }
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_pool_get_access(gpemu_cuda_pool_handle pool, int32_t device,
                                             int32_t* read_write) {
  if (read_write == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  if (device < 0 || device >= device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  *read_write = device == found->device->ordinal || found->peers.contains(device) ? 1 : 0;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_pool_trim(gpemu_cuda_pool_handle pool, uint64_t keep_bytes) {
  GPEMU_CUDA_TRY(attach());
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find(pool, &found));
  trim(*found, keep_bytes, gpemu::cuda::clock().now());
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_malloc_async(uint64_t bytes, gpemu_cuda_pool_handle pool,
                                          gpemu_cuda_stream_handle stream, uint64_t* address) {
  if (address == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* queue = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &queue));
  GPEMU_CUDA_TRY(refuse_nodes_of_memory(*queue));
  if (bytes == 0) {
    *address = 0;
    return GPEMU_CUDA_SUCCESS;
  }
  const std::lock_guard lock(pools().mutex);
  gpemu_cuda_pool* found = nullptr;
  GPEMU_CUDA_TRY(find_for(*queue, pool, &found));
  if (bytes > found->device->info.total_memory) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  const std::uint64_t taken = round_up(bytes, 512);
  const gpemu::TimePoint now = gpemu::cuda::clock().now();
  const auto again = std::ranges::find_if(found->cached, [&](const auto& entry) {
    return entry.bytes == taken && (entry.stream_id == queue->id || entry.ready <= now);
  });
  if (again != found->cached.end()) {
    *address = again->address;
    found->cached.erase(again);
  } else {
    GPEMU_CUDA_TRY(grow(*found, taken, *queue, address));
  }
  found->used += taken;
  found->used_high = std::max(found->used_high, found->used);
  found->reserved_high = std::max(found->reserved_high, found->reserved);
  pools().in_use.emplace(*address, InUse{.pool = found, .bytes = taken});
  trim(*found, found->threshold, now);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_free_async(uint64_t address, gpemu_cuda_stream_handle stream) {
  gpemu_cuda_stream* queue = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &queue));
  GPEMU_CUDA_TRY(refuse_nodes_of_memory(*queue));
  if (address == 0) return GPEMU_CUDA_SUCCESS;
  const std::lock_guard lock(pools().mutex);
  const auto found = pools().in_use.find(address);
  if (found == pools().in_use.end()) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_pool* const pool = found->second.pool;
  pool->used -= found->second.bytes;
  pool->cached.push_back({.address = address,
                          .bytes = found->second.bytes,
                          .stream_id = queue->id,
                          .ready = queue->stream->tail()});
  pools().in_use.erase(found);
  pools().idle.store(true, std::memory_order_relaxed);
  end_if_unused(pool);
  return GPEMU_CUDA_SUCCESS;
}
