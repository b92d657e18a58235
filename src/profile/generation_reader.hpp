// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "gpemu/profile/generation.hpp"

#include "sourced_file.hpp"

namespace gpemu::profile {

/// The text of catalog/generations.toml.
[[nodiscard]] std::string_view generations_text();

/// Some facts, and where they come from.
struct SourcedFacts {
  GenerationFacts facts;
  std::map<std::string, std::string, std::less<>> citations;  ///< by key: those that are given.

  /// Takes the facts that `other` has.
  void add(const SourcedFacts& other);
};

/// The facts of all capabilities that a file names, "8" for all that begin with it.
using FactsByCapability = std::map<std::string, SourcedFacts, std::less<>>;

/// Reads a file such as catalog/generations.toml.
///
/// Errors: kCorruptData for the first fault, as "origin:line: field: what is wrong".
[[nodiscard]] Result<FactsByCapability> parse_generations(std::string_view toml,
                                                          std::string_view origin);

/// The compute capability of a GPU, and whether the GPU has NVLink.
struct CapabilityOfGpu {
  int major = 0;
  int minor = 0;
  bool nvlink = false;
};

/// Returns the facts of a GPU: those of its capability, and over them those of the table
/// `generation` in its file `root`. Notes where they come from in `file`.
///
/// Errors: kCorruptData if one is wrong, or missing.
[[nodiscard]] Result<GenerationFacts> read_generation(const toml::table& root, SourcedFile& file,
                                                      const CapabilityOfGpu& gpu);

}  // namespace gpemu::profile
