// SPDX-License-Identifier: Apache-2.0
#include "runtime/runtime_call.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace gpemu::tools {
namespace {

/// Options before the command that take the next word. Source: the help of runc 1.2 and crun 1.19.
constexpr std::array<std::string_view, 7> kGlobalWithValue = {
    "--log", "--log-format", "--log-level", "--root", "-r", "--criu", "--cgroup-manager"};

/// Returns whether a word, and the next one or a part of it, is an option with a value.
bool has_value(std::span<const std::string> words, std::size_t i, const std::string& option,
               std::string& value) {
  if (words[i] == option && i + 1 < words.size()) {
    value = words[i + 1];
    return true;
  }
  if (!words[i].starts_with(option + '=')) return false;
  value = words[i].substr(option.size() + 1);
  return true;
}

/// Reads the options before the command. Returns the number of the word that is the command.
std::size_t command_of(std::span<const std::string> words, RuntimeCall& call) {
  std::size_t i = 0;
  while (i < words.size() && words[i].starts_with('-')) {
    std::string format;
    has_value(words, i, "--log", call.log);
    if (has_value(words, i, "--log-format", format)) call.logs_json = format == "json";
    i += std::ranges::find(kGlobalWithValue, words[i]) != kGlobalWithValue.end() ? 2 : 1;
  }
  return i;
}

}  // namespace

RuntimeCall read_runtime_call(std::span<const std::string> words) {
  RuntimeCall call;
  const std::size_t command = command_of(words, call);
  if (command + 1 >= words.size()) return call;
  using Kind = RuntimeCall::Kind;
  const std::string& name = words[command];
  call.kind = name == "create"   ? Kind::kCreate
              : name == "run"    ? Kind::kRun
              : name == "delete" ? Kind::kDelete
                                 : Kind::kOther;
  call.container = words.back();
  for (std::size_t i = command + 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    for (const char* option : {"--bundle", "-bundle", "-b"}) {
      has_value(words, i, option, call.bundle);
    }
    if (word == "--detach" || word == "-d" || word == "--detach=true") call.detached = true;
  }
  return call;
}

}  // namespace gpemu::tools
