// SPDX-License-Identifier: Apache-2.0
#include "recorder.hpp"

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <unistd.h>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

#include "log.hpp"
#include "memory.hpp"

namespace gpemu::cuda {
namespace {

/// The exit code of a program that --strict ended. Source: outside the codes of error_codes.def
/// and of shells.
constexpr int kStrictExitCode = 86;

struct Total {
  std::atomic<std::int64_t> time_ns{0};
  std::atomic<std::int64_t> count{0};
};

struct Mark {
  gpemu_cuda_mark_kind kind;
  std::int64_t time_ns;
  std::string text;
};

struct Recorder {
  std::string folder;  ///< empty: nothing is written.
  bool keep_work = false;
  ::pid_t process = 0;  ///< that writes: a child after fork has nothing of its own to tell.
  std::array<Total, cost::kOperationClassCount> classes;
  std::array<Total, cost::kEvidenceNames.size()> evidence;
  std::atomic<std::int64_t> wait_ns{0};
  std::atomic<Bytes> not_kept{0};
  std::atomic<std::int64_t> first_ns{INT64_MAX};
  std::atomic<std::int64_t> last_ns{0};

  std::mutex mutex;
  std::map<std::pair<std::string, std::string>, std::int64_t> not_supported;  ///< guarded.
  std::vector<RecordedWork> work;                                             ///< guarded.
  std::vector<Mark> marks;                                                    ///< guarded.
  std::unordered_set<std::string> names;  ///< of the work; guarded.
};

/// Never destroyed, for threads of the program may still run while it exits.
Recorder& recorder() {
  static auto* const instance = new Recorder;
  return *instance;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result;
}

std::string totals_json(const auto& totals, const auto& names) {
  std::string json;
  for (std::size_t i = 0; i < totals.size(); ++i) {
    if (totals[i].count == 0) continue;
    json += fmt::format("{}\n    {{\"name\": \"{}\", \"count\": {}, \"time_ns\": {}}}",
                        json.empty() ? "" : ",", names[i], totals[i].count.load(),
                        totals[i].time_ns.load());
  }
  return json;
}

std::string devices_json() {
  std::string json;
  for (int i = 0; i < device_count(); ++i) {
    const DeviceState& device = device_at(i);
    if (!device.active) continue;
    json += fmt::format(
        "{}\n    {{\"index\": {}, \"gpu\": \"{}\", \"peak_memory_bytes\": {}, \"memory_bytes\": "
        "{}}}",
        json.empty() ? "" : ",", device.index, escaped(device.spec.name),
        memory_statistics(device).peak, device.info.total_memory);
  }
  return json;
}

std::string summary_json(Recorder& state) {
  std::string not_supported;
  for (const auto& [function, count] : state.not_supported) {
    not_supported += fmt::format(
        "{}\n    {{\"library\": \"{}\", \"function\": \"{}\", \"count\": {}}}",
        not_supported.empty() ? "" : ",", escaped(function.first), escaped(function.second), count);
  }
  const bool any = state.first_ns != INT64_MAX;
  return fmt::format(
      "{{\n  \"pid\": {},\n  \"first_ns\": {},\n  \"last_ns\": {},\n  \"wait_ns\": {},\n"
      "  \"not_kept_bytes\": {},\n"
      "  \"devices\": [{}],\n  \"classes\": [{}],\n  \"evidence\": [{}],\n"
      "  \"not_supported\": [{}]\n}}\n",
      ::getpid(), any ? state.first_ns.load() : 0, state.last_ns.load(), state.wait_ns.load(),
      state.not_kept.load(), devices_json(), totals_json(state.classes, cost::kOperationClassNames),
      totals_json(state.evidence, cost::kEvidenceNames), not_supported);
}

/// One piece of work a line, then the marks; `gpemu run` makes a trace of it.
std::string work_lines(Recorder& state) {
  std::string lines;
  for (const RecordedWork& work : state.work) {
    lines += fmt::format(
        "{{\"device\": {}, \"stream\": {}, \"start_ns\": {}, \"end_ns\": {}, \"class\": \"{}\", "
        "\"evidence\": \"{}\", \"bytes\": {}, \"name\": \"{}\"}}\n",
        work.device->index, work.stream_id, work.interval.start.time_since_epoch().count(),
        work.interval.end.time_since_epoch().count(),
        cost::operation_class_name(work.operation_class), cost::evidence_name(work.evidence),
        work.bytes, escaped(work.name));
  }
  for (const Mark& mark : state.marks) {
    lines += fmt::format("{{\"mark\": {}, \"time_ns\": {}, \"text\": \"{}\"}}\n",
                         static_cast<int>(mark.kind), mark.time_ns, escaped(mark.text));
  }
  return lines;
}

void write_records() {
  Recorder& state = recorder();
  // Before the lock, which another thread may have held when this child was forked.
  if (state.process != ::getpid()) return;
  const std::lock_guard lock(state.mutex);
  if (state.folder.empty()) return;
  const std::string path = fmt::format("{}/{}", state.folder, ::getpid());
  std::string message;
  if (const auto written = write_file_atomically(path + ".json", summary_json(state)); !written) {
    message = written.error().message;
  }
  if (state.keep_work && message.empty()) {
    if (const auto written = write_file_atomically(path + ".work", work_lines(state)); !written) {
      message = written.error().message;
    }
  }
  if (!message.empty()) fmt::print(stderr, "gpemu: {}\n", message);
  state.folder.clear();
}

void raise_to(std::atomic<std::int64_t>& target, std::int64_t value) {
  std::int64_t current = target.load(std::memory_order_relaxed);
  while (current < value && !target.compare_exchange_weak(current, value)) {
  }
}

}  // namespace

void start_recorder() {
  Recorder& state = recorder();
  const char* const folder = std::getenv("GPEMU_RECORD_DIR");
  if (folder == nullptr || folder[0] == '\0') return;
  state.folder = folder;
  state.process = ::getpid();
  state.keep_work = std::getenv("GPEMU_RECORD_WORK") != nullptr;
  static_cast<void>(std::atexit(write_records));
}

void record(const RecordedWork& work) {
  Recorder& state = recorder();
  const std::int64_t time_ns = work.interval.busy.count();
  Total& by_class = state.classes[static_cast<std::size_t>(work.operation_class)];
  by_class.time_ns.fetch_add(time_ns, std::memory_order_relaxed);
  by_class.count.fetch_add(1, std::memory_order_relaxed);
  Total& by_evidence = state.evidence[static_cast<std::size_t>(work.evidence)];
  by_evidence.time_ns.fetch_add(time_ns, std::memory_order_relaxed);
  by_evidence.count.fetch_add(1, std::memory_order_relaxed);
  const std::int64_t start_ns = work.interval.start.time_since_epoch().count();
  if (start_ns < state.first_ns.load(std::memory_order_relaxed)) state.first_ns = start_ns;
  raise_to(state.last_ns, work.interval.end.time_since_epoch().count());
  if (!state.keep_work) return;
  const std::lock_guard lock(state.mutex);
  RecordedWork& kept = state.work.emplace_back(work);
  // A module may be unloaded, with its kernels' names, before the records are written.
  kept.name = state.names.emplace(work.name).first->c_str();
}

void record_wait(Duration time) {
  recorder().wait_ns.fetch_add(time.count(), std::memory_order_relaxed);
}

void record_not_kept(Bytes bytes) {
  if (recorder().not_kept.fetch_add(bytes, std::memory_order_relaxed) != 0) return;
  fmt::print(stderr,
             "gpemu: the program reads memory whose content was not kept, for a large copy from "
             "pinned memory wrote it: zeros; `gpemu run --keep-data` keeps it\n");
}

}  // namespace gpemu::cuda

