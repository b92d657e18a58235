// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_calls.hpp"

namespace gpemu::tools {

Result<service::Rpc*> remote_calls(const World& world) {
  const std::filesystem::path root = world.executable.parent_path().parent_path();
  return service::load_rpc(root / GPEMU_INSTALL_LIBDIR / "gpemu" / "libgpemu_grpc.so");
}

}  // namespace gpemu::tools
