// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/storage_spec.hpp"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"

#include "nearest_names.hpp"
#include "sourced_table.hpp"
#include "storage_table.hpp"

namespace gpemu::profile {
namespace {

constexpr Bounds kAtOnce{1, 65536};
constexpr Bounds kWaiting{1, 1e6};

}  // namespace

StorageSpec::ReadTime StorageSpec::read_time(double bytes, double waiting, bool continues) const {
  const double bytes_s = bytes / bytes_per_s;
  if (continues) return {.alone_s = bytes_s, .busy_s = bytes_s};
  const double alone_s = access_s * access_by_depth.at(waiting) + bytes_s;
  return {.alone_s = alone_s, .busy_s = std::max(alone_s / requests_at_once, bytes_s)};
}

Result<void> read_storage_numbers(const SourcedFile& file, const toml::table& table,
                                  const std::string& field, StorageSpec& spec) {
  const SourcedTable numbers(file, table, field);
  GPEMU_ASSIGN(spec.shared, numbers.flag("shared"));
  GPEMU_ASSIGN(const double access_s, numbers.seconds("access_ms"));
  GPEMU_ASSIGN(const double depth, numbers.number("access_depth", kWaiting, 1.0));
  GPEMU_ASSIGN(spec.access_by_depth, numbers.shares("access_by_depth"));
  GPEMU_ASSIGN(const double mb_per_s, numbers.number("mb_per_s", kMbPerS));
  GPEMU_ASSIGN(spec.requests_at_once, numbers.whole("requests_at_once", kAtOnce, 1.0));
  spec.access_s = access_s / spec.access_by_depth.at(depth);
  spec.bytes_per_s = mb_per_s * 1e6;
  return {};
}

Result<StorageSpec> parse_storage_spec(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  SourcedFile file(root, origin);
  StorageSpec spec;
  GPEMU_ASSIGN(spec.name, file.name());
  GPEMU_ASSIGN(spec.title, file.text("title"));
  const std::string field = "storage";
  GPEMU_TRY(
      SourcedTable(file, root, field)
          .check_keys({"name", "title", "shared", "access_ms", "access_depth", "access_by_depth",
                       "mb_per_s", "requests_at_once", "source", "sources"}));
  GPEMU_TRY(file.read_sources());
  GPEMU_TRY(file.cite(root, field));
  GPEMU_TRY(read_storage_numbers(file, root, field, spec));
  GPEMU_TRY(file.check_sources());
  spec.sources = std::move(file).citations();
  return spec;
}

std::vector<std::string> storage_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : paths_in(folder)) {
    if (file.extension() == ".toml") names.push_back(file.stem().string());
  }
  return names;
}

Result<StorageSpec> find_storage(const std::filesystem::path& folder,
                                 std::string_view name_or_path) {
  std::filesystem::path path = name_or_path;
  if (!name_or_path.contains('/') && !name_or_path.ends_with(".toml")) {
    const std::vector<std::string> names = storage_names(folder);
    if (std::ranges::find(names, name_or_path) == names.end()) {
      return fail(ErrorCode::kNotFound,
                  "there is no storage \"{}\"{}; there is: {}; the path of a TOML file describes "
                  "another (docs/reference/storage-file.md)",
                  name_or_path, did_you_mean(name_or_path, names), fmt::join(names, ", "));
    }
    path = folder / fmt::format("{}.toml", name_or_path);
  }
  constexpr Bytes kMaxBytes = kMiB;  // Hundreds of times the largest one.
  GPEMU_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  return parse_storage_spec(text, path.string());
}

}  // namespace gpemu::profile
