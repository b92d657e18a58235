// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/recorder.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <map>
#include <memory>
#include <pthread.h>
#include <string>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/log.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/device/pinned_memory.hpp"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/process.hpp"
#include "gpemu/process/process_record.hpp"
#include "gpemu/process/settings.hpp"

#include "busy_time.hpp"
#include "collective_time.hpp"
#include "host_time.hpp"
#include "line_file.hpp"
#include "operation_lines.hpp"
#include "read_counts.hpp"

namespace gpemu::process {

struct Recorder {
  RecordSettings settings;
  ProcessRecord* totals;            ///< never null.
  std::unique_ptr<LineFile> lines;  ///< null if operations are not kept.

  Mutex count_mutex;                                      ///< of the totals of work.
  std::array<BusyTime, ProcessRecord::kMaxDevices> busy;  ///< guarded by the devices' schedule.

  Mutex mutex;
  /// Those that have a line.
  std::unordered_map<std::string, int> names GPEMU_GUARDED_BY(mutex);
  /// Unsupported calls, by library and function. Only the first have a record.
  std::map<std::pair<std::string, std::string>, std::int64_t> calls GPEMU_GUARDED_BY(mutex);

  /// Held under the schedule's lock, too.
  Mutex collective_mutex;
  std::uint64_t collectives GPEMU_GUARDED_BY(collective_mutex) = 0;
  std::map<int, CollectiveTime> collective_times
      GPEMU_GUARDED_BY(collective_mutex);  ///< by device.
  std::atomic<bool> has_collectives = false;

