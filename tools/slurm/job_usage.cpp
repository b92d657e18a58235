// SPDX-License-Identifier: Apache-2.0
#include "slurm/job_usage.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::ordered_json;

/// A row is a line, for programs that read it.
constexpr int kColumns = 1000;

ordered_json json_of(const JobUsage& usage) {
  ordered_json line{{"job", usage.job},
                    {"node", usage.node},
                    {"user", usage.user},
                    {"kind", usage.kind},
                    {"gpus", usage.gpus},
                    {"busy_s", usage.busy_s},
                    {"peak_memory_mib", usage.peak_memory_mib},
                    {"processes", usage.processes}};
  if (!usage.unknown.empty()) line["unknown"] = usage.unknown;
  return line;
}

/// Returns nothing for what is not such a line.
std::vector<JobUsage> parse_line(const std::string& line) {
  const ordered_json json = ordered_json::parse(line, nullptr, false);
  if (!json.is_object()) return {};
  try {
    return {{.job = json.at("job"),
             .node = json.at("node"),
             .user = json.at("user"),
             .kind = json.at("kind"),
             .gpus = json.at("gpus"),
             .busy_s = json.at("busy_s"),
             .peak_memory_mib = json.at("peak_memory_mib"),
             .processes = json.at("processes"),
             .unknown = json.value("unknown", "")}};
  } catch (const ordered_json::exception&) {
    return {};
  }
}

/// Adds what another step of the job had on the node.
void add(JobUsage& sum, const JobUsage& usage) {
  std::set<int> gpus(sum.gpus.begin(), sum.gpus.end());
  gpus.insert(usage.gpus.begin(), usage.gpus.end());
  sum.gpus.assign(gpus.begin(), gpus.end());
  sum.busy_s += usage.busy_s;
  sum.peak_memory_mib = std::max(sum.peak_memory_mib, usage.peak_memory_mib);
  sum.processes += usage.processes;
  if (sum.kind != usage.kind) sum.kind += "+" + usage.kind;
  if (sum.unknown.empty()) sum.unknown = usage.unknown;
}

/// Returns one usage for each job and node, in the order of their first lines.
std::vector<JobUsage> by_job_and_node(const std::vector<JobUsage>& usages) {
  std::vector<JobUsage> sums;
  std::map<std::pair<std::string, std::string>, std::size_t> places;
  for (const JobUsage& usage : usages) {
    const auto [place, is_new] = places.try_emplace({usage.job, usage.node}, sums.size());
    if (is_new) {
      sums.push_back(usage);
    } else {
      add(sums[place->second], usage);
    }
  }
  return sums;
}

}  // namespace

Result<void> append_usage(const std::filesystem::path& file, const JobUsage& usage) {
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  const FileDescriptor out(
      ::open(file.c_str(), O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_WRONLY, 0644));
  const std::string line = json_of(usage).dump() + '\n';
  // A line is written at once, so that lines of several writers do not mix.
  const bool written =
      out.valid() && std::cmp_equal(::write(out.get(), line.data(), line.size()), line.size());
  if (written) return {};
  return fail(ErrorCode::kIo, "{}: {}", file.string(), errno_message(errno));
}

Result<std::vector<JobUsage>> read_usages(const std::filesystem::path& folder,
                                          const std::string& job) {
  GPEMU_ASSIGN(const std::vector<std::filesystem::path> files, list_folder(folder));
  std::vector<JobUsage> usages;
  for (const std::filesystem::path& file : files) {
    if (file.extension() != ".jsonl") continue;
    GPEMU_ASSIGN(const std::string text, read_file(file));
    std::istringstream lines(text);
    std::string line;
    for (int number = 1; std::getline(lines, line); ++number) {
      const std::vector<JobUsage> parsed = parse_line(line);
      if (parsed.empty()) {
        return fail(ErrorCode::kCorruptData, "{}:{}: no line of `gpemu-slurm`; remove it",
                    file.string(), number);
      }
      if (job.empty() || parsed.front().job == job) usages.push_back(parsed.front());
    }
  }
  return by_job_and_node(usages);
}

std::string usage_table(const std::vector<JobUsage>& usages) {
  report::TextTable table(
      {"job", "node", "user", "kind", "GPUs", "busy / s", "peak memory / MiB", "processes"});
  std::string notes;
  for (const JobUsage& usage : usages) {
    table.add_row({usage.job, usage.node, fmt::to_string(usage.user), usage.kind,
                   fmt::format("{}", fmt::join(usage.gpus, ",")),
                   fmt::format("{:.3f}", usage.busy_s),
                   fmt::format("{:.0f}", usage.peak_memory_mib), fmt::to_string(usage.processes)});
    if (!usage.unknown.empty()) {
      notes +=
          fmt::format("job {} on {}: not all is known: {}\n", usage.job, usage.node, usage.unknown);
    }
  }
  return table.str(kColumns) + notes;
}

nlohmann::ordered_json usages_json(const std::vector<JobUsage>& usages) {
  ordered_json lines = ordered_json::array();
  for (const JobUsage& usage : usages) lines.push_back(json_of(usage));
  return lines;
}

}  // namespace gpemu::tools
