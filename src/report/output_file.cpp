// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/output_file.hpp"

#include <cerrno>
#include <set>
#include <string>
#include <system_error>
#include <unistd.h>

#include "gpemu/base/file.hpp"
#include "gpemu/report/terminal.hpp"

namespace gpemu::report {

Result<void> check_writable(const std::filesystem::path& path) {
  if (path.empty()) return {};
  if (path == "-")
    return fail(ErrorCode::kInvalidArgument,
                "\"-\" is not a file name here: only --json can be printed");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorCode::kIo, "cannot write {}: it is a folder", path.string());
  }
  if (is_special_file(path)) {
    // Not opened, because a pipe's reader would see the writer disappear.
    if (::access(path.c_str(), W_OK) == 0) return {};
    return fail(ErrorCode::kIo, "cannot write {}: {}", path.string(), errno_message(errno));
  }
  GPEMU_TRY(AtomicFile::create(path));
  return {};
}

Result<void> check_outputs(const std::vector<std::filesystem::path>& paths) {
  std::set<std::filesystem::path> seen;
  for (const std::filesystem::path& path : paths) {
    if (path.empty()) continue;
    GPEMU_TRY(check_writable(path));
    std::error_code ignored;
    if (!seen.insert(std::filesystem::absolute(path, ignored).lexically_normal()).second) {
      return fail(ErrorCode::kInvalidArgument, "two outputs cannot share the file {}",
                  path.string());
    }
  }
  return {};
}

bool is_printed(const std::filesystem::path& json) {
  return json == "-";
}

std::filesystem::path file_of(const std::filesystem::path& json) {
  return is_printed(json) ? std::filesystem::path() : json;
}

Result<void> write_json(const std::filesystem::path& path, std::string_view text) {
  if (!is_printed(path)) return write_file_atomically(path, text);
  write_output(text);
  return {};
}

}  // namespace gpemu::report
