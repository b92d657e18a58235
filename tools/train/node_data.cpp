// SPDX-License-Identifier: Apache-2.0
#include "train/node_data.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/report/host_facts.hpp"
#include "gpemu/report/number_text.hpp"

namespace gpemu::tools {
namespace {

using namespace std::chrono_literals;

/// The environment of `gpemu cluster run` in place of a number and an address.
constexpr std::string_view kCluster = "cluster";

Result<peers::GroupPlace> place_of(const std::string& join, const World& world) {
  if (join.empty()) return peers::GroupPlace{};
  if (join != kCluster) return peers::parse_group_place(join);
  const auto word = [&world](const char* name) { return world.variable(name).value_or(""); };
  if (word("GPEMU_HOSTS").empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "--join cluster is for programs that `gpemu cluster run` starts: elsewhere, write "
                "--join RANK/NODES@HOST:PORT");
  }
  return peers::parse_group_place(fmt::format("{}/{}@{}:{}", word("GPEMU_HOST_RANK"),
                                              word("GPEMU_HOSTS"), word("MASTER_ADDR"),
                                              word("MASTER_PORT")));
}

template <std::size_t N>
std::size_t index_in(const std::array<std::string_view, N>& names, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
}

/// Returns a number that depends on all samples, so that nodes notice if theirs differ. Source:
/// FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/.
std::uint64_t fingerprint(const data::Dataset& dataset) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const data::Sample& sample : dataset.samples()) {
    for (const std::uint64_t value :
         {std::uint64_t{sample.bytes}, static_cast<std::uint64_t>(sample.label)}) {
      hash = (hash ^ value) * 0x100000001b3;
    }
  }
  return hash;
}

std::string settings_of(const RunOptions& options, const data::Dataset& dataset) {
  return fmt::format(
      "{} samples ({:x}), --batch {}, --seed {}, --epochs {}, --steps {}, --peers {}",
      dataset.samples().size(), fingerprint(dataset), options.gpu.batch, options.data.seed,
      options.epochs, options.steps ? fmt::to_string(*options.steps) : "all", options.host.peers);
}

std::vector<std::uint32_t> sizes_of(const data::Dataset& dataset) {
  std::vector<std::uint32_t> sizes(dataset.samples().size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i] = static_cast<std::uint32_t>(
        std::min<Bytes>(dataset.extent(i).bytes, std::numeric_limits<std::uint32_t>::max()));
  }
  return sizes;
}

Bytes capacity_of(const RunOptions& options, const data::Dataset& dataset) {
  const Bytes all = dataset.total_bytes();
  if (!options.data.cache_share) return std::min(all, report::host_facts().memory);
  return static_cast<Bytes>(*options.data.cache_share * static_cast<double>(all));
}

std::unique_ptr<peers::SharedCache> make_cache_of(const RunOptions& options,
                                                  const data::Dataset& dataset,
                                                  data::StorageDevice* storage, int rank) {
  return std::make_unique<peers::SharedCache>(
      peers::SharedCache::Options{.policy = static_cast<pipeline::CachePolicy>(
                                      index_in(pipeline::kCachePolicyNames, options.data.cache)),
                                  .capacity = capacity_of(options, dataset),
                                  .seed = options.data.seed,
                                  .rank = rank},
      sizes_of(dataset), [&dataset, storage](std::uint32_t sample) {
        return data::read_sample(dataset, sample, storage);
      });
}

/// Joins the nodes and lets their caches work together.
Result<void> join_nodes(const RunOptions& options, const peers::GroupPlace& place,
                        const data::Dataset& dataset, const World& world,
                        const std::atomic<bool>& stop, NodeData& nodes) {
  peers::SharedCache* cache = nodes.cache.get();
  peers::NodeGroup::Cached cached{
      .all = [cache] { return cache != nullptr ? cache->cached() : std::vector<std::uint32_t>{}; },
      .find =
          [cache](std::uint32_t sample) {
            return cache != nullptr ? cache->find(sample) : data::SampleBytes{};
          }};
  GPEMU_ASSIGN(nodes.group, peers::NodeGroup::join({.place = place,
                                                    .settings = settings_of(options, dataset),
                                                    .patience = options.data.patience.time()},
                                                   std::move(cached), world.clock, stop));
  if (nodes.peers == pipeline::Peers::kNone) return {};
  cache->share([group = nodes.group.get(), &dataset](int node, std::uint32_t sample) {
    return group->fetch(node, sample, dataset.extent(sample).bytes);
  });
  return {};
}

}  // namespace

void add_log_option(Command command, JoinOptions& options) {
  command.option("--log-samples", options.log,
                 "Write to this file which samples were prepared, and which steps were done, as "
                 "lines of JSON");
}

