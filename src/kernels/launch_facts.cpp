// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/launch_facts.hpp"

#include <algorithm>
#include <functional>
#include <span>

namespace gpemu::kernels {
namespace {

/// Bytes of a number of tensors: products on tensor cores are of 16 bits mostly, others of 32.
double number_bytes(const LaunchFacts& facts) {
  return facts.arithmetic == LaunchFacts::Arithmetic::kTensorCores ? 2 : 4;
}

/// The most bytes that a thread reads or writes at each pointer. Chosen by hand: 8 times the 128
/// numbers of 4 bytes of a thread in Triton's product with tiles of 128 x 128 and 128 threads.
constexpr double kMostBytesPerThread = 4096;
/// The bytes that a thread moves at each pointer if no argument shows them: the widest access.
constexpr double kBytesPerThread = 16;
/// Integers count as the amount of work if they give at least so many elements per thread.
constexpr double kLeastElementsPerThread = 0.25;

/// Calls `visit` with each product of one, two or three integers at different places.
void for_each_product(std::span<const double> integers, const auto& visit) {
  for (std::size_t i = 0; i < integers.size(); ++i) {
    visit(integers[i]);
    for (std::size_t j = i + 1; j < integers.size(); ++j) {
      visit(integers[i] * integers[j]);
      for (std::size_t k = j + 1; k < integers.size(); ++k) {
        visit(integers[i] * integers[j] * integers[k]);
      }
    }
  }
}

/// Returns the largest product of integers that is no more than `most`, or 0.
double largest_product(std::span<const double> integers, double most) {
  double largest = 0;
  for_each_product(integers, [&](double product) {
    if (product <= most) largest = std::max(largest, product);
  });
  return largest;
}

double guess_bytes(const LaunchFacts& facts, double threads) {
  const std::span integers(facts.integers.data(), static_cast<std::size_t>(facts.integer_count));
  const std::span extents(facts.extents.data(), static_cast<std::size_t>(facts.pointers));
  const double each = number_bytes(facts);
  double told = 0, most_elements = 0, untold = 0;
  for (const double extent : extents) {
    const double elements =
        largest_product(integers, std::min(extent, threads * kMostBytesPerThread) / each);
    most_elements = std::max(most_elements, elements);
    told += elements * each;
    untold += std::min(extent, threads * kBytesPerThread);
  }
  // With a single pointer, the memory is changed in place: read and written.
  const double passes = facts.pointers == 1 ? 2 : 1;
  return passes * (most_elements >= threads * kLeastElementsPerThread ? told : untold);
}

/// Returns the arithmetic of a product of matrices whose three sizes are among the integers: the
/// largest whose operands and result fit into the memory of three pointers.
double guess_flops(const LaunchFacts& facts) {
  const int count = facts.integer_count;
  const bool multiplies = facts.arithmetic == LaunchFacts::Arithmetic::kMultiplies ||
                          facts.arithmetic == LaunchFacts::Arithmetic::kTensorCores;
  if (!multiplies || facts.pointers < 3) return 0;
  auto extents = facts.extents;
  std::sort(extents.begin(), extents.begin() + facts.pointers, std::greater());
  const double each = number_bytes(facts);
  double flops = 0;
  for (int i = 0; i < count; ++i) {
    for (int j = i + 1; j < count; ++j) {
      for (int k = j + 1; k < count; ++k) {
        std::array sizes = {facts.integers[i], facts.integers[j], facts.integers[k]};
        std::ranges::sort(sizes, std::greater());
        const auto [first, second, third] = sizes;
        const bool fits = first * second * each <= extents[0] &&
                          first * third * each <= extents[1] && second * third * each <= extents[2];
        if (fits) flops = std::max(flops, 2 * first * second * third);
      }
    }
  }
  return flops;
}

}  // namespace

GuessedWork guess_work(const LaunchFacts& facts, double threads) {
  return {.bytes = guess_bytes(facts, threads), .flops = guess_flops(facts)};
}

}  // namespace gpemu::kernels
