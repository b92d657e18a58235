// SPDX-License-Identifier: Apache-2.0
#include "analyze/analyze_report.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"
#include "gpemu/report/number_text.hpp"
#include "gpemu/report/page.hpp"
#include "gpemu/report/svg_plot.hpp"
#include "gpemu/report/text_table.hpp"

#include "train/run_report.hpp"

namespace gpemu::tools {
namespace {

/// Stalls below this share are not worth a verdict.
constexpr double kWorthTelling = 0.05;

struct Pass {
  std::string_view key;
  std::string_view label;
  Duration StallPasses::* step;
};
constexpr std::array<Pass, 4> kPasses = {{
    {"ingestion", "no data path", &StallPasses::ingestion},
    {"copying", "batches ready on the host", &StallPasses::copying},
    {"cached", "files in the page cache", &StallPasses::cached},
    {"cold", "files in storage", &StallPasses::cold},
}};

double images_per_s(const AnalyzeReport& report, Duration step) {
  return step > Duration::zero() ? report.options.gpu.batch / to_seconds(step) : 0;
}

/// Returns the rate at which the workers read in a pass.
double read_mib_per_s(const train::TrainResult& result) {
  const double elapsed_s = to_seconds(result.elapsed);
  return elapsed_s > 0 ? to_mib(result.work.bytes_read) / elapsed_s : 0;
}

report::Page::Rows pass_rows(const AnalyzeReport& report) {
  report::Page::Rows rows;
  for (const Pass& pass : kPasses) {
    const Duration step = report.passes.*pass.step;
    rows.push_back({std::string(pass.label), fmt::format("{:.3f}", to_milliseconds(step)),
                    fmt::format("{:.1f}", images_per_s(report, step))});
  }
  return rows;
}

std::string headline(const AnalyzeReport& report) {
  return fmt::format("{} ({}), batch {}, on {}; {} worker{} over {} ({} images, {:.1f} MiB)",
                     report.model, report.precision, report.options.gpu.batch,
                     gpus_text(report.options.gpu, report.gpu), report.options.data.workers,
                     report::plural(report.options.data.workers),
                     printable(data_text(report.options)), report.images, to_mib(report.bytes));
}

report::StackedBars pass_plot(const StallPasses& passes) {
  report::StackedBars plot{.title = "Parts of a step",
                           .x_label = "time of a step",
                           .unit = "ms",
                           .parts = {{"compute", report::Colour::kCompute},
                                     {"copy", report::Colour::kCopy},
                                     {"preprocessing stall", report::Colour::kHostWork},
                                     {"storage stall", report::Colour::kHostWait}}};
  for (std::size_t i = 0; i < kPasses.size(); ++i) {
    report::StackedBar bar{.label = std::string(kPasses[i].label)};
    Duration before{};
    for (std::size_t part = 0; part <= i; ++part) {
      // Because of noise, a pass can be faster than an earlier one.
      const Duration until =
          std::clamp(passes.*kPasses[part].step, before, std::max(before, passes.*kPasses[i].step));
      bar.values.push_back(to_milliseconds(until - before));
      before = until;
    }
    plot.bars.push_back(std::move(bar));
  }
  return plot;
}

}  // namespace

std::string analyze_verdict(const StallPasses& passes, bool pageable) {
  const double fetch = passes.fetch_stall();
  const double prep = passes.prep_stall();
  const double copy = passes.copy_share();
  if (std::max({fetch, prep, copy}) < kWorthTelling) {
    return "limited by the GPU: the data path keeps up even when it reads from storage";
  }
  if (fetch >= std::max(prep, copy)) {
    return fmt::format(
        "limited by storage: reading the files cold takes {:.1f} % of a step; faster storage or "
        "more page cache would help",
        fetch * 100);
  }
  if (prep >= copy) {
    return fmt::format(
        "limited by preprocessing: decoding and transforming take {:.1f} % of a step even when the "
        "files are cached; more cores or less work per image would help",
        prep * 100);
  }
  return fmt::format(
      "limited by the GPU, which spends {:.1f} % of a step on copies of input: try {}", copy * 100,
      pageable ? "pinned memory" : "--overlap-copy");
}

std::string analyze_text(const AnalyzeReport& report, int columns) {
  report::TextTable table({"pass", "step ms", "images/s"});
  for (const auto& row : pass_rows(report)) {
    table.add_row({row[0].text, row[1].text, row[2].text});
  }
  const StallPasses& passes = report.passes;
  return fmt::format(
      "{}\n\n{}\n"
      "copy         {:5.1f} % of a step with ready batches\n"
      "prep stall   {:5.1f} % of a step with cached files\n"
      "fetch stall  {:5.1f} % of a step with cold files; {:.1f} MiB/s were read\n\n{}\n{}",
      headline(report), table.str(columns), passes.copy_share() * 100, passes.prep_stall() * 100,
      passes.fetch_stall() * 100, read_mib_per_s(report.cold),
      analyze_verdict(passes, report.options.gpu.pageable),
      report::load_warning(report.provenance)
          .transform([](const std::string& text) { return text + "\n"; })
          .value_or(""));
}

nlohmann::ordered_json analyze_json(const AnalyzeReport& report) {
  using OrderedJson = nlohmann::ordered_json;
  OrderedJson json;
  json["format"] = "gpemu-analyze-1";
  json["gpu"] = report.gpu;
  json["gpus"] = report.options.gpu.gpus;
  json["model"] = report.model;
  json["precision"] = report.precision;
  json["batch"] = report.options.gpu.batch;
  for (const Pass& pass : kPasses) {
    const Duration step = report.passes.*pass.step;
    json["passes"][pass.key] = {{"step_ms", to_milliseconds(step)},
                                {"images_per_s", images_per_s(report, step)}};
  }
  json["passes"]["cached"]["steps"] = report.cached.steps.size();
  json["passes"]["cold"]["steps"] = report.cold.steps.size();
  json["passes"]["cached"]["read_mib_per_s"] = read_mib_per_s(report.cached);
  json["passes"]["cold"]["read_mib_per_s"] = read_mib_per_s(report.cold);
  json["copy_share"] = report.passes.copy_share();
  json["prep_stall"] = report.passes.prep_stall();
  json["fetch_stall"] = report.passes.fetch_stall();
  json["profile_step_ms"] = planned_step_json(report.plan, report.options.gpu, true);
  json["corrupt_images"] = report.cold.work.corrupt;
  json["data"] = {{"images", report.images}, {"bytes", report.bytes}};
  json["verdict"] = analyze_verdict(report.passes, report.options.gpu.pageable);
  json["options"] = gpu_options_json(report.options.gpu);
  json["options"].update(data_options_json(report.options));
  json["options"]["steps"] =
      report.options.steps ? OrderedJson(*report.options.steps) : OrderedJson(nullptr);
  report::add_provenance(json, report.provenance);
  return json;
}

std::string analyze_page(const AnalyzeReport& report) {
  const StallPasses& passes = report.passes;
  report::Page page(fmt::format("Data stalls of {} on {}", report.model, report.gpu));
  page.paragraph(headline(report));
  page.verdict(analyze_verdict(passes, report.options.gpu.pageable));
  if (const auto warning = report::load_warning(report.provenance)) page.warning(*warning);
  page.heading("Passes");
  page.paragraph(fmt::format(
      "Each pass adds one thing to the pass before it; the difference is the cost of "
      "that thing. {}",
      report.options.origin == BatchOrigin::kHost
          ? "All passes run in virtual time, on a described host."
          : "The first two passes run in virtual time, the others use the real data path."));
  page.table({"pass", "step (ms)", "images/s"}, pass_rows(report));
  page.plot(pass_plot(passes));
  page.heading("Stalls");
  page.facts(
      {{"copy", fmt::format("{:.1f} % of a step with ready batches", passes.copy_share() * 100)},
       {"prep stall",
        fmt::format("{:.1f} % of a step with cached files", passes.prep_stall() * 100)},
       {"fetch stall", fmt::format("{:.1f} % of a step with cold files; {:.1f} MiB/s were read",
                                   passes.fetch_stall() * 100, read_mib_per_s(report.cold))},
       {"corrupt images", std::to_string(report.cold.work.corrupt)}});
  report::add_provenance(page, report.provenance);
  return page.html();
}

}  // namespace gpemu::tools
