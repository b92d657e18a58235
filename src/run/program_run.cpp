// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/program_run.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"
#include "gpemu/record/live_records.hpp"
#include "gpemu/record/process_records.hpp"
#include "gpemu/record/record_folder.hpp"
#include "gpemu/run/child_process.hpp"
#include "gpemu/run/settings.hpp"
#include "gpemu/run/shims.hpp"

namespace gpemu::run {
namespace {

/// The emulated GPU's memory while steps are recorded: 1 TiB, more than any GPU of `gpus/` has.
constexpr Bytes kPlenty = Bytes{1} << 40;

/// After so many operations without another step, the program is given up: a step of large networks
/// has some ten thousand.
constexpr std::size_t kGiveUpOperations = 1'000'000;

/// So many bytes of records are read at once before checking whether they are enough, because a
/// program with tiny steps writes faster than this process reads. A step of large networks takes a
/// few MiB.
constexpr std::size_t kReadAtOnce = 8 << 20;

/// How many lines of a program's output are shown, and the bytes at its end in which to find them.
constexpr std::size_t kLinesShown = 15;
constexpr std::streamoff kShownOf = 64 << 10;

/// Returns the last lines of a program's output.
std::string last_lines(const std::filesystem::path& output) {
  std::ifstream file(output, std::ios::binary | std::ios::ate);
  const std::streamoff size = file.tellg();
  if (size <= 0) return {};
  std::string text(static_cast<std::size_t>(std::min(size, kShownOf)), '\0');
  file.seekg(size - static_cast<std::streamoff>(text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  std::string_view rest = text;
  while (rest.ends_with('\n')) rest.remove_suffix(1);
  std::size_t begin = rest.size();
  for (std::size_t i = 0; i < kLinesShown && begin != std::string_view::npos && begin > 0; ++i) {
    begin = rest.rfind('\n', begin - 1);
  }
  if (begin != std::string_view::npos && begin > 0) rest.remove_prefix(begin + 1);
  std::string shown;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    shown += fmt::format("\n  | {}", rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return shown;
}

std::vector<std::string> words_at(const ProgramRunOptions& options) {
  std::vector<std::string> words = options.words;
  if (options.batch == 0) return words;
  constexpr std::string_view kPlace = "{batch}";
  for (std::string& word : words) {
    for (std::size_t at = word.find(kPlace); at != std::string::npos; at = word.find(kPlace)) {
      word.replace(at, kPlace.size(), std::to_string(options.batch));
    }
  }
  return words;
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
Result<void> add_totals(const std::filesystem::path& folder, std::string_view number,
                        ProgramRun& seen) {
  GPEMU_ASSIGN(const std::vector<record::RecordedProcess> processes,
               record::read_processes(folder));
  for (const record::RecordedProcess& process : processes) {
    if (process.lines.stem() != number) continue;
    for (const cuda::RecordedDevice* device : record::devices_of(process)) {
      seen.peak_memory = std::max(seen.peak_memory, Bytes{device->peak_memory_bytes});
    }
    for (const cuda::RecordedCall& call : process.totals.calls) {
      if (call.count > 0) seen.unsupported.emplace_back(call.function);
    }
  }
  return {};
}

}  // namespace

Result<ProgramRun> record_steps(const ProgramRunOptions& options, const std::atomic<bool>& stop) {
  GPEMU_ASSIGN(const record::RecordFolder folder, record::RecordFolder::create());
  GPEMU_ASSIGN(const std::filesystem::path shims, find_shims());
  Environment environment =
      environment_of({.gpu = options.gpu.name,
                      .memory = options.memory == 0 ? kPlenty : options.memory,
                      .batch = options.batch,
                      .record_operations = true},
                     shims, folder.path());
  // PyTorch keeps a folder for temporary files, which it cannot remove if it is killed.
  const std::filesystem::path temporary = folder.path() / "tmp";
  std::error_code error;
  if (!std::filesystem::create_directory(temporary, error)) {
    return fail(ErrorCode::kIo, "{}: {}", temporary.string(), error.message());
  }
  environment.set.emplace_back("TMPDIR", temporary.string());
  record::LiveRun run(folder.path());
  predict::StepSearch search{.pattern = options.pattern, .complete = false};
  const auto wanted = std::size_t{predict::kWarmUpSteps} + static_cast<std::size_t>(options.steps);
  const auto enough = [&]() -> Result<bool> {
    if (stop) return fail(ErrorCode::kInterrupted, "stopped; the program was ended");
    GPEMU_ASSIGN(const bool any, run.read(kReadAtOnce));
    if (!any) {
      GPEMU_TRY(check_space(folder.path()));
      return false;
    }
    const record::ProgramWork& work = run.main()->second.work();
    const auto found = predict::find_steps(work, search);
    const std::size_t last_step = found ? found->steps.back().end : 0;
    return (found && found->steps.size() >= wanted) ||
           work.events.size() - last_step >= kGiveUpOperations;
  };
  const std::filesystem::path output = folder.path() / "output";
  GPEMU_ASSIGN(const std::optional<int> code,
               run_until(words_at(options), environment, output, enough));
  GPEMU_TRY(run.read(std::numeric_limits<std::size_t>::max()));
  GPEMU_TRY(check_space(folder.path()));
  const bool failed = code.value_or(0) != 0;
  const std::string end = failed
                              ? fmt::format("the program ended with exit code {}", code.value_or(0))
                              : "the program ended";
  if (run.main() == nullptr) {
    return fail(ErrorCode::kNotFound, "{} without using the GPU{}", end, last_lines(output));
  }
  const auto& [number, process] = *run.main();
  search.complete = code == 0;
  Result<predict::FoundSteps> found = predict::find_steps(process.work(), search);
  if (!found && failed) {
    return fail(ErrorCode::kNotFound, "{} before its second step{}", end, last_lines(output));
  }
  if (!found) return std::unexpected(std::move(found).error());
  // The number of further steps before the program was ended is random.
  if (found->steps.size() > wanted) found->steps.resize(wanted);
  ProgramRun seen{.gpu = options.gpu,
                  .batch = options.batch,
                  .work = process.work(),
                  .found = *std::move(found),
                  .step = {},
                  .exit_code = code,
                  .processes = run.processes(),
                  .unsupported = {}};
  seen.step = predict::typical_step(seen.work, seen.found, options.steps);
  GPEMU_TRY(add_totals(folder.path(), number, seen));
  return seen;
}

}  // namespace gpemu::run
