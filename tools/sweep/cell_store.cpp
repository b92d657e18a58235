// SPDX-License-Identifier: Apache-2.0
#include "sweep/cell_store.hpp"

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "gpemu/report/json_text.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kCellFormat = "gpemu-sweep-cell-1";
constexpr std::string_view kCellSuffix = ".json";

ordered_json record_json(const CellRecord& record) {
  ordered_json json{{"format", kCellFormat}, {"factors", ordered_json::object()}};
  for (const auto& [name, value] : record.factors) json["factors"][name] = value;
  json["command"] = record.command;
  json["gpemu_version"] = record.gpemu_version;
  json["host"] = record.host;
  json["start"] = record.start;
  json["elapsed_s"] = record.elapsed_s;
  json["exit_status"] = record.exit_status;
  json["last_lines"] = record.last_lines;
  json["result"] = record.result;
  return json;
}

/// Requires: it has the form of a record. Throws what nlohmann::json throws if not.
CellRecord record_of(const ordered_json& json) {
  CellRecord record;
  for (const auto& [name, value] : json.at("factors").items()) {
    record.factors.emplace_back(name, value.get<std::string>());
  }
  json.at("command").get_to(record.command);
  json.at("gpemu_version").get_to(record.gpemu_version);
  json.at("host").get_to(record.host);
  json.at("start").get_to(record.start);
  json.at("elapsed_s").get_to(record.elapsed_s);
  json.at("exit_status").get_to(record.exit_status);
  json.at("last_lines").get_to(record.last_lines);
  record.result = json.at("result");
  return record;
}

/// Returns nothing if it is no record.
std::optional<CellRecord> record_in(const ordered_json& json) {
  if (!json.is_object() || json.value("format", ordered_json()) != kCellFormat) return std::nullopt;
  try {
    return record_of(json);
  } catch (const ordered_json::exception&) {
    return std::nullopt;
  }
}

/// File systems that have no locks give one of these.
bool means_no_locks(int error) {
  return error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP || error == EINVAL;
}

}  // namespace

Result<CellStore> CellStore::open(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder / "cells", error);
  if (error) {
    return fail(ErrorCode::kIo, "{}: {}", (folder / "cells").string(), error.message());
  }
  return CellStore(folder);
}

std::filesystem::path CellStore::file_of(const profile::SweepCell& cell) const {
  return folder_ / "cells" / fmt::format("{:016x}{}", cell.key, kCellSuffix);
}

bool CellStore::has(const profile::SweepCell& cell) const {
  std::error_code ignored;
  return std::filesystem::exists(file_of(cell), ignored);
}

std::set<std::uint64_t> CellStore::keys() const {
  std::set<std::uint64_t> found;
  for (const std::filesystem::path& file : paths_in(folder_ / "cells")) {
    const std::string name = file.filename().string();
    if (!name.ends_with(kCellSuffix)) continue;
    const char* const end = name.data() + name.size() - kCellSuffix.size();
    std::uint64_t key = 0;
    const auto [last, error] = std::from_chars(name.data(), end, key, 16);
    if (error == std::errc() && last == end) found.insert(key);
  }
  return found;
}

Result<std::optional<CellLock>> CellStore::lock(const profile::SweepCell& cell) const {
  const std::string path = folder_ / "lock";
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file.valid()) return fail(ErrorCode::kIo, "{}: {}", path, errno_message(errno));
  struct flock byte{};
  byte.l_type = F_WRLCK;
  byte.l_whence = SEEK_SET;
  byte.l_start = static_cast<off_t>(cell.key >> 2);  // Offsets are not negative.
  byte.l_len = 1;
  // A lock of the open file, not of this process: its threads exclude each other, too, and the
  // command that inherits it keeps it.
  if (::fcntl(file.get(), F_OFD_SETLK, &byte) == 0) return CellLock(std::move(file));
  if (errno == EAGAIN || errno == EACCES) return std::nullopt;
  if (means_no_locks(errno)) {
    return fail(ErrorCode::kUnsupported,
                "{}: its file system has no locks; put the sweep's folder elsewhere (--folder)",
                path);
  }
  return fail(ErrorCode::kIo, "{}: {}", path, errno_message(errno));
}

Result<void> CellStore::write(const profile::SweepCell& cell, const CellRecord& record) const {
  return write_file_atomically(file_of(cell), report::json_text(record_json(record)));
}

Result<CellRecord> CellStore::read(const profile::SweepCell& cell) const {
  const std::filesystem::path file = file_of(cell);
  GPEMU_ASSIGN(const std::string text, read_file(file));
  std::optional<CellRecord> record = record_in(ordered_json::parse(text, nullptr, false));
  if (record) return *std::move(record);
  return fail(ErrorCode::kCorruptData,
              "{}: not a cell of a sweep; remove the file to run cell {} again", file.string(),
              cell.number);
}

Result<void> CellStore::forget(const profile::SweepCell& cell) const {
  std::error_code error;
  std::filesystem::remove(file_of(cell), error);
  if (error) return fail(ErrorCode::kIo, "{}: {}", file_of(cell).string(), error.message());
  return {};
}

}  // namespace gpemu::tools