  Mutex read_mutex;
  ReadCounts reads GPEMU_GUARDED_BY(read_mutex){totals->reads};
};

namespace {

/// The exit code of a program that --strict ended. Source: outside the codes of error_codes.def
/// and of shells.
constexpr int kStrictExitCode = 86;

static_assert(kernels::kOperationClassCount <= ProcessRecord::kMaxClasses);
static_assert(cost::kEvidenceNames.size() <= ProcessRecord::kMaxEvidence);

void add(std::int64_t& field, std::int64_t value) {
  std::atomic_ref(field).fetch_add(value, std::memory_order_relaxed);
}

void set(std::int64_t& field, std::int64_t value) {
  std::atomic_ref(field).store(value, std::memory_order_relaxed);
}

template <std::size_t Size>
void copy_name(char (&destination)[Size], std::string_view text) {
  destination[text.copy(destination, Size - 1)] = '\0';
}

/// Returns the mapped record of this process, or one in memory if none is requested.
ProcessRecord* make_totals(const std::string& folder) {
  if (!folder.empty()) {
    const std::string path = fmt::format("{}/{}.record", folder, ::getpid());
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    int error = file.valid() ? take_space(file, 0, sizeof(ProcessRecord)) : errno;
    if (error == 0) {
      void* const mapped =
          ::mmap(nullptr, sizeof(ProcessRecord), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
      if (mapped != MAP_FAILED) return new (mapped) ProcessRecord;
      error = errno;
    }
    if (file.valid()) ::unlink(path.c_str());  // An incomplete record is useless.
    notice(fmt::format("cannot record in {}: {}", path, errno_message(error)));
  }
  return new ProcessRecord;
}

/// An unsupported call may come before the process attaches, or after it failed to.
RecordSettings record_settings(const Process& state) {
  const Phase phase = state.phase.load(std::memory_order_acquire);
  const bool were_read = phase == Phase::kAttached || phase == Phase::kForked;
  return were_read ? state.settings->record : read_record_settings(std::getenv);
}

Recorder* make_recorder(const Process& state) {
  const RecordSettings settings = record_settings(state);
  const std::string& folder = settings.folder;
  auto* const made = new Recorder{.settings = settings, .totals = make_totals(folder)};
  made->totals->process = ::getpid();
  std::atomic_ref(made->totals->magic).store(ProcessRecord::kMagic, std::memory_order_release);
  if (!folder.empty() && settings.operations) {
    made->lines = std::make_unique<LineFile>(fmt::format("{}/{}.lines", folder, ::getpid()));
  }
  return made;
}

[[gnu::noinline]] Recorder& recorder_of(Process& state) {
  const Lock lock(state.recorder_mutex);
  if (state.recorder.load() == nullptr) state.recorder = make_recorder(state);
  return *state.recorder.load();
}

/// Never destroyed, because threads of the program may still run while it exits. A child after fork
/// makes its own; it must not count for its parent.
Recorder& recorder() {
  Process& state = process();
  Recorder* const found = state.recorder.load(std::memory_order_acquire);
  return found != nullptr ? *found : recorder_of(state);
}

// ---- Lines

void add_line(Recorder& state, std::string_view line) {
  if (state.lines->add(line)) {
    add(state.totals->lines, 1);
    return;
  }
  std::int64_t& left_out = state.totals->lines_left_out;
  if (std::atomic_ref(left_out).fetch_add(1) == 0) {
    notice(
        "no space for records of operations, so later ones are left out; set TMPDIR to another "
        "folder");
  }
}

/// Returns the number of a name, whose own line comes before the first line that uses it.
int number_of(Recorder& state, const char* name) {
  const Lock lock(state.mutex);
  const auto [entry, added] = state.names.emplace(name, static_cast<int>(state.names.size()));
  if (added) {
    add_line(state, name_line(entry->second, name));
  }
  return entry->second;
}

::pid_t thread_number() {
  thread_local const ::pid_t number = ::gettid();
  return number;
}

void write_mark(Recorder& state, std::string_view kind, std::string_view text) {
  add_line(state, mark_line(kind, text, process().clock->now(), thread_number()));
}

// ---- Devices

// Each operation reads it; for the assertion and the TLS model, see thread_state.
static_assert(std::is_trivially_destructible_v<HostTime>);
[[gnu::tls_model("initial-exec")]] thread_local constinit HostTime host_time;

std::int64_t processor_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

void count_gap(RecordedDevice& device, std::int64_t gap_ns, std::int64_t now_ns) {
  const HostTime::Parts parts = host_time.divide(gap_ns, now_ns, processor_time);
  add(device.unasked_ns, gap_ns);
  add(device.computing_ns, parts.computing);
  add(device.blocked_ns, parts.blocked);
}

/// Requires: the schedule's lock is held.
void count_span(RecordedDevice& device, std::int64_t start_ns, std::int64_t end_ns) {
  set(device.first_ns, device.last_ns == 0 ? start_ns : std::min(device.first_ns, start_ns));
  set(device.last_ns, std::max(device.last_ns, end_ns));
}

void count(RecordedTotal& total, std::int64_t time_ns) {
  ++total.count;
  total.time_ns += time_ns;
}

void count_kind(ProcessRecord& totals, const RecordedCollective& work, std::int64_t waiting_ns,
                std::int64_t moving_ns) {
  for (RecordedCollectiveKind& kind : totals.collectives) {
    if (kind.count == 0) {
      copy_name(kind.name, work.name);
      kind.ranks = work.ranks;
    } else if (std::string_view(work.name) != kind.name || kind.ranks != work.ranks) {
      continue;
    }
    add(kind.bytes, static_cast<std::int64_t>(work.bytes));
    add(kind.bus_bytes,
        static_cast<std::int64_t>(static_cast<double>(work.bytes) * work.bus_factor));
    add(kind.waiting_ns, waiting_ns);
    add(kind.moving_ns, moving_ns);
    std::atomic_ref(kind.count).fetch_add(1, std::memory_order_release);
    return;
  }
}

}  // namespace

void handle_forks_of_recorder() {
  ::pthread_atfork(
      []() GPEMU_ACQUIRES(process().recorder_mutex) { process().recorder_mutex.lock(); },
      []() GPEMU_RELEASES(process().recorder_mutex) { process().recorder_mutex.unlock(); },
      []() GPEMU_RELEASES(process().recorder_mutex) {
        process().recorder = nullptr;
        process().recorder_mutex.unlock();
      });
}

void record_device(const DeviceState& device) {
  if (device.ordinal >= ProcessRecord::kMaxDevices) return;
  RecordedDevice& entry = recorder().totals->devices[device.ordinal];
  entry.index = device.index;
  copy_name(entry.gpu, device.spec.name);
  entry.memory_bytes = device.info.total_memory;
  std::atomic_ref(entry.used).store(1, std::memory_order_release);
}

void record(const RecordedWork& work) {
  Recorder& state = recorder();
  const std::int64_t time_ns = work.queued.busy.count();
  const std::int64_t asked_ns = to_ns(work.queued.asked);
  const auto ordinal = static_cast<std::size_t>(work.device->ordinal);
  const bool device_counts = ordinal < ProcessRecord::kMaxDevices;
  std::int64_t gap_ns = 0;
  {
    const Lock lock(state.count_mutex);
    count(state.totals->classes[static_cast<std::size_t>(work.operation_class)], time_ns);
    count(state.totals->evidence[static_cast<std::size_t>(work.evidence)], time_ns);
    if (device_counts) {
      if (state.totals->devices[ordinal].operations++ > 0) gap_ns = work.queued.idle.count();
    }
  }
  if (gap_ns > 0) count_gap(state.totals->devices[ordinal], gap_ns, asked_ns);
  host_time.sample_if_old(asked_ns, processor_time);
  if (state.lines != nullptr) {
    add_line(state, operation_line(work, number_of(state, work.name), thread_number()));
  }
}

void record_start(const DeviceState& device, const device::StartedWork& work) {
  Recorder& state = recorder();
  if (work.moved != 0 && state.lines != nullptr) add_line(state, moved_line(work));
  const auto ordinal = static_cast<std::size_t>(device.ordinal);
  if (ordinal >= ProcessRecord::kMaxDevices) return;
  const std::int64_t start_ns = to_ns(work.start);
  const std::int64_t end_ns = to_ns(work.end);
  BusyTime& busy = state.busy[ordinal];
  if (work.turns.empty()) busy.add(start_ns, end_ns);
  for (const device::Turn& turn : work.turns) busy.add(to_ns(turn.start), to_ns(turn.end));
  RecordedDevice& entry = state.totals->devices[ordinal];
  entry.busy_ns = busy.total();
  count_span(entry, start_ns, end_ns);
  if (work.engine != device::Engine::kCompute || !state.has_collectives.load()) return;
  const Lock lock(state.collective_mutex);
  CollectiveTime& time = state.collective_times[device.ordinal];
  time.run(start_ns, end_ns);
  set(entry.collective_hidden_ns, time.hidden());
}

void expect_collectives() {
  Recorder& state = recorder();
  if (!state.settings.folder.empty()) state.has_collectives = true;
}

std::uint64_t record_collective(const RecordedCollective& work) {
  Recorder& state = recorder();
  if (state.settings.folder.empty() || work.device->ordinal >= ProcessRecord::kMaxDevices) return 0;
  RecordedDevice& entry = state.totals->devices[work.device->ordinal];
  std::uint64_t number = 0;
  {
    const Lock lock(state.collective_mutex);
    number = ++state.collectives;
    state.collective_times[work.device->ordinal].ask(to_ns(work.asked));
    add(entry.collectives, 1);
    add(entry.collectives_open, 1);
    if (work.ranks > entry.ranks) {
      std::atomic_ref(entry.rank).store(work.rank);
      std::atomic_ref(entry.ranks).store(work.ranks);
    }
  }
  if (state.lines != nullptr) {
    add_line(state, collective_line(work, number, number_of(state, work.name), thread_number()));
  }
  return number;
}

void record_collective_end(const RecordedCollective& work, std::uint64_t number,
                           const device::RoundTimes& times, int waited_for) {
  Recorder& state = recorder();
  RecordedDevice& entry = state.totals->devices[work.device->ordinal];
  const std::int64_t waiting_ns = (times.start - times.arrived).count();
  count_span(entry, to_ns(times.arrived), to_ns(times.end));
  {
    const Lock lock(state.collective_mutex);
    CollectiveTime& time = state.collective_times[work.device->ordinal];
    time.finish(to_ns(work.asked), to_ns(times.arrived), to_ns(times.start), to_ns(times.end));
    add(entry.collectives_open, -1);
    add(entry.collective_bytes, static_cast<std::int64_t>(work.bytes));
    set(entry.collective_ns, time.total());
    set(entry.collective_moving_ns, time.moving());
    set(entry.collective_hidden_ns, time.hidden());
    count_kind(*state.totals, work, waiting_ns, (times.end - times.start).count());
  }
  if (waiting_ns > 0 && waited_for >= 0 && waited_for < ProcessRecord::kMaxDevices) {
    add(state.totals->waited_for_ns[waited_for], waiting_ns);
  }
  if (state.lines != nullptr) add_line(state, collective_end_line(number, times, waited_for));
}

void record_wait(Duration time) {
  Recorder& state = recorder();
  add(state.totals->wait_ns, time.count());
  if (state.lines != nullptr && time > Duration::zero()) write_mark(state, "wait", "");
  if (time.count() > HostTime::kShortGap) {
    host_time.sample(to_ns(process().clock->now()), processor_time);
  }
}

void record_move(Bytes bytes, Duration took, TimePoint end) {
  ProcessRecord& totals = *recorder().totals;
  add(totals.moved_bytes, static_cast<std::int64_t>(bytes));
  // Virtual time stands still while the host works, so nothing is late.
  if (!process().time_is_real) return;
  add(totals.moving_ns, took.count());
  add(totals.late_ns, std::max((process().clock->now() - end).count(), std::int64_t{0}));
}

void record_late_wait(Duration time) {
  if (time <= Duration::zero() || !process().time_is_real) return;
  add(recorder().totals->late_wait_ns, time.count());
  host_time.add_late_wait(time.count());
}

void record_not_locked(Bytes bytes) {
  const std::atomic_ref not_locked(recorder().totals->not_locked_bytes);
  if (not_locked.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed) == 0) {
    tell(device::not_locked_text(bytes));
  }
}

void record_not_kept(Bytes bytes) {
  const std::atomic_ref not_kept(recorder().totals->not_kept_bytes);
  if (not_kept.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed) != 0) return;
  notice(
      "the program reads memory that a large copy from pinned memory wrote: it gets zeros, because "
      "--drop-data does not keep such copies");
}

