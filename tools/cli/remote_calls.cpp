// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_calls.hpp"

#include <cstdint>

#include "gpemu/base/text.hpp"
#include "gpemu/net/address.hpp"

namespace gpemu::tools {

Result<service::Rpc*> remote_calls(const World& world) {
  const std::filesystem::path root = world.executable.parent_path().parent_path();
  return service::load_rpc(root / GPEMU_INSTALL_LIBDIR / "gpemu" / "libgpemu_grpc.so");
}

Result<void> check_address(std::string_view what, std::string_view address, bool listens) {
  const std::uint16_t lowest = listens ? 0 : 1;
  if (net::parse_host_port(address, lowest)) return {};
  return fail(ErrorCode::kInvalidArgument,
              "{} '{}': write HOST:PORT, e.g. 127.0.0.1:5050, with a port from {} to 65535", what,
              printable(address), lowest);
}

}  // namespace gpemu::tools
