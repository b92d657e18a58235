// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/input_pipeline.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "gpemu/base/error.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/pipeline/event_loop.hpp"
#include "gpemu/pipeline/locality.hpp"

#include "parts_ahead.hpp"

namespace gpemu::pipeline {
namespace {

std::vector<double> cpu_speeds(const profile::HostCpu& cpu) {
  std::vector<double> speeds{0};
  for (int busy = 1; busy <= cpu.threads; ++busy) {
    speeds.push_back(busy * cpu.speed_by_busy.at(busy));
  }
  return speeds;
}

/// The files of an epoch by node, in the order in which each prepares them. Where a real data set
/// has several samples in a file, they are its samples.
class EpochPlan {
 public:
  EpochPlan(const PipelineSetup& setup, int files_per_batch, std::uint64_t epoch,
            std::span<const Owner> owners)
      : files_per_batch_(static_cast<std::size_t>(files_per_batch)) {
    std::vector<FileId> order =
        setup.dataset ? setup.dataset->epoch_order(setup.dataset->natural_order(), setup.window,
                                                   setup.seed, epoch)
                      : data::shuffled_order(setup.file_bytes.size(), setup.seed, epoch);
    if (setup.cache.peers != Peers::kLocality) {
      // As PyTorch's DistributedSampler: the order begins again until all have equally many.
      const std::size_t files = order.size();
      const auto nodes = static_cast<std::size_t>(setup.nodes);
      for (std::size_t i = 0; order.size() % nodes != 0; ++i) order.push_back(order[i % files]);
      owners = {};
    }
    files_ = divide_among_nodes(order, owners, setup.nodes, files_per_batch_);
    if (setup.dataset) drop_last();
    const auto most = std::ranges::max_element(files_, {}, &std::vector<FileId>::size);
    batches_ = (most->size() + files_per_batch_ - 1) / files_per_batch_;
  }
  /// Returns how many batches the node with the most has.
  [[nodiscard]] std::size_t batches() const { return batches_; }
  [[nodiscard]] std::span<const FileId> all(std::uint32_t node) const { return files_[node]; }
  [[nodiscard]] std::span<const FileId> batch(std::uint32_t node, std::size_t index) const {
    const std::vector<FileId>& files = files_[node];
    const std::size_t begin = std::min(files.size(), index * files_per_batch_);
    return std::span(files).subspan(begin, std::min(files_per_batch_, files.size() - begin));
  }

 private:
  /// Leaves out batches that are not full, as gpemu's loader does.
  void drop_last() {
    for (std::vector<FileId>& files : files_) {
      files.resize(files.size() / files_per_batch_ * files_per_batch_);
    }
  }

  std::size_t files_per_batch_;
  std::vector<std::vector<FileId>> files_;
  std::size_t batches_ = 0;
};

class PipelineSimulation {
 public:
  explicit PipelineSimulation(PipelineSetup setup)
      : setup_(std::move(setup)),
        files_per_batch_(std::max(1, setup_.batch / setup_.samples_per_file)),
        caches_(cache_options(setup_), setup_.file_bytes) {
    GPEMU_CHECK(setup_.nodes > 0 && setup_.workers > 0 && setup_.batch > 0 &&
                    setup_.prefetch_batches > 0 && setup_.samples_per_file > 0 &&
                    !setup_.file_bytes.empty(),
                "a described host has nodes, workers and files");
    nodes_.resize(static_cast<std::size_t>(setup_.nodes));
    for (Node& node : nodes_) {
      node.cpu = loop_.add_station(cpu_speeds(setup_.cpu));
      node.storage = setup_.storage.shared && &node != &nodes_.front() ? nodes_.front().storage
                                                                       : loop_.add_station();
      node.link = loop_.add_station();
      node.workers.resize(static_cast<std::size_t>(setup_.workers));
    }
  }

  void begin(std::uint64_t epoch) {
    plan_ = std::make_unique<EpochPlan>(setup_, files_per_batch_, epoch, caches_.owners());
    result_ = {};
    begin_s_ = loop_.now_s();
    copied_ = 0;
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) begin_epoch(node);
  }

