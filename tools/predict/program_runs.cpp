// SPDX-License-Identifier: Apache-2.0
#include "predict/program_runs.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <optional>

#include <fmt/format.h>

#include "gpemu/device/device_config.hpp"

namespace gpemu::tools {
namespace {

/// The GPU to use if a program runs on none of the requested ones. It has the oldest architecture
/// for which today's programs still have all kernels.
constexpr const char* kCommonGpu = "A100-SXM4-80GB";

std::string label_of(const profile::GpuSpec& gpu, int batch) {
  return batch > 0 ? fmt::format("{}, batch {}", gpu.name, batch) : gpu.name;
}

/// Returns the most telling line of a message: the last one with an error in Python's form, else
/// the last one.
std::string_view telling_line(std::string_view message) {
  const std::size_t error = message.rfind("Error: ");
  const std::size_t begin = message.rfind('\n', error) + 1;  // 0 where there is none.
  const std::string_view line = message.substr(begin, message.find('\n', begin) - begin);
  return line.substr(line.starts_with("  | ") ? 4 : 0);
}

/// Returns the operations of a run's typical step.
std::vector<step::RecordedOperation> step_of(const run::ProgramRun& seen) {
  std::vector<step::RecordedOperation> operations;
  for (std::size_t i = seen.step.begin; i < seen.step.end; ++i) {
    const record::WorkEvent& event = seen.work.events[i];
    if (event.kind != record::WorkEvent::Kind::kOperation) continue;
    operations.push_back(seen.work.operations[event.index]);
  }
  return operations;
}

}  // namespace

Bytes needed_memory(const run::ProgramRun& seen, const profile::GpuSpec& gpu) {
  return seen.peak_memory + device::context_bytes(gpu);
}

Result<void> ProgramRuns::record(const std::vector<profile::GpuSpec>& gpus,
                                 const std::vector<int>& batches) {
  std::map<int, profile::GpuSpec, std::greater<>> by_capability;
  for (const profile::GpuSpec& gpu : gpus)
    by_capability.try_emplace(profile::compute_capability(gpu), gpu);
  const auto on_common_gpu = [&](int batch) -> Result<void> {
    GPEMU_ASSIGN(profile::GpuSpec common, world_.gpu(kCommonGpu));
    const int number = profile::compute_capability(common);
    if (!by_capability.contains(number)) {
      const Request request{std::move(common), batch, number};
      GPEMU_TRY(keep(request, run(request, label_of(request.gpu, batch))));
    }
    if (any(batch)) return {};
    return std::unexpected(first_faults_.at(batch));
  };
  std::vector<Request> others;
  for (const int batch : batches) {
    for (const auto& [number, gpu] : by_capability) {
      GPEMU_ASSIGN(profile::GpuSpec known, known_gpu(gpu));
      Request request{std::move(known), batch, number};
      if (runs_.empty()) {
        GPEMU_TRY(keep(request, run(request, label_of(request.gpu, batch))));
      } else {
        others.push_back(std::move(request));
      }
    }
    if (runs_.empty()) GPEMU_TRY(on_common_gpu(batch));
  }
  GPEMU_TRY(record_side_by_side(others));
  for (const int batch : batches) {
    if (!any(batch)) GPEMU_TRY(on_common_gpu(batch));
  }
  return {};
}

Result<void> ProgramRuns::record_side_by_side(const std::vector<Request>& requests) {
  const std::size_t at_once =
      std::min(requests.size(),
               program_.real_ranks > 0 ? std::size_t{1} : static_cast<std::size_t>(world_.at_once));
  std::vector<std::optional<Result<run::ProgramRun>>> seen(requests.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = 0; (i = next++) < requests.size();) {
      seen[i] = run(requests[i], label_of(requests[i].gpu, requests[i].batch));
      // What is not the program's fault, such as a full disk, would hit the next ones, too.
      if (!*seen[i] && seen[i]->error().code != ErrorCode::kNotFound) next = requests.size();
    }
  };
  {
    std::vector<std::future<void>> workers;  // Their destructors wait.
    for (std::size_t i = 1; i < at_once; ++i) {
      workers.push_back(std::async(std::launch::async, work));
    }
    work();
  }
  for (const std::optional<Result<run::ProgramRun>>& one : seen) {
    if (one && !*one && one->error().code == ErrorCode::kInterrupted) {
      return std::unexpected(one->error());
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    const bool succeeded = seen[i] && *seen[i] && (*seen[i])->exit_code.value_or(0) == 0;
    if (!succeeded && at_once > 1) {
      seen[i] = run(request, label_of(request.gpu, request.batch) + ", alone");
    }
    GPEMU_CHECK(seen[i].has_value(), "only runs after one whose error is returned are left out");
    GPEMU_TRY(keep(request, *std::move(seen[i])));
  }
  return {};
}

Result<run::ProgramRun> ProgramRuns::run(const Request& request, const std::string& label,
                                         Bytes memory) const {
  return world_.record({.words = program_.words,
                        .gpu = request.gpu,
                        .batch = request.batch,
                        .steps = program_.steps,
                        .memory = memory,
                        .pattern = program_.pattern,
                        .real_ranks = program_.real_ranks},
                       label);
}

std::pair<ProgramRuns::Run, std::string> ProgramRuns::find(const profile::GpuSpec& gpu,
                                                           int batch) const {
  const auto distance = [&](const Run& seen) {
    const int newer = profile::capability_distance(gpu, seen->gpu);
    return newer >= 0 ? newer : 1000 - newer;
  };
  Run best;
  for (const Run& seen : runs_) {
    if (seen->batch != batch) continue;
    if (best == nullptr || distance(seen) < distance(best)) best = seen;
  }
  const auto fault = faults_.find({profile::compute_capability(gpu), batch});
  return {best, fault == faults_.end() ? "" : fault->second};
}

Result<ProgramRuns::Found> ProgramRuns::find_within(const profile::GpuSpec& gpu, int batch) const {
  auto [run, why_other] = find(gpu, batch);
  Found found{.run = std::move(run), .why_other = std::move(why_other)};
  if (needed_memory(*found.run, gpu) <= gpu.memory_bytes) return found;
  GPEMU_ASSIGN(Run within, record_within(gpu, batch));
  if (within == nullptr) return found;
  found.asked_for = found.run->peak_memory;
  found.run = std::move(within);
  return found;
}

/// Returns nothing if the program ends with a fault before its first step.
Result<ProgramRuns::Run> ProgramRuns::record_within(const profile::GpuSpec& gpu, int batch) const {
  GPEMU_ASSIGN(const profile::GpuSpec known, known_gpu(gpu));
  // The context is that of the known GPU, which may take more than that of the GPU.
  const Bytes memory = gpu.memory_bytes - device::context_bytes(gpu) + device::context_bytes(known);
  Result<run::ProgramRun> seen = run({.gpu = known, .batch = batch}, label_of(gpu, batch), memory);
  if (seen && seen->exit_code.value_or(0) != 0) return nullptr;
  if (seen) return std::make_shared<const run::ProgramRun>(*std::move(seen));
  if (seen.error().code == ErrorCode::kNotFound) return nullptr;
  return std::unexpected(std::move(seen).error());
}

Result<void> ProgramRuns::check_batches() const {
  for (const Run& one : runs_) {
    for (const Run& other : runs_) {
      if (one->batch == other->batch || step_of(*one) != step_of(*other)) continue;
      return fail(ErrorCode::kInvalidArgument,
                  "the program does the same work at batches {} and {}: it must take its batch "
                  "size from the variable GPEMU_BATCH, or from {{batch}} in its arguments, as in "
                  "-- python train.py --batch-size {{batch}}",
                  one->batch, other->batch);
    }
  }
  return {};
}

bool ProgramRuns::any(int batch) const {
  return std::ranges::any_of(runs_, [batch](const Run& r) { return r->batch == batch; });
}

/// Returns a GPU to emulate: the same one, or, if a file describes it, the one with the nearest
/// capability.
Result<profile::GpuSpec> ProgramRuns::known_gpu(const profile::GpuSpec& gpu) const {
  if (auto same = world_.gpu(gpu.name)) return same;
  GPEMU_ASSIGN(const std::vector<std::string> names, world_.gpu_names());
  std::vector<profile::GpuSpec> known;
  for (const std::string& name : names) {
    GPEMU_ASSIGN(profile::GpuSpec other, world_.gpu(name));
    known.push_back(std::move(other));
  }
  const auto nearest = std::ranges::min_element(known, {}, [&gpu](const profile::GpuSpec& other) {
    return std::abs(profile::capability_distance(gpu, other));
  });
  if (nearest == known.end()) return fail(ErrorCode::kNotFound, "the database has no GPU");
  return *nearest;
}

/// Keeps a run, or the fault with which the program ended.
Result<void> ProgramRuns::keep(const Request& request, Result<run::ProgramRun> seen) {
  if (seen) {
    runs_.push_back(std::make_shared<const run::ProgramRun>(*std::move(seen)));
    return {};
  }
  if (seen.error().code != ErrorCode::kNotFound) {
    return std::unexpected(std::move(seen).error());
  }
  faults_[{request.number, request.batch}] =
      fmt::format("fails at compute capability {}.{}: {}", request.gpu.compute_capability_major,
                  request.gpu.compute_capability_minor, telling_line(seen.error().message));
  first_faults_.try_emplace(request.batch, std::move(seen).error());
  return {};
}

}  // namespace gpemu::tools
