// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_collectives_command.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/calibrate/collectives.hpp"
#include "gpemu/profile/collective_tables.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/topology/collective.hpp"
#include "gpemu/topology/fabric.hpp"

namespace gpemu::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;
using topology::LinkClass;

struct CollectivesOptions {
  std::string topology;
  std::string collective = "all-reduce";
  std::vector<int> gpus;
  std::vector<std::string> bytes;
  std::string measured;
  bool fit = false;
  bool as_json = false;
};

std::string_view link_name(LinkClass link) {
  return topology::kLinkClassNames[static_cast<std::size_t>(link)];
}

constexpr std::array kLinks = {LinkClass::kNvlink, LinkClass::kPciePeer, LinkClass::kPcieStaged,
                               LinkClass::kRdma, LinkClass::kSocket};

// ---- What a collective takes

Result<std::vector<Bytes>> sizes_of(const CollectivesOptions& options) {
  constexpr Bytes kMost = Bytes{1} << 50;
  std::vector<Bytes> sizes;
  for (const std::string& text : options.bytes) {
    Bytes bytes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (error != std::errc() || end != text.data() + text.size() || bytes < 1 || bytes > kMost) {
      return fail(ErrorCode::kInvalidArgument,
                  "--bytes {}: a whole number of bytes from 1 to 2^50 was expected", text);
    }
    sizes.push_back(bytes);
  }
  if (!sizes.empty()) return sizes;
  for (Bytes bytes = kKiB; bytes <= kGiB; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

Result<void> tell_times(const CollectivesOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::TopologySpec machine,
               profile::find_topology(world.topologies, options.topology));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(const profile::GpuSpec gpu, database.gpu(machine.gpu));
  GPEMU_ASSIGN(const std::vector<Bytes> sizes, sizes_of(options));
  std::vector<int> groups = options.gpus;
  if (groups.empty()) groups = {static_cast<int>(machine.gpus.size())};
  const auto collective = static_cast<topology::Collective>(
      std::ranges::find(topology::kCollectiveNames, options.collective) -
      topology::kCollectiveNames.begin());
  report::TextTable table({"GPUs", "bytes", "algorithm", "protocol", "time / us", "bus GB/s", "±"});
  OrderedJson rows = OrderedJson::array();
  for (const int ranks : groups) {
    GPEMU_ASSIGN(const topology::Fabric fabric, topology::fabric_of(machine, gpu, ranks));
    for (const Bytes bytes : sizes) {
      const topology::CollectiveTime cost = topology::time_of(fabric, collective, bytes);
      const double us = 1e6 * to_seconds(cost.time);
      const double bus =
          static_cast<double>(bytes) * topology::bus_factor(collective, ranks) / us / 1e3;
      const auto algorithm =
          topology::kAlgorithmNames[static_cast<std::size_t>(cost.choice.algorithm)];
      const auto protocol =
          topology::kProtocolNames[static_cast<std::size_t>(cost.choice.protocol)];
      table.add_row({std::to_string(ranks), std::to_string(bytes), std::string(algorithm),
                     std::string(protocol), fmt::format("{:.1f}", us), fmt::format("{:.2f}", bus),
                     report::percent(cost.relative_bar, 0)});
      rows.push_back({{"gpus", ranks},
                      {"bytes", bytes},
                      {"algorithm", algorithm},
                      {"protocol", protocol},
                      {"time_us", us},
                      {"bus_gb_per_s", bus},
                      {"relative_bar", cost.relative_bar}});
    }
  }
  if (options.as_json) {
    report::print_out("{}", report::json_text(OrderedJson{{"topology", machine.name},
                                                          {"collective", options.collective},
                                                          {"times", std::move(rows)}}));
    return {};
  }
  report::print_out("{} on {}\n\n{}", options.collective, machine.title,
                    table.str(world.terminal().output_columns));
  return {};
}

// ---- How well that agrees with measurements

struct Errors {
  double sum = 0;
  int count = 0;
  void add(double error) {
    sum += error;
    ++count;
  }
  [[nodiscard]] double mean() const { return count == 0 ? 0 : sum / count; }
};

/// The sizes for which errors are told.
struct SizeRange {
  std::string_view name;
  Bytes least, most;
};
constexpr std::array kSizeRanges = {
    SizeRange{"to 64 KiB", 0, 64 * kKiB},
    SizeRange{"1 to 16 MiB", kMiB, 16 * kMiB},
    SizeRange{"from 256 MiB", 256 * kMiB, ~Bytes{0}},
};

/// Of a kind of link, in a range of sizes.
struct RangeErrors {
  Errors rows;
  std::map<std::size_t, Errors> by_machine;
  int within_bar = 0;

  void add(std::size_t machine, double error, bool inside) {
    rows.add(error);
    by_machine[machine].add(error);
    within_bar += inside ? 1 : 0;
  }
  [[nodiscard]] double mean_of_machines() const {
    Errors all;
    for (const auto& [machine, errors] : by_machine) all.add(errors.mean());
    return all.mean();
  }
};

Result<void> tell_errors(const CollectivesOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::CollectiveTables tables,
               profile::read_collective_tables(options.measured));
  GPEMU_ASSIGN(const calibrate::CollectiveRows rows, calibrate::collective_rows(tables));
  report::TextTable table(
      {"link", "size", "machines", "times", "mean error", "by machine", "within bar"});
  OrderedJson document = OrderedJson::array();
  int known = 0, chosen = 0;
  for (const LinkClass link : kLinks) {
    GPEMU_ASSIGN(const auto predicted, calibrate::evaluate_collectives(rows, link));
    const std::array<double, 3> bars = calibrate::collective_bars(rows, predicted);
    std::array<RangeErrors, kSizeRanges.size()> ranges;
    for (const calibrate::PredictedCollective& one : predicted) {
      const calibrate::CollectiveRow& row = rows.rows[one.row];
      const double error = std::abs(one.seconds / row.seconds - 1);
      const double miss = std::exp(std::abs(std::log(one.seconds / row.seconds))) - 1;
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        if (row.bytes < kSizeRanges.at(i).least || row.bytes > kSizeRanges.at(i).most) continue;
        ranges.at(i).add(row.machine, error, miss <= bars[topology::size_class(row.bytes)]);
      }
      if (row.algorithm && !row.forced) {
        ++known;
        chosen += one.choice.algorithm == *row.algorithm ? 1 : 0;
      }
    }
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const RangeErrors& range = ranges.at(i);
      if (range.rows.count == 0) continue;
      const double share = static_cast<double>(range.within_bar) / range.rows.count;
      table.add_row({std::string(link_name(link)), std::string(kSizeRanges.at(i).name),
                     std::to_string(range.by_machine.size()), std::to_string(range.rows.count),
                     report::percent(range.rows.mean(), 1),
                     report::percent(range.mean_of_machines(), 1), report::percent(share, 0)});
      document.push_back({{"link", link_name(link)},
                          {"size", kSizeRanges.at(i).name},
                          {"machines", range.by_machine.size()},
                          {"times", range.rows.count},
                          {"mean_error", range.rows.mean()},
                          {"mean_error_of_machines", range.mean_of_machines()},
                          {"within_bar", share}});
    }
  }
  if (options.as_json) {
    report::print_out("{}", report::json_text(OrderedJson{{"errors", std::move(document)},
                                                          {"algorithms_known", known},
                                                          {"algorithms_chosen", chosen}}));
    return {};
  }
  report::print_out(
      "Each machine as predicted from the others; errors are |predicted / measured - 1|.\n\n{}\n"
      "The algorithm that NCCL chose by itself is known for {} times; gpemu chooses it for {}.\n",
      table.str(world.terminal().output_columns), known, chosen);
  return {};
}

