// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

/// A setting of a device that nvidia-smi changes.
struct SmiSetting {
  std::string_view option;  ///< as it was first named, e.g. "-c".
  std::string value;
};

/// What the words after `nvidia-smi` ask for.
struct NvidiaSmiWords {
  std::string command;            ///< e.g. "dmon"; "" for none.
  std::vector<std::string> rest;  ///< the words of the command.
  std::vector<std::string> ids;   ///< -i: indices, UUIDs or PCI addresses.
  bool help = false, version = false, list = false, query = false, xml = false;
  bool error_on_warning = false;
  std::vector<std::string> displays;  ///< -d.
  std::optional<std::string> query_gpu, query_apps, format, file;
  std::string_view help_of;  ///< "--help-query-gpu" or "--help-query-compute-apps".
  double loop_s = 0;         ///< 0: once.
  std::vector<SmiSetting> settings;
};

/// Reads the words as nvidia-smi does: options have one dash or two, and their values follow after
/// "=" or as the next word.
///
/// Errors: kUnsupported for an option that nvidia-smi has and gpemu has not; kInvalidArgument.
[[nodiscard]] Result<NvidiaSmiWords> read_nvidia_smi_words(std::span<const std::string> words);

/// An option of a subcommand of nvidia-smi, e.g. of dmon.
struct SmiOption {
  std::string_view brief, full;  ///< e.g. "-d", "--delay".
  bool takes_value = true;
};
/// The options that were given, by their brief names, with their values.
using SmiOptionValues = std::vector<std::pair<std::string_view, std::string>>;

/// Reads the words of a subcommand. Errors: kInvalidArgument.
[[nodiscard]] Result<SmiOptionValues> read_smi_options(std::span<const SmiOption> known,
                                                       std::span<const std::string> words);

/// Returns the value that an option was given last.
[[nodiscard]] std::optional<std::string> value_of(const SmiOptionValues& values,
                                                  std::string_view brief);

/// Returns the parts of a text between commas.
[[nodiscard]] std::vector<std::string> between_commas(std::string_view text);

/// Reads a positive number that is all of a text. Errors: kInvalidArgument, with the option's name.
[[nodiscard]] Result<double> read_positive(std::string_view option, const std::string& text);

}  // namespace gpemu::tools