void record_not_computed(std::uint64_t address, Bytes bytes, WriterId writer) {
  Recorder& state = recorder();
  add(state.totals->not_computed_bytes, static_cast<std::int64_t>(bytes));
  Lock lock(state.read_mutex);
  const bool polled = state.reads.add(address, bytes, writer);
  lock.unlock();
  if (!polled && !state.settings.strict) return;
  const std::string name = kernels::readable_name(writer_name(writer));
  if (state.settings.strict) {
    notice(fmt::format(
        "--strict ends the program: it reads {} bytes written by {}, whose values are not computed",
        bytes, name));
    ::_exit(kStrictExitCode);
  }
  tell(
      fmt::format("the program has read the same {} bytes {} times; their values, written by {}, "
                  "are not computed, so a loop that waits for them does not end",
                  bytes, ReadCounts::kPolls, name));
}

void record_memory(int ordinal, Bytes held) {
  if (ordinal >= ProcessRecord::kMaxDevices) return;
  std::atomic_ref peak(recorder().totals->devices[ordinal].peak_memory_bytes);
  std::uint64_t current = peak.load(std::memory_order_relaxed);
  while (current < held && !peak.compare_exchange_weak(current, held)) {
  }
}

void record_allocation(int ordinal, std::uint64_t address, std::int64_t bytes) {
  Recorder& state = recorder();
  if (state.lines == nullptr) return;
  add_line(state, memory_line(bytes, address, ordinal));
}

