// SPDX-License-Identifier: Apache-2.0
//
// Random programs of several processes on the virtual clock, compared with a model that looks at
// each nanosecond.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "gpemu/device/device.hpp"
#include "gpemu/device/rendezvous.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::device {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

/// What the rules say of when queued work runs, as plainly as possible.
class Model {
 public:
  struct Work {
    int engine = 0;    ///< kRound for a party's part in a round.
    int process = -1;  ///< of work on an engine that processes share by time slices.
    int priority = 0;
    std::int64_t cost = 0;
    std::int64_t asked = 0;
    std::set<int> after;  ///< numbers of work that must have ended.
    std::int64_t ready = -1, start = -1, end = kNever;
    bool has_ended = false;
    std::int64_t left = 0;  ///< of the cost of sliced work.
    /// Of work for clients: what it needs at full pace; of the compute, 0 for a client's width.
    std::int64_t compute = 0, memory = 0;
    /// Of other work: what it takes of its engine, and of the memory unless it takes all of that.
    std::int64_t width = kWholeWidth, rate = 0;
  };
  static constexpr int kRound = -1;
  /// The lengths of a time slice and of a context switch.
  static constexpr std::int64_t kQuantum = 5;
  static constexpr std::int64_t kSwitch = 2;

  int add(Work work) {
    work.left = work.cost;
    all_.push_back(std::move(work));
    return static_cast<int>(all_.size()) - 1;
  }
  /// Adds work of an engine that processes share, first in, first out: it has its time at once,
  /// after all that anybody has queued there. What it comes after has its end.
  int add_shared(Work work) {
    std::int64_t& tail = tails_[work.engine];
    work.ready = end_of(work.after, work.asked);
    work.start = std::max(work.ready, tail);
    tail = work.end = work.start + work.cost;
    return add(std::move(work));
  }
  /// Adds a party to the round of that number of a group with so many parties.
  void add_to_round(int group, std::size_t round, std::size_t parties, int work) {
    auto& rounds = groups_[group];
    if (rounds.size() <= round) rounds.resize(round + 1);
    rounds[round].parties = parties;
    rounds[round].work.push_back(work);
  }

  /// Runs all work that ever runs. Each engine starts, of the pieces that are ready, the most
  /// urgent one, of several the one that has been so for longest, of several the one that was
  /// queued first, as soon as there is room for it beside those that run. A round ends when all
  /// parties are ready for it and the largest cost has passed, and one after the other.
  void run() {
    std::int64_t latest = 0;
    for (const Work& work : all_) latest = std::max(latest, work.asked);
    std::int64_t last = latest;
    for (const Work& work : all_) last += (work.cost + 1) * (urgencies_.empty() ? 1 : 1 + kSwitch);
    if (!clients_.empty()) last *= 2;  // Each change of pace may take a nanosecond of each client.
    for (std::int64_t now = 0; now <= last; ++now) {
      // What is queued now does not put off what starts now and was queued before.
      for (queued_ = 0; queued_ < all_.size(); ++queued_) {
        if (all_[queued_].asked != now) continue;
        while (look(now)) {
        }
      }
      while (look(now)) {
      }
      if (!urgencies_.empty()) work_for_sharers(now);
      if (!clients_.empty()) work_for_clients(now);
    }
  }

  /// From now on, engine 0 is shared by time slices. `urgency`: of the next process; the lowest
  /// comes first.
  void add_sharer(int urgency) { urgencies_.push_back(urgency); }

  /// From now on, engine 0 is shared by clients of an MPS server. `width`: of the next one.
  void add_client(std::int64_t width, int urgency) {
    clients_.push_back({.width = width, .urgency = urgency});
  }

  /// Returns the cost of all work of engines that has run.
  [[nodiscard]] std::int64_t work() const {
    std::int64_t work = 0;
    for (const Work& one : all_) {
      if (one.engine != kRound && one.end != kNever) work += one.cost;
    }
    return work;
  }

