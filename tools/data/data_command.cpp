// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/data/convert_dataset.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/image.hpp"
#include "gpemu/data/make_dataset.hpp"
#include "gpemu/data/output_folder.hpp"
#include "gpemu/report/host_facts.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/number_text.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "cli/read_options.hpp"
#include "data/data_bench.hpp"
#include "data/service_command.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr const char* kDataMeaning =
    "Folder with one folder of images per class, or files of another format";

constexpr std::array<int, 7> kShownPercentiles = {10, 25, 50, 75, 90, 95, 99};

struct StoredOptions {
  std::string format = "folder";
  data::ConvertOptions convert;
  std::uint64_t shard_mib = data::ConvertOptions{}.shard_bytes / kMiB;
  bool keep_order = false;
};

struct MakeOptions {
  std::filesystem::path folder;
  data::MakeDatasetOptions make;
  StoredOptions stored;
  std::vector<std::string> sizes;
  bool quiet = false;
};

struct ConvertCommandOptions {
  std::filesystem::path source;
  std::filesystem::path target;
  StoredOptions stored{.format = "webdataset"};
  Patience patience;
  bool quiet = false;
};

struct DataShowOptions {
  std::filesystem::path folder;
  Patience patience;
  bool as_json = false;
};

struct BenchOptions {
  std::filesystem::path folder;
  Patience patience;
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

json describe(const data::Dataset& dataset) {
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
          {"format", dataset.format_name()},
          {"images", sizes.size()},
          {"classes", dataset.classes().size()},
          {"files", dataset.files().size()},
          {"units", dataset.units().size()},
          {"skipped", dataset.skipped_count()},
          {"bytes", dataset.total_bytes()},
          {"size_percentiles_kb", std::move(percentiles)}};
}

void print_description(const json& description) {
  const bool is_folder = description["format"] == data::kDataFormatNames.front();
  const auto files = description["files"].get<std::int64_t>();
  const auto units = description["units"].get<std::int64_t>();
  const std::string stored = is_folder
                                 ? ""
                                 : fmt::format(", {} in {} file{}, read in {} part{}",
                                               description["format"].get<std::string>(), files,
                                               report::plural(files), units, report::plural(units));
  report::print_out(
      "{}: {} images in {} classes, {:.1f} MB{}\n",
      printable(description["folder"].get<std::string>()), description["images"].get<std::size_t>(),
      description["classes"].get<std::size_t>(), description["bytes"].get<double>() / 1e6, stored);
  report::print_out("file size:");
  for (const int percent : kShownPercentiles) {
    report::print_out("  {} % {:.0f} KB", percent,
                      description["size_percentiles_kb"][fmt::to_string(percent)].get<double>());
  }
  report::print_out("\n");
}

Result<void> show_data(const DataShowOptions& options, const World& world) {
  GPEMU_ASSIGN(const data::Dataset dataset, open_dataset(options.folder, world, options.patience));
  const json description = describe(dataset);
  if (options.as_json) {
    report::print_out("{}", report::json_text(description));
  } else {
    print_description(description);
  }
  return {};
}

/// Returns the options of a conversion, from those of the command line.
data::ConvertOptions convert_options(const StoredOptions& stored) {
  data::ConvertOptions options = stored.convert;
  const auto format = std::ranges::find(data::kDataFormatNames, stored.format);
  options.format = static_cast<data::DataFormat>(format - data::kDataFormatNames.begin());
  options.shard_bytes = stored.shard_mib * kMiB;
  options.shuffle = !stored.keep_order;
  return options;
}

/// Converts a data set with a progress bar.
Result<void> convert_with_progress(const data::Dataset& source, const std::filesystem::path& target,
                                   data::ConvertOptions options, bool quiet, const World& world,
                                   const std::atomic<bool>& stop) {
  report::Progress progress({.label = "converting images", .unit = "images"},
                            static_cast<std::int64_t>(source.samples().size()), quiet,
                            world.progress_host());
  options.progress = [&](std::int64_t done) { progress.update(done); };
  options.stop = &stop;
  return data::convert_dataset(source, target, options);
}

Result<void> convert_data(const ConvertCommandOptions& options, const World& world) {
  const InterruptGuard interrupt;
  GPEMU_ASSIGN(const data::Dataset source,
               open_dataset(options.source, world, options.patience, &interrupt.flag()));
  GPEMU_TRY(convert_with_progress(source, options.target, convert_options(options.stored),
                                  options.quiet, world, interrupt.flag()));
  GPEMU_ASSIGN(const data::Dataset made, open_dataset(options.target, world, options.patience));
  if (!options.quiet) print_description(describe(made));
  return {};
}

