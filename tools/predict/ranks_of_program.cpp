// SPDX-License-Identifier: Apache-2.0
#include "predict/ranks_of_program.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

namespace gpemu::tools {
namespace {

using Words = std::vector<std::string>;

constexpr std::array<std::string_view, 2> kModules = {"torch.distributed.run",
                                                      "torch.distributed.launch"};
/// Options of torchrun that this sets, and those with which a job has several hosts. Source:
/// PyTorch's documentation of torchrun, which takes "-" and "_" alike.
constexpr std::string_view kProcesses = "--nproc-per-node";
constexpr std::array<std::string_view, 2> kHosts = {"--nnodes", "--node-rank"};

/// Returns the name of an option as torchrun documents it, without a value after "=".
std::string option_name(std::string_view word) {
  std::string name(word.substr(0, word.find('=')));
  if (name.starts_with("--")) std::ranges::replace(name, '_', '-');
  return name;
}

/// Returns torchrun's words for so many ranks; `first` is the first one after torchrun itself.
Result<Words> with_torchrun_ranks(const Words& words, std::size_t first, int ranks) {
  Words changed(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
  changed.insert(changed.end(), {std::string(kProcesses), std::to_string(ranks)});
  // The script comes first that is neither an option nor the value of one.
  bool is_value = false, is_standalone = false;
  std::size_t i = first;
  for (; i < words.size(); ++i) {
    const std::string name = option_name(words[i]);
    if (!is_value && !name.starts_with('-')) break;
    if (std::ranges::find(kHosts, name) != kHosts.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "--gpus: leave out torchrun's {}: gpemu starts all ranks on one host, and "
                  "--topology says how many GPUs a machine has",
                  name);
    }
    const bool has_value = words[i].contains('=');
    const bool is_flag = name == "--standalone" || name == "-m" || name == "--module" ||
                         name == "--no-python" || name == "--run-path";
    is_standalone |= name == "--standalone";
    if (name == kProcesses) {
      if (!has_value) ++i;
      is_value = false;
      continue;
    }
    changed.push_back(words[i]);
    is_value = !is_value && !has_value && !is_flag && name.starts_with('-');
  }
  if (i >= words.size()) {
    return fail(ErrorCode::kInvalidArgument, "--gpus: torchrun has no script to run");
  }
  if (!is_standalone)
    changed.insert(changed.begin() + static_cast<std::ptrdiff_t>(first), "--standalone");
  changed.insert(changed.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  return changed;
}

}  // namespace

Result<Words> with_ranks(const Words& words, int ranks) {
  const std::string name = std::filesystem::path(words.front()).filename().string();
  if (name == "torchrun") return with_torchrun_ranks(words, 1, ranks);
  if (!name.starts_with("python")) {
    return fail(ErrorCode::kInvalidArgument,
                "--gpus: {} is neither Python nor torchrun, and only torchrun's ranks are known: "
                "give -- python train.py or -- torchrun train.py",
                words.front());
  }
  // Python's own options stay before the module; -X and -W have values.
  std::size_t script = 1;
  while (script < words.size() && words[script].starts_with('-') && words[script] != "-m" &&
         words[script] != "-c") {
    script += words[script] == "-X" || words[script] == "-W" ? 2 : 1;
  }
  if (script >= words.size() || words[script] == "-c") {
    return fail(ErrorCode::kInvalidArgument,
                "--gpus: Python must be given a script or a module, as in -- python train.py");
  }
  const bool is_module = words[script] == "-m";
  if (is_module && script + 1 < words.size() &&
      std::ranges::find(kModules, words[script + 1]) != kModules.end()) {
    return with_torchrun_ranks(words, script + 2, ranks);
  }
  Words changed(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(script));
  changed.insert(changed.end(), {"-m", std::string(kModules.front()), "--standalone",
                                 std::string(kProcesses), std::to_string(ranks)});
  changed.insert(changed.end(), words.begin() + static_cast<std::ptrdiff_t>(script), words.end());
  return changed;
}

}  // namespace gpemu::tools
