// SPDX-License-Identifier: Apache-2.0
#include "predict/scaling.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/report/markup.hpp"
#include "gpemu/report/page.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/topology/collective.hpp"
#include "gpemu/topology/fabric.hpp"

#include "predict/program_runs.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::ordered_json;

/// Returns the collective of one of NCCL's functions. Sends and receives count as such.
topology::Collective collective_named(std::string_view function) {
  using topology::Collective;
  static const std::map<std::string_view, Collective> kFunctions = {
      {"ncclAllReduce", Collective::kAllReduce}, {"ncclReduceScatter", Collective::kReduceScatter},
      {"ncclAllGather", Collective::kAllGather}, {"ncclBroadcast", Collective::kBroadcast},
      {"ncclReduce", Collective::kReduce},       {"ncclAlltoAll", Collective::kAllToAll},
      {"ncclGather", Collective::kGather},       {"ncclScatter", Collective::kGather}};
  const auto found = kFunctions.find(function);
  return found == kFunctions.end() ? Collective::kSendReceive : found->second;
}

bool fits_on(const profile::GpuSpec& gpu, const ScalingAnswer& answer) {
  return needed_memory(*answer.program_run, gpu) <= gpu.memory_bytes;
}

Duration time_of(const ScalingAnswer& answer) {
  return answer.step.step.time.time;
}

/// Returns samples per second of all GPUs, or steps per second if the batch is not known.
double rate_of(const ScalingCurve& curve, const ScalingAnswer& answer) {
  const double steps = 1 / to_seconds(time_of(answer));
  return curve.batch > 0 ? steps * curve.batch * answer.gpus : steps;
}

std::string share_text(double share) {
  return fmt::format("{:.1f}", 100 * share);
}

const std::vector<std::string>& header(bool batch) {
  static const std::array<std::vector<std::string>, 2> kHeaders = [] {
    std::array<std::vector<std::string>, 2> headers;
    for (const bool known : {false, true}) {
      headers[known ? 1 : 0] = {"GPU",
                                "batch",
                                "GPUs",
                                "machines",
                                "step ms",
                                "error %",
                                known ? "samples/s" : "steps/s",
                                "speed-up",
                                "efficiency %",
                                "from",
                                "to",
                                "exposed ms",
                                "collectives ms",
                                "MiB",
                                "fits"};
    }
    return headers;
  }();
  return kHeaders[batch ? 1 : 0];
}

std::vector<std::string> row_of(const ScalingCurve& curve, const ScalingAnswer& answer) {
  const Interval efficiency = efficiency_of(curve, answer);
  return {curve.gpu.name,
          curve.batch > 0 ? std::to_string(curve.batch) : "-",
          std::to_string(answer.gpus),
          std::to_string(answer.machines),
          fmt::format("{:.2f}", to_milliseconds(time_of(answer))),
          fmt::format("{:.0f}", 100 * answer.step.step.time.relative_error),
          fmt::format("{:.1f}", rate_of(curve, answer)),
          fmt::format("{:.2f}", efficiency.value * answer.gpus),
          share_text(efficiency.value),
          share_text(efficiency.low),
          share_text(efficiency.high),
          fmt::format("{:.2f}", to_milliseconds(answer.step.exposed)),
          fmt::format("{:.2f}", to_milliseconds(answer.step.collectives)),
          fmt::format("{:.0f}", to_mib(needed_memory(*answer.program_run, curve.gpu))),
          fits_on(curve.gpu, answer) ? "yes" : "no"};
}

bool has_batches(const ScalingReport& report) {
  return report.curves.front().batch > 0;
}

std::string machine_text(const ScalingReport& report) {
  return report.topology.empty()
             ? "No --topology: the GPUs are joined as their kind allows, on one machine."
             : fmt::format("Machines: {}.", report.topology);
}

