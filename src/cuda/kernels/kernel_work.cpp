// SPDX-License-Identifier: Apache-2.0
#include "kernels/kernel_work.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "faults.hpp"
#include "kernels/names.hpp"
#include "managed.hpp"
#include "memory_content.hpp"
#include "stream_state.hpp"

namespace gpemu::cuda {
namespace {

/// From this size on, the mover moves content. Source: kLargeCopy of copy.cpp.
constexpr Bytes kLargeMove = kMiB;

/// Returns whether work moves so much content in pages that the host must not do it. Others may
/// write shared memory at any time, so that is moved at once.
bool moves_much(const KernelWork& work) {
  if (work.moved < kLargeMove) return false;
  for (const KernelWork::Range& range : work.ranges) {
    if (side_of(range.address, range.bytes).shared) return false;
  }
  for (const KernelWork::Scattered& tensor : work.scattered) {
    if (side_of(tensor.address, tensor.span()).shared) return false;
  }
  Bytes kept = 0;
  for (const Access& read : work.reads) {
    if (side_of(read.start, read.bytes).shared) return false;
    for (Bytes done = 0; done < read.bytes && kept < kLargeMove;) {
      const ContentMap::Part part = memory().contents.part(read.start + done, read.bytes - done);
      if (part.content == Content::kKept) kept += part.bytes;
      done += part.bytes;
    }
  }
  return kept >= kLargeMove;
}

/// Marks the elements of a tensor as not computed, but not the gaps between them.
void leave_scattered(const KernelWork::Scattered& tensor, WriterId writer) {
  /// With more pieces, each of which takes the host some 0.3 us, known content stays and counts as
  /// not updated.
  constexpr Bytes kMostPieces = Bytes{1} << 16;
  const Bytes span = tensor.span();
  const ContentMap::Part now = memory().contents.part(tensor.address, span);
  if (now.content == Content::kNotComputed && now.bytes == span) {
    return leave_uncomputed(tensor.address, span, tensor.how, writer);
  }
  Walk walk(tensor.places, tensor.element_bytes);
  if (walk.pieces() > kMostPieces) {
    return leave_uncomputed(tensor.address, span, Uncomputed::kUpdated, writer);
  }
  for (Bytes left = walk.pieces(); left > 0; --left) {
    leave_uncomputed(tensor.address + walk.offset(), walk.left(), tensor.how, writer);
    walk.advance(walk.left());
  }
}

}  // namespace

void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how) {
  if (address == 0 || bytes == 0) return;
  work->ranges.push_back({address, bytes, how});
}

void add_tensor(KernelWork* work, std::uint64_t address, const Places& places, Bytes element_bytes,
                Uncomputed how) {
  if (address == 0 || element_bytes == 0 || places.count() == 0) return;
  KernelWork::Scattered tensor{.address = address - places.before(),
                               .places = places.in_order(),
                               .element_bytes = element_bytes,
                               .how = how};
  if (Walk(tensor.places, element_bytes).pieces() == 1) {
    return add_range(work, tensor.address, tensor.span(), how);
  }
  work->scattered.push_back(tensor);
}

void add_check(KernelWork* work, const IndexCheck& check) {
  work->reads.push_back({.start = check.address, .bytes = bytes_of(check), .writes = false});
  work->checks.push_back(check);
}

void sort_ranges(KernelWork* work) {
  // A range that seems to reach into another parameter's memory must not hide where that begins.
  std::ranges::stable_sort(work->ranges, {}, &KernelWork::Range::address);
}

KernelWork work_on_anything(WriterId writer) {
  KernelWork work;
  work.writer = writer;
  work.reads.push_back({.start = 0, .bytes = ~Bytes{0}, .writes = true});
  return work;
}

void perform_now(const KernelWork& work) {
  if (work.compute && work.compute()) return;
  for (const KernelWork::Range& range : work.ranges) {
    leave_uncomputed(range.address, range.bytes, range.how, work.writer);
  }
  for (const KernelWork::Scattered& tensor : work.scattered) leave_scattered(tensor, work.writer);
  if (work.fill_address != 0) {
    fill_by_kernel(work.fill_address, work.fill_value.data(), work.fill_value.size(),
                   work.fill_count, work.writer);
  }
}

namespace {

/// Makes a context fail if an index of a kernel that ends at a moment is out of bounds.
void check_indices(const KernelWork& work, DeviceState& device, const device::Moment& end) {
  for (const IndexCheck& check : work.checks) {
    if (const auto wrong = find_wrong_index(check)) {
      return fail_assertion(
          device, end, fmt::format("{} in {}", *wrong, readable_name(writer_name(work.writer))));
    }
  }
}

/// Returns what work reads and writes, as far as that is known.
std::vector<Access> accesses_of(const KernelWork& work) {
  std::vector<Access> accesses = work.reads;
  for (const KernelWork::Range& range : work.ranges) {
    accesses.push_back({.start = range.address, .bytes = range.bytes, .writes = true});
  }
  for (const KernelWork::Scattered& tensor : work.scattered) {
    accesses.push_back({.start = tensor.address, .bytes = tensor.span(), .writes = true});
  }
  if (work.fill_address != 0) {
    accesses.push_back({.start = work.fill_address,
                        .bytes = work.fill_value.size() * work.fill_count,
                        .writes = true});
  }
  return accesses;
}

}  // namespace

void perform(const KernelWork& work, gpemu_cuda_stream* stream) {
  if (stream != nullptr && memory().has_managed.load(std::memory_order_relaxed)) {
    for (const Access& access : accesses_of(work)) {
      use_managed(access.start, access.bytes, *stream->device);
    }
  }
  const bool beside = moves_much(work);
  const bool checks = stream != nullptr && !work.checks.empty();
  if (!beside && !mover().busy()) {
    if (checks) check_indices(work, *stream->device, stream->stream->last_end());
    return perform_now(work);
  }
  std::vector<Access> accesses = accesses_of(work);
  DeviceState* const device = checks ? stream->device : nullptr;
  const device::Moment end = stream == nullptr ? device::Moment() : stream->stream->last_end();
  auto run = [work, device, end] {
    if (device != nullptr) check_indices(work, *device, end);
    perform_now(work);
  };
  if (!beside) return mover().in_order(accesses, std::move(run));
  mover().add({.accesses = std::move(accesses),
               .end = end,
               .lane = Mover::Lane::kToDevice,
               .work = std::move(run)});
}

}  // namespace gpemu::cuda
