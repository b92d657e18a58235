// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/image.hpp"
#include "gpemu/data/make_dataset.hpp"
#include "gpemu/report/host_facts.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/number_text.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "data/data_bench.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr std::array<int, 7> kShownPercentiles = {10, 25, 50, 75, 90, 95, 99};

struct MakeOptions {
  std::filesystem::path folder;
  data::MakeDatasetOptions make;
  std::vector<std::string> sizes;
  bool quiet = false;
};

struct DataShowOptions {
  std::filesystem::path folder;
  bool as_json = false;
};

struct BenchOptions {
  std::filesystem::path folder;
  DataBenchOptions bench;
  bool as_json = false;
};

struct TransformOptions {
  std::filesystem::path image;
  std::filesystem::path output;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::uint64_t sample = 0;
  int crop = 224;
};

/// Reads "PERCENT:KILOBYTES".
Result<data::SizePercentile> parse_percentile(std::string_view text) {
  data::SizePercentile size;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const auto percent = std::from_chars(begin, end, size.percent);
  if (percent.ec == std::errc() && percent.ptr != end && *percent.ptr == ':') {
    const auto kilobytes = std::from_chars(percent.ptr + 1, end, size.kilobytes);
    if (kilobytes.ec == std::errc() && kilobytes.ptr == end) return size;
  }
  return fail(ErrorCode::kInvalidArgument,
              "'{}' is not a size percentile; write PERCENT:KILOBYTES, e.g. 50:108", text);
}

json describe(const data::FolderDataset& dataset) {
  std::vector<Bytes> sizes;
  for (const data::Sample& sample : dataset.samples()) sizes.push_back(sample.bytes);
  std::ranges::sort(sizes);
  json percentiles = json::object();
  for (const int percent : kShownPercentiles) {
    const auto rank =
        static_cast<std::size_t>(std::ceil(percent / 100.0 * static_cast<double>(sizes.size())));
    percentiles[fmt::to_string(percent)] = static_cast<double>(sizes[rank - 1]) / 1000;
  }
  return {{"folder", dataset.root().string()},
          {"images", sizes.size()},
          {"classes", dataset.classes().size()},
          {"bytes", dataset.total_bytes()},
          {"size_percentiles_kb", std::move(percentiles)}};
}

void print_description(const json& description) {
  report::print_out(
      "{}: {} images in {} classes, {:.1f} MB\n",
      printable(description["folder"].get<std::string>()), description["images"].get<std::size_t>(),
      description["classes"].get<std::size_t>(), description["bytes"].get<double>() / 1e6);
  report::print_out("file size:");
  for (const int percent : kShownPercentiles) {
    report::print_out("  {} % {:.0f} KB", percent,
                      description["size_percentiles_kb"][fmt::to_string(percent)].get<double>());
  }
  report::print_out("\n");
}

Result<void> show_data(const DataShowOptions& options) {
  GPEMU_ASSIGN(const data::FolderDataset dataset, data::FolderDataset::open(options.folder));
  const json description = describe(dataset);
  if (options.as_json) {
    report::print_out("{}", report::json_text(description));
  } else {
    print_description(description);
  }
  return {};
}