  [[nodiscard]] std::int64_t end_of(const std::set<int>& numbers, std::int64_t at_least) const {
    for (const int number : numbers) at_least = std::max(at_least, all_[number].end);
    return at_least;
  }

 private:
  struct Round {
    std::size_t parties = 0;
    std::vector<int> work;
    std::int64_t end = kNever;
  };

  struct Client {
    std::int64_t width = 0;
    int urgency = 0;
    std::pair<std::int64_t, std::int64_t> pace = {1, 1}, next_pace = {1, 1};
    std::int64_t part = 0;  ///< of a unit of work, times the second number of the pace.
    Work* work = nullptr;   ///< that the engine does now.
  };

  /// Does what happens at a time; returns whether anything did.
  bool look(std::int64_t now) {
    bool did = false;
    for (Work& work : all_) {
      if (!work.has_ended && work.end == now) work.has_ended = did = true;
    }
    for (Work& work : all_) {
      if (work.ready < 0 && is_ready(work, now)) {
        work.ready = now;
        did = true;
      }
    }
    for (auto& [group, rounds] : groups_) {
      std::int64_t before = 0;
      for (Round& round : rounds) {
        if (round.end == kNever && before != kNever) did = try_to_end(round, before) || did;
        before = round.end;
      }
    }
    std::map<int, Work*> candidates;  // by engine.
    for (Work& work : all_) {
      if (work.start >= 0 || work.ready < 0 || work.engine == kRound || work.process >= 0) continue;
      Work*& candidate = candidates[work.engine];
      if (candidate == nullptr || comes_before(work, *candidate)) candidate = &work;
    }
    std::erase_if(candidates, [&](const auto& one) { return !has_room(*one.second, now); });
    if (candidates.empty()) return did;
    // If several engines start work at the same time, that which was ready first starts first,
    // because some takes no time.
    Work* const next = std::ranges::min(candidates | std::views::values, {}, [](const Work* work) {
      return std::pair(work->ready, work);
    });
    next->start = now;
    next->end = now + next->cost;
    return true;
  }
  [[nodiscard]] static bool comes_before(const Work& work, const Work& other) {
    return std::pair(work.priority, work.ready) < std::pair(other.priority, other.ready);
  }
  bool try_to_end(Round& round, std::int64_t before) {
    if (round.work.size() < round.parties) return false;
    std::int64_t latest = before;
    std::int64_t cost = 0;
    for (const int number : round.work) {
      if (all_[number].ready < 0) return false;
      latest = std::max(latest, all_[number].ready);
      cost = std::max(cost, all_[number].cost);
    }
    round.end = latest + cost;
    for (const int number : round.work) all_[number].end = round.end;
    return true;
  }
  /// Returns the work of a process that the shared engine does at a time; null if there is none.
  Work* work_of(int process, std::int64_t now) {
    Work* first = nullptr;
    for (Work& work : all_) {
      if (work.process != process || work.ready < 0 || work.ready > now || work.left == 0) continue;
      if (work.start >= 0) return &work;
      if (first == nullptr || comes_before(work, *first)) first = &work;
    }
    return first;
  }
  /// The shared engine works from now on for one unit of time: for the process that has it, as long
  /// as that has work, and its time slice has not ended or no other that is as urgent has work;
  /// else for the next of the most urgent ones that have work.
  void work_for_sharers(std::int64_t now) {
    const auto sharers = static_cast<int>(urgencies_.size());
    const auto urgency = [&](int process) { return urgencies_[static_cast<std::size_t>(process)]; };
    const bool keeps = owner_ >= 0 && work_of(owner_, now) != nullptr;
    bool rival = false;
    for (int i = 0; i < sharers; ++i) {
      rival = rival ||
              (keeps && i != owner_ && urgency(i) <= urgency(owner_) && work_of(i, now) != nullptr);
    }
    if (!keeps || (now >= slice_end_ && rival)) {
      int next = -1;
      for (int i = 1; i <= sharers; ++i) {
        const int candidate = (owner_ + i) % sharers;
        if (work_of(candidate, now) == nullptr) continue;
        if (next < 0 || urgency(candidate) < urgency(next)) next = candidate;
      }
      if (next < 0) return;
      switch_end_ = now + (owner_ >= 0 && next != owner_ ? kSwitch : 0);
      slice_end_ = switch_end_ + kQuantum;
      owner_ = next;
    }
    while (slice_end_ <= now) slice_end_ += kQuantum;
    if (now < switch_end_) return;
    Work& work = *work_of(owner_, now);
    if (work.start < 0) work.start = now;
    if (--work.left == 0) work.end = now + 1;
  }
  /// The shared engine works from now on for one unit of time, for all clients that have work, as
  /// far as the more urgent ones leave room, and as the memory is fast enough for all. A client's
  /// pace is the share of its width that it gets, as a fraction. It collects parts of a unit of
  /// work; those that are left over when its pace changes, or it has no work, are lost.
  void work_for_clients(std::int64_t now) {
    std::vector<Client*> working;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      client.work = work_of(static_cast<int>(i), now);
      if (client.work != nullptr) working.push_back(&client);
    }
    std::int64_t room = kWholeWidth;
    for (int urgency = -1; urgency <= 1; ++urgency) {
      std::vector<Need> needs;
      for (Client* const client : working) {
        const std::int64_t compute = client->work->compute;
        const std::int64_t width = compute == 0 ? client->width : std::min(client->width, compute);
        if (client->urgency == urgency) needs.push_back({client, width, width});
      }
      // Nothing is left for these.
      if (room == 0) {
        for (const Need& need : needs) std::erase(working, need.client);
        for (const Need& need : needs) need.client->work = nullptr;
        continue;
      }
      room = divide(needs, room);
    }
    std::vector<Need> needs;
    for (Client* const client : working) {
      const auto [work, time] = client->next_pace;
      const std::int64_t memory = client->work->memory;
      needs.push_back({client, memory * work / time, memory});
    }
    divide(needs, kWholeWidth, true);
    for (Client& client : clients_) {
      if (client.work == nullptr) {
        client.part = 0;
        continue;
      }
      const auto [work, time] = client.next_pace;
      if (work * client.pace.second != time * client.pace.first) client.part = 0;
      client.pace = client.next_pace;
      client.part += work;
      if (client.part < time) continue;
      client.part -= time;
      if (client.work->start < 0) client.work->start = now;
      if (--client.work->left == 0) client.work->end = now + 1;
    }
  }
  /// What a client needs of something, now and at full pace.
  struct Need {
    Client* client;
    std::int64_t now, whole;
  };
  /// The smallest need first: each client gets what it needs, but at most an equal part of what is
  /// left. Sets the paces: of all, or only of those that get less. Returns what is left then.
  static std::int64_t divide(std::vector<Need> needs, std::int64_t room, bool only_less = false) {
    std::ranges::stable_sort(needs, {}, &Need::now);
    auto left = static_cast<std::int64_t>(needs.size());
    for (const Need& need : needs) {
      if (need.now * left > room) {
        // In lowest terms, which parts of a unit count. The same room for all that follow.
        const std::int64_t divisor = std::gcd(room, need.whole * left);
        need.client->next_pace = {room / divisor, need.whole * left / divisor};
        continue;
      }
      if (!only_less) need.client->next_pace = {1, 1};
      room -= need.now;
      --left;
    }
    return left > 0 ? 0 : room;
  }
  [[nodiscard]] bool is_ready(const Work& work, std::int64_t now) const {
    const auto number = static_cast<std::size_t>(&work - all_.data());
    return (work.asked < now || (work.asked == now && number < queued_)) &&
           std::ranges::all_of(work.after, [&](int number) { return all_[number].has_ended; });
  }
  /// Returns whether an engine has room for work beside what it does now.
  [[nodiscard]] bool has_room(const Work& next, std::int64_t now) const {
    std::int64_t width = next.width, rate = next.rate;
    bool is_busy = false, has_whole = next.width == kWholeWidth;
    for (const Work& work : all_) {
      if (work.engine != next.engine || work.start < 0 || now >= work.end) continue;
      is_busy = true;
      has_whole = has_whole || work.width == kWholeWidth;
      width += work.width;
      rate += work.rate;
    }
    return !is_busy || (!has_whole && width <= kWholeWidth && rate <= kWholeWidth);
  }

  std::vector<Work> all_;
  std::size_t queued_ = 0;  ///< of the work that is queued at this time, as much as this is queued.
  std::map<int, std::vector<Round>> groups_;
  std::map<int, std::int64_t> tails_;  ///< when shared engines have nothing left to do.
  std::vector<Client> clients_;
  std::vector<int> urgencies_;  ///< of the sharers.
  int owner_ = -1;              ///< the sharer that had the engine last.
  std::int64_t switch_end_ = 0;
  std::int64_t slice_end_ = 0;
};

