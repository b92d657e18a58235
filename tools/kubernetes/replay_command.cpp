// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/scheduling/fleet_table.hpp"
#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/registry.hpp"
#include "gpemu/scheduling/simulator.hpp"

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/replay.hpp"

namespace gpemu::tools {
namespace {

using scheduling::Fleet;
using scheduling::Job;
using scheduling::JobIndex;
using scheduling::JobState;

struct ReplayChoices {
  std::filesystem::path kubeconfig, jobs, fleet, speeds, restarts, per_job;
  std::uint64_t servers = 0, gpus = 8, first = 0;
  double restart_s = 0;
  std::optional<double> round_s;
  std::string policy, scheduler = "gpemu-scheduler", image, resource = kGpuResource;
  double speed = 1;
};

/// Places in an order of times: by job, from 1.
std::vector<std::size_t> places_of(const std::vector<double>& times) {
  std::vector<std::size_t> sorted(times.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::ranges::stable_sort(sorted, {}, [&](std::size_t job) { return times[job]; });
  std::vector<std::size_t> places(times.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) places[sorted[i]] = i + 1;
  return places;
}

/// Returns why a job starts in another place than in the simulation: another job had ended before
/// it here, or there, which the policy saw; or else starts that are close to each other.
std::string reason_for_place(JobIndex job, double apart_s, const std::vector<Job>& jobs,
                             const std::vector<ReplayedJob>& replayed,
                             const std::vector<JobState>& simulated) {
  for (std::size_t other = 0; other < jobs.size(); ++other) {
    const bool is_before = replayed[other].end_s <= replayed[job].start_s;
    const bool was_before = simulated[other].end_s <= simulated[job].first_start_s;
    if (is_before == was_before) continue;
    const double by_s = std::abs(simulated[other].end_s - simulated[job].first_start_s);
    return fmt::format("{} ends {} it starts, in the simulation {:.1f} s {}", jobs[other].id,
                       is_before ? "before" : "after", by_s, is_before ? "after" : "before");
  }
  return fmt::format("the same jobs have ended; in the simulation, the two start {:.1f} s apart",
                     apart_s);
}

/// Returns the jobs that do not start in their place of the simulation, each with why: a line for
/// each. Jobs that the simulation starts at one time may start in any order.
std::vector<std::string> moved_jobs(const std::vector<Job>& jobs,
                                    const std::vector<ReplayedJob>& replayed,
                                    const std::vector<JobState>& simulated) {
  std::vector<double> starts;
  std::vector<double> sorted;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    starts.push_back(replayed[i].start_s);
    sorted.push_back(simulated[i].first_start_s);
  }
  const std::vector<std::size_t> places = places_of(starts);
  std::ranges::sort(sorted);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const double start_s = simulated[i].first_start_s;
    const auto [first, last] = std::ranges::equal_range(sorted, start_s);
    const auto from = static_cast<std::size_t>(first - sorted.begin()) + 1;
    const auto to = static_cast<std::size_t>(last - sorted.begin());
    if (places[i] >= from && places[i] <= to) continue;
    const double apart_s = std::abs(sorted[places[i] - 1] - start_s);
    lines.push_back(fmt::format(
        "{}: no. {}, simulated as no. {}: {}", jobs[i].id, places[i], from,
        reason_for_place(static_cast<JobIndex>(i), apart_s, jobs, replayed, simulated)));
  }
  return lines;
}

void print_comparison(const std::vector<Job>& jobs, const std::vector<ReplayedJob>& replayed,
                      const std::vector<JobState>& simulated) {
  double jct_s = 0;
  double simulated_jct_s = 0;
  int evictions = 0;
  const auto count = static_cast<double>(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jct_s += (replayed[i].end_s - jobs[i].arrival_s) / count;
    simulated_jct_s += (simulated[i].end_s - jobs[i].arrival_s) / count;
    evictions += replayed[i].evictions;
  }
  const std::vector<std::string> moved = moved_jobs(jobs, replayed, simulated);
  report::print_out("jobs             {}, whose pods were evicted {} times\n", jobs.size(),
                    evictions);
  report::print_out("mean JCT         {:.1f} s in pods, {:.1f} s simulated: {:+.1f} %\n", jct_s,
                    simulated_jct_s, 100 * (jct_s / simulated_jct_s - 1));
  report::print_out("order of starts  {} jobs have another place\n", moved.size());
  for (const std::string& line : moved) report::print_out("  {}\n", line);
}

std::string per_job_text(const std::vector<Job>& jobs, const std::vector<ReplayedJob>& replayed,
                         const std::vector<JobState>& simulated) {
  std::string text = "job,arrival_s,start_s,end_s,evictions,simulated_start_s,simulated_end_s\n";
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    text += fmt::format("{},{:.3f},{:.3f},{:.3f},{},{:.3f},{:.3f}\n", jobs[i].id, jobs[i].arrival_s,
                        replayed[i].start_s, replayed[i].end_s, replayed[i].evictions,
                        simulated[i].first_start_s, simulated[i].end_s);
  }
  return text;
}

Result<Fleet> fleet_of(const ReplayChoices& options) {
  if (!options.fleet.empty()) {
    GPEMU_ASSIGN(const Fleet fleet, scheduling::read_fleet(options.fleet));
    // As the scheduler has its nodes: policies look at the first ones first.
    std::vector<scheduling::Server> servers = fleet.servers();
    std::ranges::sort(servers, {}, &scheduling::Server::name);
    return Fleet::create(std::move(servers));
  }
  if (options.servers != 0) return Fleet::uniform(options.servers, options.gpus);
  return fail(ErrorCode::kInvalidArgument,
              "which nodes does the cluster have? Give --servers COUNT, or --fleet FILE");
}

