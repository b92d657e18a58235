// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/settings.hpp"

#include <fmt/ranges.h>

namespace gpemu::run {

Environment environment_of(const Settings& settings, const std::filesystem::path& shims,
                           const std::filesystem::path& records) {
  const std::filesystem::path common = shims / "common";
  Environment environment{
      .set = {{"LD_AUDIT", (shims / "libgpemu_audit.so").string()},
              {"GPEMU_SHIMS", shims.string()},
              {"GPEMU_RECORD_DIR", records.string()},
              // The library from which programs with the headers of NVTX 3 load their functions.
              {"NVTX_INJECTION64_PATH", (common / "libnvToolsExt.so.1").string()},
              // The folder in which Triton looks for the driver's library when it links.
              {"TRITON_LIBCUDA_PATH", common.string()}},
      .unset = {"GPEMU_GPU", "GPEMU_CLOCK", "GPEMU_NODE", "GPEMU_DROP_DATA", "GPEMU_MEMORY_MIB",
                "GPEMU_STRICT", "GPEMU_RECORD_OPERATIONS", "GPEMU_CONTEXT_MIB", "GPEMU_GPU_FILES",
                "GPEMU_CLOCK_PAGE"},
      .paths = {"GPEMU_NODE_DIR", "GPEMU_PROFILES"}};
  const auto set = [&environment](const char* name, std::string value) {
    environment.set.emplace_back(name, std::move(value));
  };
  if (!settings.node.empty()) set("GPEMU_NODE", settings.node);
  if (!settings.clock_page.empty()) {
    set("GPEMU_CLOCK_PAGE", settings.clock_page);
    set("LD_PRELOAD", (shims / "libgpemu_clock.so").string() +
                          (settings.preloaded.empty() ? "" : ":" + settings.preloaded));
  }
  if (!settings.gpu.empty()) {
    set("GPEMU_GPU", settings.gpu);
    set("GPEMU_CLOCK", "virtual");
  }
  std::vector<std::string> files;
  files.reserve(settings.gpu_files.size());
  for (const std::filesystem::path& file : settings.gpu_files) files.push_back(file.string());
  if (!files.empty()) set("GPEMU_GPU_FILES", fmt::format("{}", fmt::join(files, ":")));
  if (settings.context_mib) set("GPEMU_CONTEXT_MIB", std::to_string(*settings.context_mib));
  if (settings.memory > 0) set("GPEMU_MEMORY_MIB", std::to_string(settings.memory / kMiB));
  if (settings.batch > 0) set("GPEMU_BATCH", std::to_string(settings.batch));
  if (settings.drop_data) set("GPEMU_DROP_DATA", "1");
  if (settings.strict) set("GPEMU_STRICT", "1");
  if (settings.record_operations) set("GPEMU_RECORD_OPERATIONS", "1");
  return environment;
}

}  // namespace gpemu::run
