// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/scheduling/job.hpp"
#include "gpemu/scheduling/job_table_options.hpp"
#include "gpemu/scheduling/speed_profile.hpp"

namespace gpemu::scheduling {

/// The largest time and number of iterations: 3 million years, or 1e14 iterations of a second,
/// which doubles hold to a hundredth. Units: seconds.
inline constexpr double kMostTime = 1e14;

/// Reads "2017-10-09 07:01:55", also with "+08:00" behind it, as seconds since 1970; nothing if the
/// text is not such a time.
[[nodiscard]] std::optional<double> parse_date(std::string_view text);

/// The jobs of a file, to which it adds what other tables say about them. The options must outlive
/// it.
class JobList {
 public:
  /// Makes an error that names the place in the file.
  using Fault = std::function<std::unexpected<Error>(std::string_view what)>;

  explicit JobList(const JobTableOptions& options) : options_(&options) {}

  /// Returns the number of a user.
  [[nodiscard]] std::uint32_t user(const std::string& name);

  /// Adds a job whose iteration_s is 0 if the file does not state it: then the speeds say how many
  /// iterations it does in a second. A job without id gets its number.
  ///
  /// Errors: kCorruptData by `fault` if it asks for nothing, or a table lacks it.
  [[nodiscard]] Result<void> add(Job job, const Fault& fault);

  /// Counts a row that is no job to run.
  void leave_out() { ++left_out_; }

  /// Returns the jobs, sorted by arrival, users numbered in this order. `from_first`: arrivals
  /// count from the first one. Errors: kCorruptData by `fault` if there are none.
  [[nodiscard]] Result<std::vector<Job>> finish(bool from_first, const Fault& fault);

 private:
  /// A profile relative to its greatest speed.
  struct Relative {
    double speed = 1;                             ///< the greatest.
    std::shared_ptr<const SpeedProfile> profile;  ///< null: the same everywhere.
  };

  [[nodiscard]] Result<void> add_speed(Job& job, const Fault& fault);
  [[nodiscard]] const Relative& relative(const std::shared_ptr<const SpeedProfile>& profile);

  const JobTableOptions* options_;
  std::map<std::string, std::uint32_t> users_;
  std::map<std::shared_ptr<const SpeedProfile>, Relative> relative_;
  std::vector<Job> jobs_;
  std::size_t left_out_ = 0;
};

}  // namespace gpemu::scheduling
