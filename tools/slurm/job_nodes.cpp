// SPDX-License-Identifier: Apache-2.0
#include "slurm/job_nodes.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <system_error>
#include <unistd.h>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/variables.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/record/process_records.hpp"
#include "gpemu/run/settings.hpp"

#include "cli/device_list.hpp"
#include "slurm/gres_text.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

/// The name of each node, in a folder of its own.
constexpr const char* kGpus = "gpus";
/// How the names of folders of records begin.
constexpr const char* kRecords = "records-";
/// Between a holder and its folder in the name of a file.
constexpr char kHas = '@';
/// The folder of nodes that several machines use, and how their names begin.
constexpr const char* kJobs = "jobs";
constexpr const char* kOfHosts = "hosts-";
/// The node with all GPUs, which no job uses.
constexpr const char* kMachine = "machine";
constexpr mode_t kForAll = 0666;
/// Linux's number of NVIDIA's devices. Source: devices.txt of the kernel's documentation.
constexpr unsigned kNvidiaMajor = 195;

std::unexpected<Error> io_fault_at(const std::filesystem::path& path, const std::string& why) {
  return fail(ErrorCode::kIo, "{}: {}", path.string(), why);
}

/// Waits for a lock on a file, which it makes.
Result<FileDescriptor> lock_file_of(const std::filesystem::path& path) {
  FileDescriptor lock(::open(path.c_str(), O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_RDWR, 0600));
  while (lock.valid() && ::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return io_fault_at(path, errno_message(errno));
  }
  if (!lock.valid()) return io_fault_at(path, errno_message(errno));
  return lock;
}

/// Returns when a living process was started, in a unit of its own; 0 if there is none.
std::uint64_t start_of(pid_t process) {
  const std::string stat = read_file(fmt::format("/proc/{}/stat", process)).value_or("");
  // After the name, which may contain anything: the state, and 18 numbers. Source: proc(5).
  constexpr int kBefore = 19;
  std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string field;
  for (int i = 0; i < kBefore; ++i) fields >> field;
  std::uint64_t start = 0;
  fields >> start;
  return start;
}

Result<void> make_folder(const std::filesystem::path& path, const StepRequest* owner, mode_t mode) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return io_fault_at(path, error.message());
  if (owner != nullptr && ::geteuid() == 0 &&
      ::lchown(path.c_str(), owner->user, owner->group) != 0) {
    return io_fault_at(path, errno_message(errno));
  }
  if (::chmod(path.c_str(), mode) != 0) return io_fault_at(path, errno_message(errno));
  return {};
}

/// Returns a text as a part of a file's name.
std::string file_name_of(std::string text) {
  std::ranges::replace_if(text, [](char c) { return c == '/' || c == kHas || c == ':'; }, '-');
  return text;
}

/// Divides the GPUs of a node, as the settings say.
Result<void> divide(const device::Node& node, const std::vector<std::string>& instances,
                    const MachineGpus& machine) {
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const auto& profiles = machine.mig_profiles[i];
    const device::DeviceMig mig = node.mig(static_cast<int>(i));
    GPEMU_ASSIGN([[maybe_unused]] const auto mode, mig.set_mode(profiles, true));
    const auto make_all = [&](device::MigLayout& layout) -> Result<void> {
      GPEMU_ASSIGN(layout, mig_layout(instances, machine.gpus[i].gpu, profiles));
      return {};
    };
    GPEMU_TRY(mig.change(profiles, make_all));
  }
  return {};
}

