// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/pinned_memory.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

namespace gpemu::device {

Result<bool> lock_pages(std::span<std::byte> memory) {
  if (::mlock(memory.data(), memory.size()) == 0) return true;
  const int error = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool limited = limit.rlim_cur != RLIM_INFINITY;
  // EINVAL: read-only memory, or a kernel before 5.14.
  if (limited &&
      (::madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0 || errno == EINVAL)) {
    return false;
  }
  return fail(ErrorCode::kResourceLimit, "cannot pin {:.1f} MiB of host memory: {}",
              to_mib(memory.size()), errno_message(limited ? errno : error));
}

std::string not_locked_text(Bytes bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return fmt::format(
      "page-locked memory is limited to {:.0f} MiB for this user: {:.1f} MiB of pinned memory are "
      "not locked and may be swapped out; times are emulated as for pinned memory. `ulimit -l` "
      "shows the limit in KiB; `sudo prlimit --memlock=unlimited --pid $$` raises it for this "
      "shell, a line `* - memlock unlimited` in /etc/security/limits.conf for good",
      to_mib(limit.rlim_cur), to_mib(bytes));
}

Result<PinnedMemory> PinnedMemory::allocate(Bytes bytes) {
  if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "cannot pin 0 bytes");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::kResourceLimit, "cannot allocate {:.1f} MiB of pinned memory: {}",
                to_mib(bytes), errno_message(errno));
  }
  PinnedMemory pinned({static_cast<std::byte*>(memory), bytes});
  GPEMU_ASSIGN(pinned.locked_, lock_pages(pinned.bytes_));
  return pinned;
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), locked_(other.locked_) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(locked_, other.locked_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace gpemu::device
