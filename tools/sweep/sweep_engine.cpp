// SPDX-License-Identifier: Apache-2.0
#include "sweep/sweep_engine.hpp"

namespace gpemu::tools {

std::unique_ptr<Engine> engine_named(std::string_view name, const World& world) {
  return name == "slurm" ? slurm_engine(world) : kubernetes_engine(world);
}

Result<run::PrintedRun> ask_engine(const World& world, const std::vector<std::string>& words) {
  // A question is short; it ends by itself after Ctrl-C, so that it is known what was submitted.
  const std::atomic<bool> never{false};
  auto run = world.run_for_output(words, world.environment(), {}, -1, never);
  if (run || run.error().code != ErrorCode::kNotFound) return run;
  return fail(ErrorCode::kNotFound, "{}; --on needs it on this machine, or use --print",
              run.error().message);
}

}  // namespace gpemu::tools
