// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/collective_tables.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "gpemu/base/file.hpp"

#include "table_reader.hpp"

namespace gpemu::profile {
namespace {

constexpr std::string_view kMachinesHeader =
    "machine,ranks,nodes,gpu,generation,inside,switched,line_gb_per_s,searched_gb_per_s,channels,"
    "between,network_gb_per_s";
constexpr std::string_view kTimesHeader =
    "machine,ranks,nodes,collective,bytes,microseconds,launcher,algorithm,forced";
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

/// Returns a number above zero.
std::optional<double> positive(TableReader& table, std::size_t column) {
  const std::optional<double> value = table.number(column);
  if (!value || *value > 0) return value;
  table.fault("a number above 0 was expected");
  return std::nullopt;
}

std::vector<MeasuredGroup> parse_machines(std::string_view csv, const std::filesystem::path& file,
                                          std::vector<PackFault>& faults) {
  constexpr double kGigabyte = 1e9;
  std::vector<MeasuredGroup> groups;
  TableReader table(csv, file, kMachinesHeader, faults);
  while (table.next()) {
    const auto machine = table.name(0), gpu = table.name(3), generation = table.name(4);
    const auto inside = table.name(5), between = table.name(10);
    const auto ranks = table.integer(1, 2, kMostRanks), nodes = table.integer(2, 1, kMostRanks);
    const auto channels = table.integer(9, 1, 1024);
    const auto line = positive(table, 7), searched = positive(table, 8);
    const auto network = table.number(11);
    if (!machine || !gpu || !generation || !inside || !between || !ranks || !nodes || !channels ||
        !line || !searched || !network) {
      continue;
    }
    if (*ranks % *nodes != 0) table.fault("each node must have the same number of ranks");
    if ((*nodes > 1) != (*network > 0))
      table.fault("several nodes need a network, and one has none");
    groups.push_back({.machine = *machine,
                      .ranks = static_cast<int>(*ranks),
                      .nodes = static_cast<int>(*nodes),
                      .gpu = *gpu,
                      .generation = *generation,
                      .inside = *inside,
                      .switched = table.field(6) == "yes",
                      .line_rate = *line * kGigabyte,
                      .searched_rate = *searched * kGigabyte,
                      .channels = static_cast<int>(*channels),
                      .between = *between,
                      .network_rate = *network * kGigabyte});
  }
  return groups;
}

void parse_times(std::string_view csv, const std::filesystem::path& file, CollectiveTables& tables,
                 std::vector<PackFault>& faults) {
  TableReader table(csv, file, kTimesHeader, faults);
  while (table.next()) {
    const auto machine = table.name(0), collective = table.name(3);
    const auto launcher = table.name(6), algorithm = table.name(7);
    const auto ranks = table.integer(1, 2, kMostRanks), nodes = table.integer(2, 1, kMostRanks);
    const auto bytes = table.integer(4, 1, kMostBytes);
    const auto microseconds = positive(table, 5);
    if (!machine || !collective || !launcher || !algorithm || !ranks || !nodes || !bytes ||
        !microseconds) {
      continue;
    }
    const auto group = std::ranges::find_if(tables.groups, [&](const MeasuredGroup& candidate) {
      return candidate.machine == *machine && candidate.ranks == *ranks &&
             candidate.nodes == *nodes;
    });
    if (group == tables.groups.end()) {
      table.fault("machines.csv does not list these GPUs");
      continue;
    }
    tables.times.push_back({.group = static_cast<std::size_t>(group - tables.groups.begin()),
                            .collective = *collective,
                            .bytes = static_cast<Bytes>(*bytes),
                            .seconds = *microseconds * 1e-6,
                            .launcher = *launcher,
                            .algorithm = *algorithm,
                            .forced = table.field(8) == "yes"});
  }
}

}  // namespace

Result<CollectiveTables> read_collective_tables(const std::filesystem::path& folder) {
  const std::filesystem::path machines = folder / "machines.csv", times = folder / "times.csv";
  GPEMU_ASSIGN(const std::string machines_text, read_file(machines));
  GPEMU_ASSIGN(const std::string times_text, read_file(times));
  std::vector<PackFault> faults;
  CollectiveTables tables;
  tables.groups = parse_machines(machines_text, machines, faults);
  parse_times(times_text, times, tables, faults);
  if (!faults.empty()) {
    const PackFault& first = faults.front();
    return fail(ErrorCode::kCorruptData, "{}:{}: {}", first.file.string(), first.line,
                first.message);
  }
  return tables;
}

}  // namespace gpemu::profile
