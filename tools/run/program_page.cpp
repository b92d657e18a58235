// SPDX-License-Identifier: Apache-2.0
#include "run/program_page.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <ranges>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/record/summary.hpp"
#include "gpemu/record/trace.hpp"
#include "gpemu/report/markup.hpp"
#include "gpemu/report/page.hpp"

#include "run/summary_text.hpp"

namespace gpemu::tools {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

/// Points of a line over the whole run.
constexpr std::size_t kBuckets = 200;

/// Operations on the timeline; a few steps of a network.
constexpr std::size_t kLastOperations = 1000;

/// Rows of a table, and characters of a name in it.
constexpr std::size_t kMostRows = 20;
constexpr std::size_t kMostCharacters = 90;

/// Returns the colour of a class of operations; rare ones share a grey.
constexpr report::Colour colour_of(kernels::OperationClass operation_class) {
  using kernels::OperationClass;
  switch (operation_class) {
    case OperationClass::kMatmul:
      return report::Colour::kMatmul;
    case OperationClass::kConvolution:
      return report::Colour::kConvolution;
    case OperationClass::kAttention:
      return report::Colour::kAttention;
    case OperationClass::kNormalization:
      return report::Colour::kNormalization;
    case OperationClass::kPooling:
      return report::Colour::kPooling;
    case OperationClass::kElementwise:
      return report::Colour::kElementwise;
    case OperationClass::kReduction:
      return report::Colour::kReduction;
    case OperationClass::kOptimizer:
      return report::Colour::kOptimizer;
    case OperationClass::kIndexing:
      return report::Colour::kIndexing;
    case OperationClass::kCopy:
      return report::Colour::kCopy;
    default:
      return report::Colour::kUnknown;
  }
}

double milliseconds(std::int64_t time_ns) {
  return static_cast<double>(time_ns) * 1e-6;
}

struct Sum {
  std::int64_t count = 0;
  std::int64_t host_ns = 0;  ///< of ranges.
  std::int64_t time_ns = 0;  ///< on the device.
};

struct Operation {
  std::string lane;
  std::string name;
  std::int64_t start_ns, end_ns;
  kernels::OperationClass operation_class;
};

/// The facts about operations that the page needs, gathered in one pass.
class Gathered {
 public:
  explicit Gathered(const OrderedJson& summary)
      : first_ns_(summary["first_ns"].get<std::int64_t>()),
        span_ns_(std::max<std::int64_t>(1, summary["last_ns"].get<std::int64_t>() - first_ns_)) {}

  [[nodiscard]] Result<void> add(const record::RecordedProcess& process) {
    open_.clear();
    return record::for_each_entry(process, [&](Json& entry) -> Result<void> {
      if (entry.contains("op")) {
        add_operation(process, entry);
      } else if (entry.contains("mark")) {
        add_mark(entry);
      }
      return {};
    });
  }

  [[nodiscard]] report::LinePlot busy_plot() const {
    report::LinePlot plot{.title = "Kernels over the run",
                          .x_label = "time (s)",
                          .y_label = "kernels run (% of the time)",
                          .series = {}};
    const double bucket_ns = static_cast<double>(span_ns_) / kBuckets;
    for (const auto& [device, buckets] : busy_ns_) {
      report::LineSeries series{.name = device, .colour = report::colour_at(plot.series.size())};
      for (std::size_t i = 0; i < kBuckets; ++i) {
        series.points.push_back({.x = (static_cast<double>(i) + 0.5) * bucket_ns * 1e-9,
                                 .y = std::min(100.0, 100 * buckets[i] / bucket_ns)});
      }
      plot.series.push_back(std::move(series));
    }
    return plot;
  }

  [[nodiscard]] report::Timeline timeline() const {
    report::Timeline plot{.title = fmt::format("The last {} operations", last_.size()),
                          .unit = "ms",
                          .kinds = {},
                          .lanes = {}};
    std::map<std::string, report::TimelineLane> lanes;
    std::map<report::Colour, std::size_t> kinds;
    for (const Operation& operation : last_) {
      const report::Colour colour = colour_of(operation.operation_class);
      const auto [kind, added] = kinds.emplace(colour, kinds.size());
      if (added) {
        plot.kinds.push_back(
            {colour == report::Colour::kUnknown
                 ? "other"
                 : std::string(kernels::operation_class_name(operation.operation_class)),
             colour});
      }
      report::TimelineLane& lane = lanes[operation.lane];
      lane.label = operation.lane;
      lane.spans.push_back({.begin = milliseconds(operation.start_ns - last_.front().start_ns),
                            .end = milliseconds(operation.end_ns - last_.front().start_ns),
                            .kind = kind->second,
                            .name = operation.name});
    }
    for (auto& lane : std::views::values(lanes)) plot.lanes.push_back(std::move(lane));
    return plot;
  }

