// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/loader.hpp"

#include <algorithm>
#include <deque>
#include <new>
#include <span>
#include <thread>
#include <utility>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/log.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/data/image.hpp"
#include "gpemu/data/sample_reader.hpp"
#include "gpemu/sim/random.hpp"

#include "read_ahead.hpp"

namespace gpemu::data {
namespace {

constexpr std::size_t kCorruptFilesKept = 10;
constexpr int kMaxWorkers = 1024;
constexpr int kMaxCrop = 4096;

std::size_t sample_floats(const LoaderOptions& options) {
  return std::size_t{3} * static_cast<std::size_t>(options.crop) *
         static_cast<std::size_t>(options.crop);
}

/// The memory of one batch and how far the workers are with it. A slot is free, in flight (being
/// filled, or full), or held by the reader.
struct Slot {
  HostBuffer buffer;
  std::vector<std::int32_t> labels;
  std::vector<std::uint32_t> samples;
  int index = 0;
  int size = 0;
  int claimed = 0;       ///< samples that a worker has taken on.
  int done = 0;          ///< of these, samples that are finished.
  bool dropped = false;  ///< nobody waits for it any more: free as soon as done == claimed.
  BatchWork work;
  std::optional<Error> error;  ///< of the sample at `error_position`, the first that failed.
  int error_position = 0;

  void begin(int batch_index, int batch_size) {
    index = batch_index;
    size = batch_size;
    claimed = done = error_position = 0;
    dropped = false;
    work = {};
    error.reset();
  }
  [[nodiscard]] bool complete() const { return done == size; }
  [[nodiscard]] float* images() const { return reinterpret_cast<float*>(buffer.data); }
};

/// One sample that a worker has taken on.
struct Claim {
  Slot* slot = nullptr;
  int position = 0;
  std::uint32_t sample = 0;
  std::uint64_t epoch = 0;
  std::uint64_t read_number = 0;  ///< of what is read ahead for the epoch.
};

/// What became of it.
struct Outcome {
  BatchWork work;
  std::optional<Error> error;
};

/// What the reader, the workers and the batches share. Lives as long as any of them.
class Pool {
 public:
  Pool(const Dataset& dataset, const LoaderOptions& options, HostAllocator allocator,
       const sim::Clock& clock)
      : dataset_(dataset),
        options_(options),
        allocator_(std::move(allocator)),
        clock_(clock),
        order_kind_(options.source != nullptr ? ReadOrder::kRandom
                                              : options.order.value_or(dataset.natural_order())) {}

  Result<void> start_reading();
  /// Ends the thread that reads ahead. Requires: the workers have ended.
  void end_reading() { read_ahead_.reset(); }

  Result<void> add_slot() GPEMU_EXCLUDES(mutex_);
  void work() GPEMU_EXCLUDES(mutex_);
  void stop() GPEMU_EXCLUDES(mutex_);
  void start(std::uint64_t epoch, std::vector<std::uint32_t> order) GPEMU_EXCLUDES(mutex_);
  Result<Slot*> take() GPEMU_EXCLUDES(mutex_);  ///< the next batch; null at the end of the epoch.
  void release(Slot* slot) GPEMU_EXCLUDES(mutex_);

  [[nodiscard]] const LoaderOptions& options() const { return options_; }
  [[nodiscard]] std::vector<std::uint32_t> order_of(std::uint64_t epoch) const {
    return dataset_.epoch_order(order_kind_, options_.window, options_.seed, epoch);
  }
  [[nodiscard]] int batches_of(std::size_t samples) const;
  [[nodiscard]] int batches_per_epoch() const { return batches_of(dataset_.samples().size()); }
  [[nodiscard]] std::vector<std::string> corrupt_files() GPEMU_EXCLUDES(mutex_);

 private:
  std::optional<Claim> claim() GPEMU_REQUIRES(mutex_);
  Outcome make_sample(const Claim& claim, SampleReader& reader, ImageTransform& transform);
  Result<Bytes> fetch(const Claim& claim, SampleReader& reader, PartBytes& part);
  void finish(const Claim& claim, Outcome outcome) GPEMU_REQUIRES(mutex_);
  void note_corrupt(const std::string& file) GPEMU_REQUIRES(mutex_);

