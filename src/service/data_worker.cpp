// SPDX-License-Identifier: Apache-2.0
#include "gpemu/service/data_worker.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/log.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/data/image.hpp"
#include "gpemu/data/sample_source.hpp"
#include "gpemu/sim/random.hpp"

#include "received_batch.hpp"

namespace gpemu::service {
namespace {

using namespace std::chrono_literals;

/// How often a worker says that it lives: several times in Dispatcher::kWorkerPatience.
constexpr auto kBeatEvery = 500ms;
/// How long a client's call waits for a batch, and a thread for a split.
constexpr auto kWaitForBatch = 200ms;
constexpr auto kWaitForSplit = 20ms;
/// Batches that each thread prepares ahead of the clients.
constexpr std::size_t kAhead = 2;
/// Calls of clients that wait at the same time.
constexpr int kCalls = 16;

/// Prepares a split as the loader does: the same samples, from the same seed.
Message prepare(const data::Dataset& dataset, const JobSettings& settings, const Split& split,
                data::StorageDevice* storage, const sim::Clock& clock) {
  data::ImageTransform transform(settings.crop);
  const std::size_t floats = std::size_t{3} * static_cast<std::size_t>(settings.crop) *
                             static_cast<std::size_t>(settings.crop);
  BatchHeader header{.answer = NextAnswer::kBatch, .split = split};
  Message message(split.samples.size() * floats * sizeof(float));
  auto* pixels = reinterpret_cast<float*>(message.data());
  for (const std::uint32_t sample : split.samples) {
    const TimePoint begin = clock.now();
    const auto read = data::read_sample(dataset, sample, storage);
    const TimePoint fetched = clock.now();
    header.work.fetch += fetched - begin;
    sim::Rng rng(settings.seed, split.epoch, sample);
    const std::span<float> output(pixels, floats);
    const auto made = [&]() -> Result<data::Augmentation> {
      if (!read) return std::unexpected(read.error());
      header.work.bytes_read += dataset.samples()[sample].bytes;
      GPEMU_ASSIGN(const auto image,
                   dataset.image_in(sample, dataset.extent(sample), read->bytes()));
      return transform.apply(image, rng, output);
    }();
    if (!made) {
      ++header.work.corrupt;
      std::ranges::fill(output, 0.0F);
      log(LogLevel::kWarning, "{}: {}", dataset.sample_name(sample), made.error().message);
    }
    header.work.prep += clock.now() - fetched;
    pixels += floats;
  }
  add_header(message, header);
  return message;
}

class Working {
 public:
  Working(RpcChannel& dispatcher, Duration patience, sim::Clock& clock)
      : dispatcher_(dispatcher), patience_(patience), clock_(clock) {}
  Working(const Working&) = delete;
  Working& operator=(const Working&) = delete;
  ~Working() {
    {
      const Lock lock(mutex_);
      stopping_ = ending_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  /// Says where it is; returns the data set of the dispatcher.
  Result<ServedData> join(const std::string& address, const std::atomic<bool>& stop) {
    address_ = address;
    Packer packer;
    packer.add_text(address);
    GPEMU_ASSIGN(const Message reply, dispatcher_.call(kJoin, packer.bytes(), wait(stop)));
    Unpacker unpacker(reply);
    std::uint64_t worker = 0;
    ServedData data;
    unpacker.take(worker);
    unpack(unpacker, data);
    if (!unpacker.done()) return not_understood(kJoin);
    worker_ = worker;
    return data;
  }

  Result<void> start(const data::Dataset& dataset, data::StorageDevice* storage, int threads) {
    ahead_ = kAhead * static_cast<std::size_t>(threads);
    for (int i = 0; i < threads; ++i) {
      threads_.push_back(start_thread("gpemu-worker", [this, &dataset, storage] {
        while (work(dataset, storage)) {
        }
      }));
      if (threads_.back().joinable()) continue;
      threads_.pop_back();
      return fail(ErrorCode::kResourceLimit, "cannot start {} worker threads", threads);
    }
    return {};
  }

  /// Says that it lives, and learns which jobs there are.
  Result<void> beat(const std::atomic<bool>& stop) GPEMU_EXCLUDES(mutex_) {
    Packer packer;
    packer.add(worker_.load());
    Result<Message> reply = dispatcher_.call(kBeat, packer.bytes(), wait(stop));
    if (!reply && reply.error().code == ErrorCode::kNotFound) {
      GPEMU_TRY(join(address_, stop));
      return {};
    }
    if (!reply) return std::unexpected(std::move(reply).error());
    Unpacker unpacker(*reply);
    std::uint32_t count = 0;
    unpacker.take(count);
    if (count > kMostJobs) {
      return fail(ErrorCode::kCorruptData, "the dispatcher names {} jobs, more than {}", count,
                  kMostJobs);
    }
    std::map<std::uint64_t, JobSettings> open;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t job = 0;
      unpacker.take(job);
      unpack(unpacker, open[job]);
      GPEMU_TRY(check(open[job]));
    }
    if (!unpacker.done()) return not_understood(kBeat);
    {
      const Lock lock(mutex_);
      if (error_) return std::unexpected(*error_);
      std::erase_if(jobs_, [&open](const auto& job) {
        return !open.contains(job.first) && job.second.preparing == 0;
      });
      for (const auto& [id, settings] : open) jobs_[id].settings = settings;
    }
    changed_.notify_all();
    return {};
  }

  /// Answers a client.
  Result<Message> next(std::span<const std::byte> request) GPEMU_EXCLUDES(mutex_) {
    Unpacker unpacker(request);
    std::uint64_t id = 0;
    unpacker.take(id);
    if (!unpacker.done()) return not_understood(kNext);
    Lock lock(mutex_);
    changed_.wait_for(lock, kWaitForBatch, [this, id]() GPEMU_REQUIRES(mutex_) {
      const auto job = jobs_.find(id);
      return stopping_ || (job != jobs_.end() && (!job->second.ready.empty() || job->second.ended));
    });
    const auto job = jobs_.find(id);
    if (job == jobs_.end() || job->second.ready.empty()) {
      const bool ended = job != jobs_.end() && job->second.ended;
      Message message;
      add_header(message, {.answer = ended ? NextAnswer::kEnded : NextAnswer::kNone});
      return message;
    }
    Message message = std::move(job->second.ready.front());
    job->second.ready.pop_front();
    ++totals_.batches;
    lock.unlock();
    changed_.notify_all();
    return message;
  }

  [[nodiscard]] DataWorker::Totals totals() GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    return totals_;
  }

