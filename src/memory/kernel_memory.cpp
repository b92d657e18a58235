// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/kernel_memory.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "gpemu/base/per_thread.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/recorder.hpp"

namespace gpemu::memory {
namespace {

/// A range of addresses, and a fact that is true as long as no content changes.
struct RecentRange {
  std::uint64_t address = 0;
  Bytes bytes = 0;
  kernels::WriterId writer = 0;
  std::uint8_t how = 0;
  std::uint64_t changes = 0;  ///< ContentMap::changes

  bool operator==(const RecentRange&) const = default;
};

/// A thread's recent results. Programs launch the same kernels on the same memory repeatedly; a
/// look-up here takes a few nanoseconds, while finding out again takes two locks.
class RecentRanges {
 public:
  [[nodiscard]] bool contain(const RecentRange& range) const { return at(range) == range; }
  void add(const RecentRange& range) { ranges_[place(range)] = range; }

 private:
  /// Tensors are at multiples of large powers of two. Source of the factor: Knuth, The Art of
  /// Computer Programming 3, 6.4, on multiplicative hashing: 2^64 over the golden ratio.
  [[nodiscard]] static std::size_t place(const RecentRange& range) {
    return range.address * 0x9E3779B97F4A7C15 >> 56;
  }
  [[nodiscard]] const RecentRange& at(const RecentRange& range) const {
    return ranges_[place(range)];
  }

