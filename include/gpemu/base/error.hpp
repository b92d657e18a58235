// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace gpemu {

/// The kind of a failure. This enum, the C enum and the command's exit codes all come from the
/// table in `error_codes.def`.
enum class ErrorCode : std::uint8_t {
#define X(name, c_name, value, exit_code, meaning) name = value,
#include "gpemu/base/error_codes.def"
#undef X
};

/// An expected failure: its kind, and a message that says what went wrong, where, and what to do.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
};

/// The value of an operation that can fail.
template <typename T>
using Result = std::expected<T, Error>;

/// Makes an error for a function that returns a Result.
template <typename... Args>
[[nodiscard]] std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format,
                                          Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

/// Returns the exit code with which the command reports `code`.
[[nodiscard]] int exit_code(ErrorCode code);

/// Returns a message for an `errno` value, e.g. "No such file or directory".
[[nodiscard]] std::string errno_message(int error_number);

namespace internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);
}  // namespace internal

}  // namespace gpemu

/// Aborts with a message when an invariant of gpemu itself is broken; active in every build.
#define GPEMU_CHECK(condition, message) \
  ((condition) ? void() : ::gpemu::internal::check_failed(__FILE__, __LINE__, #condition, message))

#define GPEMU_INTERNAL_CONCAT_2(a, b) a##b
#define GPEMU_INTERNAL_CONCAT(a, b) GPEMU_INTERNAL_CONCAT_2(a, b)

/// Evaluates an expression of type Result<void>; returns its error from the enclosing function.
#define GPEMU_TRY(expression)                                      \
  do {                                                             \
    if (auto gpemu_try_result = (expression); !gpemu_try_result) { \
      return std::unexpected(std::move(gpemu_try_result).error()); \
    }                                                              \
  } while (false)

/// GPEMU_ASSIGN(auto value, expression): binds the value of a Result, or returns its error.
#define GPEMU_ASSIGN(declaration, expression) \
  GPEMU_INTERNAL_ASSIGN(GPEMU_INTERNAL_CONCAT(gpemu_result_, __LINE__), declaration, expression)
#define GPEMU_INTERNAL_ASSIGN(temporary, declaration, expression)       \
  auto temporary = (expression);                                        \
  if (!temporary) return std::unexpected(std::move(temporary).error()); \
  declaration = *std::move(temporary)
