// SPDX-License-Identifier: Apache-2.0
#include "gpemu/experiment/run_result.hpp"

#include <algorithm>
#include <array>

namespace gpemu::experiment {
namespace {

using pipeline::EpochResult;

struct EpochQuantity {
  std::string_view name;
  std::string_view meaning;
  double (*of)(const EpochResult& result);
};

double files_of(const EpochResult& result) {
  return static_cast<double>(result.cache_reads + result.peer_reads + result.storage_reads);
}

constexpr auto kEpochQuantities = std::to_array<EpochQuantity>({
    {"epoch_s", "the epoch's time", [](const EpochResult& r) { return r.epoch_s; }},
    {"wait_s", "of it, waiting for batches", [](const EpochResult& r) { return r.wait_s; }},
    {"first_wait_s", "of that, for the first batch",
     [](const EpochResult& r) { return r.first_wait_s; }},
    {"copy_s", "copies to the GPUs", [](const EpochResult& r) { return r.copy_s; }},
    {"step_s", "the GPUs' steps", [](const EpochResult& r) { return r.step_s; }},
    {"others_s", "waiting for other nodes", [](const EpochResult& r) { return r.others_s; }},
    {"images_per_s", "images of all nodes per second",
     [](const EpochResult& r) { return static_cast<double>(r.samples) / r.epoch_s; }},
    {"stall_percent", "the share of wait_s in epoch_s",
     [](const EpochResult& r) { return 100 * r.wait_s / r.epoch_s; }},
    {"cache_percent", "files from the node's own cache, or prepared here by threads",
     [](const EpochResult& r) { return 100 * static_cast<double>(r.cache_reads) / files_of(r); }},
    {"peer_percent", "files from the caches of other nodes, or prepared there",
     [](const EpochResult& r) { return 100 * static_cast<double>(r.peer_reads) / files_of(r); }},
    {"storage_percent", "files from storage",
     [](const EpochResult& r) { return 100 * static_cast<double>(r.storage_reads) / files_of(r); }},
    {"storage_gb", "bytes from storage, in GB",
     [](const EpochResult& r) { return static_cast<double>(r.storage_bytes) * 1e-9; }},
    {"storage_mb_per_s", "the rate of storage, in MB/s",
     [](const EpochResult& r) { return static_cast<double>(r.storage_bytes) * 1e-6 / r.epoch_s; }},
});

}  // namespace

std::vector<Quantity> epoch_quantities() {
  std::vector<Quantity> all;
  for (const EpochQuantity& quantity : kEpochQuantities) {
    all.push_back({.name = quantity.name, .meaning = quantity.meaning});
  }
  return all;
}

RunResult::RunResult(const EpochResult& epoch) {
  for (const EpochQuantity& quantity : kEpochQuantities) {
    values_.emplace_back(quantity.name, quantity.of(epoch));
  }
}

std::optional<double> RunResult::value(std::string_view name) const {
  const auto found = std::ranges::find(values_, name, &Values::value_type::first);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

}  // namespace gpemu::experiment
