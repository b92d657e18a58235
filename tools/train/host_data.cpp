// SPDX-License-Identifier: Apache-2.0
#include "train/host_data.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "gpemu/experiment/run_experiment.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/host_spec.hpp"
#include "gpemu/profile/storage_spec.hpp"

#include "cli/read_options.hpp"

namespace gpemu::tools {

void add_host_options(Command command, RunOptions& options) {
  command
      .option("host", options.host.name,
              "A name (`gpemu host list`) or a TOML file; each of --nodes is such a host")
      .required();
  command.option("--data", options.data.folder, "A real data set, of which only sizes are read");
  command
      .option("--dataset", options.host.dataset,
              "The described data set: a name in experiments/datasets, or a TOML file")
      .excludes("--data")
      .show_default();
  command.option("--host-loader", options.host.loader,
                 "A loader of the host; default: gpemu-FORMAT for --data, or its first");
  command
      .option("--workers", options.data.workers,
              "Workers of each node's loader; default: this machine's cores")
      .range(1, 1024);
  add_storage_option(command, options.data.read);
  add_peers_option(command, options.host);
}

void add_peers_option(Command command, HostOptions& options) {
  command
      .option("--peers", options.peers,
              "partitioned: nodes read from each other's caches; locality: and prepare what they "
              "cache")
      .one_of({"none", "partitioned", "locality"})
      .show_default();
}

namespace {

/// Puts the files of a real data set into the setup, with the host's loader for its format.
Result<void> add_real_data(const RunOptions& options, const profile::HostSpec& host,
                           const World& world, const std::atomic<bool>& stop,
                           pipeline::PipelineSetup& setup) {
  GPEMU_ASSIGN(data::Dataset dataset,
               open_dataset(options.data.folder, world, options.data.patience, &stop));
  const std::string format_loader = fmt::format("gpemu-{}", dataset.format_name());
  if (options.host.loader.empty() &&
      std::ranges::find(host.loaders, format_loader, &profile::HostLoader::name) !=
          host.loaders.end()) {
    GPEMU_ASSIGN(setup.loader, host.loader(format_loader));
  }
  if (dataset.natural_order() != data::ReadOrder::kRandom) {
    if (!setup.loader.shared_batches || options.host.peers != "none") {
      return fail(
          ErrorCode::kUnsupported,
          "described hosts read {} files only with a loader that has shared_batches = true, "
          "and without --peers; the loader is {}",
          dataset.format_name(), setup.loader.name);
    }
  }
  if (dataset.samples().size() < static_cast<std::size_t>(setup.batch * setup.nodes)) {
    return fail(ErrorCode::kInvalidArgument, "{} holds {} images, less than one batch of {}",
                options.data.folder.string(), dataset.samples().size(), options.gpu.batch);
  }
  use_dataset(setup, std::make_shared<const data::Dataset>(std::move(dataset)));
  return {};
}

double share_in_memory(const profile::HostSpec& host, const std::vector<std::uint32_t>& files) {
  const Bytes bytes = std::accumulate(files.begin(), files.end(), Bytes{0});
  return bytes == 0 ? 1
                    : std::min(1.0, static_cast<double>(host.memory) / static_cast<double>(bytes));
}

}  // namespace

Result<HostPath> open_host(const RunOptions& options, const World& world,
                           const std::atomic<bool>& stop, HostFiles files) {
  if (options.gpu.batch % options.gpu.nodes != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "--batch {} cannot be divided among {} nodes: use a multiple", options.gpu.batch,
                options.gpu.nodes);
  }
  const HostOptions& host = options.host;
  const bool real_data = !options.data.folder.empty();
  profile::ExperimentRun run{.host = host.name,
                             .loader = host.loader,
                             .dataset = real_data ? "" : host.dataset,
                             .batch = options.gpu.batch / options.gpu.nodes,
                             .nodes = options.gpu.nodes,
                             .workers = options.data.workers,
                             .prefetch = options.data.prefetch_batches,
                             .cache = options.data.cache,
                             .peers = host.peers,
                             .step_ms = 1,  // The trainer's steps count.
                             .copy_ms = 0,
                             .seed = options.data.seed};
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  experiment::ExperimentRunner runner(
      {.hosts = world.hosts, .storage = world.storage, .datasets = world.experiments / "datasets"},
      database);
  GPEMU_ASSIGN(const profile::HostSpec* spec, runner.host(host.name));
  GPEMU_ASSIGN(pipeline::PipelineSetup setup, runner.setup(run));
  if (const std::string& storage = options.data.read.storage; !storage.empty()) {
    const bool is_own = std::ranges::find(spec->storages, storage, &profile::StorageSpec::name) !=
                        spec->storages.end();
    GPEMU_ASSIGN(setup.storage,
                 is_own ? spec->storage(storage) : profile::find_storage(world.storage, storage));
  }
  if (files == HostFiles::kInMemory) {
    setup.storage = {.name = "memory", .bytes_per_s = std::numeric_limits<double>::infinity()};
    run.peers = "none";
  }
  if (real_data) GPEMU_TRY(add_real_data(options, *spec, world, stop, setup));
  run.cache_share = options.data.cache_share.value_or(share_in_memory(*spec, setup.file_bytes));
  experiment::add_caches(run, setup);
  HostPath path;
  path.cores = setup.cpu.cores * run.nodes;
  path.gpu_time = from_seconds(setup.loader.gpu_s / setup.loader.batch_of * options.gpu.batch /
                               options.gpu.gpus);
  path.files = real_data ? setup.dataset->samples().size() : setup.file_bytes.size();
  path.bytes = std::accumulate(setup.file_bytes.begin(), setup.file_bytes.end(), Bytes{0});
  const auto nodes = static_cast<std::size_t>(run.nodes);
  const auto batch = static_cast<std::size_t>(run.batch);
  const std::size_t each = (path.files + nodes - 1) / nodes;
  path.batches_per_epoch =
      static_cast<std::int64_t>(real_data ? each / batch : (each + batch - 1) / batch);
  path.loaders = std::make_unique<pipeline::DescribedLoaders>(std::move(setup));
  return path;
}

}  // namespace gpemu::tools