  /// Returns nothing after `stop`.
  std::optional<EpochResult> run_epoch(std::uint64_t epoch, const std::atomic<bool>* stop) {
    computes_ = true;
    begin(epoch);
    while (const std::optional<Event> event = loop_.next()) {
      if (stop != nullptr && stop->load(std::memory_order_relaxed)) return std::nullopt;
      handle(*event);
    }
    const auto nodes = static_cast<double>(nodes_.size());
    result_.epoch_s = loop_.now_s() - begin_s_;
    for (double* sum : {&result_.wait_s, &result_.first_wait_s, &result_.copy_s, &result_.step_s,
                        &result_.others_s}) {
      *sum /= nodes;
    }
    return result_;
  }

  /// Lets time pass, for a training loop elsewhere.
  void run_until(double time_s) {
    while (const std::optional<Event> event = loop_.next(time_s)) handle(*event);
  }

  /// Takes the next batch of each node, for such a loop.
  std::optional<TakenBatch> take_batches() {
    if (nodes_.front().received == plan_->batches()) return std::nullopt;
    const std::uint64_t samples_before = result_.samples;
    for (std::uint32_t i = 0; i < nodes_.size() && !setup_.pin; ++i) {
      // The step of the last batch has ended.
      if (nodes_[i].left_memory < nodes_[i].received) leave_memory(i);
    }
    const auto waits = [](const Node& node) { return !node.next_is_pinned(); };
    while (std::ranges::any_of(nodes_, waits)) {
      const std::optional<Event> event = loop_.next();
      GPEMU_CHECK(event.has_value(), "workers prepare every batch");
      handle(*event);
    }
    TakenBatch batch{.ready_s = loop_.now_s()};
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      const Work work =
          std::exchange(nodes_[i].works[nodes_[i].received % nodes_[i].works.size()], {});
      batch.read_s += work.read_s;
      batch.prepare_s += work.prepare_s;
      batch.storage_bytes += work.storage_bytes;
      receive(i);
    }
    batch.samples = result_.samples - samples_before;
    return batch;
  }

 private:
  enum Kind : std::uint32_t { kStarted, kRead, kPartRead, kPrepared, kPinned, kCopied, kStepped };

  /// What workers did for one batch.
  struct Work {
    double read_s = 0, prepare_s = 0;
    std::uint64_t storage_bytes = 0;
  };

  /// What each event needs is in one line of the processor's cache, because events of all other
  /// workers of all nodes come between two events of one worker.
  struct alignas(64) Worker {
    std::size_t batch = 0;     ///< that it prepares or prepares next.
    std::size_t position = 0;  ///< of its file in the batch.
    double since_s = 0;        ///< when it began to read or to prepare a file.
    Work work;                 ///< for the batch, that the batch does not have yet.
    bool idle = true;
    // Of superbatches, counted in the worker's own batches:
    std::size_t read_batches = 0;     ///< whose files have been read.
    std::size_t reading_batches = 0;  ///< whose files have been asked for.
    std::size_t pending = 0;          ///< files that have been asked for and not come.
  };

  struct Node {
    EventLoop::StationId cpu = 0, storage = 0, link = 0;
    std::vector<Worker> workers;
    std::vector<char> pinned;  ///< whether a batch is ready, in a ring.
    std::vector<Work> works;   ///< the same ring.
    std::size_t received = 0;  ///< batches that the training loop has taken.
    double pin_free_s = 0;     ///< when the thread that pins batches is free.
    double since_s = 0;        ///< when the loop began to wait, or copied its batch.
    bool waiting = false;
    std::size_t left_memory = 0;  ///< batches that have left shared memory.
    // Of workers that share batches:
    std::size_t batch = 0;                    ///< whose samples they take,
    std::size_t position = 0;                 ///< and the next one of it.
    std::vector<std::size_t> unprepared;      ///< samples of each batch, in the ring.
    std::optional<PartsAhead> parts;          ///< if parts are read ahead.
    bool reading = false;                     ///< a part.
    Bytes read_end = 0;                       ///< where the last part that was read ends,
    std::uint32_t read_file = UINT32_MAX;     ///< and in which file.
    std::vector<std::uint32_t> part_waiters;  ///< workers.

    [[nodiscard]] bool next_is_pinned() const { return pinned[received % pinned.size()] != 0; }
  };

