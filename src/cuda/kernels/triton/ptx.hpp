// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::cuda {

/// A parameter of a kernel that leads to memory which it writes.
struct WrittenParameter {
  std::uint32_t argument = 0;
  bool updates = false;       ///< it is read before, in the order of the text.
  bool in_loop = false;       ///< written in a loop.
  Bytes bytes_of_thread = 0;  ///< what the instructions of a thread write, each once.
  std::uint32_t element_bytes = 4;
};

/// What a kernel's text says of its parameters.
struct PtxFacts {
  std::vector<WrittenParameter> written;
  std::vector<std::uint32_t> read;      ///< the arguments that lead to memory which is read.
  std::vector<std::uint32_t> integers;  ///< the arguments that are integers of 4 bytes.
};

/// Finds out to which memory a kernel writes, from its text for another compiler (PTX), lines of
/// which may end in zeros as in ".nv_debug_ptx_txt". Addresses are followed from the parameters
/// through arithmetic; nothing is returned where one comes from elsewhere, as from memory or a
/// function. Takes milliseconds.
[[nodiscard]] std::optional<PtxFacts> read_ptx(std::string_view text, std::string_view kernel);

}  // namespace gpemu::cuda
