// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpemu/cost/work_terms.hpp"

namespace gpemu::cost {

/// Products of matrices.
struct MatmulWork {
  double kernels = 1;      ///< one after the other.
  bool unaligned = false;  ///< its rows are no multiples of 16 bytes apart.

  template <typename T>
  [[nodiscard]] T seconds(const WorkTerms<T>& terms) const {
    const T* const parameters = terms.parameters;
    T share = parameters[kMatmul];
    if (unaligned) share = share * parameters[kMatmulUnaligned];
    const T latency =
        kernels > 1 ? T(parameters[kLatency] * kernels) : T(parameters[kMatmulLatency]);
    return latency + terms.together(terms.work.flops / (share * terms.work.peak_flops),
                                    terms.moved(parameters[kMatmulBandwidth]));
  }

  void add_parameters(const CommonWork& /*work*/, ParameterList& list) const {
    if (unaligned) list.add(kMatmulUnaligned);
    list.add(kernels > 1 ? kLatency : kMatmulLatency, kMatmul, kMatmulBandwidth, kApart);
  }
};

/// Both products of attention, and the softmax between them.
struct AttentionWork {
  template <typename T>
  [[nodiscard]] T seconds(const WorkTerms<T>& terms) const {
    return terms.parameters[kMatmulLatency] +
           terms.together(
               terms.work.flops / (terms.by_direction(kAttentionForward) * terms.work.peak_flops),
               terms.moved(terms.parameters[kMatmulBandwidth]));
  }

  void add_parameters(const CommonWork& work, ParameterList& list) const {
    list.add(kAttentionForward + work.direction, kMatmulBandwidth, kMatmulLatency, kApart);
  }
};

}  // namespace gpemu::cost
