// SPDX-License-Identifier: Apache-2.0
#include "program_page.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/cost/operation_cost.hpp"

#include "page.hpp"
#include "run_summary.hpp"
#include "run_trace.hpp"
#include "svg_plot.hpp"

namespace gpemu::tools {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

/// Points of a line over the whole run.
constexpr std::size_t kBuckets = 200;

/// Operations of the timeline; some steps of a network.
constexpr std::size_t kLastOperations = 1000;

/// Rows of a table, and characters of a name in it.
constexpr std::size_t kMostRows = 20;
constexpr std::size_t kMostCharacters = 160;

struct Sum {
  std::int64_t count = 0;
  std::int64_t host_ns = 0;  ///< of ranges.
  std::int64_t time_ns = 0;  ///< on the device.
};

struct Operation {
  std::string lane;
  std::int64_t start_ns, end_ns;
  std::size_t kind;
};

/// What the page needs of the operations, gathered in one pass.
class Gathered {
 public:
  explicit Gathered(const OrderedJson& summary)
      : first_ns_(summary["first_ns"].get<std::int64_t>()),
        span_ns_(std::max<std::int64_t>(1, summary["last_ns"].get<std::int64_t>() - first_ns_)) {}

  [[nodiscard]] Result<void> add(const RecordedProcess& process) {
    open_.clear();
    return for_each_entry(process, [&](Json& entry) -> Result<void> {
      if (entry.contains("op")) {
        add_operation(process, entry);
      } else {
        add_mark(entry);
      }
      return {};
    });
  }

  [[nodiscard]] std::string busy_plot() const {
    LinePlot plot{.title = "Kernels over the run",
                  .x_label = "time (s)",
                  .y_label = "of the time (%)",
                  .series = {}};
    const double bucket_ns = static_cast<double>(span_ns_) / kBuckets;
    for (const auto& [device, buckets] : busy_ns_) {
      LineSeries series{.name = device};
      for (std::size_t i = 0; i < kBuckets; ++i) {
        series.points.push_back({(static_cast<double>(i) + 0.5) * bucket_ns * 1e-9,
                                 std::min(100.0, 100 * buckets[i] / bucket_ns)});
      }
      plot.series.push_back(std::move(series));
    }
    return line_plot_svg(plot);
  }

  [[nodiscard]] std::string timeline() const {
    Timeline plot{.title = fmt::format("The last {} operations", last_.size()),
                  .x_label = "time (ms)",
                  .kinds = {},
                  .lanes = {}};
    std::map<std::string, TimelineLane> lanes;
    std::map<std::size_t, std::size_t> kinds;
    for (const Operation& operation : last_) {
      const auto [kind, added] = kinds.emplace(operation.kind, kinds.size());
      if (added) plot.kinds.emplace_back(cost::kOperationClassNames[operation.kind]);
      TimelineLane& lane = lanes[operation.lane];
      lane.label = operation.lane;
      lane.spans.push_back(
          {.begin = static_cast<double>(operation.start_ns - last_.front().start_ns) * 1e-6,
           .end = static_cast<double>(operation.end_ns - last_.front().start_ns) * 1e-6,
           .kind = kind->second});
    }
    for (auto& lane : std::views::values(lanes)) plot.lanes.push_back(std::move(lane));
    return timeline_svg(plot);
  }

  [[nodiscard]] const std::map<std::string, Sum>& names() const { return names_; }
  [[nodiscard]] const std::map<std::string, Sum>& ranges() const { return ranges_; }
  [[nodiscard]] bool empty() const { return last_.empty(); }

 private:
  void add_operation(const RecordedProcess& process, const Json& entry) {
    const auto& device = process.totals.devices[entry["device"].get<int>()];
    const auto start_ns = entry["start_ns"].get<std::int64_t>();
    const auto end_ns = entry["end_ns"].get<std::int64_t>();
    const auto time_ns = entry["duration_ns"].get<std::int64_t>();
    Sum& sum = names_[entry["name"]];
    ++sum.count;
    sum.time_ns += time_ns;
    for (const auto& range : open_) ranges_[range.first].time_ns += time_ns;
    const auto kind = static_cast<std::size_t>(
        std::ranges::find(cost::kOperationClassNames, entry["class"].get<std::string>()) -
        cost::kOperationClassNames.begin());
    if (kind == cost::kOperationClassNames.size()) return;
    last_.push_back({fmt::format("GPU {}, process {}, stream {}", device.index,
                                 process.totals.process, entry["stream"].get<std::int64_t>()),
                     start_ns, end_ns, kind});
    if (last_.size() > kLastOperations) last_.pop_front();
    if (entry["class"] != "copy") {
      count_busy(fmt::format("GPU {}", device.index), start_ns, end_ns);
    }
  }