  static NodeCaches::Options cache_options(const PipelineSetup& setup) {
    NodeCaches::Options options = setup.cache;
    options.nodes = setup.nodes;
    return options;
  }

  [[nodiscard]] bool shares_batches() const { return setup_.loader.shared_batches; }

  [[nodiscard]] std::size_t prefetched() const {
    return static_cast<std::size_t>(shares_batches() ? 1 : setup_.workers) *
           static_cast<std::size_t>(setup_.prefetch_batches);
  }

  /// Returns the first batch for which there is no room.
  [[nodiscard]] std::size_t end_of_room(const Node& node) const {
    const std::size_t ahead = node.received + prefetched();
    if (setup_.shared_memory_batches == 0) return ahead;
    return std::min(ahead,
                    node.left_memory + static_cast<std::size_t>(setup_.shared_memory_batches));
  }

  void begin_epoch(std::uint32_t index) {
    Node& node = nodes_[index];
    node.pinned.assign(prefetched() + 1, 0);
    node.works.assign(prefetched() + 1, {});
    node.unprepared.assign(prefetched() + 1, 0);
    node.received = node.left_memory = node.batch = node.position = 0;
    if (reads_parts()) node.parts.emplace(*setup_.dataset, setup_.window, plan_->all(index));
    node.pin_free_s = node.since_s = loop_.now_s();
    node.waiting = computes_;
    for (std::size_t i = 0; i < node.workers.size(); ++i) node.workers[i] = {.batch = i};
    // The loop starts all workers before it hands out the first batch.
    loop_.after(setup_.workers * setup_.loader.start_s, {.kind = kStarted, .node = index});
  }

  void handle(const Event& event) {
    switch (event.kind) {
      case kStarted:
        read_parts(event.node);
        for (std::uint32_t i = 0; i < nodes_[event.node].workers.size(); ++i) {
          if (setup_.superbatch > 0) ask_for_superbatch(event.node, i);
          if (nodes_[event.node].workers[i].idle) go_on(event.node, i);
        }
        return;
      case kRead:
        return has_read(event.node, event.index);
      case kPartRead:
        return has_read_part(event.node, event.index);
      case kPrepared:
        return prepared(event.node, event.index);
      case kPinned: {
        Node& node = nodes_[event.node];
        node.pinned[event.index % node.pinned.size()] = 1;
        if (setup_.pin) leave_memory(event.node);
        if (node.waiting) receive(event.node);
        return;
      }
      case kCopied:
        return copied(event.node);
      case kStepped:
        return stepped(event.node);
      default:
        GPEMU_CHECK(false, "an event of no kind");
    }
  }

  /// Has a worker do what it can do next, at once: end its batch, begin another, or take a file.
  void go_on(std::uint32_t index, std::uint32_t worker_index) {
    Node& node = nodes_[index];
    Worker& worker = node.workers[worker_index];
    if (shares_batches()) return take_next(index, worker_index);
    if (!worker.idle) {
      if (worker.position < plan_->batch(index, worker.batch).size()) {
        return take(index, worker_index);
      }
      hand_over_work(node, worker);
      pin(index, worker.batch);
      worker.batch += node.workers.size();
      worker.position = 0;
    }
    worker.idle =
        worker.batch >= plan_->batches() || worker.batch >= end_of_room(node) || !is_read(worker);
    if (worker.idle) return;
    if (setup_.superbatch > 0 && own(worker) + superbatch() >= worker.reading_batches) {
      ask_for_superbatch(index, worker_index);
    }
    if (!plan_->batch(index, worker.batch).empty()) return take(index, worker_index);
    go_on(index, worker_index);  // The epoch's last batch has no file for this node.
  }

  /// Has a worker take the next sample of those that all of them share.
  void take_next(std::uint32_t index, std::uint32_t worker_index) {
    Node& node = nodes_[index];
    Worker& worker = node.workers[worker_index];
    worker.idle = true;
    while (node.batch < std::min(plan_->batches(), end_of_room(node))) {
      const std::size_t samples = plan_->batch(index, node.batch).size();
      std::size_t& unprepared = node.unprepared[node.batch % node.unprepared.size()];
      if (node.position == 0) unprepared = samples;
      if (node.position < samples) {
        worker.idle = false;
        worker.batch = node.batch;
        worker.position = node.position++;
        return take(index, worker_index);
      }
      if (samples == 0) pin(index, node.batch);
      ++node.batch;
      node.position = 0;
    }
  }

