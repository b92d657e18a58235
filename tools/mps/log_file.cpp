// SPDX-License-Identifier: Apache-2.0
#include "mps/log_file.hpp"

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <system_error>
#include <unistd.h>

namespace gpemu::mps {

LogFile::LogFile(const std::filesystem::path& folder, const char* name, std::string who, bool shows)
    : who_(std::move(who)), shows_(shows) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const std::filesystem::path path = folder / name;
  file_ = FileDescriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (file_.valid()) return;
  fmt::print(stderr, "cannot write {}: {}; set CUDA_MPS_LOG_DIRECTORY to a folder of yours\n",
             path.string(), errno_message(errno));
}

void LogFile::write_line(std::string_view text) const {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  char date[32];
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &parts);
  const std::string line =
      fmt::format("[{}.{:03} {} {:5}] {}\n", date, now.tv_nsec / 1'000'000, who_, ::getpid(), text);
  // A full disk must not end the daemon.
  if (file_.valid()) static_cast<void>(!::write(file_.get(), line.data(), line.size()));
  if (shows_) static_cast<void>(!::write(STDOUT_FILENO, line.data(), line.size()));
}

}  // namespace gpemu::mps