bool has_one_each(const Fleet& fleet) {
  return std::ranges::all_of(fleet.servers(), [](const auto& server) { return server.gpus == 1; });
}

/// Returns an error if pods would not have the GPUs that the policy gives them.
Result<void> check_resource(const ReplayChoices& options, bool shares, const Fleet& fleet) {
  if (options.image.empty()) return {};
  if (shares && options.resource == kGpuResource) {
    return fail(ErrorCode::kInvalidArgument,
                "with --policy {} jobs share GPUs: name what the device plugin offers with "
                "--replicas, as --resource {}",
                options.policy, kSharedGpuResource);
  }
  if (options.resource == kGpuResource || has_one_each(fleet)) return {};
  return fail(ErrorCode::kUnsupported,
              "with --resource {}, each node may have one GPU: kubelets, not the policy, choose "
              "between GPUs that are shared",
              options.resource);
}

Result<void> run(const ReplayChoices& options) {
  GPEMU_TRY(report::check_outputs({options.per_job}));
  GPEMU_ASSIGN(const Fleet fleet, fleet_of(options));
  GPEMU_ASSIGN(std::vector<Job> jobs, scheduling::read_jobs({.jobs = options.jobs,
                                                             .speeds = options.speeds,
                                                             .restarts = options.restarts,
                                                             .restart_s = options.restart_s},
                                                            fleet));
  if (options.first != 0 && options.first < jobs.size()) jobs.resize(options.first);
  GPEMU_ASSIGN(const scheduling::PolicyEntry* const policy,
               scheduling::find_policy(options.policy));
  GPEMU_TRY(scheduling::check_policy(*policy, fleet, jobs));
  const auto made = policy->make({.round_s = options.round_s});
  GPEMU_ASSIGN(const scheduling::SimulationResult simulated,
               scheduling::simulate(fleet, jobs, *made));
  GPEMU_ASSIGN(const ApiAccess access, find_api_server(options.kubeconfig));
  const bool shares = policy->name.starts_with("muri") || policy->name == "antman";
  const ReplayOptions how{.scheduler = options.scheduler,
                          .name_space = access.name_space,
                          .run = fmt::format("replay-{}", ::getpid()),
                          .speed = options.speed,
                          .shares_gpus = shares,
                          .image = options.image,
                          .resource = options.resource};
  GPEMU_TRY(check_resource(options, shares, fleet));
  const InterruptGuard interrupt;
  GPEMU_ASSIGN(const std::vector<ReplayedJob> replayed,
               replay(access, fleet, jobs, how, interrupt.flag(), [](std::size_t) {}));
  print_comparison(jobs, replayed, simulated.jobs);
  if (options.per_job.empty()) return {};
  return write_file_atomically(options.per_job, per_job_text(jobs, replayed, simulated.jobs));
}

}  // namespace

void add_replay_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "replay",
      "Makes the jobs of a table as pods when they arrive, and compares what becomes of them with "
      "`gpemu schedule`");
  const auto options = std::make_shared<ReplayChoices>();
  command.option("--kubeconfig", options->kubeconfig,
                 "How to reach the API server; by default as kubectl does, or a pod's account");
  command.option("--jobs", options->jobs, "The table of jobs (docs/reference/job-tables.md)")
      .required();
  command.option("--policy", options->policy, "The scheduler's policy, which is simulated, too")
      .required();
  command.option("--servers", options->servers, "How many nodes the cluster has");
  command.option("--gpus", options->gpus, "How many GPUs each of them has").show_default();
  command.option("--fleet", options->fleet, "A table of the nodes").excludes("--servers");
  command.option("--speeds", options->speeds, "A table of speeds");
  command.option("--restart", options->restart_s, "The restart time of every job, in seconds")
      .non_negative();
  command.option("--restarts", options->restarts, "A table of restart times").excludes("--restart");
  command.option("--round", options->round_s, "The length of rounds, in seconds").positive();
  command.option("--first", options->first, "Only so many of the jobs, the first ones");
  command
      .option("--speed", options->speed,
              "Time runs so many times as fast; that of the scheduler and the hollow nodes")
      .positive()
      .show_default();
  command.option("--scheduler", options->scheduler, "The pods' schedulerName").show_default();
  command.option("--image", options->image,
                 "For nodes with kubelets and gpemu's device plugin: the pods have this image, and "
                 "run their jobs on emulated GPUs by `gpemu jobs run`. By default, they are for "
                 "hollow nodes");
  command
      .option("--resource", options->resource,
              "What those pods ask for, such as nvidia.com/gpu.shared")
      .needs("--image")
      .show_default();
  command.option("--per-job", options->per_job, "Write a CSV file of what became of each job");
  command.notes(
      "Example:\n"
      "  gpemu-kubernetes hollow-nodes --fleet servers.csv --speed 10 &\n"
      "  gpemu-kubernetes scheduler --policy allox --speed 10 &\n"
      "  gpemu-kubernetes replay --jobs jobs.csv --fleet servers.csv --speeds speeds.csv --policy "
      "allox --speed 10\n");
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
