// SPDX-License-Identifier: Apache-2.0
#include "collectives/operation.hpp"

#include <algorithm>
#include <cmath>

namespace gpemu::collectives {
namespace {

/// Returns the element `index` that a rank sends: 1 or 2, so that products and sums stay small.
double element(int rank, std::size_t index) {
  return static_cast<double>((static_cast<std::size_t>(rank) + index) % 2 + 1);
}

double reduced(std::size_t index, int ranks, Reduction reduction, const NumberType& type) {
  double result = element(0, index);
  for (int rank = 1; rank < ranks; ++rank) {
    const double value = element(rank, index);
    switch (reduction) {
      case Reduction::kSum:
      case Reduction::kAverage:
        result += value;
        break;
      case Reduction::kProduct:
        result *= value;
        break;
      case Reduction::kMax:
        result = std::max(result, value);
        break;
      case Reduction::kMin:
        result = std::min(result, value);
        break;
    }
  }
  if (reduction != Reduction::kAverage) return result;
  return type.is_integer ? std::floor(result / ranks) : result / ranks;
}

}  // namespace

bool reduces(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter ||
         operation == Operation::kReduce;
}

Counts counts_of(Operation operation, std::size_t bytes, const NumberType& type, int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t all = bytes / type.bytes, part = all / n;
  switch (operation) {
    case Operation::kAllGather:
      return {.sent = part, .received = part * n, .given = part};
    case Operation::kReduceScatter:
      return {.sent = part * n, .received = part, .given = part};
    case Operation::kAllToAll:
      return {.sent = part * n, .received = part * n, .given = part};
    case Operation::kAllReduce:
    case Operation::kBroadcast:
    case Operation::kReduce:
    case Operation::kSendReceive:
      break;
  }
  return {.sent = all, .received = all, .given = all};
}

double bus_factor(Operation operation, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  switch (operation) {
    case Operation::kAllReduce:
      return 2 * others;
    case Operation::kAllGather:
    case Operation::kReduceScatter:
    case Operation::kAllToAll:
      return others;
    case Operation::kBroadcast:
    case Operation::kReduce:
    case Operation::kSendReceive:
      break;
  }
  return 1;
}

std::vector<double> sent_by(int rank, std::size_t count) {
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = element(rank, i);
  return numbers;
}

std::vector<double> expected_at(int rank, int ranks, int root, Operation operation,
                                Reduction reduction, const NumberType& type, const Counts& counts) {
  if (operation == Operation::kReduce && rank != root) return {};
  std::vector<double> numbers(counts.received);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t part = counts.given == 0 ? 0 : i / counts.given;
    const std::size_t within = counts.given == 0 ? 0 : i % counts.given;
    switch (operation) {
      case Operation::kAllReduce:
      case Operation::kReduce:
        numbers[i] = reduced(i, ranks, reduction, type);
        break;
      case Operation::kReduceScatter:
        numbers[i] =
            reduced(static_cast<std::size_t>(rank) * counts.given + i, ranks, reduction, type);
        break;
      case Operation::kAllGather:
        numbers[i] = element(static_cast<int>(part), within);
        break;
      case Operation::kAllToAll:
        numbers[i] =
            element(static_cast<int>(part), static_cast<std::size_t>(rank) * counts.given + within);
        break;
      case Operation::kBroadcast:
        numbers[i] = element(root, i);
        break;
      case Operation::kSendReceive:
        numbers[i] = element((rank + ranks - 1) % ranks, i);
        break;
    }
  }
  return numbers;
}

std::size_t count_wrong(const std::vector<double>& received, const std::vector<double>& expected,
                        const NumberType& type, int ranks) {
  const double step = type.is_integer ? 0 : std::ldexp(1.0, -type.mantissa_bits - 1) * ranks;
  std::size_t wrong = received.size() == expected.size() ? 0 : expected.size();
  for (std::size_t i = 0; i < std::min(received.size(), expected.size()); ++i) {
    // Written so that a number that is none is wrong.
    if (!(std::abs(received[i] - expected[i]) <= step * std::abs(expected[i]))) ++wrong;
  }
  return wrong;
}

}  // namespace gpemu::collectives
