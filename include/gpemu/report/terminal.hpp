// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/error.hpp"

namespace gpemu::report {

/// These write to standard output and standard error, made printable except for newlines. All
/// output of the command goes through them. finish_output() reports if standard output could not be
/// written.
void write_output(std::string_view text);
void write_error(std::string_view text);

template <typename... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void print_error(fmt::format_string<Args...> format, Args&&... args) {
  write_error(fmt::format(format, std::forward<Args>(args)...));
}

/// Flushes standard output.
///
/// Errors: kIo if any output could not be written, now or earlier; kResourceLimit if the disk is
/// full.
[[nodiscard]] Result<void> finish_output();

/// Opens standard input, output and error if the caller has closed them, so that no file opened
/// later takes their place and gets the output. Printing to them still fails.
void fill_standard_descriptors();

/// The width of lines if nothing limits it.
inline constexpr int kAnyWidth = std::numeric_limits<int>::max();

/// The terminal's abilities and widths.
struct Terminal {
  int columns = 80;  ///< of help and of lines that are redrawn.
  /// Of tables and plots on standard output: files and pipes get each row on one line.
  int output_columns = kAnyWidth;
  bool utf8 = false;     ///< by the locale, LC_ALL, LC_CTYPE or LANG.
  bool redraws = false;  ///< standard error is a terminal that can redraw a line.

  /// Returns "±", or "+-" if the locale does not have it.
  [[nodiscard]] std::string_view plus_minus() const { return utf8 ? "\u00b1" : "+-"; }
};

/// Returns the terminal's present properties. Its widths are the variable COLUMNS, else that of the
/// terminal of standard output and, for `columns`, of standard error. With TERM=dumb, lines cannot
/// be redrawn. `variable` returns the value of an environment variable.
[[nodiscard]] Terminal terminal(
    const std::function<std::optional<std::string>(const char* name)>& variable);

}  // namespace gpemu::report
