// SPDX-License-Identifier: Apache-2.0
#include "train/host_data.hpp"

#include <numeric>
#include <utility>

#include "gpemu/experiment/run_experiment.hpp"
#include "gpemu/profile/database.hpp"

namespace gpemu::tools {

void add_host_options(Command command, HostOptions& options) {
  command
      .option("--host", options.name,
              "Load the data on this described host, which is a name (gpemu experiment list "
              "--hosts) or a TOML file, in virtual time; each of --nodes is one")
      .excludes("--data");
  command
      .option("--dataset", options.dataset,
              "The described data set: a name in experiments/datasets, or a TOML file")
      .needs("--host")
      .show_default();
  command.option("--host-loader", options.loader, "A loader of the host; default: its first")
      .needs("--host");
  command.option("--host-storage", options.storage, "A storage of the host; default: its first")
      .needs("--host");
  command
      .option("--cache", options.cache,
              "How each node caches files; default with --host: page. With --data, a cache of real "
              "samples in place of the page cache; default: none")
      .one_of({"page", "random", "minio", "small-first"});
  command
      .option("--cache-share", options.cache_share,
              "The part of the data set's bytes that a node can cache")
      .real_range(0, 100)
      .show_default();
  command
      .option("--peers", options.peers,
              "partitioned: nodes read from each other's caches; locality: and prepare what they "
              "cache")
      .one_of({"none", "partitioned", "locality"})
      .show_default();
}

Result<HostPath> open_host(const RunOptions& options, const World& world) {
  const int nodes = options.gpu.nodes;
  if (options.gpu.batch % nodes != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "--batch {} cannot be divided among {} nodes: use a multiple", options.gpu.batch,
                nodes);
  }
  const HostOptions& host = options.host;
  const profile::ExperimentRun run{.host = host.name,
                                   .loader = host.loader,
                                   .storage = host.storage,
                                   .dataset = host.dataset,
                                   .batch = options.gpu.batch / nodes,
                                   .nodes = nodes,
                                   .workers = options.data.workers,
                                   .prefetch = options.data.prefetch_batches,
                                   .cache = host.cache.empty() ? "page" : host.cache,
                                   .cache_share = host.cache_share,
                                   .peers = host.peers,
                                   .step_ms = 1,  // The trainer's steps count.
                                   .copy_ms = 0,
                                   .seed = options.data.seed};
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  experiment::ExperimentRunner runner(
      {.hosts = world.hosts, .datasets = world.experiments / "datasets"}, database);
  GPEMU_ASSIGN(pipeline::PipelineSetup setup, runner.setup(run));
  HostPath path;
  path.files = setup.file_bytes.size();
  path.cores = setup.cpu.cores * nodes;
  path.bytes = std::accumulate(setup.file_bytes.begin(), setup.file_bytes.end(), Bytes{0});
  const std::size_t each =
      (path.files + static_cast<std::size_t>(nodes) - 1) / static_cast<std::size_t>(nodes);
  const auto batch = static_cast<std::size_t>(run.batch);
  path.batches_per_epoch = static_cast<std::int64_t>((each + batch - 1) / batch);
  path.loaders = std::make_unique<pipeline::DescribedLoaders>(std::move(setup));
  return path;
}

}  // namespace gpemu::tools