using gpemu::cuda::recorder;

void gpemu_cuda_not_supported(const char* library, const char* function) {
  const std::string_view library_name = library == nullptr ? "?" : library;
  const std::string_view function_name = function == nullptr ? "?" : function;
  auto& state = recorder();
  std::int64_t count = 0;
  {
    const std::lock_guard lock(state.mutex);
    count = ++state.not_supported[{std::string(library_name), std::string(function_name)}];
  }
  if (count == 1) {
    gpemu::cuda::tell(fmt::format("{} ({}) is not supported", function_name, library_name));
  }
  if (const char* const strict = std::getenv("GPEMU_STRICT"); strict != nullptr && *strict == '1') {
    fmt::print(stderr, "gpemu: --strict ends the program at {}\n", function_name);
    gpemu::cuda::write_records();
    ::_exit(gpemu::cuda::kStrictExitCode);
  }
}

void gpemu_cuda_mark(gpemu_cuda_mark_kind kind, const char* text) {
  if (gpemu::cuda::attach() != GPEMU_CUDA_SUCCESS) return;
  auto& state = recorder();
  if (!state.keep_work) return;
  const std::lock_guard lock(state.mutex);
  state.marks.push_back({.kind = kind,
                         .time_ns = gpemu::cuda::clock().now().time_since_epoch().count(),
                         .text = text == nullptr ? "" : text});
}
