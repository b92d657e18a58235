// SPDX-License-Identifier: Apache-2.0
#include "gpemu/service/data_client.hpp"

#include <algorithm>
#include <chrono>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/log.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"

#include "received_batch.hpp"

namespace gpemu::service {
namespace {

using namespace std::chrono_literals;

/// How often a client says that it lives and learns of new workers; what it received, it says at
/// once.
constexpr auto kFollowEvery = 100ms;
/// Longer than a worker lets a call wait for a batch, and than it takes to send one.
constexpr Duration kBatchPatience = 5s;
/// When a client says that nobody prepares anything.
constexpr Duration kPatienceWithoutWorkers = 5s;

}  // namespace

struct DataClient::State {
  State(Rpc& used_rpc, Options client_options, sim::Clock& used_clock)
      : rpc(used_rpc), options(std::move(client_options)), clock(used_clock) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    {
      const Lock lock(mutex);
      stopping = true;
    }
    changed.notify_all();
    if (follower.joinable()) follower.join();
    for (Fetcher& fetcher : fetchers) fetcher.thread.join();
  }

  /// A thread that asks a worker for batches.
  struct Fetcher {
    std::thread thread;
    std::atomic<bool> ended = false;
  };

  Result<void> open(const std::atomic<bool>& stop);
  void follow_until_end() GPEMU_EXCLUDES(mutex);
  Result<bool> follow(const Dispatcher::Report& report) GPEMU_EXCLUDES(mutex);
  void fetch_from(std::uint64_t worker, const std::string& address) GPEMU_EXCLUDES(mutex);
  Result<void> add_fetcher(std::uint64_t worker, const std::string& address);
  [[nodiscard]] bool is_batch(const Message& message, const BatchHeader& header) const;
  void take_in(Message message, BatchHeader header) GPEMU_EXCLUDES(mutex);
  void give_up(std::uint64_t worker, const std::string& why) GPEMU_EXCLUDES(mutex);
  [[nodiscard]] bool is_new(std::uint64_t split) GPEMU_REQUIRES(mutex);
  [[nodiscard]] sim::Wait wait_for(Duration time) const {
    return {.clock = clock, .until = clock.now() + time, .stop = stopping};
  }

  Rpc& rpc;
  const Options options;
  sim::Clock& clock;
  std::unique_ptr<RpcChannel> dispatcher;
  Dispatcher::Opened opened;
  ServedData data;
  std::thread follower;
  std::list<Fetcher> fetchers;         ///< touched by the follower until it has ended.
  std::atomic<bool> stopping = false;  ///< written with the lock.

  Mutex mutex;
  Condition changed;
  std::deque<Batch> queue GPEMU_GUARDED_BY(mutex);
  Dispatcher::Report unsaid GPEMU_GUARDED_BY(mutex);
  std::set<std::uint64_t> known_workers GPEMU_GUARDED_BY(mutex);
  std::size_t lost_workers GPEMU_GUARDED_BY(mutex) = 0;
  std::uint64_t all_before GPEMU_GUARDED_BY(mutex) = 0;  ///< received splits have smaller numbers,
  std::set<std::uint64_t> received GPEMU_GUARDED_BY(mutex);  ///< or are these.
  std::optional<Error> error GPEMU_GUARDED_BY(mutex);
  bool ended GPEMU_GUARDED_BY(mutex) = false;
  TimePoint heard GPEMU_GUARDED_BY(mutex);                   ///< when the dispatcher last answered.
  std::optional<Error> unreachable GPEMU_GUARDED_BY(mutex);  ///< why it did not since.
  /// Since when the training loop waits for a batch; nothing while it does not.
  std::optional<TimePoint> starving GPEMU_GUARDED_BY(mutex);
};

Result<void> DataClient::State::open(const std::atomic<bool>& stop) {
  dispatcher = rpc.connect(options.dispatcher, kMostFromDispatcher);
  Packer packer;
  packer.add_text(options.job);
  pack(packer, options.settings);
  const sim::Wait wait{.clock = clock, .until = clock.now() + options.patience, .stop = stop};
  GPEMU_ASSIGN(const Message reply, dispatcher->call(kOpen, packer.bytes(), wait));
  Unpacker unpacker(reply);
  unpacker.take(opened.job);
  unpacker.take(opened.client);
  unpack(unpacker, data);
  if (!unpacker.done()) return not_understood(kOpen);
  Lock lock(mutex);
  heard = clock.now();
  lock.unlock();
  follower = start_thread("gpemu-follow", [this] { follow_until_end(); });
  if (follower.joinable()) return {};
  return fail(ErrorCode::kResourceLimit, "cannot start a thread");
}

