// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "nvml.hpp"

namespace nvml {

/// The target of an nvmlEventSet_t.
struct EventSet {
  struct Registration {
    int32_t index;
    int32_t reported;  ///< so many of the device's Xids, from its first on.
  };
  std::mutex mutex;
  std::vector<Registration> registrations;
};

namespace {

/// How often a waiting thread looks: a fault may begin with a collective, so nobody knows when.
constexpr std::chrono::milliseconds kLookPeriod(5);
/// More than a node has faults.
constexpr int32_t kMostXids = 64;

/// The sets that have not been freed.
std::mutex sets_mutex;
std::set<std::shared_ptr<EventSet>> sets;

std::shared_ptr<EventSet> find_set(const EventSet* set) {
  const std::lock_guard lock(sets_mutex);
  const auto found = std::ranges::find(sets, set, &std::shared_ptr<EventSet>::get);
  return found == sets.end() ? nullptr : *found;
}

struct Xids {
  std::array<int32_t, kMostXids> numbers;
  int32_t count = kMostXids;
  int status;
};

Xids xids_of(int32_t index) {
  Xids xids{};
  xids.count = kMostXids;
  xids.status = status_of(gpemu_monitor_get_xids(index, xids.numbers.data(), &xids.count));
  xids.count = std::min(xids.count, kMostXids);
  return xids;
}

/// Takes the next event of a set. Returns TIMEOUT if there is none.
int take_event(EventSet& set, EventData* event) {
  const std::lock_guard lock(set.mutex);
  for (EventSet::Registration& one : set.registrations) {
    const Xids xids = xids_of(one.index);
    if (xids.status != kSuccess) return xids.status;
    if (one.reported >= xids.count) continue;
    const int32_t xid = xids.numbers[static_cast<size_t>(one.reported++)];
    *event = {.device = handle_of(one.index),
              .type = kXidEvent,
              .data = static_cast<uint64_t>(xid),
              .gpu_instance = kNoInstance,
              .compute_instance = kNoInstance};
    return kSuccess;
  }
  return kTimeout;
}

int wait(const EventSet* handle, EventData* event, unsigned timeout_ms) {
  if (device_count() < 0) return kUninitialized;
  const std::shared_ptr<EventSet> set = find_set(handle);
  if (set == nullptr || event == nullptr) return kInvalidArgument;
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    const int status = take_event(*set, event);
    const auto now = steady_clock::now();
    if (status != kTimeout || now >= end) return status;
    std::this_thread::sleep_for(std::min<steady_clock::duration>(kLookPeriod, end - now));
  }
}

}  // namespace
}  // namespace nvml

using nvml::EventSet;
using nvml::Handle;

GPEMU_SHIM_EXPORT int nvmlEventSetCreate(EventSet** set) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  if (set == nullptr) return nvml::kInvalidArgument;
  auto made = std::make_shared<EventSet>();
  *set = made.get();
  const std::lock_guard lock(nvml::sets_mutex);
  nvml::sets.insert(std::move(made));
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlEventSetFree(EventSet* set) {
  if (nvml::device_count() < 0) return nvml::kUninitialized;
  const std::shared_ptr<EventSet> found = nvml::find_set(set);
  if (found == nullptr) return nvml::kInvalidArgument;
  const std::lock_guard lock(nvml::sets_mutex);
  nvml::sets.erase(found);
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetSupportedEventTypes(Handle* device, uint64_t* types) {
  if (types == nullptr) return nvml::kInvalidArgument;
  const auto [index, status] = nvml::index_of(device);
  if (status == nvml::kSuccess) *types = nvml::kXidEvent;
  return status;
}
/// Events from before the registration are not reported.
GPEMU_SHIM_EXPORT int nvmlDeviceRegisterEvents(Handle* device, uint64_t types, EventSet* set) {
  const auto [index, status] = nvml::index_of(device);
  if (status != nvml::kSuccess) return status;
  const std::shared_ptr<EventSet> found = nvml::find_set(set);
  if (found == nullptr) return nvml::kInvalidArgument;
  if ((types & ~nvml::kXidEvent) != 0) return nvml::kNotSupported;
  const nvml::Xids xids = nvml::xids_of(index);
  if (xids.status != nvml::kSuccess || types == 0) return xids.status;
  const std::lock_guard lock(found->mutex);
  const auto is_known = [wanted = index](const EventSet::Registration& one) {
    return one.index == wanted;
  };
  if (std::ranges::none_of(found->registrations, is_known)) {
    found->registrations.push_back({.index = index, .reported = xids.count});
  }
  return nvml::kSuccess;
}
GPEMU_SHIM_EXPORT int nvmlEventSetWait(EventSet* set, nvml::EventData* data, unsigned timeout_ms) {
  if (data == nullptr) return nvml::kInvalidArgument;
  nvml::EventData event{};
  const int status = nvml::wait(set, &event, timeout_ms);
  if (status == nvml::kSuccess) std::memcpy(data, &event, offsetof(nvml::EventData, gpu_instance));
  return status;
}
GPEMU_SHIM_EXPORT int nvmlEventSetWait_v2(EventSet* set, nvml::EventData* data,
                                          unsigned timeout_ms) {
  if (data == nullptr) return nvml::kInvalidArgument;
  return nvml::wait(set, data, timeout_ms);
}
