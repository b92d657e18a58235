// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/gpu_pool.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/topology/paths.hpp"

namespace gpemu::containers {
namespace {

/// More replicas of a GPU than processes can share it are of no use. Source: layout::kMostSharers.
constexpr int kMostReplicas = 64;

/// Parts that are added may be a little more than a whole.
constexpr double kWhole = 1 + 1e-6;

/// Returns whether nobody else can have anything of its GPU, or of its instance.
bool is_whole(const GpuPart& part) {
  return part.mig || (part.memory >= 1 && (part.compute == 0 || part.compute >= 1));
}

Result<void> check_part(const std::string& holder, const GpuPart& part) {
  const bool is_part =
      part.memory > 0 && part.memory <= kWhole && part.compute >= 0 && part.compute <= kWhole;
  if (is_part) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{} asks for {:.6g} of the memory and {:.6g} of the time of GPU {}", holder,
              part.memory, part.compute, part.gpu);
}

/// Adds that a container gets a part of its GPU only.
void add_part(ContainerEdits& edits, const GpuPart& part, Division division) {
  edits.environment.emplace_back(variable::kGpuFraction, fmt::format("{:.6g}", part.memory));
  if (part.compute == 0) return;
  const bool capped = division == Division::kLimit;
  edits.environment.emplace_back(capped ? variable::kGpuLimit : variable::kGpuShare,
                                 fmt::format("{:.6g}", part.compute));
}

std::unexpected<Error> io_fault(const std::filesystem::path& path, const std::error_code& error) {
  return fail(ErrorCode::kIo, "{}: {}", path.string(), error.message());
}

void show_as(device::DeviceConfig& device, const std::string& machine, std::size_t gpu) {
  device.shown_node = machine;
  device.shown_number = gpu;
}

/// Divides a device of a node by MIG.
Result<void> divide(const device::Node& node, int device, const GpuPoolOptions& options,
                    const device::MigLayout& wanted) {
  return node.mig(device).change(options.mig_profiles, [&](device::MigLayout& layout) {
    layout = wanted;
    return Result<void>();
  });
}

/// Makes the node with all GPUs of the machine, in place of an earlier pool's.
Result<std::shared_ptr<device::Node>> machine_of(const GpuPoolOptions& options) {
  const std::filesystem::path folder = GpuPool::machine_folder(options.folder);
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  std::filesystem::create_directories(folder, error);
  if (error) return io_fault(folder, error);
  device::NodeConfig config{.name = kNodeName, .devices = options.gpus, .faults = options.faults};
  if (options.topology) config.topology = options.topology->toml;
  if (!options.mig.empty()) config.policy = device::SharingPolicy::kMig;
  for (std::size_t gpu = 0; gpu < config.devices.size(); ++gpu) {
    show_as(config.devices[gpu], options.machine, gpu);
  }
  GPEMU_ASSIGN(auto node, device::Node::create(config, folder));
  if (options.mig.empty()) return node;
  GPEMU_ASSIGN(const device::MigLayout layout, layout_with(options.mig_profiles, options.mig));
  for (int gpu = 0; gpu < node->device_count(); ++gpu) {
    GPEMU_TRY(divide(*node, gpu, options, layout));
  }
  return node;
}

/// Returns how well two GPUs are joined: NVLinks count more than any way over PCIe. Source: the
/// scores of NVIDIA's device plugin, github.com/NVIDIA/go-gpuallocator,
/// gpuallocator/besteffort_policy.go.
int closeness(const profile::TopologySpec& machine, std::size_t first, std::size_t second) {
  constexpr int kOfLink = 100, kOfStep = 10;
  const int steps =
      static_cast<int>(topology::Path::kSystem) -
      static_cast<int>(topology::pcie_path(machine, machine.gpus[first], machine.gpus[second]));
  const int links =
      topology::nvlinks_between(machine, static_cast<int>(first), static_cast<int>(second));
  return kOfLink * links + kOfStep * (1 + steps);
}

/// Returns how well all of some GPUs are joined.
int closeness(const profile::TopologySpec& machine, std::span<const std::size_t> gpus) {
  int sum = 0;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) sum += closeness(machine, gpus[i], gpus[j]);
  }
  return sum;
}

