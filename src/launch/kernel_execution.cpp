// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/kernel_execution.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/per_thread.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/memory/managed.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/memory/plain_moves.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/writers.hpp"
#include "gpemu/streams/mover.hpp"
#include "gpemu/streams/stream_state.hpp"

namespace gpemu::launch {

using kernels::IndexCheck, kernels::readable_name;

namespace {

/// From this size on, the mover moves content. Source: kLargeCopy of copy.cpp.
constexpr Bytes kLargeMove = kMiB;

/// Returns whether work moves so much content in pages that the host must not do it. Others may
/// write shared memory at any time, so that is moved at once.
bool moves_much(const KernelWork& work) {
  Bytes moved = 0;
  for (const kernels::PlainMove& move : work.moves) {
    if (move.from != 0) moved += move.to_places.count() * move.element_bytes;
  }
  if (moved < kLargeMove) return false;
  for (const KernelWork::Range& range : work.ranges) {
    if (memory::side_of(range.address, range.bytes).shared) return false;
  }
  for (const KernelWork::Scattered& tensor : work.scattered) {
    if (memory::side_of(tensor.address, tensor.span()).shared) return false;
  }
  Bytes kept = 0;
  for (const kernels::Access& read : work.reads) {
    if (memory::side_of(read.start, read.bytes).shared) return false;
    for (Bytes done = 0; done < read.bytes && kept < kLargeMove;) {
      const memory::ContentMap::Part part =
          memory::memory().contents.part(read.start + done, read.bytes - done);
      if (part.content == memory::Content::kKept) kept += part.bytes;
      done += part.bytes;
    }
  }
  return kept >= kLargeMove;
}

}  // namespace

KernelWork work_on_anything(kernels::WriterId writer) {
  KernelWork work;
  work.writer = writer;
  work.reads.push_back({.start = 0, .bytes = ~Bytes{0}, .writes = true});
  return work;
}

void perform_now(const KernelWork& work) {
  if (work.compute && work.compute(memory::kernel_memory())) return;
  if (!work.moves.empty() && memory::perform_moves(work.moves, work.writer)) return;
  for (const KernelWork::Range& range : work.ranges) {
    memory::leave_uncomputed(range.address, range.bytes, range.how, work.writer);
  }
  for (const KernelWork::Scattered& tensor : work.scattered)
    memory::leave_uncomputed(tensor, work.writer);
  if (work.fill_address != 0) {
    memory::fill_by_kernel(work.fill_address, work.fill_value.data(), work.fill_value.size(),
                           work.fill_count, work.writer);
  }
}

namespace {

/// Makes a context fail if an index of a kernel that ends at a moment is out of bounds.
void check_indices(const KernelWork& work, process::DeviceState& device,
                   const device::Moment& end) {
  for (const IndexCheck& check : work.checks) {
    if (const auto wrong = find_wrong_index(check, memory::kernel_memory())) {
      return process::fail_assertion(
          device, end,
          fmt::format("{} in {}", *wrong, readable_name(process::writer_name(work.writer))));
    }
  }
}

/// Returns what work reads and writes, as far as that is known.
std::vector<kernels::Access> accesses_of(const KernelWork& work) {
  std::vector<kernels::Access> accesses = work.reads;
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
  if (stream != nullptr && memory::memory().has_managed.load(std::memory_order_relaxed)) {
    for (const kernels::Access& access : accesses_of(work)) {
      memory::use_managed(access.start, access.bytes, *stream->device);
    }
  }
  const bool beside = moves_much(work);
  const bool checks = stream != nullptr && !work.checks.empty();
  if (!beside && !streams::mover().busy()) {
    if (checks) check_indices(work, *stream->device, stream->stream->last_end());
    return perform_now(work);
  }
  std::vector<kernels::Access> accesses = accesses_of(work);
  process::DeviceState* const device = checks ? stream->device : nullptr;
  const device::Moment end = stream == nullptr ? device::Moment() : stream->stream->last_end();
  auto run = [work, device, end] {
    if (device != nullptr) check_indices(work, *device, end);
    perform_now(work);
  };
  if (!beside) return streams::mover().in_order(accesses, std::move(run));
  streams::mover().add({.accesses = std::move(accesses),
                        .end = end,
                        .lane = streams::Mover::Lane::kToDevice,
                        .work = std::move(run)});
}

namespace {

/// Describes what reads lists: now if they are there, else when it is performed, as in a graph.
void describe_lists_of(KernelWork* work, bool are_there) {
  const KernelWork::Later later = std::exchange(work->later, {});
  if (are_there) return later.describe(memory::kernel_memory(), work);
  const kernels::WriterId writer = work->writer;
  *work = work_on_anything(writer);
  work->compute = [later, writer](kernels::Memory& memory) {
    KernelWork described;
    described.writer = writer;
    later.describe(memory, &described);
    perform_now(described);
    return true;
  };
}

void perform_with(KernelWork* work, const kernels::KernelEffect& effect,
                  const gpemu_cuda_launch& launch, gpemu_cuda_stream* stream) {
  work->at_once = !streams::mover().busy();
  describe_work(effect, {launch, memory::kernel_memory()}, work);
  if (work->later.describe) {
    describe_lists_of(work,
                      work->at_once || !streams::mover().overlaps_any({&work->later.lists, 1}));
  }
  perform(*work, stream);
}

}  // namespace

void describe_for_later(const kernels::KernelEffect& effect, const gpemu_cuda_launch& launch,
                        KernelWork* work) {
  describe_work(effect, {launch, memory::kernel_memory()}, work);
  if (work->later.describe) describe_lists_of(work, false);
}

void perform_launch(const kernels::KernelEffect& effect, const gpemu_cuda_launch& launch,
                    gpemu_cuda_stream* stream) {
  if (effect.writer == 0 || launch.arguments == nullptr) return;
  // The commonest kernels only leave results that are not computed: this takes a tenth of the time.
  if (const auto* const elements = std::get_if<kernels::ElementsEffect>(&effect.recognised);
      elements != nullptr && !streams::mover().busy()) {
    if (const auto left = left_elements(*elements, {launch, memory::kernel_memory()})) {
      for (int i = 0; i < left->count; ++i) {
        const KernelWork::Range& range = left->ranges.at(static_cast<std::size_t>(i));
        memory::leave_uncomputed(range.address, range.bytes, range.how, effect.writer);
      }
      return;
    }
  }
  // One for each thread, so that its memory is used again.
  if (KernelWork* const work = PerThread<KernelWork>::get(); work != nullptr) {
    perform_with(work, effect, launch, stream);
  } else {
    KernelWork own;
    perform_with(&own, effect, launch, stream);
  }
}

}  // namespace gpemu::launch