  [[nodiscard]] const std::map<std::string, Sum>& names() const { return names_; }
  [[nodiscard]] const std::map<std::string, Sum>& ranges() const { return ranges_; }
  [[nodiscard]] bool empty() const { return last_.empty(); }

 private:
  void add_operation(const record::RecordedProcess& process, const Json& entry) {
    const auto start_ns = entry["start_ns"].get<std::int64_t>();
    const auto end_ns = entry["end_ns"].get<std::int64_t>();
    const auto time_ns = entry["duration_ns"].get<std::int64_t>();
    Sum& sum = names_[entry["name"]];
    ++sum.count;
    sum.time_ns += time_ns;
    for (const auto& range : open_) ranges_[range.first].time_ns += time_ns;
    const auto ordinal = entry["device"].get<std::size_t>();
    if (ordinal >= std::size(process.totals.devices)) return;  // Left out, as the verdict says.
    const auto& device = process.totals.devices[ordinal];
    const auto number =
        std::ranges::find(kernels::kOperationClassNames, entry["class"].get<std::string>()) -
        kernels::kOperationClassNames.begin();
    if (number == kernels::kOperationClassCount) return;
    last_.push_back({fmt::format("GPU {}, process {}, stream {}", device.index,
                                 process.totals.process, entry["stream"].get<std::int64_t>()),
                     entry["name"], start_ns, end_ns,
                     static_cast<kernels::OperationClass>(number)});
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

  /// Open ranges with their start. They end by thread or by name, the last one first.
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

/// The unit for a column of times: the unit of its longest time.
class TimeColumn {
 public:
  explicit TimeColumn(std::int64_t longest_ns)
      : unit_(longest_ns >= 10'000'000'000 ? Unit{"s", 1e-9}
              : longest_ns >= 10'000'000   ? Unit{"ms", 1e-6}
                                           : Unit{"µs", 1e-3}) {}

  [[nodiscard]] std::string header(std::string_view what) const {
    return fmt::format("{} ({})", what, unit_.name);
  }
  [[nodiscard]] std::string cell(std::int64_t time_ns) const {
    return fmt::format("{:.3f}", static_cast<double>(time_ns) * unit_.per_ns);
  }

 private:
  struct Unit {
    std::string_view name;
    double per_ns;
  };
  Unit unit_;
};

std::int64_t longest_of(const auto& entries, const auto& time) {
  std::int64_t longest = 0;
  for (const auto& entry : entries) longest = std::max<std::int64_t>(longest, time(entry));
  return longest;
}

/// Returns a name for a column; for a kernel's C++ function, without template and function
/// arguments. The whole name shows when the pointer rests on it.
report::PageCell name_cell(const std::string& name) {
  const std::string whole = record::demangled(name);
  std::string plain = whole;
  for (const std::string_view noise : {"void ", "at::native::", "(anonymous namespace)::"}) {
    for (auto at = plain.find(noise); at != std::string::npos; at = plain.find(noise, at)) {
      plain.erase(at, noise.size());
    }
  }
  // A C++ function's arguments are in the last parentheses.
  if (whole != name && plain.ends_with(')')) {
    std::size_t begin = plain.size();
    for (int depth = 0; begin > 0;) {
      --begin;
      depth += plain[begin] == ')' ? 1 : plain[begin] == '(' ? -1 : 0;
      if (depth == 0) break;
    }
    if (begin > 0) plain.resize(begin);
  }
  std::string shown = report::shortened(plain, kMostCharacters);
  return shown == whole ? report::PageCell(std::move(shown))
                        : report::PageCell(std::move(shown), whole);
}

void add_devices(report::Page& page, const OrderedJson& summary) {
  report::StackedBars bars{.title = "Where the GPUs' time went",
                           .x_label = "time",
                           .unit = "s",
                           .parts = {{"busy", report::Colour::kCompute},
                                     {"idle: program computes", report::Colour::kHostWork},
                                     {"idle: program is blocked", report::Colour::kHostWait},
                                     {"idle: program, not known", report::Colour::kUnknown},
                                     {"idle: waits for others' work", report::Colour::kOthers}},
                           .bars = {}};
  const auto time_of = [](const char* name) {
    return [name](const OrderedJson& device) { return device[name].get<std::int64_t>(); };
  };
  const TimeColumn column(std::max(longest_of(summary["devices"], time_of("busy_ns")),
                                   longest_of(summary["devices"], time_of("idle_ns"))));
  report::Page::Rows rows;
  for (const OrderedJson& device : summary["devices"]) {
    const auto part = [&device](const char* name) { return device[name].get<std::int64_t>(); };
    const std::string label = fmt::format("GPU {}, process {}", part("index"), part("pid"));
    const std::int64_t computing = part("idle_host_computing_ns");
    const std::int64_t blocked = part("idle_host_blocked_ns");
    const std::array values = {
        part("busy_ns"), computing, blocked,
        std::max<std::int64_t>(0, part("idle_unasked_ns") - computing - blocked),
        part("idle_ordered_ns")};
    report::StackedBar bar{.label = label, .values = {}};
    for (const std::int64_t value : values) bar.values.push_back(static_cast<double>(value) * 1e-9);
    bars.bars.push_back(std::move(bar));
    rows.push_back({label, device["gpu"].get<std::string>(), column.cell(part("busy_ns")),
                    column.cell(part("idle_ns")),
                    fmt::format("{:.0f}", to_mib(device["peak_memory_bytes"])),
                    fmt::format("{:.0f}", to_mib(device["memory_bytes"]))});
  }
  page.heading("Devices");
  page.plot(bars);
  page.table({"device", "kind", column.header("busy"), column.header("idle"), "peak memory (MiB)",
              "capacity (MiB)"},
             rows);
}

void add_collective_devices(report::Page& page, const OrderedJson& summary) {
  report::StackedBars bars{.title = "Collectives",
                           .x_label = "time",
                           .unit = "s",
                           .parts = {{"waiting for other ranks", report::Colour::kOthers},
                                     {"moving data", report::Colour::kCopy}},
                           .bars = {}};
  report::Page::Rows rows;
  std::int64_t longest_ns = 0;
  for (const OrderedJson& device : summary["devices"]) {
    if (device["collectives"].is_null()) continue;
    longest_ns = std::max(longest_ns, device["collectives"]["time_ns"].get<std::int64_t>());
  }
  const TimeColumn column(longest_ns);
  for (const OrderedJson& device : summary["devices"]) {
    const OrderedJson& collectives = device["collectives"];
    if (collectives.is_null()) continue;
    const auto part = [&collectives](const char* name) {
      return collectives[name].get<std::int64_t>();
    };
    const std::string label =
        fmt::format("rank {}, GPU {}, process {}", part("rank"), device["index"].get<int>(),
                    device["pid"].get<std::int64_t>());
    bars.bars.push_back({.label = label,
                         .values = {static_cast<double>(part("waiting_ns")) * 1e-9,
                                    static_cast<double>(part("moving_ns")) * 1e-9}});
    rows.push_back({label, fmt::to_string(part("count")), fmt::to_string(part("not_ended")),
                    fmt::format("{:.1f}", to_mib(collectives["bytes"].get<Bytes>())),
                    column.cell(part("waiting_ns")), column.cell(part("moving_ns")),
                    column.cell(part("exposed_ns"))});
  }
  page.plot(bars);
  page.table({"rank", "collectives", "not ended", "data (MiB)", column.header("waiting"),
              column.header("moving"), column.header("without a kernel")},
             rows);
}

void add_communication(report::Page& page, const OrderedJson& summary) {
  const OrderedJson& kinds = summary["communication"]["kinds"];
  if (kinds.empty()) return;
  page.heading("Communication");
  add_collective_devices(page, summary);
  const auto mean = [](const OrderedJson& kind, const char* name) {
    return kind[name].get<std::int64_t>() / kind["count"].get<std::int64_t>();
  };
  const TimeColumn column(longest_of(kinds, [&mean](const OrderedJson& kind) {
    return std::max(mean(kind, "waiting_ns"), mean(kind, "moving_ns"));
  }));
  report::Page::Rows rows;
  for (const OrderedJson& kind : kinds) {
    rows.push_back({kind["name"].get<std::string>(),
                    fmt::to_string(kind["ranks"].get<std::int64_t>()),
                    fmt::to_string(kind["count"].get<std::int64_t>()),
                    fmt::format("{:.3f}", to_mib(static_cast<Bytes>(mean(kind, "bytes")))),
                    column.cell(mean(kind, "waiting_ns")), column.cell(mean(kind, "moving_ns")),
                    fmt::format("{:.2f}", kind["algorithm_bytes_per_s"].get<double>() * 1e-9),
                    fmt::format("{:.2f}", kind["bus_bytes_per_s"].get<double>() * 1e-9)});
  }
  page.table({"mean of all ranks", "ranks", "calls", "data (MiB)", column.header("waiting"),
              column.header("moving"), "algorithm bandwidth (GB/s)", "bus bandwidth (GB/s)"},
             rows);
  if (const std::string waits = waited_for_text(summary["communication"]); !waits.empty()) {
    page.paragraph("Of all ranks, " + waits + ".");
  }
}

void add_classes(report::Page& page, const OrderedJson& summary) {
  std::int64_t whole = 0;
  for (const OrderedJson& entry : summary["classes"]) whole += entry["time_ns"].get<std::int64_t>();
  const TimeColumn column(longest_of(summary["classes"], [](const OrderedJson& entry) {
    return entry["time_ns"].get<std::int64_t>();
  }));
  report::Page::Rows rows;
  for (const OrderedJson& entry : summary["classes"]) {
    const auto time = entry["time_ns"].get<std::int64_t>();
    rows.push_back(
        {entry["name"].get<std::string>(), fmt::to_string(entry["count"].get<std::int64_t>()),
         column.cell(time),
         fmt::format("{:.1f}", 100 * static_cast<double>(time) /
                                   static_cast<double>(std::max<std::int64_t>(1, whole)))});
  }
  page.heading("Emulated GPU time");
  page.table({"class", "operations", column.header("time"), "share (%)"}, rows);
  page.paragraph("Evidence: " + evidence_text(summary["evidence"]) + ".");
}

void add_operations(report::Page& page, const Gathered& gathered) {
  page.heading("Operations");
  page.plot(gathered.busy_plot());
  page.plot(gathered.timeline());
  report::Page::Rows rows;
  const auto names = longest(gathered.names());
  const TimeColumn all(longest_of(names, [](const auto& entry) { return entry.second.time_ns; }));
  const TimeColumn each(longest_of(
      names, [](const auto& entry) { return entry.second.time_ns / entry.second.count; }));
  for (const auto& [name, sum] : names) {
    rows.push_back({name_cell(name), fmt::to_string(sum.count), all.cell(sum.time_ns),
                    each.cell(sum.time_ns / sum.count)});
  }
  page.table({"what took longest", "times", all.header("time"), each.header("each")}, rows);
  if (gathered.ranges().empty()) return;
  rows.clear();
  const auto ranges = longest(gathered.ranges());
  const TimeColumn column(longest_of(ranges, [](const auto& entry) {
    return std::max(entry.second.host_ns, entry.second.time_ns);
  }));
  for (const auto& [name, sum] : ranges) {
    rows.push_back({report::shortened(name, kMostCharacters), fmt::to_string(sum.count),
                    column.cell(sum.host_ns), column.cell(sum.time_ns)});
  }
  page.heading("NVTX ranges");
  page.table({"range", "times", column.header("on the host"), column.header("asked of the GPU")},
             rows);
}

}  // namespace

Result<std::string> program_page(const OrderedJson& summary,
                                 const std::vector<record::RecordedProcess>& processes,
                                 const report::Provenance& provenance) {
  Gathered gathered(summary);
  for (const record::RecordedProcess& process : processes) GPEMU_TRY(gathered.add(process));
  report::Page page("A run on emulated GPUs");
  page.verdict(record::program_verdict(summary));
  if (const auto warning = report::load_warning(provenance)) page.warning(*warning);
  page.facts({{"program", report::shortened(report::shell_line(
                                                summary["program"].get<std::vector<std::string>>()),
                                            kMostCharacters)},
              {"GPUs",
               fmt::format("{}", fmt::join(summary["gpus"].get<std::vector<std::string>>(), ", ")) +
                   summary["node"].get<std::string>()},
              {"clock", summary["clock"].get<std::string>() +
                            (summary.contains("host_slowdown")
                                 ? fmt::format(", of a host {} times slower than this one",
                                               summary["host_slowdown"].get<double>())
                                 : "")},
              {"exit code", fmt::to_string(summary["exit_code"].get<int>())},
              {"waited for the GPU", time_text(summary["wait_ns"].get<std::int64_t>())}});
  if (!gathered.empty()) {
    add_devices(page, summary);
    add_communication(page, summary);
    add_classes(page, summary);
    add_operations(page, gathered);
  }
  if (!summary["not_supported"].empty()) {
    report::Page::Rows rows;
    for (const OrderedJson& call : summary["not_supported"]) {
      rows.push_back({call["function"].get<std::string>(), call["library"].get<std::string>(),
                      fmt::to_string(call["count"].get<std::int64_t>())});
    }
    page.heading("Not supported");
    page.table({"function", "library", "calls"}, rows);
  }
  report::add_provenance(page, provenance);
  return page.html();
}

}  // namespace gpemu::tools