/// Returns what CUDA calls GPUs that Slurm has given numbers.
Result<std::vector<std::string>> visible_names(const device::NodeView& node,
                                               const MachineGpus& machine,
                                               const std::vector<int>& devices) {
  std::vector<std::string> names;
  const TimePoint now = node.clock().now();
  for (const int number : devices) {
    const GresDevice& device = machine.devices[static_cast<std::size_t>(number)];
    if (device.instance < 0) {
      names.push_back(std::to_string(names.size()));
      continue;
    }
    GPEMU_ASSIGN(const auto snapshot, node.device_snapshot(device.gpu, now));
    const auto& profiles = machine.mig_profiles[static_cast<std::size_t>(device.gpu)];
    GPEMU_ASSIGN(const device::MigLayout layout, node.mig_layout(device.gpu, profiles));
    const auto instances = layout.devices(device.gpu, snapshot.uuid);
    names.push_back(instances.at(static_cast<std::size_t>(device.instance)).uuid);
  }
  return names;
}

}  // namespace

bool JobNodes::Holding::lives() const {
  return std::ranges::any_of(steps, [](const auto& step) {
    const auto& [process, start] = step;
    return start != 0 && start_of(process) == start;
  });
}

Result<JobNodes> JobNodes::open(const SlurmSettings& settings, const std::string& machine) {
  GPEMU_ASSIGN(const SlurmNodes* const nodes, settings.of(machine));
  GPEMU_TRY(make_folder(settings.state / machine, nullptr, 0755));
  GPEMU_ASSIGN(FileDescriptor lock, lock_file_of(settings.state / machine / "lock"));
  return JobNodes(settings, *nodes, machine, std::move(lock));
}

std::vector<JobNodes::Holding> JobNodes::holdings() const {
  std::vector<Holding> found;
  for (const std::filesystem::path& path : paths_in(folder())) {
    const std::string name = path.stem().string();
    const std::size_t at = name.find(kHas);
    if (path.extension() != ".json" || at == std::string::npos) continue;
    Holding holding{
        .file = path,
        .holder = name.substr(0, at),
        .folder = name.substr(at + 1),
        .usage = {.job = name.substr(0, std::min(at, name.find('.'))), .node = machine_}};
    // Written as a whole, and in a folder of this user.
    const json state = json::parse(read_file(path).value_or(""), nullptr, false);
    if (state.is_object()) {
      holding.usage.user = state.value("user", 0);
      holding.usage.kind = state.value("kind", "");
      holding.usage.gpus = state.value("gpus", std::vector<int>());
      holding.tenant = state.value("tenant", 0);
      holding.first = state.value("first", 0);
      holding.busy_before_ns = state.value("busy_before_ns", std::int64_t{0});
      holding.steps = state.value("steps", std::map<pid_t, std::uint64_t>());
    }
    found.push_back(std::move(holding));
  }
  return found;
}

Result<int> JobNodes::free_tenant(const std::string& folder) const {
  std::set<int> taken;
  for (const Holding& holding : holdings()) {
    if (holding.folder == folder) taken.insert(holding.tenant);
  }
  int number = 1;
  while (taken.contains(number)) ++number;
  if (std::cmp_less_equal(number, device::kMostTenants)) return number;
  return fail(ErrorCode::kResourceLimit, "{} steps share the GPU already, which is all it can",
              device::kMostTenants);
}

std::filesystem::path JobNodes::path_of(const std::string& node_folder) const {
  return (node_folder.starts_with(kOfHosts) ? settings_->state / kJobs : folder()) / node_folder;
}

bool JobNodes::is_used(const std::string& node_folder) const {
  const std::string end = kHas + node_folder + ".json";
  const bool of_hosts = node_folder.starts_with(kOfHosts);
  const auto folders = of_hosts ? paths_in(settings_->state) : std::vector({folder()});
  return std::ranges::any_of(folders, [&](const std::filesystem::path& machine) {
    return std::ranges::any_of(paths_in(machine), [&](const std::filesystem::path& path) {
      return path.filename().string().ends_with(end);
    });
  });
}

