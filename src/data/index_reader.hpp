// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/data_index.hpp"
#include "gpemu/data/object_store.hpp"

namespace gpemu::data {

/// Samples that follow each other in a tar or TFRecord file are read together up to this size.
/// Source: the disk that catalog/storage/hdd.toml describes reads parts of this size at 9/10 of the
/// rate at which it reads a whole file.
inline constexpr Bytes kUnitBytes = 4 * kMiB;

/// A label beyond this one is a mistake: no data set has as many classes.
inline constexpr std::int64_t kMaxLabel = 1'000'000;

/// The file beside the files of a data set that has the name of one class per line.
inline constexpr std::string_view kClassesFile = "classes.txt";

/// Each of these finds what a data set consists of. `stop` may be null.
///
/// Errors: those of Dataset::open.
[[nodiscard]] Result<DataIndex> index_folder(const std::filesystem::path& root,
                                             const std::atomic<bool>* stop);
[[nodiscard]] Result<DataIndex> index_tars(std::vector<std::filesystem::path> files,
                                           const std::atomic<bool>* stop);
[[nodiscard]] Result<DataIndex> index_tfrecords(std::vector<std::filesystem::path> files,
                                                const std::atomic<bool>* stop);
[[nodiscard]] Result<DataIndex> index_groups(const std::filesystem::path& metadata,
                                             const std::atomic<bool>* stop);
[[nodiscard]] Result<DataIndex> index_pages(const std::filesystem::path& file);
/// Takes the objects of a bucket, s3://BUCKET/, whose keys begin with `prefix` as a folder of
/// images.
[[nodiscard]] Result<DataIndex> index_objects(const std::string& bucket, const std::string& prefix,
                                              const ObjectList& objects);

/// Returns whether a file's name ends as those of images do.
[[nodiscard]] bool is_image_name(const std::filesystem::path& path);

/// Errors: kInterrupted when `stop` is there and says so.
[[nodiscard]] Result<void> check_stop(const std::atomic<bool>* stop,
                                      const std::filesystem::path& root);

/// An error in a file of a data set, at an offset.
template <typename... Args>
[[nodiscard]] std::unexpected<Error> corrupt_at(const std::filesystem::path& file, Bytes offset,
                                                fmt::format_string<Args...> format,
                                                Args&&... args) {
  return fail(ErrorCode::kCorruptData, "{}, byte {}: {}", file.string(), offset,
              fmt::format(format, std::forward<Args>(args)...));
}

/// Adds a sample of the last file, to the last unit if both together are not too large.
void add_stored_sample(DataIndex& index, const Sample& sample, const Checksum* checksum);

/// Names the classes: from the file `classes.txt` in a folder if there is one, else by number.
///
/// Errors: kCorruptData when a label has no name.
[[nodiscard]] Result<void> name_classes(DataIndex& index, const std::filesystem::path& folder);

/// Reads small parts of a file, mostly in ascending order.
///
/// Thread safety: none.
class FileWindow {
 public:
  /// Errors: kIo naming the file.
  [[nodiscard]] static Result<FileWindow> open(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] Bytes size() const { return size_; }

  /// Returns bytes of the file, valid until the next call. Requires: they are within the file, and
  /// at most `kMost`.
  ///
  /// Errors: kIo naming the file, also if somebody has shortened it.
  [[nodiscard]] Result<std::span<const std::byte>> read(Bytes offset, Bytes bytes);

  static constexpr Bytes kMost = 64 * kKiB;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  Bytes size_ = 0;
  std::vector<std::byte> buffer_;  ///< of the file from `begin_` on.
  Bytes begin_ = 0;
  Bytes filled_ = 0;
};

/// Returns a number that is stored in the host's order of bytes, which is that of all formats.
template <typename Number>
[[nodiscard]] Number number_at(std::span<const std::byte> bytes, std::size_t offset) {
  Number number{};
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

}  // namespace gpemu::data
