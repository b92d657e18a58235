// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/dataset.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <numeric>
#include <optional>
#include <span>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"
#include "gpemu/sim/random.hpp"

#include "crc32c.hpp"
#include "index_reader.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

std::unexpected<Error> cannot_read(const fs::path& path, const std::string& reason) {
  return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), reason);
}

bool are_digits(std::string_view text) {
  return text.size() == 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// Returns whether a file is one of several as TensorFlow names them: train-00000-of-01024.
bool is_numbered_part(std::string_view name) {
  constexpr std::string_view kOf = "-of-";
  if (name.size() < 15) return false;
  const std::string_view end = name.substr(name.size() - 15);
  return end[0] == '-' && are_digits(end.substr(1, 5)) && end.substr(6, 4) == kOf &&
         are_digits(end.substr(10, 5));
}

/// Returns the format of a file that holds many samples, by its name.
std::optional<DataFormat> format_of_file(const fs::path& path) {
  const std::string name = path.filename().string();
  const std::string_view text = name;
  if (text.ends_with(".tar")) return DataFormat::kWebDataset;
  if (text.ends_with(".tfrecord") || text.ends_with(".tfrecords") || is_numbered_part(text)) {
    return DataFormat::kTfRecord;
  }
  if (text.ends_with(".mytar")) return DataFormat::kGroups;
  if (text.ends_with(".pages")) return DataFormat::kPages;
  return std::nullopt;
}

bool is_compressed_tar(const fs::path& path) {
  const std::string name = path.filename().string();
  constexpr std::array<std::string_view, 5> kEnds = {".tar.gz", ".tgz", ".tar.bz2", ".tar.xz",
                                                     ".tar.zst"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

/// The files of one format that a folder holds.
struct StoredFiles {
  std::optional<DataFormat> format;
  std::vector<fs::path> files;
};

/// Errors: kCorruptData if there are several formats, or compressed files.
Result<StoredFiles> stored_files(const std::vector<fs::path>& paths) {
  StoredFiles stored;
  for (const fs::path& path : paths) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) continue;
    if (is_compressed_tar(path)) {
      return fail(ErrorCode::kCorruptData,
                  "{} is compressed, so no sample of it can be read by itself: decompress it first",
                  path.string());
    }
    const std::optional<DataFormat> format = format_of_file(path);
    if (!format) continue;
    if (stored.format && stored.format != format) {
      return fail(ErrorCode::kCorruptData, "{} and {} have different formats: name one of them",
                  stored.files.front().string(), path.string());
    }
    stored.format = format;
    stored.files.push_back(path);
  }
  std::ranges::sort(stored.files);
  return stored;
}

/// Returns whether folders are the parts of a data set, each with a data set in it, and not
/// classes: all have such names, and one of them holds folders or files of many samples.
bool are_parts(const std::vector<fs::path>& folders) {
  constexpr std::array<std::string_view, 7> kParts = {"train",      "training", "val",    "valid",
                                                      "validation", "test",     "testing"};
  bool hold_data_sets = false;
  for (const fs::path& folder : folders) {
    if (std::ranges::find(kParts, folder.filename().string()) == kParts.end()) return false;
    std::error_code ignored;
    for (const fs::path& path : paths_in(folder)) {
      hold_data_sets = hold_data_sets || fs::is_directory(path, ignored) || format_of_file(path);
    }
  }
  return hold_data_sets;
}

Result<DataIndex> index_files(DataFormat format, std::vector<fs::path> files,
                              const std::atomic<bool>* stop) {
  switch (format) {
    case DataFormat::kWebDataset:
      return index_tars(std::move(files), stop);
    case DataFormat::kTfRecord:
      return index_tfrecords(std::move(files), stop);
    case DataFormat::kGroups:
      return index_groups(files.front().parent_path() / "metadata.txt", stop);
    case DataFormat::kPages:
      if (files.size() > 1) {
        return fail(ErrorCode::kCorruptData, "{} and {} are a data set each: name one of them",
                    files[0].string(), files[1].string());
      }
      return index_pages(files.front());
    case DataFormat::kFolder:
      break;
  }
  return fail(ErrorCode::kInternal, "a folder is no file");
}

/// Finds a data set. `root` becomes the folder of the part for training if there are parts.
Result<DataIndex> find_index(fs::path& root, const std::atomic<bool>* stop) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found) {
    return fail(ErrorCode::kNotFound,
                "there is no data set {}; `gpemu data make` writes one for trying things out",
                root.string());
  }
  if (error) return cannot_read(root, error.message());
  if (!fs::is_directory(status)) {
    GPEMU_ASSIGN(StoredFiles stored, stored_files({root}));
    if (stored.format) return index_files(*stored.format, std::move(stored.files), stop);
    return fail(ErrorCode::kCorruptData,
                "{} is no data set: not a folder, nor a file whose name ends with .tar, .tfrecord, "
                ".mytar or .pages",
                root.string());
  }
  GPEMU_ASSIGN(const std::vector<fs::path> paths, list_folder(root));
  GPEMU_ASSIGN(StoredFiles stored, stored_files(paths));
  if (stored.format) return index_files(*stored.format, std::move(stored.files), stop);

  std::vector<fs::path> folders;
  std::ranges::copy_if(paths, std::back_inserter(folders),
                       [&error](const fs::path& path) { return fs::is_directory(path, error); });
  if (folders.empty() || !are_parts(folders)) return index_folder(root, stop);
  for (const std::string_view part : {"train", "training"}) {
    if (std::ranges::find(folders, root / part) == folders.end()) continue;
    root /= part;
    return find_index(root, stop);
  }
  std::vector<std::string> names;
  for (const fs::path& folder : folders) names.push_back(folder.filename().string());
  return fail(ErrorCode::kCorruptData,
              "{} holds the parts of a data set ({}), none of them for training; name one of them: "
              "{}",
              root.string(), fmt::join(names, ", "), folders.front().string());
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

