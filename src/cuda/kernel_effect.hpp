// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "gpemu/cuda.h"

#include "image.hpp"
#include "memory.hpp"
#include "mover.hpp"
#include "tensor_work.hpp"

namespace gpemu::cuda {

/// IntDivider<uint32_t>: the divisor, a factor and a shift. Source: IntegerDivider.cuh.
inline constexpr Bytes kDividerBytes = 12;

/// What a kernel of PyTorch does that moves elements as they are.
enum class Motion : std::uint8_t {
  kNone,
  kFlip,
  kIndex,
  kIndexPut,
  kIndexFill,
  kIndexCopy,
  kTake,
  kPut,
  kGather,
  kScatter,
  kScatterFill,
  kGatherRows,   ///< vectorized_gather_kernel.
  kSelect,       ///< index_select, embedding.
  kConcatenate,  ///< cat, stack.
  kSequence,     ///< arange, range: computed by the place.
};

/// What a kernel is known to write, by its name and its parameters. What is not computed reads as
/// zeros and is counted, for PyTorch's allocator uses memory again: never may the host read what
/// lay there before.
struct KernelEffect {
  enum class Kind : std::uint8_t {
    kNone,          ///< writes nothing that is known.
    kFill,          ///< PyTorch's fill: every element takes the functor's value.
    kElements,      ///< an element-wise kernel of PyTorch over contiguous tensors.
    kStrided,       ///< one over tensors of any strides.
    kReduction,     ///< PyTorch's reduce_kernel: its one or two results.
    kMultiTensor,   ///< PyTorch's kernel over lists of tensors.
    kParameters,    ///< what the pointers among the parameters lead to.
    kCountNonzero,  ///< CUB's reduction that counts, as PyTorch's nonzero does.
    kFindNonzero,   ///< CUB's selection of the places of what is not zero.
    kMotion,        ///< one that moves elements; `parameters`, where its arguments are others.
  };
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
    Bytes bytes_of_thread = 0;     ///< of a pointer in a known text: as in WrittenParameter.
    bool in_loop = false;          ///< the same.
  };

  Kind kind = Kind::kNone;
  WriterId writer = 0;
  std::uint32_t element_bytes = 4;  ///< of results.
  int tensors = 1;                  ///< of element-wise kernels; lists of multi-tensor kernels.
  int outputs = 1;                  ///< how many of these are written, from `output` on.
  int output = 0;
  int addresses_at = 2;          ///< of element-wise kernels: the argument with the addresses.
  bool in_place = false;         ///< multi-tensor: the outputs are changed in place.
  bool wide = false;             ///< multi-tensor: whether a tensor's number takes two bytes.
  Bytes most_tensors = 0;        ///< multi-tensor: in a list.
  Bytes before_blocks = 0;       ///< multi-tensor: from the tensors' sizes to what blocks work on.
  bool is_small = false;         ///< parameters: buffers are not as large as there are threads.
  bool counts_elements = false;  ///< parameters: argument 0 is the number of elements.
  std::uint8_t count_bytes = 4;
  std::optional<Formula> formula;  ///< of element-wise kernels: how to compute them.
  bool address_first = false;      ///< nonzero: of what the iterator holds.
  bool casts = false;              ///< element-wise: tensors are of types given at the launch.
  bool unscales = false;           ///< multiplies gradients and says whether all are finite.
  Reduction reduction = Reduction::kUnknown;
  NumberType input_type = NumberType::kUnknown;   ///< of a reduction, or of lists.
  NumberType output_type = NumberType::kUnknown;  ///< of a reduction.
  Motion motion = Motion::kNone;
  bool combines = false;  ///< motion: elements are added to what is there, or the like.
  NumberType index_type = NumberType::kInt64;  ///< motion.
  int dimensions = 0;                          ///< of cat.
  int most_tensors_of_cat = 0;
  int strided_tensors_of_cat = 0;            ///< as many, or 1 where all are contiguous.
  std::vector<std::uint32_t> read_pointers;  ///< arguments that the kernel's text reads from.
  std::vector<std::uint32_t> integers;       ///< the arguments that are integers of 4 bytes.
  std::vector<Parameter> parameters;
};

/// What is known of a kernel besides its name.
struct CodeFacts {
  std::vector<ParameterPlace> places;  ///< of its parameters.
  std::string_view ptx;                ///< what it was made of; may be empty.
};

/// Asked only where a name leaves the sizes of parameters open, for it takes milliseconds.
using FindCode = std::function<CodeFacts()>;

/// Analyses a mangled name. Takes tens of microseconds, for the names are long.
[[nodiscard]] KernelEffect kernel_effect(std::string_view mangled_name, const FindCode& find_code);

/// What one launch does to memory; holds for the launches of a graph, too.
struct KernelWork {
  struct Range {
    std::uint64_t address = 0;
    Bytes bytes = 0;
    Uncomputed how = Uncomputed::kWritten;
  };
  WriterId writer = 0;
  /// Whether it is done as soon as it is described: what is not known now will not be then.
  bool at_once = false;
  std::vector<Range> ranges;
  /// Computes the values instead, if what it reads is known. Returns whether it did; null: nothing
  /// is known of the values.
  std::function<bool()> compute;
  std::vector<Access> reads;       ///< of `compute`.
  std::uint64_t fill_address = 0;  ///< 0: nothing is filled.
  Bytes fill_count = 0;
  std::vector<std::byte> fill_value;
};

/// Adds a range that a launch writes. One of which the end is not known goes to the end of the unit
/// in which PyTorch's allocator gives memory out. Source: kMinBlockSize in
/// CUDACachingAllocator.cpp.
void add_range(KernelWork* work, std::uint64_t address, Bytes bytes, Uncomputed how);

/// Finds out what a launch does from its arguments, which may be gone later.
void describe_work(const KernelEffect& effect, const gpemu_cuda_launch& launch, KernelWork* work);

/// Returns work that may read and write any memory: which, `compute` finds out.
[[nodiscard]] KernelWork work_on_anything(WriterId writer);

/// Does it to the memory, as far as that lies on a device.
void perform(const KernelWork& work);

/// As perform, without waiting for what is under way. For the `compute` of other work.
void perform_now(const KernelWork& work);

/// Both at once.
void perform_launch(const KernelEffect& effect, const gpemu_cuda_launch& launch);

}  // namespace gpemu::cuda
