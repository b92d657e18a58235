// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/live_records.hpp"

#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace gpemu::record {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

}  // namespace

LiveProcess::LiveProcess(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), reader_(path.filename().string()) {}

Result<bool> LiveProcess::read(std::size_t most_bytes) {
  bool any = false;
  std::string buffer(kBufferBytes, '\0');
  for (const std::size_t start = offset_; offset_ - start < most_bytes;) {
    const ssize_t count =
        ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(offset_));
    if (count <= 0) return any;
    // The rest of the file is zeros.
    std::string_view rest(buffer.data(), static_cast<std::size_t>(count));
    rest = rest.substr(0, rest.find('\0'));
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
  }
  return any;
}

Result<bool> LiveRun::read(std::size_t most_bytes) {
  GPEMU_ASSIGN(const std::vector<std::filesystem::path> paths, list_folder(folder_));
  for (const std::filesystem::path& path : paths) {
    if (path.extension() == ".lines") processes_.try_emplace(path.stem().string(), path);
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
