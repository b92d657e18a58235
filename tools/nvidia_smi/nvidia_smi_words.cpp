// SPDX-License-Identifier: Apache-2.0
#include "nvidia_smi/nvidia_smi_words.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"

namespace gpemu::tools {
namespace {

/// Without a value, -l waits so long. Source: nvidia-smi's manual page.
constexpr double kDefaultLoopSeconds = 5;

enum class Takes : std::uint8_t { kNothing, kValue, kPerhapsValue };

/// What an option does to the words.
enum class Effect : std::uint8_t {
  kHelp,
  kVersion,
  kList,
  kQuery,
  kXml,
  kErrorOnWarning,
  kId,
  kDisplay,
  kQueryGpu,
  kQueryApps,
  kFormat,
  kFile,
  kLoop,
  kLoopMs,
  kHelpOf,
  kSetting,
  kUnsupported,
};

struct WordOption {
  std::string_view brief, full;
  Takes takes;
  Effect effect;
};

// Source: nvidia-smi -h, 595.80.
constexpr WordOption kWordOptions[] = {
    {"-h", "--help", Takes::kNothing, Effect::kHelp},
    {"--version", "--version", Takes::kNothing, Effect::kVersion},
    {"-L", "--list-gpus", Takes::kNothing, Effect::kList},
    {"-q", "--query", Takes::kNothing, Effect::kQuery},
    {"-a", "-a", Takes::kNothing, Effect::kQuery},
    {"-x", "--xml-format", Takes::kNothing, Effect::kXml},
    {"-eow", "--error-on-warning", Takes::kNothing, Effect::kErrorOnWarning},
    {"-i", "--id", Takes::kValue, Effect::kId},
    {"-d", "--display", Takes::kValue, Effect::kDisplay},
    {"--query-gpu", "--query-gpu", Takes::kValue, Effect::kQueryGpu},
    {"--query-compute-apps", "--query-compute-apps", Takes::kValue, Effect::kQueryApps},
    {"--format", "--format", Takes::kValue, Effect::kFormat},
    {"-f", "--filename", Takes::kValue, Effect::kFile},
    {"-l", "--loop", Takes::kPerhapsValue, Effect::kLoop},
    {"-lms", "--loop-ms", Takes::kValue, Effect::kLoopMs},
    {"--help-query-gpu", "--help-query-gpu", Takes::kNothing, Effect::kHelpOf},
    {"--help-query-compute-apps", "--help-query-compute-apps", Takes::kNothing, Effect::kHelpOf},
    {"-c", "--compute-mode", Takes::kValue, Effect::kSetting},
    {"-mig", "--multi-instance-gpu", Takes::kValue, Effect::kSetting},
    {"-pm", "--persistence-mode", Takes::kValue, Effect::kSetting},
    {"-pl", "--power-limit", Takes::kValue, Effect::kSetting},
    {"-e", "--ecc-config", Takes::kValue, Effect::kSetting},
    {"-p", "--reset-ecc-errors", Takes::kValue, Effect::kSetting},
    {"--gom", "--gom", Takes::kValue, Effect::kSetting},
    {"-r", "--gpu-reset", Takes::kPerhapsValue, Effect::kSetting},
    {"-lgc", "--lock-gpu-clocks", Takes::kValue, Effect::kSetting},
    {"-rgc", "--reset-gpu-clocks", Takes::kNothing, Effect::kSetting},
    {"-lmc", "--lock-memory-clocks", Takes::kValue, Effect::kSetting},
    {"-rmc", "--reset-memory-clocks", Takes::kNothing, Effect::kSetting},
    {"-ac", "--applications-clocks", Takes::kValue, Effect::kSetting},
    {"-rac", "--reset-applications-clocks", Takes::kNothing, Effect::kSetting},
    {"-cc", "--cuda-clocks", Takes::kValue, Effect::kSetting},
    {"-am", "--accounting-mode", Takes::kValue, Effect::kSetting},
    {"-gtt", "--gpu-target-temp", Takes::kValue, Effect::kSetting},
    {"-B", "--list-excluded-gpus", Takes::kNothing, Effect::kUnsupported},
    {"-col", "--columns", Takes::kNothing, Effect::kUnsupported},
    {"-u", "--unit", Takes::kNothing, Effect::kUnsupported},
    {"--dtd", "--dtd", Takes::kNothing, Effect::kUnsupported},
    {"--query-supported-clocks", "--query-supported-clocks", Takes::kValue, Effect::kUnsupported},
    {"--query-accounted-apps", "--query-accounted-apps", Takes::kValue, Effect::kUnsupported},
    {"--query-retired-pages", "--query-retired-pages", Takes::kValue, Effect::kUnsupported},
    {"--query-remapped-rows", "--query-remapped-rows", Takes::kValue, Effect::kUnsupported},
    {"--help-query-supported-clocks", "--help-query-supported-clocks", Takes::kNothing,
     Effect::kUnsupported},
    {"--help-query-accounted-apps", "--help-query-accounted-apps", Takes::kNothing,
     Effect::kUnsupported},
    {"--help-query-retired-pages", "--help-query-retired-pages", Takes::kNothing,
     Effect::kUnsupported},
    {"--help-query-remapped-rows", "--help-query-remapped-rows", Takes::kNothing,
     Effect::kUnsupported},
    {"-vm", "--virt-mode", Takes::kValue, Effect::kUnsupported},
    {"-lmcd", "--lock-memory-clocks-deferred", Takes::kValue, Effect::kUnsupported},
    {"-rmcd", "--reset-memory-clocks-deferred", Takes::kNothing, Effect::kUnsupported},
    {"-caa", "--clear-accounted-apps", Takes::kNothing, Effect::kUnsupported},
    {"-den", "--dram-encryption", Takes::kValue, Effect::kUnsupported},
    {"-t", "--toggle-led", Takes::kValue, Effect::kUnsupported},
    {"--auto-boost-default", "--auto-boost-default", Takes::kValue, Effect::kUnsupported},
    {"--auto-boost-permission", "--auto-boost-permission", Takes::kValue, Effect::kUnsupported},
    {"--set-hostname", "--set-hostname", Takes::kValue, Effect::kUnsupported},
    {"--get-hostname", "--get-hostname", Takes::kNothing, Effect::kUnsupported},
    {"--debug", "--debug", Takes::kValue, Effect::kUnsupported},
};

/// A word as an option: its name, and its value if the word has one after "=".
struct WordParts {
  std::string_view name;
  std::optional<std::string> value;
};

WordParts parts_of(std::string_view word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string_view::npos) return {.name = word, .value = {}};
  return {.name = word.substr(0, equals), .value = std::string(word.substr(equals + 1))};
}

/// Takes the value of an option: after its "=", or the next word, which is then skipped.
Result<std::optional<std::string>> take_value(const WordParts& parts, Takes takes,
                                              std::span<const std::string> words, std::size_t& i) {
  if (takes == Takes::kNothing) {
    if (!parts.value) return std::nullopt;
    return fail(ErrorCode::kInvalidArgument, "{} takes no value", printable(parts.name));
  }
  if (parts.value) return parts.value;
  const bool has_next = i + 1 < words.size() && !words[i + 1].starts_with('-');
  if (has_next) return words[++i];
  if (takes == Takes::kPerhapsValue) return std::nullopt;
  return fail(ErrorCode::kInvalidArgument, "{}: its value is missing", printable(parts.name));
}

Result<void> apply(const WordOption& option, const std::string& value, NvidiaSmiWords& read) {
  switch (option.effect) {
    case Effect::kHelp:
      read.help = true;
      break;
    case Effect::kVersion:
      read.version = true;
      break;
    case Effect::kList:
      read.list = true;
      break;
    case Effect::kQuery:
      read.query = true;
      break;
    case Effect::kXml:
      read.xml = true;
      break;
    case Effect::kErrorOnWarning:
      read.error_on_warning = true;
      break;
    case Effect::kId:
      read.ids = between_commas(value);
      break;
    case Effect::kDisplay:
      read.displays = between_commas(value);
      break;
    case Effect::kQueryGpu:
      read.query_gpu = value;
      break;
    case Effect::kQueryApps:
      read.query_apps = value;
      break;
    case Effect::kFormat:
      read.format = value;
      break;
    case Effect::kFile:
      read.file = value;
      break;
    case Effect::kLoop:
      read.loop_s = kDefaultLoopSeconds;
      if (!value.empty()) {
        GPEMU_ASSIGN(read.loop_s, read_positive(option.brief, value));
      }
      break;
    case Effect::kLoopMs: {
      GPEMU_ASSIGN(const double milliseconds, read_positive(option.brief, value));
      read.loop_s = milliseconds / 1000;
      break;
    }
    case Effect::kHelpOf:
      read.help_of = option.full;
      break;
    case Effect::kSetting:
      read.settings.push_back({.option = option.brief, .value = value});
      break;
    case Effect::kUnsupported:
      return fail(ErrorCode::kUnsupported, "{} is not supported", option.full);
  }
  return {};
}

}  // namespace

