// SPDX-License-Identifier: Apache-2.0
#include "cli/former_words.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"
#include "gpemu/report/terminal.hpp"

namespace gpemu::tools {
namespace {

/// An option that chose a form. Where several are given, the first of the table that is given does,
/// and the form refuses the others.
struct FormerOption {
  std::string_view option, form;
  bool has_value;
};
constexpr auto kFormer = std::to_array<FormerOption>({{"--data-service", "service", true},
                                                      {"--host", "host", true},
                                                      {"--synthetic", "synthetic", false},
                                                      {"--data", "files", true}});

/// An option that could be given, but had no effect in these forms: a flag (empty), or an option
/// with this value or any.
struct Useless {
  std::string_view forms, option, value;
};
constexpr std::string_view kAny = "*";
constexpr auto kUseless = std::to_array<Useless>({{"files service synthetic", "--clock", "real"},
                                                  {"host", "--clock", "virtual"},
                                                  {"host service synthetic", "--order", "auto"},
                                                  {"host service synthetic", "--read", "sync"},
                                                  {"service synthetic", "--cache", "page"},
                                                  {"service synthetic", "--peers", "none"},
                                                  {"host synthetic", "--strict-images", ""},
                                                  {"synthetic", "--epochs", kAny},
                                                  {"synthetic", "--workers", kAny},
                                                  {"synthetic", "--prefetch", kAny},
                                                  {"synthetic", "--seed", kAny},
                                                  {"synthetic", "--patience", kAny},
                                                  {"synthetic", "--no-pin-memory", ""}});

std::string_view option_word(std::string_view word) {
  return word.substr(0, word.find('='));
}

/// Takes the option at `at` and its value, if it has one, from the words, and returns the value.
std::optional<std::string> take(std::vector<std::string>& words, std::size_t at, bool has_value) {
  const auto word = words.begin() + static_cast<std::ptrdiff_t>(at);
  const std::size_t equals = word->find('=');
  const bool apart = has_value && equals == std::string::npos;
  if (apart && std::next(word) == words.end()) return std::nullopt;
  std::string value = apart ? *std::next(word) : has_value ? word->substr(equals + 1) : "";
  words.erase(word, word + (apart ? 2 : 1));
  return value;
}

bool is_useless(const std::vector<std::string>& words, std::size_t at, const Useless& useless,
                std::string_view form) {
  if (!useless.forms.contains(form) || option_word(words[at]) != useless.option) return false;
  if (useless.value.empty() || useless.value == kAny) return true;
  return words[at] == fmt::format("{}={}", useless.option, useless.value) ||
         (at + 1 < words.size() && words[at + 1] == useless.value);
}

}  // namespace

std::vector<std::string> without_former_words(std::vector<std::string> words) {
  if (words.size() < 2 || (words[0] != "train" && words[0] != "analyze") ||
      !words[1].starts_with("-")) {
    return words;
  }
  const auto* const former = std::ranges::find_if(kFormer, [&](const FormerOption& each) {
    return std::ranges::find(words, each.option, option_word) != words.end();
  });
  if (former == kFormer.end()) return words;
  std::string argument;
  for (std::size_t i = 1; i < words.size();) {
    if (option_word(words[i]) == former->option) {
      const auto value = take(words, i, former->has_value);
      if (!value) break;  // It is missing.
      argument = *value;  // The last one counts.
      continue;
    }
    const auto* const useless = std::ranges::find_if(
        kUseless, [&](const Useless& each) { return is_useless(words, i, each, former->form); });
    if (useless == kUseless.end() || !take(words, i, !useless->value.empty())) ++i;
  }
  words.insert(words.begin() + 1, std::string(former->form));
  if (!argument.empty()) words.insert(words.begin() + 2, argument);
  report::print_error(
      "gpemu: write `gpemu {0} {1}{2}` in place of `gpemu {0} {3}{2}`, which ends with the next "
      "release\n",
      words[0], former->form, argument.empty() ? "" : " " + printable(argument), former->option);
  return words;
}

}  // namespace gpemu::tools
