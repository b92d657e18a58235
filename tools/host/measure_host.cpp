// SPDX-License-Identifier: Apache-2.0
#include "host/measure_host.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/text.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/data/sample_reader.hpp"
#include "gpemu/report/number_text.hpp"

#include "cli/read_options.hpp"

namespace gpemu::tools {
namespace {

/// Reads that wait at the same time for the rate of a device that overlaps them.
constexpr int kDeepQueue = 16;

/// Returns the time that other programs disturbed least: they make others longer, and none shorter.
double least_of(const std::vector<double>& times) {
  return *std::ranges::min_element(times);
}

/// Prepares images with gpemu's loader, again and again.
class Preparation {
 public:
  static Result<Preparation> create(const data::Dataset& dataset, int workers, const World& world) {
    const int batch = static_cast<int>(std::min<std::size_t>(16, dataset.samples().size()));
    Preparation made(world);
    GPEMU_ASSIGN(made.loader_, data::Loader::create(dataset, {.batch = batch, .workers = workers},
                                                    data::pageable_allocator(), world.clock));
    // Buffers are used for the first time, and threads start.
    GPEMU_TRY(made.prepare(batch * 4));
    return made;
  }

  /// Returns the processor time of an image. Workers are at the same place of a batch, ahead of
  /// the one that takes it, at the begin and at the end.
  Result<double> image_s(int images) {
    const Duration before = world_->process_cpu_time();
    GPEMU_ASSIGN(const int prepared, prepare(images));
    return to_seconds(world_->process_cpu_time() - before) / prepared;
  }

 private:
  explicit Preparation(const World& world) : world_(&world) {}

  Result<int> prepare(int images) {
    int prepared = 0;
    while (prepared < images) {
      GPEMU_ASSIGN(const std::optional<data::Batch> batch, loader_->next());
      if (batch) {
        prepared += batch->size();
      } else {
        loader_->start_epoch(epoch_++);
      }
    }
    return prepared;
  }

  const World* world_;
  std::optional<data::Loader> loader_;
  std::uint64_t epoch_ = 0;
};

Result<void> check_running(const std::atomic<bool>& stop) {
  if (stop) return fail(ErrorCode::kInterrupted, "stopped; no host file was written");
  return {};
}

/// Returns 1, 2, 4 and so on, and the number of cores.
std::vector<int> busy_counts(int cores) {
  std::vector<int> counts;
  for (int busy = 1; busy < cores; busy *= 2) counts.push_back(busy);
  counts.push_back(cores);
  return counts;
}

/// Measures an image with one worker, and how much slower busy ones are, in turns.
Result<void> measure_processor(const data::Dataset& dataset, const HostMeasureOptions& options,
                               const World& world, const std::atomic<bool>& stop,
                               MeasuredHost& host) {
  GPEMU_TRY(dataset.fill_page_cache(&stop));
  const std::vector<int> counts = busy_counts(host.facts.cores);
  std::vector<std::vector<double>> times(counts.size());
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      GPEMU_TRY(check_running(stop));
      GPEMU_ASSIGN(Preparation preparation, Preparation::create(dataset, counts[i], world));
      GPEMU_ASSIGN(const double image_s, preparation.image_s(options.images));
      times[i].push_back(image_s);
    }
  }
  const double alone_s = least_of(times.front());
  double slowest = 1;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double busy_s = least_of(times[i]);
    if (busy_s > 0) slowest = std::min(slowest, alone_s / busy_s);
    host.speed_by_busy.emplace_back(counts[i], slowest);
  }
  host.loaders.push_back({.format = std::string(dataset.format_name()), .image_s = alone_s});
  return {};
}

Result<void> measure_loader(const data::Dataset& dataset, const HostMeasureOptions& options,
                            const World& world, const std::atomic<bool>& stop, MeasuredHost& host) {
  GPEMU_TRY(dataset.fill_page_cache(&stop));
  GPEMU_ASSIGN(Preparation preparation, Preparation::create(dataset, 1, world));
  std::vector<double> times;
  for (int round = 0; round < options.rounds; ++round) {
    GPEMU_TRY(check_running(stop));
    GPEMU_ASSIGN(const double image_s, preparation.image_s(options.images));
    times.push_back(image_s);
  }
  host.loaders.push_back(
      {.format = std::string(dataset.format_name()), .image_s = least_of(times)});
  return {};
}

