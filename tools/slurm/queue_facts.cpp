// SPDX-License-Identifier: Apache-2.0
#include "slurm/queue_facts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/text.hpp"

#include "slurm/slurm_settings.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

/// Between the fields of a line: no name or list of Slurm has it.
constexpr char kBetween = '\x1f';
/// How much of what a program printed an error repeats.
constexpr std::size_t kMostRepeated = 200;
/// What is printed of a job. The places of the fields.
constexpr std::array kJobFields{"JobArrayID",   "State",           "Partition",  "UserName",
                                "Reason",       "PriorityLong",    "SubmitTime", "StartTime",
                                "tres-per-job", "tres-per-node",   "NumNodes",   "tres-per-task",
                                "NumTasks",     "tres-per-socket", "NodeList",   "ExcNodes",
                                "Feature",      "Dependency",      "Comment"};
enum JobField : std::uint8_t {
  kId,
  kState,
  kPartition,
  kUser,
  kReason,
  kPriority,
  kSubmitted,
  kStarted,
  kPerJob,
  kPerNode,
  kNodes,
  kPerTask,
  kTasks,
  kPerSocket,
  kNodeList,
  kExcluded,
  kFeature,
  kDependency,
  kComment,
};
static_assert(kJobFields.size() == kComment + 1);

/// States of jobs that are over. Source: squeue(1), "JOB STATE CODES".
constexpr std::array kEndStates{"BOOT_FAIL", "CANCELLED", "COMPLETED",     "DEADLINE", "FAILED",
                                "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY", "REVOKED",  "TIMEOUT"};
constexpr std::array kWaitingStates{"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED",
                                    "SPECIAL_EXIT"};
/// States of nodes on which jobs may start. Source: sinfo(1), "NODE STATE CODES".
constexpr std::array kReadyStates{"idle", "mixed", "allocated", "completing", "planned"};

constexpr std::array kNoteNames{note::kSeconds,       note::kDoneSeconds,  note::kRestartSeconds,
                                note::kStatedSeconds, note::kStageSeconds, note::kIterations,
                                note::kSpeeds,        note::kUser,         note::kOpportunistic,
                                note::kTogether};

std::vector<std::string_view> divided(std::string_view line, char between, std::size_t most) {
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < most && line.find(between) != std::string_view::npos) {
    const std::size_t end = line.find(between);
    parts.push_back(line.substr(0, end));
    line.remove_prefix(end + 1);
  }
  parts.push_back(line);
  return parts;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines = divided(text, '\n', std::string_view::npos);
  std::erase_if(lines, [](std::string_view line) { return line.empty(); });
  return lines;
}

bool is_none(std::string_view text) {
  return text.empty() || text == "(null)" || text == "N/A";
}

template <typename Number>
bool read_whole(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

double time_of_text(std::string_view text) {
  double time_s = 0;
  return read_whole(text, time_s) ? time_s : 0;
}

/// What a job asks for, or a node has.
struct Gres {
  std::uint32_t gpus = 0, shards = 0;
  std::string type;
  std::string fault;
};

/// Adds e.g. "gres:gpu:a100:2,gres:shard:1", as jobs ask, or "gpu:a100:4(S:0-1)", as nodes have.
void add_gres(std::string_view text, std::uint32_t times, Gres& sum) {
  if (is_none(text)) return;
  bool inside = false;
  std::string plain;  // Without what is in brackets, where commas may be.
  for (const char c : text) {
    if (c == '(') inside = true;
    if (!inside) plain += c;
    if (c == ')') inside = false;
  }
  for (std::string_view item : divided(plain, ',', std::string_view::npos)) {
    if (item.starts_with("gres:") || item.starts_with("gres/")) item.remove_prefix(5);
    const std::vector<std::string_view> words = divided(item, ':', 3);
    const bool has_type = words.size() == 3;
    std::uint32_t count = 1;
    const bool has_count = words.size() == 1 || read_whole(words.back(), count);
    if (words[0] == "shard" && has_count) {  // Nodes have "shard:a100:4".
      sum.shards += count * times;
    } else if (words[0] == "gpu" && (has_count || words.size() == 2)) {
      // "gpu:a100" is one of that type.
      const std::string type(has_type || !has_count ? words[1] : "");
      const bool differs = sum.gpus != 0 && type != sum.type;
      if (differs) sum.fault = "GPUs of several types";
      sum.type = type;
      sum.gpus += (has_count ? count : 1) * times;
    } else if (words[0] == "mps") {
      sum.fault = "percentages of GPUs (mps)";
    }
  }
}

std::uint32_t count_of(std::string_view text) {
  // "2", or "1-3".
  std::uint32_t count = 1;
  static_cast<void>(read_whole(text.substr(0, text.find('-')), count));
  return count;
}

void read_request(const std::vector<std::string_view>& fields, QueuedJob& job) {
  Gres asked;
  const std::uint32_t nodes = count_of(fields[kNodes]);
  add_gres(fields[kPerJob], 1, asked);
  add_gres(fields[kPerNode], nodes, asked);
  add_gres(fields[kPerTask], count_of(fields[kTasks]), asked);
  add_gres(fields[kPerSocket], 1, asked);
  job.asks_for_gpus = asked.gpus != 0 || asked.shards != 0 || !asked.fault.empty();
  job.gpus = asked.shards != 0 ? 1 : asked.gpus;
  job.shards = asked.shards;
  job.gpu_type = asked.type;
  const bool is_number = std::ranges::all_of(job.id, [](char c) { return c >= '0' && c <= '9'; });
  std::string what;
  if (!is_number) {
    what = "job arrays and heterogeneous jobs";
  } else if (!asked.fault.empty()) {
    what = asked.fault;
  } else if (asked.shards != 0 && asked.gpus != 0) {
    what = "GPUs beside shards";
  } else if (!is_none(fields[kPerSocket])) {
    what = "GPUs by socket";
  } else if (nodes > 1) {
    what = "jobs on several nodes";
  } else if (job.is_pending() && !is_none(fields[kDependency])) {
    what = "jobs that depend on others (--dependency)";
  } else if (!is_none(fields[kExcluded])) {
    what = "nodes to be excluded (--exclude)";
  } else if (!is_none(fields[kFeature])) {
    what = "features of nodes (--constraint)";
  }
  if (!what.empty()) job.fault = fmt::format("gpemu-slurm does not support {}", what);
}

std::string text_of_value(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array()) {
    std::vector<std::string> items;
    for (const json& item : value) items.push_back(text_of_value(item));
    return fmt::format("{}", fmt::join(items, ","));
  }
  return value.dump();
}

