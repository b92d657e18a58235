// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::mps {

/// What the clients of an MPS server may use. Source: NVIDIA, "Multi-Process Service", "Appendix:
/// Tools and Interface Reference".
struct Limits {
  /// The percentage of a GPU's multiprocessors that a client's kernels may use.
  double active_thread_percentage = 100;
  /// The most memory of a device, by its number or its UUID.
  std::map<std::string, Bytes> device_memory;

  /// Returns the stricter of both, for each limit.
  [[nodiscard]] Limits tightened(const Limits& other) const;
  /// Returns the limit of a device's memory, given its number and its UUID; the largest Bytes if
  /// there is none.
  [[nodiscard]] Bytes memory_of(int number, const std::string& uuid) const;
};

/// Errors: kInvalidArgument for anything but a number above 0, up to 100.
[[nodiscard]] Result<double> parse_percentage(std::string_view text);
/// Returns a percentage as nvidia-cuda-mps-control shows it, e.g. "50.0".
[[nodiscard]] std::string percentage_text(double percentage);

/// Reads a size such as "4G", "4096M" or, in bytes, "4294967296". Errors: kInvalidArgument.
[[nodiscard]] Result<Bytes> parse_size(std::string_view text);

/// Reads limits as in "0=4G,1=4096M". Errors: kInvalidArgument.
[[nodiscard]] Result<std::map<std::string, Bytes>> parse_device_memory(std::string_view text);
/// The reverse, with sizes in bytes.
[[nodiscard]] std::string device_memory_text(const std::map<std::string, Bytes>& memory);

/// Returns how many of a GPU's multiprocessors a percentage stands for: rounded down, but at least
/// one.
[[nodiscard]] int multiprocessors_of(double percentage, int all);

}  // namespace gpemu::mps