  void count_busy(const std::string& device, std::int64_t start_ns, std::int64_t end_ns) {
    const double bucket_ns = static_cast<double>(span_ns_) / kBuckets;
    const auto start = static_cast<double>(start_ns - first_ns_);
    const auto end = static_cast<double>(end_ns - first_ns_);
    auto& buckets = busy_ns_[device];
    for (auto i = static_cast<std::size_t>(std::max(0.0, start / bucket_ns)); i < kBuckets; ++i) {
      const double from = static_cast<double>(i) * bucket_ns;
      if (from >= end) break;
      buckets[i] += std::max(0.0, std::min(end, from + bucket_ns) - std::max(start, from));
    }
  }

  /// Ranges that are open, with their start; ended by thread or by name, the last first.
  void add_mark(const Json& entry) {
    const std::string kind = entry["mark"];
    const std::string text = entry["text"];
    const auto time_ns = entry["time_ns"].get<std::int64_t>();
    if (kind == "push" || kind == "start") {
      const auto thread = kind == "push" ? entry["thread"].get<std::int64_t>() : 0;
      open_.push_back({text, {time_ns, thread}});
    } else if (kind == "pop" || kind == "end") {
      const auto found = std::ranges::find_if(std::views::reverse(open_), [&](const auto& range) {
        return kind == "pop" ? range.second.second == entry["thread"].get<std::int64_t>()
                             : range.second.second == 0 && range.first == text;
      });
      if (found == open_.rend()) return;
      Sum& sum = ranges_[found->first];
      ++sum.count;
      sum.host_ns += time_ns - found->second.first;
      open_.erase(std::next(found).base());
    }
  }

  std::int64_t first_ns_;
  std::int64_t span_ns_;
  std::map<std::string, std::array<double, kBuckets>> busy_ns_;
  std::deque<Operation> last_;
  std::map<std::string, Sum> names_;
  std::map<std::string, Sum> ranges_;
  std::vector<std::pair<std::string, std::pair<std::int64_t, std::int64_t>>> open_;
};

std::vector<std::pair<std::string, Sum>> longest(const std::map<std::string, Sum>& sums) {
  std::vector<std::pair<std::string, Sum>> sorted(sums.begin(), sums.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{},
                           [](const auto& entry) { return entry.second.time_ns; });
  if (sorted.size() > kMostRows) sorted.resize(kMostRows);
  return sorted;
}

std::string shortened(std::string text) {
  if (text.size() > kMostCharacters) text = text.substr(0, kMostCharacters) + "...";
  return text;
}

void add_devices(Page& page, const OrderedJson& summary) {
  StackedBars bars{.title = "Where the GPUs' time went",
                   .x_label = "time (s)",
                   .parts = {"busy", "idle: program computes", "idle: program is blocked",
                             "idle: program, not known", "idle: behind others' work"},
                   .bars = {}};
  Page::Rows rows;
  for (const OrderedJson& device : summary["devices"]) {
    const auto part = [&device](const char* name) { return device[name].get<std::int64_t>(); };
    const std::string label = fmt::format("GPU {}, process {}", part("index"), part("pid"));
    const std::int64_t computing = part("idle_host_computing_ns");
    const std::int64_t blocked = part("idle_host_blocked_ns");
    const std::array values = {
        part("busy_ns"), computing, blocked,
        std::max<std::int64_t>(0, part("idle_unasked_ns") - computing - blocked),
        part("idle_ordered_ns")};
    StackedBar bar{.label = label, .values = {}};
    for (const std::int64_t value : values) bar.values.push_back(static_cast<double>(value) * 1e-9);
    bars.bars.push_back(std::move(bar));
    rows.push_back({label, device["gpu"].get<std::string>(), time_text(part("busy_ns")),
                    time_text(part("idle_ns")),
                    fmt::format("{:.0f} of {:.0f} MiB", to_mib(device["peak_memory_bytes"]),
                                to_mib(device["memory_bytes"]))});
  }
  page.heading("Devices");
  page.plot(stacked_bars_svg(bars));
  page.table({"device", "kind", "busy", "idle", "peak memory"}, rows);
}

void add_classes(Page& page, const OrderedJson& summary) {
  std::int64_t whole = 0;
  for (const OrderedJson& entry : summary["classes"]) whole += entry["time_ns"].get<std::int64_t>();
  Page::Rows rows;
  for (const OrderedJson& entry : summary["classes"]) {
    const auto time = entry["time_ns"].get<std::int64_t>();
    rows.push_back(
        {entry["name"].get<std::string>(), fmt::to_string(entry["count"].get<std::int64_t>()),
         time_text(time),
         fmt::format("{:.1f}", 100 * static_cast<double>(time) /
                                   static_cast<double>(std::max<std::int64_t>(1, whole)))});
  }
  page.heading("Emulated GPU time");
  page.table({"class", "operations", "time", "%"}, rows);
  page.paragraph("Evidence: " + evidence_text(summary["evidence"]) + ".");
}

void add_operations(Page& page, const Gathered& gathered) {
  page.heading("Operations");
  page.plot(gathered.busy_plot());
  page.plot(gathered.timeline());
  Page::Rows rows;
  for (const auto& [name, sum] : longest(gathered.names())) {
    rows.push_back({shortened(demangled(name)), fmt::to_string(sum.count), time_text(sum.time_ns),
                    time_text(sum.time_ns / sum.count)});
  }
  page.table({"what took longest", "times", "time", "each"}, rows);
  if (gathered.ranges().empty()) return;
  rows.clear();
  for (const auto& [name, sum] : longest(gathered.ranges())) {
    rows.push_back({shortened(name), fmt::to_string(sum.count), time_text(sum.host_ns),
                    time_text(sum.time_ns)});
  }
  page.heading("NVTX ranges");
  page.table({"range", "times", "on the host", "of the GPU asked for in it"}, rows);
}

}  // namespace

