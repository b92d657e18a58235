// SPDX-License-Identifier: Apache-2.0
#include "line_file.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>

#include "gpemu/base/mutex.hpp"

namespace gpemu::process {
namespace {

/// The bytes mapped at once: some ten thousand lines.
constexpr std::size_t kWindow = 4 * kMiB;

}  // namespace

LineFile::LineFile(const std::filesystem::path& path)
    : file_(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)) {}

LineFile::~LineFile() {
  if (window_ != nullptr) ::munmap(window_, kWindow);
}

bool LineFile::add(std::string_view line) {
  const Lock lock(mutex_);
  if (!file_.valid()) return false;
  // A line may begin in one window and end in the next; only its line feed makes it one.
  while (true) {
    if ((window_ == nullptr || used_ == kWindow) && !map_next()) return false;
    if (line.empty()) break;
    const std::size_t part = std::min(line.size(), kWindow - used_);
    std::memcpy(window_ + used_, line.data(), part);
    used_ += part;
    line.remove_prefix(part);
  }
  std::atomic_ref<char>(window_[used_]).store('\n', std::memory_order_release);
  ++used_;
  return true;
}

bool LineFile::map_next() {
  if (window_ != nullptr) {
    ::munmap(window_, kWindow);
    window_ = nullptr;
    offset_ += kWindow;
  }
  used_ = 0;
  // The space must be allocated: on a full disk, SIGBUS would end the program otherwise.
  void* window = MAP_FAILED;
  if (take_space(file_, offset_, kWindow) == 0) {
    window = ::mmap(nullptr, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(),
                    static_cast<off_t>(offset_));
  }
  if (window == MAP_FAILED) {
    file_ = FileDescriptor();
    return false;
  }
  window_ = static_cast<char*>(window);
  return true;
}

}  // namespace gpemu::process
