// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "gpemu/base/text.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/help_text.hpp"
#include "cli/similar_word.hpp"

namespace gpemu::tools {
namespace {

int report(const Error& error) {
  report::print_error("gpemu: {}\n", printable_message(error.message));
  return exit_code(error.code);
}

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

/// Returns what is wrong with words that no option or argument took; empty if there are none.
std::string fault_of_rest(const CLI::App& command, std::string_view name) {
  std::vector<std::string> rest = command.remaining();
  std::erase(rest, "--");
  if (rest.empty()) return {};
  for (const std::string& word : rest) {
    if (word.size() < 2 || !word.starts_with('-')) continue;
    const std::string option = word.substr(0, word.find('='));
    return fmt::format("there is no option '{}'{}; see `{} --help`", printable(option),
                       suggestion(option, option_names(command)), name);
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

/// Reports what is wrong with the command line, and how to get help.
int report_usage(const CLI::App& app, const CLI::ParseError& error) {
  std::string name = "gpemu";
  const CLI::App* innermost = &app;
  while (!innermost->get_subcommands().empty()) {
    innermost = innermost->get_subcommands().front();
    name += " " + innermost->get_name();
  }
  return report({ErrorCode::kInvalidArgument, fault_of(*innermost, name, error)});
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

int run(int argc, char** argv, const World& world) {
  CLI::App app("gpemu emulates GPUs for work on deep-learning systems", "gpemu");
  Command command(app);
  add_commands(command, world);
  try {
    const Result<int> code =
        command.run(without_dash_of_json(app, {argv + std::min(argc, 1), argv + argc}));
    return code ? *code : report(code.error());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return report_usage(app, error);
    app.exit(error);  // Help was asked for.
  }
  return 0;
}

}  // namespace

void add_commands(Command app, const World& world) {
  app.require_subcommand();
  app.app().formatter(help_formatter());
  app.notes(
      "Examples:\n"
      "  gpemu data make photos\n"
      "  gpemu train --gpu V100-PCIE-32GB --model resnet18 --data photos\n"
      "  gpemu run --gpu A100-SXM4-40GB -- python train.py\n"
      "  gpemu help train");
  add_analyze_command(app, world);
  add_completion_command(app, world);
  add_cost_command(app, world);
  add_data_command(app, world);
  add_help_command(app);
  add_node_command(app, world);
  add_predict_command(app, world);
  add_profile_command(app, world);
  add_run_command(app, world);
  add_smi_command(app, world);
  add_train_command(app, world);
  add_version_command(app);
  refuse_useless_values(app.app());
}

int run_command_line(int argc, char** argv, const World& world) {
  report::fill_standard_descriptors();
  int code = 0;
  try {
    code = run(argc, argv, world);
  } catch (const std::exception& error) {
    code = report({ErrorCode::kInternal, fmt::format("internal error: {}", error.what())});
  }
  // A reported fault takes precedence over output that it cut short.
  const Result<void> written = report::finish_output();
  return code == 0 && !written ? report(written.error()) : code;
}

}  // namespace gpemu::tools
