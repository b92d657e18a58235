// SPDX-License-Identifier: Apache-2.0
#include "read_counts.hpp"

#include <atomic>
#include <string>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"

namespace gpemu::process {

bool ReadCounts::add(std::uint64_t address, Bytes bytes, WriterId writer) {
  count(bytes, writer);
  return is_polled(address, bytes, writer);
}

void ReadCounts::count(Bytes bytes, WriterId writer) {
  const auto [entry, added] = places_.emplace(writer, places_.size());
  if (entry->second >= totals_.size()) return;
  RecordedRead& total = totals_[entry->second];
  if (added) {
    const std::string name = kernels::readable_name(writer_name(writer));
    total.writer[name.copy(total.writer, sizeof total.writer - 1)] = '\0';
  }
  // `gpemu run` may read the entry meanwhile.
  std::atomic_ref(total.bytes)
      .fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  std::atomic_ref(total.count).fetch_add(1, std::memory_order_relaxed);
}

bool ReadCounts::is_polled(std::uint64_t address, Bytes bytes, WriterId writer) {
  if (bytes > kPolledBytes) return false;
  if (polls_.size() >= kMaxAddresses && !polls_.contains(address)) return false;
  return ++polls_[address] == kPolls && polled_.insert(writer).second;
}

}  // namespace gpemu::process