Result<JobNodes::NodePlace> JobNodes::place_of_hosts(
    const StepRequest& request, const GpuSources& sources,
    std::vector<device::DeviceConfig>& gpus) const {
  const SlurmNodes own{.gpus = {request.own_gpus}};
  NodePlace place{.folder = kOfHosts + request.job, .own = !request.own_gpus.empty()};
  if (place.own) place.folder += "-" + file_name_of(request.own_gpus);
  std::error_code none;
  for (const std::string& host : request.hosts) {
    // Each has a folder here whose slurmd runs here.
    if (!std::filesystem::exists(settings_->state / host, none)) {
      return fail(ErrorCode::kUnsupported,
                  "{} is set, or network in the description of the cluster, but {} is another "
                  "computer than {}: emulated GPUs reach each other on one only; unset it, or use "
                  "Slurm nodes of one computer",
                  variable::kNetwork, host, machine_);
    }
    GPEMU_ASSIGN(const SlurmNodes* const nodes, settings_->of(host));
    GPEMU_ASSIGN(MachineGpus machine, machine_gpus(place.own ? own : *nodes, sources));
    if (host == machine_) place.first = static_cast<int>(gpus.size());
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
      gpus.push_back(std::move(machine.gpus[i]));
      gpus.back().shown_node = place.own ? host + "-" + request.job : host;
      gpus.back().shown_number = i;
    }
  }
  GPEMU_TRY(make_folder(settings_->state / kJobs, nullptr, 0755));
  GPEMU_ASSIGN(place.lock, lock_file_of(settings_->state / kJobs / "lock"));
  return place;
}

Result<void> JobNodes::make_node(const NodePlace& place, const StepRequest& request,
                                 const MachineGpus& machine,
                                 std::vector<device::DeviceConfig> of_hosts) const {
  const std::filesystem::path path = path_of(place.folder);
  std::error_code error;
  std::filesystem::remove_all(path, error);
  GPEMU_TRY(make_folder(path, nullptr, 0755));
  const bool divided = !nodes_->mig.empty() && !place.own && of_hosts.empty();
  device::NodeConfig config{.name = kGpus,
                            .devices = machine.gpus,
                            .policy = divided ? device::SharingPolicy::kMig
                                      : place.shared && request.mps
                                          ? device::SharingPolicy::kMps
                                          : device::SharingPolicy::kTimeSlices,
                            .mode = kForAll};
  if (machine.topology) config.topology = machine.topology->toml;
  if (!of_hosts.empty()) {
    config.topology.clear();
    config.devices = std::move(of_hosts);
  }
  for (std::size_t i = 0; i < config.devices.size(); ++i) {
    if (!config.devices[i].shown_node.empty()) continue;
    config.devices[i].shown_node = place.own ? machine_ + "-" + request.job : machine_;
    config.devices[i].shown_number = i;
  }
  GPEMU_ASSIGN(const auto node, device::Node::create(config, path));
  if (divided) GPEMU_TRY(divide(*node, nodes_->mig, machine));
  // Whoever shares a GPU may open its node; all others only their own.
  if (!place.shared) GPEMU_TRY(make_folder(path, &request, 0500));
  return {};
}