  [[nodiscard]] FileId sample_of(std::uint32_t index, const Worker& worker) const {
    return plan_->batch(index, worker.batch)[worker.position];
  }

  void take(std::uint32_t index, std::uint32_t worker_index) {
    Worker& worker = nodes_[index].workers[worker_index];
    if (setup_.superbatch > 0) return prepare(index, worker_index);
    if (!nodes_[index].parts) {
      // What is known of many files does not fit into the processor's caches. By the time the
      // worker takes the next one, it has come.
      const std::span<const FileId> batch = plan_->batch(index, worker.batch);
      if (worker.position + 1 < batch.size()) {
        const FileId next = batch[worker.position + 1];
        __builtin_prefetch(&setup_.file_bytes[next]);
        caches_.prefetch(static_cast<int>(index), next);
      }
      return read(index, worker_index, batch[worker.position], 1);
    }
    worker.since_s = loop_.now_s();
    if (nodes_[index].parts->is_read(sample_of(index, worker))) {
      return has_read(index, worker_index);
    }
    nodes_[index].part_waiters.push_back(worker_index);
  }

  void prepared(std::uint32_t index, std::uint32_t worker_index) {
    Node& node = nodes_[index];
    Worker& worker = node.workers[worker_index];
    worker.work.prepare_s += loop_.now_s() - worker.since_s;
    if (!shares_batches()) {
      ++worker.position;
      return go_on(index, worker_index);
    }
    hand_over_work(node, worker);
    if (node.parts) {
      node.parts->done(sample_of(index, worker));
      read_parts(index);
    }
    const std::size_t batch = worker.batch;
    go_on(index, worker_index);
    if (--node.unprepared[batch % node.unprepared.size()] == 0) pin(index, batch);
  }

  /// Whether a thread reads parts of large files ahead, as gpemu's loader does.
  [[nodiscard]] bool reads_parts() const {
    return setup_.dataset && setup_.dataset->natural_order() != data::ReadOrder::kRandom;
  }

  /// Has that thread read the next part from storage, if it is free and may.
  void read_parts(std::uint32_t index) {
    Node& node = nodes_[index];
    if (!node.parts || node.reading) return;
    while (const std::optional<FileId> part = node.parts->next()) {
      const data::Unit& unit = setup_.dataset->units()[*part];
      const bool continues = unit.file == node.read_file && unit.offset == node.read_end;
      if (caches_.read(static_cast<int>(index), *part) == NodeCaches::kHere) {
        ++result_.cache_reads;
        node.parts->has_read(*part);
        continue;
      }
      node.read_file = unit.file;
      node.read_end = unit.offset + unit.bytes;
      node.reading = true;
      count_storage_read(unit.bytes);
      return from_storage(node, unit.bytes, 1, continues,
                          {.kind = kPartRead, .node = index, .index = *part});
    }
  }

  void has_read_part(std::uint32_t index, FileId part) {
    Node& node = nodes_[index];
    node.parts->has_read(part);
    node.reading = false;
    read_parts(index);
    Bytes bytes = setup_.dataset->units()[part].bytes;
    for (const std::uint32_t worker : std::exchange(node.part_waiters, {})) {
      if (node.parts->is_read(sample_of(index, node.workers[worker]))) {
        // They count for the batch that waited first.
        node.workers[worker].work.storage_bytes += std::exchange(bytes, 0);
        has_read(index, worker);
      } else {
        node.part_waiters.push_back(worker);
      }
    }
  }

  void count_storage_read(Bytes bytes) {
    ++result_.storage_reads;
    result_.storage_bytes += bytes;
  }

  /// Reads from storage, which `burst` reads are asked for at the same time.
  void from_storage(const Node& node, Bytes bytes, std::size_t burst, bool continues, Event event) {
    const std::size_t depth = std::max(loop_.jobs(node.storage) + 1, burst);
    const auto time =
        setup_.storage.read_time(static_cast<double>(bytes), static_cast<double>(depth), continues);
    loop_.serve(node.storage, time.alone_s, event,
                time.alone_s > 0 ? time.busy_s / time.alone_s : 1);
  }

