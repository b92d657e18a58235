// SPDX-License-Identifier: Apache-2.0
#include "cli/help_text.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/base/text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/wrapped_text.hpp"

#include "cli/similar_word.hpp"

namespace gpemu::tools {
namespace {

/// The column of descriptions, and the narrowest and widest readable page.
constexpr std::size_t kIndent = 28;
constexpr std::size_t kLeastColumns = 60;
constexpr std::size_t kMostColumns = 110;

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
  return !choices.empty() && fmt::format("{}", fmt::join(choices, "|")).size() <= kIndent;
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

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool /*is_positional*/) const override {
    return row(option_usage(*option), option_meaning(*option));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* command) const override {
    return report::wrapped(command->get_description(), 0, columns()) + "\n";
  }

 private:
  static std::size_t columns() {
    return std::clamp(static_cast<std::size_t>(report::terminal().columns), kLeastColumns,
                      kMostColumns);
  }
  static std::string row(const std::string& name, const std::string& meaning) {
    std::string text = "  " + name;
    if (text.size() + 2 > kIndent) {
      text += "\n" + std::string(kIndent, ' ');
    } else {
      text.resize(kIndent, ' ');
    }
    return text + report::wrapped(meaning, kIndent, columns()) + "\n";
  }
};

/// Escapes text so that roff prints it unchanged.
std::string roff(std::string_view text) {
  std::string result;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
    line_begins = c == '\n';
  }
  return result;
}

std::string man_name(std::string full_name) {
  std::ranges::replace(full_name, ' ', '-');
  return full_name;
}

std::string man_options(const CLI::App& command) {
  std::string text;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_group().empty()) continue;
    text +=
        fmt::format(".TP\n.B {}\n{}\n", roff(option_usage(*option)), roff(option_meaning(*option)));
  }
  return text.empty() ? "" : ".SH OPTIONS\n" + text;
}

std::string man_commands(const CLI::App& command, const std::string& full_name) {
  std::string text;
  for (const CLI::App* sub : command.get_subcommands({})) {
    if (sub->get_group().empty()) continue;
    text += fmt::format(".TP\n.BR {} (1)\n{}\n", roff(man_name(full_name + " " + sub->get_name())),
                        roff(sub->get_description()));
  }
  return text.empty() ? "" : ".SH COMMANDS\n" + text;
}

std::string man_page(const CLI::App& command, const std::string& full_name) {
  std::string title = man_name(full_name);
  std::string text =
      fmt::format(".TH {} 1 \"\" \"gpemu {}\" \"gpemu\"\n", roff(title), GPEMU_VERSION);
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(title), roff(command.get_description()));
  text += fmt::format(".SH SYNOPSIS\n.B {}\n", roff(full_name));
  if (!command.get_options().empty()) text += "[OPTIONS]\n";
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) text += roff(option->get_name(true)) + "\n";
  }
  if (!command.get_subcommands({}).empty()) text += "COMMAND\n";
  text += man_commands(command, full_name) + man_options(command);
  if (!command.get_footer().empty()) {
    text += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", roff(command.get_footer()));
  }
  text +=
      ".SH EXIT STATUS\n"
      "0 means success; other values show the kind of failure.\n"
      ".br\n"
      "See docs/reference/exit\\-codes.md.\n"
      ".SH ENVIRONMENT\n"
      "docs/reference/environment.md lists the variables GPEMU_*.\n";
  if (full_name != "gpemu") text += ".SH SEE ALSO\n.BR gpemu (1)\n";
  return text;
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

std::shared_ptr<CLI::FormatterBase> help_formatter() {
  return std::make_shared<HelpFormatter>();
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

Result<std::string> help_of(Command app, const std::vector<std::string>& words) {
  const CLI::App* command = &app.app();
  std::string name = "gpemu";
  for (const std::string& word : words) {
    const CLI::App* sub = find_subcommand(*command, word);
    if (sub == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "{}", no_subcommand(*command, name, word));
    }
    command = sub;
    name += " " + command->get_name();
  }
  return command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
}

std::vector<ManPage> man_pages(Command command, const std::string& full_name) {
  const CLI::App& app = command.app();
  std::vector<ManPage> pages = {
      {.file = man_name(full_name) + ".1", .text = man_page(app, full_name)}};
  for (CLI::App* sub : command.app().get_subcommands({})) {
    if (sub->get_group().empty()) continue;
    std::vector<ManPage> below = man_pages(Command(*sub), full_name + " " + sub->get_name());
    std::ranges::move(below, std::back_inserter(pages));
  }
  return pages;
}

}  // namespace gpemu::tools
