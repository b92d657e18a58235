// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "gpemu/base/error.hpp"

namespace gpemu::report {

/// Write to standard output and standard error, made printable but for newlines. Everything that
/// the command says goes through here. That standard output could not be written is known in the
/// end, by finish_output().
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

/// Writes what standard output has buffered.
///
/// Errors: kIo when something of the output could not be written, now or before; kResourceLimit
/// when the disk is full.
[[nodiscard]] Result<void> finish_output();

/// Opens standard input, output and error where the caller has closed them, so that no file that is
/// opened later takes their place and gets what is printed. Printing to them still fails.
void fill_standard_descriptors();

/// What the terminal can show, and how wide it is.
struct Terminal {
  int columns = 80;
  bool utf8 = false;     ///< by the locale, LC_ALL, LC_CTYPE or LANG.
  bool redraws = false;  ///< standard error is a terminal whose line can be drawn again.
};

/// How wide lines may be that nobody has said anything of.
inline constexpr int kAnyWidth = std::numeric_limits<int>::max();

/// Returns how wide tables and plots on standard output may be: the variable COLUMNS, else what its
/// terminal says, else kAnyWidth, so that files and pipes get each row in one line.
[[nodiscard]] int output_columns();

/// Returns the terminal's facts. Its width is the variable COLUMNS, else what the terminal of
/// standard output or error says, else 80. TERM=dumb says that lines cannot be drawn again.
[[nodiscard]] Terminal terminal();

/// Returns "±", or "+-" where the locale does not have it.
[[nodiscard]] std::string_view plus_minus();

}  // namespace gpemu::report
