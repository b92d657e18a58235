// SPDX-License-Identifier: Apache-2.0
//
// Jobs that share one device, on the virtual clock: reads what they do from standard input, and
// prints what came of it as JSON. scripts/claims/check_policies.py uses it. The words, one line
// each:
//
//     share POLICY             time-slices, mps, antman, tgs or orion
//     slices QUANTUM_US SWITCH_US
//     run FROM_S TO_S          what ends between these times counts
//     job NAME CLASS PART      from here on, of this job, whose lines are repeated for ever. It may
//                              use that part of the multiprocessors: below 1, as a client of MPS
//     kernels COUNT COST_NS MEMORY_SHARE WIDTH HOST_NS    each after so much time of the host
//     pause NS                 of the host
//     ahead STEPS              waits until no more steps than this have not ended
//     arrive PER_S SEED        waits for the next request, which come at random, at this rate
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/saturate.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu {
namespace {

using device::ProcessPriority;
using device::SharingPolicy;

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "shared_jobs: " << why << "\n";
  std::exit(2);
}

template <typename Value>
Value named(const std::map<std::string, Value>& values, const std::string& name) {
  const auto found = values.find(name);
  if (found == values.end()) give_up(fmt::format("there is no '{}'", name));
  return found->second;
}

/// Something that a job does.
struct Action {
  enum class Kind { kKernels, kPause, kAhead, kArrive };
  Kind kind = Kind::kPause;
  std::int64_t count = 0;
  Duration time{};  ///< of a kernel or a pause.
  Duration host{};
  double memory_share = 0, width = 1, rate = 0;
};

/// A process that does the same again and again.
class Job {
 public:
  Job(std::string name, ProcessPriority priority, double part)
      : name_(std::move(name)), priority_(priority), part_(part) {}

  void add(Action action, std::uint64_t seed = 0) {
    if (action.kind == Action::Kind::kKernels) action.time = time_on(action.time, part_);
    actions_.push_back(action);
    if (action.kind == Action::Kind::kArrive) random_ = sim::Rng(seed);
  }
  [[nodiscard]] bool does_nothing() const { return actions_.empty(); }
  void open(std::shared_ptr<device::Node> node, sim::Clock& clock) {
    node_ = std::move(node);
    node_->set_priority(priority_);
    std::optional<device::MpsClient> client;
    if (part_ < 1) client = {.width = static_cast<std::uint32_t>(part_ * device::kWholeWidth)};
    auto opened = device::Device::open(node_, 0, clock, client);
    if (!opened) give_up(opened.error().message);
    device_ = *std::move(opened);
    stream_ = &device_->default_stream();
  }

  /// Does what is due at a time. Returns when there is more to do.
  TimePoint act(TimePoint now) {
    note_ends(now);
    while (due_ <= now) {
      const Action& action = actions_[next_];
      switch (action.kind) {
        case Action::Kind::kKernels:
          if (!launch(action, now)) return due_;
          break;
        case Action::Kind::kPause:
          due_ = now + action.time;
          break;
        case Action::Kind::kAhead:
          if (static_cast<std::int64_t>(running_.size()) > action.count) {
            return running_[running_.size() - 1 - static_cast<std::size_t>(action.count)]
                .end.time();
          }
          break;
        case Action::Kind::kArrive:
          begin_ = arrival_ += Duration(
              static_cast<std::int64_t>(-std::log(1 - random_.uniform()) / action.rate * 1e9));
          due_ = std::max(now, arrival_);
          break;
      }
      if (++next_ < actions_.size()) continue;
      next_ = 0;
      running_.push_back({.begin = begin_, .end = stream_->tail()});
      begin_ = std::max(due_, now);
    }
    return due_;
  }

  /// Prints what ended between two times.
  [[nodiscard]] std::string result(TimePoint from, TimePoint to) const {
    std::vector<double> times;
    for (const auto& [begin, end] : ended_) {
      if (begin >= from && end <= to) {
        times.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
      }
    }
    std::ranges::sort(times);
    const auto at = [&](double share) {
      if (times.empty()) return 0.0;
      const auto place =
          static_cast<std::size_t>(std::ceil(share * static_cast<double>(times.size())));
      return times[std::min(std::max(place, std::size_t{1}), times.size()) - 1];
    };
    const auto count = std::ranges::count_if(
        ended_, [&](const auto& one) { return one.second > from && one.second <= to; });
    return fmt::format(
        "\"{}\": {{\"per_s\": {:.6f}, \"p50_ms\": {:.6f}, \"p99_ms\": {:.6f}}}", name_,
        static_cast<double>(count) / std::chrono::duration<double>(to - from).count(), at(0.5),
        at(0.99));
  }
  [[nodiscard]] device::Node& node() const { return *node_; }

 private:
  struct Step {
    TimePoint begin;
    device::Moment end;
  };

  /// Returns how long a kernel takes on a part of the multiprocessors.
  static Duration time_on(Duration whole, double part) {
    return std::chrono::round<Duration>(whole / part);
  }

  /// Launches the kernels of an action, each after the host's time. Returns whether all are.
  bool launch(const Action& action, TimePoint now) {
    while (launched_ < action.count) {
      if (!has_waited_) {
        has_waited_ = true;
        due_ = now + action.host;
        if (due_ > now) return false;
      }
      const TimePoint from = stream_->launch_from(action.time, action.memory_share, action.width);
      if (from > now) {
        due_ = from;
        return false;
      }
      stream_->launch(action.time, action.memory_share, action.width);
      has_waited_ = false;
      ++launched_;
    }
    launched_ = 0;
    return true;
  }
  void note_ends(TimePoint now) {
    while (!running_.empty() && running_.front().end.is_over(now)) {
      ended_.emplace_back(running_.front().begin, running_.front().end.time());
      running_.pop_front();
    }
  }

  std::string name_;
  ProcessPriority priority_;
  double part_;
  std::vector<Action> actions_;
  sim::Rng random_{1};
  std::shared_ptr<device::Node> node_;
  std::unique_ptr<device::Device> device_;
  device::Stream* stream_ = nullptr;
  std::size_t next_ = 0;
  std::int64_t launched_ = 0;
  bool has_waited_ = false;
  TimePoint due_{}, begin_{}, arrival_{};
  std::deque<Step> running_;
  std::vector<std::pair<TimePoint, TimePoint>> ended_;
};

/// What standard input asks for.
struct Scenario {
  device::NodeConfig config{.name = "jobs",
                            .devices = {{.gpu = "V100-PCIE-16GB", .memory_bytes = kGiB}},
                            .temporary = true};
  Duration from{}, to{};
  std::vector<Job> jobs;
};

Duration seconds(double value) {
  return std::chrono::round<Duration>(std::chrono::duration<double>(value));
}

void read_line(const std::string& line, Scenario& scenario) {
  std::istringstream words(line);
  std::string word;
  if (!(words >> word)) return;
  Action action;
  std::int64_t time_ns = 0, host_ns = 0;
  std::uint64_t seed = 0;
  if (word == "share") {
    std::string name;
    words >> name;
    scenario.config.policy = named<SharingPolicy>({{"time-slices", SharingPolicy::kTimeSlices},
                                                   {"mps", SharingPolicy::kMps},
                                                   {"antman", SharingPolicy::kAntMan},
                                                   {"tgs", SharingPolicy::kTgs},
                                                   {"orion", SharingPolicy::kOrion}},
                                                  name);
  } else if (word == "slices") {
    double quantum_us = 0, switch_us = 0;
    words >> quantum_us >> switch_us;
    scenario.config.slices = {.quantum = seconds(quantum_us / 1e6),
                              .context_switch = seconds(switch_us / 1e6)};
  } else if (word == "run") {
    double from = 0, to = 0;
    words >> from >> to;
    scenario.from = seconds(from);
    scenario.to = seconds(to);
  } else if (word == "job") {
    std::string name, priority;
    double part = 0;
    words >> name >> priority >> part;
    if (!(part > 0.0001 && part <= 1)) give_up(fmt::format("cannot read '{}'", line));
    scenario.jobs.emplace_back(name,
                               named<ProcessPriority>({{"high", ProcessPriority::kHigh},
                                                       {"normal", ProcessPriority::kNormal},
                                                       {"low", ProcessPriority::kLow}},
                                                      priority),
                               part);
  } else if (scenario.jobs.empty()) {
    give_up(fmt::format("'{}' comes before the first job", line));
  } else if (word == "kernels") {
    action.kind = Action::Kind::kKernels;
    words >> action.count >> time_ns >> action.memory_share >> action.width >> host_ns;
  } else if (word == "pause") {
    words >> time_ns;
  } else if (word == "ahead") {
    action.kind = Action::Kind::kAhead;
    words >> action.count;
  } else if (word == "arrive") {
    action.kind = Action::Kind::kArrive;
    words >> action.rate >> seed;
  } else {
    give_up(fmt::format("'{}' is no word", word));
  }
  std::string rest;
  if (words.fail() || words >> rest) give_up(fmt::format("cannot read '{}'", line));
  if (word == "share" || word == "slices" || word == "run" || word == "job") return;
  action.time = Duration(time_ns);
  action.host = Duration(host_ns);
  scenario.jobs.back().add(action, seed);
}

void run(Scenario& scenario, const std::filesystem::path& folder) {
  sim::VirtualClock clock;
  for (std::size_t i = 0; i < scenario.jobs.size(); ++i) {
    auto node = i == 0 ? device::Node::create(scenario.config, folder)
                       : device::Node::open(scenario.config.name, folder);
    if (!node) give_up(node.error().message);
    scenario.jobs[i].open(*std::move(node), clock);
  }
  while (clock.now() < TimePoint(scenario.to)) {
    const TimePoint now = clock.now();
    TimePoint next(scenario.to);
    for (Job& job : scenario.jobs) {
      const TimePoint due = job.act(now);
      if (due > now) next = std::min(next, due);
    }
    for (const Job& job : scenario.jobs) next = std::min(next, job.node().settle(now));
    clock.wait_until(std::max(next, now + Duration(1)));
  }
  std::string text;
  for (const Job& job : scenario.jobs) {
    text +=
        (text.empty() ? "" : ", ") + job.result(TimePoint(scenario.from), TimePoint(scenario.to));
  }
  std::cout << "{" << text << "}\n";
  scenario.jobs.clear();  // Before the clock.
}

}  // namespace
}  // namespace gpemu

int main() {
  gpemu::Scenario scenario;
  for (std::string line; std::getline(std::cin, line);) gpemu::read_line(line, scenario);
  if (scenario.jobs.empty() || scenario.to <= scenario.from) {
    gpemu::give_up("no job, or no time to run");
  }
  if (std::ranges::any_of(scenario.jobs, &gpemu::Job::does_nothing)) {
    gpemu::give_up("a job does nothing");
  }
  std::string folder = "/dev/shm/gpemu-jobs-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) gpemu::give_up("cannot make a folder in /dev/shm");
  gpemu::run(scenario, folder);
  std::filesystem::remove_all(folder);
}
