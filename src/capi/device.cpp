// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "gpemu/gpemu.h"

#include "guard.hpp"
#include "handles.hpp"

using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_device_open(gpemu_node* node, int32_t index, gpemu_device** device) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_open", node, device));
    GPEMU_ASSIGN(auto opened, gpemu::device::Device::open(node->node, index, *node->clock, {},
                                                          node->shares.of(index)));
    if (const auto limit = node->limits.limit(index, opened->memory_info().total)) {
      opened->limit_memory(*limit);
    }
    *device = new gpemu_device{.clock = node->clock, .device = std::move(opened)};
    return {};
  });
}

void gpemu_device_close(gpemu_device* device) {
  delete device;
}

gpemu_status gpemu_device_get_info(const gpemu_device* device, gpemu_device_info* info) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_get_info", device, info));
    const gpemu::device::DeviceSnapshot snapshot =
        device->device->node().device_snapshot(device->device->index(), device->clock->now());
    gpemu_device_info filled{};
    gpemu::copy_text(filled.gpu, snapshot.gpu);
    gpemu::copy_text(filled.uuid, snapshot.uuid);
    gpemu::copy_text(filled.pci_bus_id, snapshot.pci_bus_id);
    filled.memory_bytes = snapshot.memory_total;
    return gpemu::fill(info, filled, "gpemu_device_get_info");
  });
}

gpemu_status gpemu_device_synchronize(gpemu_device* device) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_device_synchronize", device));
    GPEMU_TRY(device->device->check_owner());
    device->device->synchronize();
    return {};
  });
}