  /// Counts what a worker did for its batch.
  static void hand_over_work(Node& node, Worker& worker) {
    Work& work = node.works[worker.batch % node.works.size()];
    const Work done = std::exchange(worker.work, {});
    work.read_s += done.read_s;
    work.prepare_s += done.prepare_s;
    work.storage_bytes += done.storage_bytes;
  }

  void prepare(std::uint32_t index, std::uint32_t worker_index) {
    nodes_[index].workers[worker_index].since_s = loop_.now_s();
    loop_.serve(nodes_[index].cpu, setup_.samples_per_file * setup_.loader.image_s,
                {.kind = kPrepared, .node = index, .index = worker_index});
  }

  /// Reads a file, which is one of `burst` that are asked for at the same time.
  void read(std::uint32_t index, std::uint32_t worker, FileId file, std::size_t burst) {
    const Event event{.kind = kRead, .node = index, .index = worker};
    nodes_[index].workers[worker].since_s = loop_.now_s();
    const std::uint32_t bytes = setup_.file_bytes[file];
    const int from = caches_.read(static_cast<int>(index), file);
    if (from == NodeCaches::kHere) {
      ++result_.cache_reads;
      return has_read(index, worker);
    }
    if (from != NodeCaches::kStorage) {
      ++result_.peer_reads;
      return loop_.serve(
          nodes_[static_cast<std::size_t>(from)].link,
          setup_.loader.peer_s + setup_.network.request_s + bytes / setup_.network.bytes_per_s,
          event);
    }
    count_storage_read(bytes);
    nodes_[index].workers[worker].work.storage_bytes += bytes;
    from_storage(nodes_[index], bytes, burst, false, event);
  }

  void has_read(std::uint32_t index, std::uint32_t worker_index) {
    Worker& worker = nodes_[index].workers[worker_index];
    if (setup_.superbatch == 0) {
      worker.work.read_s += loop_.now_s() - worker.since_s;
      return prepare(index, worker_index);
    }
    if (--worker.pending > 0) return;
    worker.read_batches = worker.reading_batches;
    if (worker.idle) go_on(index, worker_index);
  }

  [[nodiscard]] std::size_t superbatch() const {
    return static_cast<std::size_t>(setup_.superbatch);
  }
  /// Returns the number of a worker's batch among its own.
  [[nodiscard]] std::size_t own(const Worker& worker) const {
    return worker.batch / static_cast<std::size_t>(setup_.workers);
  }
  [[nodiscard]] bool is_read(const Worker& worker) const {
    return setup_.superbatch == 0 || own(worker) < worker.read_batches;
  }

  /// Asks for the files of a worker's next superbatch, all at the same time.
  void ask_for_superbatch(std::uint32_t index, std::uint32_t worker_index) {
    Worker& worker = nodes_[index].workers[worker_index];
    if (worker.pending > 0) return;
    std::size_t files = 0;
    const std::size_t begin = worker.reading_batches;
    const auto batch_of = [&](std::size_t own_batch) {
      return plan_->batch(index, own_batch * nodes_[index].workers.size() + worker_index);
    };
    for (std::size_t i = begin; i < begin + superbatch(); ++i) files += batch_of(i).size();
    worker.reading_batches += superbatch();
    worker.pending = files;
    if (files == 0) worker.read_batches = worker.reading_batches;
    for (std::size_t i = begin; i < begin + superbatch(); ++i) {
      for (const FileId file : batch_of(i)) read(index, worker_index, file, files);
    }
  }

  void pin(std::uint32_t index, std::size_t batch) {
    Node& node = nodes_[index];
    const double samples =
        static_cast<double>(plan_->batch(index, batch).size()) * setup_.samples_per_file;
    node.pin_free_s = std::max(node.pin_free_s, loop_.now_s());
    if (setup_.pin) node.pin_free_s += setup_.loader.batch_s * samples / setup_.loader.batch_of;
    loop_.after(node.pin_free_s - loop_.now_s(),
                {.kind = kPinned, .node = index, .index = static_cast<std::uint32_t>(batch)});
  }

