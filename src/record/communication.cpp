// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/communication.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace gpemu::record {
namespace {

using OrderedJson = nlohmann::ordered_json;

double per_second(std::int64_t bytes, std::int64_t time_ns) {
  return time_ns > 0 ? static_cast<double>(bytes) / (static_cast<double>(time_ns) * 1e-9) : 0;
}

void sort_by_time(OrderedJson& entries, const auto& time_of) {
  std::stable_sort(
      entries.begin(), entries.end(),
      [&time_of](const OrderedJson& a, const OrderedJson& b) { return time_of(a) > time_of(b); });
}

OrderedJson kinds_of(const std::vector<RecordedProcess>& processes) {
  std::map<std::pair<std::string, std::int64_t>, process::RecordedCollectiveKind> sums;
  for (const RecordedProcess& process : processes) {
    for (const process::RecordedCollectiveKind& kind : process.totals.collectives) {
      if (kind.count == 0) continue;
      process::RecordedCollectiveKind& sum = sums[{kind.name, kind.ranks}];
      sum.count += kind.count;
      sum.bytes += kind.bytes;
      sum.bus_bytes += kind.bus_bytes;
      sum.waiting_ns += kind.waiting_ns;
      sum.moving_ns += kind.moving_ns;
    }
  }
  OrderedJson kinds = OrderedJson::array();
  for (const auto& [key, sum] : sums) {
    kinds.push_back({{"name", key.first},
                     {"ranks", key.second},
                     {"count", sum.count},
                     {"bytes", sum.bytes},
                     {"waiting_ns", sum.waiting_ns},
                     {"moving_ns", sum.moving_ns},
                     {"algorithm_bytes_per_s", per_second(sum.bytes, sum.moving_ns)},
                     {"bus_bytes_per_s", per_second(sum.bus_bytes, sum.moving_ns)}});
  }
  sort_by_time(kinds, [](const OrderedJson& kind) {
    return kind["waiting_ns"].get<std::int64_t>() + kind["moving_ns"].get<std::int64_t>();
  });
  return kinds;
}

/// The rank of a GPU of the node, and how long others waited for it.
struct Straggler {
  std::int64_t process = 0;
  const process::RecordedDevice* device = nullptr;  ///< null: it left no record.
  std::int64_t time_ns = 0;
  std::int64_t waiters = 0;  ///< ranks of the processes that waited.
};

OrderedJson waited_for(const std::vector<RecordedProcess>& processes) {
  std::map<std::int64_t, Straggler> stragglers;  // By the index of their GPUs.
  for (const RecordedProcess& process : processes) {
    std::vector<const process::RecordedDevice*> ranks = devices_of(process);
    std::erase_if(ranks, [](const process::RecordedDevice* device) { return device->ranks == 0; });
    for (const process::RecordedDevice* device : ranks) {
      Straggler& known = stragglers[device->index];
      if (known.device != nullptr && known.device->ranks >= device->ranks) continue;
      known.process = process.totals.process;
      known.device = device;
    }
    for (int index = 0; index < process::ProcessRecord::kMaxDevices; ++index) {
      const std::int64_t time_ns = process.totals.waited_for_ns[index];
      if (time_ns <= 0) continue;
      Straggler& known = stragglers[index];
      known.time_ns += time_ns;
      known.waiters += std::ranges::count_if(
          ranks, [index](const process::RecordedDevice* device) { return device->index != index; });
    }
  }
  OrderedJson entries = OrderedJson::array();
  for (const auto& [index, known] : stragglers) {
    if (known.time_ns == 0) continue;
    OrderedJson entry = {{"index", index}, {"pid", nullptr}, {"rank", nullptr}};
    if (known.device != nullptr) {
      entry["pid"] = known.process;
      entry["rank"] = known.device->rank;
    }
    entry["time_ns"] = known.time_ns;
    entry["mean_ns"] = known.time_ns / std::max<std::int64_t>(1, known.waiters);
    entries.push_back(std::move(entry));
  }
  sort_by_time(entries,
               [](const OrderedJson& entry) { return entry["time_ns"].get<std::int64_t>(); });
  return entries;
}

}  // namespace

OrderedJson collectives_of(const process::RecordedDevice& device) {
  if (device.ranks == 0) return nullptr;
  return {{"rank", device.rank},
          {"ranks", device.ranks},
          {"count", device.collectives},
          {"not_ended", device.collectives_open},
          {"bytes", device.collective_bytes},
          {"time_ns", device.collective_ns},
          {"waiting_ns", device.collective_ns - device.collective_moving_ns},
          {"moving_ns", device.collective_moving_ns},
          {"hidden_ns", device.collective_hidden_ns},
          {"exposed_ns", device.collective_ns - device.collective_hidden_ns}};
}

OrderedJson communication_of(const std::vector<RecordedProcess>& processes) {
  return {{"kinds", kinds_of(processes)}, {"waited_for", waited_for(processes)}};
}

}  // namespace gpemu::record
