// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <variant>

#include "gpemu/cost/convolution_work.hpp"
#include "gpemu/cost/memory_work.hpp"
#include "gpemu/cost/product_work.hpp"
#include "gpemu/cost/work_terms.hpp"

namespace gpemu::cost {

/// The work of an operation on a GPU, with tiles and waves counted: everything that its time
/// depends on apart from the parameters. Each kind has what only it needs, its equation and its
/// parameters.
struct OperationWork : CommonWork {
  std::variant<OtherWork, ConvolutionWork, GroupedConvolutionWork, DepthwiseConvolutionWork,
               MatmulWork, AttentionWork, NormalizationWork, StreamWork>
      kind;

  /// Returns its part of that kind; null if it is of another one.
  template <typename Kind>
  [[nodiscard]] const Kind* as() const {
    return std::get_if<Kind>(&kind);
  }
  /// Returns whether it is of one of these kinds.
  template <typename... Kinds>
  [[nodiscard]] bool is() const {
    return (std::holds_alternative<Kinds>(kind) || ...);
  }
  [[nodiscard]] bool is_convolution() const {
    return is<ConvolutionWork, GroupedConvolutionWork, DepthwiseConvolutionWork>();
  }
  /// Leaves out what the bytes take. Kinds with bytes of their own have drop_bytes().
  void drop_bytes() {
    bytes = 0;
    std::visit(
        [](auto& its) {
          if constexpr (requires { its.drop_bytes(); }) its.drop_bytes();
        },
        kind);
  }
  /// Leaves out what the arithmetic takes. Kinds with some of their own have drop_arithmetic().
  void drop_arithmetic() {
    flops = 0;
    std::visit(
        [](auto& its) {
          if constexpr (requires { its.drop_arithmetic(); }) its.drop_arithmetic();
        },
        kind);
  }

  /// Returns whether its time depends on the kind of arithmetic.
  [[nodiscard]] bool depends_on_arithmetic() const {
    return is_convolution() || is<MatmulWork, AttentionWork>();
  }
};

}  // namespace gpemu::cost
