// SPDX-License-Identifier: Apache-2.0
#include "cli/command.hpp"

#include <utility>

#include <CLI/CLI.hpp>

#include "cli/whole_word.hpp"

namespace gpemu::tools {
namespace {

/// Takes the mark from words in brackets.
CLI::Option& with_whole_words(CLI::Option& option) {
  option.transform([](std::string word) {
    if (word.starts_with(kWhole)) word.erase(0, 1);
    return word;
  });
  return option;
}

}  // namespace

Option Option::required() {
  option_->required();
  return *this;
}

Option Option::range(std::int64_t least, std::int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option Option::real_range(double least, double most) {
  option_->check(CLI::Range(least, most));
  return *this;
}

Option Option::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

Option Option::non_negative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Option Option::one_of(std::span<const std::string_view> choices) {
  option_->check(CLI::IsMember(std::vector<std::string>(choices.begin(), choices.end())));
  return *this;
}

Option Option::one_of(std::initializer_list<std::string_view> choices) {
  return one_of(std::span(choices.begin(), choices.size()));
}

Option Option::separated_by(char separator) {
  option_->delimiter(separator);
  return *this;
}

Option Option::one_word_each() {
  option_->allow_extra_args(false);
  return *this;
}

Option Option::placeholder(const std::string& word) {
  option_->type_name(word);
  return *this;
}

Option Option::show_default() {
  option_->capture_default_str();
  return *this;
}

Option Option::excludes(const std::string& other) {
  option_->excludes(other);
  return *this;
}

Option Option::needs(const std::string& other) {
  option_->needs(other);
  return *this;
}

Command Command::subcommand(const std::string& name, const std::string& description) {
  return {*app_->add_subcommand(name, description), *actions_};
}

Command Command::alias(const std::string& name) {
  app_->alias(name);
  return *this;
}

Command Command::hidden() {
  app_->group("");
  return *this;
}

void Command::require_subcommand() {
  app_->require_subcommand(1);
}

void Command::notes(const std::string& text) {
  app_->footer(text);
}

Option Command::option(const std::string& name, std::string& value, const std::string& meaning) {
  return Option(with_whole_words(*app_->add_option(name, value, meaning)));
}

Option Command::option(const std::string& name, std::filesystem::path& value,
                       const std::string& meaning) {
  return Option(with_whole_words(*app_->add_option(name, value, meaning)));
}

Option Command::option(const std::string& name, int& value, const std::string& meaning) {
  return Option(*app_->add_option(name, value, meaning));
}

Option Command::option(const std::string& name, std::uint64_t& value, const std::string& meaning) {
  return Option(*app_->add_option(name, value, meaning));
}

Option Command::option(const std::string& name, double& value, const std::string& meaning) {
  return Option(*app_->add_option(name, value, meaning));
}

Option Command::option(const std::string& name, std::optional<std::uint32_t>& value,
                       const std::string& meaning) {
  return Option(*app_->add_option(name, value, meaning));
}

Option Command::option(const std::string& name, std::optional<double>& value,
                       const std::string& meaning) {
  return Option(*app_->add_option(name, value, meaning));
}

Option Command::option(const std::string& name, std::optional<std::int64_t>& value,
                       const std::string& meaning) {
  return Option(*app_->add_option(name, value, meaning));
}

Option Command::option(const std::string& name, std::vector<std::string>& values,
                       const std::string& meaning) {
  return Option(with_whole_words(*app_->add_option(name, values, meaning)));
}

Option Command::option(const std::string& name, std::vector<int>& values,
                       const std::string& meaning) {
  return Option(*app_->add_option(name, values, meaning));
}

Option Command::option(const std::string& name, std::vector<double>& values,
                       const std::string& meaning) {
  return Option(*app_->add_option(name, values, meaning));
}

Option Command::flag(const std::string& name, bool& value, const std::string& meaning) {
  return Option(*app_->add_flag(name, value, meaning));
}

void Command::version_flag(const std::string& name, const std::string& version,
                           const std::string& meaning) {
  app_->set_version_flag(name, version, meaning);
}

void Command::group(const std::string& title) {
  app_->option_defaults()->group(title);
}

void Command::last_value_counts() {
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void Command::arguments_at_end() {
  app_->positionals_at_end();
}

void Command::options_exclude_subcommands() {
  for (CLI::App* sub : app_->get_subcommands({})) {
    for (CLI::Option* option : app_->get_options()) sub->excludes(option);
  }
}

bool Command::given(const std::string& option) const {
  return app_->count(option) > 0;
}

void Command::on_run(std::function<Result<void>()> action) {
  on_run([action = std::move(action)]() -> Result<int> {
    GPEMU_TRY(action());
    return 0;
  });
}

void Command::on_run(std::function<Result<int>()> action) {
  (*actions_)[app_] = std::move(action);
}

}  // namespace gpemu::tools
