// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/gpu_metrics.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "gpemu/device/monitor.hpp"

namespace gpemu::tools {
namespace {

using containers::GpuUse;
using containers::TenantUse;
using prometheus::MetricType;

constexpr double kPercent = 100;
constexpr double kMillijoules = 1e3;

/// A GPU as one of its containers sees it: `tenant` is null if the container has the GPU alone.
struct GpuPart {
  const GpuUse& gpu;
  const TenantUse* tenant = nullptr;
  DoneBefore before;

  [[nodiscard]] double compute() const {
    return tenant != nullptr ? tenant->compute : gpu.load.compute;
  }
  [[nodiscard]] double busy_s() const {
    return to_seconds((tenant != nullptr ? tenant->busy : gpu.busy) - before.busy);
  }
  [[nodiscard]] Bytes memory() const {
    return tenant != nullptr ? tenant->memory_held : gpu.now.memory_used;
  }
};

struct Metric {
  const char* name;
  const char* help;
  MetricType type;
  double (*value)(const GpuPart& part);
};

double mebibytes(Bytes bytes) {
  return std::round(static_cast<double>(bytes) / static_cast<double>(kMiB));
}

/// Names and units of the first ones are those of DCGM's fields. Source: DCGM's API reference,
/// "Field Identifiers", and the metrics that its exporter has by default. Fields of errors of
/// memory, remapped rows and the memory's temperature are left out: emulated GPUs have none.
constexpr std::array kMetrics = {
    Metric{"DCGM_FI_DEV_SM_CLOCK", "Clock of the multiprocessors (in MHz).", MetricType::Gauge,
           [](const GpuPart& part) { return std::round(part.gpu.load.sm_clock_mhz); }},
    Metric{"DCGM_FI_DEV_MEM_CLOCK", "Clock of the memory (in MHz).", MetricType::Gauge,
           [](const GpuPart& part) { return part.gpu.now.facts.memory_clock_mhz; }},
    Metric{"DCGM_FI_DEV_GPU_TEMP", "Temperature of the GPU (in C).", MetricType::Gauge,
           [](const GpuPart& part) { return std::round(part.gpu.load.temperature_c); }},
    Metric{"DCGM_FI_DEV_POWER_USAGE", "Power (in W).", MetricType::Gauge,
           [](const GpuPart& part) { return part.gpu.load.power_w; }},
    Metric{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Energy since the host started (in mJ).",
           MetricType::Counter,
           [](const GpuPart& part) { return std::round(kMillijoules * part.gpu.energy_j); }},
    Metric{"DCGM_FI_DEV_GPU_UTIL", "Part of the time for which kernels ran (in %).",
           MetricType::Gauge,
           [](const GpuPart& part) { return std::round(kPercent * part.compute()); }},
    Metric{"DCGM_FI_DEV_MEM_COPY_UTIL", "Part of the time for which copies ran (in %).",
           MetricType::Gauge,
           [](const GpuPart& part) {
             const device::DeviceLoad& load = part.gpu.load;
             return std::round(kPercent * std::max(load.copy_h2d, load.copy_d2h));
           }},
    Metric{"DCGM_FI_DEV_ENC_UTIL", "Use of the video encoder (in %).", MetricType::Gauge,
           [](const GpuPart& /*part*/) { return 0.0; }},
    Metric{"DCGM_FI_DEV_DEC_UTIL", "Use of the video decoder (in %).", MetricType::Gauge,
           [](const GpuPart& /*part*/) { return 0.0; }},
    Metric{"DCGM_FI_DEV_XID_ERRORS", "Number of the last Xid error; 0: none.", MetricType::Gauge,
           [](const GpuPart& part) { return static_cast<double>(part.gpu.xid); }},
    Metric{"DCGM_FI_DEV_FB_FREE", "Free memory (in MiB).", MetricType::Gauge,
           [](const GpuPart& part) {
             return mebibytes(part.gpu.now.memory_total - part.gpu.now.memory_used);
           }},
    Metric{"DCGM_FI_DEV_FB_USED", "Used memory (in MiB).", MetricType::Gauge,
           [](const GpuPart& part) { return mebibytes(part.memory()); }},
    Metric{"DCGM_FI_DEV_FB_RESERVED", "Memory that the driver keeps (in MiB).", MetricType::Gauge,
           [](const GpuPart& part) { return mebibytes(part.gpu.now.facts.reserved_memory_bytes); }},
    Metric{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "Part of the time for which kernels ran, 0 to 1.",
           MetricType::Gauge, [](const GpuPart& part) { return part.compute(); }},
    Metric{"DCGM_FI_PROF_PCIE_TX_BYTES", "What the GPU sends over PCIe (in bytes per second).",
           MetricType::Gauge, [](const GpuPart& part) { return part.gpu.load.d2h_bytes_per_s; }},
    Metric{"DCGM_FI_PROF_PCIE_RX_BYTES", "What the GPU receives over PCIe (in bytes per second).",
           MetricType::Gauge, [](const GpuPart& part) { return part.gpu.load.h2d_bytes_per_s; }},
    Metric{"gpemu_gpu_busy_seconds_total", "Time for which kernels ran.", MetricType::Counter,
           [](const GpuPart& part) { return part.busy_s(); }},
    Metric{"gpemu_gpu_received_bytes_total", "What the GPU received over PCIe.",
           MetricType::Counter,
           [](const GpuPart& part) {
             return static_cast<double>(part.gpu.received - part.before.received);
           }},
    Metric{
        "gpemu_gpu_sent_bytes_total", "What the GPU sent over PCIe.", MetricType::Counter,
        [](const GpuPart& part) { return static_cast<double>(part.gpu.sent - part.before.sent); }},
    Metric{"gpemu_gpu_nvlink_bytes_total", "What went over the GPU's NVLinks.", MetricType::Counter,
           [](const GpuPart& part) {
             return static_cast<double>(part.gpu.over_nvlinks - part.before.over_nvlinks);
           }},
};

using Labels = std::vector<prometheus::ClientMetric::Label>;

/// A series of each metric.
struct Series {
  GpuPart part;
  Labels labels;
};

Labels labels_of(std::size_t number, const GpuUse& gpu, const std::string& host) {
  return {{.name = "gpu", .value = std::to_string(number)},
          {.name = "UUID", .value = gpu.now.uuid},
          {.name = "pci_bus_id", .value = gpu.now.pci_bus_id},
          {.name = "device", .value = fmt::format("nvidia{}", number)},
          {.name = "modelName", .value = gpu.now.facts.product_name},
          {.name = "Hostname", .value = host},
          {.name = "DCGM_FI_DRIVER_VERSION", .value = device::kDriverVersion}};
}

void add_series(std::size_t number, const GpuUse& gpu, const GpuHolders& holders,
                const std::string& host, std::vector<Series>& series) {
  const auto [begin, end] = holders.equal_range(number);
  const bool is_shared = std::distance(begin, end) > 1;
  bool has_any = false;
  for (auto holder = begin; holder != end; ++holder) {
    const GpuHolder& its = holder->second;
    const auto tenant = gpu.tenants.find(its.tenant);
    // Nobody knows which part of a shared GPU is whose.
    if (is_shared && its.tenant == 0) continue;
    static const TenantUse kNothing;
    const bool is_part = its.tenant != 0;
    const TenantUse* const use =
        !is_part ? nullptr : (tenant != gpu.tenants.end() ? &tenant->second : &kNothing);
    Labels labels = labels_of(number, gpu, host);
    if (is_part) labels.push_back({.name = "vgpu", .value = std::to_string(its.tenant - 1)});
    labels.push_back({.name = "container", .value = its.container});
    labels.push_back({.name = "namespace", .value = its.name_space});
    labels.push_back({.name = "pod", .value = its.pod});
    series.push_back(
        {.part = {.gpu = gpu, .tenant = use, .before = its.before}, .labels = std::move(labels)});
    has_any = true;
  }
  if (!has_any)
    series.push_back({.part = {.gpu = gpu, .before = {}}, .labels = labels_of(number, gpu, host)});
}

/// Returns what a GPU has done for all, or for one of those that share it.
DoneBefore done_by(const GpuUse& gpu, int tenant) {
  DoneBefore done{.busy = gpu.busy,
                  .received = gpu.received,
                  .sent = gpu.sent,
                  .over_nvlinks = gpu.over_nvlinks};
  if (tenant == 0) return done;
  const auto its = gpu.tenants.find(tenant);
  done.busy = its == gpu.tenants.end() ? Duration() : its->second.busy;
  return done;
}

}  // namespace

void HolderSums::look(std::span<const GpuUse> gpus, GpuHolders& holders) {
  std::map<Key, DoneBefore> known;
  for (auto& [number, holder] : holders) {
    const Key key(number, holder.tenant, holder.name_space, holder.pod, holder.container);
    if (const auto found = known_.find(key); found != known_.end()) {
      holder.before = found->second;
    } else if (number < last_.size()) {
      holder.before = done_by(last_[number], holder.tenant);
    }
    known[key] = holder.before;
  }
  known_ = std::move(known);
  last_.assign(gpus.begin(), gpus.end());
}

std::vector<prometheus::MetricFamily> gpu_metrics(std::span<const GpuUse> gpus,
                                                  const GpuHolders& holders,
                                                  const std::string& host) {
  std::vector<Series> series;
  for (std::size_t number = 0; number < gpus.size(); ++number) {
    if (!gpus[number].is_divided) add_series(number, gpus[number], holders, host, series);
  }
  std::vector<prometheus::MetricFamily> families;
  for (const Metric& metric : kMetrics) {
    auto& family = families.emplace_back();
    family.name = metric.name;
    family.help = metric.help;
    family.type = metric.type;
    for (const Series& one : series) {
      auto& added = family.metric.emplace_back();
      added.label = one.labels;
      const double value = metric.value(one.part);
      (metric.type == MetricType::Counter ? added.counter.value : added.gauge.value) = value;
    }
  }
  return families;
}

}  // namespace gpemu::tools
