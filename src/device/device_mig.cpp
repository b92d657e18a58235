// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/device_mig.hpp"

#include <vector>

#include "layout.hpp"
#include "segment.hpp"

namespace gpemu::device {

MigMode DeviceMig::mode() const {
  return segment_.mig_mode(device_);
}

MigLayout DeviceMig::layout(std::span<const profile::MigProfile> profiles) const {
  if (!mode().divided) return MigLayout(profiles);
  return MigLayout(profiles, segment_.mig_table(device_).read().words);
}

Result<void> DeviceMig::check(std::span<const profile::MigProfile> profiles) const {
  GPEMU_TRY(segment_.check_owner());
  if (profiles.empty()) {
    return fail(ErrorCode::kUnsupported, "device {} of node '{}', a {}, has no MIG", device_,
                segment_.name(), segment_.facts(device_).gpu);
  }
  if (segment_.facts().policy != SharingPolicy::kMig) {
    return fail(ErrorCode::kUnsupported,
                "node '{}' does not divide its GPUs: make one with `gpemu node create --sharing "
                "mig`",
                segment_.name());
  }
  return {};
}

Result<void> DeviceMig::change(std::span<const profile::MigProfile> profiles,
                               const std::function<Result<void>(MigLayout&)>& change) const {
  GPEMU_TRY(check(profiles));
  if (!mode().divided) {
    return fail(ErrorCode::kUnsupported,
                "MIG is off for device {} of node '{}': `gpemu nvidia-smi -i {} -mig 1` switches "
                "it on",
                device_, segment_.name(), device_);
  }
  return segment_.mig_table(device_).change(profiles, change);
}

Result<MigMode> DeviceMig::set_mode(std::span<const profile::MigProfile> profiles,
                                    bool divided) const {
  GPEMU_TRY(check(profiles));
  MigMode current = mode();
  const auto publish = [&](bool now) {
    current = {.divided = now, .pending = divided};
    segment_.settings(device_).mig_mode = (now ? 0U : 1U) | (divided ? 0U : 2U);
  };
  publish(current.divided);
  if (current.divided == divided) return current;
  if (divided) {
    // A process publishes its use of the device before it looks at the mode.
    if (!segment_.users(device_).empty()) return current;
    publish(true);
    if (!segment_.users(device_).empty()) publish(false);
    return current;
  }
  const auto destroyed =
      segment_.mig_table(device_).change(profiles, [](MigLayout& layout) -> Result<void> {
        for (const MigInstance& instance : std::vector(layout.instances())) {
          for (const MigComputeInstance& part : instance.compute) {
            GPEMU_TRY(layout.destroy_compute(instance.id, part.id));
          }
          GPEMU_TRY(layout.destroy(instance.id));
        }
        return {};
      });
  if (destroyed) {
    publish(false);
  } else if (destroyed.error().code != ErrorCode::kUnavailable) {
    return std::unexpected(destroyed.error());
  }
  return current;
}

Bytes DeviceMig::memory_used(int memory_place) const {
  return segment_.memory_held_at(segment_.facts().mig_place(device_, memory_place));
}

}  // namespace gpemu::device
