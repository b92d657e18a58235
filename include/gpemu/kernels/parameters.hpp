// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/code_facts.hpp"
#include "gpemu/kernels/element_count.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/ptx.hpp"
#include "gpemu/kernels/pytorch/known_writes.hpp"

namespace gpemu::kernels {

/// The memory to which a kernel's pointer parameters lead, if nothing else is known about the
/// kernel.
struct ParametersEffect {
  /// A parameter that leads to memory which the kernel may write.
  struct Parameter {
    enum class Kind : std::uint8_t {
      kPointer,
      kPointers,    ///< to an array of addresses of matrices, as MAGMA's kernels take them.
      kAccessor,    ///< PyTorch's: an address, sizes, strides.
      kTensorInfo,  ///< PyTorch's: the same for up to 25 dimensions.
      kWords,       ///< a struct of which only the size is known; each word may be an address.
    };
    Kind kind = Kind::kPointer;
    Uncomputed how = Uncomputed::kBounded;
    std::uint8_t index_bytes = 8;
    std::uint32_t argument = 0;
    std::uint32_t element_bytes = 4;
    std::uint32_t dimensions = 0;  ///< of an accessor.
    std::uint32_t bytes = 0;       ///< of words.
    /// Of known kernels: the elements behind a pointer, and a further dimension of a tensor.
    std::optional<ElementCount> count, size, stride;
  };

  std::vector<IntegerArgument> integers;
  std::vector<Parameter> parameters;
  std::vector<std::uint32_t> inputs;  ///< arguments that begin with the address of what is read.
  /// Indices that a known kernel checks, with the types of these and of two arguments.
  struct Check {
    KnownCheck check;
    NumberType type = NumberType::kInt64;
    std::uint8_t size_bytes = 8, ignored_bytes = 8;
    Parameter tensor{};  ///< without a count: of the indices.
  };
  std::vector<Check> checks;
};

/// Whether the name leaves the size of a parameter open.
[[nodiscard]] bool has_unsized(const KernelName& name);

/// Returns the parameters through which a kernel writes, if it is one that is known.
[[nodiscard]] std::optional<ParametersEffect> known_parameters(const KernelName& name,
                                                               const FindCode& find_code);

/// Reads the parameters by their types; `places` may be empty. Returns nothing if none leads to
/// written memory.
[[nodiscard]] std::optional<ParametersEffect> parameters_effect(
    const KernelName& name, const std::vector<ParameterPlace>& places);

void describe_parameters(const ParametersEffect& effect, const Launch& launch, KernelWork* work);

/// Returns those of a launch's integers that may be sizes.
[[nodiscard]] std::vector<Bytes> integers_of(const std::vector<IntegerArgument>& arguments,
                                             const gpemu_cuda_launch& launch);

/// Returns the product of the integers for which a grid has just enough blocks, one thread for each
/// element, or 0 if there are none.
[[nodiscard]] Bytes elements_of_grid(const std::vector<Bytes>& integers,
                                     const gpemu_cuda_launch& launch);

}  // namespace gpemu::kernels
