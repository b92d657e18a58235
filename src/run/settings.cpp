// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/settings.hpp"

#include <fmt/ranges.h>

#include "gpemu/base/variables.hpp"

namespace gpemu::run {

Environment environment_of(const Settings& settings, const std::filesystem::path& shims,
                           const std::filesystem::path& records) {
  const std::filesystem::path common = shims / "common";
  Environment environment{
      .set = {{"LD_AUDIT", (shims / "libgpemu_audit.so").string()},
              {"GPEMU_SHIMS", shims.string()},
              {variable::kRecordDir, records.string()},
              // The library from which programs with the headers of NVTX 3 load their functions.
              {"NVTX_INJECTION64_PATH", (common / "libnvToolsExt.so.1").string()},
              // The folder in which Triton looks for the driver's library when it links.
              {"TRITON_LIBCUDA_PATH", common.string()}},
      .unset = {variable::kGpu, variable::kClock, variable::kNode, variable::kDropData,
                variable::kMemoryMib, variable::kStrict, variable::kRecordOperations,
                variable::kContextMib, variable::kGpuFiles, variable::kRealRanks,
                "GPEMU_CLOCK_PAGE"},
      .paths = {variable::kNodeDir, variable::kProfiles},
      .programs = (shims / "bin").string()};
  const auto set = [&environment](const char* name, std::string value) {
    environment.set.emplace_back(name, std::move(value));
  };
  if (!settings.node.empty()) set(variable::kNode, settings.node);
  if (!settings.clock_page.empty()) {
    set("GPEMU_CLOCK_PAGE", settings.clock_page);
    set("LD_PRELOAD", (shims / "libgpemu_clock.so").string() +
                          (settings.preloaded.empty() ? "" : ":" + settings.preloaded));
  }
  if (!settings.gpu.empty()) {
    set(variable::kGpu, settings.gpu);
    set(variable::kClock, "virtual");
  }
  std::vector<std::string> files;
  files.reserve(settings.gpu_files.size());
  for (const std::filesystem::path& file : settings.gpu_files) files.push_back(file.string());
  if (!files.empty()) set(variable::kGpuFiles, fmt::format("{}", fmt::join(files, ":")));
  if (settings.context_mib) set(variable::kContextMib, std::to_string(*settings.context_mib));
  if (settings.memory > 0) set(variable::kMemoryMib, std::to_string(settings.memory / kMiB));
  if (settings.real_ranks > 0) set(variable::kRealRanks, std::to_string(settings.real_ranks));
  if (settings.batch > 0) set("GPEMU_BATCH", std::to_string(settings.batch));
  if (settings.drop_data) set(variable::kDropData, "1");
  if (settings.strict) set(variable::kStrict, "1");
  if (settings.record_operations) set(variable::kRecordOperations, "1");
  return environment;
}

}  // namespace gpemu::run
