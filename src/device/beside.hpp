// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/device/node_state.hpp"

namespace gpemu::device {

/// What a kernel takes of its GPU while it runs.
struct Room {
  static constexpr std::uint8_t kWholeRate = 250;

  std::uint16_t width = kWholeWidth;  ///< of the multiprocessors, in parts of kWholeWidth.
  std::uint8_t memory = 0;  ///< of the memory's rate, of kWholeRate; nothing if it fills the GPU.

  [[nodiscard]] bool fills_gpu() const { return width >= kWholeWidth; }
  bool operator==(const Room&) const = default;
};

/// The kernels of one process that run at the same time because none of them fills the GPU. What is
/// rare is not inline, so that launches stay short.
class Beside {
 public:
  /// Returns the first time, not before `from`, at which there is room for one more kernel. It
  /// starts after all that were added.
  [[nodiscard]] TimePoint room_from(TimePoint from, Room room) const {
    from = std::max(from, last_start_);
    // As usual: the kernels of one stream follow each other.
    return from >= last_end_ ? from : room_among(from, room);
  }

  void add(TimePoint start, TimePoint end, Room room) {
    last_start_ = std::max(last_start_, start);
    if (last_start_ < last_end_) {
      keep_running();
    } else if (!earlier_.empty()) {
      earlier_.clear();
    }
    last_ = {.end = end, .room = room};
    last_end_ = std::max(last_end_, end);
  }

 private:
  struct Kernel {
    TimePoint end;
    Room room;
  };
  /// Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability": 128
  /// resident grids since 7.0 and from 3.5 to 5.2. Of 200 kernels of one block, 128 ran at once on
  /// an H200 (tools/measure/measure_sharing.py, 2026-11-26).
  static constexpr std::size_t kMostKernels = 128;

  [[nodiscard, gnu::noinline]] TimePoint room_among(TimePoint from, Room room) const {
    while (true) {
      std::uint32_t width = room.width, memory = room.memory;
      std::size_t count = 1;
      TimePoint next_end = TimePoint::max();
      const auto note = [&](const Kernel& kernel) {
        if (kernel.end <= from) return;
        width += kernel.room.width;
        memory += kernel.room.memory;
        ++count;
        next_end = std::min(next_end, kernel.end);
      };
      std::ranges::for_each(earlier_, note);
      note(last_);
      const bool fits = width <= kWholeWidth && memory <= Room::kWholeRate && count <= kMostKernels;
      if (fits || count == 1) return from;
      from = next_end;
    }
  }

  /// Keeps those kernels that still run when the next one starts.
  [[gnu::noinline]] void keep_running() {
    earlier_.push_back(last_);
    std::erase_if(earlier_, [&](const Kernel& kernel) { return kernel.end <= last_start_; });
  }

  Kernel last_{};
  std::vector<Kernel> earlier_;  ///< those that may still run when the next one starts.
  TimePoint last_start_{}, last_end_{};
};

}  // namespace gpemu::device
