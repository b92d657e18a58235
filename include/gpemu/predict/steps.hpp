// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/predict/name_pattern.hpp"
#include "gpemu/record/program_work.hpp"

namespace gpemu::predict {

/// Events of one training step: from `begin` to before `end`.
struct StepRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// How step boundaries were recognised.
enum class StepSign : std::uint8_t { kPattern, kRanges, kOptimizer, kSequence };
inline constexpr std::array<std::string_view, 4> kStepSignNames = {
    "the given pattern", "NVTX ranges", "the optimizer's work",
    "the sequence of operations that recurs"};

/// The steps of a program.
struct FoundSteps {
  StepSign sign = StepSign::kPattern;
  std::vector<StepRange> steps;  ///< whole ones, in their order.
};

/// How find_steps searches.
struct StepSearch {
  /// Matches the name of an operation or range that occurs once per step; null: none is given.
  const NamePattern* pattern = nullptr;
  /// Whether the program ended without an error; else only certain steps are reported.
  bool complete = true;
};

/// Finds the steps of a program. Work is taken to be cyclic, so it does not matter where a step
/// begins. If the program calls cudaProfilerStart, only work after the last call counts. The first
/// of these signs that is present decides:
///
/// 1. the pattern, if one is given: a step goes from one match to the next.
/// 2. NVTX ranges whose name begins with the word step, iter, iteration, batch, train or
///    profilerstep: from one begin to the next.
/// 3. the optimizer's work: kernels over lists of tensors, with matrix products, convolutions,
///    attention or recurrent layers in between. Different groups that alternate, as with two
///    networks that train in turns, together make up one step.
/// 4. if no optimizer works on lists, the shortest sequence of operations that repeats, three times
///   or more. While the program has not ended without an error, the repetitions must make up some
///   20000 operations, because equal layers of a network repeat as well.
///
/// Errors: kNotFound if there are no steps; the message says what to do.
[[nodiscard]] Result<FoundSteps> find_steps(const record::ProgramWork& work,
                                            const StepSearch& search);

/// Steps at the beginning that are left out, because libraries choose algorithms and memory is
/// allocated.
inline constexpr int kWarmUpSteps = 2;

/// Returns the step that represents all: among up to `count` steps after the warm-up, the one with
/// the median time on the GPU of the recording. Requires: there is a step.
[[nodiscard]] StepRange typical_step(const record::ProgramWork& work, const FoundSteps& found,
                                     int count);

}  // namespace gpemu::predict
