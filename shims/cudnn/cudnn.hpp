// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "abi.hpp"
#include "handle_table.hpp"
#include "library_types.hpp"
#include "library_work.hpp"
#include "shim.hpp"

/// What a cudnnHandle_t holds.
struct Context {
  gpemu_cuda_stream_handle stream = nullptr;
};

struct Tensor {
  int data_type = 0;
  std::vector<int> sizes, strides;
};

struct Filter {
  int data_type = 0, format = 0;
  std::vector<int> sizes;
};

struct Convolution {
  std::vector<int> padding, stride, dilation;
  int mode = 0, compute_type = 0, math_type = 0, groups = 1;
};

struct Pooling {
  int mode = 0;
  std::vector<int> window, padding, stride;
};

struct Activation {
  int mode = 0;
  double coefficient = 0;
};

struct Dropout {
  float probability = 0;
};

struct CtcLoss {
  int compute_type = 0;
};

struct SpatialTransformer {
  int data_type = 0;
  std::vector<int> sizes;
};

struct Rnn {
  int cell = 0, bias_mode = kDoubleBias, direction = 0, data_type = 0;
  int input = 0, hidden = 0, projection = 0, layers = 0;
};

struct RnnData {
  int data_type = 0, sequence = 0, batch = 0, vector = 0;
  int64_t steps = 0;  ///< of all sequences that are in memory
};

/// Returns the type that a cudnnDataType_t names.
gpemu_data_type type_of(int data_type);

/// Returns the cudnnStatus_t for a status of libgpemu.
int status_of(gpemu_cuda_status status);

/// Returns the current device; null if there is none.
const gpemu_cuda_device* current_device();

/// Returns the product of sizes.
template <typename Integer>
double elements_of(const std::vector<Integer>& sizes) {
  double elements = sizes.empty() ? 0 : 1;
  for (const Integer size : sizes) {
    elements *= times(size);
  }
  return elements;
}

/// Returns whether a caller left out a pointer that a function requires.
inline bool any_null(std::initializer_list<const void*> pointers) {
  return std::ranges::any_of(pointers, [](const void* pointer) { return pointer == nullptr; });
}

/// Returns an operation with its shape.
gpemu_operation make_operation(const char* name, gpemu_operation_kind kind, gpemu_data_type type,
                               std::initializer_list<int64_t> shape);

/// Puts an operation on a stream.
int submit(const Context& context, const gpemu_operation& operation);

/// A tensor that a call writes. Without strides, its elements follow each other.
struct Written {
  const void* elements;
  int data_type;
  std::vector<int64_t> sizes, strides = {};
  bool updates = false;  ///< it is changed in place
  bool ragged = false;   ///< which of its elements are in memory is not known
};

/// Returns a tensor of the older interface that a call writes; an empty one for no descriptor.
Written written_tensor(const void* descriptor, const void* elements, bool updates = false);

/// Ends a call whose results are not computed, unless it failed with `status`. Results without an
/// address are left out: callers do not want them.
int leave_uncomputed(int status, const Context& context, const char* name,
                     std::initializer_list<Written> results);

/// A convolution's tensors in the form that the graph interface and the older one share: batch,
/// channels, then one to three spatial dimensions.
struct ConvolutionShape {
  std::vector<int64_t> input, filter, output;
  std::vector<int64_t> stride, dilation;
  int64_t groups = 0;  // 0: by the channels of input and filter
  bool channels_last = false;
};

/// Describes a convolution; false if the tensors do not fit together.
bool describe_convolution(const ConvolutionShape& shape, gpemu_operation* operation);

/// The workspace that cuDNN asks its callers for. The first engine that heuristics choose is an
/// implicit GEMM, which needs none; torch.cuda.max_memory_allocated of training convolutional
/// networks shows none either (the measured rows of GPEmu's database exclude workspaces
/// altogether).
constexpr uint64_t kConvolutionWorkspaceBytes = 0;
