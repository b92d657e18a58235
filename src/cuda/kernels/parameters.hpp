// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "gpemu/cuda.h"

#include "image.hpp"
#include "kernel_memory.hpp"
#include "kernels/kernel_name.hpp"
#include "kernels/kernel_work.hpp"

namespace gpemu::cuda {

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
    Uncomputed how = Uncomputed::kOpen;
    std::uint8_t index_bytes = 8;
    std::uint32_t argument = 0;
    std::uint32_t element_bytes = 4;
    std::uint32_t dimensions = 0;  ///< of an accessor.
    std::uint32_t bytes = 0;       ///< of words.
  };

  bool is_small = false;         ///< buffers are not as large as there are threads.
  bool counts_elements = false;  ///< argument 0 is the number of elements.
  std::uint8_t count_bytes = 4;
  std::vector<std::uint32_t> integers;  ///< the arguments that are integers of 4 bytes.
  std::vector<Parameter> parameters;
};

/// Whether the name leaves the size of a parameter open.
[[nodiscard]] bool has_unsized(const KernelName& name);

/// Reads the parameters by their types; `places` may be empty. Returns nothing if none leads to
/// written memory.
[[nodiscard]] std::optional<ParametersEffect> parameters_effect(
    const KernelName& name, const std::vector<ParameterPlace>& places);

void describe_parameters(const ParametersEffect& effect, const gpemu_cuda_launch& launch,
                         KernelWork* work);

/// Returns those of a launch's 4-byte integers that may be sizes.
[[nodiscard]] std::vector<Bytes> integers_of(const std::vector<std::uint32_t>& arguments,
                                             const gpemu_cuda_launch& launch);

}  // namespace gpemu::cuda
