// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace gpemu::tools {

/// What an engine asks an OCI runtime for, as far as it matters here.
struct RuntimeCall {
  enum class Kind : std::uint8_t { kCreate, kRun, kDelete, kOther };
  Kind kind = Kind::kOther;
  bool detached = false;     ///< of kRun: it returns when the container has started.
  std::string bundle = ".";  ///< a folder.
  std::string container;     ///< its id.
  std::string log;           ///< the file where the engine looks for errors; empty: none.
  bool logs_json = false;    ///< a JSON object a line.
};

/// Reads the arguments of a runtime, in the ways of runc, crun and youki.
[[nodiscard]] RuntimeCall read_runtime_call(std::span<const std::string> words);

}  // namespace gpemu::tools