  /// The training loop takes its next batch if that is ready.
  void receive(std::uint32_t index) {
    Node& node = nodes_[index];
    node.waiting = !node.next_is_pinned();
    if (node.waiting) return;
    node.pinned[node.received % node.pinned.size()] = 0;
    const double waited_s = loop_.now_s() - node.since_s;
    result_.wait_s += waited_s;
    if (node.received == 0) result_.first_wait_s += waited_s;
    const std::size_t samples = plan_->batch(index, node.received).size() *
                                static_cast<std::size_t>(setup_.samples_per_file);
    result_.samples += samples;
    ++node.received;
    if (shares_batches()) {
      wake_workers(index);
    } else {
      const auto worker = static_cast<std::uint32_t>((node.received - 1) % node.workers.size());
      if (node.workers[worker].idle) go_on(index, worker);
    }
    if (!computes_) return;
    result_.copy_s += setup_.copy_s;
    loop_.after(setup_.copy_s, {.kind = kCopied, .node = index});
  }

  /// The nodes compute a step when all of them have its data.
  void copied(std::uint32_t index) {
    nodes_[index].since_s = loop_.now_s();
    if (++copied_ < nodes_.size()) return;
    copied_ = 0;
    for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
      result_.others_s += loop_.now_s() - nodes_[i].since_s;
      result_.step_s += setup_.step_s;
      loop_.after(setup_.step_s, {.kind = kStepped, .node = i});
    }
  }

  void wake_workers(std::uint32_t index) {
    for (std::uint32_t i = 0; i < nodes_[index].workers.size(); ++i) {
      if (nodes_[index].workers[i].idle) go_on(index, i);
    }
  }

  /// Counts a batch that has left shared memory.
  void leave_memory(std::uint32_t index) {
    ++nodes_[index].left_memory;
    if (setup_.shared_memory_batches > 0) wake_workers(index);
  }

  void stepped(std::uint32_t index) {
    Node& node = nodes_[index];
    if (!setup_.pin) leave_memory(index);
    node.since_s = loop_.now_s();
    node.waiting = node.received < plan_->batches();
    if (node.waiting) receive(index);
  }

  const PipelineSetup setup_;
  int files_per_batch_;
  EventLoop loop_;
  NodeCaches caches_;
  std::vector<Node> nodes_;
  std::unique_ptr<EpochPlan> plan_;
  EpochResult result_;
  std::size_t copied_ = 0;  ///< nodes that have the step's batch.
  double begin_s_ = 0;
  bool computes_ = false;  ///< whether it simulates the training loop, too.
};

}  // namespace

void use_dataset(PipelineSetup& setup, std::shared_ptr<const data::Dataset> dataset) {
  setup.file_bytes.clear();
  const auto add = [&](const data::Unit& part) {
    setup.file_bytes.push_back(static_cast<std::uint32_t>(part.bytes));
  };
  if (dataset->natural_order() == data::ReadOrder::kRandom) {
    for (std::size_t i = 0; i < dataset->samples().size(); ++i) add(dataset->extent(i));
  } else {
    std::ranges::for_each(dataset->units(), add);
  }
  setup.dataset = std::move(dataset);
}

struct DescribedLoaders::State {
  PipelineSimulation simulation;
};

DescribedLoaders::DescribedLoaders(PipelineSetup setup)
    : state_(new State{PipelineSimulation(std::move(setup))}) {}
DescribedLoaders::DescribedLoaders(DescribedLoaders&&) noexcept = default;
DescribedLoaders& DescribedLoaders::operator=(DescribedLoaders&&) noexcept = default;
DescribedLoaders::~DescribedLoaders() = default;

void DescribedLoaders::start_epoch(std::uint64_t epoch, double now_s) {
  state_->simulation.run_until(now_s);
  state_->simulation.begin(epoch);
}

std::optional<TakenBatch> DescribedLoaders::take(double now_s) {
  state_->simulation.run_until(now_s);
  return state_->simulation.take_batches();
}

std::vector<EpochResult> simulate(const PipelineSetup& setup, const std::atomic<bool>* stop) {
  PipelineSimulation simulation(setup);
  std::vector<EpochResult> results;
  for (int epoch = 0; epoch < setup.epochs; ++epoch) {
    const auto result = simulation.run_epoch(static_cast<std::uint64_t>(epoch), stop);
    if (!result) break;
    results.push_back(*result);
  }
  return results;
}

}  // namespace gpemu::pipeline
