// SPDX-License-Identifier: Apache-2.0
#include "index_reader.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace gpemu::data {
namespace {

static_assert(std::endian::native == std::endian::little, "all formats store numbers so");

/// As much as is read at once: the header of a sample, and often what lies around it.
constexpr Bytes kLeastRead = 4 * kKiB;

}  // namespace

Result<void> check_stop(const std::atomic<bool>* stop, const std::filesystem::path& root) {
  if (stop == nullptr || !stop->load(std::memory_order_relaxed)) return {};
  return fail(ErrorCode::kInterrupted, "stopped while reading {}", root.string());
}

void add_stored_sample(DataIndex& index, const Sample& sample, const Checksum* checksum) {
  const auto file = static_cast<std::uint32_t>(index.files.size() - 1);
  const Bytes begin = checksum != nullptr ? checksum->offset : sample.offset;
  const Bytes end =
      checksum != nullptr ? checksum->offset + checksum->bytes : sample.offset + sample.bytes;
  const bool joins = !index.units.empty() && index.units.back().file == file &&
                     end - index.units.back().offset <= kUnitBytes;
  if (joins) {
    index.units.back().bytes = end - index.units.back().offset;
  } else {
    index.units.push_back({.file = file, .offset = begin, .bytes = end - begin});
  }
  index.samples.push_back(sample);
  index.samples.back().unit = static_cast<std::uint32_t>(index.units.size() - 1);
  if (checksum != nullptr) index.checksums.push_back(*checksum);
}

Result<void> name_classes(DataIndex& index, const std::filesystem::path& folder) {
  std::int32_t last = 0;
  for (const Sample& sample : index.samples) last = std::max(last, sample.label);
  const std::filesystem::path file = folder / kClassesFile;
  Result<std::string> names = read_file(file);
  if (!names && names.error().code != ErrorCode::kNotFound) {
    return std::unexpected(std::move(names).error());
  }
  if (!names) {
    for (std::int32_t label = 0; label <= last; ++label) {
      index.classes.push_back(std::to_string(label));
    }
    return {};
  }
  std::string_view rest = *names;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    index.classes.emplace_back(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  if (static_cast<std::size_t>(last) < index.classes.size()) return {};
  return fail(
      ErrorCode::kCorruptData,
      "{} names {} classes, but a sample has label {}: add a line for each class, or remove "
      "the file",
      file.string(), index.classes.size(), last);
}

Result<FileWindow> FileWindow::open(const std::filesystem::path& path) {
  FileWindow window;
  window.path_ = path;
  window.file_ = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!window.file_.valid() || ::fstat(window.file_.get(), &status) != 0) {
    return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), errno_message(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kIo, "cannot read {}: it is not a regular file", path.string());
  }
  window.size_ = static_cast<Bytes>(status.st_size);
  window.buffer_.resize(kMost);
  return window;
}

Result<std::span<const std::byte>> FileWindow::read(Bytes offset, Bytes bytes) {
  GPEMU_CHECK(bytes <= kMost && offset <= size_ && bytes <= size_ - offset,
              "the part is within the file");
  if (offset < begin_ || offset + bytes > begin_ + filled_) {
    begin_ = offset;
    filled_ = 0;
    const Bytes wanted = std::max(bytes, std::min(kLeastRead, size_ - offset));
    while (filled_ < wanted) {
      const ssize_t count = ::pread(file_.get(), buffer_.data() + filled_, wanted - filled_,
                                    static_cast<off_t>(offset + filled_));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        return fail(ErrorCode::kIo, "cannot read {} at byte {}: {}", path_.string(),
                    offset + filled_, count < 0 ? errno_message(errno) : "it has become shorter");
      }
      filled_ += static_cast<Bytes>(count);
    }
  }
  return std::span<const std::byte>(buffer_).subspan(offset - begin_, bytes);
}

}  // namespace gpemu::data
