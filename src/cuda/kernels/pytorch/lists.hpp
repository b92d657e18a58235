// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "gpemu/cuda.h"

#include "kernels/code_facts.hpp"
#include "kernels/kernel_name.hpp"
#include "kernels/kernel_work.hpp"
#include "kernels/number.hpp"

namespace gpemu::cuda {

/// PyTorch's kernel over lists of tensors (multi_tensor_apply_kernel).
struct ListsEffect {
  std::uint32_t element_bytes = 4;  ///< of results.
  int tensors = 1;                  ///< lists.
  int outputs = 1;                  ///< how many of these are written, from `output` on.
  int output = 0;
  bool in_place = true;     ///< the outputs are changed in place.
  bool wide = false;        ///< whether a tensor's number takes two bytes.
  Bytes most_tensors = 0;   ///< in a list.
  Bytes before_blocks = 0;  ///< from the tensors' sizes to what blocks work on.
  bool unscales = false;    ///< multiplies gradients and says whether all are finite.
  bool copies = false;      ///< copies the first list to the second, of the same type.
  NumberType type = NumberType::kUnknown;  ///< of the results.
};

/// Returns nothing if the lists are not as expected.
[[nodiscard]] std::optional<ListsEffect> lists_effect(const KernelName& name,
                                                      const FindCode& find_code);

void describe_lists(const ListsEffect& effect, const gpemu_cuda_launch& launch, KernelWork* work);

}  // namespace gpemu::cuda
