// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/memory_limits.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "number_text.hpp"

namespace gpemu::device {
namespace {

/// Reads a size as HAMi writes it, e.g. 1g, 1024m, 1048576k or 1073741824. Source: HAMi-core's
/// README. 0 is no limit, as there.
Result<std::optional<Bytes>> read_size(const Lookup& lookup, const std::string& name) {
  const std::string_view text = text_of(lookup, name.c_str());
  if (text.empty()) return std::nullopt;
  std::string_view rest = text;
  std::uint64_t number = 0;
  const bool is_number = take_number(rest, number);
  Bytes unit = 0;
  if (rest.empty()) unit = 1;
  if (rest == "k" || rest == "K") unit = kKiB;
  if (rest == "m" || rest == "M") unit = kMiB;
  if (rest == "g" || rest == "G") unit = kGiB;
  Bytes bytes = 0;
  if (!is_number || unit == 0 || __builtin_mul_overflow(number, unit, &bytes)) {
    return fail(ErrorCode::kInvalidArgument,
                "{} is \"{}\", not a size: give a whole number of bytes, or one with k, m or g, "
                "e.g. 3000m",
                name, text);
  }
  if (bytes == 0) return std::nullopt;
  return bytes;
}

void take_less(std::optional<Bytes>& least, std::optional<Bytes> other) {
  if (other) least = least ? std::min(*least, *other) : *other;
}

}  // namespace

Result<MemoryLimits> MemoryLimits::read(const Lookup& lookup) {
  MemoryLimits limits;
  GPEMU_ASSIGN(const double fraction, read_fraction(lookup, variable::kGpuFraction, 1));
  if (fraction < 1) limits.fraction_ = fraction;
  constexpr const char* kMemoryLimit = "CUDA_DEVICE_MEMORY_LIMIT";
  GPEMU_ASSIGN(limits.of_all_, read_size(lookup, kMemoryLimit));
  for (int i = 0; i < kMostNumberedDevices; ++i) {
    GPEMU_ASSIGN(limits.of_device_.emplace_back(),
                 read_size(lookup, fmt::format("{}_{}", kMemoryLimit, i)));
  }
  return limits;
}

std::optional<Bytes> MemoryLimits::limit(int index, Bytes total) const {
  const bool has_own = index >= 0 && static_cast<std::size_t>(index) < of_device_.size() &&
                       of_device_[static_cast<std::size_t>(index)].has_value();
  // Source: HAMi-core, src/multiprocess/multiprocess_memory_limit.c: a device's own variable counts
  // instead of the other one.
  std::optional<Bytes> least = has_own ? of_device_[static_cast<std::size_t>(index)] : of_all_;
  if (fraction_) take_less(least, static_cast<Bytes>(static_cast<double>(total) * *fraction_));
  if (least && *least >= total) return std::nullopt;
  return least;
}

void MemoryLimits::apply(int index, DeviceSnapshot& device) const {
  std::erase_if(device.processes,
                [](const ProcessSnapshot& process) { return process.foreign_namespace != 0; });
  const std::optional<Bytes> most = limit(index, device.memory_total);
  if (!most) return;
  device.memory_total = *most;
  device.facts.reserved_memory_bytes = 0;
  device.memory_used = 0;
  // Each is at most the device's.
  for (const ProcessSnapshot& process : device.processes) {
    device.memory_used = std::min(*most, device.memory_used + process.memory_held);
  }
}

}  // namespace gpemu::device
