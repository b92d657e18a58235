// SPDX-License-Identifier: Apache-2.0
#include "real_process_view.hpp"

#include <array>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/uio.h>
#include <unistd.h>

#include "gpemu/skip/proc_text.hpp"

namespace gpemu::skip {

FileDescriptor RealProcessView::open(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

std::string_view RealProcessView::read(const FileDescriptor& file, std::span<char> buffer) {
  const ssize_t count = ::pread(file.get(), buffer.data(), buffer.size(), 0);
  if (count <= 0) return {};
  return {buffer.data(), static_cast<std::size_t>(count)};
}

std::string RealProcessView::text_of(const std::string& path) {
  const FileDescriptor file = open(path);
  std::string text;
  std::array<char, 16384> buffer{};
  if (!file.valid()) return text;
  for (ssize_t count = 0; (count = ::read(file.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::string RealProcessView::link_text(const std::string& path) {
  std::array<char, 512> buffer{};
  const ssize_t count = ::readlink(path.c_str(), buffer.data(), buffer.size());
  return count <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(count));
}

bool RealProcessView::is_there(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

bool RealProcessView::read_memory(pid_t process, std::uint64_t address, std::span<std::byte> to) {
  const iovec local{.iov_base = to.data(), .iov_len = to.size()};
  const iovec remote{.iov_base = reinterpret_cast<void*>(address), .iov_len = to.size()};
  return ::process_vm_readv(process, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(to.size());
}

bool RealProcessView::visit_numbers(const std::string& folder,
                                    const std::function<void(int)>& look) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return false;
  while (const dirent* entry = ::readdir(open.get())) {  // NOLINT(concurrency-mt-unsafe): its own.
    if (const auto number = leading_number<pid_t>(entry->d_name)) look(*number);
  }
  return true;
}

}  // namespace gpemu::skip
