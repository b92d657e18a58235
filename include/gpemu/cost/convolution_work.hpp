// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpemu/cost/work_terms.hpp"

namespace gpemu::cost {

/// A convolution without groups.
struct ConvolutionWork {
  std::int8_t factor = -1;      ///< parameter that multiplies the share of the peak; -1: none.
  bool last = false;            ///< in 16 bits, with the channels last in memory.
  double depth = 1;             ///< terms of an output element's sum.
  double activation_bytes = 0;  ///< of its input and output.
  double turned_bytes = 0;      ///< moved to put the channels of its operands last.
  /// With Winograd's algorithm; 0 if it cannot be used. With tiles of 2 x 2, in one kernel; with
  /// tiles of 4 x 4, transformed in memory, which multiplies the bytes by `transform`.
  double winograd_small_flops = 0;
  double winograd_large_flops = 0;
  double winograd_depth = 1;
  double transform = 0;

  void drop_bytes() { activation_bytes = turned_bytes = 0; }
  void drop_arithmetic() { winograd_large_flops = winograd_small_flops = 0; }

  template <typename T>
  [[nodiscard]] T seconds(const WorkTerms<T>& terms) const {
    const T* const parameters = terms.parameters;
    T share = terms.by_direction(kConvolutionForward);
    if (factor >= 0) share = share * parameters[factor];
    if (last) share = share * parameters[kConvolutionLast];
    T seconds =
        terms.work.flops / (share * terms.work.peak_flops) * (1.0 + parameters[kDepth] / depth);
    if (winograd_large_flops > 0) {
      const T overhead = 1.0 + parameters[kDepth] / winograd_depth;
      const T rate = terms.by_direction(kWinogradForward) * terms.gpu.fp32_flops;
      const T transforms =
          transform * activation_bytes / (parameters[kConvolutionBandwidth] * terms.gpu.bandwidth);
      seconds = std::min(seconds, T(winograd_large_flops / rate * overhead + transforms));
      if (winograd_small_flops > 0) {
        seconds = std::min(seconds, T(winograd_small_flops / rate * overhead));
      }
    }
    seconds += parameters[kConvolutionLatency] + terms.moved(parameters[kConvolutionBandwidth]);
    if (turned_bytes > 0) {
      seconds += turned_bytes / (parameters[kTurned] * terms.gpu.bandwidth);
    }
    return seconds;
  }

  void add_parameters(const CommonWork& work, ParameterList& list) const {
    if (factor >= 0) list.add(factor);
    if (last) list.add(kConvolutionLast);
    if (winograd_large_flops > 0) list.add(kWinogradForward + work.direction);
    if (turned_bytes > 0) list.add(kTurned);
    list.add(kConvolutionForward + work.direction, kDepth, kConvolutionBandwidth,
             kConvolutionLatency);
  }
};

/// A convolution with groups.
struct GroupedConvolutionWork {
  bool last = false;    ///< in 16 bits, with the channels last in memory.
  bool direct = false;  ///< it does not run on tensor cores.
  double depth = 1;     ///< terms of an output element's sum.
  double turned_bytes = 0;

  template <typename T>
  [[nodiscard]] T seconds(const WorkTerms<T>& terms) const {
    const T* const parameters = terms.parameters;
    if (direct) {
      return parameters[kConvolutionLatency] +
             terms.work.flops / (parameters[kGroupedLastData + terms.work.direction - 1] *
                                 terms.gpu.multiprocessors * terms.gpu.clock_hz) +
             terms.moved(parameters[kConvolutionBandwidth]);
    }
    T share = terms.by_direction(kConvolutionForward) * terms.by_direction(kGroupedForward);
    if (last) share = share * parameters[kConvolutionLast];
    return parameters[kConvolutionLatency] +
           terms.work.flops / (share * terms.work.peak_flops) * (1.0 + parameters[kDepth] / depth) +
           terms.moved(parameters[kConvolutionBandwidth]);
  }

  void add_parameters(const CommonWork& work, ParameterList& list) const {
    if (direct) {
      list.add(kGroupedLastData + work.direction - 1, kConvolutionBandwidth, kConvolutionLatency);
      return;
    }
    list.add(kGroupedForward + work.direction);
    if (last) list.add(kConvolutionLast);
    list.add(kConvolutionForward + work.direction, kDepth, kConvolutionBandwidth,
             kConvolutionLatency);
  }
};

/// A convolution with a group for each channel.
struct DepthwiseConvolutionWork {
  bool direct = false;  ///< in 16 bits, with the channels last in memory.

  template <typename T>
  [[nodiscard]] T seconds(const WorkTerms<T>& terms) const {
    return terms.parameters[kLatency] +
           terms.work.flops /
               (terms.by_direction(direct ? kDepthwiseLastForward : kDepthwiseForward) *
                terms.gpu.multiprocessors * terms.gpu.clock_hz) +
           terms.moved(terms.parameters[kConvolutionBandwidth]);
  }

  void add_parameters(const CommonWork& work, ParameterList& list) const {
    list.add((direct ? kDepthwiseLastForward : kDepthwiseForward) + work.direction,
             kConvolutionBandwidth, kLatency);
  }
};

}  // namespace gpemu::cost
