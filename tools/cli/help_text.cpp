// SPDX-License-Identifier: Apache-2.0
#include "cli/help_text.hpp"

#include <algorithm>
#include <memory>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "gpemu/report/wrapped_text.hpp"

#include "cli/app_of.hpp"
#include "cli/parser_text.hpp"

namespace gpemu::tools {
namespace {

/// The column of descriptions, and the narrowest and widest readable page.
constexpr std::size_t kIndent = 28;
constexpr std::size_t kLeastColumns = 60;
constexpr std::size_t kMostColumns = 110;

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(int columns)
      : columns_(std::clamp(static_cast<std::size_t>(columns), kLeastColumns, kMostColumns)) {}
  std::string make_option(const CLI::Option* option, bool /*is_positional*/) const override {
    return row(option_usage(*option), option_meaning(*option));
  }
  /// CLI11 puts two empty lines between groups of options.
  std::string make_group(std::string title, bool is_positional,
                         std::vector<const CLI::Option*> options) const override {
    const bool follows_another = !is_positional && title != "Options";
    return CLI::Formatter::make_group(std::move(title), is_positional, std::move(options))
        .substr(follows_another ? 1 : 0);
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return row(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* command) const override {
    return report::wrapped(command->get_description(), 0, columns_) + "\n";
  }

 private:
  [[nodiscard]] std::string row(const std::string& name, const std::string& meaning) const {
    std::string text = "  " + name;
    if (text.size() + 2 > kIndent) {
      text += "\n" + std::string(kIndent, ' ');
    } else {
      text.resize(kIndent, ' ');
    }
    return text + report::wrapped(meaning, kIndent, columns_) + "\n";
  }

  std::size_t columns_;
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

void add_man_pages(const CLI::App& command, const std::string& full_name,
                   std::vector<ManPage>& pages) {
  pages.push_back({.file = man_name(full_name) + ".1", .text = man_page(command, full_name)});
  for (const CLI::App* sub : command.get_subcommands({})) {
    if (sub->get_group().empty()) continue;
    add_man_pages(*sub, full_name + " " + sub->get_name(), pages);
  }
}

}  // namespace

void format_help(Command root, int columns) {
  app_of(root).formatter(std::make_shared<HelpFormatter>(columns));
}

Result<std::string> help_of(Command app, const std::vector<std::string>& words) {
  const CLI::App* command = &app_of(app);
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
  std::vector<ManPage> pages;
  add_man_pages(app_of(command), full_name, pages);
  return pages;
}

}  // namespace gpemu::tools