namespace {

/// Counts a call and returns its count.
std::int64_t count_call(Recorder& state, std::string_view library, std::string_view function) {
  const Lock lock(state.mutex);
  const std::int64_t count = ++state.calls[{std::string(library), std::string(function)}];
  for (RecordedCall& call : state.totals->calls) {
    if (call.count == 0) {
      copy_name(call.library, library);
      copy_name(call.function, function);
    } else if (library != call.library || function != call.function) {
      continue;
    }
    std::atomic_ref(call.count).store(count, std::memory_order_release);
    return count;
  }
  add(state.totals->calls_left_out, 1);
  return count;
}

}  // namespace

void record_not_supported(std::string_view library, std::string_view function) {
  Recorder& state = recorder();
  if (count_call(state, library, function) == 1) {
    tell(fmt::format("{} ({}) is not supported", function, library));
  }
  end_if_strict(fmt::format("at {}", function));
}

void end_if_strict(std::string_view where) {
  if (!recorder().settings.strict) return;
  notice(fmt::format("--strict ends the program {}", where));
  ::_exit(kStrictExitCode);
}

std::int64_t recorded_not_computed_bytes() {
  const std::atomic_ref bytes(recorder().totals->not_computed_bytes);
  return bytes.load(std::memory_order_relaxed);
}

void write_event_use(const gpemu_cuda_event& event, std::uint64_t stream_id, bool waits) {
  Recorder& state = recorder();
  if (state.lines == nullptr) return;
  add_line(state, event_line(waits ? "event_wait" : "event_record",
                             reinterpret_cast<std::uintptr_t>(&event), stream_id,
                             process().clock->now(), thread_number()));
}

void record_mark(gpemu_cuda_mark_kind kind, std::string_view text) {
  Recorder& state = recorder();
  if (state.lines != nullptr) write_mark(state, mark_name(kind), text);
}

}  // namespace gpemu::process