/// Makes the images in a folder, and then stores them in the format that is asked for.
Result<void> make_stored(const MakeOptions& options, const World& world,
                         const std::atomic<bool>& stop) {
  const std::filesystem::path named = std::filesystem::absolute(options.folder).lexically_normal();
  std::filesystem::path beside = named.has_filename() ? named : named.parent_path();
  beside += ".images";
  GPEMU_ASSIGN(const data::OutputFolder temporary, data::OutputFolder::create(beside));
  const std::filesystem::path images = temporary.path() / "folder";
  GPEMU_TRY(data::make_dataset(images, options.make));
  GPEMU_ASSIGN(const data::Dataset source, data::Dataset::open(images, &stop));
  return convert_with_progress(source, options.folder, convert_options(options.stored),
                               options.quiet, world, stop);
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
    if (options.stored.format == data::kDataFormatNames.front()) {
      GPEMU_TRY(data::make_dataset(options.folder, options.make));
    } else {
      GPEMU_TRY(make_stored(options, world, interrupt.flag()));
    }
  }
  GPEMU_ASSIGN(const data::Dataset dataset, data::Dataset::open(options.folder));
  if (!options.quiet) print_description(describe(dataset));
  return {};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<void> bench_data(const BenchOptions& options, const World& world) {
  const InterruptGuard interrupt;
  GPEMU_ASSIGN(const data::Dataset dataset,
               open_dataset(options.folder, world, options.patience, &interrupt.flag()));
  GPEMU_ASSIGN(const auto storage, make_storage(options.bench.read, world));
  report::Provenance provenance = report::provenance_at(world.time_of_day());
  const report::HostLoadMeter meter(report::LoadScope::kThisProcess, world.host_sample);
  GPEMU_ASSIGN(const std::vector<DataBenchEpoch> epochs,
               run_data_bench(dataset, options.bench, storage.get(), world.clock,
                              world.process_cpu_time, interrupt.flag()));
  provenance.load = meter.read();
  provenance.load->queued.reset();  // The threads that were measured have ended.
  std::vector<double> rates;
  std::vector<double> cpu_rates;
  Duration elapsed{};
  for (const DataBenchEpoch& epoch : epochs) {
    elapsed += epoch.elapsed;
    rates.push_back(static_cast<double>(epoch.images) / to_seconds(epoch.elapsed));
    cpu_rates.push_back(static_cast<double>(epoch.images) / to_seconds(epoch.cpu));
  }
  const std::string_view what = options.bench.decode_only ? "decode only"
                                : options.bench.no_decode ? "loader without decoding"
                                                          : "loader";
  if (options.as_json) {
    nlohmann::ordered_json result = {{"format", "gpemu-data-bench-1"}};
    report::add_provenance(result, provenance);
    result["what"] = what;
    result["workers"] = options.bench.workers;
    result["images"] = epochs.front().images;
    result["corrupt"] = epochs.front().corrupt;
    result["images_per_s"] = rates;
    result["images_per_cpu_s"] = cpu_rates;
    result["data"] = {{"format", dataset.format_name()}, {"bytes", dataset.total_bytes()}};
    result["storage"] = storage_json(storage_facts(storage.get()));
    result["options"] = read_options_json(options.bench.read);
    result["options"]["cold"] = options.bench.cold;
    report::print_out("{}", report::json_text(result));
  } else {
    const auto passes = std::ssize(epochs);
    report::print_out("{}, {} worker{}: {} images/s, {} per CPU second (median of {} epoch{})\n",
                      what, options.bench.workers, report::plural(options.bench.workers),
                      report::rounded(median(rates)), report::rounded(median(cpu_rates)), passes,
                      report::plural(passes));
    if (const auto facts = storage_facts(storage.get())) {
      report::print_out("storage {}\n", storage_text(*facts, elapsed));
    }
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

/// Adds the options that say how images are stored.
void add_stored_options(Command command, StoredOptions& options) {
  command
      .option(
          "--format", options.format,
          "folder: one image per file; webdataset: tar files; tfrecord: TFRecord files; groups: "
          "GPEmu's file groups; pages: one file of pages, whose name ends with .pages")
      .one_of(data::kDataFormatNames)
      .show_default();
  command.option("--shard-mib", options.shard_mib, "Size of a tar or TFRecord file")
      .range(1, 1 << 20)
      .show_default();
  command.option("--group", options.convert.group, "Images of a file group")
      .range(1, 1 << 20)
      .show_default();
  command.flag("--keep-order", options.keep_order,
               "Store the images class by class instead of in random order");
}

void add_convert(Command data, const World& world) {
  auto options = std::make_shared<ConvertCommandOptions>();
  Command convert = data.subcommand("convert", "Store the images of a data set in another format");
  convert.option("source", options->source, "Data set of any format").required();
  convert
      .option("target", options->target,
              "Folder to make, new or empty; for pages, a new file that ends with .pages")
      .required();
  add_stored_options(convert, options->stored);
  convert.option("--seed", options->stored.convert.seed, "The same seed gives the same order")
      .show_default();
  add_patience_option(convert, options->patience);
  convert.flag("--quiet", options->quiet, "No progress bar and no summary");
  convert.notes(
      "Examples:\n"
      "  gpemu data convert photos shards --format webdataset\n"
      "  gpemu data convert photos photos.pages --format pages\n"
      "  gpemu data convert photos groups --format groups --group 32");
  convert.on_run([options, &world] { return convert_data(*options, world); });
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
  add_stored_options(make, options->stored);
  make.flag("--quiet", options->quiet, "No progress bar and no summary");
  make.notes(
      "Examples:\n"
      "  gpemu data make photos\n"
      "  gpemu data make large --images 20000 --size-percentiles 10:50,50:400,99:2000\n"
      "  gpemu data make shards --images 2000 --format webdataset --shard-mib 64");
  make.on_run([options, &world] { return make_data(*options, world); });
}

void add_show(Command data, const World& world) {
  auto options = std::make_shared<DataShowOptions>();
  Command show = data.subcommand("show", "Show the number and the sizes of a data set's images");
  show.option("folder", options->folder, kDataMeaning).required();
  add_patience_option(show, options->patience);
  show.flag("--json", options->as_json, "Print JSON");
  show.notes("Example:\n  gpemu data show photos");
  show.on_run([options, &world] { return show_data(*options, world); });
}

void add_bench(Command data, const World& world) {
  auto options = std::make_shared<BenchOptions>();
  options->bench.workers = report::usable_cores();
  Command bench = data.subcommand(
      "bench", "Measure how fast this host loads a data set, with no GPU to wait for");
  bench.option("folder", options->folder, kDataMeaning).required();
  add_patience_option(bench, options->patience);
  bench.option("--workers", options->bench.workers, "Threads; default: cores").range(1, 1024);
  bench.option("--epochs", options->bench.epochs, "Passes over the data set")
      .range(1, 1000)
      .show_default();
  bench.option("--batch", options->bench.batch, "Images per batch").show_default();
  bench.option("--seed", options->bench.seed, "Seed for order and augmentation").show_default();
  bench.flag("--decode-only", options->bench.decode_only,
             "Only decode whole images with libjpeg-turbo, for comparison");
  bench
      .flag("--no-decode", options->bench.no_decode,
            "Read the images and check them, but decode none: what storage and format allow")
      .excludes("--decode-only");
  bench.flag("--cold", options->bench.cold,
             "Drop the data set from the page cache before each pass; --storage does so too");
  add_read_options(bench, options->bench.read);
  bench.flag("--json", options->as_json, "Print JSON");
  bench.notes(
      "Examples:\n"
      "  gpemu data bench photos --workers 2\n"
      "  gpemu data bench photos --decode-only --json\n"
      "  gpemu data bench shards --storage hdd --epochs 1\n"
      "  gpemu data bench photos --storage hdd --read async --epochs 1");
  bench.on_run([options, &world] {
    options->bench.cold = options->bench.cold || !options->bench.read.storage.empty();
    return bench_data(*options, world);
  });
}

void add_transform(Command data) {
  auto options = std::make_shared<TransformOptions>();
  Command transform = data.subcommand(
      "transform", "Make one training sample from an image, and report its random choices");
  transform.option("image", options->image, "JPEG or PNG file").required();
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
  Command data = app.subcommand("data", "Make, convert, show and measure data sets of images");
  data.require_subcommand();
  data.notes("Examples:\n  gpemu data make photos\n  gpemu data bench photos");
  add_make(data, world);
  add_convert(data, world);
  add_show(data, world);
  add_bench(data, world);
  add_transform(data);
  add_data_service_commands(data, world);
}

}  // namespace gpemu::tools
