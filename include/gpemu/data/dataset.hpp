// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/data_index.hpp"
#include "gpemu/data/object_store.hpp"

namespace gpemu::data {

/// The order in which an epoch visits the samples.
enum class ReadOrder : std::uint8_t {
  kRandom,       ///< any sample may follow any other; each is read by itself.
  kQuasiRandom,  ///< units in random order; the samples of a window of units are shuffled.
  kSequential,   ///< as they are stored.
};
inline constexpr std::array<std::string_view, 3> kReadOrderNames = {"random", "quasi-random",
                                                                    "sequential"};

/// Images with their classes, whatever their format: which samples there are, where they are
/// stored, and in which orders they may be visited.
///
/// Classes and files are in lexicographic order, so a seed gives the same order everywhere.
/// Immutable. Thread safety: const members may be called concurrently.
class Dataset {
 public:
  /// Opens a data set and recognises its format: a folder with one folder of images per class, a
  /// folder of tar files, of TFRecord files or of file groups, or one such file. Of a folder with
  /// the parts of a data set, such as `train` and `val`, it opens the one for training. A path
  /// such as s3://BUCKET/FOLDER names objects. Here and below, `stop` may end the call early; it
  /// also ends reads of objects, and must outlive the data set.
  ///
  /// Errors: kNotFound if there is no such file, kIo if it cannot be read, kCorruptData naming the
  /// file, for stored samples with the offset, and saying what to do. kInterrupted after `stop`.
  [[nodiscard]] static Result<Dataset> open(const std::filesystem::path& root,
                                            const std::atomic<bool>* stop = nullptr,
                                            const ObjectStoreSettings& objects = {});

  [[nodiscard]] DataFormat format() const { return index_.format; }
  [[nodiscard]] std::string_view format_name() const {
    return kDataFormatNames[static_cast<std::size_t>(index_.format)];
  }
  /// Returns the folder or file that was opened: if it has parts, the one for training.
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] const std::vector<std::string>& classes() const { return index_.classes; }
  [[nodiscard]] const std::vector<std::filesystem::path>& files() const { return index_.files; }
  [[nodiscard]] const std::vector<Unit>& units() const { return index_.units; }
  [[nodiscard]] const std::vector<Sample>& samples() const { return index_.samples; }
  [[nodiscard]] const std::vector<std::string>& skipped() const { return index_.skipped; }
  [[nodiscard]] std::size_t skipped_count() const { return index_.skipped_count; }
  /// Returns the store from which samples are read; null: they are in files.
  [[nodiscard]] const ObjectStore* objects() const { return objects_.get(); }
  /// Returns the size of all images.
  [[nodiscard]] Bytes total_bytes() const { return total_bytes_; }

  /// Returns where a sample is, for messages: its file and, if that has others too, the offset.
  [[nodiscard]] std::string sample_name(std::size_t sample) const;
  /// Returns the part of the file that must be read to get, and to check, a sample.
  [[nodiscard]] Unit extent(std::size_t sample) const;
  /// Returns the image in the bytes that `part` of a file holds, of which the extent is a part.
  ///
  /// Errors: kCorruptData, without a name, if the bytes end too early or fail their checksum.
  [[nodiscard]] Result<std::span<const std::byte>> image_in(std::size_t sample, const Unit& part,
                                                            std::span<const std::byte> bytes) const;

  /// Returns the order that suits the format: random for a folder, else quasi-random.
  [[nodiscard]] ReadOrder natural_order() const {
    return format() == DataFormat::kFolder ? ReadOrder::kRandom : ReadOrder::kQuasiRandom;
  }
  /// Returns the order in which an epoch visits the samples: a permutation of 0 .. size - 1 that
  /// depends on the arguments only. Quasi-random order takes `window` units at a time, each from
  /// the start of a tar or TFRecord file to its end, and units of other formats in random order.
  /// Requires: window > 0.
  [[nodiscard]] std::vector<std::uint32_t> epoch_order(ReadOrder order, std::size_t window,
                                                       std::uint64_t seed,
                                                       std::uint64_t epoch) const;

  /// Drops the files from the page cache (posix_fadvise), so that the next read comes from storage.
  /// Dirty pages are written first. Pages that other processes have mapped stay.
  ///
  /// Errors: kIo naming the file; kInterrupted after `stop`.
  [[nodiscard]] Result<void> drop_page_cache(const std::atomic<bool>* stop = nullptr) const;

  /// Reads every file once, so that the next read comes from memory if it is large enough.
  ///
  /// Errors: kIo naming the file; kInterrupted after `stop`.
  [[nodiscard]] Result<void> fill_page_cache(const std::atomic<bool>* stop = nullptr) const;

 private:
  Dataset() = default;
  [[nodiscard]] std::vector<std::uint32_t> unit_order(std::uint64_t seed,
                                                      std::uint64_t epoch) const;

  std::filesystem::path root_;
  std::shared_ptr<const ObjectStore> objects_;
  DataIndex index_;
  std::vector<std::uint32_t> first_sample_;  ///< of each unit, and the number of samples.
  Bytes total_bytes_ = 0;
};

/// Returns a permutation of 0 .. size - 1 that depends on `seed` and `epoch` only.
[[nodiscard]] std::vector<std::uint32_t> shuffled_order(std::size_t size, std::uint64_t seed,
                                                        std::uint64_t epoch);

}  // namespace gpemu::data
