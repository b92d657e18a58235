// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "gpemu/base/units.hpp"
#include "gpemu/kernels/kernel_name.hpp"

namespace gpemu::kernels {

/// The first argument of PyTorch's multi_tensor_apply_kernel: lists of tensors, and what each block
/// works on. One after the other: the tensors' addresses, list by list; their elements, which are
/// the same in all lists; what else each tensor has; each block's tensor; each block's chunk of it.
/// Source: the structs TensorListMetadata, TensorListScalarListMetadata and
/// FusedOptimizerTensorListMetadata in aten/src/ATen/native/cuda/MultiTensorApply.cuh.
struct TensorLists {
  /// The most elements that a block works on. Source: kChunkSize there.
  static constexpr Bytes kChunkElements = 65536;

  int lists = 0;
  Bytes most_tensors = 0, most_blocks = 0;  ///< that the argument has room for.
  Bytes tensor_bytes = 0;  ///< of what else a tensor has: a scalar, or the address of its step.
  Bytes number_bytes = 1;  ///< of a tensor's number.

  bool operator==(const TensorLists&) const = default;
};

/// Returns the layout that a kernel's first parameter has, by its type, e.g.
/// "at::native::(anonymous namespace)::TensorListMetadata<3>"; nothing if it is none of these.
/// Where the type leaves open whether the lists are long, `find_bytes` finds the parameter's size,
/// by which they are if it is above 4 KB; null: they are not.
[[nodiscard]] std::optional<TensorLists> tensor_lists(
    std::string_view type, const std::function<Bytes()>& find_bytes = nullptr);

/// Returns the type of the elements of the first list, by which the kernel's functor is a template,
/// e.g. "c10::Half"; empty if the name does not show it.
[[nodiscard]] std::string_view listed_type(const KernelName& name);

/// Lists in an argument. Requires: the argument lives as long.
class ListedTensors {
 public:
  ListedTensors(const TensorLists& layout, const void* argument)
      : layout_(layout), start_(static_cast<const std::byte*>(argument)) {}

  /// Requires: tensor < most_tensors, block < most_blocks, and so on.
  [[nodiscard]] std::uint64_t address(int list, Bytes tensor) const;
  [[nodiscard]] Bytes elements(Bytes tensor) const;
  [[nodiscard]] Bytes tensor_of(Bytes block) const;  ///< any number: the argument may be damaged.
  [[nodiscard]] Bytes chunk_of(Bytes block) const;

 private:
  [[nodiscard]] const std::byte* elements_start() const {
    return start_ +
           static_cast<Bytes>(layout_.lists) * layout_.most_tensors * sizeof(std::uint64_t);
  }
  [[nodiscard]] const std::byte* blocks_start() const {
    return elements_start() + layout_.most_tensors * (sizeof(std::int64_t) + layout_.tensor_bytes);
  }

  TensorLists layout_;
  const std::byte* start_;
};

}  // namespace gpemu::kernels
