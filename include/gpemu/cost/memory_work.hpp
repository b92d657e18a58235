// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "gpemu/cost/work_terms.hpp"

namespace gpemu::cost {

/// Bytes that a multiprocessor moves per clock where each row of a normalization has its block.
/// Source: layer normalization of rows of 4096 in evidence/ours/h200/operations, 2.5 to 2.9 TB/s,
/// where element-wise kernels reach 4.2.
inline constexpr double kRowBytes = 11;

/// A normalization. Each row may have a block of threads.
struct NormalizationWork {
  double elements = 0;  ///< read or written.
  double rows = 0;      ///< each with its block of threads.
  double clocks = 0;    ///< what its slowest multiprocessor needs.
  double channels = 0;  ///< 0: not known.

  void drop_bytes() { elements = 0; }
  void drop_arithmetic() { clocks = 0; }

  template <typename T>
  [[nodiscard]] T seconds(const WorkTerms<T>& terms) const {
    const T* const parameters = terms.parameters;
    const T& latency = parameters[kLatency];
    if (rows > 0) {
      // Each row has a block: multiprocessors are the limit where they have much bandwidth.
      const T needed = terms.work.bytes / kRowBytes + rows * parameters[kNormalizationRow];
      return latency + std::max(terms.moved(parameters[kElementwise]),
                                T(needed / (terms.gpu.multiprocessors * terms.gpu.clock_hz)));
    }
    T seconds = latency + terms.moved(terms.by_direction(kNormalizationForward));
    if (channels > 0) {
      seconds += elements / channels / (parameters[kNormalizationBlock] * terms.gpu.clock_hz);
    }
    if (clocks > 0) seconds += clocks / terms.gpu.clock_hz;
    return seconds;
  }

  void add_parameters(const CommonWork& work, ParameterList& list) const {
    list.add(kLatency);
    if (rows > 0) {
      list.add(kElementwise, kNormalizationRow);
      return;
    }
    list.add(kNormalizationForward + work.direction);
    if (channels > 0) list.add(kNormalizationBlock);
  }
};

/// What moves elements, and calculates little.
struct StreamWork {
  OperationParameter share = kElementwise;  ///< of the memory's rate, or elements per clock.
  bool late = false;                        ///< a reduction.
  double elements = 0;                      ///< read or written; of pooling: compared.
  double reads_apart = 0;                   ///< of 32 bytes.

  void drop_bytes() { elements = 0; }

  /// Returns whether each element takes instructions, whatever its size, or its bytes take longer.
  [[nodiscard]] bool takes_instructions() const {
    return share == kBroadcast || share == kConcatenation || share == kPoolingForward;
  }

  template <typename T>
  [[nodiscard]] T seconds(const WorkTerms<T>& terms) const {
    const T* const parameters = terms.parameters;
    const T& latency = parameters[late ? kReductionLatency : kLatency];
    const double clocks_per_second = terms.gpu.multiprocessors * terms.gpu.clock_hz;
    // Caches serve a warp's elements one after the other where they lie apart.
    if (reads_apart > 0) {
      return latency + std::max(T(elements / (parameters[share] * clocks_per_second)),
                                T(reads_apart / (parameters[kApartReads] * clocks_per_second)));
    }
    if (share == kStrided || share == kConverted) {
      return latency + elements / (parameters[share] * clocks_per_second);
    }
    if (takes_instructions()) {
      return latency + std::max(T(elements / (parameters[share] * clocks_per_second)),
                                terms.moved(parameters[kElementwise]));
    }
    return latency + terms.moved(parameters[share]);
  }

  void add_parameters(const CommonWork& /*work*/, ParameterList& list) const {
    list.add(share);
    if (reads_apart > 0) {
      list.add(kApartReads);
    } else if (takes_instructions()) {
      list.add(kElementwise);
    }
    list.add(late ? kReductionLatency : kLatency);
  }
};

/// What is known by its bytes and its arithmetic alone.
struct OtherWork {
  template <typename T>
  [[nodiscard]] T seconds(const WorkTerms<T>& terms) const {
    return terms.parameters[kLatency] + std::max(T(terms.work.flops / terms.work.peak_flops),
                                                 terms.moved(terms.parameters[kElementwise]));
  }

  void add_parameters(const CommonWork& /*work*/, ParameterList& list) const {
    list.add(kElementwise, kLatency);
  }
};

}  // namespace gpemu::cost
