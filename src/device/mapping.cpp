// SPDX-License-Identifier: Apache-2.0
#include "mapping.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "gpemu/base/units.hpp"
#include "gpemu/device/node_files.hpp"

#include "lock_file.hpp"

namespace gpemu::device {

/// A mapping of a file that others may truncate. Read by a signal handler.
struct Guarded {
  std::atomic<std::uintptr_t> begin{0};  ///< 0: the entry is free.
  std::atomic<std::uintptr_t> end{0};
};

namespace {

/// More nodes than a command opens. Further ones get no message.
constexpr std::size_t kMostGuarded = 16;

/// The exit code of kCorruptData, for a signal handler; checked where that is installed.
constexpr int kCorruptDataExit = 6;

/// One table for the process, because signal handlers belong to the process.
std::array<Guarded, kMostGuarded> guarded_mappings;

Guarded* guard_mapping(const void* data, std::size_t size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (Guarded& place : guarded_mappings) {
    std::uintptr_t nobody = 0;
    if (!place.begin.compare_exchange_strong(nobody, begin)) continue;
    place.end = begin + size;
    return &place;
  }
  return nullptr;
}

void end_or_die(int signal, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Guarded& place : guarded_mappings) {
    const std::uintptr_t begin = place.begin;
    if (begin == 0 || address < begin || address >= place.end) continue;
    constexpr std::string_view kMessage =
        "gpemu: error: the node's segment was truncated while it was in use; remove the node with "
        "`gpemu node remove --force NAME`\n";
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, kMessage.data(), kMessage.size());
    ::_exit(kCorruptDataExit);
  }
  // Not our fault: it happens again, and ends the process.
  ::signal(signal, SIG_DFL);
}

Result<void*> checked(void* memory, std::size_t size) {
  if (memory != MAP_FAILED) return memory;
  return fail(ErrorCode::kResourceLimit, "cannot map a node segment of {} KiB: {}", size / kKiB,
              errno_message(errno));
}

}  // namespace

Result<Mapping> Mapping::of_file(int descriptor, std::size_t size) {
  const ForkHold hold;
  const FileDescriptor file(
      ::open(fmt::format("/proc/self/fd/{}", descriptor).c_str(), O_RDWR | O_CLOEXEC));
  if (!file.valid()) {
    return fail(ErrorCode::kResourceLimit, "cannot open a node segment again to map it: {}",
                errno_message(errno));
  }
  GPEMU_ASSIGN(
      void* const memory,
      checked(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), size));
  Mapping mapping(memory, size);
  mapping.guarded_ = guard_mapping(memory, size);
  return mapping;
}

Result<Mapping> Mapping::anonymous(std::size_t size) {
  GPEMU_ASSIGN(void* const memory, checked(::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                                           size));
  return Mapping(memory, size);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      guarded_(std::exchange(other.guarded_, nullptr)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    forget();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    guarded_ = std::exchange(other.guarded_, nullptr);
  }
  return *this;
}

Mapping::~Mapping() {
  forget();
}

void Mapping::forget() {
  if (guarded_ != nullptr) guarded_->begin = 0;
  if (data_ != nullptr) ::munmap(data_, size_);
}

void end_when_cut_short() {
  GPEMU_CHECK(exit_code(ErrorCode::kCorruptData) == kCorruptDataExit,
              "the handler's exit code is another");
  struct sigaction action{};
  // A program that handles the signal itself continues to do so.
  if (::sigaction(SIGBUS, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_sigaction = end_or_die;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace gpemu::device
