// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpemu/kernels/memory.hpp"
#include "gpemu/kernels/places.hpp"
#include "gpemu/kernels/pytorch/formula.hpp"

namespace gpemu::kernels {

/// The most elements of a tensor for which values are computed: some 0.2 ms of a core.
inline constexpr std::int64_t kMostElements = std::int64_t{64} * 1024;

struct TensorView {
  std::uint64_t address = 0;
  NumberType type = NumberType::kUnknown;  ///< in memory.
  Places places;
};

/// An element-wise kernel: tensor 0 is the result.
struct ElementWork {
  Formula formula;
  FunctorState state;
  std::array<TensorView, 4> tensors;
};

/// Computes it if all inputs are known and the tensors are small. Returns whether it did.
[[nodiscard]] bool compute_elements(const ElementWork& work, Memory& memory);

/// Elements that are moved unchanged, between places that a tensor of indices may shift.
struct ElementMove {
  struct Index {
    std::uint64_t address = 0;
    NumberType type = NumberType::kInt64;
    Places places;          ///< one for each element moved.
    std::int64_t size = 0;  ///< of what is indexed.
    bool wraps = true;      ///< negative indices count from its end.
    Bytes step = 0;         ///< bytes from one index to the next.
  };
  Bytes element_bytes = 0;
  std::uint64_t to = 0, from = 0;
  Places to_places, from_places;  ///< of as many elements.
  std::vector<std::byte> value;   ///< of every element, where `from` is 0.
  std::vector<Index> indices;
  bool shifts_target = false;  ///< whether indices shift the target, and not the source.
};

/// As compute_elements.
[[nodiscard]] bool compute_move(const ElementMove& move, Memory& memory);

/// Numbers from a first one, a step apart.
struct Sequence {
  std::uint64_t address = 0;
  Bytes count = 0;
  NumberType type = NumberType::kUnknown;
  NumberType work_type = NumberType::kUnknown;  ///< that it is computed in.
  Number first, step;
};

/// Computes it if it is small. Returns whether it did.
[[nodiscard]] bool compute_sequence(const Sequence& sequence, Memory& memory);

/// Gradients that are multiplied in place, and the FP32 flag that shows whether one is not finite:
/// 0 or 1.
struct Unscale {
  struct Piece {
    std::uint64_t address = 0;
    Bytes bytes = 0;
  };
  NumberType type = NumberType::kUnknown;
  std::vector<Piece> gradients;
  std::uint64_t found = 0;   ///< the flag's address; unchanged if all are finite.
  std::uint64_t factor = 0;  ///< in FP32.
};

/// As compute_elements.
[[nodiscard]] bool compute_unscale(const Unscale& unscale, Memory& memory);

enum class Reduction : std::uint8_t {
  kSum,
  kMean,  ///< times the factor.
  kProduct,
  kMaximum,
  kMinimum,
  kAll,
  kAny,
  kArgMaximum,
  kArgMinimum,
  kMaximumWithPlace,  ///< a second result takes the place.
  kMinimumWithPlace,
  kMinimumAndMaximum,  ///< a second result takes the maximum.
  kUnknown,
};

/// Reads the reduction of a ReduceOp from its operation's demangled name.
[[nodiscard]] Reduction read_reduction(std::string_view operations);

struct ReductionWork {
  Reduction reduction = Reduction::kUnknown;
  double factor = 1;
  std::uint64_t input = 0;
  std::array<std::uint64_t, 2> outputs{};
  NumberType input_type = NumberType::kUnknown;
  NumberType output_type = NumberType::kUnknown;
  Places within;        ///< inputs of one output.
  Places input_places;  ///< of each output's first input.
  Places output_places;
};

/// As compute_elements.
[[nodiscard]] bool compute_reduction(const ReductionWork& work, Memory& memory);

}  // namespace gpemu::kernels