/// Returns so many of the free GPUs, in order, that are joined best with `must` and each other; if
/// several are, those that leave the best; of many free ones, the first are looked at.
std::vector<std::size_t> joined_best(const profile::TopologySpec& machine,
                                     const std::vector<std::size_t>& must,
                                     std::vector<std::size_t> free, std::size_t count) {
  constexpr std::size_t kMostFree = 16;  // There are 12870 ways to take 8 of them.
  if (free.size() > std::max(kMostFree, count)) free.resize(std::max(kMostFree, count));
  std::vector<char> taken(free.size(), 0);
  std::fill_n(taken.begin(), std::min(count, free.size()), 1);
  std::pair<int, int> best{-1, -1};
  std::vector<std::size_t> chosen;
  do {
    std::vector<std::size_t> all = must, rest;
    for (std::size_t i = 0; i < free.size(); ++i) (taken[i] ? all : rest).push_back(free[i]);
    const std::pair score{closeness(machine, all), closeness(machine, rest)};
    if (score <= best) continue;
    best = score;
    chosen.assign(all.begin() + static_cast<std::ptrdiff_t>(must.size()), all.end());
  } while (std::ranges::prev_permutation(taken).found);
  return chosen;
}

/// Returns whether a driver reports an error of a device, with which containers do not get it.
bool has_failed(const device::FaultTable& faults, int device, TimePoint now) {
  // Xids of programs alone do not count, such as 31. Source: NVIDIA's device plugin ignores them.
  constexpr int kNvlinkXid = 74;
  const auto is_link = [](const device::DeviceXid& xid) { return xid.number == kNvlinkXid; };
  return faults.health(device, now).lost || std::ranges::any_of(faults.xids(device, now), is_link);
}

}  // namespace

std::filesystem::path GpuPool::machine_folder(const std::filesystem::path& folder) {
  return folder / "machine";
}

bool GpuPool::is_healthy(std::size_t gpu) const {
  const TimePoint now = machine_->clock().now();
  if (has_failed(machine_->faults(), static_cast<int>(gpu), now)) return false;
  const auto by_count = [gpu](const profile::Fault& fault) {
    return fault.gpu == static_cast<int>(gpu) && fault.at_collective != 0;
  };
  if (!std::ranges::any_of(faults_.faults, by_count)) return true;
  // What containers may write is looked at only for this.
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, error)) {
    const GpuPlaces its = places_of_folder(entry.path().filename().string());
    if (!its.contains(gpu)) continue;
    const auto node = device::NodeView::open(kNodeName, entry.path());
    if (!node || std::cmp_not_equal((*node)->device_count(), its.size())) continue;
    const auto faults = (*node)->faults();
    const auto number = std::distance(its.begin(), its.find(gpu));
    if (faults && has_failed(*faults, static_cast<int>(number), now)) return false;
  }
  return true;
}

Result<GpuPool> GpuPool::create(GpuPoolOptions options) {
  if (options.gpus.empty()) return fail(ErrorCode::kInvalidArgument, "a pool needs GPUs");
  if (options.replicas < 1 || options.replicas > kMostReplicas) {
    return fail(ErrorCode::kInvalidArgument, "replicas: expected 1 to {}, not {}", kMostReplicas,
                options.replicas);
  }
  if (options.replicas == 1 && options.division != Division::kNone) {
    return fail(ErrorCode::kInvalidArgument, "only GPUs with several replicas can be divided");
  }
  if (options.replicas != 1 && !options.mig.empty()) {
    return fail(ErrorCode::kUnsupported, "replicas of MIG devices are not supported");
  }
  GPEMU_ASSIGN([[maybe_unused]] const ContainerEdits edits,
               edits_for(options.installation, options.folder, options.folder));
  std::error_code error;
  std::filesystem::create_directories(options.folder, error);
  if (error) return io_fault(options.folder, error);
  GPEMU_TRY(write_smi(options.folder));
  profile::FaultPlan faults;
  if (!options.faults.empty()) {
    GPEMU_ASSIGN(faults, profile::parse_fault_plan(options.faults, "faults", options.gpus.size()));
  }
  GPEMU_ASSIGN(auto machine, machine_of(options));
  GpuPool pool(std::move(options), std::move(machine));
  pool.started_ = pool.machine_->clock().now();
  pool.faults_ = std::move(faults);
  for (std::size_t gpu = 0; gpu < pool.options_.gpus.size(); ++gpu) {
    const std::string uuid =
        pool.machine_->device_snapshot(static_cast<int>(gpu), TimePoint{}).uuid;
    pool.uuids_.push_back(uuid);
    const auto layout =
        pool.machine_->mig(static_cast<int>(gpu)).layout(pool.options_.mig_profiles);
    pool.add_devices(gpu, layout.devices(static_cast<int>(gpu), uuid));
  }
  return pool;
}

