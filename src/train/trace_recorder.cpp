// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/trace_recorder.hpp"

#include <iterator>
#include <utility>

#include <fmt/format.h>

namespace gpemu::train {
namespace {

/// Returns a string as the inside of a JSON string.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    if (static_cast<unsigned char>(character) < 0x20) {
      fmt::format_to(std::back_inserter(result), "\\u{:04x}", static_cast<int>(character));
    } else {
      result += character;
    }
  }
  return result;
}

double microseconds(Duration duration) {
  return static_cast<double>(duration.count()) * 1e-3;
}

}  // namespace

/// A row of the trace: a process and a thread to the viewer.
struct TraceRecorder::Track {
  int process;
  int thread;
};

namespace {

constexpr int kHostProcess = 1;
constexpr int kFirstGpuProcess = 2;
constexpr int kLoopThread = 1;
constexpr int kComputeThread = 1;
constexpr int kCopyThread = 2;
constexpr int kExchangeThread = 3;

}  // namespace

TraceRecorder::TraceRecorder(std::string gpu_name, StepPlan plan, Bytes max_bytes)
    : gpu_name_(std::move(gpu_name)), plan_(std::move(plan)), max_bytes_(max_bytes) {}

void TraceRecorder::name_tracks(int devices) {
  const auto name = [this](std::string_view what, int process, int thread, std::string_view value) {
    fmt::format_to(std::back_inserter(events_),
                   "{{\"name\":\"{}\",\"ph\":\"M\",\"pid\":{},\"tid\":{},"
                   "\"args\":{{\"name\":\"{}\"}}}},\n",
                   what, process, thread, escaped(value));
  };
  name("process_name", kHostProcess, 0, "host");
  name("thread_name", kHostProcess, kLoopThread, "training loop");
  for (int device = 0; device < devices; ++device) {
    const int process = kFirstGpuProcess + device;
    const bool is_one = device + 1 < devices || devices == plan_.gpus;
    name("process_name", process, 0,
         is_one ? fmt::format("GPU {} {}", device, gpu_name_)
                : fmt::format("GPUs {} to {}, alike: {}", device, plan_.gpus - 1, gpu_name_));
    name("thread_name", process, kComputeThread, "compute");
    name("thread_name", process, kCopyThread, "copy host to device");
    if (plan_.gpus > 1) name("thread_name", process, kExchangeThread, "communication");
  }
}

void TraceRecorder::add_parts(const ObservedStep& step, std::size_t device,
                              std::string_view arguments) {
  const int process = kFirstGpuProcess + static_cast<int>(device);
  const GpuStep& gpu = step.gpus[device];
  add_interval({.process = process, .thread = kCopyThread}, "copy batch", gpu.copy, arguments);
  std::size_t computes = 0, exchanges = 0;
  for (const StepPart& part : plan_.parts) {
    if (part.exchange) {
      add_interval({.process = process, .thread = kExchangeThread}, part.name,
                   step.exchanges.at(exchanges++), arguments);
    } else {
      add_interval({.process = process, .thread = kComputeThread}, part.name,
                   gpu.compute.at(computes++), arguments);
    }
  }
}

void TraceRecorder::add_interval(const Track& track, std::string_view name,
                                 const device::Interval& interval, std::string_view arguments) {
  if (interval.start == interval.end) return;
  fmt::format_to(std::back_inserter(events_),
                 "{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{:.3f},"
                 "\"dur\":{:.3f},\"args\":{{{}}}}},\n",
                 name, track.process, track.thread, microseconds(interval.start - origin_),
                 microseconds(interval.end - interval.start), arguments);
}

void TraceRecorder::add(const ObservedStep& step) {
  if (events_.size() >= max_bytes_) {
    ++steps_left_out_;
    return;
  }
  if (events_.empty()) {
    origin_ = step.batch_wait.start;
    name_tracks(static_cast<int>(step.gpus.size()));
  }
  const std::string number = fmt::format("\"step\":{},\"epoch\":{}", step.index, step.epoch);
  const Track host{.process = kHostProcess, .thread = kLoopThread};
  add_interval(
      host, "wait for batch", step.batch_wait,
      fmt::format("{},\"fetch_ms\":{:.3f},\"prep_ms\":{:.3f},\"bytes_read\":{},"
                  "\"corrupt\":{}",
                  number, to_milliseconds(step.work.fetch), to_milliseconds(step.work.prep),
                  step.work.bytes_read, step.work.corrupt));
  for (std::size_t device = 0; device < step.gpus.size(); ++device) add_parts(step, device, number);
  add_interval(host, "wait for step", step.end_wait, number);
}

std::string TraceRecorder::json(std::string_view facts) const {
  // Viewers want no comma after the last event.
  std::string_view events = events_;
  if (events.ends_with(",\n")) events.remove_suffix(2);
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"steps_left_out\":{},\"run\":{}}},"
      "\"traceEvents\":[\n{}\n]}}\n",
      steps_left_out_, facts, events);
}

}  // namespace gpemu::train
