// SPDX-License-Identifier: Apache-2.0
#include "train/training_session.hpp"

#include <algorithm>
#include <optional>
#include <unistd.h>
#include <utility>

#include "gpemu/base/log.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/device/memory_limits.hpp"
#include "gpemu/device/pinned_memory.hpp"
#include "gpemu/device/process_priority.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/report/number_text.hpp"
#include "gpemu/topology/fabric.hpp"

#include "cli/device_list.hpp"

namespace gpemu::tools {
namespace {

/// Limits what a client of MPS uses of the multiprocessors.
constexpr const char* kThreadPercentage = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

/// Counts in `not_locked` the bytes that the user's limit did not allow to lock, and reports it
/// once.
Result<data::HostBuffer> allocate_pinned(Bytes size, std::atomic<Bytes>& not_locked) {
  auto memory = device::PinnedMemory::allocate(size);
  if (!memory) {
    return fail(memory.error().code, "{}; or use --no-pin-memory", memory.error().message);
  }
  if (!memory->locked() && not_locked.fetch_add(size) == 0) {
    log(LogLevel::kWarning, "{}", device::not_locked_text(size));
  }
  auto owner = std::make_shared<device::PinnedMemory>(*std::move(memory));
  data::HostBuffer buffer;
  buffer.data = owner->bytes().data();
  buffer.size = size;
  buffer.owner = std::move(owner);
  return buffer;
}

/// Returns what joins the GPUs of a run on described machines; nothing for one GPU.
Result<std::optional<topology::Fabric>> fabric_of_run(const profile::TopologySpec& machine,
                                                      const profile::GpuSpec& gpu,
                                                      const GpuOptions& options) {
  if (options.gpus == 1 && options.nodes == 1) return std::nullopt;
  const auto network =
      options.network == "rdma" ? topology::LinkClass::kRdma : topology::LinkClass::kSocket;
  Result<topology::Fabric> fabric =
      topology::fabric_of_nodes(machine, gpu, options.gpus, options.nodes, network);
  if (fabric) return *fabric;
  return fail(fabric.error().code, "--gpus {} --nodes {}: {}{}", options.gpus, options.nodes,
              fabric.error().message,
              options.nodes == 1 ? "; --nodes asks for several machines" : "");
}

}  // namespace

Result<void> TrainingSession::attach(const GpuOptions& options, const World& world) {
  device::end_when_cut_short();
  GPEMU_ASSIGN(node_, device::Node::open(options.node, world.nodes));
  const std::string priority = world.variable(variable::kGpuPriority).value_or("");
  GPEMU_ASSIGN(const auto own,
               device::process_priority([&](const char* /*name*/) { return priority.c_str(); }));
  node_->set_priority(own);
  const std::string percentage = world.variable(kThreadPercentage).value_or("");
  if (device::is_side_by_side(node_->policy()) && !percentage.empty() && percentage != "100") {
    return fail(ErrorCode::kUnsupported,
                "{} is {}, but the costs of `gpemu train` are those of whole GPUs; unset it, or "
                "train a program with `gpemu run`, which keeps to it",
                kThreadPercentage, percentage);
  }
  // Its time may be ahead of the host's, if a run skips what all of its processes wait for.
  clock_ = &node_->clock();
  spun_before_ = clock_->spun();
  const auto last = std::int64_t{options.device} + options.gpus - 1;
  if (last >= node_->device_count()) {
    return fail(ErrorCode::kInvalidArgument,
                "--device {} and --gpus {} ask for device {} of node '{}', whose last is {}",
                options.device, options.gpus, last, options.node, node_->device_count() - 1);
  }
  return {};
}

/// Plans the steps of GPUs that a described machine, or several, or their kind alone joins.
Result<void> TrainingSession::make_plan(const GpuOptions& options, const World& world) {
  train::Sharing sharing{.gpus = options.gpus,
                         .parallel = options.parallel == train::kParallelNames[0]
                                         ? train::Parallel::kDdp
                                         : train::Parallel::kDataParallel};
  if (!options.topology.empty()) {
    GPEMU_ASSIGN(const profile::TopologySpec machine,
                 profile::find_topology(world.topologies, options.topology));
    if (machine.gpu != model_->gpu().name) {
      return fail(ErrorCode::kInvalidArgument, "the GPUs of {} are {}, not {}", machine.name,
                  machine.gpu, model_->gpu().name);
    }
    GPEMU_ASSIGN(sharing.fabric, fabric_of_run(machine, model_->gpu(), options));
  }
  GPEMU_ASSIGN(plan_, train::plan_step(*model_, options.batch, sharing));
  return {};
}

Result<void> TrainingSession::create_node(const GpuOptions& options, const World& world) {
  device::NodeConfig config{.name = fmt::format("train-{}", ::getpid()), .temporary = true};
  GPEMU_ASSIGN(config.faults, faults_of(options.faults, static_cast<std::size_t>(plan_.gpus)));
  // Nobody else can use a private node, so one device can stand for all GPUs that are alike.
  const bool are_alike = virtual_clock_ && config.faults.empty();
  const int devices = are_alike ? plan_.distinct_gpus() : plan_.gpus;
  config.devices.assign(static_cast<std::size_t>(devices), device::device_config(model_->gpu()));
  if (virtual_clock_) {
    // A virtual clock cannot be shared.
    GPEMU_ASSIGN(node_, device::Node::create_private(config));
  } else {
    GPEMU_ASSIGN(node_, device::Node::create_under_free_name(std::move(config), world.nodes));
  }
  return {};
}

Result<void> TrainingSession::open_devices(const GpuOptions& options, const World& world) {
  GPEMU_ASSIGN(const device::MemoryLimits limits, world.memory_limits());
  GPEMU_ASSIGN(const device::ComputeShares shares, world.compute_shares());
  const int first = options.node.empty() ? 0 : options.device;
  const int count = options.node.empty() ? node_->device_count() : options.gpus;
  for (int index = first; index < first + count; ++index) {
    const std::string gpu = node_->device_snapshot(index, clock_->now()).gpu;
    if (gpu != model_->gpu().name) {
      return fail(ErrorCode::kInvalidArgument, "device {} of node '{}' is a {}, not a {}", index,
                  node_->name(), gpu, model_->gpu().name);
    }
    GPEMU_ASSIGN(std::unique_ptr<device::Device> device,
                 device::Device::open(node_, index, *clock_, {}, shares.of(index)));
    if (const auto limit = limits.limit(index, device->memory_info().total)) {
      device->limit_memory(*limit);
    }
    devices_.push_back(std::move(device));
  }
  return {};
}

Result<TrainingSession> TrainingSession::create(const GpuOptions& options, bool virtual_clock,
                                                const World& world, Duration preprocessing) {
  TrainingSession session;
  if (virtual_clock) session.virtual_clock_ = std::make_unique<sim::VirtualClock>();
  session.clock_ = virtual_clock ? session.virtual_clock_.get() : &world.clock;
  session.spun_before_ = session.clock_->spun();
  std::string gpu = options.gpu;
  if (!options.node.empty()) {
    GPEMU_TRY(session.attach(options, world));
    if (gpu.empty()) {
      gpu = session.node_->device_snapshot(options.device, session.clock_->now()).gpu;
    }
  }
  if (gpu.empty() && !options.topology.empty()) {
    GPEMU_ASSIGN(const profile::TopologySpec machine,
                 profile::find_topology(world.topologies, options.topology));
    gpu = machine.gpu;
  }
  if (gpu.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "which GPU? Name one with --gpu, e.g. --gpu V100-PCIE-32GB; `gpemu profile list` "
                "lists them");
  }
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  GPEMU_ASSIGN(step::StepCostModel model,
               step::StepCostModel::create(database, options.model, gpu, options.precision));
  session.model_ = std::make_unique<step::StepCostModel>(std::move(model));
  GPEMU_TRY(session.make_plan(options, world));
  if (preprocessing > Duration::zero()) {
    // What a host file says is not the cost model's.
    session.plan_.parts.insert(
        session.plan_.parts.begin(),
        {.name = "preprocess",
         .cost = {.time = preprocessing, .evidence = cost::Evidence::kAnalytic}});
  }
  if (!session.node_) GPEMU_TRY(session.create_node(options, world));
  GPEMU_TRY(session.open_devices(options, world));

