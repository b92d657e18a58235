// SPDX-License-Identifier: Apache-2.0
//
// What went over NVLinks: copies between GPUs and collectives, as programs asked for them.
#include <cstdint>

#include "nvml.hpp"

using nvml::Handle;

namespace nvml {
namespace {

struct Traffic {
  uint64_t sent = 0, received = 0;
};

/// Adds what went over a link, whether it is active or not.
int add_traffic(int32_t index, int32_t link, Traffic& traffic) {
  Traffic of_link;
  const int status =
      status_of(gpemu_monitor_get_link_traffic(index, link, &of_link.sent, &of_link.received));
  traffic.sent += of_link.sent;
  traffic.received += of_link.received;
  return status;
}

/// Reads what went over a link, or over all of them.
int traffic_of(const Handle* device, unsigned link, Traffic& traffic) {
  const auto [index, status] = index_of(device);
  if (status != kSuccess) return status;
  return with_device(device, [&, index = index](const gpemu_monitor_device& known) -> int {
    if (known.nvlink_links == 0) return kNotSupported;
    if (link != kAllLinks) {
      return link < static_cast<unsigned>(known.nvlink_links)
                 ? add_traffic(index, static_cast<int32_t>(link), traffic)
                 : static_cast<int>(kInvalidArgument);
    }
    for (int32_t one = 0; one < known.nvlink_links; ++one) {
      const int got = add_traffic(index, one, traffic);
      if (got != kSuccess) return got;
    }
    return kSuccess;
  });
}

}  // namespace

int put_link_field(const Handle* device, FieldValue& field) {
  constexpr uint64_t kKib = 1024;
  if (field.field != kNvlinkSentField && field.field != kNvlinkReceivedField) return kNotSupported;
  Traffic traffic;
  const int status = traffic_of(device, field.scope, traffic);
  field.type = kUnsignedLongLong;
  field.value.as_unsigned_long_long =
      (field.field == kNvlinkSentField ? traffic.sent : traffic.received) / kKib;
  return status;
}

}  // namespace nvml

/// Both counters count bytes of data. Source: before NVML 12, nvmlDeviceSetNvLinkUtilizationControl
/// chose what they count.
GPEMU_SHIM_EXPORT int nvmlDeviceGetNvLinkUtilizationCounter(Handle* device, unsigned link,
                                                            unsigned counter, uint64_t* received,
                                                            uint64_t* sent) {
  if (received == nullptr || sent == nullptr || counter > 1 || link == nvml::kAllLinks) {
    return nvml::kInvalidArgument;
  }
  nvml::Traffic traffic;
  const int status = nvml::traffic_of(device, link, traffic);
  if (status != nvml::kSuccess) return status;
  *received = traffic.received;
  *sent = traffic.sent;
  return nvml::kSuccess;
}
