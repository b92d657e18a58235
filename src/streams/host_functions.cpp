// SPDX-License-Identifier: Apache-2.0
#include "gpemu/streams/host_functions.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/streams/mover.hpp"
#include "gpemu/streams/waits.hpp"

namespace gpemu::streams {

/// Calls functions of the program at their emulated time, one after the other.
class HostFunctions {
 public:
  /// `stream` may be null: then nothing depends on the call. Returns whether there is a thread for
  /// it.
  [[nodiscard]] bool add(const device::Moment& time, void (*function)(void*), void* data,
                         gpemu_cuda_stream* stream) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    if (!thread_.joinable()) thread_ = start_thread("gpemu-host", [this] { run(); });
    if (!thread_.joinable()) return false;
    const std::uint64_t order = next_++;
    open_.insert(order);
    open_host_calls.store(open_.size(), std::memory_order_release);
    calls_.push_back({time, order, function, data});
    if (stream != nullptr) follow_locked(*stream, {order});
    changed_.notify_all();
    if (awaited_) awaited_->wake_waiters();
    return true;
  }

  void follow(gpemu_cuda_stream& stream, const HostCalls& others) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    follow_locked(stream, others);
  }

  void copy(const gpemu_cuda_stream& stream, HostCalls& calls) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    calls = calls_of(stream);
  }

  bool have_returned(const HostCalls& calls) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    return have_returned_locked(calls);
  }
  bool have_returned(const gpemu_cuda_stream& stream) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    return have_returned_locked(calls_of(stream));
  }

  void wait(const HostCalls& calls) GPEMU_EXCLUDES(mutex_) {
    Lock lock(mutex_);
    wait_locked(lock, calls);
  }
  void wait(const gpemu_cuda_stream& stream) GPEMU_EXCLUDES(mutex_) {
    Lock lock(mutex_);
    wait_locked(lock, calls_of(stream));
  }
  void wait(const process::DeviceState& device) GPEMU_EXCLUDES(mutex_) {
    Lock lock(mutex_);
    wait_locked(lock, devices_[&device].all);
  }

 private:
  struct Call {
    device::Moment time;
    std::uint64_t order;
    void (*function)(void*);
    void* data;
  };
  /// The host functions on which a device's streams depend: those of any stream, and those of the
  /// streams for which the legacy default stream waits.
  struct DeviceCalls {
    HostCalls all, blocking;
  };

  void merge(HostCalls& calls, const HostCalls& others) const GPEMU_REQUIRES(mutex_) {
    std::erase_if(calls, [this](std::uint64_t order) GPEMU_REQUIRES(mutex_) {
      const bool returned = !open_.contains(order);
      return returned;
    });
    for (const std::uint64_t order : others) {
      if (open_.contains(order) && std::ranges::find(calls, order) == calls.end()) {
        calls.push_back(order);
      }
    }
  }

  /// Makes a stream depend on host functions as device::Stream makes it depend on times.
  void follow_locked(gpemu_cuda_stream& stream, const HostCalls& others) GPEMU_REQUIRES(mutex_) {
    DeviceCalls& device = devices_[stream.device];
    merge(stream.host_calls, others);
    const bool waits_for_legacy =
        stream.owned != nullptr && (stream.flags & kNonBlockingStream) == 0;
    if (is_legacy(stream)) merge(stream.host_calls, device.blocking);
    if (waits_for_legacy) merge(stream.host_calls, stream.device->default_stream->host_calls);
    if (is_legacy(stream) || waits_for_legacy) merge(device.blocking, stream.host_calls);
    merge(device.all, stream.host_calls);
  }

  static bool is_legacy(const gpemu_cuda_stream& stream) {
    return stream.device->default_stream == &stream;
  }

  HostCalls calls_of(const gpemu_cuda_stream& stream) GPEMU_REQUIRES(mutex_) {
    return is_legacy(stream) ? devices_[stream.device].blocking : stream.host_calls;
  }

  [[nodiscard]] bool have_returned_locked(const HostCalls& calls) const GPEMU_REQUIRES(mutex_) {
    return std::ranges::none_of(calls, [this](std::uint64_t order) GPEMU_REQUIRES(mutex_) {
      return open_.contains(order);
    });
  }

  /// `calls` is a copy: while this waits, streams get more.
  void wait_locked(Lock& lock, const HostCalls calls) GPEMU_REQUIRES(mutex_) {
    if (std::this_thread::get_id() == thread_.get_id()) return;
    done_.wait(lock, [&]() GPEMU_REQUIRES(mutex_) { return have_returned_locked(calls); });
  }

  /// Returns the call that is due first; of several, the one queued first. Requires: there is one.
  std::vector<Call>::iterator next() GPEMU_REQUIRES(mutex_) {
    return std::ranges::min_element(
        calls_, {}, [](const Call& call) { return std::pair(call.time.time(), call.order); });
  }

  void run() {
    Lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this]() GPEMU_REQUIRES(mutex_) { return !calls_.empty(); });
      const std::uint64_t order = next()->order;
      const std::uint32_t seen = next()->time.news();
      const TimePoint time = next()->time.time();
      if (time == TimePoint::max()) {
        // It waits for other parties at a rendezvous.
        const device::Moment open = *(awaited_ = next()->time);
        lock.unlock();
        open.wait_for_news(process::clock(), seen, TimePoint::max());
        lock.lock();
        awaited_.reset();
        continue;
      }
      // A call queued meanwhile may be due earlier, and new work may delay this one. Virtual time
      // stands still while no thread waits, so there is no need to sleep.
      const Duration ahead = time - process::clock().now() - process::clock().lead();
      if (ahead > Duration::zero() && process::process().time_is_real) {
        const auto comes_earlier = [&]() GPEMU_REQUIRES(mutex_) { return next()->order != order; };
        if (changed_.wait_for(lock, ahead, comes_earlier)) continue;
      }
      lock.unlock();
      process::clock().wait_until(time);
      lock.lock();
      const auto due = next();
      if (due->order != order || !due->time.is_over(process::clock().now())) continue;
      const Call call = *due;
      calls_.erase(due);
      lock.unlock();
      wait_for_moves(time);
      in_host_function = true;
      call.function(call.data);
      in_host_function = false;
      lock.lock();
      open_.erase(call.order);
      open_host_calls.store(open_.size(), std::memory_order_release);
      done_.notify_all();
      lock.unlock();
      mover().look_again();
      lock.lock();
    }
  }

  Mutex mutex_;
  Condition changed_, done_;
  std::vector<Call> calls_ GPEMU_GUARDED_BY(mutex_);
  /// Calls that have not returned, including those in `calls_`.
  std::set<std::uint64_t> open_ GPEMU_GUARDED_BY(mutex_);
  std::map<const process::DeviceState*, DeviceCalls> devices_ GPEMU_GUARDED_BY(mutex_);
  /// An open moment for which the thread waits.
  std::optional<device::Moment> awaited_ GPEMU_GUARDED_BY(mutex_);
  std::uint64_t next_ GPEMU_GUARDED_BY(mutex_) = 1;
  std::thread thread_;
};

