// SPDX-License-Identifier: Apache-2.0
#include "cli/device_list.hpp"

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "gpemu/device/device_config.hpp"
#include "gpemu/profile/fault_plan.hpp"

namespace gpemu::tools {

Result<std::pair<std::string, int>> read_counted(std::string_view option, const std::string& text,
                                                 int most) {
  const std::size_t colon = text.rfind(':');
  int count = 1;
  if (colon != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, count);
    if (error != std::errc() || stop != end || count < 1 || count > most) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} {}: write NAME or NAME:COUNT with a count of 1 to {}", option, text, most);
    }
  }
  return std::pair(text.substr(0, colon), count);
}

Result<std::vector<device::DeviceConfig>> read_device_list(const profile::Database& database,
                                                           const std::vector<std::string>& texts) {
  constexpr int kMostGpus = 4096;
  std::vector<device::DeviceConfig> devices;
  for (const std::string& text : texts) {
    GPEMU_ASSIGN(const auto counted, read_counted("--gpu", text, kMostGpus));
    GPEMU_ASSIGN(const profile::GpuSpec spec, database.gpu(counted.first));
    devices.insert(devices.end(), static_cast<std::size_t>(counted.second),
                   device::device_config(spec));
  }
  return devices;
}

Result<std::string> faults_of(const std::string& path, std::size_t gpus) {
  if (path.empty()) return "";
  GPEMU_ASSIGN(profile::FaultPlan plan, profile::load_fault_plan(path, gpus));
  return std::move(plan.toml);
}

std::vector<std::string> gpus_of(const profile::TopologySpec& machine) {
  return {fmt::format("{}:{}", machine.gpu, machine.gpus.size())};
}

}  // namespace gpemu::tools