/// Tells the random numbers for units and windows from those for single samples.
constexpr auto kForUnits = std::uint64_t{1} << 63;

}  // namespace

Result<Dataset> Dataset::open(const fs::path& root, const std::atomic<bool>* stop,
                              const ObjectStoreSettings& objects) {
  Dataset dataset;
  dataset.root_ = root;
  if (is_object_path(root.string())) {
    std::string rest = root.string().substr(3);
    rest.erase(0, rest.find_first_not_of('/'));
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    std::string prefix = slash < rest.size() ? rest.substr(slash + 1) : "";
    if (!prefix.empty() && !prefix.ends_with('/')) prefix += '/';
    ObjectStoreSettings settings = objects;
    settings.stop = stop;
    GPEMU_ASSIGN(dataset.objects_, ObjectStore::open(rest.substr(0, slash), std::move(settings)));
    GPEMU_ASSIGN(const ObjectList found, dataset.objects_->list(prefix));
    GPEMU_ASSIGN(dataset.index_, index_objects(dataset.objects_->root(), prefix, found));
  } else {
    GPEMU_ASSIGN(dataset.index_, find_index(dataset.root_, stop));
  }
  const DataIndex& index = dataset.index_;
  if (index.samples.size() >= UINT32_MAX) {
    return fail(ErrorCode::kCorruptData, "{} holds {} images, more than the limit of {}",
                root.string(), index.samples.size(), UINT32_MAX - 1);
  }
  dataset.first_sample_.reserve(index.units.size() + 1);
  for (std::uint32_t i = 0; i < index.samples.size(); ++i) {
    // A unit may have no sample, such as a group of none.
    while (dataset.first_sample_.size() <= index.samples[i].unit) {
      dataset.first_sample_.push_back(i);
    }
    dataset.total_bytes_ += index.samples[i].bytes;
  }
  dataset.first_sample_.resize(index.units.size() + 1,
                               static_cast<std::uint32_t>(index.samples.size()));
  return dataset;
}

std::string Dataset::sample_name(std::size_t sample) const {
  const Sample& stored = index_.samples[sample];
  const std::string file = index_.files[index_.units[stored.unit].file].string();
  return format() == DataFormat::kFolder ? file : fmt::format("{}, byte {}", file, stored.offset);
}