/// A folder for nodes that ends with the test.
class Folder {
 public:
  Folder() {
    // Where nodes usually are: on a disk, thousands take long.
    std::string name = "/dev/shm/gpemu-schedule-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A program of processes that queue, meet, wait and ask at random, on the devices and in the
/// model. Each device belongs to one process. Only the first device of programs with many processes
/// is shared: by processes that have one stream each, and nothing else.
class Program {
 public:
  Program(std::uint64_t seed, const std::filesystem::path& folder) : random_(seed) {
    const int processes = below(2) == 0 ? 1 : below(8) + 1;
    // So many share device 0 and have nothing else.
    const int sharing = processes > 3 ? processes - 3 + below(3) : 0;
    const int owning = processes - sharing;
    const int devices = std::max(owning, below(3) + 1) + (sharing > 0 ? 1 : 0);
    NodeConfig config{.name = fmt::format("n{}", seed), .devices = {}, .temporary = true};
    // Several attachments of one process may use an exclusive device.
    if (below(2) == 0) config.compute_mode = ComputeMode::kExclusiveProcess;
    if (sharing > 0 && below(3) == 0) {
      // Without processes that it holds back, the other one is MPS that knows what kernels need.
      knows_needs_ = below(2) == 0;
      config.policy = knows_needs_ ? SharingPolicy::kOrion : SharingPolicy::kMps;
      mps_ = true;
    } else if (sharing > 0 && below(2) == 0) {
      // All that a program does takes multiples of this.
      unit_ = Duration(kShortestQuantum / Model::kQuantum);
      config.policy = SharingPolicy::kTimeSlices;
      config.slices = {.quantum = unit_ * Model::kQuantum,
                       .context_switch = unit_ * Model::kSwitch};
    }
    config.devices.resize(static_cast<std::size_t>(devices),
                          {.gpu = "TEST-GPU", .memory_bytes = kMiB});
    for (int i = 0; i < processes; ++i) {
      if (processes == 1) {
        nodes_.push_back(Node::create_private(config).value());
      } else {
        nodes_.push_back(i == 0 ? Node::create(config, folder).value()
                                : Node::open(config.name, folder).value());
      }
    }
    differ_ = below(2) == 0;
    for (int i = 0; i < sharing; ++i) add_shared_stream(i);
    for (int i = sharing > 0 ? 1 : 0; i < devices; ++i) add_streams(i, sharing + i % owning);
    events_.resize(static_cast<std::size_t>(processes * (below(4) + 1)));
    for (int k = below(3); k > 0; --k) add_group();
  }

  /// Returns what differed; nothing if nothing did.
  std::optional<std::string> run() {
    const int steps = below(40) + 1;
    for (int i = 0; i < steps; ++i) step();
    for (Stream_& stream : streams_) note_end(stream.stream->tail(), before(stream), now());
    wait_until(now() + kLongest);
    model_.run();
    for (const Check& check : checks_) {
      if (const auto difference = compare(check)) return *difference + "\n" + log_;
    }
    // The default streams come first, and look only at what the others have not done.
    for (auto stream = streams_.rbegin(); stream != streams_.rend(); ++stream) {
      static_cast<void>(stream->stream->idle());
    }
    // With MPS, the turns of a kernel show how long it took, and not how much work it was.
    if (const std::int64_t work = model_.work(); !mps_ && ran_ != work * unit_) {
      return fmt::format("work of {} instead of {}\n{}", ran_ / unit_, work, log_);
    }
    return std::nullopt;
  }

 private:
  /// Longer than any program runs.
  static constexpr std::int64_t kLongest = 5000;

  enum class Kind { kLegacy, kBlocking, kNonBlocking };
  struct Stream_ {
    int process = 0;
    int device = 0;
    Kind kind = Kind::kLegacy;
    int priority = 0;
    bool shares = false;
    std::unique_ptr<Stream> owned;
    Stream* stream = nullptr;
    std::set<int> last;  ///< what its next work comes after.
  };
  struct Recorded {
    Event event;
    std::set<int> after;
    std::int64_t time = 0;
  };
  struct Party_ {
    int group = 0;
    int process = 0;
    std::size_t parties = 0;
    std::size_t rounds = 0;
    std::unique_ptr<Rendezvous> seat;
  };
  /// What was seen of the end of some work, or of a time if that is later.
  struct Check {
    std::set<int> work;
    std::int64_t at_least = 0;
    std::int64_t now = 0;
    std::optional<bool> over;
    Moment end;
    std::int64_t waited = -1;
  };

  int below(int end) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(end))); }
  std::int64_t now() { return from(clock_.now()); }
  /// Converts between times of the model and of the devices.
  [[nodiscard]] TimePoint at(std::int64_t time) const { return TimePoint(time * unit_); }
  [[nodiscard]] std::int64_t from(TimePoint time) const {
    EXPECT_EQ((time.time_since_epoch() % unit_).count(), 0) << to_ns(time);
    return time.time_since_epoch() / unit_;
  }
  [[nodiscard]] bool slices() const { return unit_ > Duration(1); }
  /// Returns whether other processes can move the work of one on the shared device.
  [[nodiscard]] bool moves() const { return slices() || mps_; }
  template <typename Item>
  Item& any(std::vector<Item>& items) {
    return items[static_cast<std::size_t>(below(static_cast<int>(items.size())))];
  }

  void open(int device, int process, const std::optional<MpsClient>& client = {}) {
    opened_.push_back(Device::open(nodes_[process], device, clock_, client).value());
    opened_.back()->observe([this](const StartedWork& work) {
      if (work.turns.empty()) ran_ += work.end - work.start;
      for (const Turn& turn : work.turns) ran_ += turn.end - turn.start;
    });
  }
  void add_streams(int device, int process) {
    open(device, process);
    Device& opened = *opened_.back();
    const bool urgent = below(2) == 0;
    streams_.push_back({.process = process,
                        .device = device,
                        .kind = Kind::kLegacy,
                        .stream = &opened.default_stream()});
    for (int k = below(4); k > 0; --k) {
      const bool blocking = below(2) == 0;
      const int priority = urgent ? -below(3) : 0;
      streams_.push_back({.process = process,
                          .device = device,
                          .kind = blocking ? Kind::kBlocking : Kind::kNonBlocking,
                          .priority = priority,
                          .owned = opened.create_stream(
                              blocking ? StreamKind::kBlocking : StreamKind::kNonBlocking,
                              static_cast<std::int8_t>(priority))});
      streams_.back().stream = streams_.back().owned.get();
    }
  }

  void add_shared_stream(int process) {
    const int urgency = differ_ && !knows_needs_ ? below(3) - 1 : 0;
    nodes_[static_cast<std::size_t>(process)]->set_priority(static_cast<ProcessPriority>(urgency));
    std::optional<MpsClient> client;
    if (mps_) {
      // Round shares and odd ones.
      const int width = below(2) == 0 ? 2500 * (below(4) + 1) : below(10'000) + 1;
      client = {.width = static_cast<std::uint32_t>(width)};
      model_.add_client(width, urgency);
    }
    open(0, process, client);
    tell("process {} has the class {}{}", process, urgency,
         client ? fmt::format(" and the width {}", client->width) : "");
    streams_.push_back({.process = process,
                        .device = 0,
                        .kind = Kind::kNonBlocking,
                        .shares = true,
                        .owned = opened_.back()->create_stream(StreamKind::kNonBlocking)});
    streams_.back().stream = streams_.back().owned.get();
    if (slices()) model_.add_sharer(urgency);
  }

  void add_group() {
    const int parties = below(4) + 1;
    const GroupId id = Rendezvous::create_group(*nodes_.front(), parties).value();
    for (int i = 0; i < parties; ++i) {
      const int process = below(static_cast<int>(nodes_.size()));
      parties_.push_back({.group = groups_,
                          .process = process,
                          .parties = static_cast<std::size_t>(parties),
                          .seat = Rendezvous::join(nodes_[process], id, i, clock_).value()});
    }
    ++groups_;
  }

  /// Lets all processes do what they do at this time, and returns when there is more to do.
  TimePoint settle() {
    TimePoint next = TimePoint::max();
    // What one publishes another one reads.
    for (std::size_t i = 0; i <= nodes_.size(); ++i) {
      next = TimePoint::max();
      for (const auto& node : nodes_) next = std::min(next, node->settle(clock_.now()));
    }
    return next;
  }
  void wait_until(std::int64_t deadline) {
    while (true) {
      const TimePoint next = settle();
      if (next > at(deadline)) break;
      clock_.wait_until(next);
    }
    clock_.wait_until(at(deadline));
    settle();
  }
  /// Waits as a process does; returns whether the moment came.
  bool wait_for(const Moment& moment) {
    while (!moment.is_over(clock_.now())) {
      TimePoint next = settle();
      if (!moment.is_open()) next = std::min(next, moment.time());
      // Clients of MPS look at each other after milliseconds, when all work has ended long ago.
      if (next > at(now() + kLongest)) return false;
      clock_.wait_until(next);
    }
    return true;
  }

  std::optional<std::string> compare(const Check& check) {
    const std::int64_t expected = model_.end_of(check.work, check.at_least);
    if (check.over) {
      if (*check.over == (expected <= check.now)) return std::nullopt;
      return fmt::format("at {} the end at {} was {}over", check.now, expected,
                         *check.over ? "" : "not ");
    }
    if (expected == kNever) {
      if (!check.end.is_over(clock_.now())) return std::nullopt;
      return fmt::format("{} instead of never", from(check.end.time()));
    }
    const std::int64_t end = from(check.end.time());
    if (!check.end.is_over(clock_.now()) || std::max(end, check.at_least) != expected) {
      return fmt::format("{} instead of {}: the end of {}", end, expected,
                         fmt::join(check.work, ", "));
    }
    if (check.waited >= 0 && check.waited != std::max(expected, check.now)) {
      return fmt::format("a wait ended at {} instead of {}", check.waited, expected);
    }
    return std::nullopt;
  }

  /// What work of a stream comes after: for the legacy default stream and those that synchronise
  /// with it, that of each other.
  std::set<int> before(const Stream_& stream) {
    std::set<int> all = stream.last;
    for (const Stream_& other : streams_) {
      const bool related = other.device == stream.device &&
                           ((stream.kind == Kind::kLegacy && other.kind == Kind::kBlocking) ||
                            (stream.kind == Kind::kBlocking && other.kind == Kind::kLegacy));
      if (related) all.insert(other.last.begin(), other.last.end());
    }
    return all;
  }

  void note_end(Moment end, std::set<int> work, std::int64_t at_least) {
    checks_.push_back({.work = std::move(work), .at_least = at_least, .now = now(), .end = end});
  }

  /// Notes a step, to be shown with what differed.
  template <typename... Arguments>
  void tell(std::string_view text, const Arguments&... arguments) {
    log_ += fmt::format("{:4}: ", now()) + fmt::format(fmt::runtime(text), arguments...) + "\n";
  }
  std::size_t number_of(const Stream_& stream) const {
    return static_cast<std::size_t>(&stream - streams_.data());
  }

  /// Returns whether a stream of the same device is more urgent.
  [[nodiscard]] bool has_more_urgent(const Stream_& stream) const {
    return std::ranges::any_of(streams_, [&](const Stream_& other) {
      return other.device == stream.device && other.priority < stream.priority;
    });
  }
  /// Adds a kernel to the model in so many parts, each of which comes after the one before. Returns
  /// the last one's number.
  int add_waves(const Model::Work& kernel, std::int64_t waves) {
    waves = std::clamp<std::int64_t>(waves, 1, std::max<std::int64_t>(kernel.cost, 1));
    Model::Work wave = kernel;
    std::int64_t left = kernel.cost;
    int number = 0;
    for (; waves > 0; --waves) {
      wave.cost = left / waves;
      left -= wave.cost;
      number = model_.add(wave);
      wave.after = {number};
    }
    return number;
  }

  void arrive() {
    if (parties_.empty()) return;
    Party_& party = any(parties_);
    Stream_& stream = any(streams_);
    if (stream.process != party.process || stream.shares) return;
    const std::int64_t cost = below(15) + 1;
    const int number = model_.add(
        {.engine = Model::kRound, .cost = cost, .asked = now(), .after = before(stream)});
    model_.add_to_round(party.group, party.rounds++, party.parties, number);
    tell("{} round {} of group {}, stream {} (device {}, process {}), cost {}", number,
         party.rounds - 1, party.group, number_of(stream), stream.device, stream.process, cost);
    stream.last = {number};
    note_end(party.seat->arrive(*stream.stream, cost * unit_).value(), {number}, now());
  }

  void step() {
    Stream_& stream = any(streams_);
    const auto processes = static_cast<int>(nodes_.size());
    Recorded& event = events_[static_cast<std::size_t>(
        below(static_cast<int>(events_.size()) / processes) * processes + stream.process)];
    switch (below(12)) {
      case 0:
        wait_until(now() + below(12));
        return;
      case 1:
        stream.stream->record(event.event);
        tell("record {} in stream {}", &event - events_.data(), number_of(stream));
        event.after = before(stream);
        event.time = now();
        note_end(event.event.moment(), event.after, event.time);
        return;
      case 2:
        if (stream.shares) return;
        stream.stream->wait(event.event);
        if (!event.event.recorded()) return;
        tell("stream {} waits for {}", number_of(stream), &event - events_.data());
        if (stream.kind == Kind::kLegacy) stream.last = before(stream);
        stream.last.insert(event.after.begin(), event.after.end());
        return;
      case 3: {
        Check check{.work = event.after, .at_least = event.time, .now = now()};
        check.over = event.event.moment().is_over(clock_.now());
        tell("query {}", &event - events_.data());
        checks_.push_back(check);
        return;
      }
      case 4: {
        if (below(4) != 0) return;
        Check check{
            .work = before(stream), .at_least = now(), .now = now(), .end = stream.stream->tail()};
        tell("wait for stream {}", number_of(stream));
        check.waited = wait_for(check.end) ? now() : -1;
        checks_.push_back(check);
        return;
      }
      case 5:
      case 6:
        return arrive();
      default: {
        // How long a copy between kernels takes is only estimated for other processes.
        const auto engine =
            stream.shares && moves() ? Engine::kCompute : static_cast<Engine>(below(3));
        // What takes no time has no place in line where processes share an engine.
        const std::int64_t cost = stream.shares ? below(15) + 1 : below(5) == 0 ? 0 : below(15);
        Model::Work work{.engine = stream.device * 3 + static_cast<int>(engine),
                         .priority = engine == Engine::kCompute ? stream.priority : 0,
                         .cost = cost,
                         .asked = now(),
                         .after = before(stream)};
        if (stream.shares && moves()) work.process = stream.process;
        // On other devices, kernels run side by side.
        const bool is_kernel = engine == Engine::kCompute && !(stream.shares && !knows_needs_);
        const double memory = is_kernel ? below(11) / 10.0 : 0;
        const double width = is_kernel ? (below(10) + 1) / 10.0 : 1;
        std::int64_t waves = is_kernel && below(3) == 0 ? below(6) + 1 : 1;
        if (slices() && cost % waves != 0) waves = 1;  // The model has whole units of time.
        if (is_kernel && !stream.shares) {
          work.width = std::llround(width * kWholeWidth);
          work.rate = width < 1 ? std::llround(memory * kWholeWidth) : 0;
        }
        if (knows_needs_) {
          work.memory = std::llround(memory * kWholeWidth);
          work.compute = std::max<std::int64_t>(
              std::llround(width * kWholeWidth) * (kWholeWidth - work.memory) / kWholeWidth, 1);
        }
        const int number = stream.shares && !moves()
                               ? model_.add_shared(std::move(work))
                               : add_waves(work, has_more_urgent(stream) ? waves : 1);
        tell(
            "{} on engine {} ({}, {}, {}), stream {} (priority {}, {}, device {}, process {}), "
            "cost {}",
            number, static_cast<int>(engine), memory, width, waves, number_of(stream),
            stream.priority,
            stream.kind == Kind::kLegacy     ? "legacy"
            : stream.kind == Kind::kBlocking ? "blocking"
                                             : "non-blocking",
            stream.device, stream.process, cost);
        stream.last = {number};
        if (engine == Engine::kCompute) {
          stream.stream->launch(cost * unit_, memory, width, static_cast<int>(waves));
        } else {
          stream.stream->copy(engine, 1, cost * unit_);
        }
      }
    }
  }

  sim::Rng random_;
  Duration unit_{1};
  sim::VirtualClock clock_;
  Duration ran_{};  ///< what the devices reported of the work that they did.
  std::vector<std::shared_ptr<Node>> nodes_;  ///< one for each process.
  std::vector<std::unique_ptr<Device>> opened_;
  std::vector<Stream_> streams_;
  std::vector<Recorded> events_;  ///< of the processes in turn.
  bool mps_ = false;              ///< the processes that share a device are clients of MPS.
  bool knows_needs_ = false;      ///< what each kernel needs counts.
  bool differ_ = false;           ///< they are not equally urgent.
  int groups_ = 0;
  std::vector<Party_> parties_;
  std::vector<Check> checks_;
  std::string log_;
  Model model_;
};

TEST(Schedule, RunsRandomProgramsAsTheModelDoes) {
#if defined(GPEMU_SANITIZE_THREAD)
  GTEST_SKIP() << "one thread: ThreadSanitizer would find nothing";
#endif
  const char* const wanted = std::getenv("GPEMU_TEST_PROGRAMS");
#if defined(GPEMU_SANITIZE_ADDRESS)
  constexpr std::uint64_t kPrograms = 1000;  // which take ten times as long there
#else
  constexpr std::uint64_t kPrograms = 5000;
#endif
  const std::uint64_t programs = wanted == nullptr ? kPrograms : std::stoull(wanted);
  const char* const first = std::getenv("GPEMU_TEST_FIRST_PROGRAM");
  const Folder folder;
  for (std::uint64_t seed = first == nullptr ? 0 : std::stoull(first); seed < programs; ++seed) {
    const auto difference = Program(seed, folder.path()).run();
    ASSERT_FALSE(difference) << "program " << seed << ": " << *difference;
  }
}

}  // namespace
}  // namespace gpemu::device
