// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace gpemu {

/// The severity of a message. The environment variable GPEMU_LOG (error, warning, info, debug) sets
/// the threshold; the default is warning.
enum class LogLevel { kError, kWarning, kInfo, kDebug };

/// Returns whether messages of this level are written.
[[nodiscard]] bool log_enabled(LogLevel level);

/// Writes "gpemu: " and a message as one line to standard error, in one system call, regardless of
/// the threshold. Does nothing if standard error cannot be written. Thread safety: any thread.
void notice(std::string_view message);

/// Like notice, with the level before the message, which is made printable.
void log_line(LogLevel level, std::string_view message);

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(level)) log_line(level, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace gpemu
