// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/text.hpp"
#include "gpemu/scheduling/job_table.hpp"

#include "csv_rows.hpp"

namespace gpemu::scheduling {
namespace {

constexpr double kMostSpeed = 1e6;
/// The most cores, and GiB, for a GPU.
constexpr double kMostForGpu = 1e6;

/// What the rows say of one model so far.
struct Model {
  std::map<std::string, double> by_kind;  ///< also of kinds that the fleet has not.
  std::map<std::string, std::vector<SpeedProfile::WithHost>> by_kind_and_host;  ///< likewise.
  std::set<std::string> evidence;
  SpeedProfile profile;
};

struct SpeedColumns {
  std::size_t model = 0;
  std::size_t speed = 0;
  std::optional<std::size_t> gpus;
  std::optional<std::size_t> kind;
  std::optional<std::size_t> cores;
  std::optional<std::size_t> memory;
  std::optional<std::size_t> evidence;
};

/// Reads cores or memory for a GPU; 0 if the row has none.
Result<std::uint64_t> amount_for_gpu(const CsvRows& rows, std::optional<std::size_t> column,
                                     double per_unit) {
  if (!column || rows.cell(*column).empty()) return 0;
  return rows.amount(*column, kMostForGpu, per_unit);
}

Result<void> read_speed(const CsvRows& rows, const SpeedColumns& columns, Model& model) {
  GPEMU_ASSIGN(const double speed, rows.number(columns.speed, 0, kMostSpeed));
  const std::string_view kind = columns.kind ? rows.cell(*columns.kind) : std::string_view();
  HostShare host;
  GPEMU_ASSIGN(host.millicores, amount_for_gpu(rows, columns.cores, kMillicoresPerCore));
  GPEMU_ASSIGN(host.memory_mib, amount_for_gpu(rows, columns.memory, kMibPerGib));
  const bool is_general = !columns.kind && !columns.cores && !columns.memory;
  if (columns.evidence && !rows.cell(*columns.evidence).empty()) {
    model.evidence.insert(printable(rows.cell(*columns.evidence)));
  }
  const bool for_host = host != HostShare{};
  if (kind.empty() && !for_host && !is_general) {
    return rows.fault("a row has a gpu, or cores and memory_gib for each GPU, or both");
  }
  if (kind.empty()) {
    model.profile.by_host.push_back({.per_gpu = host, .speed = speed});
  } else if (for_host) {
    model.by_kind_and_host[printable(kind)].push_back({.per_gpu = host, .speed = speed});
  } else if (!model.by_kind.try_emplace(printable(kind), speed).second) {
    return rows.fault("this model and gpu have a speed already");
  }
  const bool alone = !model.by_kind.empty() || !model.profile.by_host.empty();
  if (!alone || model.by_kind_and_host.empty()) return {};
  return rows.fault(
      "some rows of this model have a gpu and cores, others one of them: use one form");
}

std::unexpected<Error> no_speed_on(const CsvRows& rows, const std::string& model,
                                   const std::string& kind) {
  return rows.fault(fmt::format(
      "model {} has no speed on gpu \"{}\" of the fleet; 0 says that it cannot run there", model,
      kind));
}

/// Reads for which number of GPUs a row is.
Result<std::uint32_t> gpus_of(const CsvRows& rows, const SpeedColumns& columns) {
  if (!columns.gpus || rows.cell(*columns.gpus).empty()) return kAnyGpus;
  GPEMU_ASSIGN(const double gpus,
               rows.number(*columns.gpus, 1, static_cast<double>(kMaxGpusOfFleet)));
  if (gpus != std::floor(gpus)) return rows.fault("a job needs whole GPUs");
  return static_cast<std::uint32_t>(gpus);
}

Result<void> settle_kinds(const CsvRows& rows, const std::string& name, const Fleet& fleet,
                          Model& model) {
  SpeedProfile& profile = model.profile;
  if (model.by_kind.empty() && model.by_kind_and_host.empty()) return {};
  bool runs = false;
  for (std::size_t i = 0; i < fleet.kinds().size(); ++i) {
    const std::string& kind = fleet.kinds()[i];
    if (model.by_kind_and_host.contains(kind)) {
      profile.by_kind_and_host.push_back(model.by_kind_and_host[kind]);
    } else if (model.by_kind.contains(kind)) {
      profile.by_kind.push_back(model.by_kind[kind]);
    } else {
      return no_speed_on(rows, name, kind);
    }
    runs = runs || profile.runs_on(i);
  }
  if (runs) return {};
  return rows.fault(fmt::format("model {} can run on no GPU of the fleet", name));
}

}  // namespace

Result<SpeedTable> parse_speeds(std::string_view text, const std::string& name,
                                const Fleet& fleet) {
  GPEMU_ASSIGN(CsvRows rows, CsvRows::open(text, name));
  if (!rows.column("model") || !rows.column("speed")) {
    return rows.fault("speeds need the columns model and speed, and gpu, cores or memory_gib");
  }
  const SpeedColumns columns{.model = *rows.column("model"),
                             .speed = *rows.column("speed"),
                             .gpus = rows.column("gpus"),
                             .kind = rows.column("gpu"),
                             .cores = rows.column("cores"),
                             .memory = rows.column("memory_gib"),
                             .evidence = rows.column("evidence")};
  std::map<std::pair<std::string, std::uint32_t>, Model> models;
  for (;;) {
    GPEMU_ASSIGN(const bool more, rows.next());
    if (!more) break;
    GPEMU_ASSIGN(const std::uint32_t gpus, gpus_of(rows, columns));
    GPEMU_TRY(read_speed(rows, columns, models[{printable(rows.cell(columns.model)), gpus}]));
  }
  SpeedTable speeds;
  for (auto& [model, read] : models) {
    GPEMU_TRY(settle_kinds(rows, model.first, fleet, read));
    read.profile.evidence = fmt::format("{}", fmt::join(read.evidence, " and "));
    speeds.emplace(model, std::make_shared<const SpeedProfile>(std::move(read.profile)));
  }
  if (speeds.empty()) return rows.fault("no speeds follow");
  return speeds;
}

Result<SpeedTable> read_speeds(const std::filesystem::path& path, const Fleet& fleet) {
  GPEMU_ASSIGN(const std::string text, read_maybe_compressed(path));
  return parse_speeds(text, path.string(), fleet);
}

}  // namespace gpemu::scheduling
