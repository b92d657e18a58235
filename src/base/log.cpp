// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/log.hpp"

#include <array>
#include <cstdlib>
#include <string>
#include <unistd.h>

#include "gpemu/base/text.hpp"

namespace gpemu {
namespace {

constexpr std::array<std::string_view, 4> kLevelNames = {"error", "warning", "info", "debug"};

LogLevel threshold_from_environment() {
  const char* text = std::getenv("GPEMU_LOG");
  for (std::size_t i = 0; text != nullptr && i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == text) return static_cast<LogLevel>(i);
  }
  return LogLevel::kWarning;
}

}  // namespace

bool log_enabled(LogLevel level) {
  static const LogLevel threshold = threshold_from_environment();
  return level <= threshold;
}

void notice(std::string_view message) {
  const std::string line = fmt::format("gpemu: {}\n", message);
  // If standard error itself cannot be written, there is nowhere to report it.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void log_line(LogLevel level, std::string_view message) {
  notice(fmt::format("{}: {}", kLevelNames[static_cast<std::size_t>(level)], printable(message)));
}

}  // namespace gpemu
