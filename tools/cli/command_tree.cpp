// SPDX-License-Identifier: Apache-2.0
#include "cli/command_tree.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "gpemu/base/text.hpp"

#include "cli/app_of.hpp"
#include "cli/help_text.hpp"
#include "cli/parser_text.hpp"
#include "cli/similar_word.hpp"
#include "cli/whole_word.hpp"

namespace gpemu::tools {
namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// Returns which values an option takes, for the message about a wrong one.
std::string wanted(const CLI::Option& option) {
  const std::vector<std::string> choices = option_choices(option);
  if (!choices.empty()) return fmt::format("give {}", fmt::join(choices, " or "));
  const std::string range = option_range(option);
  const bool is_whole = option.get_type_name().contains("INT");
  return fmt::format("give a {}number{}{}", is_whole ? "whole " : "", range.empty() ? "" : ", ",
                     range);
}

/// Rewords CLI11's messages about an option's value: "--batch: Value x not in range ...", "Could
/// not convert: --batch = x", "--clock: x not in {real,virtual}", "--gpu: 1 required TEXT missing".
std::string value_fault(const CLI::App& command, const CLI::ParseError& error) {
  std::string text = error.what();
  const auto option_in = [&](std::size_t begin, std::size_t end) {
    return command.get_option_no_throw(text.substr(begin, end - begin));
  };
  const auto between = [&text](std::size_t begin, std::string_view end) {
    return text.substr(begin, text.rfind(end) - begin);
  };
  constexpr std::string_view kConvert = "Could not convert: ", kValue = "Value ";
  if (text.starts_with(kConvert)) {
    const std::size_t equals = text.find(" = ");
    const CLI::Option* option = option_in(kConvert.size(), equals);
    if (option != nullptr && equals != std::string::npos) {
      return fmt::format("{} '{}': {}", option->get_name(), text.substr(equals + 3),
                         wanted(*option));
    }
  }
  const std::size_t colon = text.find(": ");
  const CLI::Option* option = colon == std::string::npos ? nullptr : option_in(0, colon);
  if (option == nullptr) return text;
  const std::size_t detail = colon + 2;
  if (text.ends_with(" missing")) return option->get_name() + ": its value is missing";
  if (text.substr(detail).starts_with(kValue) && text.contains(" not in range ")) {
    return fmt::format("{} '{}': {}", option->get_name(),
                       between(detail + kValue.size(), " not in range "), wanted(*option));
  }
  if (text.contains(" not in {")) {
    return fmt::format("{} '{}': {}", option->get_name(), between(detail, " not in {"),
                       wanted(*option));
  }
  return text;
}

/// Returns the forms of the same command, as `gpemu train files` is one, that have an option or an
/// argument of this name, or are called so.
std::vector<std::string> forms_with(const CLI::App& command, std::string_view name,
                                    const std::string& option) {
  const bool is_form = command.get_subcommands({}).empty();
  const CLI::App* const all = is_form ? command.get_parent() : &command;
  if (all == nullptr || all->get_parent() == nullptr) return {};
  std::vector<std::string> forms;
  for (const CLI::App* form : all->get_subcommands({})) {
    if (form->get_group().empty()) continue;
    const bool has = form->get_option_no_throw(option) != nullptr ||
                     form->get_option_no_throw(option.substr(2)) != nullptr;
    if (!has && !option.ends_with("-" + form->get_name())) continue;
    forms.push_back(fmt::format("`{} {}`", name.substr(0, is_form ? name.rfind(' ') : name.size()),
                                form->get_name()));
  }
  return forms;
}

/// Returns what is wrong with an option that the command does not have.
std::string fault_of_option(const CLI::App& command, std::string_view name,
                            const std::string& option) {
  const std::string shown = printable(option);
  if (option.starts_with("--")) {
    if (command.get_option_no_throw(option.substr(2)) != nullptr) {
      return fmt::format("there is no option '{}': write its value alone; see `{} --help`", shown,
                         name);
    }
    const std::vector<std::string> forms = forms_with(command, name, option);
    if (!forms.empty()) {
      return fmt::format("`{}` has no option '{}'; that is for {}", name, shown,
                         fmt::join(forms, ", "));
    }
  }
  return fmt::format("there is no option '{}'{}; see `{} --help`", shown,
                     suggestion(option, option_names(command)), name);
}

/// Returns what is wrong with words that no option or argument took; empty if there are none.
std::string fault_of_rest(const CLI::App& command, std::string_view name) {
  std::vector<std::string> rest = command.remaining();
  std::erase(rest, "--");
  for (std::string& word : rest) {
    if (word.starts_with(kWhole)) word.erase(0, 1);
  }
  if (rest.empty()) return {};
  for (const std::string& word : rest) {
    if (word.size() < 2 || !word.starts_with('-')) continue;
    return fault_of_option(command, name, word.substr(0, word.find('=')));
  }
  if (command.get_subcommands({}).empty()) {
    return fmt::format("unexpected argument '{}'; see `{} --help`", printable(rest.front()), name);
  }
  return no_subcommand(command, name, rest.front());
}

/// Returns what is wrong with the command line that ended in `command`, whose full name is `name`.
std::string fault_of(const CLI::App& command, std::string_view name, const CLI::ParseError& error) {
  // If something is missing, a leftover word is the cause.
  const bool is_missing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (is_missing || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    std::string fault = fault_of_rest(command, name);
    if (!fault.empty()) return fault;
  }
  if (is_missing && std::string_view(error.what()).starts_with("A subcommand")) {
    return fmt::format("which command? `{} --help` lists them", name);
  }
  return fmt::format("{}; see `{} --help`", printable_message(value_fault(command, error)), name);
}

/// Returns the innermost command that the words named, and its full name.
std::pair<const CLI::App*, std::string> named_command(const CLI::App& app) {
  std::pair<const CLI::App*, std::string> named(&app, app.get_name());
  while (!named.first->get_subcommands().empty()) {
    named.first = named.first->get_subcommands().front();
    named.second += " " + named.first->get_name();
  }
  return named;
}

/// Removes the "-" after a --json that is a flag, so that `--json -` prints JSON with all commands,
/// whether their --json is a flag or takes a file.
std::vector<std::string> without_dash_of_json(const CLI::App& app, std::vector<std::string> words) {
  const CLI::App* command = &app;
  for (std::size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    if (const CLI::App* sub = find_subcommand(*command, words[i])) command = sub;
    if (words[i] != "--json" || i + 1 == words.size() || words[i + 1] != "-") continue;
    const CLI::Option* json = command->get_option_no_throw("--json");
    if (json != nullptr && json->get_expected_max() == 0) {
      words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  return words;
}

/// Makes `gpemu mig` accept the options of nvidia-smi: those of one dash and several letters get a
/// second dash, and -cci without a value gets the value "default".
std::vector<std::string> with_long_options(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty() || words.front() != "mig") return words;
  const CLI::App* const mig = find_subcommand(app, "mig");
  for (std::size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    const std::string name = "-" + words[i].substr(0, words[i].find('='));
    if (words[i].size() > 2 && words[i].starts_with('-') && !words[i].starts_with("--") &&
        mig->get_option_no_throw(name) != nullptr) {
      words[i].insert(0, "-");
    }
    const bool is_last = i + 1 == words.size() || words[i + 1].starts_with('-');
    if ((words[i] == "--cci" || words[i] == "--create-compute-instance") && is_last) {
      words[i] += "=default";
    }
  }
  return words;
}

/// Makes every option refuse "", which scripts pass if a variable is not set, and options for
/// numbers refuse "nan", which comparisons with limits do not catch.
void refuse_useless_values(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_items_expected_max() == 0) continue;
    const bool is_number = option->get_type_name().starts_with("FLOAT");
    option->check([is_number](const std::string& value) {
      if (value.empty()) return std::string("its value is empty");
      const bool is_nan = is_number && std::isnan(std::strtod(value.c_str(), nullptr));
      return is_nan ? fmt::format("Value {} not in range of numbers", value)
                    : std::string();  // See value_fault.
    });
  }
  for (CLI::App* sub : command.get_subcommands({})) refuse_useless_values(*sub);
}

}  // namespace

CLI::App& app_of(const Command& command) {
  return *command.app_;
}

CommandTree::CommandTree(const std::string& description, const std::string& name, int columns)
    : app_(std::make_unique<CLI::App>(description, name)) {
  format_help(root(), columns);
}

CommandTree::~CommandTree() = default;

Command CommandTree::root() {
  return {*app_, actions_};
}

Result<int> CommandTree::run(std::vector<std::string> words) {
  refuse_useless_values(*app_);
  words = with_long_options(*app_, without_dash_of_json(*app_, std::move(words)));
  for (std::string& word : words) {
    if (word.starts_with('[') && word.ends_with(']')) word.insert(word.begin(), kWhole);
  }
  std::ranges::reverse(words);  // As CLI11 takes them.
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app_->exit(error);  // Help was asked for.
    const auto [command, name] = named_command(*app_);
    return fail(ErrorCode::kInvalidArgument, "{}", fault_of(*command, name, error));
  }
  const auto action = actions_.find(named_command(*app_).first);
  return action == actions_.end() ? 0 : action->second();
}

}  // namespace gpemu::tools
