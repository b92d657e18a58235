// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::data {

/// One image file and the class it belongs to.
struct Sample {
  std::filesystem::path path;
  int label = 0;
  Bytes bytes = 0;  ///< size of the file when the data set was opened.
};

/// A folder of JPEG files with one sub-folder per class, as torchvision's ImageFolder reads it.
///
/// Classes and files are in lexicographic order, so a seed gives the same order everywhere.
/// Immutable. Thread safety: const members may be called concurrently.
class FolderDataset {
 public:
  /// Here and below, `stop` may end the call early.
  ///
  /// Errors: kNotFound if the folder does not exist, kIo if it cannot be read, kCorruptData if
  /// there is no class folder or a class has no JPEG file; the message names the folder and says
  /// what to do. kInterrupted after `stop`.
  [[nodiscard]] static Result<FolderDataset> open(const std::filesystem::path& root,
                                                  const std::atomic<bool>* stop = nullptr);

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] const std::vector<std::string>& classes() const { return classes_; }
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }
  [[nodiscard]] Bytes total_bytes() const { return total_bytes_; }

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
  FolderDataset() = default;
  std::filesystem::path root_;
  std::vector<std::string> classes_;
  std::vector<Sample> samples_;
  Bytes total_bytes_ = 0;
};

/// Returns the order in which an epoch visits `size` samples: a permutation of 0 .. size - 1 that
/// depends on `seed` and `epoch` only.
[[nodiscard]] std::vector<std::uint32_t> shuffled_order(std::size_t size, std::uint64_t seed,
                                                        std::uint64_t epoch);

}  // namespace gpemu::data