/// Returns some samples, from everywhere.
std::vector<std::uint32_t> some_samples(const data::Dataset& dataset, int count) {
  std::vector<std::uint32_t> order =
      data::shuffled_order(dataset.samples().size(), /*seed=*/0, /*epoch=*/0);
  order.resize(std::min(order.size(), static_cast<std::size_t>(count)));
  return order;
}

Result<std::vector<TimedRead>> timed_reads(const data::Dataset& dataset, int count,
                                           const World& world, const std::atomic<bool>& stop) {
  GPEMU_TRY(make_cold(dataset, stop));
  std::vector<TimedRead> reads;
  data::SampleReader reader(dataset);
  for (const std::uint32_t sample : some_samples(dataset, count)) {
    GPEMU_TRY(check_running(stop));
    const TimePoint start = world.clock.now();
    GPEMU_TRY(reader.read(sample));
    reads.push_back({.bytes = static_cast<double>(reader.bytes_read()),
                     .seconds = to_seconds(world.clock.now() - start)});
  }
  return reads;
}

/// Returns how many samples are read in a second when many reads wait.
Result<double> deep_rate(const data::Dataset& dataset, int count, const World& world,
                         const std::atomic<bool>& stop) {
  GPEMU_TRY(dataset.drop_page_cache(&stop));
  const std::vector<std::uint32_t> samples = some_samples(dataset, count);
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  const TimePoint start = world.clock.now();
  std::vector<std::thread> threads;
  for (int i = 0; i < kDeepQueue; ++i) {
    threads.push_back(start_thread("gpemu-read", [&] {
      data::SampleReader reader(dataset);
      for (std::size_t at = next++; at < samples.size() && !stop; at = next++) {
        if (!reader.read(samples[at])) failed = true;
      }
    }));
  }
  const bool all = std::ranges::all_of(threads, &std::thread::joinable);
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  GPEMU_TRY(check_running(stop));
  if (!all || failed) {
    return fail(ErrorCode::kIo, "cannot read the images of {} by {} threads",
                dataset.root().string(), kDeepQueue);
  }
  const double elapsed_s = to_seconds(world.clock.now() - start);
  // A clock that does not move, or a device that takes no time.
  return static_cast<double>(samples.size()) / std::max(elapsed_s, 1e-6);
}

Result<void> check_formats(const std::vector<data::Dataset>& datasets) {
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (datasets[i].format() != datasets[j].format()) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "{} and {} have the format {}: name one data set of each format, because a host "
                  "file has one loader for each",
                  datasets[j].root().string(), datasets[i].root().string(),
                  datasets[i].format_name());
    }
  }
  return {};
}

/// Returns a text as TOML, whose basic strings escape as JSON's do.
std::string toml_string(std::string_view text) {
  return nlohmann::json(printable(text)).dump();
}

}  // namespace

MeasuredStorage fit_storage(std::vector<TimedRead> reads, double reads_per_s) {
  // A few reads that others delayed say nothing about the device.
  std::ranges::sort(reads, {}, &TimedRead::seconds);
  reads.resize(std::max<std::size_t>(1, reads.size() - reads.size() / 50));
  std::ranges::sort(reads, {}, &TimedRead::bytes);
  const auto mean = [](std::span<const TimedRead> some) {
    TimedRead sum;
    for (const TimedRead& read : some) {
      sum.bytes += read.bytes;
      sum.seconds += read.seconds;
    }
    const auto count = static_cast<double>(some.size());
    return TimedRead{sum.bytes / count, sum.seconds / count};
  };
  const TimedRead all = mean(reads);
  const double deep_s = 1 / reads_per_s;
  // No slower than when many wait; else as the smaller and the larger half differ.
  double s_per_byte = all.bytes > 0 ? std::min(deep_s, all.seconds) / all.bytes : 0;
  if (reads.size() >= 4) {
    const TimedRead small = mean(std::span(reads).first(reads.size() / 2));
    const TimedRead large = mean(std::span(reads).subspan(reads.size() / 2));
    const double slope = (large.seconds - small.seconds) / (large.bytes - small.bytes);
    if (large.bytes > small.bytes && slope > 0) s_per_byte = std::min(s_per_byte, slope);
  }
  // What the host file can express: beyond it, reading takes no time that matters.
  constexpr double kMostBytesPerS = 1e12;
  MeasuredStorage storage;
  storage.bytes_per_s = std::min(kMostBytesPerS, s_per_byte > 0 ? 1 / s_per_byte : kMostBytesPerS);
  storage.access_s = std::max(0.0, all.seconds - all.bytes / storage.bytes_per_s);
  const double overlapping = std::max(all.seconds, 1e-9) / deep_s;
  storage.requests_at_once = static_cast<int>(std::clamp(std::round(overlapping), 1.0, 1024.0));
  return storage;
}

