// SPDX-License-Identifier: Apache-2.0
#include "device_claims.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "gpemu/base/error.hpp"

namespace gpemu::device {

DeviceClaims::DeviceClaims(Bytes capacity, std::span<layout::HoldingRecord> holdings,
                           std::size_t slot, Others others)
    : holdings_(holdings),
      published_(holdings[slot]),
      others_(std::move(others)),
      capacity_(capacity) {}

void DeviceClaims::set_capacity(Bytes capacity) {
  const Lock lock(mutex_);
  capacity_ = capacity;
}

Bytes DeviceClaims::capacity() {
  const Lock lock(mutex_);
  return capacity_;
}

void DeviceClaims::set_limit(Bytes limit) {
  const Lock lock(mutex_);
  limit_ = limit;
}

Bytes DeviceClaims::limit() {
  const Lock lock(mutex_);
  return limit_;
}

bool DeviceClaims::fits(Bytes bytes) const {
  if (memory_ > limit_ || bytes > limit_ - memory_) return false;
  const Slots attachments = others_.attachments();
  if (published_.tenant != 0 && limit_ < std::numeric_limits<Bytes>::max()) {
    const Bytes of_tenant = held_by_tenant(attachments);
    if (of_tenant > limit_ - memory_ || bytes > limit_ - memory_ - of_tenant) return false;
  }
  const Bytes others = memory_held(holdings_, attachments);
  return others <= capacity_ && memory_ <= capacity_ - others &&
         bytes <= capacity_ - others - memory_;
}

Bytes DeviceClaims::held_by_tenant(const Slots& others) const {
  const std::uint32_t tenant = published_.tenant;
  if (tenant == 0) return 0;
  Slots its;
  for (std::size_t slot = 0; slot < holdings_.size(); ++slot) {
    if (others[slot] && holdings_[slot].tenant == tenant) its.set(slot);
  }
  return memory_held(holdings_, its);
}

bool DeviceClaims::take_memory(Bytes bytes) {
  Lock lock(mutex_);
  for (int attempt = 0; attempt < kMostAttempts && fits(bytes); ++attempt) {
    published_.memory = memory_ + bytes;
    if (fits(bytes)) {
      memory_ += bytes;
      return true;
    }
    // Others claimed the same memory at the same time.
    published_.memory = memory_;
    lock.unlock();  // The other threads of this process need not wait as well.
    others_.pause(attempt);
    lock.lock();
  }
  return false;
}

void DeviceClaims::give_back_memory(Bytes bytes) {
  const Lock lock(mutex_);
  GPEMU_CHECK(bytes <= memory_, "more memory is given back than was taken");
  memory_ -= bytes;
  published_.memory = memory_;
}

Bytes DeviceClaims::memory() {
  const Lock lock(mutex_);
  return memory_;
}

Bytes DeviceClaims::limited_memory() {
  const Bytes of_tenant = held_by_tenant(others_.attachments());
  const Lock lock(mutex_);
  return memory_ + std::min(of_tenant, std::numeric_limits<Bytes>::max() - memory_);
}

std::optional<DeviceClaims::Refusal> DeviceClaims::add_context(bool alone, bool is_mps_client) {
  Lock lock(mutex_);
  if (contexts_ == 0) published_.is_mps_client = is_mps_client ? 1 : 0;
  for (int attempt = 0; alone && contexts_ == 0; ++attempt) {
    const auto other = other_user(is_mps_client);
    if (other || attempt == kMostAttempts) return Refusal{other};
    published_.contexts = 1;
    if (!other_user(is_mps_client)) break;
    // Another process claimed it at the same time.
    published_.contexts = 0;
    lock.unlock();  // The other threads of this process need not wait as well.
    others_.pause(attempt);
    lock.lock();
  }
  published_.contexts = ++contexts_;
  return std::nullopt;
}

void DeviceClaims::remove_context() {
  const Lock lock(mutex_);
  GPEMU_CHECK(contexts_ > 0, "a context is removed twice");
  published_.contexts = --contexts_;
}

/// Returns a process that has a context, except this one and, for a client of MPS, other clients.
std::optional<std::size_t> DeviceClaims::other_user(bool is_mps_client) const {
  const Slots others = others_.attachments();
  for (std::size_t slot = 0; slot < holdings_.size(); ++slot) {
    if (!others[slot] || holdings_[slot].contexts == 0 || others_.is_own(slot)) continue;
    if (!is_mps_client || holdings_[slot].is_mps_client == 0) return slot;
  }
  return std::nullopt;
}

}  // namespace gpemu::device
