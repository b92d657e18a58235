// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/job_writer.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <vector>

#include "csv_rows.hpp"

namespace gpemu::scheduling {
namespace {

/// An optional column.
struct WrittenColumn {
  std::string_view name;
  bool (*needed)(const Job& job);  ///< whether the table must have the column for this job.
  std::string (*text)(const Job& job, const Fleet* fleet);
};

bool has_iterations(const Job& job) {
  return job.iteration_s != 1;
}

/// Returns the kinds of GPUs that a job may have, with | between them; empty: any.
std::string kinds_of(const Job& job, const Fleet* fleet) {
  if (fleet == nullptr || job.demand.kinds == Demand().kinds) return {};
  std::string names;
  for (std::size_t kind = 0; kind < fleet->kinds().size(); ++kind) {
    if ((job.demand.kinds >> kind & 1U) == 0) continue;
    names += fmt::format("{}{}", names.empty() ? "" : "|", fleet->kinds()[kind]);
  }
  return names;
}

template <double Job::* number>
constexpr WrittenColumn number_column(std::string_view name) {
  return {name, [](const Job& job) { return job.*number != 0; },
          [](const Job& job, const Fleet*) { return fmt::format("{}", job.*number); }};
}

template <std::size_t stage>
constexpr WrittenColumn stage_column(std::string_view name) {
  return {name, [](const Job& job) { return job.stages_s[stage] != 0; },
          [](const Job& job, const Fleet*) { return fmt::format("{}", job.stages_s[stage]); }};
}

template <std::uint64_t HostShare::* amount, int per_unit>
constexpr WrittenColumn host_column(std::string_view name) {
  return {name, [](const Job& job) { return job.demand.host.*amount != 0; },
          [](const Job& job, const Fleet*) {
            return fmt::format("{}", static_cast<double>(job.demand.host.*amount) / per_unit);
          }};
}

constexpr auto kColumns = std::to_array<WrittenColumn>({
    {"model", [](const Job& job) { return !job.model.empty(); },
     [](const Job& job, const Fleet*) { return job.model; }},
    number_column<&Job::restart_s>("restart_s"),
    {"gpu_share", [](const Job& job) { return job.demand.shares_gpus(); },
     [](const Job& job, const Fleet*) {
       return fmt::format("{}", static_cast<double>(job.demand.gpu_share) / kWholeGpu);
     }},
    {"gpu", [](const Job& job) { return job.demand.kinds != Demand().kinds; }, kinds_of},
    host_column<&HostShare::millicores, static_cast<int>(kMillicoresPerCore)>("cores"),
    host_column<&HostShare::memory_mib, static_cast<int>(kMibPerGib)>("memory_gib"),
    {"user", [](const Job& job) { return job.user != 0; },
     [](const Job& job, const Fleet*) { return fmt::format("{}", job.user); }},
    {"iterations", has_iterations,
     [](const Job& job, const Fleet*) { return fmt::format("{}", job.iterations); }},
    {"iteration_s", has_iterations,
     [](const Job& job, const Fleet*) { return fmt::format("{}", job.iteration_s); }},
    stage_column<0>("host_s"),
    stage_column<1>("gpu_s"),
    stage_column<2>("network_s"),
    number_column<&Job::stated_s>("stated_s"),
    {"opportunistic", [](const Job& job) { return job.opportunistic; },
     [](const Job& job, const Fleet*) { return std::string(job.opportunistic ? "1" : "0"); }},
});

Result<void> check_name(std::string_view name) {
  if (name.find_first_of(",\"\r\n") == std::string_view::npos) return {};
  return fail(ErrorCode::kInvalidArgument,
              "\"{}\" cannot stand in a table of jobs, whose cells have no commas or quotes", name);
}

}  // namespace

Result<std::string> job_table_text(std::span<const Job> jobs, const Fleet* fleet) {
  std::vector<WrittenColumn> columns;
  for (const WrittenColumn& column : kColumns) {
    if (std::ranges::any_of(jobs, column.needed)) columns.push_back(column);
  }
  std::string text = "job,arrival_s,gpus,duration_s";
  for (const WrittenColumn& column : columns) text += fmt::format(",{}", column.name);
  for (const Job& job : jobs) {
    GPEMU_TRY(check_name(job.id));
    GPEMU_TRY(check_name(job.model));
    if (job.speed) {
      return fail(ErrorCode::kInvalidArgument,
                  "the speed of job {} depends on where it runs, which a table of jobs cannot say; "
                  "schedule it from its own table, with the speeds",
                  job.id);
    }
    fmt::format_to(std::back_inserter(text), "\n{},{},{},{}", job.id, job.arrival_s,
                   job.demand.gpus, job.work_s());
    for (const WrittenColumn& column : columns) {
      text += ',';
      text += column.text(job, fleet);
    }
  }
  text += '\n';
  return text;
}

}  // namespace gpemu::scheduling
