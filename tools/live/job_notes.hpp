// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/fleet.hpp"
#include "gpemu/scheduling/job.hpp"

namespace gpemu::tools {

/// What a job of a real queue says about itself that policies need to know: texts by name, as
/// annotations of pods (docs/how-to/kubernetes-scheduler.md), whose names begin with "gpemu.dev/",
/// or Slurm's comment.
class JobNotes {
 public:
  /// `kind`: what messages call one, such as "the annotation". Both outlive this object.
  JobNotes(std::string_view kind, std::string_view prefix,
           const std::map<std::string, std::string>& texts)
      : kind_(kind), prefix_(prefix), texts_(texts) {}

  [[nodiscard]] std::string full_name(std::string_view name) const {
    return std::string(prefix_) + std::string(name);
  }
  /// Returns a note; "" if there is none.
  [[nodiscard]] std::string text(std::string_view name) const;
  /// Returns a number, `otherwise` without such a note. Errors: kInvalidArgument with the note,
  /// unless it is a finite number from `least` on.
  [[nodiscard]] Result<double> number(std::string_view name, double otherwise,
                                      double least = 0) const;

 private:
  std::string_view kind_, prefix_;
  const std::map<std::string, std::string>& texts_;
};

/// The names of notes.
namespace note {
inline constexpr std::string_view kSeconds = "seconds";
inline constexpr std::string_view kDoneSeconds = "done-seconds";
inline constexpr std::string_view kRestartSeconds = "restart-seconds";
inline constexpr std::string_view kStatedSeconds = "stated-seconds";
inline constexpr std::string_view kStageSeconds = "stage-seconds";
inline constexpr std::string_view kIterations = "iterations";
inline constexpr std::string_view kSpeeds = "speeds";
inline constexpr std::string_view kUser = "user";
inline constexpr std::string_view kOpportunistic = "opportunistic";
inline constexpr std::string_view kTogether = "together";
}  // namespace note

/// Reads tables of speeds of single jobs, each once. Thread safety: none.
class NotedSpeeds {
 public:
  /// Returns what the note says; null without it. Errors: those of parse_speeds(), and
  /// kInvalidArgument without a row.
  [[nodiscard]] Result<std::shared_ptr<const scheduling::SpeedProfile>> of(
      const JobNotes& notes, const scheduling::Fleet& fleet);
  /// The fleet is another one.
  void clear() { known_.clear(); }

 private:
  std::map<std::string, std::shared_ptr<const scheduling::SpeedProfile>> known_;
};

/// Returns the job that notes describe: its times, stages and speeds, but not its name, its user
/// and what it asks for. Errors: kInvalidArgument with the note that says something impossible.
[[nodiscard]] Result<scheduling::Job> job_of_notes(const JobNotes& notes,
                                                   const scheduling::Fleet& fleet,
                                                   NotedSpeeds& speeds);

/// Returns the notes that describe a job, without a prefix. `done_s`: how much of it is done.
[[nodiscard]] std::map<std::string, std::string> notes_of_job(const scheduling::Fleet& fleet,
                                                              const scheduling::Job& job,
                                                              double done_s);

/// Returns numbers with commas between them, such as "0,3"; nothing if the text is none.
[[nodiscard]] std::optional<std::vector<double>> parse_numbers(std::string_view text);

}  // namespace gpemu::tools
