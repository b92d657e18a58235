// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "gpemu/report/number_text.hpp"

namespace gpemu::report {
namespace {

constexpr std::size_t kLeastBar = 8;
constexpr std::size_t kMostBar = 40;
constexpr Duration kBarInterval = std::chrono::milliseconds(100);
constexpr Duration kLineInterval = std::chrono::seconds(10);

}  // namespace

std::string progress_line(const ProgressKind& kind, std::int64_t done, std::int64_t total,
                          std::chrono::duration<double> elapsed, int columns, bool bar) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  std::string facts = fmt::format("{}/{} {}", done, total, kind.unit);
  if (share > 0 && elapsed.count() > 0) {
    const double each = kind.images == 0 ? 1 : kind.images;
    facts += fmt::format(
        ", {} {}/s, {} left", rounded(static_cast<double>(done) * each / elapsed.count()),
        kind.images == 0 ? kind.unit : "images", waiting_time(elapsed * (1 / share - 1)));
  }
  const auto room = static_cast<std::size_t>(std::max(columns, 0));
  const std::size_t plain = kind.label.size() + 2 + facts.size();  // "training: 3/30 steps"
  const std::size_t around = plain + 2;                            // "training [] 3/30 steps"
  if (!bar || room < around + kLeastBar) {
    const std::string line = fmt::format("{}: {}", kind.label, facts);
    return bar ? line.substr(0, room) : line;  // A line that is redrawn must not wrap.
  }
  const std::size_t width = std::min(room - around, kMostBar);
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return fmt::format("{} [{}{}] {}", kind.label, std::string(filled, '='),
                     std::string(width - filled, ' '), facts);
}

Progress::Progress(ProgressKind kind, std::int64_t total, bool quiet, Host host)
    : kind_(std::move(kind)),
      total_(total),
      quiet_(quiet),
      host_(std::move(host)),
      redraws_(host_.terminal().redraws),
      start_(host_.now()),
      last_shown_(start_) {}

void Progress::clear() {
  if (redraws_ && shown_) std::fputs("\r\x1b[K", stderr);
  shown_ = false;
}

void Progress::update(std::int64_t done) {
  if (quiet_) return;
  const TimePoint now = host_.now();
  if (now - last_shown_ < (redraws_ ? kBarInterval : kLineInterval)) return;
  last_shown_ = now;
  shown_ = true;
  // The last column stays free: some terminals go to the next line after it.
  const std::string line = progress_line(kind_, done, total_, now - start_,
                                         redraws_ ? host_.terminal().columns - 1 : 0, redraws_);
  if (redraws_) {
    std::fputs("\r\x1b[K", stderr);
    print_error("{}", line);
    std::fflush(stderr);
  } else {
    print_error("{}\n", line);
  }
}

}  // namespace gpemu::report
