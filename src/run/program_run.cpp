// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/program_run.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "gpemu/base/file.hpp"
#include "gpemu/record/live_records.hpp"
#include "gpemu/record/process_records.hpp"
#include "gpemu/run/child_process.hpp"
#include "gpemu/run/environment.hpp"
#include "gpemu/run/settings.hpp"
#include "gpemu/run/shims.hpp"

#include "recorded_steps.hpp"

namespace gpemu::run {
namespace {

/// The emulated GPU's memory while steps are recorded: 1 TiB, more than any GPU of `catalog/gpus/`
/// has.
constexpr Bytes kPlenty = Bytes{1} << 40;

/// So many bytes of records are read at once before checking whether they are enough, because a
/// program with tiny steps writes faster than this process reads. A step of large networks takes a
/// few MiB.
constexpr std::size_t kReadAtOnce = 8 << 20;

/// The bytes at the end of a program's output in which to find its last lines.
constexpr std::streamoff kOutputBytes = 64 << 10;

std::string end_of_output(const std::filesystem::path& output) {
  std::ifstream file(output, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size <= 0) return {};
  std::string text(static_cast<std::size_t>(std::min(size, kOutputBytes)), '\0');
  file.seekg(size - static_cast<std::streamoff>(text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

/// Errors: kIo if processes could not record all of their work.
Result<void> check_space(const std::filesystem::path& folder) {
  GPEMU_ASSIGN(const std::vector<record::RecordedProcess> processes,
               record::read_processes(folder));
  const bool full = std::ranges::any_of(processes, [](const record::RecordedProcess& process) {
    return process.totals.lines_left_out > 0;
  });
  if (!full) return {};
  return fail(ErrorCode::kIo,
              "{}: no space for records of operations; set TMPDIR to another folder",
              folder.string());
}

/// Adds the process's own counts: memory and unsupported calls.
void add_totals(std::span<const record::RecordedProcess> processes, std::string_view number,
                ProgramRun& seen) {
  for (const record::RecordedProcess& process : processes) {
    if (process.lines.stem() != number) continue;
    for (const process::RecordedDevice* device : record::devices_of(process)) {
      seen.peak_memory = std::max(seen.peak_memory, Bytes{device->peak_memory_bytes});
    }
    for (const process::RecordedCall& call : process.totals.calls) {
      if (call.count > 0) seen.unsupported.emplace_back(call.function);
    }
  }
}

}  // namespace

Result<ProgramRun> record_steps(const ProgramRunOptions& options,
                                const ProgramSurroundings& surroundings,
                                const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const TemporaryFolder folder, record::make_record_folder(surroundings.temporary));
  GPEMU_ASSIGN(const std::filesystem::path shims, find_shims());
  Environment changes = environment_of({.gpu = options.gpu.name,
                                        .memory = options.memory == 0 ? kPlenty : options.memory,
                                        .real_ranks = options.real_ranks,
                                        .batch = options.batch,
                                        .record_operations = true},
                                       shims, folder.path());
  // PyTorch keeps a folder for temporary files, which it cannot remove if it is killed.
  const std::filesystem::path of_program = folder.path() / "tmp";
  std::error_code error;
  if (!std::filesystem::create_directory(of_program, error)) {
    return fail(ErrorCode::kIo, "{}: {}", of_program.string(), error.message());
  }
  changes.set.emplace_back("TMPDIR", of_program.string());
  record::LiveRun run(folder.path());
  const predict::StepSearch search{.pattern = options.pattern, .complete = false};
  const auto wanted = std::size_t{predict::kWarmUpSteps} + static_cast<std::size_t>(options.steps);
  const auto enough = [&]() -> Result<bool> {
    if (stop) return fail(ErrorCode::kInterrupted, "stopped; the program was ended");
    GPEMU_ASSIGN(const bool any, run.read(kReadAtOnce));
    if (!any) {
      GPEMU_TRY(check_space(folder.path()));
      return false;
    }
    const record::ProgramWork& work = run.main()->second.work();
    return recorded_enough(predict::find_steps(work, search), work.events.size(), wanted);
  };
  const std::filesystem::path output = folder.path() / "output";
  GPEMU_ASSIGN(
      const std::optional<int> code,
      run_until(with_batch(options.words, options.batch),
                changed(surroundings.environment, changes, surroundings.current), output, enough));
  GPEMU_TRY(run.read(std::numeric_limits<std::size_t>::max()));
  GPEMU_TRY(check_space(folder.path()));
  const auto* const main = run.main();
  const std::string text = end_of_output(output);
  GPEMU_ASSIGN(const std::vector<record::RecordedProcess> processes,
               record::read_processes(folder.path()));
  const std::string not_computed = not_computed_text(processes);
  GPEMU_ASSIGN(
      predict::FoundSteps found,
      steps_of_run(main == nullptr ? nullptr : &main->second.work(), options.pattern, wanted,
                   {.exit_code = code, .output = text, .not_computed = not_computed}));
  GPEMU_CHECK(main != nullptr, "there are no steps without work");
  ProgramRun seen{.gpu = options.gpu,
                  .batch = options.batch,
                  .work = main->second.work(),
                  .found = std::move(found),
                  .step = {},
                  .exit_code = code,
                  .processes = run.processes(),
                  .unsupported = {},
                  .not_computed = not_computed};
  seen.step = predict::typical_step(seen.work, seen.found, options.steps);
  add_totals(processes, main->first, seen);
  return seen;
}

}  // namespace gpemu::run