Result<MeasuredHost> measure_host(const std::vector<data::Dataset>& datasets,
                                  const HostMeasureOptions& options, const World& world,
                                  const std::atomic<bool>& stop) {
  GPEMU_TRY(check_formats(datasets));
  const data::Dataset& first = datasets.front();
  MeasuredHost host{.facts = report::host_facts()};
  const report::HostLoadMeter meter(report::LoadScope::kThisProcess, world.host_sample);
  GPEMU_TRY(measure_processor(first, options, world, stop, host));
  for (std::size_t i = 1; i < datasets.size(); ++i) {
    GPEMU_TRY(measure_loader(datasets[i], options, world, stop, host));
  }
  GPEMU_ASSIGN(std::vector<TimedRead> reads, timed_reads(first, options.images, world, stop));
  GPEMU_ASSIGN(const double rate, deep_rate(first, options.images, world, stop));
  host.storage = fit_storage(std::move(reads), rate);
  host.in_memory = is_in_memory(first);
  host.image_bytes =
      static_cast<double>(first.total_bytes()) / static_cast<double>(first.samples().size());
  host.load = meter.read();
  return host;
}

std::string host_file_text(const std::string& name, const MeasuredHost& host) {
  const auto number = [](double value) { return fmt::format("{:.6g}", value); };
  std::vector<std::string> shares;
  for (const auto& [busy, speed] : host.speed_by_busy) {
    shares.push_back(fmt::format("[{}, {}]", busy, number(speed)));
  }
  const std::string cpu = host.facts.cpu.empty() ? "unknown" : host.facts.cpu;
  std::string text = fmt::format(
      "# Written by `gpemu host measure`.\n"
      "name = {}\n"
      "title = {}\n"
      "\n"
      "[cpu]\n"
      "model = {}\n"
      "cores = {}\n"
      "speed_by_busy = [{}]\n"
      "source = \"loader\"\n"
      "\n"
      "[memory]\n"
      "gib = {}\n"
      "source = \"kernel\"\n",
      toml_string(name),
      toml_string(fmt::format("This machine: {}, {} cores", cpu, host.facts.cores)),
      toml_string(cpu), host.facts.cores, fmt::join(shares, ", "),
      number(static_cast<double>(host.facts.memory) / static_cast<double>(kGiB)));
  for (const MeasuredLoader& loader : host.loaders) {
    text += fmt::format(
        "\n"
        "[[loader]]\n"
        "name = \"gpemu-{}\"\n"
        "shared_batches = true\n"
        "image_ms = {}\n"
        "source = \"loader\"\n",
        loader.format, number(loader.image_s * 1e3));
  }
  text += fmt::format(
      "\n"
      "[[storage]]\n"
      "name = \"files\"\n"
      "access_ms = {}\n"
      "requests_at_once = {}\n"
      "mb_per_s = {}\n"
      "source = \"reads\"\n",
      number(host.storage.access_s * 1e3), host.storage.requests_at_once,
      number(host.storage.bytes_per_s / 1e6));
  const std::string loader_source = fmt::format(
      "gpemu host measure, {}: processor time of gpemu's loader for images of {:.0f} kB "
      "in the page cache; other programs used {:.1f} of {} cores meanwhile",
      host.date, host.image_bytes / 1e3,
      to_seconds(host.load.others_cpu) / std::max(1e-9, to_seconds(host.load.elapsed)),
      host.facts.cores);
  text += fmt::format(
      "\n"
      "[sources]\n"
      "loader = {}\n"
      "kernel = \"the memory that the kernel reports\"\n"
      "reads = {}\n",
      toml_string(loader_source),
      toml_string(
          fmt::format("gpemu host measure, {}: reads of such images one after the other, and {} "
                      "at a time, {}",
                      host.date, kDeepQueue,
                      host.in_memory ? "in memory: the data set lies in no storage"
                                     : "with an empty page cache")));
  return text;
}

}  // namespace gpemu::tools
