// SPDX-License-Identifier: Apache-2.0
#include "visible_devices.hpp"

#include <algorithm>
#include <charconv>
#include <numeric>

#include <fmt/format.h>

namespace gpemu::process {
namespace {

/// Returns the index of the device that an entry names, or -1, also if several UUIDs begin with it.
int named_device(std::string_view entry, std::span<const std::string> uuids) {
  const int count = static_cast<int>(uuids.size());
  int index = -1;
  if (entry.starts_with("GPU-")) {
    for (int i = 0; i < count; ++i) {
      if (!uuids[static_cast<std::size_t>(i)].starts_with(entry)) continue;
      if (index >= 0) return -1;
      index = i;
    }
  } else {
    std::from_chars(entry.data(), entry.data() + entry.size(), index);
  }
  return index < count ? index : -1;
}

}  // namespace

std::vector<int> visible_devices(std::optional<std::string_view> selection,
                                 std::span<const std::string> uuids) {
  if (!selection) {
    std::vector<int> all(uuids.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int> visible;
  std::string_view rest = *selection;
  while (!rest.empty()) {
    std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    const int index = named_device(entry, uuids);
    if (index < 0) break;
    if (std::ranges::count(visible, index) > 0) return {};
    visible.push_back(index);
  }
  return visible;
}

std::optional<std::size_t> visible_mig_device(std::optional<std::string_view> selection,
                                              std::span<const std::string> uuids,
                                              std::span<const device::MigDevice> devices) {
  const auto find = [devices](const auto& matches) -> std::optional<std::size_t> {
    const auto found = std::ranges::find_if(devices, matches);
    if (found == devices.end()) return std::nullopt;
    return static_cast<std::size_t>(found - devices.begin());
  };
  if (!selection) return find([](const device::MigDevice&) { return true; });
  std::string_view entry = selection->substr(0, selection->find(','));
  while (entry.starts_with(' ')) entry.remove_prefix(1);
  while (entry.ends_with(' ')) entry.remove_suffix(1);
  if (!entry.starts_with("MIG-")) {
    const std::vector<int> gpus = visible_devices(entry, uuids);
    if (gpus.empty()) return std::nullopt;
    return find([&](const device::MigDevice& device) { return device.gpu == gpus.front(); });
  }
  const auto names = [&](const device::MigDevice& device) {
    const std::string older =
        fmt::format("MIG-{}/{}/{}", uuids[static_cast<std::size_t>(device.gpu)],
                    device.gpu_instance, device.compute_instance);
    return entry == older || device.uuid.starts_with(entry);
  };
  return std::ranges::count_if(devices, names) == 1 ? find(names) : std::nullopt;
}

}  // namespace gpemu::process