void DataClient::State::follow_until_end() {
  Dispatcher::Report report;
  while (true) {
    Result<bool> followed = follow(report);
    if (followed) report = {};
    Lock lock(mutex);
    if (followed) heard = clock.now();
    if (followed && *followed) ended = true;
    if (!followed && (followed.error().code != ErrorCode::kUnavailable ||
                      clock.now() - heard >= options.patience)) {
      error = followed.error();
    }
    unreachable = followed ? std::nullopt : std::optional(followed.error());
    if (ended || error || stopping) break;
    changed.wait_for(lock, kFollowEvery, [this]() GPEMU_REQUIRES(mutex) {
      return stopping || !unsaid.received.empty() || !unsaid.dead_workers.empty();
    });
    if (stopping) break;
    // What the dispatcher did not hear the last time, it hears again.
    report.received.insert(report.received.end(), unsaid.received.begin(), unsaid.received.end());
    report.dead_workers.insert(report.dead_workers.end(), unsaid.dead_workers.begin(),
                               unsaid.dead_workers.end());
    unsaid = {};
    if (followed) continue;
    lock.unlock();
    clock.wait_until(clock.now() + kFollowEvery);
  }
  changed.notify_all();
}

/// Reports to the dispatcher, and asks new workers for batches. Returns whether the job has ended.
Result<bool> DataClient::State::follow(const Dispatcher::Report& report) {
  Packer packer;
  packer.add(opened.job).add(opened.client);
  packer.add_all(std::span<const std::uint64_t>(report.received));
  packer.add_all(std::span<const std::uint64_t>(report.dead_workers));
  GPEMU_ASSIGN(const Message reply,
               dispatcher->call(kFollow, packer.bytes(), wait_for(options.patience)));
  Unpacker unpacker(reply);
  std::uint8_t is_ended = 0;
  std::uint32_t count = 0;
  unpacker.take(is_ended);
  unpacker.take(count);
  if (count > kMostWorkers) {
    return fail(ErrorCode::kCorruptData, "the dispatcher at {} names {} workers, more than {}",
                options.dispatcher, count, kMostWorkers);
  }
  std::map<std::uint64_t, std::string> workers;
  for (std::uint32_t i = 0; i < count && workers.size() == i; ++i) {
    std::uint64_t id = 0;
    unpacker.take(id);
    unpacker.take_text(workers[id]);
  }
  if (!unpacker.done()) return not_understood(kFollow);
  for (const auto& [id, address] : workers) {
    {
      const Lock lock(mutex);
      if (!known_workers.insert(id).second) continue;
    }
    GPEMU_TRY(add_fetcher(id, address));
  }
  return is_ended != 0;
}

Result<void> DataClient::State::add_fetcher(std::uint64_t worker, const std::string& address) {
  std::erase_if(fetchers, [](Fetcher& fetcher) {
    if (fetcher.ended) fetcher.thread.join();
    return fetcher.ended.load();
  });
  if (fetchers.size() >= kMostWorkers || address.size() > kMostName) {
    return fail(ErrorCode::kCorruptData, "the dispatcher at {} names workers without end",
                options.dispatcher);
  }
  Fetcher& fetcher = fetchers.emplace_back();
  fetcher.thread = start_thread("gpemu-fetch", [this, &fetcher, worker, address] {
    fetch_from(worker, address);
    fetcher.ended = true;
  });
  if (!fetcher.thread.joinable()) fetchers.pop_back();
  return {};
}

void DataClient::State::fetch_from(std::uint64_t worker, const std::string& address) {
  // A split's numbers come with its pixels.
  constexpr Bytes kHeaderBytes = 4 * kKiB;
  const Bytes numbers = static_cast<Bytes>(options.settings.batch) * sizeof(std::uint32_t);
  const std::unique_ptr<RpcChannel> channel =
      rpc.connect(address, options.settings.batch_bytes() + numbers + kHeaderBytes);
  Packer request;
  request.add(opened.job);
  TimePoint gave = clock.now();
  while (true) {
    {
      Lock lock(mutex);
      changed.wait_for(lock, kFollowEvery, [this]() GPEMU_REQUIRES(mutex) {
        return stopping || ended || error ||
               queue.size() < static_cast<std::size_t>(options.prefetch_batches);
      });
      if (stopping || ended || error) return;
      if (queue.size() >= static_cast<std::size_t>(options.prefetch_batches)) continue;
    }
    const Duration most = std::min(kBatchPatience, options.patience);
    Result<Message> reply = channel->call(kNext, request.bytes(), wait_for(most));
    BatchHeader header;
    if (!reply) return give_up(worker, reply.error().message);
    const Bytes bytes = reply->size();
    if (!take_header(*reply, header) ||
        (header.answer == NextAnswer::kBatch && !is_batch(*reply, header))) {
      return give_up(worker, fmt::format("worker {} sends {} bytes that are no batch of this job",
                                         address, bytes));
    }
    if (header.answer == NextAnswer::kBatch) {
      gave = clock.now();
      take_in(*std::move(reply), std::move(header));
      continue;
    }
    bool is_late = false;
    {
      Lock lock(mutex);
      // Others get what it holds while there still is time.
      is_late = starving && clock.now() - std::max(gave, *starving) >= options.patience / 2;
      // Its last batches may be on their way to other clients.
      if (header.answer == NextAnswer::kEnded) {
        changed.wait_for(lock, kFollowEvery,
                         [this]() GPEMU_REQUIRES(mutex) { return stopping.load(); });
      }
    }
    if (is_late) {
      return give_up(worker, fmt::format("worker {} has sent no batch for {:g} s (half of "
                                         "--patience)",
                                         address, to_seconds(options.patience / 2)));
    }
  }
}

