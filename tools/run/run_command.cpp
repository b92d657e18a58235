// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <ranges>
#include <set>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/record/process_records.hpp"
#include "gpemu/record/summary.hpp"
#include "gpemu/record/trace.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/output_file.hpp"
#include "gpemu/report/provenance.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/run/child_process.hpp"
#include "gpemu/run/cluster.hpp"
#include "gpemu/run/environment.hpp"
#include "gpemu/run/program_file.hpp"
#include "gpemu/run/settings.hpp"
#include "gpemu/sim/clock_page.hpp"
#include "gpemu/skip/skipper.hpp"

#include "cli/command_line.hpp"
#include "cli/device_list.hpp"
#include "cli/sharing_options.hpp"
#include "run/program_page.hpp"
#include "run/summary_text.hpp"

namespace gpemu::tools {
namespace {

/// What to run on emulated GPUs, and what to write about it.
struct RunProgramOptions {
  std::vector<std::string> gpus;
  std::string topology;
  std::string faults;
  std::string node;
  std::string clock = "real";
  std::string trace;
  std::string operations;
  std::string report;
  std::string json;
  std::optional<std::uint32_t> context_mib;
  SharingOptions sharing;
  bool has_sharing = false;  ///< whether any of these was given.
  int real_ranks = 0;        ///< 0: all ranks run.
  double host_slowdown = 1;  ///< how many times slower the emulated host is than this one.
  bool strict = false;
  bool drop_data = false;
  bool quiet = false;
  std::vector<std::string> words;     ///< the program and its arguments,
  std::vector<std::string> launcher;  ///< and what they are arguments of, if anything.
};

Result<std::shared_ptr<device::Node>> open_node(const RunProgramOptions& options,
                                                const std::string& toml,
                                                const profile::Database& database,
                                                const World& world) {
  device::end_when_cut_short();
  if (!options.node.empty()) return device::Node::open(options.node, world.nodes);
  if (options.gpus.empty()) {
    const std::string named = world.variable(variable::kNode).value_or("");
    GPEMU_ASSIGN(const std::string name, device::default_node_name(named, world.nodes));
    return device::Node::open(name, world.nodes);
  }
  device::NodeConfig config{.name = fmt::format("run-{}", ::getpid()), .temporary = true};
  GPEMU_ASSIGN(config.devices, read_device_list(database, options.gpus));
  config.topology = toml;
  GPEMU_ASSIGN(config.faults, faults_of(options.faults, config.devices.size()));
  options.sharing.apply_to(config);
  return device::Node::create_under_free_name(std::move(config), world.nodes);
}

Result<void> check(const RunProgramOptions& options, const World& world) {
  if (!options.gpus.empty() && !options.node.empty()) {
    return fail(ErrorCode::kInvalidArgument, "give either --gpu or --node");
  }
  if (!options.topology.empty() && !options.node.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "give either --topology or --node: a node keeps the topology it was created with");
  }
  if (options.has_sharing && options.gpus.empty() && options.topology.empty()) {
    return fail(
        ErrorCode::kInvalidArgument,
        "--sharing, --time-slice and --context-switch need --gpu or --topology: a node that exists "
        "is shared as it was created (`gpemu node create --sharing`)");
  }
  if (!options.faults.empty() && options.gpus.empty() && options.topology.empty()) {
    return fail(
        ErrorCode::kInvalidArgument,
        "--faults needs --gpu or --topology: a node that exists keeps the faults that it was "
        "created with (`gpemu node create --faults`)");
  }
  if (!options.faults.empty() && options.clock == "gpu-only") {
    return fail(ErrorCode::kInvalidArgument,
                "--clock gpu-only has no node that could have --faults; use --clock virtual");
  }
  if (!options.topology.empty() && options.clock == "gpu-only") {
    return fail(ErrorCode::kInvalidArgument,
                "--clock gpu-only emulates one GPU, which no --topology joins to others");
  }
  if (options.host_slowdown != 1 && options.clock != "virtual") {
    return fail(
        ErrorCode::kInvalidArgument,
        "--host-slowdown needs --clock virtual: on the clock '{}', the host's work takes {} "
        "time",
        options.clock, options.clock == "real" ? "its real" : "no");
  }
  if (options.host_slowdown != 1 && options.gpus.empty() && options.topology.empty()) {
    return fail(
        ErrorCode::kInvalidArgument,
        "--host-slowdown needs --gpu or --topology: the clock of a node that exists belongs "
        "to its other processes, too");
  }
  if (options.clock == "gpu-only" && (options.gpus.size() != 1 || !options.node.empty())) {
    return fail(ErrorCode::kInvalidArgument,
                "--clock gpu-only needs one --gpu: each process has its own time");
  }
  if (options.real_ranks > 1 && options.clock == "gpu-only") {
    return fail(ErrorCode::kInvalidArgument,
                "--clock gpu-only gives each process its own time: give --ranks-for-real 1");
  }
  if (const auto rank = world.variable(variable::kRank); options.real_ranks > 0 && rank) {
    return fail(
        ErrorCode::kInvalidArgument,
        "--ranks-for-real: {} is set to {}, so this command is itself a rank; unset it, and "
        "let the command start the launcher of all ranks",
        variable::kRank, *rank);
  }
  GPEMU_TRY(run::check_program(options.words.front(), world.search_path()));
  return report::check_outputs(
      {options.trace, options.operations, options.report, report::file_of(options.json)});
}

/// Says how many ranks did not run, or that none was told its number.
std::string phantoms_text(int real_ranks, std::int64_t phantoms) {
  if (phantoms == 0) {
    return fmt::format(
        "phantoms  none: no process was started as rank {} or later of a job ({} was not set)\n",
        real_ranks, variable::kRank);
  }
  return fmt::format(
      "phantoms  {} rank{} did not run: {} for {}\n", phantoms, phantoms == 1 ? "" : "s",
      real_ranks == 1 ? "rank 0 stands" : "the others stand", phantoms == 1 ? "it" : "them");
}

/// The facts about the run that a result adds to the records.
nlohmann::ordered_json facts_of(const RunProgramOptions& options, int code) {
  return {{"gpus", options.gpus}, {"topology", options.topology}, {"faults", options.faults},
          {"node", options.node}, {"clock", options.clock},       {"program", options.words},
          {"exit_code", code}};
}

/// Has the node's clock run faster than this host's, so that the host counts as slower. Requires:
/// no process uses the node yet.
void slow_host_down(const device::Node& node, double slowdown) {
  node.clock().page().pace = {
      .since_ns = to_ns(node.clock().host_now()),
      .permille = static_cast<std::uint32_t>(std::lround(slowdown * sim::HostPace::kSame)),
      .unused = 0};
}

Result<void> write_outputs(const RunProgramOptions& options, const std::filesystem::path& records,
                           report::Provenance provenance, int code, const World& world) {
  GPEMU_ASSIGN(const std::vector<record::RecordedProcess> processes,
               record::read_processes(records));
  GPEMU_ASSIGN(const std::vector<record::LoadedLibrary> loaded, record::read_loaded(records));
  nlohmann::ordered_json summary = record::summarise(processes, loaded);
  GPEMU_ASSIGN(const std::int64_t phantoms, record::count_phantoms(records));
  if (summary["last_ns"] == summary["first_ns"]) provenance.load.reset();  // Nothing was timed.
  if (!options.quiet) {
    report::print_error("\n{}", summary_text(summary, world.terminal().output_columns));
    if (options.real_ranks > 0) {
      report::print_error("{}", phantoms_text(options.real_ranks, phantoms));
    }
    if (const auto warning = report::load_warning(provenance))
      report::print_error("{}\n", *warning);
  }
  nlohmann::ordered_json facts = facts_of(options, code);
  if (options.host_slowdown != 1) facts["host_slowdown"] = options.host_slowdown;
  if (options.real_ranks > 0) {
    facts["ranks_for_real"] = options.real_ranks;
    facts["phantoms"] = phantoms;
  }
  report::add_provenance(facts, provenance);
  summary.update(facts);
  if (!options.json.empty())
    GPEMU_TRY(report::write_json(options.json, report::json_text(summary)));
  if (!options.report.empty()) {
    GPEMU_ASSIGN(const std::string page, program_page(summary, processes, provenance));
    GPEMU_TRY(write_file_atomically(options.report, page));
  }
  if (!options.trace.empty()) GPEMU_TRY(record::write_trace(options.trace, processes, facts));
  if (!options.operations.empty()) {
    GPEMU_TRY(record::write_operations(options.operations, processes, facts));
  }
  return {};
}

/// Returns the text of the topology, if one is asked for; then, the run has the machine's GPUs
/// unless others are named.
Result<std::string> use_topology(RunProgramOptions& options, const World& world) {
  if (options.topology.empty()) return "";
  GPEMU_ASSIGN(profile::TopologySpec machine,
               profile::find_topology(world.topologies, options.topology));
  if (options.gpus.empty()) options.gpus = gpus_of(machine);
  return std::move(machine.toml);
}

/// Errors: kInvalidArgument if a context would take all of a GPU's memory.
Result<void> check_context(const RunProgramOptions& options, const profile::Database& database) {
  if (!options.context_mib) return {};
  GPEMU_ASSIGN(const auto devices, read_device_list(database, options.gpus));
  for (const device::DeviceConfig& device : devices) {
    if (Bytes{*options.context_mib} * kMiB < device.memory_bytes) continue;
    return fail(ErrorCode::kInvalidArgument, "--context {}: {} has {:.0f} MiB",
                *options.context_mib, device.gpu, to_mib(device.memory_bytes));
  }
  return {};
}

/// Returns the GPU files that the program must find: those among the requested GPUs or, for GPUs of
/// a node, those that the caller names.
///
/// Errors: kInvalidArgument for a path that contains ':', which separates the paths.
Result<std::vector<std::filesystem::path>> gpu_files(const std::vector<std::string>& gpus,
                                                     const World& world) {
  std::vector<std::filesystem::path> files;
  if (gpus.empty()) {
    const std::string inherited = world.variable(variable::kGpuFiles).value_or("");
    for (const auto file : std::views::split(std::string_view(inherited), ':')) {
      files.emplace_back(file.begin(), file.end());
    }
  }
  for (const std::string& gpu : gpus) {
    // Without the count, if there is one.
    const std::size_t colon = gpu.rfind(':');
    const bool counted = colon != std::string::npos &&
                         gpu.find_first_not_of("0123456789", colon + 1) == std::string::npos;
    const std::string name = counted ? gpu.substr(0, colon) : gpu;
    if (!name.contains('/') && !name.ends_with(".toml")) continue;
    const std::string path = (world.current / name).string();
    if (path.contains(':')) {
      return fail(
          ErrorCode::kInvalidArgument,
          "--gpu {}: the path of a GPU file may not contain ':', but {} does; move or rename "
          "it",
          gpu, path);
    }
    files.emplace_back(path);
  }
  return files;
}

/// Returns the program's settings except its GPUs. Errors: as gpu_files().
Result<run::Settings> settings_of(const RunProgramOptions& options, const World& world) {
  GPEMU_ASSIGN(std::vector<std::filesystem::path> files, gpu_files(options.gpus, world));
  return run::Settings{.gpu_files = std::move(files),
                       .context_mib = options.context_mib,
                       .real_ranks = options.real_ranks,
                       .drop_data = options.drop_data,
                       .strict = options.strict,
                       .record_operations = !options.trace.empty() || !options.operations.empty() ||
                                            !options.report.empty()};
}

/// Makes the program's clocks follow the node's clock.
void follow_clock(const device::Node& node, const World& world, run::Settings& settings) {
  const auto [file, offset] = node.place_of_clock();
  settings.clock_page = fmt::format("{}:{}", offset, (world.current / file).string());
  settings.preloaded = world.variable("LD_PRELOAD").value_or("");
}

/// Says that a node's clock is skipping before any part of the program waits; takes that back
/// unless a skipper takes over. Leaves what another run has said.
class SkippingSoon {
 public:
  explicit SkippingSoon(sim::ClockPage& page)
      : page_(page.skipping.exchange(1) == 0 ? &page : nullptr) {}
  SkippingSoon(const SkippingSoon&) = delete;
  SkippingSoon& operator=(const SkippingSoon&) = delete;
  ~SkippingSoon() {
    if (page_ != nullptr) page_->skipping = 0;
  }
  /// A skipper resets it now.
  void hand_over() { page_ = nullptr; }

