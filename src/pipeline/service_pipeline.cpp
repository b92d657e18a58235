// SPDX-License-Identifier: Apache-2.0
#include "gpemu/pipeline/service_pipeline.hpp"

#include <cmath>
#include <optional>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/pipeline/event_loop.hpp"

namespace gpemu::pipeline {
namespace {

class ServiceSimulation {
 public:
  explicit ServiceSimulation(const ServiceSetup& setup) : setup_(setup) {
    host_ = loop_.add_station({0, static_cast<double>(setup.cpus)});
    for (int i = 0; i < setup.remote_workers; ++i) {
      workers_.push_back(
          {.cpu = loop_.add_station({0, static_cast<double>(setup.remote_cpus)}), .ready = 0});
    }
    local_left_ = local_before(setup.steps);
    remote_left_ = setup.steps - local_left_;
  }

  EpochResult run() {
    prepare_here();
    for (std::uint32_t i = 0; i < workers_.size(); ++i) prepare_at(i);
    while (const std::optional<Event> event = loop_.next()) handle(*event);
    GPEMU_CHECK(taken_ == setup_.steps, "each step has a batch");
    result_.epoch_s = loop_.now_s();
    return result_;
  }

 private:
  enum Kind : std::uint32_t { kPreparedHere, kPreparedThere, kReceived, kStepped };

  /// A remote worker. It works on one batch at a time, with all its processors.
  struct RemoteWorker {
    EventLoop::StationId cpu = 0;
    int ready = 0;  ///< batches that it has prepared, and that nobody has fetched.
    bool busy = false;
  };

  void handle(const Event& event) {
    switch (event.kind) {
      case kPreparedHere:
        here_ = false;
        result_.cache_reads += static_cast<std::uint64_t>(setup_.batch);
        ++ready_here_;
        prepare_here();
        break;
      case kPreparedThere:
        workers_[event.index].busy = false;
        ++workers_[event.index].ready;
        prepare_at(event.index);
        break;
      case kReceived:
        receiving_ = false;
        result_.peer_reads += static_cast<std::uint64_t>(setup_.batch);
        ++received_;
        break;
      default:
        stepping_ = false;
        since_s_ = loop_.now_s();
        break;
    }
    receive();
    take();
  }

  [[nodiscard]] double samples() const { return setup_.batch; }
  /// Returns how many of the first steps are prepared here: steps of both kinds take turns.
  [[nodiscard]] std::uint64_t local_before(std::uint64_t step) const {
    return static_cast<std::uint64_t>(
        std::floor(setup_.local_share * static_cast<double>(step) + 1e-9));
  }

  void prepare_here() {
    if (here_ || local_left_ == 0 || ready_here_ >= setup_.prefetch) return;
    here_ = true;
    --local_left_;
    loop_.serve(host_, samples() * setup_.image_s, {.kind = kPreparedHere});
  }

  void prepare_at(std::uint32_t index) {
    RemoteWorker& worker = workers_[index];
    if (worker.busy || remote_left_ == 0 || worker.ready >= setup_.prefetch) return;
    worker.busy = true;
    --remote_left_;
    loop_.serve(worker.cpu, samples() * (setup_.image_s + setup_.send_s),
                {.kind = kPreparedThere, .index = index});
  }

  /// Fetches a batch from the next worker in turn that has one.
  void receive() {
    if (receiving_ || received_ >= setup_.prefetch) return;
    for (std::uint32_t i = 0; i < workers_.size(); ++i) {
      const auto index = static_cast<std::uint32_t>((next_worker_ + i) % workers_.size());
      RemoteWorker& worker = workers_[index];
      if (worker.ready == 0) continue;
      --worker.ready;
      receiving_ = true;
      next_worker_ = index + 1;
      loop_.serve(host_, samples() * setup_.receive_s, {.kind = kReceived});
      return prepare_at(index);
    }
  }

  /// The GPUs take the batch of the next step.
  void take() {
    const bool local = local_before(taken_ + 1) > local_before(taken_);
    int& ready = local ? ready_here_ : received_;
    if (stepping_ || ready == 0) return;
    --ready;
    stepping_ = true;
    const double waited_s = loop_.now_s() - since_s_;
    result_.wait_s += waited_s;
    if (taken_++ == 0) result_.first_wait_s = waited_s;
    result_.step_s += setup_.step_s;
    result_.samples += static_cast<std::uint64_t>(setup_.batch);
    loop_.after(setup_.step_s, {.kind = kStepped});
    prepare_here();
    receive();
  }

  const ServiceSetup& setup_;
  EventLoop loop_;
  EventLoop::StationId host_ = 0;
  std::vector<RemoteWorker> workers_;
  std::uint64_t local_left_ = 0, remote_left_ = 0;  ///< steps to begin to prepare.
  std::uint64_t taken_ = 0;                         ///< steps that the GPUs have begun.
  std::uint32_t next_worker_ = 0;
  int ready_here_ = 0;  ///< batches that were prepared here,
  int received_ = 0;    ///< and elsewhere, and that the GPUs have not taken.
  bool here_ = false, receiving_ = false, stepping_ = false;
  double since_s_ = 0;
  EpochResult result_;
};

}  // namespace

EpochResult simulate_service(const ServiceSetup& setup) {
  GPEMU_CHECK(setup.steps > 0 && setup.batch > 0 && setup.cpus > 0 && setup.remote_cpus > 0 &&
                  setup.prefetch > 0 && (setup.remote_workers > 0 || setup.local_share == 1),
              "somebody prepares each batch");
  return ServiceSimulation(setup).run();
}

}  // namespace gpemu::pipeline
