// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/device/node.hpp"

#include "cli/world.hpp"
#include "nvidia_smi/nvidia_smi_words.hpp"
#include "smi/smi_sample.hpp"

namespace gpemu::tools {

/// How a program of NVIDIA ends. Source: the manual page of nvidia-smi, which returns nvmlReturn_t.
enum SmiExit {
  kSmiSuccess = 0,
  kSmiInvalidArgument = 2,
  kSmiNotSupported = 3,
  kSmiNotFound = 6,
  kSmiNoDriver = 9,
  kSmiVersionMismatch = 18,
  kSmiInUse = 19,
  kSmiNoRoom = 23,
  kSmiOther = 255,
};

/// What a change of settings printed, and the exit code.
struct SmiChange {
  std::string text;
  int code = kSmiSuccess;
};

/// Changes a setting of devices, in nvidia-smi's words. Source of the words: printouts in public
/// issues. Errors: kInvalidArgument for a value that the setting does not have; those of the node.
[[nodiscard]] Result<SmiChange> change_setting(device::Node& node,
                                               std::span<const SmiDevice> devices,
                                               const SmiSetting& setting, bool error_on_warning,
                                               const World& world);

/// `nvidia-smi compute-policy --set-timeslice`. NVIDIA's words for it are not known. Errors: as
/// change_setting.
[[nodiscard]] Result<SmiChange> change_time_slice(device::Node& node,
                                                  std::span<const SmiDevice> devices,
                                                  const std::string& value);

/// `nvidia-smi compute-policy -l`: the policies of each device. Likewise.
[[nodiscard]] std::string compute_policies_text(std::span<const SmiDevice> devices);

}  // namespace gpemu::tools
