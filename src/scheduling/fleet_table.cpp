// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/fleet_table.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gpemu/base/text.hpp"

#include "csv_rows.hpp"

namespace gpemu::scheduling {
namespace {

/// The most thousandths of a core, and MiB, of a server: far more than any has.
constexpr double kMostOfServer = 1e12;

/// Where a table has what.
struct ServerColumns {
  std::optional<std::size_t> name;
  std::optional<std::size_t> kind;
  std::optional<std::size_t> gpus;
  std::optional<std::size_t> count;
  std::optional<std::size_t> cores;
  std::optional<std::size_t> memory;
  double millicores_per_unit = kMillicoresPerCore;
  double mib_per_unit = kMibPerGib;
};

Result<ServerColumns> server_columns_of(const CsvRows& rows) {
  if (rows.column("server") && rows.column("gpus")) {
    return ServerColumns{.name = rows.column("server"),
                         .kind = rows.column("gpu"),
                         .gpus = rows.column("gpus"),
                         .count = rows.column("count"),
                         .cores = rows.column("cores"),
                         .memory = rows.column("memory_gib")};
  }
  // Source: data/csv of github.com/hkust-adsl/kubernetes-scheduler-simulator.
  if (rows.column("sn") && rows.column("cpu_milli") && rows.column("memory_mib") &&
      rows.column("gpu") && rows.column("model")) {
    return ServerColumns{.name = rows.column("sn"),
                         .kind = rows.column("model"),
                         .gpus = rows.column("gpu"),
                         .count = {},
                         .cores = rows.column("cpu_milli"),
                         .memory = rows.column("memory_mib"),
                         .millicores_per_unit = 1,
                         .mib_per_unit = 1};
  }
  return rows.fault(
      "these columns are of no format of servers; there are gpemu (server gpus), openb (sn "
      "cpu_milli memory_mib gpu model)");
}

/// Reads the cores or the memory of a server; without a column they are unlimited.
Result<std::uint64_t> amount_of_server(const CsvRows& rows, std::optional<std::size_t> column,
                                       double per_unit) {
  if (!column) return kUnlimited;
  return rows.amount(*column, kMostOfServer / per_unit, per_unit);
}

Result<std::uint32_t> whole_number(const CsvRows& rows, std::size_t column, std::uint32_t least,
                                   std::uint32_t most) {
  GPEMU_ASSIGN(const double value, rows.number(column, least, most));
  const auto number = static_cast<std::uint32_t>(value);
  if (number != value) return rows.fault("a number of servers or GPUs is whole");
  return number;
}

Result<void> read_servers(const CsvRows& rows, const ServerColumns& columns,
                          std::vector<Server>& servers) {
  Server server;
  server.name = printable(rows.cell(*columns.name));
  if (columns.kind) server.gpu = printable(rows.cell(*columns.kind));
  GPEMU_ASSIGN(server.gpus, whole_number(rows, *columns.gpus, 0, kMaxGpusPerServer));
  GPEMU_ASSIGN(server.host.millicores,
               amount_of_server(rows, columns.cores, columns.millicores_per_unit));
  GPEMU_ASSIGN(server.host.memory_mib,
               amount_of_server(rows, columns.memory, columns.mib_per_unit));
  if (!columns.count) {
    servers.push_back(std::move(server));
    return {};
  }
  GPEMU_ASSIGN(const std::uint32_t count,
               whole_number(rows, *columns.count, 1, static_cast<std::uint32_t>(kMaxGpusOfFleet)));
  for (std::uint32_t i = 0; i < count; ++i) {
    servers.push_back(server);
    servers.back().name = fmt::format("{}{}", server.name, i);
  }
  return {};
}

}  // namespace

Result<Fleet> parse_fleet(std::string_view text, const std::string& name) {
  GPEMU_ASSIGN(CsvRows rows, CsvRows::open(text, name));
  GPEMU_ASSIGN(const ServerColumns columns, server_columns_of(rows));
  std::vector<Server> servers;
  for (;;) {
    GPEMU_ASSIGN(const bool more, rows.next());
    if (!more) break;
    GPEMU_TRY(read_servers(rows, columns, servers));
    if (servers.size() > kMaxGpusOfFleet) return rows.fault("these are too many servers");
  }
  if (servers.empty()) return rows.fault("no servers follow");
  Result<Fleet> fleet = Fleet::create(std::move(servers));
  if (!fleet) return fail(fleet.error().code, "{}: {}", name, fleet.error().message);
  return fleet;
}

Result<Fleet> read_fleet(const std::filesystem::path& path) {
  GPEMU_ASSIGN(const std::string text, read_maybe_compressed(path));
  return parse_fleet(text, path.string());
}

}  // namespace gpemu::scheduling