std::vector<std::string> between_commas(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

Result<double> read_positive(std::string_view option, const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && number > 0 && number < 1e9) return number;
  return fail(ErrorCode::kInvalidArgument, "{} '{}': give a number greater than 0", option,
              printable(text));
}

Result<NvidiaSmiWords> read_nvidia_smi_words(std::span<const std::string> words) {
  NvidiaSmiWords read;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with('-')) {
      read.command = words[i];
      read.rest.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      return read;
    }
    const WordParts parts = parts_of(words[i]);
    const auto* const option = std::ranges::find_if(kWordOptions, [&](const WordOption& known) {
      return known.brief == parts.name || known.full == parts.name;
    });
    if (option == std::end(kWordOptions)) {
      return fail(ErrorCode::kInvalidArgument, "there is no option '{}'", printable(parts.name));
    }
    GPEMU_ASSIGN(const std::optional<std::string> value,
                 take_value(parts, option->takes, words, i));
    GPEMU_TRY(apply(*option, value.value_or(""), read));
  }
  return read;
}

Result<SmiOptionValues> read_smi_options(std::span<const SmiOption> known,
                                         std::span<const std::string> words) {
  SmiOptionValues values;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const WordParts parts = parts_of(words[i]);
    const auto option = std::ranges::find_if(known, [&](const SmiOption& one) {
      return one.brief == parts.name || one.full == parts.name;
    });
    if (option == known.end()) {
      return fail(ErrorCode::kInvalidArgument, "there is no option '{}'", printable(parts.name));
    }
    GPEMU_ASSIGN(
        const std::optional<std::string> value,
        take_value(parts, option->takes_value ? Takes::kValue : Takes::kNothing, words, i));
    values.emplace_back(option->brief, value.value_or(""));
  }
  return values;
}

std::optional<std::string> value_of(const SmiOptionValues& values, std::string_view brief) {
  std::optional<std::string> found;
  for (const auto& [name, value] : values) {
    if (name == brief) found = value;
  }
  return found;
}

}  // namespace gpemu::tools
