// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_calls.hpp"

#include <charconv>
#include <cstdint>
#include <system_error>

#include "gpemu/base/text.hpp"

namespace gpemu::tools {

Result<service::Rpc*> remote_calls(const World& world) {
  const std::filesystem::path root = world.executable.parent_path().parent_path();
  return service::load_rpc(root / GPEMU_INSTALL_LIBDIR / "gpemu" / "libgpemu_grpc.so");
}

Result<void> check_address(std::string_view what, std::string_view address, bool listens) {
  const std::size_t colon = address.rfind(':');
  std::uint16_t port = 0;
  if (colon != std::string_view::npos && colon > 0) {
    const char* end = address.data() + address.size();
    const auto read = std::from_chars(address.data() + colon + 1, end, port);
    if (read.ec == std::errc() && read.ptr == end && (listens || port > 0)) return {};
  }
  return fail(ErrorCode::kInvalidArgument,
              "{} '{}': write HOST:PORT, e.g. 127.0.0.1:5050, with a port from {} to 65535", what,
              printable(address), listens ? 0 : 1);
}

}  // namespace gpemu::tools