  const Dataset& dataset_;
  const LoaderOptions options_;
  const HostAllocator allocator_;
  const sim::Clock& clock_;
  const ReadOrder order_kind_;
  std::optional<ReadAhead> read_ahead_;       ///< without it, workers read their samples.
  std::vector<std::unique_ptr<Slot>> slots_;  ///< touched by the reader's thread only.

  Mutex mutex_;  ///< also of all of a slot but its samples.
  Condition work_available_;
  Condition batch_complete_;
  std::vector<Slot*> free_ GPEMU_GUARDED_BY(mutex_);
  /// By batch index; only the last one has samples to claim.
  std::deque<Slot*> in_flight_ GPEMU_GUARDED_BY(mutex_);
  std::size_t held_ GPEMU_GUARDED_BY(mutex_) = 0;  ///< slots with the reader.
  std::vector<std::uint32_t> order_ GPEMU_GUARDED_BY(mutex_);
  std::uint64_t epoch_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::uint64_t read_number_ GPEMU_GUARDED_BY(mutex_) = 0;
  /// The first that is not in flight yet.
  int next_batch_ GPEMU_GUARDED_BY(mutex_) = 0;
  /// Of the epoch; none before the first is started.
  int batches_ GPEMU_GUARDED_BY(mutex_) = 0;
  bool stopping_ GPEMU_GUARDED_BY(mutex_) = false;
  std::vector<std::string> corrupt_files_ GPEMU_GUARDED_BY(mutex_);
};

Result<void> Pool::add_slot() {
  const auto batch = static_cast<std::size_t>(options_.batch);
  const Bytes bytes = batch * sample_floats(options_) * sizeof(float);
  auto slot = std::make_unique<Slot>();
  GPEMU_ASSIGN(slot->buffer, allocator_(bytes));
  GPEMU_CHECK(slot->buffer.data != nullptr && slot->buffer.size >= bytes,
              "the allocator returns what it was asked for");
  slot->labels.resize(batch);
  slot->samples.resize(batch);
  slots_.push_back(std::move(slot));
  {
    const Lock lock(mutex_);
    free_.push_back(slots_.back().get());
  }
  work_available_.notify_all();
  return {};
}

Result<void> Pool::start_reading() {
  const bool by_sample = order_kind_ == ReadOrder::kRandom;
  ReadAhead::Options ahead{
      .by_sample = by_sample, .window = options_.window, .storage = options_.storage};
  if (options_.async && dataset_.objects() != nullptr) {
    return fail(ErrorCode::kInvalidArgument,
                "objects of s3:// are not read asynchronously: use more workers");
  }
  if (options_.async) {
    Result<AsyncReader> reader = AsyncReader::create();
    if (!reader && reader.error().code != ErrorCode::kUnsupported) {
      return std::unexpected(std::move(reader).error());
    }
    if (reader) {
      ahead.async = *std::move(reader);
    } else {
      log(LogLevel::kWarning, "{}; files are read one at a time", reader.error().message);
    }
  }
  // Single samples that are read one at a time are read by the workers, several at once.
  if (options_.source != nullptr || (by_sample && !ahead.async)) return {};
  read_ahead_.emplace(dataset_, std::move(ahead));
  if (read_ahead_->start()) return {};
  return fail(ErrorCode::kResourceLimit, "cannot start a thread that reads");
}

int Pool::batches_of(std::size_t samples) const {
  const auto batch = static_cast<std::size_t>(options_.batch);
  return static_cast<int>(options_.drop_last ? samples / batch : (samples + batch - 1) / batch);
}

void Pool::start(std::uint64_t epoch, std::vector<std::uint32_t> order) {
  const int batches = batches_of(order.size());
  const std::size_t used = std::min(
      order.size(), static_cast<std::size_t>(batches) * static_cast<std::size_t>(options_.batch));
  const std::uint64_t read_number =
      read_ahead_ ? read_ahead_->begin(std::span(order).first(used)) : 0;
  {
    const Lock lock(mutex_);
    for (Slot* slot : in_flight_) {
      slot->dropped = true;
      if (slot->done == slot->claimed) free_.push_back(slot);
    }
    in_flight_.clear();
    order_ = std::move(order);
    epoch_ = epoch;
    read_number_ = read_number;
    next_batch_ = 0;
    batches_ = batches;
  }
  work_available_.notify_all();
}

Result<Slot*> Pool::take() {
  Lock lock(mutex_);
  if (in_flight_.empty() && next_batch_ == batches_) return nullptr;
  // With a further batch held, the workers need one more slot to stay as far ahead.
  if (slots_.size() < held_ + 1 + static_cast<std::size_t>(options_.prefetch_batches)) {
    lock.unlock();
    GPEMU_TRY(add_slot());
    lock.lock();
  }
  batch_complete_.wait(lock, [this]() GPEMU_REQUIRES(mutex_) {
    return !in_flight_.empty() && in_flight_.front()->complete();
  });
  Slot* slot = in_flight_.front();
  in_flight_.pop_front();
  const std::optional<Error> error = slot->error;
  if (error) {
    free_.push_back(slot);
  } else {
    ++held_;
  }
  lock.unlock();
  work_available_.notify_all();
  if (error) return std::unexpected(*error);
  return slot;
}

void Pool::release(Slot* slot) {
  {
    const Lock lock(mutex_);
    --held_;
    free_.push_back(slot);
  }
  work_available_.notify_all();
}

void Pool::stop() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  work_available_.notify_all();
  if (read_ahead_) read_ahead_->stop();
}

void Pool::work() {
  SampleReader reader(dataset_, options_.storage);
  ImageTransform transform(options_.crop);
  Lock lock(mutex_);
  while (true) {
    std::optional<Claim> claimed;
    work_available_.wait(lock, [&]() GPEMU_REQUIRES(mutex_) {
      return stopping_ || (claimed = claim()).has_value();
    });
    if (stopping_ || !claimed) return;
    lock.unlock();
    Outcome outcome = make_sample(*claimed, reader, transform);
    lock.lock();
    finish(*claimed, std::move(outcome));
  }
}

// Samples are claimed in the epoch's order, so the workers are always at the earliest batches.
std::optional<Claim> Pool::claim() {
  if (in_flight_.empty() || in_flight_.back()->claimed == in_flight_.back()->size) {
    const bool far_ahead = in_flight_.size() >= static_cast<std::size_t>(options_.prefetch_batches);
    if (next_batch_ == batches_ || far_ahead || free_.empty()) return std::nullopt;
    const std::size_t first =
        static_cast<std::size_t>(next_batch_) * static_cast<std::size_t>(options_.batch);
    const std::size_t rest = order_.size() - first;
    free_.back()->begin(next_batch_, static_cast<int>(std::min<std::size_t>(
                                         rest, static_cast<std::size_t>(options_.batch))));
    in_flight_.push_back(free_.back());
    free_.pop_back();
    ++next_batch_;
  }
  Slot* slot = in_flight_.back();
  const int position = slot->claimed++;
  const std::size_t rank =
      static_cast<std::size_t>(slot->index) * static_cast<std::size_t>(options_.batch) +
      static_cast<std::size_t>(position);
  return Claim{slot, position, order_[rank], epoch_, read_number_};
}

/// Gets the bytes of a sample: into the reader's memory, or the part that was read elsewhere.
/// Returns how many bytes of its image storage gave.
Result<Bytes> Pool::fetch(const Claim& claim, SampleReader& reader, PartBytes& part) {
  const Bytes image = dataset_.samples()[claim.sample].bytes;
  if (options_.source != nullptr) {
    GPEMU_ASSIGN(SampleBytes read, options_.source->read(claim.sample));
    part = {.part = dataset_.extent(claim.sample),
            .memory = std::move(read.memory),
            .filled = read.size};
    return read.cached ? Bytes{0} : image;
  }
  if (!read_ahead_) {
    GPEMU_TRY(reader.read(claim.sample));
    return image;
  }
  GPEMU_ASSIGN(part, read_ahead_->take(claim.read_number, claim.sample));
  return image;
}

Outcome Pool::make_sample(const Claim& claim, SampleReader& reader, ImageTransform& transform) {
  const auto position = static_cast<std::size_t>(claim.position);
  const std::size_t floats = sample_floats(options_);
  const std::span<float> output(claim.slot->images() + position * floats, floats);
  claim.slot->labels[position] = dataset_.samples()[claim.sample].label;
  claim.slot->samples[position] = claim.sample;

  Outcome outcome;
  PartBytes part;
  const TimePoint start = clock_.now();
  const Result<Bytes> read = fetch(claim, reader, part);
  const TimePoint fetched = clock_.now();
  outcome.work.fetch = fetched - start;
  if (!read) {
    outcome.error = read.error();
  } else {
    outcome.work.bytes_read = *read;
    sim::Rng rng(options_.seed, claim.epoch, claim.sample);
    const auto drawn = [&]() -> Result<Augmentation> {
      GPEMU_ASSIGN(const auto image, read_ahead_ || options_.source != nullptr
                                         ? dataset_.image_in(claim.sample, part.part, part.bytes())
                                         : reader.image());
      if (!options_.decode) return Augmentation{};
      return transform.apply(image, rng, output);
    }();
    if (!drawn) {
      outcome.work.corrupt = 1;
      outcome.error = Error{drawn.error().code,
                            fmt::format("corrupt image {}: {}", dataset_.sample_name(claim.sample),
                                        drawn.error().message)};
      std::ranges::fill(output, 0.0F);
    }
    outcome.work.prep = clock_.now() - fetched;
  }
  part = {};
  if (read_ahead_) {
    read_ahead_->done(claim.read_number, claim.sample);
  }
  return outcome;
}

void Pool::finish(const Claim& claim, Outcome outcome) {
  Slot& slot = *claim.slot;
  slot.work.fetch += outcome.work.fetch;
  slot.work.prep += outcome.work.prep;
  slot.work.bytes_read += outcome.work.bytes_read;
  slot.work.corrupt += outcome.work.corrupt;
  const bool corrupt = outcome.work.corrupt > 0;
  if (corrupt) note_corrupt(dataset_.sample_name(claim.sample));
  const bool fatal = outcome.error && (!corrupt || options_.stop_on_corrupt);
  if (fatal && (!slot.error || claim.position < slot.error_position)) {
    slot.error = std::move(outcome.error);
    slot.error_position = claim.position;
  }
  ++slot.done;
  if (slot.dropped && slot.done == slot.claimed) {
    free_.push_back(&slot);
    work_available_.notify_all();
  } else if (!slot.dropped && slot.complete()) {
    batch_complete_.notify_one();
  }
}

void Pool::note_corrupt(const std::string& file) {
  if (corrupt_files_.size() == kCorruptFilesKept) return;
  if (std::ranges::find(corrupt_files_, file) == corrupt_files_.end()) {
    corrupt_files_.push_back(file);
  }
}

std::vector<std::string> Pool::corrupt_files() {
  const Lock lock(mutex_);
  return corrupt_files_;
}

Result<void> check_options(const LoaderOptions& options, std::size_t samples) {
  if (options.batch < 1) {
    return fail(ErrorCode::kInvalidArgument, "the batch is {}; it must be at least 1",
                options.batch);
  }
  if (options.workers < 1 || options.workers > kMaxWorkers) {
    return fail(ErrorCode::kInvalidArgument, "the number of workers is {}; it must be 1 to {}",
                options.workers, kMaxWorkers);
  }
  if (options.prefetch_batches < 1) {
    return fail(ErrorCode::kInvalidArgument,
                "the number of batches to prefetch is {}; it must be at least 1",
                options.prefetch_batches);
  }
  if (options.crop < 1 || options.crop > kMaxCrop) {
    return fail(ErrorCode::kInvalidArgument, "the crop is {}; it must be 1 to {}", options.crop,
                kMaxCrop);
  }
  if (options.window < 1) {
    return fail(ErrorCode::kInvalidArgument, "the window is {}; it must be at least 1",
                options.window);
  }
  if (options.source != nullptr &&
      (options.async || options.order.value_or(ReadOrder::kRandom) != ReadOrder::kRandom)) {
    return fail(ErrorCode::kInvalidArgument,
                "a cache reads samples one at a time, in random order: leave out asynchronous "
                "reading and other orders");
  }
  if (options.drop_last && samples < static_cast<std::size_t>(options.batch)) {
    return fail(ErrorCode::kInvalidArgument,
                "the data set has {} images, fewer than one batch of {}; use a smaller batch",
                samples, options.batch);
  }
  return {};
}

}  // namespace