 private:
  sim::ClockPage* page_;
};

/// Returns nothing, after a message, if the run must take its real time.
std::unique_ptr<skip::Skipper> skip_waiting(const std::shared_ptr<device::Node>& node, pid_t root,
                                            const World& world) {
  auto skipper = skip::Skipper::start(node->clock().page(),
                                      {.root = root,
                                       .segment = node->place_of_clock().first,
                                       .host_clock = world.clock,
                                       .has_all = [node](const std::set<pid_t>& processes) {
                                         return node->all_others_among(processes);
                                       }});
  if (skipper) return *std::move(skipper);
  report::print_error("gpemu: warning: {}\n", skipper.error().message);
  return nullptr;
}

/// Reports the time that was skipped and what often prevented skipping, if anything did.
void tell_skipped(const skip::Skipper::Report& report) {
  report::print_error(
      "\nskipped   {:.3f} s in {} skips{}\n", to_seconds(report.skipped), report.skips,
      report.in_the_way.empty() ? "" : "; often prevented because " + report.in_the_way);
}

/// Returns the program's exit code.
Result<int> run_on_gpus(RunProgramOptions options, const World& world) {
  // Whatever ends this process, its node and the folder of records go first.
  const run::SignalsWait signals;
  // As the clock counts it.
  options.host_slowdown =
      std::round(options.host_slowdown * sim::HostPace::kSame) / sim::HostPace::kSame;
  GPEMU_TRY(check(options, world));
  GPEMU_ASSIGN(const std::string toml, use_topology(options, world));
  GPEMU_ASSIGN(run::Settings settings, settings_of(options, world));
  GPEMU_ASSIGN(const TemporaryFolder records, record::make_record_folder(world.temporary));
  std::shared_ptr<device::Node> node;
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_TRY(check_context(options, database));
  if (options.clock == "gpu-only") {
    GPEMU_ASSIGN(const auto devices, read_device_list(database, options.gpus));
    if (devices.size() != 1) {
      return fail(ErrorCode::kInvalidArgument, "--clock gpu-only emulates one GPU, not {}",
                  devices.size());
    }
    settings.gpu = devices.front().gpu;
  } else {
    GPEMU_ASSIGN(node, open_node(options, toml, database, world));
    settings.node = node->name();
  }
  std::optional<SkippingSoon> soon;
  if (options.clock == "virtual") {
    follow_clock(*node, world, settings);
    if (options.host_slowdown != 1) slow_host_down(*node, options.host_slowdown);
    soon.emplace(node->clock().page());
  }
  GPEMU_ASSIGN(const std::filesystem::path shims, world.shims());
  const std::vector<std::string> environment = run::changed(
      world.environment(), run::environment_of(settings, shims, records.path()), world.current);
  // The command's standard output must contain only JSON.
  const run::ProgramOutput output = report::is_printed(options.json)
                                        ? run::ProgramOutput::kToStandardError
                                        : run::ProgramOutput::kAsItIs;
  report::Provenance provenance = report::provenance_at(world.time_of_day());
  const report::HostLoadMeter meter(report::LoadScope::kChildren, world.host_sample);
  std::unique_ptr<skip::Skipper> skipper;
  const auto started = [&](pid_t root) {
    if (!soon) return;
    soon->hand_over();
    skipper = skip_waiting(node, root, world);
  };
  std::vector<std::string> words = options.launcher;
  words.insert(words.end(), options.words.begin(), options.words.end());
  GPEMU_ASSIGN(const int code, world.run_program(words, environment, output, started));
  if (skipper && !options.quiet) tell_skipped(skipper->stop());
  skipper.reset();
  if (options.clock != "gpu-only") provenance.load = meter.read();
  GPEMU_TRY(write_outputs(options, records.path(), std::move(provenance), code, world));
  return code;
}

/// Adds the options of a run, except those that choose its GPUs, and the program.
void add_run_options(Command command, RunProgramOptions& options) {
  command
      .option("--clock", options.clock,
              "real; virtual: like real, but skips time while all processes wait; "
              "gpu-only: for one GPU, the host's work takes no time")
      .one_of({"real", "virtual", "gpu-only"})
      .show_default();
  command
      .option("--context", options.context_mib,
              "MiB of GPU memory that a context takes, including the kernels that libraries "
              "load; default: 400, and more from Hopper on (667 on an H100)")
      .range(1, 1 << 20);
  command.option("--trace", options.trace, "Write a trace that opens in Perfetto");
  command.option("--ops", options.operations,
                 "Write the operations with their shapes and times, as JSON lines");
  command.option("--report", options.report, "Write an HTML page with plots");
  command.option(
      "--json", options.json,
      "Write the summary as JSON; - prints it, and the program's output goes to standard error");
  command.flag("--drop-data", options.drop_data,
               "Do not move the bytes of large copies from pinned memory, which then read as "
               "zeros; for programs that feed the GPU faster than the host can copy");
  command.flag(
      "--strict", options.strict,
      "End the program at an unsupported call, or at a read of values that were not computed");
  command.flag("--quiet", options.quiet, "No summary");
  command.option("program", options.words, "The program and its arguments, after --").required();
  command.arguments_at_end();
}

}  // namespace