  std::array<RecentRange, 256> ranges_{};
};

struct RecentFinds {
  RecentRanges left;     ///< of leave_uncomputed(), which had nothing left to do.
  RecentRanges unknown;  ///< of known_to_kernel(), which found unknown content.
};

/// Sets a range of shared memory to zeros in place of a kernel's results. Reads of shared memory
/// cannot be seen, so it counts as read now.
void clear_shared(std::uint64_t address, Bytes bytes, kernels::WriterId writer) {
  clear_pages(address, bytes);
  process::record_not_computed(address, bytes, writer);
}

/// Marks a range that a kernel changed in place as not updated, where its pages have content.
void leave_not_updated(std::uint64_t address, Bytes bytes, kernels::WriterId writer) {
  ContentMap& contents = memory().contents;
  for (Bytes done = 0; done < bytes;) {
    const ContentMap::Part part = contents.part(address + done, bytes - done);
    if (part.content == Content::kKept) {
      contents.assign(address + done, part.bytes, Content::kNotUpdated, writer);
    } else if (part.content == Content::kZeros) {
      contents.assign(address + done, part.bytes, Content::kNotComputed, writer);
    }
    done += part.bytes;
  }
}

constexpr bool is_update(Uncomputed how) {
  return how == Uncomputed::kUpdated || how == Uncomputed::kSomewhere;
}

}  // namespace

void fill_by_kernel(std::uint64_t address, const void* value, Bytes element_bytes, Bytes count,
                    kernels::WriterId writer) {
  const Bytes bytes = element_bytes * count;
  if (bytes == 0) return;
  const Side side = side_of(address, bytes);
  if (!side.inside || !(side.is_written_by_kernels() || side.on_host())) return;
  const auto* const first = static_cast<const std::byte*>(value);
  if (std::all_of(first, first + element_bytes,
                  [](std::byte byte) { return byte == std::byte{}; }) &&
      !side.on_host()) {
    side.shared ? clear_pages(address, bytes) : drop(address, bytes, Content::kZeros);
    return;
  }
  // What the host reads are sizes, flags and scalars, which are small.
  constexpr Bytes kMaxFilled = 256 * kKiB;
  if (bytes > kMaxFilled && !side.on_host()) {
    side.shared ? clear_shared(address, bytes, writer)
                : drop(address, bytes, Content::kNotComputed, writer);
    return;
  }
  if (!side.shared) keep(address, bytes);
  fill(address, value, element_bytes, count);
}

void leave_uncomputed(std::uint64_t address, Bytes bytes, Uncomputed how,
                      kernels::WriterId writer) {
  if (bytes == 0) return;
  ContentMap& contents = memory().contents;
  const RecentRange range{address, bytes, writer, static_cast<std::uint8_t>(how),
                          contents.changes()};
  auto* const recent = PerThread<RecentFinds>::get();
  if (recent != nullptr && recent->left.contain(range)) return;
  const Side side = side_of(address, bytes);
  // A kernel that takes a writable pointer to the host's memory may only read there.
  if (side.on_host() ? how == Uncomputed::kBounded : !side.is_written_by_kernels()) return;
  Bytes covered = std::min(bytes, side.covered);
  if (how == Uncomputed::kSomewhere && covered > 0) covered = contents.part(address, covered).bytes;
  if (covered == 0) return;
  // The host's pages stay, because they may belong to a file of the program.
  if (side.on_host() || (side.shared && is_update(how))) {
    return process::record_not_computed(address, covered, writer);
  }
  if (side.shared) return clear_shared(address, covered, writer);
  if (is_update(how)) {
    leave_not_updated(address, covered, writer);
  } else {
    drop(address, covered, Content::kNotComputed, writer);
  }
  if (recent != nullptr && side.inside && contents.changes() == range.changes) {
    recent->left.add(range);
  }
}

void store_by_kernel(std::uint64_t address, const void* data, Bytes bytes) {
  const Side side = side_of(address, bytes);
  if (!side.inside || !(side.is_written_by_kernels() || side.on_host())) return;
  if (!side.shared) keep(address, bytes);
  std::memcpy(reinterpret_cast<void*>(address), data, bytes);
}

bool known_to_kernel(std::uint64_t address, Bytes bytes) {
  if (address == 0 || bytes == 0) return false;
  const ContentMap& contents = memory().contents;
  const RecentRange range{address, bytes, 0, 0, contents.changes()};
  auto* const recent = PerThread<RecentFinds>::get();
  if (recent != nullptr && recent->unknown.contain(range)) return false;
  const Side side = side_of(address, bytes);
  if (!side.is_read_by_kernels()) return false;
  if (side.shared || contents.all_known(address, bytes)) return true;
  if (recent != nullptr && contents.changes() == range.changes) recent->unknown.add(range);
  return false;
}

bool load_for_kernel(std::uint64_t address, void* data, Bytes bytes) {
  const Side side = side_of(address, bytes);
  if (!side.is_read_by_kernels()) return false;
  if (!side.shared && !memory().contents.all_known(address, bytes)) return false;
  read_row(reinterpret_cast<std::uint64_t>(data), address, bytes, side.shared);
  return true;
}

Bytes device_bytes_at(std::uint64_t address, Bytes bytes) {
  const Side side = side_of(address, bytes);
  return side.is_written_by_kernels() ? std::min(bytes, side.covered) : 0;
}

void leave_uncomputed(const kernels::KernelWork::Scattered& tensor, kernels::WriterId writer) {
  /// With more pieces, each of which takes the host some 0.3 us, known content stays and counts as
  /// not updated.
  constexpr Bytes kMostPieces = Bytes{1} << 16;
  const Bytes span = tensor.span();
  const ContentMap::Part now = memory().contents.part(tensor.address, span);
  if (now.content == Content::kNotComputed && now.bytes == span) {
    return leave_uncomputed(tensor.address, span, tensor.how, writer);
  }
  kernels::Walk walk(tensor.places, tensor.element_bytes);
  if (walk.pieces() > kMostPieces) {
    return leave_uncomputed(tensor.address, span, Uncomputed::kUpdated, writer);
  }
  for (Bytes left = walk.pieces(); left > 0; --left) {
    leave_uncomputed(tensor.address + walk.offset(), walk.left(), tensor.how, writer);
    walk.advance(walk.left());
  }
}

namespace {

class KernelMemory final : public kernels::Memory {
 public:
  [[nodiscard]] bool load(std::uint64_t address, void* data, Bytes bytes) const override {
    return load_for_kernel(address, data, bytes);
  }
  [[nodiscard]] bool is_known(std::uint64_t address, Bytes bytes) const override {
    return known_to_kernel(address, bytes);
  }
  [[nodiscard]] Bytes device_bytes_at(std::uint64_t address, Bytes bytes) const override {
    return memory::device_bytes_at(address, bytes);
  }
  void store(std::uint64_t address, const void* data, Bytes bytes) override {
    store_by_kernel(address, data, bytes);
  }
};

}  // namespace

kernels::Memory& kernel_memory() {
  static KernelMemory memory;  // Without a state of its own.
  return memory;
}

}  // namespace gpemu::memory