HostAllocator pageable_allocator() {
  return [](Bytes size) -> Result<HostBuffer> {
    // Aligned for any vector instruction; not filled, so that pages cost nothing before their use.
    constexpr std::align_val_t kAlignment{64};
    void* memory = ::operator new(size, kAlignment, std::nothrow);
    if (memory == nullptr) {
      return fail(ErrorCode::kResourceLimit, "the host does not have {:.0f} MiB left for a batch",
                  to_mib(size));
    }
    std::shared_ptr<void> owner(memory, [](void* old) { ::operator delete(old, kAlignment); });
    return HostBuffer{static_cast<std::byte*>(memory), size, std::move(owner)};
  };
}

struct Batch::State {
  State(std::shared_ptr<Pool> shared_pool, Slot* own_slot)
      : pool(std::move(shared_pool)), slot(own_slot) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { pool->release(slot); }

  std::shared_ptr<Pool> pool;
  Slot* slot;
};

Batch::Batch(std::unique_ptr<State> state) : state_(std::move(state)) {}
Batch::Batch(Batch&&) noexcept = default;
Batch& Batch::operator=(Batch&&) noexcept = default;
Batch::~Batch() = default;

int Batch::index() const {
  return state_->slot->index;
}

int Batch::size() const {
  return state_->slot->size;
}

