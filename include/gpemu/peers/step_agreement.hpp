// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/pipeline/cache.hpp"

namespace gpemu::peers {

/// How a node left the group.
enum class Leaving : std::uint8_t {
  kNot,    ///< it is a member.
  kEnded,  ///< its process closed the connection: it does nothing any more.
  kLost,   ///< it cannot be reached: it may still be at work.
};

/// What nodes tell each other. Each message goes to all members, and those of one sender arrive in
/// order.
struct AgreementMessage {
  enum class Kind : std::uint8_t {
    kArrive = 1,  ///< the sender has its part of a step.
    kLeave = 2,   ///< nodes have left, and this is what the sender had heard until then.
  };
  Kind kind = Kind::kArrive;
  std::uint32_t view = 0;              ///< how many nodes had left when its plan was made.
  std::uint64_t step = 0;              ///< of kArrive.
  std::vector<std::uint64_t> arrived;  ///< of kLeave: the last step of each node.
  std::vector<Leaving> left;           ///< of kLeave: of each node.
  /// Of kArrive, the files that the sender has cached since it last said so; of kLeave, all.
  std::vector<pipeline::FileId> files;
};

/// How nodes that train together agree on which steps have been done, and by whom, however many of
/// them die, and whenever. A step has been done if every member had its part of the samples; all
/// nodes that survive agree on that, although a node that dies may tell only some of them.
///
/// After a node has left, members tell each other what they have heard from it (kLeave), and ignore
/// it from then on. When all survivors have said the same about who left, the latest that any of
/// them heard counts for all. The step that was not done, and all after it, are then divided anew
/// among the survivors. Source: this is the flush of virtual synchrony (Birman and Joseph, SOSP
/// 1987), for one message of each member at a time.
///
/// A pure state machine: no clock, no connections. Thread safety: none.
class StepAgreement {
 public:
  /// What a member may go by: at most one step at a time.
  struct Outcome {
    bool done = false;     ///< the step of the last arrive() counts.
    bool changed = false;  ///< the members are others: what was planned is void.
    /// Files that members cached, in the order of their numbers. After a change, they are all that
    /// are cached.
    std::vector<std::pair<int, std::vector<pipeline::FileId>>> files;
  };

  /// `cached` returns all files that this node caches.
  StepAgreement(int nodes, int self, std::function<std::vector<pipeline::FileId>()> cached);

  /// This node has its part of the next step. It does not count if the members change at the same
  /// time. Requires: an outcome was taken since the last one.
  void arrive(std::vector<pipeline::FileId> files);
  /// Errors: kCorruptData if no node would send this; kUnavailable if the others go on without this
  /// node.
  [[nodiscard]] Result<void> receive(int from, AgreementMessage message);
  /// The connection to a node has ended. What it sent before has been received.
  void note_left(int node, Leaving how);

  /// Returns what has been agreed since the last call; nothing may have been.
  ///
  /// Errors: kUnavailable if members cannot be reached and this node has no majority, so that they
  /// may go on by themselves.
  [[nodiscard]] Result<Outcome> take_outcome();
  /// Returns whether take_outcome() has something to say.
  [[nodiscard]] bool has_outcome() const { return has_outcome_ || split_; }
  /// Returns what must be sent to all members, in order.
  [[nodiscard]] std::vector<AgreementMessage> take_messages() {
    return std::exchange(messages_, {});
  }

  /// Returns the nodes without whose message this one cannot go on now; nobody while it has
  /// something to do itself.
  [[nodiscard]] std::vector<int> awaited() const;
  /// Returns a number that changes whenever something has been agreed, or must be agreed anew.
  [[nodiscard]] std::uint64_t round() const { return round_; }
  /// Returns whether nodes are awaited because others have left.
  [[nodiscard]] bool is_changing() const;

  /// Returns the members of the plan that counts once the last outcome was taken, in order.
  [[nodiscard]] std::vector<int> members() const;
  [[nodiscard]] std::uint64_t steps_done() const { return done_; }
  [[nodiscard]] std::uint32_t view() const { return view_; }
  /// Returns whether messages of a node still count.
  [[nodiscard]] bool listens_to(int node) const { return left_[index(node)] == Leaving::kNot; }

 private:
  /// What a node has said in a view, and not all have agreed on.
  struct Heard {
    std::uint64_t step = 0;
    std::vector<pipeline::FileId> files;
  };
  /// The end of the view before this one, for members that have not come as far.
  struct Before {
    std::uint32_t view = 0;
    std::vector<char> member;
    std::vector<std::uint64_t> arrived;
    std::vector<Leaving> left;
  };

  static std::size_t index(int node) { return static_cast<std::size_t>(node); }
  [[nodiscard]] bool is_survivor(std::size_t node) const {
    return member_[node] != 0 && left_[node] == Leaving::kNot;
  }
  [[nodiscard]] Result<void> check(const AgreementMessage& message) const;
  void hear(std::size_t node, Heard heard);
  void say_who_left();
  bool adopt();
  void go_on();
  void complete_step();
  bool complete_change();

  int self_;
  std::function<std::vector<pipeline::FileId>()> cached_;
  std::uint32_t view_ = 0;
  std::uint64_t done_ = 0;
  std::uint64_t round_ = 0;
  std::vector<char> member_;                           ///< of this view, by node.
  std::vector<Leaving> left_;                          ///< by node.
  std::vector<std::uint64_t> arrived_;                 ///< by node.
  std::vector<std::vector<Heard>> heard_;              ///< by node; in order.
  std::vector<std::vector<Heard>> early_;              ///< the same for the next view.
  std::vector<std::optional<AgreementMessage>> said_;  ///< the last kLeave, by node.
  std::optional<Before> before_;
  Outcome outcome_;
  bool has_outcome_ = false;
  bool split_ = false;  ///< others may go on by themselves.
  std::vector<AgreementMessage> messages_;
};

}  // namespace gpemu::peers