Result<void> make_data(MakeOptions options, const World& world) {
  if (!options.sizes.empty()) options.make.sizes.clear();
  for (const std::string& text : options.sizes) {
    GPEMU_ASSIGN(const data::SizePercentile size, parse_percentile(text));
    options.make.sizes.push_back(size);
  }
  const InterruptGuard interrupt;
  options.make.stop = &interrupt.flag();
  {
    report::Progress progress({.label = "making images", .unit = "images"}, options.make.images,
                              options.quiet, world.progress_host());
    options.make.progress = [&](int done) { progress.update(done); };
    GPEMU_TRY(data::make_dataset(options.folder, options.make));
  }
  GPEMU_ASSIGN(const data::FolderDataset dataset, data::FolderDataset::open(options.folder));
  if (!options.quiet) print_description(describe(dataset));
  return {};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<void> bench_data(const BenchOptions& options, const World& world) {
  GPEMU_ASSIGN(const data::FolderDataset dataset, data::FolderDataset::open(options.folder));
  const InterruptGuard interrupt;
  report::Provenance provenance = report::provenance_at(world.time_of_day());
  const report::HostLoadMeter meter(report::LoadScope::kThisProcess, world.host_sample);
  GPEMU_ASSIGN(const std::vector<DataBenchEpoch> epochs,
               run_data_bench(dataset, options.bench, world.clock, world.process_cpu_time,
                              interrupt.flag()));
  provenance.load = meter.read();
  provenance.load->queued.reset();  // The threads that were measured have ended.
  std::vector<double> rates;
  std::vector<double> cpu_rates;
  for (const DataBenchEpoch& epoch : epochs) {
    rates.push_back(static_cast<double>(epoch.images) / to_seconds(epoch.elapsed));
    cpu_rates.push_back(static_cast<double>(epoch.images) / to_seconds(epoch.cpu));
  }
  const std::string_view what = options.bench.decode_only ? "decode only" : "loader";
  if (options.as_json) {
    nlohmann::ordered_json result = {{"format", "gpemu-data-bench-1"}};
    report::add_provenance(result, provenance);
    result["what"] = what;
    result["workers"] = options.bench.workers;
    result["images"] = epochs.front().images;
    result["corrupt"] = epochs.front().corrupt;
    result["images_per_s"] = rates;
    result["images_per_cpu_s"] = cpu_rates;
    report::print_out("{}", report::json_text(result));
  } else {
    const auto passes = std::ssize(epochs);
    report::print_out("{}, {} worker{}: {} images/s, {} per CPU second (median of {} epoch{})\n",
                      what, options.bench.workers, report::plural(options.bench.workers),
                      report::rounded(median(rates)), report::rounded(median(cpu_rates)), passes,
                      report::plural(passes));
    if (const DataBenchEpoch& first = epochs.front(); first.corrupt > 0) {
      report::print_out(
          "{} of {} images are corrupt; `gpemu train --strict-images` names the first\n",
          first.corrupt, first.images);
    }
    if (const auto warning = report::load_warning(provenance, "how fast it loads")) {
      report::print_out("{}\n", *warning);
    }
  }
  return {};
}

Result<void> transform_image(const TransformOptions& options) {
  GPEMU_ASSIGN(const std::string jpeg, read_file(options.image));
  const auto size = static_cast<std::size_t>(options.crop);
  std::vector<float> pixels(3 * size * size);
  data::ImageTransform transform(options.crop);
  sim::Rng rng(options.seed, options.epoch, options.sample);
  const auto drawn = transform.apply(std::as_bytes(std::span(jpeg)), rng, pixels);
  if (!drawn) {
    return fail(drawn.error().code, "corrupt image {}: {}", options.image.string(),
                drawn.error().message);
  }
  const auto bytes = std::as_bytes(std::span(pixels));
  GPEMU_TRY(write_file_atomically(options.output,
                                  {reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  const data::Region& crop = drawn->crop;
  const json result = {{"crop", {crop.x, crop.y, crop.width, crop.height}},
                       {"flip", drawn->flip},
                       {"shape", {3, options.crop, options.crop}}};
  report::print_out("{}", report::one_line(result));
  return {};
}

void add_make(Command data, const World& world) {
  auto options = std::make_shared<MakeOptions>();
  options->make.threads = report::usable_cores();
  Command make = data.subcommand("make", "Write a data set of JPEG images for experiments");
  make.option("folder", options->folder, "Folder to make; must be new or empty").required();
  make.option("--images", options->make.images, "Number of images").show_default();
  make.option("--classes", options->make.classes, "Number of class folders").show_default();
  make.option("--seed", options->make.seed, "The same seed makes the same images").show_default();
  make.option("--size-percentiles", options->sizes,
              "File sizes as PERCENT:KILOBYTES,...; default: those of GPEmu's experiments, "
              "10:23,25:61,50:108,75:148,90:187,95:215,99:375")
      .separated_by(',');
  make.option("--threads", options->make.threads, "Threads; default: cores");
  make.flag("--quiet", options->quiet, "No progress bar and no summary");
  make.notes(
      "Examples:\n"
      "  gpemu data make photos\n"
      "  gpemu data make large --images 20000 --size-percentiles 10:50,50:400,99:2000");
  make.on_run([options, &world] { return make_data(*options, world); });
}

void add_show(Command data) {
  auto options = std::make_shared<DataShowOptions>();
  Command show = data.subcommand("show", "Show the number and the sizes of a data set's images");
  show.option("folder", options->folder, "Folder with one folder of JPEG files per class")
      .required();
  show.flag("--json", options->as_json, "Print JSON");
  show.notes("Example:\n  gpemu data show photos");
  show.on_run([options] { return show_data(*options); });
}

void add_bench(Command data, const World& world) {
  auto options = std::make_shared<BenchOptions>();
  options->bench.workers = report::usable_cores();
  Command bench = data.subcommand(
      "bench", "Measure how fast this host loads a data set, with no GPU to wait for");
  bench.option("folder", options->folder, "Folder with one folder of JPEG files per class")
      .required();
  bench.option("--workers", options->bench.workers, "Threads; default: cores").range(1, 1024);
  bench.option("--epochs", options->bench.epochs, "Passes over the data set")
      .range(1, 1000)
      .show_default();
  bench.option("--batch", options->bench.batch, "Images per batch").show_default();
  bench.option("--seed", options->bench.seed, "Seed for order and augmentation").show_default();
  bench.flag("--decode-only", options->bench.decode_only,
             "Only decode whole images with libjpeg-turbo, for comparison");
  bench.flag("--json", options->as_json, "Print JSON");
  bench.notes(
      "Examples:\n"
      "  gpemu data bench photos --workers 2\n"
      "  gpemu data bench photos --decode-only --json");
  bench.on_run([options, &world] { return bench_data(*options, world); });
}

void add_transform(Command data) {
  auto options = std::make_shared<TransformOptions>();
  Command transform = data.subcommand(
      "transform", "Make one training sample from an image, and report its random choices");
  transform.option("image", options->image, "JPEG file").required();
  transform
      .option("--output", options->output,
              "File for the sample: raw float32 in the host's byte order, [3, crop, crop]")
      .required();
  transform.option("--seed", options->seed, "Seed of the augmentation").show_default();
  transform.option("--epoch", options->epoch, "Epoch").show_default();
  transform.option("--sample", options->sample, "Number of the sample in its data set")
      .show_default();
  transform.option("--crop", options->crop, "Height and width of the sample")
      .range(1, 4096)
      .show_default();
  transform.notes(
      "Example:\n  gpemu data transform photos/class_000/image_0000000.jpg --output sample.f32 "
      "--seed 1");
  transform.on_run([options] { return transform_image(*options); });
}

}  // namespace

void add_data_command(Command app, const World& world) {
  Command data = app.subcommand("data", "Make, show and measure data sets of images");
  data.require_subcommand();
  data.notes("Examples:\n  gpemu data make photos\n  gpemu data bench photos");
  add_make(data, world);
  add_show(data);
  add_bench(data, world);
  add_transform(data);
}

}  // namespace gpemu::tools
