// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// The columns of `nvidia-smi dmon` or `nvidia-smi pmon`, one line for each device or process and
/// period. What is not known reads "-". Source of the form: printouts of nvidia-smi 550 to 595.
class NvidiaSmiMonitor {
 public:
  enum class Subject : bool { kDevices, kProcesses };

  /// `metrics`: letters of -s, e.g. "pu"; "" for those that are shown without -s. `stamps`: letters
  /// of -o, "D" and "T". Errors: kInvalidArgument for another letter.
  [[nodiscard]] static Result<NvidiaSmiMonitor> create(Subject subject, std::string_view metrics,
                                                       std::string_view stamps);

  /// Returns the two lines of headings.
  [[nodiscard]] std::string header() const;
  [[nodiscard]] std::string lines(const SmiSample& sample) const;

 private:
  NvidiaSmiMonitor(Subject subject, std::string_view metrics, std::string_view stamps)
      : subject_(subject), metrics_(metrics), stamps_(stamps) {}

  [[nodiscard]] std::string stamp(const SmiSample& sample) const;

  Subject subject_;
  std::string metrics_, stamps_;
};

}  // namespace gpemu::tools
