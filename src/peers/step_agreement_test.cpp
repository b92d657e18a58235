// SPDX-License-Identifier: Apache-2.0
#include "gpemu/peers/step_agreement.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>

#include <gtest/gtest.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::peers {
namespace {

using Outcome = StepAgreement::Outcome;

/// A step that has been done: who was there, and which of the samples it began with.
struct DoneStep {
  std::vector<int> members;
  std::size_t first_sample = 0;
  bool operator==(const DoneStep&) const = default;
};

/// Nodes with queues between them, which deliver in order and whenever the test says so.
class Net {
 public:
  Net(int nodes, std::size_t samples, std::uint64_t seed) : samples_(samples), random_(seed) {
    for (int node = 0; node < nodes; ++node) {
      machines_.push_back(std::make_unique<StepAgreement>(nodes, node, [node] {
        return std::vector<pipeline::FileId>{static_cast<pipeline::FileId>(node)};
      }));
    }
    queues_.resize(static_cast<std::size_t>(nodes),
                   std::vector<std::deque<AgreementMessage>>(static_cast<std::size_t>(nodes)));
    dead_.resize(static_cast<std::size_t>(nodes));
    told_.resize(static_cast<std::size_t>(nodes),
                 std::vector<char>(static_cast<std::size_t>(nodes)));
    waits_.resize(static_cast<std::size_t>(nodes));
    taken_.resize(static_cast<std::size_t>(nodes));
    members_.resize(static_cast<std::size_t>(nodes), machines_.front()->members());
    steps.resize(static_cast<std::size_t>(nodes));
  }

  /// Does things in random order until all survivors are through; false if nothing is left to do.
  bool run(int deaths) {
    for (int round = 0; round < 100'000; ++round) {
      if (std::ranges::all_of(alive(), [this](std::size_t node) { return is_through(node); })) {
        return true;
      }
      if (deaths > 0 && random_.below(40) == 0 && alive().size() > 1) {
        kill(alive()[random_.below(alive().size())]);
        --deaths;
      } else if (!do_something()) {
        return false;
      }
    }
    return false;
  }

  [[nodiscard]] std::vector<std::size_t> alive() const {
    std::vector<std::size_t> nodes;
    for (std::size_t node = 0; node < dead_.size(); ++node) {
      if (dead_[node] == 0) nodes.push_back(node);
    }
    return nodes;
  }
  std::vector<std::vector<DoneStep>> steps;  ///< by node.

 private:
  [[nodiscard]] bool is_through(std::size_t node) const { return taken_[node] >= samples_; }

  /// A node dies: what it sent last arrives at some of the others, and not at all of them.
  void kill(std::size_t node) {
    dead_[node] = 1;
    for (auto& queue : queues_[node]) queue.resize(random_.below(queue.size() + 1));
  }

  bool do_something() {
    std::vector<std::pair<std::size_t, std::size_t>> deliveries;
    std::vector<std::size_t> arrivals;
    for (const std::size_t to : alive()) {
      if (waits_[to] == 0 && !is_through(to)) arrivals.push_back(to);
      for (std::size_t from = 0; from < dead_.size(); ++from) {
        if (from == to || told_[from][to] != 0) continue;
        if (!queues_[from][to].empty() || dead_[from] != 0) deliveries.emplace_back(from, to);
      }
    }
    const std::size_t choices = deliveries.size() + arrivals.size();
    if (choices == 0) return false;
    const std::size_t choice = random_.below(choices);
    if (choice < arrivals.size()) {
      const std::size_t node = arrivals[choice];
      // What changed while it prepared its part.
      if (!take(node)) {
        waits_[node] = 1;
        machines_[node]->arrive({});
      }
      return settle(node);
    }
    const auto [from, to] = deliveries[choice - arrivals.size()];
    auto& queue = queues_[from][to];
    if (queue.empty()) {
      told_[from][to] = 1;
      machines_[to]->note_left(static_cast<int>(from), Leaving::kEnded);
    } else {
      const AgreementMessage message = queue.front();
      queue.pop_front();
      EXPECT_TRUE(machines_[to]->receive(static_cast<int>(from), message));
    }
    return settle(to);
  }

  /// Sends what a node has to say, and lets it go on if it waits for an outcome.
  bool settle(std::size_t node) {
    for (const AgreementMessage& message : machines_[node]->take_messages()) {
      for (std::size_t to = 0; to < dead_.size(); ++to) {
        if (to != node && dead_[to] == 0) queues_[node][to].push_back(message);
      }
    }
    if (waits_[node] != 0) static_cast<void>(take(node));
    return true;
  }

