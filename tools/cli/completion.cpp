// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.hpp"

#include <algorithm>

#include <CLI/CLI.hpp>

#include "cli/app_of.hpp"
#include "cli/parser_text.hpp"

namespace gpemu::tools {
namespace {

/// Returns the option that a word names, or null.
const CLI::Option* option_of(const CLI::App& command, const std::string& word) {
  if (!word.starts_with('-')) return nullptr;
  return command.get_option_no_throw(word.substr(0, word.find('=')));
}

/// Adds the words that begin with the typed text.
class Matches {
 public:
  explicit Matches(std::string typed) : typed_(std::move(typed)) {}

  void add(const std::string& word, const std::string& meaning = "") {
    if (word.starts_with(typed_)) found_.push_back({word, meaning});
  }
  void add(const std::vector<std::string>& words) {
    for (const std::string& word : words) add(word);
  }
  [[nodiscard]] std::vector<Candidate> found() && { return std::move(found_); }

 private:
  std::string typed_;
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Candidate> candidates(Command app, const std::vector<std::string>& words,
                                  const ValuesOf& values_of) {
  if (words.empty()) return {};
  const CLI::App* command = &app_of(app);
  const CLI::Option* pending = nullptr;  // Its value comes next.
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] == "--") return {};  // A program with its own arguments.
    if (pending != nullptr) {
      pending = nullptr;
    } else if (const CLI::Option* option = option_of(*command, words[i]); option != nullptr) {
      const bool has_value = option->get_items_expected_max() > 0 && !words[i].contains('=');
      pending = has_value ? option : nullptr;
    } else if (const CLI::App* sub = find_subcommand(*command, words[i]); sub != nullptr) {
      command = sub;
    }
  }
  Matches matches(words.back());
  if (pending != nullptr) {
    matches.add(option_choices(*pending));
    matches.add(values_of(pending->get_name()));
    return std::move(matches).found();
  }
  if (words.back().starts_with('-')) {
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_group().empty()) continue;
      for (const std::string& name : option->get_lnames()) {
        matches.add("--" + name, option->get_description());
      }
    }
    return std::move(matches).found();
  }
  for (const CLI::App* sub : command->get_subcommands({})) {
    if (!sub->get_group().empty()) matches.add(sub->get_name(), sub->get_description());
  }
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_positional()) matches.add(values_of(option->get_name(true)));
  }
  return std::move(matches).found();
}

}  // namespace gpemu::tools
