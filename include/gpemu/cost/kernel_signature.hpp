// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpemu::cost {

/// What a parameter of a kernel is, as far as its size follows from its type.
enum class ParameterKind : std::uint8_t {
  kOther,         ///< a struct, a functor, a floating-point number.
  kInteger32,     ///< of 32 bits.
  kInteger64,     ///< of 64 bits.
  kConstPointer,  ///< to what the kernel does not write.
  kPointer,       ///< to what the kernel may write.
};

/// A parameter of a kernel.
struct KernelParameter {
  ParameterKind kind = ParameterKind::kOther;
  std::string type;  ///< as C++ writes it, e.g. "float const*".

  [[nodiscard]] bool is_integer() const {
    return kind == ParameterKind::kInteger32 || kind == ParameterKind::kInteger64;
  }
  [[nodiscard]] bool is_pointer() const {
    return kind == ParameterKind::kConstPointer || kind == ParameterKind::kPointer;
  }
};

/// Returns the parameters of the function that a mangled name names, in order; nothing where it is
/// none of the Itanium C++ ABI. Takes some ten microseconds, for the names are long.
[[nodiscard]] std::optional<std::vector<KernelParameter>> kernel_parameters(
    std::string_view mangled_name);

}  // namespace gpemu::cost
