// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "gpemu/cuda.h"
#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_work.hpp"

namespace gpemu::kernels {

/// A kernel of PyTorch that moves many tensors at once, and finds in device memory where they are.
/// FSDP unpacks the parameters that it has gathered with one, and packs the gradients that it is
/// about to reduce with the other.
enum class PackedEffect : std::uint8_t {
  kSplit,     ///< split_with_sizes_copy.
  kChunkCat,  ///< _chunk_cat.
};

/// Recognises one. Returns nothing for other kernels.
[[nodiscard]] std::optional<PackedEffect> packed_effect(const KernelName& name);

void describe_packed(PackedEffect effect, const Launch& launch, KernelWork* work);

}  // namespace gpemu::kernels