void GpuPool::add_devices(std::size_t gpu, std::span<const device::MigDevice> instances) {
  for (const device::MigDevice& mig : instances) {
    devices_.push_back({.id = mig.uuid,
                        .gpu = gpu,
                        .mig = MigPlacement{.profile = mig.profile, .start = mig.memory_place},
                        .profile = mig.name});
  }
  if (!instances.empty()) return;
  for (int replica = 0; replica < options_.replicas; ++replica) {
    const bool shared = options_.replicas > 1;
    const std::string& uuid = uuids_[gpu];
    devices_.push_back({.id = shared ? fmt::format("{}::{}", uuid, replica) : uuid,
                        .gpu = gpu,
                        .mig = {},
                        .profile = {}});
  }
}

Result<PoolDevice> GpuPool::device_of(std::string_view id) const {
  const auto found = std::ranges::find(devices_, id, &PoolDevice::id);
  if (found != devices_.end()) return *found;
  return fail(ErrorCode::kNotFound, "the machine '{}' has no device {}", options_.machine, id);
}

std::vector<std::string> GpuPool::prefer(std::span<const std::string> available,
                                         std::span<const std::string> must,
                                         std::size_t count) const {
  std::vector<std::string> chosen(must.begin(), must.end());
  std::map<std::size_t, std::vector<std::string>> free;  // by GPU.
  std::set<std::size_t> musts;
  for (const std::string& id : must) {
    if (const auto device = device_of(id)) musts.insert(device->gpu);
  }
  for (const PoolDevice& device : devices_) {
    const bool is_free = std::ranges::find(available, device.id) != available.end() &&
                         std::ranges::find(chosen, device.id) == chosen.end();
    if (is_free) free[device.gpu].push_back(device.id);
  }
  const auto take = [&](const std::vector<std::string>& ids) {
    for (const std::string& id : ids) {
      if (chosen.size() < count) chosen.push_back(id);
    }
  };
  for (const std::size_t gpu : musts) take(free[gpu]);
  const std::size_t wanted = count - std::min(count, chosen.size());
  const std::vector<std::string>* tightest = nullptr;
  for (const auto& [gpu, ids] : free) {
    const bool fits = options_.replicas > 1 && ids.size() >= wanted && !musts.contains(gpu);
    if (fits && (tightest == nullptr || ids.size() < tightest->size())) tightest = &ids;
  }
  if (tightest != nullptr) take(*tightest);
  if (options_.topology && options_.replicas == 1 && options_.mig.empty()) {
    std::vector<std::size_t> gpus;
    for (const auto& [gpu, ids] : free) gpus.push_back(gpu);
    const std::vector<std::size_t> its(musts.begin(), musts.end());
    for (const std::size_t gpu : joined_best(*options_.topology, its, gpus, wanted)) {
      take(free[gpu]);
    }
    return chosen;
  }
  for (const auto& [gpu, ids] : free) {
    if (!musts.contains(gpu)) take(ids);
  }
  return chosen;
}

bool GpuPool::has_node(const std::filesystem::path& folder, const GpuPlaces& places) const {
  // A watcher needs no place among the processes, which containers may have taken all.
  const auto node = device::NodeView::open(kNodeName, folder);
  if (!node || std::cmp_not_equal((*node)->device_count(), places.size())) return false;
  int number = 0;
  for (const auto& [gpu, instances] : places) {
    const auto device = (*node)->device_snapshot(number, TimePoint{});
    const bool is_it =
        device && device->gpu == options_.gpus[gpu].gpu && device->uuid == uuids_[gpu];
    if (!is_it) return false;
    // It was not made to its end, or its container has changed it.
    const auto layout = (*node)->mig_layout(number++, options_.mig_profiles);
    if (!layout || layout->instances().size() != instances.size()) return false;
  }
  return true;
}

