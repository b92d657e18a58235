// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/live_records.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace gpemu::record {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

std::unexpected<Error> cannot_read(const std::filesystem::path& path) {
  return fail(ErrorCode::kIo, "cannot read {}: {}", path.string(), errno_message(errno));
}

}  // namespace

LiveProcess::LiveProcess(const std::filesystem::path& path, FileDescriptor file)
    : path_(path), file_(std::move(file)), reader_(path.filename().string()) {}

Result<LiveProcess> LiveProcess::open(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return cannot_read(path);
  return LiveProcess(path, std::move(file));
}

Result<bool> LiveProcess::read(std::size_t most_bytes) {
  bool any = false;
  std::string buffer(kBufferBytes, '\0');
  for (const std::size_t start = offset_; offset_ - start < most_bytes;) {
    const ssize_t count =
        ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset_));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot_read(path_);
    if (count == 0) return any;
    // The rest of the file is zeros.
    std::string_view rest(buffer.data(), static_cast<std::size_t>(count));
    rest = rest.substr(0, rest.find('\0'));
    const bool full = rest.size() == buffer.size();
    const std::size_t end = rest.rfind('\n');
    if (end == std::string_view::npos) return any;
    rest = rest.substr(0, end + 1);
    offset_ += rest.size();
    any = true;
    while (!rest.empty()) {
      const std::size_t length = rest.find('\n');
      GPEMU_TRY(reader_.add_line(rest.substr(0, length)));
      rest.remove_prefix(length + 1);
    }
    // What the process has written meanwhile is for the next call: the caller may have enough.
    if (!full) return any;
  }
  return any;
}

Result<bool> LiveRun::read(std::size_t most_bytes) {
  GPEMU_ASSIGN(const std::vector<std::filesystem::path> paths, list_folder(folder_));
  for (const std::filesystem::path& path : paths) {
    const std::string number = path.stem().string();
    if (path.extension() != ".lines" || processes_.contains(number)) continue;
    GPEMU_ASSIGN(LiveProcess process, LiveProcess::open(path));
    processes_.emplace(number, std::move(process));
  }
  bool any = false;
  for (auto& [number, process] : processes_) {
    GPEMU_ASSIGN(const bool read, process.read(most_bytes));
    any = any || read;
  }
  return any;
}

const std::pair<const std::string, LiveProcess>* LiveRun::main() const {
  const auto found = std::ranges::max_element(
      processes_, {}, [](const auto& entry) { return entry.second.work().events.size(); });
  return found == processes_.end() ? nullptr : &*found;
}

}  // namespace gpemu::record
