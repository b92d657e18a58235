// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::kernels {

/// A parameter of a kernel that leads to memory written by the kernel.
struct WrittenParameter {
  std::uint32_t argument = 0;
  bool updates = false;       ///< it is read earlier in the text.
  bool in_loop = false;       ///< written in a loop.
  Bytes bytes_of_thread = 0;  ///< written by the instructions of a thread, each once.
  bool fixed = true;          ///< every thread writes the same bytes, the first ones.
  std::uint32_t element_bytes = 4;
};

/// An argument that is an integer.
struct IntegerArgument {
  std::uint32_t argument = 0;
  std::uint8_t bytes = 4;

  bool operator==(const IntegerArgument&) const = default;
};

/// The facts about a kernel's parameters in its text.
struct PtxFacts {
  std::vector<WrittenParameter> written;
  std::vector<std::uint32_t> read;        ///< the arguments that lead to memory that is read.
  std::vector<IntegerArgument> integers;  ///< of 4 bytes.
  std::vector<bool> wide;                 ///< for each parameter, whether it has 8 bytes.
};

/// Finds out from a kernel's PTX to which memory it writes. Lines may end in zeros, as in
/// ".nv_debug_ptx_txt". Addresses are followed from the parameters through arithmetic; nothing is
/// returned if one comes from elsewhere, such as memory or a function. Takes milliseconds.
[[nodiscard]] std::optional<PtxFacts> read_ptx(std::string_view text, std::string_view kernel);

}  // namespace gpemu::kernels
