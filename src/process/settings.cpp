// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/settings.hpp"

#include <charconv>
#include <cstdint>
#include <ranges>
#include <string_view>
#include <utility>

#include "gpemu/base/variables.hpp"
#include "gpemu/mps/pipe.hpp"

namespace gpemu::process {
namespace {

/// Returns a variable's value. An empty variable counts as unset.
std::string value_of(const Lookup& lookup, const char* name) {
  const char* const value = lookup(name);
  return value == nullptr ? "" : value;
}

/// Returns a size in MiB, or none.
Result<std::optional<Bytes>> size_of(const Lookup& lookup, const char* name) {
  const std::string text = value_of(lookup, name);
  if (text.empty()) return std::nullopt;
  std::uint32_t mib = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
  if (error != std::errc() || end != text.data() + text.size() || mib == 0) {
    return fail(ErrorCode::kInvalidArgument, "{} is \"{}\", not a number of MiB", name, text);
  }
  return mib * kMiB;
}

/// Returns a number of ranks that a launcher or gpemu gives, or none if there is no such variable.
/// Errors: kInvalidArgument for a number below `least`.
Result<std::optional<int>> count_of(const Lookup& lookup, const char* name, int least) {
  const std::string text = value_of(lookup, name);
  if (text.empty()) return std::nullopt;
  int count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < least) {
    return fail(ErrorCode::kInvalidArgument, "{} is \"{}\", not a number from {} on", name, text,
                least);
  }
  return count;
}

/// Returns the job, if some of its ranks are phantoms. Source of the launcher's variables:
/// PyTorch's documentation of torchrun, "Environment Variables".
Result<std::optional<Job>> job_of(const Lookup& lookup) {
  GPEMU_ASSIGN(const std::optional<int> real, count_of(lookup, variable::kRealRanks, 1));
  if (!real) return std::nullopt;
  GPEMU_ASSIGN(const std::optional<int> rank, count_of(lookup, variable::kRank, 0));
  GPEMU_ASSIGN(const std::optional<int> ranks, count_of(lookup, "WORLD_SIZE", 1));
  GPEMU_ASSIGN(const std::optional<int> per_host, count_of(lookup, "LOCAL_WORLD_SIZE", 1));
  if (!rank || !ranks || *ranks <= *real) return std::nullopt;
  return Job{.ranks = *ranks,
             .rank = *rank,
             .ranks_per_host = per_host.value_or(*ranks),
             .real_ranks = *real};
}

MpsSettings mps_of(const Lookup& lookup) {
  const auto text_of = [&lookup](const char* name) -> std::optional<std::string> {
    const std::string text = value_of(lookup, name);
    return text.empty() ? std::nullopt : std::optional(text);
  };
  return {.pipe = mps::pipe_directory(lookup),
          .percentage = text_of("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
          .memory_limits = text_of("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"),
          .priority = text_of("CUDA_MPS_CLIENT_PRIORITY")};
}

}  // namespace

RecordSettings read_record_settings(const Lookup& lookup) {
  return {.folder = value_of(lookup, variable::kRecordDir),
          .operations = !value_of(lookup, variable::kRecordOperations).empty(),
          .strict = value_of(lookup, variable::kStrict) == "1"};
}

Result<Settings> read_settings(const Lookup& lookup) {
  Settings settings{.node = value_of(lookup, variable::kNode),
                    .devices = value_of(lookup, variable::kDevices),
                    .gpu = value_of(lookup, variable::kGpu),
                    .virtual_clock = value_of(lookup, variable::kClock) == "virtual",
                    // Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
                    .launches_block = value_of(lookup, "CUDA_LAUNCH_BLOCKING") == "1",
                    .drop_data = !value_of(lookup, variable::kDropData).empty(),
                    .mps = mps_of(lookup),
                    .record = read_record_settings(lookup)};
  GPEMU_ASSIGN(settings.memory, size_of(lookup, variable::kMemoryMib));
  GPEMU_ASSIGN(settings.context_bytes, size_of(lookup, variable::kContextMib));
  GPEMU_ASSIGN(settings.priority, device::process_priority(lookup));
  GPEMU_ASSIGN(settings.memory_limits, device::MemoryLimits::read(lookup));
  GPEMU_ASSIGN(settings.compute_shares, device::ComputeShares::read(lookup));
  if (const std::string text = value_of(lookup, variable::kNetwork); !text.empty()) {
    auto network = topology::parse_network(text);
    if (!network) {
      return fail(network.error().code, "{}: {}", variable::kNetwork, network.error().message);
    }
    settings.network = *network;
  }
  GPEMU_ASSIGN(settings.job, job_of(lookup));
  const std::string files = value_of(lookup, variable::kGpuFiles);
  for (const auto file : std::views::split(std::string_view(files), ':')) {
    if (!file.empty()) settings.gpu_files.emplace_back(file.begin(), file.end());
  }
  // Unlike the others, this one means something when it is empty: no device.
  if (const char* const devices = lookup("CUDA_VISIBLE_DEVICES"); devices != nullptr) {
    settings.visible_devices = devices;
  }
  return settings;
}

}  // namespace gpemu::process