std::string program_verdict(const OrderedJson& summary) {
  std::int64_t span = 0, busy = 0, computing = 0, blocked = 0, ordered = 0;
  for (const OrderedJson& device : summary["devices"]) {
    const auto part = [&device](const char* name) { return device[name].get<std::int64_t>(); };
    span += part("last_ns") - part("first_ns");
    busy += part("busy_ns");
    computing += part("idle_host_computing_ns");
    blocked += part("idle_host_blocked_ns");
    ordered += part("idle_ordered_ns");
  }
  if (span <= 0) return "The program gave the emulated GPU no work.";
  const double share = 100 * static_cast<double>(busy) / static_cast<double>(span);
  if (2 * busy >= span) return fmt::format("The GPU is busy {:.0f} % of the time.", share);
  const std::int64_t most = std::max({computing, blocked, ordered});
  const char* const cause =
      most == blocked     ? "the program is blocked: by its data, files, workers or locks"
      : most == computing ? "the program computes, and asks for too little at a time"
                          : "work waits for other streams, devices or processes";
  return fmt::format("The GPU is busy only {:.0f} % of the time: mostly, {}.", share, cause);
}

Result<std::string> program_page(const OrderedJson& summary,
                                 const std::vector<RecordedProcess>& processes,
                                 const HostFacts& host) {
  Gathered gathered(summary);
  for (const RecordedProcess& process : processes) GPEMU_TRY(gathered.add(process));
  Page page("A run on emulated GPUs");
  page.verdict(program_verdict(summary));
  page.facts(
      {{"program",
        fmt::format("{}", fmt::join(summary["program"].get<std::vector<std::string>>(), " "))},
       {"GPUs",
        fmt::format("{}", fmt::join(summary["gpus"].get<std::vector<std::string>>(), ", ")) +
            summary["node"].get<std::string>()},
       {"clock", summary["clock"].get<std::string>()},
       {"exit code", fmt::to_string(summary["exit_code"].get<int>())},
       {"waited for the GPU", time_text(summary["wait_ns"].get<std::int64_t>())}});
  if (!gathered.empty()) {
    add_devices(page, summary);
    add_classes(page, summary);
    add_operations(page, gathered);
  }
  if (!summary["not_supported"].empty()) {
    Page::Rows rows;
    for (const OrderedJson& call : summary["not_supported"]) {
      rows.push_back({call["function"].get<std::string>(), call["library"].get<std::string>(),
                      fmt::to_string(call["count"].get<std::int64_t>())});
    }
    page.heading("Not supported");
    page.table({"function", "library", "calls"}, rows);
  }
  add_host(page, host);
  return page.html();
}

}  // namespace gpemu::tools
