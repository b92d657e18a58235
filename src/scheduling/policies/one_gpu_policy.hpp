// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {

/// The base of policies for jobs of one GPU or machine each, which may be of different kinds and
/// belong to different users. A job runs until its end.
class OneGpuPolicy : public Policy {
 public:
  void decide(const Snapshot& snapshot, Decision& decision) final;

 protected:
  struct Running {
    JobIndex job = 0;
    std::size_t kind = 0;
    double end_s = 0;
  };

  /// Starts jobs by start(), as many as it wants to.
  virtual void choose(const Snapshot& snapshot, Decision& decision) = 0;

  /// Starts a job that waits on a free GPU of this kind. Requires: there is one.
  void start(const Snapshot& snapshot, JobIndex job, std::size_t kind, Decision& decision);

  [[nodiscard]] const std::vector<JobIndex>& waiting() const { return waiting_; }
  [[nodiscard]] const std::vector<Running>& running() const { return running_; }
  [[nodiscard]] std::size_t kinds() const { return of_kind_.size(); }
  /// Returns how many GPUs of a kind there are, or are free.
  [[nodiscard]] std::uint32_t all_of(std::size_t kind) const { return of_kind_[kind]; }
  [[nodiscard]] std::uint32_t free_of(std::size_t kind) const { return free_of_kind_[kind]; }
  /// Returns the users that have a job that waits, by number.
  [[nodiscard]] std::vector<std::uint32_t> waiting_users(const Snapshot& snapshot) const;
  /// Returns how many GPUs of a kind a user has.
  [[nodiscard]] std::uint32_t held_by(const Snapshot& snapshot, std::uint32_t user,
                                      std::size_t kind) const;
  /// Returns how long a job takes on a GPU of this kind, with its restart.
  [[nodiscard]] static double time_s(const Snapshot& snapshot, JobIndex job, std::size_t kind);
  /// Returns the kind on which a job takes the least time.
  [[nodiscard]] std::size_t best_kind(const Snapshot& snapshot, JobIndex job) const;

 private:
  void note_changes(const Snapshot& snapshot);

  std::vector<JobIndex> waiting_;  ///< in the order of arrival.
  std::vector<Running> running_;
  std::vector<std::uint32_t> of_kind_;
  std::vector<std::uint32_t> free_of_kind_;
  std::optional<FreeResources> room_;  ///< what is left in this decision.
};

}  // namespace gpemu::scheduling