void add_run_command(Command app, const World& world) {
  Command command = app.subcommand("run", "Run an unmodified CUDA program on emulated GPUs");
  command.notes(
      "Examples:\n"
      "  gpemu run --gpu V100-PCIE-32GB -- python train.py\n"
      "  gpemu run --gpu A100-SXM4-40GB:2 --trace run.json -- ./program --its-option\n"
      "  gpemu run --gpu V100-PCIE-32GB --report run.html -- torchrun --nproc-per-node 1 train.py\n"
      "  gpemu run --topology dgx-a100 --faults faults.toml -- torchrun --nproc-per-node 8 "
      "train.py\n"
      "  gpemu run --topology dgx-a100 --ranks-for-real 1 -- torchrun --nproc-per-node 64 "
      "train.py\n"
      "  gpemu run --gpu T4 --clock virtual --host-slowdown 2 -- python train.py\n"
      "  gpemu run -- nvtop      # in another terminal: watches that run\n");
  auto options = std::make_shared<RunProgramOptions>();
  command
      .option("--gpu", options->gpus,
              "NAME or NAME:COUNT; may be given several times. NAME is one of those that "
              "`gpemu profile list` lists, or the path of a TOML file that describes a GPU")
      .one_word_each();
  command.option("--topology", options->topology,
                 "What joins the GPUs: a machine, by name (`gpemu node topo` lists them) or by the "
                 "path of a TOML file. Without --gpu, the run has the machine's GPUs");
  command.option("--faults", options->faults,
                 "What goes wrong, and when: a TOML file (docs/reference/faults-file.md) with GPUs "
                 "that become slow, fall off the bus or lose their processes, and slow links");
  command.option("--node", options->node,
                 "Use an existing node: NAME, or USER/NAME for another user's. Without --gpu and "
                 "--node: the node that GPEMU_NODE names, or else the only node");
  add_sharing_options(command, options->sharing);
  command
      .option("--ranks-for-real", options->real_ranks,
              "Run only the first so many ranks that the program's launcher starts, e.g. torchrun. "
              "Each other rank counts as doing the same as one of them at the same time, and costs "
              "nothing")
      .range(1, 1024);
  command
      .option(
          "--host-slowdown", options->host_slowdown,
          "With --clock virtual: how many times slower than this host the emulated one is. What "
          "the host does, its files and its network take so many times as long on the clock; "
          "the GPUs do not")
      .real_range(1, sim::HostPace::kSlowest / sim::HostPace::kSame);
  add_run_options(command, *options);
  command.on_run([options, command, &world] {
    options->has_sharing = command.given("--sharing") || command.given("--time-slice") ||
                           command.given("--context-switch");
    return run_on_gpus(*options, world);
  });
}