std::span<const float> Batch::images() const {
  const Slot& slot = *state_->slot;
  return {slot.images(),
          static_cast<std::size_t>(slot.size) * sample_floats(state_->pool->options())};
}

std::span<const std::int32_t> Batch::labels() const {
  const Slot& slot = *state_->slot;
  return std::span(slot.labels).first(static_cast<std::size_t>(slot.size));
}

std::span<const std::uint32_t> Batch::samples() const {
  const Slot& slot = *state_->slot;
  return std::span(slot.samples).first(static_cast<std::size_t>(slot.size));
}

const BatchWork& Batch::work() const {
  return state_->slot->work;
}

struct Loader::State {
  explicit State(std::shared_ptr<Pool> shared_pool) : pool(std::move(shared_pool)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pool->stop();
    for (std::thread& worker : workers) worker.join();
    // Batches keep the pool alive, but not the data set.
    pool->end_reading();
  }

  std::shared_ptr<Pool> pool;
  std::vector<std::thread> workers;
};

Result<Loader> Loader::create(const Dataset& dataset, const LoaderOptions& options,
                              const HostAllocator& allocator, const sim::Clock& clock) {
  GPEMU_TRY(check_options(options, dataset.samples().size()));
  auto state = std::make_unique<State>(std::make_shared<Pool>(dataset, options, allocator, clock));
  // One that the reader holds, and those ahead of it.
  for (int i = 0; i < options.prefetch_batches + 1; ++i) GPEMU_TRY(state->pool->add_slot());
  GPEMU_TRY(state->pool->start_reading());
  state->workers.reserve(static_cast<std::size_t>(options.workers));
  for (int i = 0; i < options.workers; ++i) {
    std::thread worker = start_thread("gpemu-loader", [pool = state->pool.get()] { pool->work(); });
    if (!worker.joinable()) {
      return fail(ErrorCode::kResourceLimit, "cannot start {} worker threads", options.workers);
    }
    state->workers.push_back(std::move(worker));
  }
  return Loader(std::move(state));
}

Loader::Loader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

void Loader::start_epoch(std::uint64_t epoch) {
  state_->pool->start(epoch, state_->pool->order_of(epoch));
}

void Loader::start_part(std::uint64_t epoch, std::vector<std::uint32_t> samples) {
  state_->pool->start(epoch, std::move(samples));
}

Result<std::optional<Batch>> Loader::next() {
  GPEMU_ASSIGN(Slot * slot, state_->pool->take());
  if (slot == nullptr) return std::nullopt;
  return Batch(std::make_unique<Batch::State>(state_->pool, slot));
}

int Loader::batches_per_epoch() const {
  return state_->pool->batches_per_epoch();
}

std::vector<std::string> Loader::corrupt_files() const {
  return state_->pool->corrupt_files();
}

}  // namespace gpemu::data