namespace {

HostFunctions& host_functions() {
  static constinit process::MadeOnce<HostFunctions> made;
  return made.get();
}

}  // namespace

bool add_host_function(const device::Moment& time, void (*function)(void*), void* data,
                       gpemu_cuda_stream& stream) {
  return host_functions().add(time, function, data, &stream);
}

bool call_at(const device::Moment& time, void (*function)(void*), void* data) {
  return host_functions().add(time, function, data, nullptr);
}

void follow_slowly(gpemu_cuda_stream& stream, const HostCalls* others) {
  static const HostCalls none;
  host_functions().follow(stream, others == nullptr ? none : *others);  // Read under its lock.
}

void copy_host_calls_slowly(const gpemu_cuda_stream& stream, HostCalls& calls) {
  host_functions().copy(stream, calls);
}

bool have_returned(const HostCalls& calls) {
  return !any_host_calls() || host_functions().have_returned(calls);
}

bool have_returned(const gpemu_cuda_stream& stream) {
  return !any_host_calls() || host_functions().have_returned(stream);
}

void wait_for_host_functions(const HostCalls& calls) {
  if (any_host_calls()) host_functions().wait(calls);
}

void wait_for_host_functions(const gpemu_cuda_stream& stream) {
  if (any_host_calls()) host_functions().wait(stream);
}

void wait_for_host_functions(const process::DeviceState& device) {
  if (any_host_calls()) host_functions().wait(device);
}

}  // namespace gpemu::streams