 private:
  struct Job {
    JobSettings settings;
    std::deque<Message> ready;
    std::size_t preparing = 0;
    bool ended = false;
  };

  /// Returns the next job in turn that can use a batch.
  std::map<std::uint64_t, Job>::iterator next_job() GPEMU_REQUIRES(mutex_) {
    auto job = jobs_.upper_bound(last_job_);
    for (std::size_t i = 0; i < jobs_.size(); ++i, ++job) {
      if (job == jobs_.end()) job = jobs_.begin();
      if (!job->second.ended && job->second.ready.size() + job->second.preparing < ahead_) {
        return job;
      }
    }
    return jobs_.end();
  }

  /// Prepares one split, if there is one. Returns false at the end.
  bool work(const data::Dataset& dataset, data::StorageDevice* storage) GPEMU_EXCLUDES(mutex_) {
    Lock lock(mutex_);
    if (stopping_) return false;
    const auto found = next_job();
    if (found == jobs_.end()) {
      changed_.wait_for(lock, kBeatEvery, [this]() GPEMU_REQUIRES(mutex_) {
        return stopping_ || next_job() != jobs_.end();
      });
      return true;
    }
    const std::uint64_t id = last_job_ = found->first;
    const JobSettings settings = found->second.settings;
    ++found->second.preparing;
    lock.unlock();
    const Result<Dispatcher::Work> given = ask(id, settings, dataset.samples().size());
    std::optional<Message> batch;
    if (given && given->answer == Dispatcher::Answer::kSplit) {
      batch = prepare(dataset, settings, given->split, storage, clock_);
    }
    lock.lock();
    // That it does not answer, the beats notice too.
    if (!given && given.error().code == ErrorCode::kCorruptData) error_ = given.error();
    Job& job = jobs_[id];
    --job.preparing;
    if (batch) {
      job.ready.push_back(*std::move(batch));
      totals_.samples += given->split.samples.size();
    } else if (given && given->answer == Dispatcher::Answer::kEnded) {
      job.ended = true;
    } else {
      changed_.wait_for(lock, kWaitForSplit, [this]() GPEMU_REQUIRES(mutex_) { return stopping_; });
    }
    lock.unlock();
    changed_.notify_all();
    return true;
  }

