// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/terminal.hpp"

#include <cerrno>
#include <charconv>
#include <clocale>
#include <cstdio>
#include <fcntl.h>
#include <langinfo.h>
#include <optional>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gpemu/base/text.hpp"

namespace gpemu::report {
namespace {

/// Below, nothing that the command prints can be read; above, bars get no better.
constexpr int kMinColumns = 20;
constexpr int kMaxColumns = 1000;

/// Of the first write to standard output that failed.
int output_errno = 0;

bool is_usable(int columns) {
  return columns >= kMinColumns && columns <= kMaxColumns;
}

std::optional<int> columns_of(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && is_usable(size.ws_col)) return size.ws_col;
  return std::nullopt;
}

/// Returns the number of the variable COLUMNS where it is a usable one.
std::optional<int> told_columns(const std::string& digits) {
  int columns = 0;
  const char* const digits_end = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), digits_end, columns);
  if (error == std::errc() && end == digits_end && is_usable(columns)) return columns;
  return std::nullopt;
}

bool locale_has_utf8() {
  static const bool has = [] {
    const locale_t locale = ::newlocale(LC_CTYPE_MASK, "", nullptr);
    if (locale == nullptr) return false;  // A locale that is not installed.
    const bool utf8 = std::string_view(::nl_langinfo_l(CODESET, locale)) == "UTF-8";
    ::freelocale(locale);
    return utf8;
  }();
  return has;
}

}  // namespace

void write_output(std::string_view text) {
  const std::string shown = printable_lines(text);
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) == shown.size()) return;
  if (output_errno == 0) output_errno = errno;
}

void write_error(std::string_view text) {
  const std::string shown = printable_lines(text);
  // If standard error itself cannot be written, there is nowhere to report it.
  [[maybe_unused]] const std::size_t written = std::fwrite(shown.data(), 1, shown.size(), stderr);
}

Result<void> finish_output() {
  if (std::fflush(stdout) != 0 && output_errno == 0) output_errno = errno;
  if (output_errno == 0) return {};
  const int error = std::exchange(output_errno, 0);
  return fail(error == ENOSPC ? ErrorCode::kResourceLimit : ErrorCode::kIo,
              "cannot write the output: {}; it is incomplete", errno_message(error));
}

void fill_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The wrong way round: reading or writing is refused. The lowest free number is this one.
    const int mode = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", mode) != descriptor) return;
  }
}

Terminal terminal(const std::function<std::optional<std::string>(const char* name)>& variable) {
  const auto of_output = [] { return columns_of(STDOUT_FILENO); };
  const auto of_errors = [] { return columns_of(STDERR_FILENO); };
  const auto known = variable("COLUMNS").and_then(told_columns).or_else(of_output);
  const std::string kind = variable("TERM").value_or("");
  return {.columns = known.or_else(of_errors).value_or(Terminal{}.columns),
          .output_columns = known.value_or(kAnyWidth),
          .utf8 = locale_has_utf8(),
          .redraws = ::isatty(STDERR_FILENO) == 1 && !kind.empty() && kind != "dumb"};
}

}  // namespace gpemu::report