// ---- The constants

Result<void> tell_fit(const CollectivesOptions& options) {
  GPEMU_ASSIGN(const profile::CollectiveTables tables,
               profile::read_collective_tables(options.measured));
  GPEMU_ASSIGN(const calibrate::CollectiveRows rows, calibrate::collective_rows(tables));
  std::string shares, bars;
  for (const LinkClass link : kLinks) {
    GPEMU_ASSIGN(const auto fitted, calibrate::fit_collectives(rows, link));
    shares += fmt::format("    // {}\n    {{", link_name(link));
    for (std::size_t i = 0; i < topology::kShares; ++i) {
      shares += fmt::format("{}{:.4f}", i == 0 ? "" : ", ", fitted.at(i));
    }
    shares += "},\n";
    GPEMU_ASSIGN(const auto predicted, calibrate::evaluate_collectives(rows, link));
    const std::array<double, 3> of_link = calibrate::collective_bars(rows, predicted);
    bars += fmt::format("    {{{:.3f}, {:.3f}, {:.3f}}},  // {}\n", of_link[0], of_link[1],
                        of_link[2], link_name(link));
  }
  report::print_out("kFittedShares:\n{}\nkFittedBars:\n{}", shares, bars);
  return {};
}

Result<void> run(const CollectivesOptions& options, const World& world) {
  if (options.topology.empty() == options.measured.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "cost collectives needs either --topology, for times on a machine, or --eval, to "
                "compare with measurements");
  }
  if (options.measured.empty()) return tell_times(options, world);
  return options.fit ? tell_fit(options) : tell_errors(options, world);
}

}  // namespace

void add_cost_collectives_command(Command cost, const World& world) {
  Command command = cost.subcommand(
      "collectives", "Report what NCCL's collectives take on a machine, and how sure that is");
  auto options = std::make_shared<CollectivesOptions>();
  command.option("--topology", options->topology,
                 "Machine, e.g. dgx-a100 (`gpemu node topo` lists them), or its file");
  command.option("--collective", options->collective, "Collective; default: all-reduce")
      .one_of(topology::kCollectiveNames);
  command
      .option("--gpus", options->gpus, "How many of the machine's GPUs, e.g. 2,4,8; default: all")
      .separated_by(',')
      .range(2, 1024);
  command
      .option("--bytes", options->bytes,
              "Sizes as nccl-tests counts them, e.g. 1048576; default: 1 KiB to 1 GiB")
      .separated_by(',');
  command
      .option("--eval", options->measured,
              "Folder of measured collectives to compare with, e.g. evidence/published/collectives")
      .placeholder("FOLDER")
      .excludes("--topology");
  command.flag("--fit", options->fit, "With --eval: print the constants that fit best");
  command.flag("--json", options->as_json, "Print JSON");
  command.notes(
      "Algorithm and protocol are those that NCCL 2.27 would choose. The time is that of idle "
      "GPUs\n"
      "whose ranks all arrive at once. An error bar of 50 % means that in 9 of 10 cases the truth\n"
      "is between time / 1.5 and time x 1.5.\n"
      "Examples:\n"
      "  gpemu cost collectives --topology dgx-a100 --gpus 2,4,8\n"
      "  gpemu cost collectives --eval evidence/published/collectives");
  command.on_run([options, &world] { return run(*options, world); });
}

}  // namespace gpemu::tools
