// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gpemu::cost {

/// The kinds of kernel parameters whose size follows from the type.
enum class ParameterKind : std::uint8_t {
  kOther,         ///< a struct, a functor, a floating-point number.
  kInteger32,     ///< of 32 bits.
  kInteger64,     ///< of 64 bits.
  kConstPointer,  ///< to memory that the kernel does not write.
  kPointer,       ///< to memory that the kernel may write.
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

/// Returns the parameters of the function with a mangled name, in order; nothing if the name is not
/// one of the Itanium C++ ABI. Takes about ten microseconds, because the names are long.
[[nodiscard]] std::optional<std::vector<KernelParameter>> kernel_parameters(
    std::string_view mangled_name);

}  // namespace gpemu::cost
