// SPDX-License-Identifier: Apache-2.0
#include "jobs/run_job.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/moment.hpp"
#include "gpemu/device/node_files.hpp"
#include "gpemu/device/part.hpp"
#include "gpemu/device/process_priority.hpp"

namespace gpemu::tools {
namespace {

/// Waits and kernels are no longer, so that a job that is to stop does so soon.
constexpr Duration kPiece = std::chrono::milliseconds(50);
/// So many kernels of a job that has nothing else to do are queued, so that the GPU waits for none.
constexpr std::size_t kAhead = 2;
/// The most bytes of a file with a number.
constexpr Bytes kNumberBytes = 64;

/// Returns the number in a file: 1 if it is empty, as a downward API's without the annotation.
Result<double> read_pace(const std::filesystem::path& file) {
  if (file.empty()) return 1;
  GPEMU_ASSIGN(const std::string text, read_file(file, kNumberBytes));
  std::string_view word = text;
  while (!word.empty() && word.back() == '\n') word.remove_suffix(1);
  if (word.empty()) return 1;
  double pace = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), pace);
  const bool is_number = error == std::errc{} && end == word.data() + word.size();
  if (is_number && std::isfinite(pace) && pace > 0) return pace;
  return fail(ErrorCode::kInvalidArgument, "{}: '{}' is no pace, a number above 0", file.string(),
              word);
}

/// Returns how many iterations an earlier run of the job has done.
Result<std::uint64_t> read_done(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return 0;
  GPEMU_ASSIGN(const std::string text, read_file(file, kNumberBytes));
  std::string_view word = text;
  while (!word.empty() && word.back() == '\n') word.remove_suffix(1);
  std::uint64_t done = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), done);
  if (error == std::errc{} && end == word.data() + word.size()) return done;
  return fail(ErrorCode::kInvalidArgument,
              "{}: '{}' is no number of iterations; remove the file to begin anew", file.string(),
              word);
}

/// The GPUs of a job, and how it uses them.
class RunningJob {
 public:
  RunningJob(const RunJobOptions& options, const World& world, const std::atomic<bool>& stop)
      : options_(options), world_(world), stop_(stop) {}

  Result<void> open();
  /// Runs the iterations that are left; returns how many are done.
  Result<std::uint64_t> run(std::uint64_t done);

 private:
  /// Returns which of the node's GPUs it uses.
  [[nodiscard]] Result<std::vector<int>> indices_of(const std::string& node) const;
  void wait_until(TimePoint time);
  /// Returns when all but so many of the kernels have ended; how long the GPUs took, if all have.
  Duration compute(Duration time, std::size_t ahead);
  void wait_for_kernels(std::size_t ahead);
  [[nodiscard]] TimePoint now() const { return node_->clock().now(); }

  const RunJobOptions& options_;
  const World& world_;
  const std::atomic<bool>& stop_;
  std::shared_ptr<device::Node> node_;
  std::vector<std::unique_ptr<device::Device>> devices_;
  std::deque<std::vector<device::Moment>> ends_;  ///< of kernels that were not waited for.
  TimePoint last_end_{};                          ///< of those that were.
};

Result<void> RunningJob::open() {
  device::end_when_cut_short();
  std::string named = options_.node;
  if (named.empty()) named = world_.variable(variable::kNode).value_or("");
  GPEMU_ASSIGN(const std::string name, device::default_node_name(named, world_.nodes));
  GPEMU_ASSIGN(node_, device::Node::open(name, world_.nodes));
  const std::string priority = world_.variable(variable::kGpuPriority).value_or("");
  GPEMU_ASSIGN(const auto own,
               device::process_priority([&](const char* /*name*/) { return priority.c_str(); }));
  node_->set_priority(own);
  GPEMU_ASSIGN(const std::vector<int> indices, indices_of(name));
  GPEMU_ASSIGN(const device::ComputeShares shares, world_.compute_shares());
  for (const int index : indices) {
    GPEMU_ASSIGN(std::unique_ptr<device::Device> device,
                 device::Device::open(node_, index, node_->clock(), {}, shares.of(index)));
    devices_.push_back(std::move(device));
  }
  return {};
}

