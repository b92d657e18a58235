// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/host_spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto host = gpemu::profile::parse_host_spec(text, "fuzz", "/nowhere");
  if (!host) {
    GPEMU_CHECK(host.error().message.starts_with("fuzz:"), "a message without its place");
    return 0;
  }
  // Whatever the file says, nothing takes no time or an infinite one.
  for (const double busy : {1.0, 2.5, 1e9}) {
    const double speed = host->cpu.speed_by_busy.at(busy);
    GPEMU_CHECK(speed > 0 && speed <= 1, "a process is not faster than alone");
  }
  for (const auto& storage : host->storages) {
    const auto time = storage.read_time(1e5, 1000);
    GPEMU_CHECK(std::isfinite(time.alone_s) && time.busy_s > 0 && time.busy_s <= time.alone_s,
                "a read ends, and keeps the device for no longer than it takes");
  }
  GPEMU_CHECK(host->loader("").has_value() && host->storage("").has_value(), "it has one of each");
  return 0;
}
