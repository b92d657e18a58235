// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/sweep_cells.hpp"
#include "gpemu/profile/sweep_spec.hpp"
#include "gpemu/report/host_facts.hpp"
#include "gpemu/report/progress.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"

#include "cli/command_line.hpp"
#include "cli/interrupt.hpp"
#include "sweep/cell_runner.hpp"
#include "sweep/cell_store.hpp"
#include "sweep/sweep_engine.hpp"
#include "sweep/sweep_options.hpp"
#include "sweep/sweep_page.hpp"
#include "sweep/sweep_table.hpp"

namespace gpemu::tools {
namespace {

using profile::SweepCell;
using profile::SweepSpec;

constexpr std::size_t kMostShownRows = 40;  ///< of the table, in the terminal.
constexpr std::size_t kMostShownFailures = 5;
constexpr std::size_t kMostShownLines = 3;  ///< of a failure.
constexpr int kMostTasks = 100'000;         ///< only catches slips.
constexpr std::size_t kDefaultTasks = 16;
constexpr std::chrono::seconds kBetweenLooks{1};      ///< at the cells' files.
constexpr std::chrono::seconds kBetweenQuestions{5};  ///< to the engine.
/// So long files of other machines may take to show, after the engine's end.
constexpr std::chrono::seconds kForLateFiles{10};

/// What a sweep is, and what is asked of it.
struct Sweep {
  SweepOptions options;
  SweepSpec spec;
  std::vector<SweepCell> cells;
  Cells chosen;                        ///< of the cells.
  std::filesystem::path file, folder;  ///< absolute.
  std::filesystem::path shown_folder;  ///< as people wrote it.
};

std::optional<std::size_t> whole_number(std::string_view text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// Returns the cells of a list such as "3,7-9".
Result<Cells> cells_listed(const std::vector<SweepCell>& cells, std::string_view list) {
  std::set<std::size_t> numbers;
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view range = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(range.size() + 1, rest.size()));
    const std::size_t dash = range.find('-');
    const auto first = whole_number(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : whole_number(range.substr(dash + 1));
    if (!first || !last || *first < 1 || *first > *last || *last > cells.size()) {
      return fail(ErrorCode::kInvalidArgument,
                  "--cells {}: expected numbers from 1 to {}, such as 3,7-9", list, cells.size());
    }
    for (std::size_t number = *first; number <= *last; ++number) numbers.insert(number);
  }
  Cells chosen;
  for (const std::size_t number : numbers) chosen.push_back(&cells[number - 1]);
  return chosen;
}

/// Returns the cells of a part such as "0/16": each 16th.
Result<Cells> cells_of_part(const std::vector<SweepCell>& cells, std::string_view part) {
  const std::size_t slash = part.find('/');
  const auto index = whole_number(part.substr(0, slash));
  const auto parts =
      slash == std::string_view::npos ? std::nullopt : whole_number(part.substr(slash + 1));
  if (!index || !parts || *index >= *parts) {
    return fail(ErrorCode::kInvalidArgument,
                "--part {}: expected I/N, with I from 0 to N - 1, such as 0/16", part);
  }
  Cells chosen;
  for (std::size_t i = *index; i < cells.size(); i += *parts) chosen.push_back(&cells[i]);
  return chosen;
}

Result<Cells> chosen_cells(const std::vector<SweepCell>& cells, const SweepOptions& options) {
  if (!options.cells.empty()) return cells_listed(cells, options.cells);
  return cells_of_part(cells, options.part.empty() ? "0/1" : options.part);
}

Result<Sweep> open_sweep(const SweepOptions& options, const World& world) {
  Sweep sweep{.options = options, .spec = {}, .cells = {}, .chosen = {}};
  sweep.file = (world.current / options.file).lexically_normal();
  sweep.shown_folder = options.folder;
  if (options.folder.empty()) {
    sweep.shown_folder = options.file.parent_path() / (options.file.stem().string() + ".sweep");
  }
  sweep.folder = (world.current / sweep.shown_folder).lexically_normal();
  GPEMU_ASSIGN(sweep.spec, profile::read_sweep_spec(options.file));
  sweep.spec.folder = sweep.file.parent_path();
  GPEMU_TRY(check_columns(sweep.spec, options.file));
  auto cells = profile::sweep_cells(sweep.spec);
  if (!cells) {
    return fail(ErrorCode::kCorruptData, "{}: {}", options.file.string(), cells.error().message);
  }
  sweep.cells = *std::move(cells);
  GPEMU_ASSIGN(sweep.chosen, chosen_cells(sweep.cells, options));
  return sweep;
}

void print_cells(const Sweep& sweep) {
  for (const SweepCell* cell : sweep.chosen) {
    std::vector<std::string> words = printing_words(cell->words);
    words.insert(words.begin(), "gpemu");
    report::print_out("{}: {}\n", cell->number, report::shell_line(words));
  }
}

Result<void> forget_failures(const Sweep& sweep, const CellStore& store) {
  for (const SweepCell* cell : sweep.chosen) {
    if (!store.has(*cell)) continue;
    GPEMU_ASSIGN(const CellRecord record, store.read(*cell));
    if (record.failed()) GPEMU_TRY(store.forget(*cell));
  }
  return {};
}

/// Returns the number of the chosen cells that have been run.
std::size_t count_done(const Sweep& sweep, const CellStore& store) {
  const std::set<std::uint64_t> keys = store.keys();
  return static_cast<std::size_t>(std::ranges::count_if(
      sweep.chosen, [&keys](const SweepCell* cell) { return keys.contains(cell->key); }));
}

report::Progress progress_of(const Sweep& sweep, const World& world) {
  return {{.label = sweep.spec.name, .unit = "cells", .images = 0},
          static_cast<std::int64_t>(sweep.chosen.size()),
          sweep.options.quiet,
          world.progress_host()};
}

/// After an interrupt, says how to go on.
Error how_to_go_on(const Sweep& sweep, const CellStore& store) {
  return {ErrorCode::kInterrupted,
          fmt::format("stopped with {} of {} cells run; the same command goes on from there",
                      count_done(sweep, store), sweep.chosen.size())};
}

Result<void> run_here(const Sweep& sweep, const CellStore& store, const World& world) {
  const InterruptGuard interrupt;
  report::Progress progress = progress_of(sweep, world);
  const int jobs = sweep.options.jobs > 0 ? sweep.options.jobs : report::usable_cores();
  const CellWork work{.at_once = static_cast<std::size_t>(jobs),
                      .stop = interrupt.flag(),
                      .progress = [&progress](std::size_t done) {
                        progress.update(static_cast<std::int64_t>(done));
                      }};
  const Result<std::size_t> ran = run_cells(sweep.spec, sweep.chosen, store, world, work);
  if (ran) return {};
  if (ran.error().code == ErrorCode::kInterrupted) {
    return std::unexpected(how_to_go_on(sweep, store));
  }
  return std::unexpected(ran.error());
}

EngineJob engine_job(const Sweep& sweep, const CellStore& store) {
  const std::size_t tasks = sweep.options.tasks > 0 ? static_cast<std::size_t>(sweep.options.tasks)
                                                    : std::min(kDefaultTasks, sweep.cells.size());
  std::set<std::size_t> parts;
  const std::set<std::uint64_t> keys = store.keys();
  for (const SweepCell& cell : sweep.cells) {
    if (!keys.contains(cell.key)) parts.insert((cell.number - 1) % tasks);
  }
  return {.spec = sweep.spec,
          .file = sweep.file,
          .folder = sweep.folder,
          .tasks = tasks,
          .parts = {parts.begin(), parts.end()},
          .jobs = std::max(sweep.options.jobs, 1)};
}

/// Waits until all cells have been run, or the engine has ended its work on them. After `stop`,
/// ends the job.
Result<void> wait_for_engine(const Sweep& sweep, const CellStore& store, const World& world,
                             Engine& engine, const std::string& job,
                             const std::atomic<bool>& stop) {
  report::Progress progress = progress_of(sweep, world);
  TimePoint next_question = world.clock.now() + kBetweenQuestions;
  std::optional<TimePoint> ended;
  for (std::size_t done = 0; (done = count_done(sweep, store)) < sweep.chosen.size();) {
    progress.update(static_cast<std::int64_t>(done));
    if (stop) {
      GPEMU_TRY(engine.remove(job, false));
      return std::unexpected(how_to_go_on(sweep, store));
    }
    const TimePoint now = world.clock.now();
    if (ended && now - *ended > kForLateFiles) return {};
    if (!ended && now >= next_question) {
      GPEMU_ASSIGN(const bool working, engine.is_working(job));
      if (!working) ended = now;
      next_question = now + kBetweenQuestions;
    }
    world.clock.wait_until(now + kBetweenLooks);
  }
  progress.clear();
  return engine.remove(job, true);
}

/// Returns whether the engine's work has ended; not if it goes on without this command.
Result<bool> run_on_engine(const Sweep& sweep, const CellStore& store, const World& world) {
  const std::unique_ptr<Engine> engine = engine_named(sweep.options.engine, world);
  const EngineJob job = engine_job(sweep, store);
  GPEMU_ASSIGN(const std::string description, engine->description(job));
  if (sweep.options.print) {
    report::print_out("{}", description);
    return false;
  }
  if (job.parts.empty()) return true;
  const std::filesystem::path file = sweep.folder / engine->file_name();
  GPEMU_TRY(write_file_atomically(file, description));
  // From here on: a job that Ctrl-C does not find would run on.
  const InterruptGuard interrupt;
  GPEMU_ASSIGN(const std::string name, engine->submit(file));
  if (sweep.options.detach) {
    report::print_out("submitted {}; `gpemu sweep {} --collect` collects its cells\n", name,
                      sweep.options.file.string());
    return false;
  }
  GPEMU_TRY(wait_for_engine(sweep, store, world, *engine, name, interrupt.flag()));
  const std::size_t done = count_done(sweep, store);
  if (done == sweep.chosen.size()) return true;
  return fail(ErrorCode::kUnavailable,
              "{} has ended with {} of {} cells run; {}. The same command goes on from there", name,
              done, sweep.chosen.size(), engine->advice(name, sweep.folder));
}

std::string failures_text(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::string text;
  std::vector<std::size_t> numbers;
  for (const SweepRow& row : rows) {
    if (!row.record || !row.record->failed()) continue;
    numbers.push_back(row.cell->number);
    if (numbers.size() > kMostShownFailures) continue;
    text += fmt::format("cell {} failed (exit status {}): {}\n", row.cell->number,
                        row.record->exit_status, factors_text(sweep.spec, row));
    const auto& lines = row.record->last_lines;
    for (std::size_t i = lines.size() - std::min(lines.size(), kMostShownLines); i < lines.size();
         ++i) {
      text += fmt::format("  {}\n", lines[i]);
    }
  }
  if (numbers.empty()) return text;
  if (numbers.size() > kMostShownFailures) {
    text += fmt::format("and {} more, see the page\n", numbers.size() - kMostShownFailures);
    numbers.resize(kMostShownFailures);
  }
  return text + fmt::format("run them again: gpemu sweep {} --retry --cells {}\n",
                            sweep.options.file.string(), fmt::join(numbers, ","));
}

std::string rows_text(const Sweep& sweep, const std::vector<SweepRow>& rows, const World& world) {
  if (rows.size() > kMostShownRows) return "";
  std::vector<std::string> header = table_header(sweep.spec);
  const std::size_t first = header.size() - sweep.spec.columns.size();
  report::TextTable table(header);
  for (const SweepRow& row : rows) {
    std::vector<std::string> cells = table_cells(sweep.spec, row);
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      cells[first + i] = shown_value(row.values[i]);
    }
    table.add_row(std::move(cells));
  }
  return table.str(world.terminal().output_columns) + "\n";
}

/// Writes the table and the page; returns the command's exit code: 1 if cells failed.
Result<int> collect(const Sweep& sweep, const CellStore& store, const World& world) {
  GPEMU_ASSIGN(const std::vector<SweepRow> rows,
               sweep_rows(sweep.spec, sweep.options.file, sweep.cells, store));
  const std::filesystem::path table = sweep.shown_folder / "table.csv";
  const std::filesystem::path page = sweep.shown_folder / "page.html";
  GPEMU_TRY(write_file_atomically(table, csv_text(sweep.spec, rows)));
  GPEMU_TRY(write_file_atomically(
      page, sweep_page(sweep.spec, rows, report::provenance_at(world.time_of_day()))));
  const SweepCounts counts = count_rows(rows);
  if (!sweep.options.quiet) {
    report::print_out("{}{}{}\ntable  {}\npage   {}\n", rows_text(sweep, rows, world),
                      failures_text(sweep, rows), sweep_counts_text(counts), table.string(),
                      page.string());
  }
  return counts.failed == 0 ? 0 : 1;
}

Result<int> run_sweep(const SweepOptions& options, const World& world) {
  GPEMU_ASSIGN(const Sweep sweep, open_sweep(options, world));
  if (options.print && options.engine.empty()) {
    print_cells(sweep);
    return 0;
  }
  GPEMU_ASSIGN(const CellStore store, CellStore::open(sweep.folder));
  if (options.retry) GPEMU_TRY(forget_failures(sweep, store));
  if (!options.engine.empty()) {
    GPEMU_ASSIGN(const bool ended, run_on_engine(sweep, store, world));
    if (!ended) return 0;
  } else if (!options.collect) {
    GPEMU_TRY(run_here(sweep, store, world));
    // Whoever divided the sweep into parts collects them.
    if (!options.part.empty()) return 0;
  }
  return collect(sweep, store, world);
}

}  // namespace

