// SPDX-License-Identifier: Apache-2.0
#include "gpemu/peers/step_agreement.hpp"

#include <algorithm>

namespace gpemu::peers {
namespace {

/// More steps than another node can be ahead of this one.
constexpr std::size_t kMostEarly = 3;

/// Adds to `left` whoever has left by `other`; returns whether that changes who has.
bool add_leaving(std::vector<Leaving>& left, const std::vector<Leaving>& other) {
  bool added = false;
  for (std::size_t node = 0; node < left.size(); ++node) {
    if (other[node] == Leaving::kNot) continue;
    added = added || left[node] == Leaving::kNot;
    // That a process has ended, one node knows for all.
    if (left[node] != Leaving::kEnded) left[node] = other[node];
  }
  return added;
}

bool same_nodes_left(const std::vector<Leaving>& a, const std::vector<Leaving>& b) {
  return std::ranges::equal(
      a, b, [](Leaving x, Leaving y) { return (x == Leaving::kNot) == (y == Leaving::kNot); });
}

}  // namespace

StepAgreement::StepAgreement(int nodes, int self,
                             std::function<std::vector<pipeline::FileId>()> cached)
    : self_(self),
      cached_(std::move(cached)),
      member_(index(nodes), 1),
      left_(index(nodes), Leaving::kNot),
      arrived_(index(nodes), 0),
      heard_(index(nodes)),
      early_(index(nodes)),
      said_(index(nodes)) {
  GPEMU_CHECK(nodes > 0 && self >= 0 && self < nodes, "a node is one of its group");
}

bool StepAgreement::is_changing() const {
  for (std::size_t node = 0; node < member_.size(); ++node) {
    if (member_[node] != 0 && left_[node] != Leaving::kNot) return true;
  }
  return false;
}

void StepAgreement::arrive(std::vector<pipeline::FileId> files) {
  GPEMU_CHECK(arrived_[index(self_)] == done_ || is_changing(), "a step is arrived at once");
  if (is_changing()) return;  // The message about who left has all cached files.
  messages_.push_back({.view = view_, .step = done_ + 1, .files = files});
  hear(index(self_), {.step = done_ + 1, .files = std::move(files)});
  go_on();
}

void StepAgreement::hear(std::size_t node, Heard heard) {
  arrived_[node] = heard.step;
  heard_[node].push_back(std::move(heard));
}

Result<void> StepAgreement::check(const AgreementMessage& message) const {
  const std::size_t nodes = member_.size();
  if (message.kind == AgreementMessage::Kind::kLeave &&
      (message.arrived.size() != nodes || message.left.size() != nodes)) {
    return fail(ErrorCode::kCorruptData, "a node counts another number of nodes");
  }
  // A node is at most two steps ahead of this one: one that this one has not noticed to be done,
  // and one for which it waits.
  const auto too_far = [this](std::uint64_t step) { return step > done_ + kMostEarly; };
  if (too_far(message.step) || std::ranges::any_of(message.arrived, too_far)) {
    return fail(ErrorCode::kCorruptData, "a node is at a step that is far ahead");
  }
  return {};
}

Result<void> StepAgreement::receive(int from, AgreementMessage message) {
  GPEMU_TRY(check(message));
  const std::size_t node = index(from);
  if (!listens_to(from)) return {};
  if (message.kind == AgreementMessage::Kind::kArrive) {
    Heard heard{.step = message.step, .files = std::move(message.files)};
    if (message.view > view_) {
      // It says no more before it has heard of this node in that view.
      if (early_[node].size() == kMostEarly) {
        return fail(ErrorCode::kCorruptData, "node {} is far ahead of this one", from);
      }
      early_[node].push_back(std::move(heard));
    } else if (message.view == view_ && !is_changing()) {
      if (heard.step != arrived_[node] + 1) {
        return fail(ErrorCode::kCorruptData, "node {} is at step {} after {}", from, heard.step,
                    arrived_[node]);
      }
      hear(node, std::move(heard));
    }
  } else {
    if (message.left[index(self_)] != Leaving::kNot) {
      return fail(ErrorCode::kUnavailable,
                  "node {} could not reach this one: the others go on without it", from);
    }
    early_[node].clear();
    said_[node] = std::move(message);
  }
  go_on();
  return {};
}

void StepAgreement::note_left(int node, Leaving how) {
  GPEMU_CHECK(node != self_ && how != Leaving::kNot, "another node leaves");
  std::vector<Leaving> left(left_.size(), Leaving::kNot);
  left[index(node)] = how;
  if (!add_leaving(left_, left)) return;
  if (member_[index(node)] != 0) say_who_left();
  go_on();
}

void StepAgreement::say_who_left() {
  ++round_;
  AgreementMessage message{.kind = AgreementMessage::Kind::kLeave,
                           .view = view_,
                           .arrived = arrived_,
                           .left = left_,
                           .files = cached_()};
  said_[index(self_)] = message;
  messages_.push_back(std::move(message));
}

/// Takes over what others have said about who left. Returns whether that was news.
bool StepAgreement::adopt() {
  for (std::size_t node = 0; node < said_.size(); ++node) {
    if (node == index(self_) || !is_survivor(node) || !said_[node]) continue;
    const AgreementMessage& said = *said_[node];
    if (said.view == view_) {
      if (!add_leaving(left_, said.left)) continue;
      say_who_left();
      return true;
    }
    if (!before_ || said.view != before_->view || same_nodes_left(said.left, before_->left)) {
      continue;
    }
    // A member could not complete the change to this view, because another one left meanwhile.
    // Without it, no step of this view can have been done: back to the view before.
    view_ = before_->view;
    member_ = before_->member;
    arrived_ = before_->arrived;
    before_.reset();
    has_outcome_ = false;  // It comes with the members that are agreed on then.
    for (std::vector<Heard>& heard : heard_) heard.clear();
    for (std::vector<Heard>& early : early_) early.clear();
    static_cast<void>(add_leaving(left_, said.left));
    say_who_left();
    return true;
  }
  return false;
}

void StepAgreement::go_on() {
  while (true) {
    while (adopt()) {
    }
    if (!is_changing()) break;
    if (!complete_change()) return;
  }
  complete_step();
}

void StepAgreement::complete_step() {
  for (std::size_t node = 0; node < member_.size(); ++node) {
    if (member_[node] != 0 && arrived_[node] <= done_) return;
  }
  ++done_;
  ++round_;
  has_outcome_ = outcome_.done = true;
  for (std::size_t node = 0; node < member_.size(); ++node) {
    if (member_[node] == 0) continue;
    std::vector<Heard>& heard = heard_[node];
    if (!heard.front().files.empty()) {
      outcome_.files.emplace_back(static_cast<int>(node), std::move(heard.front().files));
    }
    heard.erase(heard.begin());
  }
}

/// Ends a view when all survivors have said the same about who left.
bool StepAgreement::complete_change() {
  const std::size_t nodes = member_.size();
  std::size_t members = 0;
  std::size_t survivors = 0;
  std::vector<Leaving> left = left_;
  for (std::size_t node = 0; node < nodes; ++node) {
    if (member_[node] == 0) continue;
    ++members;
    if (left_[node] != Leaving::kNot) continue;
    ++survivors;
    const auto& said = said_[node];
    if (!said || said->view != view_ || !same_nodes_left(said->left, left_)) return false;
  }
  ++round_;
  std::vector<std::uint64_t> arrived(nodes, 0);
  // How they left, all survivors take from the same messages.
  std::ranges::replace(left, Leaving::kEnded, Leaving::kLost);
  for (std::size_t node = 0; node < nodes; ++node) {
    if (!is_survivor(node)) continue;
    for (std::size_t i = 0; i < nodes; ++i) {
      arrived[i] = std::max(arrived[i], said_[node]->arrived[i]);
    }
    static_cast<void>(add_leaving(left, said_[node]->left));
  }
  std::uint64_t done = arrived[index(self_)];
  bool lost = false;
  for (std::size_t node = 0; node < nodes; ++node) {
    if (member_[node] == 0) continue;
    done = std::min(done, arrived[node]);
    lost = lost || left[node] == Leaving::kLost;
  }
  done = std::max(done, done_);
  has_outcome_ = outcome_.changed = true;
  outcome_.done = outcome_.done || done > done_;
  outcome_.files.clear();
  for (std::size_t node = 0; node < nodes; ++node) {
    if (is_survivor(node)) outcome_.files.emplace_back(static_cast<int>(node), said_[node]->files);
  }
  split_ = split_ || (lost && 2 * survivors <= members);
  before_ = Before{.view = view_, .member = member_, .arrived = arrived, .left = left_};
  done_ = done;
  view_ = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    member_[node] = is_survivor(node) ? 1 : 0;
    view_ += left_[node] != Leaving::kNot ? 1 : 0;
    heard_[node].clear();
  }
  arrived_.assign(nodes, done_);
  for (std::size_t node = 0; node < nodes; ++node) {
    for (Heard& heard : early_[node]) {
      if (heard.step == arrived_[node] + 1) hear(node, std::move(heard));
    }
    early_[node].clear();
  }
  return true;
}

Result<StepAgreement::Outcome> StepAgreement::take_outcome() {
  if (split_) {
    return fail(ErrorCode::kUnavailable,
                "the connection to other nodes is lost, and they may go on by themselves: no "
                "majority of the nodes is left here");
  }
  has_outcome_ = false;
  return std::exchange(outcome_, {});
}

std::vector<int> StepAgreement::awaited() const {
  std::vector<int> nodes;
  const bool changing = is_changing();
  if (has_outcome() || (!changing && arrived_[index(self_)] <= done_)) return nodes;
  for (std::size_t node = 0; node < member_.size(); ++node) {
    if (node == index(self_) || !is_survivor(node)) continue;
    const auto& said = said_[node];
    const bool has_said = changing
                              ? said && said->view == view_ && same_nodes_left(said->left, left_)
                              : arrived_[node] > done_;
    if (!has_said) nodes.push_back(static_cast<int>(node));
  }
  return nodes;
}

std::vector<int> StepAgreement::members() const {
  std::vector<int> members;
  for (std::size_t node = 0; node < member_.size(); ++node) {
    if (member_[node] != 0) members.push_back(static_cast<int>(node));
  }
  return members;
}

}  // namespace gpemu::peers