Result<JobNodes::Holding> JobNodes::hold(const StepRequest& request, const NodePlace& place,
                                         const std::vector<int>& gpus) const {
  const std::string holder = place.shared ? request.job + "." + request.step : request.job;
  const std::filesystem::path file =
      folder() / fmt::format("{}{}{}.json", holder, kHas, place.folder);
  Holding holding{.file = file, .holder = holder, .folder = place.folder};
  std::set<int> all(gpus.begin(), gpus.end());
  for (const Holding& old : holdings()) {
    if (old.file != file) continue;
    all.insert(old.usage.gpus.begin(), old.usage.gpus.end());
    holding = old;
  }
  holding.usage.gpus.assign(all.begin(), all.end());
  std::erase_if(holding.steps,
                [](const auto& step) { return start_of(step.first) != step.second; });
  holding.steps[request.process] = start_of(request.process);
  if (place.shared && holding.tenant == 0) {
    GPEMU_ASSIGN(holding.tenant, free_tenant(place.folder));
    if (const auto node = device::NodeView::open(kGpus, path_of(place.folder))) {
      const auto now = (*node)->device_snapshot(gpus.front(), (*node)->clock().now());
      for (const auto& tenant : now ? now->tenants : std::vector<device::TenantSnapshot>()) {
        if (tenant.tenant == holding.tenant) holding.busy_before_ns = tenant.busy[0].count();
      }
    }
  }
  const std::string kind = place.own              ? "own"
                           : request.mps          ? "mps"
                           : request.shards > 0   ? "shard"
                           : !nodes_->mig.empty() ? "mig"
                                                  : "gpu";
  GPEMU_TRY(write_file_atomically(file, json{{"user", request.user},
                                             {"kind", kind},
                                             {"gpus", holding.usage.gpus},
                                             {"first", place.first},
                                             {"tenant", holding.tenant},
                                             {"busy_before_ns", holding.busy_before_ns},
                                             {"steps", holding.steps}}
                                            .dump()));
  return holding;
}

Result<std::vector<int>> JobNodes::gpus_of(const std::vector<int>& devices,
                                           const MachineGpus& machine) const {
  std::vector<int> gpus;
  for (const int number : devices) {
    if (number < 0 || std::cmp_greater_equal(number, machine.devices.size())) {
      return fail(
          ErrorCode::kNotFound,
          "Slurm allocated GPU {}, but {} has {}: make gres.conf anew by `gpemu-slurm gres`",
          number, machine_, machine.devices.size());
    }
    const int gpu = machine.devices[static_cast<std::size_t>(number)].gpu;
    if (std::ranges::find(gpus, gpu) == gpus.end()) gpus.push_back(gpu);
  }
  if (gpus.empty()) return fail(ErrorCode::kInvalidArgument, "the step has no GPU");
  return gpus;
}

Result<void> JobNodes::check_part(const StepRequest& request, const std::vector<int>& gpus) const {
  if (gpus.size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "the step has parts of {} GPUs, but can share only one: ask for fewer shards",
                gpus.size());
  }
  if (request.mps || request.shards <= nodes_->shards) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the step has {} shards of a GPU that has {} in the description of the cluster: "
              "make gres.conf anew by `gpemu-slurm gres`",
              request.shards, nodes_->shards);
}

