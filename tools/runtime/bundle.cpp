// SPDX-License-Identifier: Apache-2.0
#include "runtime/bundle.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <vector>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr Bytes kMostConfigBytes = 64 * kMiB;
constexpr Bytes kMostLibraryBytes = 64 * kMiB;
/// Of packages. Source: cmake/portable/old_glibc.c.
constexpr int kOldestGlibcMinor = 31;

/// Returns the minor version of a glibc 2, which its libc.so.6 tells whoever executes it.
std::optional<int> glibc_minor(const std::filesystem::path& library) {
  const auto content = read_file(library, kMostLibraryBytes);
  if (!content) return std::nullopt;
  constexpr std::string_view kName = "GNU C Library", kVersion = "release version 2.";
  const std::size_t name = content->find(kName);
  const std::size_t version = content->find(kVersion, std::min(name, content->size()));
  if (version == std::string::npos) return std::nullopt;
  int minor = 0;
  std::from_chars(content->data() + version + kVersion.size(), content->data() + content->size(),
                  minor);
  return minor;
}

/// Returns the C libraries of a container that may be: those of multi-arch Debian, and of others.
std::vector<std::filesystem::path> glibcs_in(const std::filesystem::path& rootfs) {
  std::vector<std::filesystem::path> found;
  for (const char* folder :
       {"lib", "lib64", "usr/lib", "usr/lib64", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu",
        "lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu"}) {
    std::error_code ignored;
    const std::filesystem::path library = rootfs / folder / "libc.so.6";
    if (std::filesystem::exists(library, ignored)) found.push_back(library);
  }
  return found;
}

bool has_musl(const std::filesystem::path& rootfs) {
  return std::ranges::any_of(paths_in(rootfs / "lib"), [](const std::filesystem::path& path) {
    return path.filename().string().starts_with("ld-musl-");
  });
}

}  // namespace

Result<Bundle> Bundle::read(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  GPEMU_ASSIGN(const std::string text, read_file(path, kMostConfigBytes));
  json config = json::parse(text, nullptr, false);
  if (!config.is_object()) return fail(ErrorCode::kCorruptData, "{}: no JSON", path.string());
  return Bundle(folder, std::move(config));
}

std::optional<std::string> Bundle::variable(const std::string& name) const {
  const json process = config_.value("process", json::object());
  const json variables = process.is_object() ? process.value("env", json::array()) : json::array();
  for (const json& entry : variables) {
    const std::string text = entry.is_string() ? entry.get<std::string>() : "";
    if (text.starts_with(name + '=')) return text.substr(name.size() + 1);
  }
  return std::nullopt;
}

std::filesystem::path Bundle::rootfs() const {
  const json root = config_.value("root", json::object());
  return folder_ / (root.is_object() ? root.value("path", "rootfs") : "rootfs");
}

Result<void> Bundle::add(const containers::ContainerEdits& edits) {
  json& variables = config_["process"]["env"];
  for (const auto& [name, value] : edits.environment) {
    const auto is_it = [&name](const json& entry) {
      return entry.is_string() && entry.get<std::string>().starts_with(name + '=');
    };
    variables.erase(std::remove_if(variables.begin(), variables.end(), is_it), variables.end());
    variables.push_back(name + '=' + value);
  }
  json& mounts = config_["mounts"];
  if (mounts.is_null()) mounts = json::array();
  for (const containers::Mount& mount : edits.mounts) {
    const auto is_it = [&mount](const json& entry) {
      return entry.value("destination", "") == mount.container;
    };
    mounts.erase(std::remove_if(mounts.begin(), mounts.end(), is_it), mounts.end());
    mounts.push_back({{"destination", mount.container},
                      {"type", "bind"},
                      {"source", mount.host.string()},
                      {"options", containers::mount_options(mount)}});
  }
  return write_file_atomically(folder_ / "config.json", config_.dump());
}

Result<void> check_c_library(const std::filesystem::path& rootfs) {
  int newest = -1;
  for (const std::filesystem::path& library : glibcs_in(rootfs)) {
    newest = std::max(newest, glibc_minor(library).value_or(kOldestGlibcMinor));
  }
  if (newest < 0 && has_musl(rootfs)) {
    return fail(ErrorCode::kUnsupported,
                "the image's C library is musl, which has no LD_AUDIT: its programs would find no "
                "GPU; use an image with glibc 2.{} or later, such as Debian 11's",
                kOldestGlibcMinor);
  }
  if (newest >= 0 && newest < kOldestGlibcMinor) {
    return fail(ErrorCode::kUnsupported,
                "the image's glibc is 2.{}: its programs would find no GPU; use an image with "
                "glibc 2.{} or later, such as Debian 11's",
                newest, kOldestGlibcMinor);
  }
  return {};
}

}  // namespace gpemu::tools
