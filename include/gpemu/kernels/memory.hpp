// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

namespace gpemu::kernels {

/// The memory on which kernels work: that of devices, and locked memory of the host. Some content
/// is known, and the rest reads as zeros. Addresses are those that programs see.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// Reads known content, and returns whether all of it is known.
  [[nodiscard]] virtual bool load(std::uint64_t address, void* data, Bytes bytes) const = 0;

  /// Returns whether load() can read all of a range.
  [[nodiscard]] virtual bool is_known(std::uint64_t address, Bytes bytes) const = 0;

  /// Returns how many bytes of device memory follow an address without a gap, at most `bytes`.
  [[nodiscard]] virtual Bytes device_bytes_at(std::uint64_t address, Bytes bytes) const = 0;

  /// Stores values, unless the range is not in this memory.
  virtual void store(std::uint64_t address, const void* data, Bytes bytes) = 0;

  [[nodiscard]] bool on_device(std::uint64_t address) const {
    return device_bytes_at(address, 1) == 1;
  }
};

/// A launch whose arguments can be read, and the memory on which it works.
struct Launch : gpemu_cuda_launch {
  const Memory& memory;
};

}  // namespace gpemu::kernels