  /// Asks the dispatcher for a split. Errors: kCorruptData if it gives none that can be.
  Result<Dispatcher::Work> ask(std::uint64_t job, const JobSettings& settings,
                               std::size_t samples) {
    Packer packer;
    packer.add(worker_.load()).add(job);
    GPEMU_ASSIGN(const Message reply, dispatcher_.call(kWork, packer.bytes(), wait(ending_)));
    Unpacker unpacker(reply);
    Dispatcher::Work work;
    unpacker.take(work.answer);
    unpack(unpacker, work.split);
    const auto beyond = [samples](std::uint32_t sample) { return sample >= samples; };
    if (!unpacker.done() || std::ranges::any_of(work.split.samples, beyond) ||
        work.split.samples.size() > static_cast<std::size_t>(settings.batch)) {
      return not_understood(kWork);
    }
    return work;
  }

  [[nodiscard]] sim::Wait wait(const std::atomic<bool>& stop) const {
    return {.clock = clock_, .until = clock_.now() + patience_, .stop = stop};
  }

  RpcChannel& dispatcher_;
  const Duration patience_;
  sim::Clock& clock_;
  std::string address_;
  std::atomic<std::uint64_t> worker_ = 0;
  std::size_t ahead_ = kAhead;
  std::vector<std::thread> threads_;
  std::atomic<bool> ending_ = false;  ///< as stopping_, for those who do not have the lock.

  Mutex mutex_;
  Condition changed_;
  std::map<std::uint64_t, Job> jobs_ GPEMU_GUARDED_BY(mutex_);
  std::uint64_t last_job_ GPEMU_GUARDED_BY(mutex_) = 0;
  DataWorker::Totals totals_ GPEMU_GUARDED_BY(mutex_);
  bool stopping_ GPEMU_GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ GPEMU_GUARDED_BY(mutex_);  ///< ends the worker.
};

}  // namespace

Result<DataWorker::Totals> DataWorker::run(Rpc& rpc, const Options& options, const Open& open,
                                           data::StorageDevice* storage, sim::Clock& clock,
                                           const std::atomic<bool>& stop,
                                           const std::function<void(const std::string&)>& joined) {
  const std::unique_ptr<RpcChannel> dispatcher =
      rpc.connect(options.dispatcher, kMostFromDispatcher);
  std::unique_ptr<data::Dataset> dataset;
  Working working(*dispatcher, options.patience, clock);
  GPEMU_ASSIGN(
      const std::unique_ptr<RpcServer> server,
      rpc.serve({.address = options.listen, .threads = kCalls, .most_request = kMostToWorker},
                [&working](std::string_view method,
                           std::span<const std::byte> request) -> Result<Message> {
                  if (method != kNext) return not_understood(method);
                  return working.next(request);
                }));
  const std::string address =
      fmt::format("{}:{}", options.listen.substr(0, options.listen.rfind(':')), server->port());
  GPEMU_ASSIGN(const ServedData served, working.join(address, stop));
  GPEMU_ASSIGN(dataset, open(served.place));
  if (dataset->samples().size() != served.images || dataset->total_bytes() != served.bytes) {
    return fail(ErrorCode::kInvalidArgument,
                "the data set here has {} images of {} bytes, that of the dispatcher {} of {}: "
                "name the same one with --data",
                dataset->samples().size(), dataset->total_bytes(), served.images, served.bytes);
  }
  GPEMU_TRY(working.start(*dataset, storage, options.threads));
  joined(address);
  TimePoint heard = clock.now();
  while (!stop.load(std::memory_order_relaxed)) {
    const Result<void> beaten = working.beat(stop);
    if (beaten) heard = clock.now();
    if (!beaten && beaten.error().code == ErrorCode::kInterrupted) break;
    if (!beaten && beaten.error().code != ErrorCode::kUnavailable) {
      return fail(beaten.error().code, "the dispatcher at {}: {}", options.dispatcher,
                  beaten.error().message);
    }
    if (!beaten && clock.now() - heard >= options.patience) {
      return fail(ErrorCode::kUnavailable, "{}; it had {:g} s (--patience)", beaten.error().message,
                  to_seconds(options.patience));
    }
    const TimePoint next = clock.now() + kBeatEvery;
    while (clock.now() < next && !stop.load(std::memory_order_relaxed)) {
      clock.wait_until(std::min(next, clock.now() + 50ms));
    }
  }
  return working.totals();
}

}  // namespace gpemu::service
