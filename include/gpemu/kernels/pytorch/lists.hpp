// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "gpemu/cuda.h"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/code_facts.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"
#include "gpemu/kernels/number.hpp"
#include "gpemu/kernels/tensor_lists.hpp"

namespace gpemu::kernels {

/// PyTorch's kernel over lists of tensors (multi_tensor_apply_kernel).
struct ListsEffect {
  std::uint32_t element_bytes = 4;  ///< of results.
  int outputs = 1;                  ///< how many lists are written, from `output` on.
  int output = 0;
  bool in_place = true;   ///< the outputs are changed in place.
  bool unscales = false;  ///< multiplies gradients and says whether all are finite.
  bool copies = false;    ///< copies the first list to the second, of the same type.
  NumberType type = NumberType::kUnknown;  ///< of the results.
  TensorLists layout;
};

/// Returns nothing if the lists are not as expected.
[[nodiscard]] std::optional<ListsEffect> lists_effect(const KernelName& name,
                                                      const FindCode& find_code);

void describe_lists(const ListsEffect& effect, const Launch& launch, KernelWork* work);

}  // namespace gpemu::kernels