Result<StepGpus> JobNodes::give(const StepRequest& request, const GpuSources& sources,
                                const std::filesystem::path& shims) {
  SlurmNodes wanted = *nodes_;
  NodePlace place{.folder = "job-" + request.job};
  if (!request.own_gpus.empty()) {
    wanted = {.gpus = {request.own_gpus}};
    place = {.folder = "own-" + request.job + "-" + file_name_of(request.own_gpus), .own = true};
  }
  GPEMU_ASSIGN(const MachineGpus machine, machine_gpus(wanted, sources));
  std::vector<int> devices = request.gpus;
  for (std::size_t i = 0; place.own && i < machine.devices.size(); ++i) {
    devices.push_back(static_cast<int>(i));
  }
  GPEMU_ASSIGN(const std::vector<int> gpus, gpus_of(devices, machine));
  std::vector<device::DeviceConfig> of_hosts;
  const bool whole = place.own || (request.shards == 0 && !request.mps && nodes_->mig.empty());
  const bool joined = request.network_is_set || !settings_->network.empty();
  if (request.hosts.size() > 1 && whole && joined) {
    GPEMU_ASSIGN(place, place_of_hosts(request, sources, of_hosts));
  }
  if (request.shards > 0 || request.mps) {
    GPEMU_TRY(check_part(request, gpus));
    place = {.folder = fmt::format("{}-{}", request.mps ? "mps" : "shards", gpus.front()),
             .shared = true};
    // What earlier steps of the job had, whose place others may need.
    GPEMU_TRY(take_back_if([&](const Holding& holding) {
      return holding.tenant != 0 && holding.usage.job == request.job && !holding.lives();
    }));
  }
  if (!device::NodeView::open(kGpus, path_of(place.folder))) {
    GPEMU_TRY(make_node(place, request, machine, std::move(of_hosts)));
  }
  GPEMU_ASSIGN(const Holding holding, hold(request, place, gpus));
  const std::filesystem::path records = folder() / (kRecords + holding.holder);
  GPEMU_TRY(make_folder(records, &request, 0700));
  StepGpus step;
  GPEMU_ASSIGN(const auto node, device::NodeView::open(kGpus, path_of(place.folder)));
  GPEMU_ASSIGN(step.visible, visible_names(*node, machine, devices));
  step.environment = environment_in(place, shims, records);
  auto& set = step.environment.set;
  std::vector<int> numbers;
  numbers.reserve(gpus.size());
  for (const int gpu : gpus) numbers.push_back(place.first + gpu);
  set.emplace_back(variable::kDevices, fmt::format("{}", fmt::join(numbers, ",")));
  if (place.lock.valid()) {
    const auto host = std::ranges::find(request.hosts, machine_);
    set.emplace_back("GPEMU_HOSTS", std::to_string(request.hosts.size()));
    set.emplace_back("GPEMU_HOST_RANK", std::to_string(host - request.hosts.begin()));
    if (!request.network_is_set) set.emplace_back(variable::kNetwork, settings_->network);
  }
  if (!place.shared) return step;
  set.emplace_back(variable::kTenant, std::to_string(holding.tenant));
  if (!request.mps && nodes_->limits_shards && request.shards < nodes_->shards) {
    const double part = static_cast<double>(request.shards) / nodes_->shards;
    set.emplace_back(variable::kGpuFraction, fmt::format("{:.6g}", part));
    set.emplace_back(variable::kGpuLimit, fmt::format("{:.6g}", part));
  }
  return step;
}

run::Environment JobNodes::environment_in(const NodePlace& place,
                                          const std::filesystem::path& shims,
                                          const std::filesystem::path& records) const {
  run::Environment environment =
      run::environment_of({.node = fmt::format("{}/{}", ::geteuid(), kGpus)}, shims, records);
  environment.set.emplace_back(variable::kNodeDir, path_of(place.folder).string());
  return environment;
}

JobUsage JobNodes::usage_of(const Holding& holding) const {
  JobUsage usage = holding.usage;
  const auto node = device::NodeView::open(kGpus, path_of(holding.folder));
  if (!node) {
    usage.unknown = node.error().message;
    return usage;
  }
  const TimePoint now = (*node)->clock().now();
  Duration busy{};
  for (const int gpu : usage.gpus) {
    const auto device = (*node)->device_snapshot(holding.first + gpu, now);
    if (!device) {
      usage.unknown = device.error().message;
    } else if (holding.tenant == 0) {
      busy += device->engines[0].busy;
    }
    for (const auto& tenant : device ? device->tenants : std::vector<device::TenantSnapshot>()) {
      if (tenant.tenant != holding.tenant) continue;
      busy += tenant.busy[0] - Duration(holding.busy_before_ns);
    }
  }
  usage.busy_s = to_seconds(busy);
  const auto processes = record::read_processes(folder() / (kRecords + holding.holder));
  if (!processes) {
    usage.unknown = processes.error().message;
    return usage;
  }
  std::map<int, double> peaks;  // By GPU.
  for (const record::RecordedProcess& process : *processes) {
    const auto used = record::devices_of(process);
    usage.processes += used.empty() ? 0 : 1;
    for (const process::RecordedDevice* device : used) {
      peaks[device->index] += to_mib(device->peak_memory_bytes);
    }
  }
  for (const auto& [gpu, peak] : peaks)
    usage.peak_memory_mib = std::max(usage.peak_memory_mib, peak);
  return usage;
}

