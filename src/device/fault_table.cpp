// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/fault_table.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>

#include "gpemu/base/saturate.hpp"

#include "layout.hpp"

namespace gpemu::device {

using profile::Fault;
using profile::FaultKind;

namespace {

/// NVIDIA's numbers. Source: NVIDIA's Xid catalog: "GPU memory page fault", "NVLink error", "GPU
/// has fallen off the bus".
constexpr int kMemoryXid = 31, kNvlinkXid = 74, kLostXid = 79;

bool is_of_link(const Fault& fault) {
  return fault.kind == FaultKind::kSlowLink || fault.kind == FaultKind::kBrokenLink;
}

/// Returns whether a fault of a link concerns that between two devices, or a device and the host.
bool joins(const Fault& fault, int device, int peer) {
  const bool is_its_end = fault.gpu == device || fault.gpu == peer;
  const int other_end = fault.gpu == device ? peer : device;
  return is_its_end && fault.peer.value_or(other_end) == other_end;
}

}  // namespace

bool FaultTable::has_any(int device) const {
  return std::ranges::any_of(
      faults_, [device](const Fault& fault) { return fault.gpu == device || is_of_link(fault); });
}

bool FaultTable::nvlink_is_broken(int device, int peer, TimePoint now) const {
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].kind == FaultKind::kBrokenLink && joins(faults_[i], device, peer) &&
        begin_of(i) <= now) {
      return true;
    }
  }
  return false;
}

std::vector<DeviceXid> FaultTable::xids(int device, TimePoint now) const {
  std::vector<DeviceXid> found;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    const bool is_link = fault.kind == FaultKind::kBrokenLink;
    // Both ends of a link report it.
    const bool concerns = fault.gpu == device || (is_link && fault.peer == device);
    const bool is_memory = fault.kind == FaultKind::kIllegalAddress;
    const bool is_reported = is_link || is_memory || fault.kind == FaultKind::kLost;
    if (!concerns || !is_reported || begin_of(i) > now) continue;
    found.push_back({.time = begin_of(i),
                     .number = is_link     ? kNvlinkXid
                               : is_memory ? kMemoryXid
                                           : kLostXid});
  }
  std::ranges::stable_sort(found, std::less(), &DeviceXid::time);
  return found;
}

bool FaultTable::may_disturb(int device) const {
  return std::ranges::any_of(faults_, [device](const Fault& fault) {
    return fault.gpu == device &&
           (fault.kind == FaultKind::kSlow || fault.kind == FaultKind::kLost);
  });
}

TimePoint FaultTable::begin_of(std::size_t index) const {
  const Fault& fault = faults_[index];
  // A kernel that uses an illegal address is the first one after a time, or has a number.
  const bool is_counted = fault.at_collective != 0 || fault.kind == FaultKind::kIllegalAddress;
  if (!is_counted) return saturating_add(made_, fault.at);
  const std::int64_t begun_ns = records_[index].begun_ns;
  return begun_ns == 0 ? TimePoint::max() : at_ns(begun_ns);
}

/// Returns when a fault is over.
TimePoint FaultTable::end_of(std::size_t index) const {
  const auto& lasts = faults_[index].lasts;
  return lasts ? saturating_add(begin_of(index), *lasts) : TimePoint::max();
}

/// Returns when the first fault of a kind begins, of those that begin at `from` or later.
TimePoint FaultTable::first_of(FaultKind kind, int device, TimePoint from) const {
  TimePoint first = TimePoint::max();
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].kind != kind || faults_[i].gpu != device) continue;
    const TimePoint begin = begin_of(i);
    if (begin >= from) first = std::min(first, begin);
  }
  return first;
}

TimePoint FaultTable::lost_from(int device, TimePoint since) const {
  TimePoint first = TimePoint::max();
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    if (faults_[i].kind != FaultKind::kLost || faults_[i].gpu != device) continue;
    if (end_of(i) > since) first = std::min(first, begin_of(i));
  }
  return first;
}

TimePoint FaultTable::killed_at(int device, TimePoint now) const {
  return first_of(FaultKind::kKill, device, now);
}

double FaultTable::link_share(int device, int peer, profile::GpuLink link, TimePoint now) const {
  double share = 1;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.kind != FaultKind::kSlowLink || fault.link != link) continue;
    if (!joins(fault, device, peer)) continue;
    if (begin_of(i) <= now && now < end_of(i)) share = std::min(share, fault.rate);
  }
  return share;
}

std::vector<FaultTable::Span> FaultTable::slow_spans(int device) const {
  std::vector<Span> spans;
  for (std::size_t i = 0; i < faults_.size(); ++i) {
    const Fault& fault = faults_[i];
    if (fault.kind != FaultKind::kSlow || fault.gpu != device) continue;
    const TimePoint begin = begin_of(i);
    const TimePoint end = end_of(i);
    if (begin < end) spans.push_back({.begin = begin, .end = end, .clock = fault.clock});
  }
  return spans;
}

DeviceHealth FaultTable::health(int device, TimePoint now) const {
  DeviceHealth health{.lost = lost_from(device, now) <= now};
  for (const Span& span : slow_spans(device)) {
    if (span.begin <= now && now < span.end) health.clock = std::min(health.clock, span.clock);
  }
  return health;
}

Duration FaultTable::time_of(int device, TimePoint start, Duration cost) const {
  const std::vector<Span> spans = slow_spans(device);
  const TimePoint lost = lost_from(device, start);
  TimePoint time = start;
  Duration left = cost;
  // Each turn is a part in which the clock does not change.
  while (left > Duration::zero() && time < lost) {
    TimePoint next = lost;
    double clock = 1;
    for (const Span& span : spans) {
      if (time < span.begin) next = std::min(next, span.begin);
      if (time < span.begin || span.end <= time) continue;
      next = std::min(next, span.end);
      clock = std::min(clock, span.clock);
    }
    const Duration needed =
        clock == 1 ? left : from_nanoseconds(static_cast<double>(left.count()) / clock);
    const TimePoint end = saturating_add(time, needed);
    if (end <= next) return end - start;
    const Duration part = next - time;
    left -= clock == 1 ? part : from_nanoseconds(static_cast<double>(part.count()) * clock);
    time = next;
  }
  return time - start;
}

}  // namespace gpemu::device
