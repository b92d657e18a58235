// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <system_error>
#include <vector>

#include "gpemu/base/variables.hpp"
#include "gpemu/profile/database.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

// Any address in this library tells which file it was loaded from.
const char kAddressHere = 0;

// The files that this code may run in, resolved: the shared library, then the program.
std::vector<fs::path> own_files() {
  std::vector<fs::path> files;
  std::error_code error;
  Dl_info info{};
  if (::dladdr(&kAddressHere, &info) != 0 && info.dli_fname != nullptr) {
    files.push_back(fs::canonical(info.dli_fname, error));
  }
  files.push_back(fs::canonical("/proc/self/exe", error));
  std::erase_if(files, [](const fs::path& file) { return file.empty(); });
  return files;
}

fs::path installed_path(const Lookup& lookup) {
  if (const char* path = lookup(variable::kProfiles); path != nullptr && *path != '\0') {
    return path;
  }
  const fs::path below = fs::path("share") / "gpemu" / "profiles.db";
  const std::vector<fs::path> files = own_files();
  for (const fs::path& file : files) {
    for (fs::path folder = file.parent_path();; folder = folder.parent_path()) {
      std::error_code error;
      if (fs::exists(folder / below, error)) return folder / below;
      if (folder == folder.parent_path()) break;
    }
  }
  // Nothing there: the message names the place where an installation has it.
  return files.empty() ? below : files.back().parent_path().parent_path() / below;
}

fs::path user_path(const Lookup& lookup) {
  const fs::path below = fs::path("gpemu") / "profiles.db";
  // The XDG Base Directory Specification: a relative path is to be ignored.
  const char* data_home = lookup("XDG_DATA_HOME");
  if (data_home != nullptr && *data_home == '/') return data_home / below;
  const char* home = lookup("HOME");
  if (home != nullptr && *home == '/') return fs::path(home) / ".local" / "share" / below;
  return {};
}

}  // namespace

Database::Paths Database::default_paths(const Lookup& lookup) {
  return {installed_path(lookup), user_path(lookup)};
}

}  // namespace gpemu::profile