Unit Dataset::extent(std::size_t sample) const {
  const Sample& stored = index_.samples[sample];
  Unit part{.file = index_.units[stored.unit].file, .offset = stored.offset, .bytes = stored.bytes};
  if (!index_.checksums.empty()) {
    part.offset = index_.checksums[sample].offset;
    part.bytes = index_.checksums[sample].bytes;
  }
  return part;
}

Result<std::span<const std::byte>> Dataset::image_in(std::size_t sample, const Unit& part,
                                                     std::span<const std::byte> bytes) const {
  const Unit wanted = extent(sample);
  GPEMU_CHECK(wanted.offset >= part.offset && wanted.bytes <= part.bytes,
              "the sample is in the part");
  const Bytes begin = wanted.offset - part.offset;
  // A folder's file may be cut off as well, which its decoder finds out.
  const bool cut_off = begin > bytes.size() || wanted.bytes > bytes.size() - begin;
  if (cut_off && format() != DataFormat::kFolder) {
    return fail(ErrorCode::kCorruptData, "the file has become shorter");
  }
  if (cut_off) return bytes;
  if (!index_.checksums.empty()) {
    const Checksum& checksum = index_.checksums[sample];
    const std::uint32_t crc = crc32c(bytes.subspan(begin, wanted.bytes));
    if ((checksum.masked ? masked_crc(crc) : crc) != checksum.crc) {
      return fail(ErrorCode::kCorruptData, "its checksum is wrong");
    }
  }
  const Sample& stored = index_.samples[sample];
  return bytes.subspan(stored.offset - part.offset, stored.bytes);
}

std::vector<std::uint32_t> Dataset::unit_order(std::uint64_t seed, std::uint64_t epoch) const {
  std::vector<std::uint32_t> order(index_.units.size());
  std::iota(order.begin(), order.end(), 0U);
  sim::Rng rng(seed, epoch, kForUnits);
  const bool by_file = format() == DataFormat::kWebDataset || format() == DataFormat::kTfRecord;
  if (!by_file) {
    rng.shuffle(std::span<std::uint32_t>(order));
    return order;
  }
  std::vector<std::uint32_t> rank_of_file(index_.files.size());
  std::iota(rank_of_file.begin(), rank_of_file.end(), 0U);
  rng.shuffle(std::span<std::uint32_t>(rank_of_file));
  std::ranges::stable_sort(
      order, {}, [&](std::uint32_t unit) { return rank_of_file[index_.units[unit].file]; });
  return order;
}

std::vector<std::uint32_t> Dataset::epoch_order(ReadOrder order, std::size_t window,
                                                std::uint64_t seed, std::uint64_t epoch) const {
  GPEMU_CHECK(window > 0, "a window has at least one unit");
  if (order == ReadOrder::kRandom) return shuffled_order(index_.samples.size(), seed, epoch);
  std::vector<std::uint32_t> samples;
  samples.reserve(index_.samples.size());
  if (order == ReadOrder::kSequential) {
    samples.resize(index_.samples.size());
    std::iota(samples.begin(), samples.end(), 0U);
    return samples;
  }
  const std::vector<std::uint32_t> units = unit_order(seed, epoch);
  for (std::size_t first = 0; first < units.size(); first += window) {
    const std::size_t begin = samples.size();
    for (std::size_t i = first; i < std::min(first + window, units.size()); ++i) {
      const std::uint32_t unit = units[i];
      for (std::uint32_t s = first_sample_[unit]; s < first_sample_[unit + 1]; ++s) {
        samples.push_back(s);
      }
    }
    sim::Rng(seed, epoch, kForUnits + 1 + first)
        .shuffle(std::span<std::uint32_t>(samples).subspan(begin));
  }
  return samples;
}

Result<void> Dataset::drop_page_cache(const std::atomic<bool>* stop) const {
  if (objects_) return {};
  for (const fs::path& file : index_.files) {
    GPEMU_TRY(check_stop(stop, root_));
    GPEMU_TRY(drop_file(file));
  }
  return {};
}

Result<void> Dataset::fill_page_cache(const std::atomic<bool>* stop) const {
  if (objects_) return {};
  std::vector<char> scratch(std::size_t{1} << 20);
  for (const fs::path& file : index_.files) {
    GPEMU_TRY(check_stop(stop, root_));
    GPEMU_TRY(fill_file(file, scratch));
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
