// SPDX-License-Identifier: Apache-2.0
#include "file_part.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace gpemu::data {

std::unexpected<Error> cannot_read_part(const std::filesystem::path& path, int error_number) {
  return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), errno_message(error_number));
}

Result<FileDescriptor> open_part(const std::filesystem::path& path, const Unit& part) {
  if (part.bytes > kMostPartBytes) {
    return fail(ErrorCode::kCorruptData, "{}: {} bytes at byte {} are no image", path.string(),
                part.bytes, part.offset);
  }
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return cannot_read_part(path, errno);
  return file;
}

DeviceRead missing_of(const FileDescriptor& file, const Unit& part, PageCache page_cache) {
  const DeviceRead all{.file = part.file, .offset = part.offset, .bytes = part.bytes};
  struct stat status{};
  if (page_cache == PageCache::kIgnored || part.bytes == 0 || ::fstat(file.get(), &status) != 0) {
    return all;
  }
  // Source: mincore(2), since Linux 5.2.
  const bool is_told = status.st_uid == ::geteuid() || ::geteuid() == 0;
  if (!is_told) return all;
  const auto page = static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
  const Bytes begin = part.offset / page * page;
  const Bytes end = std::min(part.offset + part.bytes, static_cast<Bytes>(status.st_size));
  if (end <= begin) return all;
  void* mapping =
      ::mmap(nullptr, end - begin, PROT_READ, MAP_SHARED, file.get(), static_cast<off_t>(begin));
  if (mapping == MAP_FAILED) return all;
  std::vector<unsigned char> pages((end - begin + page - 1) / page);
  const int result = ::mincore(mapping, end - begin, pages.data());
  ::munmap(mapping, end - begin);
  if (result != 0) return all;
  DeviceRead missing{.file = part.file};
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if ((pages[i] & 1) != 0) continue;
    const Bytes first = std::max(part.offset, begin + i * page);
    if (missing.bytes == 0) missing.offset = first;
    missing.bytes += std::min(end, begin + (i + 1) * page) - first;
  }
  return missing;
}

Result<Bytes> read_part(const std::filesystem::path& path, const Unit& part,
                        std::span<std::byte> buffer, StorageDevice* storage) {
  GPEMU_ASSIGN(const FileDescriptor file, open_part(path, part));
  Bytes filled = 0;
  TimePoint end;
  if (storage != nullptr) {
    // What the kernel would read ahead, it would read faster than the device.
    static_cast<void>(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM));
    const DeviceRead missing = missing_of(file, part, storage->page_cache());
    if (missing.bytes > 0) end = storage->take_on(missing);
  }
  while (filled < buffer.size()) {
    const ssize_t count = ::pread(file.get(), buffer.data() + filled, buffer.size() - filled,
                                  static_cast<off_t>(part.offset + filled));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read_part(path, errno);
    if (count == 0) break;  // Somebody shortened the file.
    filled += static_cast<Bytes>(count);
  }
  if (end != TimePoint()) storage->clock().wait_until(end);
  return filled;
}

Result<Bytes> read_part(const Dataset& dataset, const Unit& part, std::span<std::byte> buffer,
                        StorageDevice* storage) {
  const std::filesystem::path& path = dataset.files()[part.file];
  if (dataset.objects() == nullptr) return read_part(path, part, buffer, storage);
  TimePoint end;
  if (storage != nullptr) {
    end = storage->take_on({.file = part.file, .offset = part.offset, .bytes = part.bytes});
  }
  GPEMU_ASSIGN(const Bytes filled, dataset.objects()->read(path.string(), part.offset, buffer));
  if (end != TimePoint()) storage->clock().wait_until(end);
  return filled;
}

}  // namespace gpemu::data
