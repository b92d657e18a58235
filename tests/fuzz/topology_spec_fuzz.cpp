// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/topology/paths.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto machine = gpemu::profile::parse_topology_spec(text, "fuzz");
  if (!machine) {
    GPEMU_CHECK(machine.error().message.starts_with("fuzz:"), "a message without its place");
    return 0;
  }
  // Every place leads to a host bridge.
  for (const gpemu::profile::Place& place : machine->gpus) {
    static_cast<void>(gpemu::topology::pcie_path(*machine, machine->gpus.front(), place));
    static_cast<void>(gpemu::topology::uplinks_between(*machine, place, machine->gpus.back()));
    static_cast<void>(gpemu::topology::socket_of(*machine, place));
  }
  for (const gpemu::profile::NetworkAdapter& adapter : machine->adapters) {
    static_cast<void>(gpemu::topology::numa_node_of(*machine, adapter.place));
  }
  return 0;
}
