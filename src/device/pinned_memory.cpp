// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/pinned_memory.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>

namespace gpemu::device {

Result<PinnedMemory> PinnedMemory::allocate(Bytes bytes) {
  if (bytes == 0) return fail(ErrorCode::kInvalidArgument, "cannot pin 0 bytes");
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::kResourceLimit, "cannot allocate {:.1f} MiB of pinned memory: {}",
                to_mib(bytes), errno_message(errno));
  }
  PinnedMemory pinned({static_cast<std::byte*>(memory), bytes});
  if (::mlock(memory, bytes) == 0) return pinned;
  const int error = errno;
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) {
    return fail(ErrorCode::kResourceLimit, "cannot pin {:.1f} MiB of host memory: {}",
                to_mib(bytes), errno_message(error));
  }
  return fail(ErrorCode::kResourceLimit,
              "cannot pin {:.1f} MiB of host memory: {}. This process may lock {:.1f} MiB in all. "
              "Raise the limit for this shell with `sudo prlimit --memlock=unlimited --pid $$`, or "
              "for good with a line `* - memlock unlimited` in /etc/security/limits.conf",
              to_mib(bytes), errno_message(error), to_mib(limit.rlim_cur));
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})) {}

PinnedMemory& PinnedMemory::operator=(PinnedMemory&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

PinnedMemory::~PinnedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace gpemu::device
