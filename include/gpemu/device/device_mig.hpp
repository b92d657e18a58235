// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/mig_layout.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

class Segment;

/// How MIG divides a device of a node in which this process takes part. `profiles` are those of the
/// device's kind of GPU; they outlive the layouts. The node outlives it. Thread safety: any thread.
class DeviceMig {
 public:
  DeviceMig(Segment& segment, int device) : segment_(segment), device_(device) {}

  [[nodiscard]] MigMode mode() const;
  /// Switches MIG on or off, which destroys all instances. While a process uses the device, that is
  /// only pending, until it is switched again. Returns what holds now. Errors: kUnsupported if the
  /// policy is not kMig or the GPU has no MIG; kUnavailable in a forked child.
  Result<MigMode> set_mode(std::span<const profile::MigProfile> profiles, bool divided) const;

  /// Returns the instances; none if MIG does not divide the device.
  [[nodiscard]] MigLayout layout(std::span<const profile::MigProfile> profiles) const;
  /// Changes them, all at once or not at all. `change` may be called several times.
  ///
  /// Errors: those of `change`; kUnavailable if a process, named in the message, uses a compute
  /// instance that it destroys; kUnsupported if MIG does not divide the GPU, or a new instance's
  /// size is not known.
  Result<void> change(std::span<const profile::MigProfile> profiles,
                      const std::function<Result<void>(MigLayout&)>& change) const;

  /// Returns the memory that processes hold of the GPU instance whose MIG devices have that
  /// memory_place. Requires: the policy is kMig.
  [[nodiscard]] Bytes memory_used(int memory_place) const;

 private:
  /// Errors: kUnsupported if MIG cannot divide the device.
  [[nodiscard]] Result<void> check(std::span<const profile::MigProfile> profiles) const;

  Segment& segment_;
  int device_;
};

}  // namespace gpemu::device
