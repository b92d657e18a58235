// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <charconv>

#include "gpemu/cost/operation_cost.hpp"

namespace gpemu::cost {
namespace {

using Elements = KernelTraits::Elements;

struct NamePart {
  std::string_view part;
  OperationClass operation_class;
  Elements elements;
  int tensors;
};

/// Parts of the mangled names of kernels in PyTorch, CUB and cutlass; the first that fits counts.
/// Source: the kernels in PyTorch's aten/src/ATen/native/cuda and their use of tensors.
constexpr std::array kNameParts = {
    NamePart{"multi_tensor_apply_kernel", OperationClass::kOptimizer, Elements::kFromChunks, 3},
    NamePart{"reduce_kernel", OperationClass::kReduction, Elements::kFromReduction, 1},
    NamePart{"elementwise_kernel", OperationClass::kElementwise, Elements::kFromFirstArgument, 3},
    NamePart{"fmha", OperationClass::kAttention, Elements::kFromThreads, 64},
    NamePart{"flash_", OperationClass::kAttention, Elements::kFromThreads, 64},
    NamePart{"gemm", OperationClass::kMatmul, Elements::kFromThreads, 64},
    NamePart{"batch_norm", OperationClass::kNormalization, Elements::kFromThreads, 3},
    NamePart{"layer_norm", OperationClass::kNormalization, Elements::kFromThreads, 8},
    NamePart{"LayerNorm", OperationClass::kNormalization, Elements::kFromThreads, 8},
    NamePart{"GroupNorm", OperationClass::kNormalization, Elements::kFromThreads, 8},
    NamePart{"RowwiseMoments", OperationClass::kNormalization, Elements::kFromThreads, 8},
    NamePart{"oftmax", OperationClass::kReduction, Elements::kFromThreads, 8},
    NamePart{"pool", OperationClass::kPooling, Elements::kFromThreads, 5},
    NamePart{"upsample", OperationClass::kPooling, Elements::kFromThreads, 5},
    NamePart{"conv_depthwise", OperationClass::kConvolution, Elements::kFromThreads, 12},
    NamePart{"RadixSort", OperationClass::kSorting, Elements::kFromThreads, 40},
    NamePart{"bitonicSort", OperationClass::kSorting, Elements::kFromThreads, 8},
    NamePart{"radixSort", OperationClass::kSorting, Elements::kFromThreads, 40},
    NamePart{"Scan", OperationClass::kReduction, Elements::kFromThreads, 24},
    NamePart{"scan", OperationClass::kReduction, Elements::kFromThreads, 24},
    NamePart{"topk", OperationClass::kSorting, Elements::kFromThreads, 16},
    NamePart{"TopK", OperationClass::kSorting, Elements::kFromThreads, 16},
    NamePart{"index", OperationClass::kIndexing, Elements::kFromThreads, 4},
    NamePart{"gather", OperationClass::kIndexing, Elements::kFromThreads, 4},
    NamePart{"scatter", OperationClass::kIndexing, Elements::kFromThreads, 4},
    NamePart{"embedding", OperationClass::kIndexing, Elements::kFromThreads, 8},
    NamePart{"CatArrayBatchedCopy", OperationClass::kCopy, Elements::kFromThreads, 8},
    NamePart{"distribution_", OperationClass::kElementwise, Elements::kFromThreads, 4},
    NamePart{"dropout", OperationClass::kElementwise, Elements::kFromThreads, 8},
    NamePart{"nll_loss", OperationClass::kReduction, Elements::kFromThreads, 2},
};

/// Returns the number behind `key` in a mangled name, e.g. 3 for "IPcLm" in "5arrayIPcLm3EE".
int number_behind(std::string_view name, std::string_view key, int otherwise) {
  const std::size_t found = name.find(key);
  if (found == std::string_view::npos) return otherwise;
  int number = otherwise;
  std::from_chars(name.data() + found + key.size(), name.data() + name.size(), number);
  return number;
}

}  // namespace

KernelTraits kernel_traits(std::string_view mangled_name) {
  KernelTraits traits;
  for (const NamePart& part : kNameParts) {
    if (mangled_name.find(part.part) == std::string_view::npos) continue;
    traits = {.operation_class = part.operation_class,
              .elements = part.elements,
              .tensors = part.tensors};
    break;
  }
  // PyTorch's element-wise kernels carry an array of pointers, one per tensor; its foreach and
  // fused kernels carry the depth of their lists.
  traits.tensors = number_behind(mangled_name, "ArrayIPcLi", traits.tensors);
  traits.tensors = number_behind(mangled_name, "arrayIPcLm", traits.tensors);
  traits.tensors = number_behind(mangled_name, "TensorListMetadataILi", traits.tensors);
  traits.tensors = number_behind(mangled_name, "TensorListScalarListMetadataI", traits.tensors);
  if (mangled_name.find("c104HalfE") != std::string_view::npos ||
      mangled_name.find("c108BFloat16E") != std::string_view::npos) {
    traits.element_bytes = 2;
  }
  return traits;
}

}  // namespace gpemu::cost
