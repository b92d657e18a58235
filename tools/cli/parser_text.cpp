// SPDX-License-Identifier: Apache-2.0
#include "cli/parser_text.hpp"

#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/base/text.hpp"

#include "cli/similar_word.hpp"

namespace gpemu::tools {
namespace {

/// The longest list of choices that fits beside an option's name.
constexpr std::size_t kMostChoices = 28;

/// Options whose value is a file that is written.
constexpr std::array<std::string_view, 6> kFiles = {"json", "ops",    "output",
                                                    "plot", "report", "trace"};

/// Splits the type of an option's values as CLI11 writes it, "INT:INT in [1 - 1024]", into the part
/// before the colon and the part that its check adds.
std::pair<std::string, std::string> type_and_check(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

/// Returns whether there are choices that fit beside the option's name.
bool are_short(const std::vector<std::string>& choices) {
  return !choices.empty() && fmt::format("{}", fmt::join(choices, "|")).size() <= kMostChoices;
}

std::string value_name(const CLI::Option& option) {
  const std::vector<std::string> choices = option_choices(option);
  if (are_short(choices)) return fmt::format("{}", fmt::join(choices, "|"));
  std::string type = type_and_check(option).first;
  if (type == "INT" || type == "UINT" || type == "FLOAT") return "NUMBER";
  if (type != "TEXT" || option.get_lnames().empty()) return type;
  std::string name = option.get_lnames().front();
  if (std::ranges::find(kFiles, name) != kFiles.end()) return "FILE";
  if (name.starts_with("query-")) return "FIELDS";
  if (name == "data") return "FOLDER";
  name = name.substr(name.rfind('-') + 1);
  std::ranges::transform(name, name.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  return name;
}

}  // namespace

std::vector<std::string> option_choices(const CLI::Option& option) {
  const std::string check = type_and_check(option).second;
  const std::size_t begin = check.find('{');
  const std::size_t end = check.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  std::vector<std::string> choices;
  std::string_view rest = std::string_view(check).substr(begin + 1, end - begin - 1);
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    choices.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return choices;
}

std::string option_range(const CLI::Option& option) {
  const std::string check = type_and_check(option).second;
  if (check.contains("POSITIVE")) return "greater than 0";
  if (check.contains("NONNEGATIVE")) return "0 or greater";
  const std::size_t begin = check.find(" in [");
  const std::size_t middle = check.find(" - ", begin);
  const std::size_t end = check.rfind(']');
  if (begin == std::string::npos || middle == std::string::npos || end == std::string::npos) {
    return "";
  }
  return fmt::format("{} to {}", check.substr(begin + 5, middle - begin - 5),
                     check.substr(middle + 3, end - middle - 3));
}

std::string option_usage(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(true);
  std::string text;
  for (const std::string& name : option.get_snames()) text += (text.empty() ? "-" : ",-") + name;
  for (const std::string& name : option.get_lnames()) text += (text.empty() ? "--" : ",--") + name;
  if (option.get_items_expected_max() > 0) text += " " + value_name(option);
  return text;
}

std::string option_meaning(const CLI::Option& option) {
  std::vector<std::string> details;
  const std::string& description = option.get_description();
  if (option.get_required() && !option.get_positional()) details.emplace_back("required");
  if (const std::string range = option_range(option); !range.empty()) details.push_back(range);
  if (const auto choices = option_choices(option); !choices.empty() && !are_short(choices)) {
    details.push_back(fmt::format("one of {}", fmt::join(choices, ", ")));
  }
  const std::string preset = option.get_default_str();
  if (!preset.empty() && !description.contains("default")) details.push_back("default: " + preset);
  for (const CLI::Option* other : option.get_needs()) {
    details.push_back("only with " + other->get_name());
  }
  for (const CLI::Option* other : option.get_excludes()) {
    details.push_back("not with " + other->get_name());
  }
  if (details.empty()) return description;
  return fmt::format("{} ({})", description, fmt::join(details, "; "));
}

const CLI::App* find_subcommand(const CLI::App& command, const std::string& name) {
  for (const CLI::App* sub : command.get_subcommands({})) {
    if (sub->check_name(name)) return sub;
  }
  return nullptr;
}

std::string no_subcommand(const CLI::App& command, std::string_view full_name,
                          const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
  return fmt::format("there is no command '{}'{}; `{} --help` lists them",
                     printable(fmt::format("{} {}", full_name, word)), suggestion(word, known),
                     full_name);
}

}  // namespace gpemu::tools
