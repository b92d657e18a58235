// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"

/// A function of LeakSanitizer, absent without it: objects to which the region points are in use.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer's name.
extern "C" [[gnu::weak]] void __lsan_register_root_region(const void* begin, std::size_t bytes);

namespace gpemu::process {

/// Objects of one kind that a program names by pointers. Handles may be any bits: the table finds
/// out whether they name a live object without dereferencing them.
///
/// Slots are reused and their memory is never freed. Thread safety: any thread; destroying an
/// object that another thread uses is an error, as in CUDA, but the memory stays mapped.
template <typename Object>
class HandleTable {
 public:
  explicit HandleTable(std::size_t capacity) : capacity_(capacity) {
    // Unused slots cost only address space.
    void* const memory = ::mmap(nullptr, capacity * sizeof(Slot), PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    GPEMU_CHECK(memory != MAP_FAILED, "no address space for a table of handles");
    slots_ = static_cast<Slot*>(memory);
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;
  ~HandleTable() = delete;  ///< tables exist as long as the process.

  /// Returns a new object, or null if the table is full.
  template <typename... Args>
  Object* create(Args&&... args) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    Slot* slot = nullptr;
    if (!free_.empty()) {
      slot = free_.back();
      free_.pop_back();
    } else if (used_ < capacity_) {
      if (used_ % kRootSlots == 0 && __lsan_register_root_region != nullptr) {
        const std::size_t count = std::min(kRootSlots, capacity_ - used_);
        __lsan_register_root_region(&slots_[used_], count * sizeof(Slot));
      }
      slot = &slots_[used_++];
    } else {
      return nullptr;
    }
    auto* const object = new (slot->object) Object{std::forward<Args>(args)...};
    slot->alive.store(true, std::memory_order_release);
    return object;
  }

  /// Returns the live object that `handle` names, or null.
  [[nodiscard]] Object* find(const void* handle) const {
    const auto offset =
        reinterpret_cast<std::uintptr_t>(handle) - reinterpret_cast<std::uintptr_t>(slots_);
    if (offset >= capacity_ * sizeof(Slot) || offset % sizeof(Slot) != 0) return nullptr;
    Slot& slot = slots_[offset / sizeof(Slot)];
    if (!slot.alive.load(std::memory_order_acquire)) return nullptr;
    return std::launder(reinterpret_cast<Object*>(slot.object));
  }

  /// Calls a function with each live object. Requires: none is destroyed meanwhile.
  template <typename Function>
  void for_each(Function&& function) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    for (std::size_t i = 0; i < used_; ++i) {
      if (slots_[i].alive.load(std::memory_order_acquire)) {
        function(*std::launder(reinterpret_cast<Object*>(slots_[i].object)));
      }
    }
  }

  /// Requires: `object` is alive.
  void destroy(Object* object) GPEMU_EXCLUDES(mutex_) {
    Slot* const slot = reinterpret_cast<Slot*>(object);
    if (!slot->alive.exchange(false)) return;
    object->~Object();
    const Lock lock(mutex_);
    free_.push_back(slot);
  }

 private:
  /// Slots shown to LeakSanitizer at a time; it reads all of them at every check.
  static constexpr std::size_t kRootSlots = 1024;

  struct Slot {
    alignas(Object) std::byte object[sizeof(Object)];
    std::atomic<bool> alive;
  };

  std::size_t capacity_;
  Slot* slots_ = nullptr;
  Mutex mutex_;
  std::size_t used_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::vector<Slot*> free_ GPEMU_GUARDED_BY(mutex_);
};

}  // namespace gpemu::process
