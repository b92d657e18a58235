// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include <cstdio>
#include <unistd.h>
#include <utility>

#include "terminal.hpp"

namespace gpemu::tools {
namespace {

constexpr int kBarWidth = 30;
constexpr auto kBarInterval = std::chrono::milliseconds(100);
constexpr auto kLineInterval = std::chrono::seconds(10);

}  // namespace

Progress::Progress(std::string label, std::int64_t total_steps, int batch, bool quiet)
    : label_(std::move(label)),
      total_steps_(total_steps),
      batch_(batch),
      quiet_(quiet),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

void Progress::clear() {
  if (terminal_ && shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

void Progress::update(std::int64_t steps) {
  const HostClock::time_point now = HostClock::now();
  if (quiet_ ||
      now - last_shown_ < (terminal_ ? kBarInterval : HostClock::duration(kLineInterval))) {
    return;
  }
  last_shown_ = now;
  shown_ = true;
  const double done = static_cast<double>(steps) / static_cast<double>(total_steps_);
  const double elapsed_s = std::chrono::duration<double>(now - start_).count();
  const std::string facts =
      fmt::format("{}/{} steps, {:.1f} images/s, {:.0f} s left", steps, total_steps_,
                  static_cast<double>(steps) * batch_ / elapsed_s, elapsed_s / done - elapsed_s);
  if (terminal_) {
    const int filled = static_cast<int>(done * kBarWidth);
    std::fputs("\r\x1b[K", stderr);
    print_error("{} [{:=<{}}{: <{}}] {}", label_, "", filled, "", kBarWidth - filled, facts);
    std::fflush(stderr);
  } else {
    print_error("{}: {}\n", label_, facts);
  }
}

}  // namespace gpemu::tools