  std::vector<device::Device*> devices;
  devices.reserve(session.devices_.size());
  for (const auto& device : session.devices_) devices.push_back(device.get());
  const train::TrainOptions train_options{.pinned = !options.pageable,
                                          .overlap_copy = options.overlap_copy};
  GPEMU_ASSIGN(train::Trainer trainer,
               train::Trainer::create(session.plan_, train_options, devices));
  session.trainer_ = std::make_unique<train::Trainer>(std::move(trainer));
  return session;
}

Result<void> check_input(const profile::ModelInfo& model) {
  const auto& shape = model.input_shape;
  if (shape[0] == 3 && shape[1] == shape[2]) return {};
  return fail(ErrorCode::kUnsupported,
              "{} takes an input of {}x{}x{}; only square RGB images are supported: use "
              "`gpemu train synthetic`",
              model.name, shape[0], shape[1], shape[2]);
}

data::HostAllocator batch_allocator(bool pageable, std::shared_ptr<std::atomic<Bytes>> not_locked) {
  if (pageable) return data::pageable_allocator();
  return [not_locked = std::move(not_locked)](Bytes size) {
    return allocate_pinned(size, *not_locked);
  };
}

Result<DataPath> open_data(const DataOptions& options, const GpuOptions& gpu,
                           const profile::ModelInfo& model, const World& world,
                           const std::atomic<bool>& stop, const LoaderHooks* hooks) {
  GPEMU_TRY(check_input(model));
  DataPath path;
  GPEMU_ASSIGN(data::Dataset dataset, open_dataset(options.folder, world, options.patience, &stop));
  path.dataset = std::make_unique<data::Dataset>(std::move(dataset));
  GPEMU_ASSIGN(path.storage,
               make_storage(options.read, world,
                            hooks != nullptr ? hooks->page_cache : data::PageCache::kUsed));
  const std::size_t images = path.dataset->samples().size();
  if (images < static_cast<std::size_t>(gpu.batch)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} holds {} image{}, less than one batch of {}: use a smaller --batch",
                options.folder.string(), images,
                report::plural(std::ssize(path.dataset->samples())), gpu.batch);
  }
  data::LoaderOptions loader_options{.batch = gpu.batch,
                                     .workers = options.workers,
                                     .prefetch_batches = options.prefetch_batches,
                                     .seed = options.seed,
                                     .crop = model.input_shape[1],
                                     .stop_on_corrupt = options.strict_images};
  set_reading(loader_options, options.read, *path.dataset, path.storage.get());
  if (hooks != nullptr) {
    if (loader_options.order.value_or(data::ReadOrder::kRandom) != data::ReadOrder::kRandom) {
      return fail(ErrorCode::kInvalidArgument,
                  "--order {} excludes --cache and --join, which need a random order",
                  options.read.order);
    }
    loader_options.order = data::ReadOrder::kRandom;
    loader_options.drop_last = false;
    if (hooks->source) loader_options.source = hooks->source(*path.dataset, path.storage.get());
  }
  path.not_locked = std::make_shared<std::atomic<Bytes>>(0);
  GPEMU_ASSIGN(data::Loader loader,
               data::Loader::create(*path.dataset, loader_options,
                                    batch_allocator(gpu.pageable, path.not_locked), world.clock));
  path.loader = std::make_unique<data::Loader>(std::move(loader));
  return path;
}

}  // namespace gpemu::tools
