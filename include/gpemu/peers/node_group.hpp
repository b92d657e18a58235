// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/sample_source.hpp"
#include "gpemu/peers/step_agreement.hpp"
#include "gpemu/pipeline/cache.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::peers {

/// Which node of a group a process is, and where the first one can be found.
struct GroupPlace {
  int rank = 0;
  int nodes = 1;
  std::string address;  ///< HOST:PORT, at which node 0 listens; empty for a node by itself.
};

/// The most nodes of a group: each has a connection to each other one.
inline constexpr int kMostNodes = 64;

/// Reads e.g. "0/2@10.77.0.1:29500": node 0 of 2.
///
/// Errors: kInvalidArgument saying what is wrong.
[[nodiscard]] Result<GroupPlace> parse_group_place(std::string_view text);

/// The processes of several nodes that train together, joined by TCP. They must trust each other
/// and the network: nothing is encrypted.
///
/// Thread safety: one thread calls agree() and finish(); any thread, the others.
class NodeGroup {
 public:
  struct Options {
    GroupPlace place;
    std::string settings;  ///< what must be the same on all nodes, in words.
    Duration patience{};   ///< how long to wait for another node: to come, and to say or to send
                           ///< what this one needs to go on.
  };
  /// What this node's cache has for the others.
  struct Cached {
    std::function<std::vector<pipeline::FileId>()> all;
    std::function<data::SampleBytes(pipeline::FileId sample)> find;
  };

  /// Joins the group: returns when all nodes have. `clock` and `stop` must outlive the group;
  /// `stop` ends each of its waits.
  ///
  /// Errors: kUnavailable naming the nodes that did not come, or the address; kInvalidArgument if
  /// settings differ; kInterrupted after `stop`.
  [[nodiscard]] static Result<std::unique_ptr<NodeGroup>> join(const Options& options,
                                                               Cached cached, sim::Clock& clock,
                                                               const std::atomic<bool>& stop);
  NodeGroup(const NodeGroup&) = delete;
  NodeGroup& operator=(const NodeGroup&) = delete;
  /// Leaves the group. The others go on without this node unless all have finished.
  ~NodeGroup();

  [[nodiscard]] int rank() const;
  /// Returns how many nodes there were in the beginning.
  [[nodiscard]] int nodes() const;
  [[nodiscard]] std::vector<int> members() const;
  /// Returns how many nodes had left when the plan was made that counts now.
  [[nodiscard]] std::uint32_t view() const;

  /// Returns what changed since the last call, without waiting; else says that this node has its
  /// part of the next step, and waits until that step is done or the members have changed. A member
  /// that keeps this node waiting for longer than the patience has left.
  ///
  /// Errors: those of StepAgreement; kInterrupted after `stop`.
  [[nodiscard]] Result<StepAgreement::Outcome> agree(std::vector<pipeline::FileId> newly_cached);

  /// Gets a sample of at most `most` bytes from the cache of another node; no memory if that does
  /// not hold it. A node that does not send it within the patience is not asked again.
  ///
  /// Errors: kUnavailable, kCorruptData, kInterrupted.
  [[nodiscard]] Result<data::SampleBytes> fetch(int node, pipeline::FileId sample, Bytes most);

  /// Waits, but not longer than the patience, until the others have finished too: they may still
  /// need what this node knows. Requires: all steps are done.
  void finish();

 private:
  struct State;
  explicit NodeGroup(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::peers