Result<std::vector<int>> RunningJob::indices_of(const std::string& node) const {
  const std::string part = options_.device ? "" : world_.variable(variable::kDevices).value_or("");
  auto all = device::part_of_node(part, node_->device_count());
  if (!all) return fail(all.error().code, "{}: {}", variable::kDevices, all.error().message);
  const std::size_t first = options_.device.value_or(0);
  const std::size_t last = first + static_cast<std::size_t>(options_.gpus) - 1;
  if (last < all->size()) {
    const auto begin = all->begin() + static_cast<std::ptrdiff_t>(first);
    return std::vector(begin, begin + options_.gpus);
  }
  if (!part.empty()) {
    return fail(ErrorCode::kInvalidArgument, "--gpus {} asks for more GPUs than {}={} names",
                options_.gpus, variable::kDevices, part);
  }
  return fail(ErrorCode::kInvalidArgument,
              "--device {} and --gpus {} ask for device {} of node '{}', whose last is {}", first,
              options_.gpus, last, node, node_->device_count() - 1);
}

void RunningJob::wait_until(TimePoint time) {
  while (!stop_ && now() < time) node_->clock().wait_until(std::min(time, now() + kPiece));
}

Duration RunningJob::compute(Duration time, std::size_t ahead) {
  const TimePoint begin = now();
  while (!stop_ && time > Duration::zero()) {
    const Duration piece = std::min(time, kPiece);
    std::vector<device::Moment>& ends = ends_.emplace_back();
    for (const auto& device : devices_) {
      device->default_stream().launch(piece);
      ends.push_back(device->default_stream().last_end());
    }
    wait_for_kernels(kAhead);
    time -= piece;
  }
  wait_for_kernels(ahead);
  return std::max(last_end_ - begin, Duration::zero());
}

void RunningJob::wait_for_kernels(std::size_t ahead) {
  for (; ends_.size() > ahead; ends_.pop_front()) {
    for (const device::Moment& end : ends_.front()) {
      end.wait(node_->clock());
      last_end_ = std::max(last_end_, end.time());
    }
  }
}

Result<std::uint64_t> RunningJob::run(std::uint64_t done) {
  const bool only_computes = !options_.stages_s;
  TimePoint begin = now();  // Of an iteration, if this host is never late.
  for (; done < options_.iterations; ++done) {
    GPEMU_ASSIGN(const double pace, read_pace(options_.pace));
    const Duration whole = from_seconds(options_.iteration_s * pace);
    const scheduling::Stages stages = options_.stages_s.value_or(scheduling::Stages{});
    const Duration host = from_seconds(stages[0]);
    wait_until(begin + host);
    const Duration gpu =
        only_computes ? compute(whole, kAhead) : compute(from_seconds(stages[1]), 0);
    if (stop_) break;
    if (only_computes) continue;
    // What others take of the GPUs counts; that this host wakes up late does not add up, unless it
    // is an iteration behind.
    begin += std::max(whole, host + gpu + from_seconds(stages[2]));
    wait_until(begin);
    begin = std::max(begin, now() - whole);
    if (stop_) break;
  }
  wait_for_kernels(0);
  return done;
}

/// Writes into a file that may not be replaced, such as a container's /dev/termination-log.
Result<void> write_progress(const std::filesystem::path& file, std::uint64_t done) {
  const FileDescriptor descriptor(
      ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  const std::string text = fmt::format("{}\n", done);
  if (descriptor.get() < 0 || ::write(descriptor.get(), text.data(), text.size()) < 0) {
    return fail(ErrorCode::kIo, "cannot write {}: {}", file.string(), errno_message(errno));
  }
  return {};
}

}  // namespace

Result<std::uint64_t> run_job(const RunJobOptions& options, const World& world,
                              const std::atomic<bool>& stop) {
  RunningJob job(options, world, stop);
  GPEMU_TRY(job.open());
  std::uint64_t before = 0;
  if (options.resume) {
    GPEMU_ASSIGN(before, read_done(options.progress));
  }
  GPEMU_ASSIGN(const std::uint64_t done, job.run(before));
  if (!options.progress.empty()) {
    GPEMU_TRY(write_progress(options.progress, done));
  }
  if (stop) {
    return fail(ErrorCode::kInterrupted, "the job was stopped after {} of {} iterations", done,
                options.iterations);
  }
  return done;
}

}  // namespace gpemu::tools
