// SPDX-License-Identifier: Apache-2.0
#include "slurm/pace_files.hpp"

#include <system_error>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {

Result<void> PaceFiles::write(const std::string& job, double pace) {
  if (folder_.empty()) return {};
  const std::filesystem::path file = folder_ / name_of(job);
  GPEMU_TRY(write_file_atomically(file, fmt::format("{:.9g}\n", pace)));
  written_.insert(job);
  // Jobs of all users read it.
  std::error_code error;
  using std::filesystem::perms;
  std::filesystem::permissions(
      file, perms::owner_read | perms::owner_write | perms::group_read | perms::others_read, error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", file.string(), error.message());
  return {};
}

void PaceFiles::keep(const std::set<std::string>& jobs) {
  std::erase_if(written_, [&](const std::string& job) {
    if (jobs.contains(job)) return false;
    std::error_code error;
    std::filesystem::remove(folder_ / name_of(job), error);
    return true;
  });
}

}  // namespace gpemu::tools