void add_cluster_run_command(Command cluster, const World& world) {
  Command command = cluster.subcommand("run", "Run a program on each host of a cluster");
  command.notes(
      "The program finds its host's number in GPEMU_HOST_RANK and their count in GPEMU_HOSTS. "
      "torchrun finds its options in PET_NNODES, PET_NODE_RANK, PET_NPROC_PER_NODE, "
      "PET_MASTER_ADDR and PET_MASTER_PORT. If the program fails on one host, the others go on. "
      "The exit code is the first one that is not 0.\n\n"
      "Examples:\n"
      "  gpemu cluster run -- torchrun train.py\n"
      "  gpemu cluster run --trace hosts.json -- torchrun --nproc-per-node 2 train.py\n"
      "  gpemu cluster run -- hostname");
  auto name = std::make_shared<std::string>("cluster");
  auto options = std::make_shared<RunProgramOptions>();
  command.option("--name", *name, "Name of the cluster").show_default();
  add_run_options(command, *options);
  command.on_run([name, options, &world]() -> Result<int> {
    GPEMU_ASSIGN(const run::Cluster hosts, run::find_cluster(world.clusters, *name));
    if (options->clock == "virtual" && run::has_real_network(hosts)) {
      return fail(ErrorCode::kInvalidArgument,
                  "--clock virtual: the network of cluster '{}' is real, and its time cannot be "
                  "skipped; use --clock real, or make the cluster with --network rdma or tcp",
                  hosts.name);
    }
    RunProgramOptions run = *options;
    run.node = hosts.name;
    run.launcher = {
        world.executable.string(), "cluster", "start-hosts", "--name", hosts.name, "--"};
    return run_on_gpus(run, world);
  });

  // What `run` starts in place of the program.
  Command start = cluster.subcommand("start-hosts", "Run a program on each host, without GPUs");
  auto program = std::make_shared<run::Words>();
  start.hidden();
  start.option("--name", *name, "Name of the cluster");
  start.option("program", *program, "The program and its arguments, after --").required();
  start.arguments_at_end();
  start.on_run([name, program, &world]() -> Result<int> {
    GPEMU_ASSIGN(const run::Cluster hosts, run::find_cluster(world.clusters, *name));
    return run::run_hosts(
        run::host_programs(hosts, run::hosts_file(world.clusters, hosts.name), *program),
        world.environment());
  });
}

}  // namespace gpemu::tools