Result<void> GpuPool::make_node(const std::filesystem::path& folder,
                                const GpuPlaces& places) const {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  std::filesystem::create_directories(folder, error);
  if (error) return io_fault(folder, error);
  // Programs of any user may run in a container.
  constexpr mode_t kForAll = 0666;
  const bool has_mig =
      std::ranges::any_of(places, [](const auto& place) { return !place.second.empty(); });
  device::NodeConfig config{
      .name = kNodeName,
      .policy = has_mig ? device::SharingPolicy::kMig : device::SharingPolicy::kTimeSlices,
      .slices = options_.slices,
      .mode = kForAll};
  std::vector<std::size_t> gpus;
  for (const auto& [gpu, instances] : places) {
    gpus.push_back(gpu);
    config.devices.push_back(options_.gpus[gpu]);
    show_as(config.devices.back(), options_.machine, gpu);
  }
  if (options_.topology) {
    GPEMU_ASSIGN(profile::TopologySpec its, profile::with_some_gpus(*options_.topology, gpus));
    config.topology = std::move(its.toml);
  }
  config.faults = profile::faults_left(faults_, gpus, machine_->clock().now() - started_);
  GPEMU_ASSIGN(const auto node, device::Node::create(config, folder));
  int number = 0;
  for (const auto& [gpu, instances] : places) {
    if (!has_mig) break;
    GPEMU_ASSIGN(const auto layout, layout_with(options_.mig_profiles, instances));
    GPEMU_TRY(divide(*node, number++, options_, layout));
  }
  return {};
}

Result<std::filesystem::path> GpuPool::node_folder(const GpuPlaces& places) {
  std::filesystem::path folder = options_.folder / folder_name(places);
  const bool shared = options_.replicas > 1;
  if (shared && has_node(folder, places)) return folder;
  std::error_code error;
  for (const auto& other : std::filesystem::directory_iterator(options_.folder, error)) {
    const GpuPlaces its = places_of_folder(other.path().filename().string());
    if (overlap(places, its)) std::filesystem::remove_all(other.path(), error);
  }
  GPEMU_TRY(make_node(folder, places));
  return folder;
}

Result<std::vector<std::string>> GpuPool::uuids_of(const GpuPlaces& places) const {
  std::vector<std::string> uuids;
  for (const auto& [gpu, instances] : places) {
    if (instances.empty()) {
      uuids.push_back(uuids_[gpu]);
      continue;
    }
    GPEMU_ASSIGN(const auto layout, layout_with(options_.mig_profiles, instances));
    for (const device::MigDevice& mig : layout.devices(static_cast<int>(gpu), uuids_[gpu])) {
      uuids.push_back(mig.uuid);
    }
  }
  return uuids;
}

Result<ContainerEdits> GpuPool::edits_of(const std::filesystem::path& folder,
                                         const GpuPlaces& places) const {
  GPEMU_ASSIGN(ContainerEdits edits, edits_for(options_.installation, folder, options_.folder));
  GPEMU_ASSIGN(const std::vector<std::string> uuids, uuids_of(places));
  edits.environment.emplace_back("NVIDIA_VISIBLE_DEVICES",
                                 fmt::format("{}", fmt::join(uuids, ",")));
  return edits;
}

int GpuPool::tenant_of(std::span<const std::string> ids) const {
  int first = options_.replicas;
  for (const std::string& id : ids) {
    int replica = 0;
    const std::size_t begin = id.rfind(':') + 1;
    std::from_chars(id.data() + begin, id.data() + id.size(), replica);
    first = std::min(first, replica);
  }
  return first + 1;
}

Result<int> GpuPool::tenant_of(const std::string& holder, std::size_t gpu) const {
  // The numbers are files, "tenant-GPU-NUMBER@HOLDER", where containers cannot write.
  const std::string prefix = fmt::format("tenant-{}-", gpu);
  std::set<int> taken;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.find(kOfHolder);
    if (!name.starts_with(prefix) || at == std::string::npos) continue;
    int number = 0;
    std::from_chars(name.data() + prefix.size(), name.data() + at, number);
    if (name.substr(at + 1) == holder) return number;
    taken.insert(number);
  }
  int number = 1;
  while (taken.contains(number)) ++number;
  if (number > kMostReplicas) {
    return fail(ErrorCode::kResourceLimit, "{} claims share GPU {} already, which is all it can",
                kMostReplicas, gpu);
  }
  GPEMU_TRY(write_file_atomically(
      options_.folder / fmt::format("{}{}{}{}", prefix, number, kOfHolder, holder), ""));
  return number;
}

