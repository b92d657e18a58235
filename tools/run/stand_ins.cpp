// SPDX-License-Identifier: Apache-2.0
#include "run/stand_ins.hpp"

#include <cstdlib>
#include <system_error>

namespace gpemu::tools {
namespace {

/// Finds the folder of the stand-ins beside the command: in a build tree, or installed.
Result<std::filesystem::path> find_shims() {
  std::error_code error;
  const auto command = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path root = command.parent_path().parent_path();
  for (const auto& folder : {root / "shims", root / GPEMU_INSTALL_LIBDIR / "gpemu" / "shims"}) {
    if (std::filesystem::exists(folder / "libgpemu_audit.so", error)) return folder;
  }
  return fail(ErrorCode::kNotFound,
              "no stand-ins for NVIDIA's libraries beside {}: install gpemu, "
              "or build all of it",
              command.string());
}

}  // namespace

Result<Environment> stand_in_environment(const std::filesystem::path& records) {
  GPEMU_ASSIGN(const auto shims, find_shims());
  for (const char* const name :
       {"GPEMU_GPU", "GPEMU_CLOCK", "GPEMU_NODE", "GPEMU_DROP_DATA", "GPEMU_MEMORY_MIB",
        "GPEMU_STRICT", "GPEMU_RECORD_OPERATIONS", "GPEMU_CONTEXT_MIB", "GPEMU_GPU_FILES"}) {
    ::unsetenv(name);
  }
  Environment environment = {
      {"LD_AUDIT", (shims / "libgpemu_audit.so").string()},
      {"GPEMU_SHIMS", shims.string()},
      {"GPEMU_RECORD_DIR", records.string()},
      // What programs with the headers of NVTX 3 load their functions from.
      {"NVTX_INJECTION64_PATH", (shims / "common" / "libnvToolsExt.so.1").string()},
      // Where Triton looks for the driver's library when it links.
      {"TRITON_LIBCUDA_PATH", (shims / "common").string()}};
  // The program may have another folder than the command, which these are relative to.
  for (const char* const name : {"GPEMU_NODE_DIR", "GPEMU_PROFILES"}) {
    const char* const path = std::getenv(name);
    if (path == nullptr || *path == '\0') continue;
    std::error_code error;
    environment.emplace_back(name, std::filesystem::absolute(path, error).string());
  }
  return environment;
}

}  // namespace gpemu::tools