Result<train::SampleLog> open_sample_log(const std::filesystem::path& path) {
  if (path.empty()) return train::SampleLog();
  const auto file = std::make_shared<FileDescriptor>(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644));
  const auto cannot_write = [path] {
    return fail(ErrorCode::kIo, "cannot write {}: {}", printable(path.string()),
                errno_message(errno));
  };
  if (!file->valid()) return cannot_write();
  return [file, cannot_write](std::string_view line) -> Result<void> {
    std::string text(line);
    text += '\n';
    if (::write(file->get(), text.data(), text.size()) == std::ssize(text)) return {};
    return cannot_write();
  };
}

bool uses_nodes(const RunOptions& options) {
  return has_own_cache(options.data) || options.host.peers != "none" ||
         !options.join.place.empty() || !options.join.log.empty();
}

Result<DataPath> open_node_data(const RunOptions& options, const profile::ModelInfo& model,
                                const World& world, const std::atomic<bool>& stop,
                                NodeData& nodes) {
  nodes.peers = static_cast<pipeline::Peers>(index_in(pipeline::kPeersNames, options.host.peers));
  if (nodes.peers != pipeline::Peers::kNone &&
      (!has_own_cache(options.data) || options.join.place.empty())) {
    return fail(ErrorCode::kInvalidArgument, "--peers {} needs --cache, e.g. minio, and --join",
                options.host.peers);
  }
  GPEMU_ASSIGN(const peers::GroupPlace place, place_of(options.join.place, world));
  GPEMU_ASSIGN(nodes.log, open_sample_log(options.join.log));
  LoaderHooks hooks;
  if (has_own_cache(options.data)) {
    hooks.page_cache = data::PageCache::kIgnored;
    hooks.source = [&](const data::Dataset& dataset, data::StorageDevice* storage) {
      nodes.cache = make_cache_of(options, dataset, storage, place.rank);
      return nodes.cache.get();
    };
  }
  GPEMU_ASSIGN(DataPath path, open_data(options.data, options.gpu, model, world, stop, &hooks));
  GPEMU_TRY(join_nodes(options, place, *path.dataset, world, stop, nodes));
  return path;
}

std::unique_ptr<train::NodesSource> make_nodes_source(const RunOptions& options,
                                                      const DataPath& path, const NodeData& nodes) {
  train::NodesSource::Options source{
      .epochs = options.epochs,
      .max_steps = options.steps,
      .batch = options.gpu.batch,
      .seed = options.data.seed,
      .by_locality = nodes.peers == pipeline::Peers::kLocality,
      .log = nodes.log,
  };
  return std::make_unique<train::NodesSource>(*path.loader, *path.dataset, nodes.cache.get(),
                                              *nodes.group, std::move(source));
}

NodeFacts facts_of(const RunOptions& options, const NodeData& nodes,
                   const train::NodesSource& source) {
  const auto all = static_cast<std::size_t>(nodes.group->nodes());
  return {.rank = nodes.group->rank(),
          .nodes = nodes.group->nodes(),
          .left = all - nodes.group->members().size(),
          .cache = nodes.cache ? options.data.cache : "",
          .capacity = nodes.cache ? nodes.cache->capacity() : 0,
          .epochs = source.epochs()};
}

std::string nodes_text(const NodeFacts& facts) {
  std::string text;
  if (facts.nodes > 1) {
    text += fmt::format("node        {} of {}{}\n", facts.rank, facts.nodes,
                        facts.left > 0 ? fmt::format("; {} left before the end", facts.left) : "");
  }
  if (facts.cache.empty() || facts.epochs.empty()) return text;
  const peers::SharedCache::Reads& reads = facts.epochs.back().reads;
  const std::uint64_t all = reads.here + reads.peers + reads.storage;
  const auto percent = [all](std::uint64_t part) {
    return all > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(all) : 0.0;
  };
  text += fmt::format("cache       {}, {:.1f} MiB; in the last epoch {:.1f} % of the reads hit it",
                      facts.cache, to_mib(facts.capacity), percent(reads.here));
  if (facts.nodes > 1) text += fmt::format(", {:.1f} % those of other nodes", percent(reads.peers));
  return text + "\n";
}

nlohmann::ordered_json nodes_json(const NodeFacts& facts) {
  nlohmann::ordered_json epochs = nlohmann::ordered_json::array();
  for (const train::NodesSource::Epoch& epoch : facts.epochs) {
    epochs.push_back({{"samples", epoch.samples},
                      {"cache_reads", epoch.reads.here},
                      {"peer_reads", epoch.reads.peers},
                      {"storage_reads", epoch.reads.storage}});
  }
  return {{"rank", facts.rank},
          {"nodes", facts.nodes},
          {"left", facts.left},
          {"capacity_bytes", facts.capacity},
          {"epochs", epochs}};
}

}  // namespace gpemu::tools