void add_sweep_command(Command app, const World& world) {
  auto options = std::make_shared<SweepOptions>();
  Command command = app.subcommand(
      "sweep",
      "Run a command for all combinations of models, GPUs and other factors, here or on a cluster");
  command.option("FILE", options->file, "The sweep: a TOML file (docs/reference/sweep-file.md)")
      .required();
  command.option("--folder", options->folder,
                 "Folder of the results; by default NAME.sweep beside NAME.toml");
  command
      .option("--jobs", options->jobs,
              "Cells to run at the same time, of a task with --on; by default one for each core, "
              "and 1 with --on")
      .range(1, 4096);
  command.option("--cells", options->cells, "Only these cells, e.g. 3,7-9");
  command.flag("--retry", options->retry, "Run cells again that failed");
  command.flag("--collect", options->collect,
               "Run nothing: write the table and the page of the cells that have been run");
  command.flag("--print", options->print,
               "Run nothing: print each cell's command; with --on, the job's description");
  command.flag("--quiet", options->quiet, "No progress, no table");
  command.group("On a cluster");
  command.option("--on", options->engine, "Run the cells as a job array or an indexed Job")
      .one_of({"slurm", "kubernetes"})
      .excludes("--cells")
      .excludes("--collect");
  command.option("--tasks", options->tasks, "Tasks of the job; by default 16")
      .range(1, kMostTasks)
      .needs("--on");
  command.flag("--detach", options->detach, "Do not wait for the job").needs("--on");
  command
      .option("--part", options->part,
              "What a task does: run each Nth cell, from the one with index I on, and write no "
              "table")
      .placeholder("I/N")
      .excludes("--cells")
      .excludes("--collect")
      .excludes("--on");
  command.notes(
      "Each cell is run once: after Ctrl-C, a crash or a change of the file, the same\n"
      "command runs what is missing (docs/how-to/sweep.md).\n"
      "\n"
      "Examples:\n"
      "  gpemu sweep batches.toml\n"
      "  gpemu sweep batches.toml --retry --cells 17\n"
      "  gpemu sweep batches.toml --on slurm --tasks 64\n");
  command.on_run([options, &world]() -> Result<int> { return run_sweep(*options, world); });
}

}  // namespace gpemu::tools