Result<void> JobNodes::take_back(const Holding& holding) const {
  const Result<void> noted =
      append_usage(settings_->usage / (machine_ + ".jsonl"), usage_of(holding));
  FileDescriptor lock;  // A job ends on all of its machines at the same time.
  if (holding.folder.starts_with(kOfHosts)) {
    GPEMU_ASSIGN(lock, lock_file_of(settings_->state / kJobs / "lock"));
  }
  std::error_code error;
  std::filesystem::remove(holding.file, error);
  const std::vector<Holding> others = holdings();
  if (!is_used(holding.folder)) {
    std::filesystem::remove_all(path_of(holding.folder), error);
    if (error) return io_fault_at(path_of(holding.folder), error.message());
  }
  if (std::ranges::find(others, holding.holder, &Holding::holder) == others.end()) {
    std::filesystem::remove_all(folder() / (kRecords + holding.holder), error);
  }
  return noted;
}

Result<void> JobNodes::take_back_if(const std::function<bool(const Holding&)>& ended) const {
  Result<void> first;
  for (const Holding& holding : holdings()) {
    if (!ended(holding)) continue;
    Result<void> done = take_back(holding);
    if (first && !done) first = std::move(done);
  }
  return first;
}

Result<void> JobNodes::sweep() const {
  const std::vector<Holding> known = holdings();
  const auto is_of_nobody = [&](const std::string& name) {
    if (name.starts_with(kRecords)) {
      const std::string holder = name.substr(std::string_view(kRecords).size());
      return std::ranges::find(known, holder, &Holding::holder) == known.end();
    }
    return name != kMachine && !is_used(name);
  };
  std::vector<std::filesystem::path> paths = paths_in(folder());
  FileDescriptor lock;
  if (const std::filesystem::path jobs = settings_->state / kJobs; !paths_in(jobs).empty()) {
    GPEMU_ASSIGN(lock, lock_file_of(jobs / "lock"));
    std::ranges::copy(paths_in(jobs), std::back_inserter(paths));
  }
  for (const std::filesystem::path& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) continue;
    if (is_of_nobody(path.filename().string())) std::filesystem::remove_all(path, error);
    if (error) return io_fault_at(path, error.message());
  }
  return {};
}

Result<void> JobNodes::take_back(const std::string& job) {
  Result<void> taken =
      take_back_if([&](const Holding& holding) { return holding.usage.job == job; });
  Result<void> swept = sweep();
  return taken ? swept : taken;
}

Result<void> JobNodes::clean() {
  Result<void> taken = take_back_if([](const Holding& holding) { return !holding.lives(); });
  Result<void> swept = sweep();
  return taken ? swept : taken;
}

Result<run::Environment> JobNodes::prepare(const GpuSources& sources,
                                           const std::filesystem::path& shims) {
  GPEMU_ASSIGN(const MachineGpus machine, machine_gpus(*nodes_, sources));
  const std::filesystem::path devices = device_folder(settings_->state);
  GPEMU_TRY(make_folder(devices, nullptr, 0755));
  for (std::size_t i = 0; i < machine.devices.size(); ++i) {
    const std::string path = devices / fmt::format("nvidia{}", i);
    const dev_t device = ::makedev(kNvidiaMajor, static_cast<unsigned>(i));
    if (::mknod(path.c_str(), S_IFCHR | kForAll, device) != 0 && errno != EEXIST) {
      return fail(ErrorCode::kIo, "{}: {}; making device files needs root", path,
                  errno_message(errno));
    }
  }
  const NodePlace place{.folder = kMachine, .shared = true};
  GPEMU_TRY(make_node(place, {}, machine));
  run::Environment environment = environment_in(place, shims, {});
  std::erase_if(environment.set,
                [](const auto& entry) { return entry.first == variable::kRecordDir; });
  return environment;
}

}  // namespace gpemu::tools