/// Returns a table of speeds for an object such as {"a100": 1, "v100": 0.4}.
std::string speeds_of_object(const json& object) {
  std::string text = "gpu,speed\n";
  for (const auto& [kind, speed] : object.items()) {
    text += fmt::format("{},{}\n", kind, text_of_value(speed));
  }
  return text;
}

}  // namespace

bool QueuedJob::is_pending() const {
  return std::ranges::find(kWaitingStates, state) != kWaitingStates.end();
}

bool QueuedJob::has_ended() const {
  return std::ranges::find(kEndStates, state) != kEndStates.end();
}

std::vector<std::string> squeue_options(std::string_view mark) {
  std::string format;
  for (const char* field : kJobFields) {
    if (!format.empty()) format += ',';
    format += fmt::format("{}:{}{}", field, kBetween, mark);
  }
  return {"--noheader", "--states=all", "--Format", format};
}

std::vector<std::string> sinfo_options() {
  return {"--noheader", "--Node", "--format", fmt::format("%N{0}%G{0}%T", kBetween)};
}

Result<std::map<std::string, std::string>> parse_comment(std::string_view comment) {
  std::map<std::string, std::string> texts;
  if (!comment.starts_with('{')) return texts;
  const json object = json::parse(comment, nullptr, false);
  if (!object.is_object()) {
    return fail(ErrorCode::kInvalidArgument,
                "its comment is no JSON; write e.g. --comment='{{\"seconds\": 3600}}'");
  }
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(kNoteNames, key) == kNoteNames.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "its comment has the unknown key \"{}\"; there are {}", key,
                  fmt::join(kNoteNames, ", "));
    }
    texts[key] =
        key == note::kSpeeds && value.is_object() ? speeds_of_object(value) : text_of_value(value);
  }
  return texts;
}

std::string comment_of(const std::map<std::string, std::string>& texts) {
  json object = json::object();
  for (const auto& [key, text] : texts) object[key] = text;
  return object.dump();
}

Result<std::vector<QueuedJob>> parse_queue(std::string_view text, std::string_view mark) {
  std::vector<QueuedJob> jobs;
  const std::string between = kBetween + std::string(mark);
  while (!text.empty()) {
    const std::string_view rest = text;
    std::vector<std::string_view> fields;
    for (std::size_t end = 0;
         fields.size() < kJobFields.size() && (end = text.find(between)) != std::string_view::npos;
         text.remove_prefix(end + between.size())) {
      fields.push_back(text.substr(0, end));
    }
    if (fields.size() != kJobFields.size() || !text.starts_with('\n')) {
      return fail(ErrorCode::kCorruptData, "squeue printed \"{}\"",
                  printable(rest.substr(0, kMostRepeated)));
    }
    text.remove_prefix(1);
    QueuedJob job;
    job.id = fields[kId];
    job.state = fields[kState];
    job.partition = fields[kPartition];
    job.user = fields[kUser];
    job.reason = fields[kReason];
    job.is_held = fields[kPriority] == "0";
    job.submitted_s = time_of_text(fields[kSubmitted]);
    job.started_s = time_of_text(fields[kStarted]);
    if (!is_none(fields[kNodeList])) {
      GPEMU_ASSIGN(job.nodes, names_of_hostlist(fields[kNodeList]));
    }
    read_request(fields, job);
    auto texts = parse_comment(fields[kComment]);
    if (texts) {
      job.texts = *std::move(texts);
    } else if (job.fault.empty()) {
      job.fault = texts.error().message;
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

Result<std::vector<QueueNode>> parse_nodes(std::string_view text) {
  std::vector<QueueNode> nodes;
  for (const std::string_view line : lines_of(text)) {
    const std::vector<std::string_view> fields = divided(line, kBetween, 3);
    if (fields.size() != 3) return fail(ErrorCode::kCorruptData, "sinfo printed \"{}\"", line);
    Gres has;
    add_gres(fields[1], 1, has);
    // With "-", Slurm has planned to start a job there.
    std::string_view state = fields[2];
    if (state.ends_with('-')) state.remove_suffix(1);
    QueueNode node{.name = std::string(fields[0]),
                   .gpu_type = has.type,
                   .gpus = has.gpus,
                   .shards = has.shards,
                   .is_ready = std::ranges::find(kReadyStates, state) != kReadyStates.end(),
                   .fault = has.fault.empty() ? "" : "it has " + has.fault};
    nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, {}, &QueueNode::name);
  return nodes;
}

}  // namespace gpemu::tools
