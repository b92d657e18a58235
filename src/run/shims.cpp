// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/shims.hpp"

namespace gpemu::run {

Result<std::filesystem::path> find_shims() {
  std::error_code error;
  const auto command = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path root = command.parent_path().parent_path();
  for (const auto& folder : {root / "shims", root / GPEMU_INSTALL_LIBDIR / "gpemu" / "shims"}) {
    if (std::filesystem::exists(folder / "libgpemu_audit.so", error)) return folder;
  }
  return fail(ErrorCode::kNotFound,
              "no shims for NVIDIA's libraries beside {}: install gpemu, "
              "or build all of it",
              command.string());
}

}  // namespace gpemu::run