Result<ContainerEdits> GpuPool::allocate(std::span<const std::string> ids) {
  GpuPlaces places;
  for (const std::string& id : ids) {
    GPEMU_ASSIGN(const PoolDevice device, device_of(id));
    std::set<MigPlacement>& instances = places[device.gpu];
    if (device.mig) instances.insert(*device.mig);
  }
  if (places.empty()) return fail(ErrorCode::kInvalidArgument, "a container asks for no device");
  const bool shared = options_.replicas > 1;
  if (shared && places.size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "a container gets replicas of {} GPUs ({}), but can share only one: ask for fewer, "
                "or for whole GPUs",
                places.size(), fmt::join(ids, ", "));
  }
  GPEMU_ASSIGN(const std::filesystem::path folder, node_folder(places));
  GPEMU_ASSIGN(ContainerEdits edits, edits_of(folder, places));
  if (shared) {
    edits.environment.emplace_back(variable::kTenant, std::to_string(tenant_of(ids)));
  }
  if (options_.division == Division::kNone || std::cmp_equal(ids.size(), options_.replicas)) {
    return edits;
  }
  const double part = static_cast<double>(ids.size()) / options_.replicas;
  add_part(edits, {.memory = part, .compute = part}, options_.division);
  return edits;
}

Result<ContainerEdits> GpuPool::give(const std::string& holder, std::span<const GpuPart> parts,
                                     Division division) {
  std::map<std::size_t, GpuPart> by_gpu;
  GpuPlaces places;
  std::size_t instances = 0;
  for (const GpuPart& part : parts) {
    if (part.gpu >= options_.gpus.size()) {
      return fail(ErrorCode::kNotFound, "the machine '{}' has no GPU {}", options_.machine,
                  part.gpu);
    }
    std::set<MigPlacement>& its = places[part.gpu];
    if (part.mig && its.insert(*part.mig).second) ++instances;
    const auto [found, is_new] = by_gpu.try_emplace(part.gpu, part);
    if (is_new || part.mig) continue;
    found->second.memory += part.memory;
    found->second.compute += part.compute;
  }
  if (by_gpu.empty()) return fail(ErrorCode::kInvalidArgument, "{} asks for no GPU", holder);
  if (instances != 0 && instances != parts.size()) {
    return fail(ErrorCode::kInvalidArgument,
                "{} asks for MIG devices beside whole GPUs, and programs would see the MIG devices "
                "alone: make two claims, for two containers",
                holder);
  }
  bool shared = false;
  for (const auto& [gpu, part] : by_gpu) {
    shared = shared || !is_whole(part);
    GPEMU_TRY(check_part(holder, part));
  }
  if (shared && places.size() > 1) {
    return fail(ErrorCode::kInvalidArgument,
                "{} gets parts of {} GPUs, but can share only one: ask for a part of one, or for "
                "whole GPUs",
                holder, places.size());
  }
  std::filesystem::path folder = options_.folder / folder_name(places);
  if (!shared) folder += kOfHolder + holder;
  if (!has_node(folder, places)) GPEMU_TRY(make_node(folder, places));
  GPEMU_ASSIGN(ContainerEdits edits, edits_of(folder, places));
  if (!shared) return edits;
  GPEMU_ASSIGN(const int tenant, tenant_of(holder, by_gpu.begin()->first));
  edits.environment.emplace_back(variable::kTenant, std::to_string(tenant));
  add_part(edits, by_gpu.begin()->second, division);
  return edits;
}

Result<void> GpuPool::take_back(const std::string& holder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(options_.folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::size_t at = name.find(kOfHolder);
    if (at == std::string::npos) continue;
    const std::string its = name.substr(at + 1);
    if (its != holder && !its.starts_with(holder + '.')) continue;
    std::filesystem::remove_all(entry.path(), error);
    if (error) return io_fault(entry.path(), error);
  }
  return {};
}

}  // namespace gpemu::containers