/// Returns whether a worker may send this.
bool DataClient::State::is_batch(const Message& message, const BatchHeader& header) const {
  const Split& split = header.split;
  const auto beyond = [this](std::uint32_t sample) { return sample >= data.images; };
  const auto batch = static_cast<std::uint64_t>(options.settings.batch);
  const auto epochs = static_cast<std::uint64_t>(options.settings.epochs);
  const std::uint64_t splits = (data.images + batch - 1) / batch;
  return !split.samples.empty() && split.samples.size() <= batch && split.epoch < epochs &&
         split.number < epochs * splits && !std::ranges::any_of(split.samples, beyond) &&
         message.size() == split.samples.size() * (options.settings.batch_bytes() / batch);
}

/// Has others prepare what a worker holds.
void DataClient::State::give_up(std::uint64_t worker, const std::string& why) {
  {
    const Lock lock(mutex);
    if (stopping || ended) return;
    log(LogLevel::kWarning, "{}; others prepare what it held", why);
    ++lost_workers;
    unsaid.dead_workers.push_back(worker);
  }
  changed.notify_all();
}

bool DataClient::State::is_new(std::uint64_t split) {
  if (split < all_before || !received.insert(split).second) return false;
  while (received.erase(all_before) != 0) ++all_before;
  return true;
}

void DataClient::State::take_in(Message message, BatchHeader header) {
  {
    const Lock lock(mutex);
    unsaid.received.push_back(header.split.number);
    if (is_new(header.split.number)) {
      queue.push_back({.pixels = std::move(message),
                       .epoch = header.split.epoch,
                       .samples = std::move(header.split.samples),
                       .work = header.work});
    }
  }
  changed.notify_all();
}

DataClient::DataClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
DataClient::~DataClient() = default;

Result<std::unique_ptr<DataClient>> DataClient::open(Rpc& rpc, const Options& options,
                                                     sim::Clock& clock,
                                                     const std::atomic<bool>& stop) {
  auto state = std::make_unique<State>(rpc, options, clock);
  GPEMU_TRY(state->open(stop));
  return std::unique_ptr<DataClient>(new DataClient(std::move(state)));
}

Result<std::optional<DataClient::Batch>> DataClient::next(const std::atomic<bool>& stop) {
  State& state = *state_;
  const TimePoint asked = state.clock.now();
  bool warned = false;
  Lock lock(state.mutex);
  while (state.queue.empty()) {
    if (state.error) return std::unexpected(*state.error);
    if (state.ended || stop.load(std::memory_order_relaxed)) return std::nullopt;
    state.starving = state.starving.value_or(asked);
    const TimePoint now = state.clock.now();
    // A dispatcher that is as silent is the reason: the follower, whose call ends now, says it.
    const bool is_explained = state.unreachable || now - state.heard < state.options.patience;
    if (now - asked >= state.options.patience && is_explained) {
      if (state.unreachable) return std::unexpected(*state.unreachable);
      return fail(ErrorCode::kUnavailable,
                  "no worker of the dispatcher at {} has sent a batch for {:g} s (--patience): it "
                  "has named {}, of which {} stopped to answer",
                  state.options.dispatcher, to_seconds(state.options.patience),
                  state.known_workers.size(), state.lost_workers);
    }
    if (!warned && state.known_workers.size() == state.lost_workers &&
        now - asked > std::min(kPatienceWithoutWorkers, state.options.patience / 2)) {
      log(LogLevel::kWarning,
          "the dispatcher at {} has no workers: start some with `gpemu data "
          "work {}`",
          state.options.dispatcher, state.options.dispatcher);
      warned = true;
    }
    state.changed.wait_for(lock, 50ms, [&state]() GPEMU_REQUIRES(state.mutex) {
      return !state.queue.empty() || state.ended || state.error;
    });
  }
  Batch batch = std::move(state.queue.front());
  state.queue.pop_front();
  state.starving.reset();
  lock.unlock();
  state.changed.notify_all();
  return batch;
}

std::uint64_t DataClient::images() const {
  return state_->data.images;
}

std::uint64_t DataClient::bytes() const {
  return state_->data.bytes;
}

std::size_t DataClient::workers_seen() const {
  const Lock lock(state_->mutex);
  return state_->known_workers.size();
}

std::size_t DataClient::workers_lost() const {
  const Lock lock(state_->mutex);
  return state_->lost_workers;
}

}  // namespace gpemu::service
