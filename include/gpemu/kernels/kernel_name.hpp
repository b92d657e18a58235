// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpemu::kernels {

/// The kinds of kernel parameters whose size follows from the type.
enum class ParameterKind : std::uint8_t {
  kOther,         ///< a struct, a functor, a floating-point number.
  kInteger32,     ///< of 32 bits.
  kInteger64,     ///< of 64 bits.
  kConstPointer,  ///< to memory that the kernel does not write.
  kPointer,       ///< to memory that the kernel may write.
};

/// Returns the kind of a parameter by its type as C++ writes it, e.g. "float const*".
[[nodiscard]] ParameterKind parameter_kind(std::string_view type);

[[nodiscard]] constexpr bool is_integer(ParameterKind kind) {
  return kind == ParameterKind::kInteger32 || kind == ParameterKind::kInteger64;
}

/// A kernel's name as C++ has it.
struct KernelName {
  std::string function;                 ///< with its template arguments, without result.
  std::vector<std::string> parameters;  ///< their types; none where the name is not C++.
  bool is_cpp = false;
  std::string_view mangled;  ///< what was read.
};

/// Reads a mangled name. Takes tens of microseconds for long names.
[[nodiscard]] KernelName read_kernel_name(std::string_view mangled);

/// Returns the position behind `open`'s closing bracket, counting <>, (), [] and {}, or npos.
[[nodiscard]] std::size_t skip_brackets(std::string_view text, std::size_t open);

/// Splits at commas that lie in no brackets.
[[nodiscard]] std::vector<std::string_view> split_list(std::string_view text);

/// Returns the list of template arguments that follows the first `name` in a text.
[[nodiscard]] std::vector<std::string_view> template_arguments(std::string_view text,
                                                               std::string_view name);

/// Returns the size of a type that tensors hold, or 0.
[[nodiscard]] std::uint32_t type_bytes(std::string_view type);

/// Returns the number at a text's start, or 0.
[[nodiscard]] int number_in(std::string_view text);

/// Returns a name that people can read, of at most `most` characters.
[[nodiscard]] std::string readable_name(std::string_view mangled, std::size_t most = 200);

}  // namespace gpemu::kernels
