// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <regex>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
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

/// What find_steps looks for.
struct StepSearch {
  /// Matches the name of an operation or range that comes once in a step; null: none is given.
  const std::regex* pattern = nullptr;
  bool complete = true;  ///< whether the program has ended well; else only what is certain is told.
};

/// Finds the steps of a program. Work is taken to go around in a circle, so where a step begins
/// does not matter. What follows the program's last cudaProfilerStart counts, if there is one. The
/// first of these that answers does:
///
/// 1. the pattern, if one is given: a step goes from one match to the next.
/// 2. NVTX ranges whose name begins with the word step, iter, iteration, batch, train or
///    profilerstep: from one begin to the next.
/// 3. the optimizer's work: kernels over lists of tensors, with matrix products, convolutions,
///    attention or recurrent layers in between. Groups of them that differ, as those of two
///    networks that train in turns, make up one step together, if they recur in turns.
/// 4. where no optimizer works on lists, the shortest sequence of operations that recurs, three
///    times or more. Until the program has ended well, only once it has made up some 20000
///    operations: a network's equal layers recur, too.
///
/// Errors: kNotFound when there are no steps, with what to do.
[[nodiscard]] Result<FoundSteps> find_steps(const record::ProgramWork& work,
                                            const StepSearch& search);

/// Steps at the beginning that are left out: libraries choose algorithms, and memory is allocated.
inline constexpr int kWarmUpSteps = 2;

/// Returns the step that stands for all: of up to `count` steps after the first ones, the one of
/// median time on the GPU that it was recorded on. Requires: there is a step.
[[nodiscard]] StepRange typical_step(const record::ProgramWork& work, const FoundSteps& found,
                                     int count);

}  // namespace gpemu::predict
