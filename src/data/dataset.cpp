// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/dataset.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <numeric>
#include <span>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

bool is_jpeg_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return extension == ".jpg" || extension == ".jpeg";
}

std::unexpected<Error> cannot_read(const fs::path& path, const std::string& reason) {
  return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), reason);
}

/// Errors: kInterrupted when `stop` is there and says so.
Result<void> check_stop(const std::atomic<bool>* stop, const fs::path& root) {
  if (stop == nullptr || !stop->load(std::memory_order_relaxed)) return {};
  return fail(ErrorCode::kInterrupted, "stopped while reading {}", root.string());
}

/// Returns whether folders are the parts of a data set, each with folders of classes, and not
/// classes: all have such names, and one of them has folders in it.
bool are_parts(const fs::path& root, const std::vector<std::string>& names) {
  constexpr std::array<std::string_view, 7> kParts = {"train",      "training", "val",    "valid",
                                                      "validation", "test",     "testing"};
  bool has_classes = false;
  for (const std::string& name : names) {
    if (std::ranges::find(kParts, name) == kParts.end()) return false;
    std::error_code ignored;
    for (const fs::path& path : paths_in(root / name)) {
      has_classes = has_classes || fs::is_directory(path, ignored);
    }
  }
  return has_classes;
}

Result<std::vector<std::string>> list_class_folders(const fs::path& root) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found) {
    return fail(ErrorCode::kNotFound,
                "there is no data set folder {}; `gpemu data make` writes one for trying things "
                "out",
                root.string());
  }
  if (error) return cannot_read(root, error.message());
  if (!fs::is_directory(status)) return cannot_read(root, "it is not a folder");

  std::vector<std::string> names;
  GPEMU_ASSIGN(const std::vector<fs::path> paths, list_folder(root));
  for (const fs::path& path : paths) {
    if (fs::is_directory(path, error)) names.push_back(path.filename().string());
    if (error) return cannot_read(path, error.message());
  }
  if (names.empty()) {
    return fail(ErrorCode::kCorruptData,
                "{} holds no class folder; a data set has one folder per class with JPEG files in "
                "it",
                root.string());
  }
  std::ranges::sort(names);
  if (are_parts(root, names)) {
    const bool trains = std::ranges::find(names, "train") != names.end();
    return fail(ErrorCode::kCorruptData,
                "{} holds the parts of a data set ({}), not its classes; name one of them: {}",
                root.string(), fmt::format("{}", fmt::join(names, ", ")),
                (root / (trains ? "train" : names.front())).string());
  }
  return names;
}

/// The folders from a data set's own down to the one that is read, without links.
class FolderChain {
 public:
  /// Goes to a folder at `depth` below the data set's.
  ///
  /// Errors: kCorruptData when it is one of the chain already: a link leads back, and its files
  /// would come again and again.
  Result<void> enter(const fs::path& folder, std::size_t depth) {
    std::error_code error;
    fs::path real = fs::canonical(folder, error);
    if (error) return cannot_read(folder, error.message());
    chain_.resize(depth);
    if (std::ranges::find(chain_, real) != chain_.end()) {
      return fail(ErrorCode::kCorruptData,
                  "{} is a link back to {}, the folder that it is in: remove the link",
                  folder.string(), real.string());
    }
    chain_.push_back(std::move(real));
    return {};
  }

 private:
  std::vector<fs::path> chain_;
};

/// Adds the JPEG files of a class folder, and of folders in it, to `samples`; returns their size.
Result<Bytes> add_class(const fs::path& folder, int label, std::vector<Sample>& samples) {
  const std::size_t first = samples.size();
  Bytes bytes = 0;
  FolderChain chain;
  GPEMU_TRY(chain.enter(folder.parent_path(), 0));
  GPEMU_TRY(chain.enter(folder, 1));
  std::error_code error;
  auto entries = fs::recursive_directory_iterator(
      folder, fs::directory_options::follow_directory_symlink, error);
  while (!error && entries != fs::recursive_directory_iterator()) {
    if (entries->is_directory(error)) {
      GPEMU_TRY(chain.enter(entries->path(), static_cast<std::size_t>(entries.depth()) + 2));
    } else if (!error && is_jpeg_name(entries->path()) && entries->is_regular_file(error)) {
      samples.push_back({entries->path(), label, entries->file_size(error)});
      bytes += samples.back().bytes;
    }
    if (!error) entries.increment(error);
  }
  if (error) return cannot_read(folder, error.message());
  if (samples.size() == first) {
    return fail(ErrorCode::kCorruptData,
                "class folder {} holds no .jpg or .jpeg file; put some in or remove the folder",
                folder.string());
  }
  std::ranges::sort(
      samples.begin() + static_cast<std::ptrdiff_t>(first), samples.end(), {},
      [](const Sample& sample) -> const std::string& { return sample.path.native(); });
  return bytes;
}

Result<void> drop_file(const fs::path& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return cannot_read(path, errno_message(errno));
  // Only clean pages can be dropped. A file system without sync_file_range keeps its dirty ones.
  constexpr unsigned kWriteBack =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (::sync_file_range(file.get(), 0, 0, kWriteBack) != 0 && errno == EIO) {
    return cannot_read(path, errno_message(errno));
  }
  if (const int error = ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED); error != 0) {
    return cannot_read(path, errno_message(error));
  }
  return {};
}

Result<void> fill_file(const fs::path& path, std::span<char> scratch) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return cannot_read(path, errno_message(errno));
  while (true) {
    const ssize_t count = ::read(file.get(), scratch.data(), scratch.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path, errno_message(errno));
    if (count == 0) return {};
  }
}

}  // namespace

Result<FolderDataset> FolderDataset::open(const fs::path& root, const std::atomic<bool>* stop) {
  FolderDataset dataset;
  dataset.root_ = root;
  GPEMU_ASSIGN(dataset.classes_, list_class_folders(root));
  for (std::size_t i = 0; i < dataset.classes_.size(); ++i) {
    GPEMU_TRY(check_stop(stop, root));
    GPEMU_ASSIGN(const Bytes bytes,
                 add_class(root / dataset.classes_[i], static_cast<int>(i), dataset.samples_));
    dataset.total_bytes_ += bytes;
  }
  return dataset;
}

Result<void> FolderDataset::drop_page_cache(const std::atomic<bool>* stop) const {
  for (const Sample& sample : samples_) {
    GPEMU_TRY(check_stop(stop, root_));
    GPEMU_TRY(drop_file(sample.path));
  }
  return {};
}

Result<void> FolderDataset::fill_page_cache(const std::atomic<bool>* stop) const {
  std::vector<char> scratch(std::size_t{1} << 20);
  for (const Sample& sample : samples_) {
    GPEMU_TRY(check_stop(stop, root_));
    GPEMU_TRY(fill_file(sample.path, scratch));
  }
  return {};
}

std::vector<std::uint32_t> shuffled_order(std::size_t size, std::uint64_t seed,
                                          std::uint64_t epoch) {
  GPEMU_CHECK(size <= UINT32_MAX, "a data set holds at most 2^32 - 1 samples");
  std::vector<std::uint32_t> order(size);
  std::iota(order.begin(), order.end(), 0U);
  sim::Rng(seed, epoch).shuffle(std::span<std::uint32_t>(order));
  return order;
}

}  // namespace gpemu::data
