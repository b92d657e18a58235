// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "collectives/numbers.hpp"

namespace gpemu::collectives {

enum class Operation {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSendReceive,
};
/// As nccl-tests names its programs, without "_perf".
inline constexpr std::array<std::string_view, 7> kOperationNames = {
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "sendrecv"};

/// With the values of ncclRedOp_t.
enum class Reduction { kSum, kProduct, kMax, kMin, kAverage };
inline constexpr std::array<std::string_view, 5> kReductionNames = {"sum", "prod", "max", "min",
                                                                    "avg"};

[[nodiscard]] bool reduces(Operation operation);

/// How a size is divided, in elements. nccl-tests' size is the larger of the two buffers.
struct Counts {
  std::size_t sent = 0;      ///< in each rank's send buffer.
  std::size_t received = 0;  ///< in each rank's receive buffer.
  std::size_t given = 0;     ///< the count that NCCL is told.
};
[[nodiscard]] Counts counts_of(Operation operation, std::size_t bytes, const NumberType& type,
                               int ranks);

/// Returns the factor between algorithm and bus bandwidth. Source: nccl-tests, doc/PERFORMANCE.md.
[[nodiscard]] double bus_factor(Operation operation, int ranks);

/// Returns what a rank sends: numbers that every type has.
[[nodiscard]] std::vector<double> sent_by(int rank, std::size_t count);

/// Returns what a rank must have received; empty if nothing.
[[nodiscard]] std::vector<double> expected_at(int rank, int ranks, int root, Operation operation,
                                              Reduction reduction, const NumberType& type,
                                              const Counts& counts);

/// Returns how many numbers differ by more than the rounding of each step explains.
[[nodiscard]] std::size_t count_wrong(const std::vector<double>& received,
                                      const std::vector<double>& expected, const NumberType& type,
                                      int ranks);

}  // namespace gpemu::collectives