/// Returns lines on what the answers rest on.
std::vector<std::string> basis_of(const ScalingReport& report) {
  std::vector<std::string> lines;
  for (const ScalingCurve& curve : report.curves) {
    for (const ScalingAnswer& answer : curve.answers) {
      const run::ProgramRun& seen = *answer.program_run;
      lines.push_back(fmt::format(
          "{} GPU{} on {}{}: {} steps, found by {}{}", answer.gpus, answer.gpus == 1 ? "" : "s",
          seen.gpu.name, seen.batch > 0 ? fmt::format(", batch {}", seen.batch) : "",
          seen.found.steps.size(),
          predict::kStepSignNames[static_cast<std::size_t>(seen.found.sign)],
          seen.unsupported.empty()
              ? ""
              : fmt::format("; unsupported calls: {}", fmt::join(seen.unsupported, ", "))));
    }
  }
  return lines;
}

}  // namespace

/// What programs reach on several GPUs of the least that is predicted, because of what is not:
/// loading data, for one. Source: scripts/claims/scaling_losses.py, 19 of 20 of 185 rows of 14
/// programs that others published (evidence/published/scaling/programs.csv).
constexpr double kLeastOfPrograms = 0.84;

Interval efficiency_of(const ScalingCurve& curve, const ScalingAnswer& answer) {
  const predict::ParallelStep& one = curve.answers.front().step;
  const auto ratio = [](Duration first, Duration second) {
    return to_seconds(first) / to_seconds(second);
  };
  const double value = ratio(one.step.time.time, time_of(answer));
  const double slow_links = ratio(one.with_slow_collectives, answer.step.with_slow_collectives);
  const double slow_kernels = ratio(one.with_slow_kernels, answer.step.with_slow_kernels);
  const auto [low, high] = std::minmax({value, slow_links, slow_kernels});
  const double least = answer.gpus > curve.answers.front().gpus ? kLeastOfPrograms : 1;
  return {.value = value, .low = least * low, .high = high};
}

int machines_for(const profile::TopologySpec* machine, int gpus) {
  if (machine == nullptr) return 1;
  const int each = static_cast<int>(machine->gpus.size());
  return (gpus + each - 1) / each;
}

Result<predict::PriceCollective> prices_of(const profile::GpuSpec& gpu,
                                           const profile::TopologySpec* machine, int gpus) {
  topology::Fabric fabric = topology::fabric_of(gpu, gpus);
  if (machine != nullptr && gpus > 1) {
    auto joined = topology::fabric_of_nodes(*machine, gpu, gpus, machines_for(machine, gpus),
                                            topology::LinkClass::kRdma);
    if (!joined) {
      return fail(joined.error().code, "--gpus {}: {}", gpus, joined.error().message);
    }
    fabric = *joined;
  }
  return [fabric](const record::CollectiveWork& work) {
    const topology::CollectiveTime time =
        topology::time_of(fabric, collective_named(work.function), work.bytes);
    return predict::CollectivePrice{.time = time.time, .relative_error = time.relative_bar};
  };
}

std::string scaling_text(const ScalingReport& report, const report::Terminal& terminal) {
  report::TextTable table(header(has_batches(report)));
  for (const ScalingCurve& curve : report.curves) {
    for (const ScalingAnswer& answer : curve.answers) table.add_row(row_of(curve, answer));
  }
  return fmt::format(
      "{}\n"
      "The batch is that of each GPU. Efficiency: the step's time on one GPU divided by that on "
      "N;\n"
      "in 9 of 10 cases the truth is between from and to. Exposed: collectives run, but no "
      "kernel.\n"
      "MiB is what a rank holds, with the context.\n"
      "{} The slowest rank sets the pace; batches are assumed to be ready.\n"
      "{}\n",
      table.str(terminal.output_columns), machine_text(report), fmt::join(basis_of(report), "\n"));
}

