// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

namespace gpemu::ranks {

/// A collective as one rank calls it. All ranks must give the same, except for the addresses and
/// the scale.
struct CollectiveCall {
  gpemu_cuda_collective kind = GPEMU_CUDA_ALL_REDUCE;
  gpemu_cuda_comm_type type = GPEMU_CUDA_COMM_INT8;
  gpemu_cuda_comm_reduction reduction = GPEMU_CUDA_COMM_SUM;  ///< SUM if it does not reduce.
  std::int32_t root = 0;  ///< 0 if it has none. Sends and receives: rank 0 sends to rank 1.
  std::uint64_t count = 0;
  std::uint64_t source = 0, destination = 0;
  std::array<std::byte, 8> scale{};

  /// Returns whether two calls belong to the same collective.
  [[nodiscard]] bool matches(const CollectiveCall& other) const;
  /// Returns whether they differ only in how much they move, or in what they do with it. NCCL does
  /// not notice that.
  [[nodiscard]] bool resembles(const CollectiveCall& other) const;
  /// Returns the call as text, for a message.
  [[nodiscard]] std::string to_string() const;
};

/// Returns the name of NCCL's function, which goes to reports.
[[nodiscard]] const char* collective_name(gpemu_cuda_collective kind);

/// Returns the name of an element's type, for reports.
[[nodiscard]] const char* comm_type_name(gpemu_cuda_comm_type type);

/// Returns the size of an element; 0 for a number that is no type.
[[nodiscard]] Bytes element_bytes(gpemu_cuda_comm_type type);

[[nodiscard]] bool reduces(gpemu_cuda_collective kind);

/// A rank's place in a communicator.
struct Place {
  int rank = 0;
  int ranks = 1;
};

/// Returns how much a rank reads and writes in a collective, 0 if it has no source or destination.
/// Requires: call_fits().
[[nodiscard]] Bytes source_bytes(const CollectiveCall& call, Place place);
[[nodiscard]] Bytes destination_bytes(const CollectiveCall& call, Place place);

/// Returns nccl-tests' size of a collective: that of the larger of its buffers. Requires:
/// call_fits().
[[nodiscard]] Bytes collective_bytes(const CollectiveCall& call, int ranks);

/// Returns whether 64 bits hold all sizes of a call.
[[nodiscard]] bool call_fits(const CollectiveCall& call, int ranks);

/// What a rank gets from another one, or from itself.
struct Slice {
  int from = 0;           ///< the rank.
  Bytes source = 0;       ///< offset in that rank's source.
  Bytes destination = 0;  ///< offset in the own destination.
  Bytes bytes = 0;

  bool operator==(const Slice&) const = default;
};

/// Returns the slices of a rank's destination. If the collective reduces, all of them are for the
/// whole destination and are combined in this order; else they are disjoint.
[[nodiscard]] std::vector<Slice> slices_for(const CollectiveCall& call, Place place);

/// Elements that are reduced, as with kernels. Larger results are not computed.
inline constexpr std::uint64_t kMostReduced = 65536;

/// Combines the elements of all ranks, in the order of the ranks. Arithmetic is that of the type:
/// it wraps around, or is rounded after each step, as in a ring that begins with rank 0. NCCL's
/// order depends on the place in the buffer. SCALED_SUM is SUM, because sources are scaled before
/// they are sent. Requires: `sources` is not empty, and all spans have the same size, a multiple of
/// the element's.
///
/// Source: src/device/reduce_kernel.h of NCCL 2.27.
void combine(gpemu_cuda_comm_type type, gpemu_cuda_comm_reduction reduction,
             std::span<const std::span<const std::byte>> sources, std::span<std::byte> result);

/// Multiplies elements by a number of the same type.
void scale_elements(gpemu_cuda_comm_type type, std::span<const std::byte> scale,
                    std::span<std::byte> elements);

}  // namespace gpemu::ranks
