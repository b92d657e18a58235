// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/sample_source.hpp"
#include "gpemu/data/storage_device.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::data {

/// Host memory for one batch, and its owner. The loader does not know whether it is pinned.
struct HostBuffer {
  std::byte* data = nullptr;
  Bytes size = 0;
  std::shared_ptr<void> owner;  ///< keeps the memory alive.
};

/// Provides buffers of a given size, e.g. pinned ones.
using HostAllocator = std::function<Result<HostBuffer>(Bytes size)>;

/// Returns an allocator of ordinary, pageable memory.
[[nodiscard]] HostAllocator pageable_allocator();

struct LoaderOptions {
  int batch = 1;             ///< samples per batch.
  int workers = 1;           ///< threads that read, decode and transform.
  int prefetch_batches = 2;  ///< batches that may be ready or in progress ahead of the reader.
  std::uint64_t seed = 0;
  int crop = 224;                ///< height and width of the output.
  bool drop_last = true;         ///< leave out a last batch that is not full.
  bool stop_on_corrupt = false;  ///< else a corrupt image is counted and replaced with zeros.
  bool decode = true;  ///< else images are read and checked only, and have undefined pixels.
  std::optional<ReadOrder> order;  ///< default: the one that suits the format.
  /// Reads whole windows at once by io_uring, sorted by their places on the disk. If the kernel
  /// does not offer it, a warning says so, and files are read one at a time.
  bool async = false;
  /// Parts of files that are read ahead, and units that quasi-random order shuffles.
  std::size_t window = 16;
  /// Reads as slowly as this describes; must outlive the loader. Null: as fast as the files are.
  StorageDevice* storage = nullptr;
  /// Gives the bytes of samples, in place of the files; must outlive the loader. Excludes `async`
  /// and any order but a random one.
  SampleSource* source = nullptr;
};

/// What the workers did for one batch, summed over its samples.
struct BatchWork {
  Duration fetch{};      ///< reading files.
  Duration prep{};       ///< decoding and transforming.
  Bytes bytes_read = 0;  ///< of images, from storage.
  int corrupt = 0;       ///< images that could not be decoded.
};

/// One batch, ready to be copied. Its buffer goes back to the loader when it is released or
/// destroyed.
class Batch {
 public:
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

  /// Number of the batch within its epoch, from 0.
  [[nodiscard]] int index() const;
  [[nodiscard]] int size() const;
  /// Shape: [size, 3, crop, crop], float32, normalised with ImageNet's mean and standard deviation.
  [[nodiscard]] std::span<const float> images() const;
  /// Shape: [size].
  [[nodiscard]] std::span<const std::int32_t> labels() const;
  /// The numbers of its samples in the data set. Shape: [size].
  [[nodiscard]] std::span<const std::uint32_t> samples() const;
  [[nodiscard]] const BatchWork& work() const;

 private:
  friend class Loader;
  struct State;
  explicit Batch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Reads, decodes and augments images on worker threads and yields batches in order.
///
/// The transform is the standard one of ImageNet training: random resized crop, horizontal flip,
/// float32 CHW, normalised. The result for a sample depends on (seed, epoch, sample) only, not on
/// threads or timing. Thread safety: one reader; the worker threads belong to the loader.
class Loader {
 public:
  /// Starts the workers. `clock` measures their work; it and `dataset` must outlive the loader.
  ///
  /// Errors: kInvalidArgument naming the option; those of `allocator`.
  [[nodiscard]] static Result<Loader> create(const Dataset& dataset, const LoaderOptions& options,
                                             const HostAllocator& allocator,
                                             const sim::Clock& clock);

  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  /// Stops the workers. Batches may outlive the loader.
  ~Loader();

  /// Starts an epoch; batches of an earlier one that were not taken are dropped.
  void start_epoch(std::uint64_t epoch);
  /// The same for a part of an epoch: the loader prepares these samples, in this order.
  void start_part(std::uint64_t epoch, std::vector<std::uint32_t> samples);

  /// Returns the next batch, blocking until it is ready, or nothing at the end of the epoch.
  ///
  /// Errors: kIo if a file cannot be read; with stop_on_corrupt, kCorruptData naming the file: the
  /// batch is dropped, and the next call returns the batch after it. Those of the allocator if the
  /// reader holds more batches at once than ever before.
  [[nodiscard]] Result<std::optional<Batch>> next();

  [[nodiscard]] int batches_per_epoch() const;

  /// Returns the first few corrupt files seen, for the report.
  [[nodiscard]] std::vector<std::string> corrupt_files() const;

 private:
  struct State;
  explicit Loader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::data