ordered_json scaling_json(const ScalingReport& report) {
  ordered_json answers = ordered_json::array();
  for (const ScalingCurve& curve : report.curves) {
    for (const ScalingAnswer& answer : curve.answers) {
      const Interval efficiency = efficiency_of(curve, answer);
      answers.push_back({{"gpu", curve.gpu.name},
                         {"batch", curve.batch > 0 ? ordered_json(curve.batch) : nullptr},
                         {"gpus", answer.gpus},
                         {"machines", answer.machines},
                         {"step_ms", to_milliseconds(time_of(answer))},
                         {"relative_error", answer.step.step.time.relative_error},
                         {"evidence", cost::evidence_name(answer.step.step.time.evidence)},
                         {"steps_per_s", 1 / to_seconds(time_of(answer))},
                         {"speed_up", efficiency.value * answer.gpus},
                         {"efficiency", efficiency.value},
                         {"efficiency_low", efficiency.low},
                         {"efficiency_high", efficiency.high},
                         {"collectives_ms", to_milliseconds(answer.step.collectives)},
                         {"exposed_ms", to_milliseconds(answer.step.exposed)},
                         {"memory_mib", to_mib(needed_memory(*answer.program_run, curve.gpu))},
                         {"fits", fits_on(curve.gpu, answer)},
                         {"steps_recorded", answer.program_run->found.steps.size()},
                         {"not_supported", answer.program_run->unsupported}});
    }
  }
  ordered_json json = {{"format", "gpemu-scaling-1"}};
  report::add_provenance(json, report.provenance);
  json["program"] = report.words;
  json["topology"] =
      report.topology.empty() ? ordered_json(nullptr) : ordered_json(report.topology);
  json["answers"] = std::move(answers);
  return json;
}

report::LinePlot scaling_plot(const ScalingReport& report) {
  constexpr std::array kColours = {report::Colour::kCompute, report::Colour::kMemory,
                                   report::Colour::kCopy, report::Colour::kLatency,
                                   report::Colour::kHostWork};
  report::LinePlot plot{
      .title = "Speed-up", .x_label = "GPUs", .y_label = "speed-up over one GPU", .series = {}};
  std::vector<report::PlotPoint> ideal;
  for (const ScalingCurve& curve : report.curves) {
    report::LineSeries series{.name = curve.batch > 0
                                          ? fmt::format("{}, batch {}", curve.gpu.name, curve.batch)
                                          : curve.gpu.name,
                              .points = {},
                              .markers = true,
                              .colour = kColours.at(plot.series.size() % kColours.size())};
    for (const ScalingAnswer& answer : curve.answers) {
      const Interval efficiency = efficiency_of(curve, answer);
      const double gpus = answer.gpus;
      series.points.push_back({.x = gpus,
                               .y = gpus * efficiency.value,
                               .low = gpus * efficiency.low,
                               .high = gpus * efficiency.high});
      if (plot.series.empty()) ideal.push_back({.x = gpus, .y = gpus});
    }
    plot.series.push_back(std::move(series));
  }
  plot.series.push_back(
      {.name = "ideal", .points = std::move(ideal), .colour = report::Colour::kUnknown});
  return plot;
}

std::string scaling_page(const ScalingReport& report) {
  report::Page page("Scaling of " + report::shortened(report::shell_line(report.words), 60));
  page.paragraph(
      "How much faster more GPUs train, predicted from a few recorded steps of rank 0 with each "
      "number of GPUs. The batch is that of each GPU. The slowest rank sets the pace; batches are "
      "assumed to be ready. " +
      machine_text(report));
  page.plot(scaling_plot(report));
  report::Page::Rows rows;
  for (const ScalingCurve& curve : report.curves) {
    for (const ScalingAnswer& answer : curve.answers) {
      const std::vector<std::string> cells = row_of(curve, answer);
      rows.emplace_back(cells.begin(), cells.end());
    }
  }
  page.table(header(has_batches(report)), rows);
  page.heading("What was recorded");
  for (const std::string& line : basis_of(report)) page.paragraph(line);
  report::add_provenance(page, report.provenance);
  return page.html();
}

}  // namespace gpemu::tools
