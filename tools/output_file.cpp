// SPDX-License-Identifier: Apache-2.0
#include "output_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <system_error>
#include <unistd.h>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {

Result<void> check_writable(const std::filesystem::path& path) {
  if (path.empty()) return {};
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return fail(ErrorCode::kIo, "cannot write {}: it is a folder", path.string());
  }
  std::string temporary = path.string() + ".XXXXXX";
  const FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.valid()) {
    return fail(ErrorCode::kIo, "cannot write {}: {}", path.string(), errno_message(errno));
  }
  ::unlink(temporary.c_str());
  return {};
}

}  // namespace gpemu::tools
