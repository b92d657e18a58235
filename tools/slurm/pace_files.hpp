// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "gpemu/base/error.hpp"

namespace gpemu::tools {

/// The paces of jobs that run: a file each, FOLDER/NUMBER.pace, which `gpemu jobs run --pace`
/// reads.
class PaceFiles {
 public:
  /// Empty: no files.
  explicit PaceFiles(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Errors: kIo.
  [[nodiscard]] Result<void> write(const std::string& job, double pace);
  /// Removes those of all jobs but these.
  void keep(const std::set<std::string>& jobs);
  /// Returns the name of a file, without the folder.
  [[nodiscard]] static std::string name_of(const std::string& job) { return job + ".pace"; }

 private:
  std::filesystem::path folder_;
  std::set<std::string> written_;
};

}  // namespace gpemu::tools
