// SPDX-License-Identifier: Apache-2.0
#include "sweep/cell_runner.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/report/provenance.hpp"

#include "cli/in_parallel.hpp"

namespace gpemu::tools {
namespace {

/// How often cells are looked at that other workers run.
constexpr std::chrono::milliseconds kForOthers{100};

constexpr std::size_t kMostLastLines = 20;       ///< of a command that failed.
constexpr std::size_t kMostLastLineBytes = 500;  ///< of a line.

/// The exit status of commands that Ctrl-C or SIGTERM stopped.
const int kStopped = exit_code(ErrorCode::kInterrupted);

std::string machine_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::vector<std::string> last_lines(std::string_view text) {
  std::deque<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (!line.empty()) lines.emplace_back(line.substr(0, kMostLastLineBytes));
    if (lines.size() > kMostLastLines) lines.pop_front();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return {lines.begin(), lines.end()};
}

/// What the workers share. Thread safety: any thread.
class CellQueue {
 public:
  explicit CellQueue(const Cells& cells) : waiting_(cells.begin(), cells.end()) {}

  /// Returns a cell that nobody of this process works on; null at the end, or after a fault.
  const profile::SweepCell* next() {
    const Lock lock(mutex_);
    if (waiting_.empty() || fault_) return nullptr;
    const profile::SweepCell* cell = waiting_.front();
    waiting_.pop_front();
    return cell;
  }

  void put_back(const profile::SweepCell& cell) {
    const Lock lock(mutex_);
    waiting_.push_back(&cell);
  }
  void note_done(bool ran_here) {
    const Lock lock(mutex_);
    ++done_;
    ran_ += ran_here ? 1 : 0;
  }
  void note_fault(Error error) {
    const Lock lock(mutex_);
    if (!fault_) fault_ = std::move(error);
  }

  [[nodiscard]] std::size_t done() const {
    const Lock lock(mutex_);
    return done_;
  }
  [[nodiscard]] Result<std::size_t> outcome() const {
    const Lock lock(mutex_);
    if (fault_) return std::unexpected(*fault_);
    return ran_;
  }

 private:
  mutable Mutex mutex_;
  std::deque<const profile::SweepCell*> waiting_ GPEMU_GUARDED_BY(mutex_);
  std::size_t done_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::size_t ran_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::optional<Error> fault_ GPEMU_GUARDED_BY(mutex_);
};

/// What all cells need.
struct CellSurroundings {
  const profile::SweepSpec& spec;
  const CellStore& store;
  const World& world;
  const std::atomic<bool>& stop;
  std::vector<std::string> environment;
  std::string host;
};

CellRecord new_record(const profile::SweepCell& cell, const CellSurroundings& around) {
  CellRecord record{.factors = {},
                    .command = {"gpemu"},
                    .gpemu_version = GPEMU_VERSION,
                    .host = around.host,
                    .start = report::date_text(around.world.time_of_day()),
                    .last_lines = {},
                    .result = nullptr};
  for (std::size_t i = 0; i < cell.values.size(); ++i) {
    const profile::Factor& factor = around.spec.factors[i];
    record.factors.emplace_back(factor.name, factor.values[cell.values[i]].text);
  }
  const std::vector<std::string> words = printing_words(cell.words);
  record.command.insert(record.command.end(), words.begin(), words.end());
  return record;
}

/// Runs a cell whose lock this worker has.
Result<CellRecord> run_cell(const profile::SweepCell& cell, const CellLock& lock,
                            const CellSurroundings& around) {
  CellRecord record = new_record(cell, around);
  std::vector<std::string> words = record.command;
  words.front() = around.world.executable.string();
  const TimePoint start = around.world.clock.now();
  GPEMU_ASSIGN(const run::PrintedRun run,
               around.world.run_for_output(words, around.environment, around.spec.folder,
                                           lock.descriptor(), around.stop));
  record.elapsed_s = to_seconds(around.world.clock.now() - start);
  record.exit_status = run.code;
  if (run.code == kStopped) return fail(ErrorCode::kInterrupted, "stopped");
  if (run.code == 0) {
    record.result = nlohmann::ordered_json::parse(run.output, nullptr, false);
    if (!record.result.is_discarded() && !record.result.is_null()) return record;
    record.result = nullptr;
  }
  record.last_lines = last_lines(run.errors.empty() ? run.output : run.errors);
  if (run.code == 0) record.last_lines.emplace_back("gpemu sweep: the command printed no JSON");
  return record;
}

/// Returns whether the cell has been run now; not if another worker runs it.
Result<bool> take_cell(const profile::SweepCell& cell, const CellSurroundings& around,
                       CellQueue& queue) {
  if (!around.store.has(cell)) {
    GPEMU_ASSIGN(const std::optional<CellLock> lock, around.store.lock(cell));
    if (!lock) return false;
    // Another worker may have run it before the lock was there.
    if (!around.store.has(cell)) {
      GPEMU_ASSIGN(const CellRecord record, run_cell(cell, *lock, around));
      GPEMU_TRY(around.store.write(cell, record));
      queue.note_done(true);
      return true;
    }
  }
  queue.note_done(false);
  return true;
}

void work_on(CellQueue& queue, const CellSurroundings& around) {
  while (const profile::SweepCell* cell = queue.next()) {
    if (around.stop) return queue.note_fault({ErrorCode::kInterrupted, "stopped"});
    const Result<bool> done = take_cell(*cell, around, queue);
    if (!done) return queue.note_fault(done.error());
    if (*done) continue;
    queue.put_back(*cell);
    around.world.clock.wait_until(around.world.clock.now() + kForOthers);
  }
}

}  // namespace

std::vector<std::string> printing_words(const std::vector<std::string>& words) {
  const auto program = std::ranges::find(words, "--");
  if (std::find(words.begin(), program, "--json") != program) return words;
  std::vector<std::string> result(words.begin(), program);
  result.insert(result.end(), {"--json", "-"});
  result.insert(result.end(), program, words.end());
  return result;
}

Result<std::size_t> run_cells(const profile::SweepSpec& spec, const Cells& cells,
                              const CellStore& store, const World& world, const CellWork& work) {
  CellQueue queue(cells);
  const CellSurroundings around{.spec = spec,
                                .store = store,
                                .world = world,
                                .stop = work.stop,
                                .environment = world.environment(),
                                .host = machine_name()};
  const std::size_t workers = std::min(work.at_once, cells.size());
  in_parallel(
      workers, workers, [&](std::size_t) { work_on(queue, around); },
      [&](std::size_t) { work.progress(queue.done()); });
  return queue.outcome();
}

}  // namespace gpemu::tools
