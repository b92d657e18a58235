// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

#include "live/job_notes.hpp"

namespace gpemu::tools {

/// A job as squeue shows it. Units: seconds since 1970; 0: not known.
struct QueuedJob {
  std::string id;  ///< its number.
  std::string state, partition, user, reason;
  bool is_held = false;
  double submitted_s = 0, started_s = 0;
  bool asks_for_gpus = false;      ///< or for parts of them.
  std::uint32_t gpus = 0;          ///< that it asks for, all together; with shards, 1.
  std::string gpu_type;            ///< of those; empty: any.
  std::uint32_t shards = 0;        ///< that it asks for in place of GPUs.
  std::vector<std::string> nodes;  ///< that it has.
  std::string fault;               ///< why policies cannot serve it; empty: they can.
  /// What its comment says, by names of `note`.
  std::map<std::string, std::string> texts;

  /// Requires: the job outlives it.
  [[nodiscard]] JobNotes notes() const { return {"the comment's", "", texts}; }
  /// Returns whether it is over, and has given back what it had.
  [[nodiscard]] bool has_ended() const;
  /// Returns whether it waits, also after it was requeued.
  [[nodiscard]] bool is_pending() const;
  /// Returns whether it has nodes, or is giving them back.
  [[nodiscard]] bool has_nodes() const { return !has_ended() && !is_pending(); }
  [[nodiscard]] bool is_leaving() const { return state == "COMPLETING"; }
};

/// A node as sinfo shows it.
struct QueueNode {
  std::string name, gpu_type;
  std::uint32_t gpus = 0, shards = 0;
  bool is_ready = false;  ///< jobs may start there.
  std::string fault;      ///< why policies cannot use it; empty: they can.

  friend bool operator==(const QueueNode&, const QueueNode&) = default;
};

/// The options by which squeue and sinfo print what the functions below read. `mark`, letters that
/// no user can know when writing a comment, is behind each field of a job.
[[nodiscard]] std::vector<std::string> squeue_options(std::string_view mark);
[[nodiscard]] std::vector<std::string> sinfo_options();

/// Errors: kCorruptData for what is not as those options make it.
[[nodiscard]] Result<std::vector<QueuedJob>> parse_queue(std::string_view text,
                                                         std::string_view mark);
[[nodiscard]] Result<std::vector<QueueNode>> parse_nodes(std::string_view text);

/// Reads a comment: a JSON object whose keys are names of notes. One that is no object says
/// nothing.
///
/// Errors: kInvalidArgument for an object that is wrong, and for keys that are no names of notes.
[[nodiscard]] Result<std::map<std::string, std::string>> parse_comment(std::string_view comment);
/// Returns the comment that says these notes.
[[nodiscard]] std::string comment_of(const std::map<std::string, std::string>& texts);

}  // namespace gpemu::tools
