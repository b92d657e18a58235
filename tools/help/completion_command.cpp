// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/text.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"
#include "cli/completion.hpp"

namespace gpemu::tools {
namespace {

/// The script with which a shell completes words; it gets them from `gpemu completion words`.
struct Shell {
  const char* name;
  const char* how;  ///< how to use it.
  const char* script;
};

constexpr std::array<Shell, 3> kShells = {{
    {"bash", "In ~/.bashrc:  source <(gpemu completion bash)",
     R"(# Completion of gpemu for bash.
_gpemu() {
  local IFS=$'\n'
  COMPREPLY=($("$1" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _gpemu gpemu
)"},
    {"zsh", "In ~/.zshrc, after compinit:  source <(gpemu completion zsh)",
     R"(#compdef gpemu
# Completion of gpemu for zsh.
_gpemu() {
  local -a found
  local line
  for line in "${(@f)$("${words[1]}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    [[ -n "$line" ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
  done
  if (( $#found )); then
    _describe gpemu found
  else
    _files
  fi
}
if [[ "${funcstack[1]}" == _gpemu ]]; then
  _gpemu "$@"
else
  compdef _gpemu gpemu
fi
)"},
    {"fish", "In ~/.config/fish/config.fish:  gpemu completion fish | source",
     R"(# Completion of gpemu for fish.
function __gpemu_words
  set -l typed (commandline -opc) (commandline -ct)
  set -l found (gpemu completion words -- $typed[2..-1] 2>/dev/null)
  if test (count $found) -gt 0
    printf '%s\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c gpemu -f -a '(__gpemu_words)'
)"},
}};

/// Returns the names known on this host. An unreadable file contributes none.
std::vector<std::string> known_values(std::string_view name, const World& world) {
  if (name == "--node" || name == "node" || name == "name") {
    const auto nodes = device::list_nodes(world.nodes).value_or(std::vector<device::NodeEntry>());
    std::vector<std::string> names;
    for (const device::NodeEntry& node : nodes) {
      // Damaged nodes too, because they can be removed.
      if (printable(node.name) == node.name) names.push_back(node.name);
    }
    return names;
  }
  if (name != "--gpu" && name != "--model") return {};
  const auto database = profile::Database::open(world.profiles);
  if (!database) return {};
  return (name == "--gpu" ? database->gpu_names() : database->model_names())
      .value_or(std::vector<std::string>());
}

void print_candidates(Command app, const std::vector<std::string>& words, const World& world) {
  const auto values_of = [&world](std::string_view name) { return known_values(name, world); };
  for (const Candidate& candidate : candidates(app, words, values_of)) {
    // The tab separates; write_output() would escape it.
    const std::string line =
        fmt::format("{}\t{}\n", printable(candidate.word), printable(candidate.meaning));
    std::fputs(line.c_str(), stdout);
  }
}

}  // namespace

void add_completion_command(Command app, const World& world) {
  Command completion = app.subcommand("completion", "Print the completion script for a shell");
  completion.require_subcommand();
  std::string how;
  for (const Shell& shell : kShells) {
    Command command =
        completion.subcommand(shell.name, fmt::format("Print the script for {}", shell.name));
    command.notes(fmt::format("Example:\n  {}", shell.how));
    how += fmt::format("\n  {}", shell.how);
    command.on_run([&shell]() -> Result<void> {
      report::write_output(shell.script);
      return {};
    });
  }
  completion.notes("Examples:" + how);
  auto words = std::make_shared<std::vector<std::string>>();
  Command asked = completion.subcommand("words", "Print what may come next, for scripts").hidden();
  asked.option("words", *words, "The words after gpemu; the last is completed");
  asked.on_run([app, words, &world]() -> Result<void> {
    print_candidates(app, *words, world);
    return {};
  });
}

}  // namespace gpemu::tools