  bool take(std::size_t node) {
    if (!machines_[node]->has_outcome()) return false;
    const auto outcome = machines_[node]->take_outcome();
    EXPECT_TRUE(outcome);
    EXPECT_TRUE(outcome->done || outcome->changed);
    waits_[node] = 0;
    if (outcome->done) {
      steps[node].push_back({.members = members_[node], .first_sample = taken_[node]});
      taken_[node] += members_[node].size();
    }
    if (outcome->changed) {
      members_[node] = machines_[node]->members();
      std::vector<int> told;
      for (const auto& [who, files] : outcome->files) {
        told.push_back(who);
        EXPECT_EQ(files, std::vector{static_cast<pipeline::FileId>(who)});
      }
      EXPECT_EQ(told, members_[node]);
    }
    return true;
  }

  std::size_t samples_;
  sim::Rng random_;
  std::vector<std::unique_ptr<StepAgreement>> machines_;
  std::vector<std::vector<std::deque<AgreementMessage>>> queues_;  ///< from, to.
  std::vector<char> dead_;
  std::vector<std::vector<char>> told_;  ///< from, to: its end has been noticed.
  std::vector<char> waits_;              ///< has arrived at a step.
  std::vector<std::size_t> taken_;       ///< samples of steps that are done.
  std::vector<std::vector<int>> members_;
};

/// Survivors have done the same steps, and each sample once.
void expect_agreement(const Net& net, std::size_t samples) {
  const std::vector<std::size_t> alive = net.alive();
  const std::vector<DoneStep>& steps = net.steps[alive.front()];
  for (const std::size_t node : alive) ASSERT_EQ(net.steps[node], steps);
  std::size_t next = 0;
  for (const DoneStep& step : steps) {
    ASSERT_EQ(step.first_sample, next);
    next += step.members.size();
  }
  ASSERT_GE(next, samples);
  ASSERT_LT(next, samples + steps.back().members.size());
}

TEST(StepAgreementTest, ASingleNodeAgreesWithItself) {
  StepAgreement one(1, 0, [] { return std::vector<pipeline::FileId>{}; });
  one.arrive({7});
  const auto outcome = one.take_outcome();
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(outcome->done);
  EXPECT_FALSE(outcome->changed);
  ASSERT_EQ(outcome->files.size(), 1);
  EXPECT_EQ(outcome->files.front().second, std::vector<pipeline::FileId>{7});
}

TEST(StepAgreementTest, AStepIsDoneWhenAllHaveArrived) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Net net(3, 30, seed);
    ASSERT_TRUE(net.run(0)) << seed;
    expect_agreement(net, 30);
    EXPECT_EQ(net.steps[0].size(), 10);
  }
}

TEST(StepAgreementTest, WhateverDiesWhenSurvivorsAgreeOnEverySample) {
  std::map<std::size_t, int> by_survivors;
  for (std::uint64_t seed = 0; seed < 1600; ++seed) {
    const auto nodes = static_cast<int>(2 + seed % 4);
    Net net(nodes, 40, seed);
    ASSERT_TRUE(net.run(1 + static_cast<int>(seed / 4 % 4))) << seed;
    expect_agreement(net, 40);
    ++by_survivors[net.alive().size()];
  }
  // Of five nodes, one to four survived.
  for (std::size_t survivors = 1; survivors <= 4; ++survivors) {
    EXPECT_GT(by_survivors[survivors], 40) << survivors;
  }
}

TEST(StepAgreementTest, ANodeThatOthersCannotReachStops) {
  StepAgreement node(2, 1, [] { return std::vector<pipeline::FileId>{}; });
  const auto received = node.receive(0, {.kind = AgreementMessage::Kind::kLeave,
                                         .arrived = {0, 0},
                                         .left = {Leaving::kNot, Leaving::kLost}});
  ASSERT_FALSE(received);
  EXPECT_EQ(received.error().code, ErrorCode::kUnavailable);
}

TEST(StepAgreementTest, HalfOfTheNodesDoNotGoOnWithoutTheOthersTheyLost) {
  StepAgreement node(2, 0, [] { return std::vector<pipeline::FileId>{}; });
  node.note_left(1, Leaving::kLost);
  const auto outcome = node.take_outcome();
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::kUnavailable);
}

TEST(StepAgreementTest, RefusesWhatNoNodeSends) {
  StepAgreement node(2, 0, [] { return std::vector<pipeline::FileId>{}; });
  EXPECT_FALSE(node.receive(1, {.step = 2}));
  EXPECT_FALSE(node.receive(1, {.step = 1ULL << 40}));
  EXPECT_FALSE(node.receive(1, {.kind = AgreementMessage::Kind::kLeave, .arrived = {1}}));
  EXPECT_TRUE(node.receive(1, {.step = 1}));
  EXPECT_FALSE(node.receive(1, {.step = 1}));
}

}  // namespace
}  // namespace gpemu::peers
