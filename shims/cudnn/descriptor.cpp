// SPDX-License-Identifier: Apache-2.0
// Descriptors of the older interface.
#include <algorithm>
#include <initializer_list>
#include <limits>
#include <memory>
#include <numeric>

#include "cudnn.hpp"

namespace {

template <typename Kind>
int create(void** descriptor) {
  if (descriptor == nullptr) {
    return kNullPointer;
  }
  *descriptor = alive<Kind>().add(std::make_unique<Kind>());
  return kSuccess;
}

// Destroying a null descriptor is not an error.
template <typename Kind>
int destroy(const void* descriptor) {
  return descriptor == nullptr || alive<Kind>().remove(descriptor) ? kSuccess : kBadParam;
}

bool are_sizes(const int* sizes, int count) {
  return sizes != nullptr && count > 0 && count <= kMaxDimensions &&
         std::all_of(sizes, sizes + count, [](int size) { return size > 0; });
}

/// Returns whether a tensor spans more elements than the 2^31 - 1 that an int can address, gaps
/// included. Source: cuDNN, cudnnSetTensor4dDescriptorEx.
bool is_too_large(const std::vector<int>& sizes, const std::vector<int>& strides) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t steps = int64_t{sizes[i]} - 1;
    if (__builtin_add_overflow(last, steps * strides[i], &last)) {
      return true;
    }
  }
  return last >= std::numeric_limits<int>::max();
}

int set_tensor(void* descriptor, int data_type, std::vector<int> sizes, std::vector<int> strides) {
  Tensor* const tensor = find_object<Tensor>(descriptor);
  if (tensor == nullptr || type_of(data_type) == GPEMU_TYPE_UNKNOWN ||
      !are_sizes(sizes.data(), static_cast<int>(sizes.size())) ||
      std::ranges::any_of(strides, [](int stride) { return stride < 0; })) {
    return kBadParam;
  }
  if (is_too_large(sizes, strides)) {
    return kUnsupported;
  }
  *tensor = {data_type, std::move(sizes), std::move(strides)};
  return kSuccess;
}

int set_filter(void* descriptor, int data_type, int format, std::vector<int> sizes) {
  Filter* const filter = find_object<Filter>(descriptor);
  if (filter == nullptr || type_of(data_type) == GPEMU_TYPE_UNKNOWN || format < 0 ||
      format > kLastFormat || !are_sizes(sizes.data(), static_cast<int>(sizes.size()))) {
    return kBadParam;
  }
  *filter = {data_type, format, std::move(sizes)};
  return kSuccess;
}

std::vector<int> packed_strides(const std::vector<int>& sizes) {
  std::vector<int> strides(sizes.size(), 1);
  for (size_t i = sizes.size() - 1; i > 0; --i) {
    strides[i - 1] = strides[i] * sizes[i];
  }
  return strides;
}

/// Checks that strides of packed elements are representable. Source: cuDNN,
/// cudnnTensorDescriptor_t: a tensor has at most 2 giga-elements.
int check_packed(std::initializer_list<int> sizes) {
  int elements = 1;
  for (const int size : sizes) {
    if (size <= 0) {
      return kBadParam;
    }
    if (__builtin_mul_overflow(elements, size, &elements)) {
      return kUnsupported;
    }
  }
  return kSuccess;
}

int set_dropout(void* descriptor, const void* handle, float probability) {
  Dropout* const dropout = find_object<Dropout>(descriptor);
  if (dropout == nullptr || find_object<Context>(handle) == nullptr || probability < 0 ||
      probability > 1) {
    return kBadParam;
  }
  dropout->probability = probability;
  return kSuccess;
}

// States of the random numbers: one for each thread that the device can run at once.
uint64_t dropout_states_bytes() {
  int32_t device = 0;
  const gpemu_cuda_device* info = nullptr;
  if (gpemu_cuda_current_device(&device) != GPEMU_CUDA_SUCCESS ||
      gpemu_cuda_get_device(device, &info) != GPEMU_CUDA_SUCCESS) {
    return 0;
  }
  return kPhiloxStateBytes * static_cast<uint64_t>(info->multiprocessors) *
         static_cast<uint64_t>(info->max_threads_per_multiprocessor);
}

}  // namespace

#define DESCRIPTOR(Kind, name)                                             \
  GPEMU_SHIM_EXPORT int cudnnCreate##name##Descriptor(void** descriptor) { \
    return create<Kind>(descriptor);                                       \
  }                                                                        \
  GPEMU_SHIM_EXPORT int cudnnDestroy##name##Descriptor(void* descriptor) { \
    return destroy<Kind>(descriptor);                                      \
  }
DESCRIPTOR(Tensor, Tensor)
DESCRIPTOR(Filter, Filter)
DESCRIPTOR(Convolution, Convolution)
DESCRIPTOR(Pooling, Pooling)
DESCRIPTOR(Activation, Activation)
DESCRIPTOR(Dropout, Dropout)
DESCRIPTOR(CtcLoss, CTCLoss)
DESCRIPTOR(SpatialTransformer, SpatialTransformer)
DESCRIPTOR(Rnn, RNN)
DESCRIPTOR(RnnData, RNNData)

// ---- Tensors and filters ----

GPEMU_SHIM_EXPORT int cudnnSetTensorNdDescriptor(void* descriptor, int data_type, int count,
                                                 const int* sizes, const int* strides) {
  if (count > kMaxDimensions) {
    return kUnsupported;
  }
  if (!are_sizes(sizes, count) || strides == nullptr) {
    return kBadParam;
  }
  return set_tensor(descriptor, data_type, {sizes, sizes + count}, {strides, strides + count});
}

GPEMU_SHIM_EXPORT int cudnnSetTensor4dDescriptorEx(void* descriptor, int data_type, int n, int c,
                                                   int h, int w, int n_stride, int c_stride,
                                                   int h_stride, int w_stride) {
  return set_tensor(descriptor, data_type, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride});
}

GPEMU_SHIM_EXPORT int cudnnSetTensor4dDescriptor(void* descriptor, int format, int data_type, int n,
                                                 int c, int h, int w) {
  if (format < 0 || format > kLastFormat) {
    return kBadParam;
  }
  if (const int status = check_packed({n, c, h, w}); status != kSuccess) {
    return status;
  }
  if (format == kNhwc) {
    return set_tensor(descriptor, data_type, {n, c, h, w}, {h * w * c, 1, w * c, c});
  }
  return set_tensor(descriptor, data_type, {n, c, h, w}, packed_strides({n, c, h, w}));
}

GPEMU_SHIM_EXPORT int cudnnGetTensorNdDescriptor(void* descriptor, int requested, int* data_type,
                                                 int* count, int* sizes, int* strides) {
  const Tensor* const tensor = find_object<Tensor>(descriptor);
  if (tensor == nullptr || requested < 0 || requested > kMaxDimensions || data_type == nullptr ||
      count == nullptr || sizes == nullptr || strides == nullptr) {
    return kBadParam;
  }
  *data_type = tensor->data_type;
  *count = static_cast<int>(tensor->sizes.size());
  const auto n = std::min(static_cast<size_t>(requested), tensor->sizes.size());
  std::copy_n(tensor->sizes.begin(), n, sizes);
  std::copy_n(tensor->strides.begin(), std::min(n, tensor->strides.size()), strides);
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnSetFilterNdDescriptor(void* descriptor, int data_type, int format,
                                                 int count, const int* sizes) {
  if (count > kMaxDimensions) {
    return kUnsupported;
  }
  if (!are_sizes(sizes, count)) {
    return kBadParam;
  }
  return set_filter(descriptor, data_type, format, {sizes, sizes + count});
}

GPEMU_SHIM_EXPORT int cudnnSetFilter4dDescriptor(void* descriptor, int data_type, int format, int k,
                                                 int c, int h, int w) {
  return set_filter(descriptor, data_type, format, {k, c, h, w});
}

GPEMU_SHIM_EXPORT int cudnnGetFilterNdDescriptor(void* descriptor, int requested, int* data_type,
                                                 int* format, int* count, int* sizes) {
  const Filter* const filter = find_object<Filter>(descriptor);
  if (filter == nullptr || requested < 0 || requested > kMaxDimensions || data_type == nullptr ||
      format == nullptr || count == nullptr || sizes == nullptr) {
    return kBadParam;
  }
  *data_type = filter->data_type;
  *format = filter->format;
  *count = static_cast<int>(filter->sizes.size());
  const auto n = std::min(static_cast<size_t>(requested), filter->sizes.size());
  std::copy_n(filter->sizes.begin(), n, sizes);
  return kSuccess;
}

// ---- Convolutions, pooling, activation ----

GPEMU_SHIM_EXPORT int cudnnSetConvolutionNdDescriptor(void* descriptor, int count,
                                                      const int* padding, const int* stride,
                                                      const int* dilation, int mode,
                                                      int compute_type) {
  if (count > kMaxDimensions) {
    return kUnsupported;
  }
  Convolution* const convolution = find_object<Convolution>(descriptor);
  if (convolution == nullptr || padding == nullptr || !are_sizes(stride, count) ||
      !are_sizes(dilation, count) || mode < 0 || mode > kLastConvolutionMode ||
      type_of(compute_type) == GPEMU_TYPE_UNKNOWN ||
      std::any_of(padding, padding + count, [](int size) { return size < 0; })) {
    return kBadParam;
  }
  convolution->padding.assign(padding, padding + count);
  convolution->stride.assign(stride, stride + count);
  convolution->dilation.assign(dilation, dilation + count);
  convolution->mode = mode;
  convolution->compute_type = compute_type;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnSetConvolution2dDescriptor(void* descriptor, int pad_h, int pad_w,
                                                      int stride_h, int stride_w, int dilation_h,
                                                      int dilation_w, int mode, int compute_type) {
  const int padding[] = {pad_h, pad_w};
  const int stride[] = {stride_h, stride_w};
  const int dilation[] = {dilation_h, dilation_w};
  return cudnnSetConvolutionNdDescriptor(descriptor, 2, padding, stride, dilation, mode,
                                         compute_type);
}

GPEMU_SHIM_EXPORT int cudnnSetConvolutionGroupCount(void* descriptor, int groups) {
  Convolution* const convolution = find_object<Convolution>(descriptor);
  if (convolution == nullptr || groups < 1) {
    return kBadParam;
  }
  convolution->groups = groups;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnSetConvolutionMathType(void* descriptor, int math_type) {
  Convolution* const convolution = find_object<Convolution>(descriptor);
  if (convolution == nullptr || math_type < 0 || math_type > kLastMathType) {
    return kBadParam;
  }
  convolution->math_type = math_type;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnGetConvolutionMathType(void* descriptor, int* math_type) {
  const Convolution* const convolution = find_object<Convolution>(descriptor);
  if (convolution == nullptr || math_type == nullptr) {
    return kBadParam;
  }
  *math_type = convolution->math_type;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnGetConvolutionGroupCount(void* descriptor, int* groups) {
  const Convolution* const convolution = find_object<Convolution>(descriptor);
  if (convolution == nullptr || groups == nullptr) {
    return kBadParam;
  }
  *groups = convolution->groups;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnSetPooling2dDescriptor(void* descriptor, int mode, int /*nan*/,
                                                  int window_h, int window_w, int pad_h, int pad_w,
                                                  int stride_h, int stride_w) {
  Pooling* const pooling = find_object<Pooling>(descriptor);
  if (pooling == nullptr || mode < 0 || mode > kLastPoolingMode || window_h < 1 || window_w < 1 ||
      pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1) {
    return kBadParam;
  }
  *pooling = {mode, {window_h, window_w}, {pad_h, pad_w}, {stride_h, stride_w}};
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnSetActivationDescriptor(void* descriptor, int mode, int /*nan*/,
                                                   double coefficient) {
  Activation* const activation = find_object<Activation>(descriptor);
  if (activation == nullptr || mode < 0 || mode > kLastActivation) {
    return kBadParam;
  }
  *activation = {mode, coefficient};
  return kSuccess;
}

// ---- Dropout, CTC loss, spatial transformers ----

GPEMU_SHIM_EXPORT int cudnnDropoutGetStatesSize(void* handle, size_t* bytes) {
  if (find_object<Context>(handle) == nullptr || bytes == nullptr) {
    return kBadParam;
  }
  *bytes = dropout_states_bytes();
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnSetDropoutDescriptor(void* descriptor, void* handle, float probability,
                                                void* states, size_t bytes,
                                                unsigned long long /*seed*/) {
  const Context* const context = find_object<Context>(handle);
  if (const int status = set_dropout(descriptor, handle, probability);
      status != kSuccess || states == nullptr) {
    return status;
  }
  if (bytes < dropout_states_bytes()) {
    return kSizeInsufficient;
  }
  const char* const name = "cudnnSetDropoutDescriptor";
  const int status = submit(*context, make_operation(name, GPEMU_OPERATION_SET, GPEMU_TYPE_INT8,
                                                     {entry_of(times(bytes))}));
  return leave_uncomputed(status, *context, name,
                          {{states, kInt8Data, {static_cast<int64_t>(dropout_states_bytes())}}});
}

GPEMU_SHIM_EXPORT int cudnnRestoreDropoutDescriptor(void* descriptor, void* handle,
                                                    float probability, void* /*states*/,
                                                    size_t bytes, unsigned long long /*seed*/) {
  const int status = set_dropout(descriptor, handle, probability);
  return status == kSuccess && bytes < dropout_states_bytes() ? kSizeInsufficient : status;
}

GPEMU_SHIM_EXPORT int cudnnSetCTCLossDescriptorEx(void* descriptor, int compute_type,
                                                  int /*normalization*/, int /*gradient*/) {
  CtcLoss* const loss = find_object<CtcLoss>(descriptor);
  if (loss == nullptr || compute_type != kFloatData) {  // as documented
    return kBadParam;
  }
  loss->compute_type = compute_type;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnSetCTCLossDescriptor_v9(void* descriptor, int compute_type,
                                                   int normalization, int gradient,
                                                   int max_label_length) {
  return max_label_length < 0
             ? static_cast<int>(kBadParam)
             : cudnnSetCTCLossDescriptorEx(descriptor, compute_type, normalization, gradient);
}

GPEMU_SHIM_EXPORT int cudnnSetSpatialTransformerNdDescriptor(void* descriptor, int sampler,
                                                             int data_type, int count,
                                                             const int* sizes) {
  SpatialTransformer* const transformer = find_object<SpatialTransformer>(descriptor);
  if (transformer == nullptr || sampler != 0 || type_of(data_type) == GPEMU_TYPE_UNKNOWN ||
      !are_sizes(sizes, count)) {
    return kBadParam;
  }
  *transformer = {data_type, {sizes, sizes + count}};
  return kSuccess;
}

// ---- Recurrent networks ----

GPEMU_SHIM_EXPORT int cudnnSetRNNDescriptor_v8(void* descriptor, int /*algorithm*/, int cell,
                                               int bias_mode, int direction, int input_mode,
                                               int data_type, int /*math_precision*/,
                                               int /*math_type*/, int32_t input, int32_t hidden,
                                               int32_t projection, int32_t layers,
                                               void* /*dropout*/, uint32_t /*flags*/) {
  Rnn* const rnn = find_object<Rnn>(descriptor);
  if (rnn == nullptr || cell < 0 || cell > kLastRnnMode || bias_mode < 0 || bias_mode > kLastBias ||
      direction < kUnidirectional || direction > kBidirectional || input < 1 || hidden < 1 ||
      projection < 0 || projection > hidden || layers < 1 ||
      type_of(data_type) == GPEMU_TYPE_UNKNOWN) {
    return kBadParam;
  }
  if (input_mode != kLinearInput) {
    gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "cudnnSetRNNDescriptor_v8 with skipped input");
    return kUnsupported;
  }
  if (cell != kLstm && projection != 0 && projection != hidden) {
    return kUnsupported;  // as documented
  }
  const int projected = projection == hidden ? 0 : projection;  // as documented: no projection
  *rnn = {cell, bias_mode, direction, data_type, input, hidden, projected, layers};
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnSetRNNDataDescriptor(void* descriptor, int data_type, int layout,
                                                int sequence, int batch, int vector,
                                                const int* lengths, void* /*padding*/) {
  RnnData* const data = find_object<RnnData>(descriptor);
  if (data == nullptr || type_of(data_type) == GPEMU_TYPE_UNKNOWN || layout < 0 ||
      layout > kLastRnnLayout || sequence < 1 || batch < 1 || vector < 1 || lengths == nullptr ||
      std::any_of(lengths, lengths + batch, [=](int n) { return n < 0 || n > sequence; })) {
    return kBadParam;
  }
  const int64_t steps = layout == kPackedLayout
                            ? std::accumulate(lengths, lengths + batch, int64_t{0})
                            : int64_t{sequence} * batch;
  *data = {data_type, sequence, batch, vector, steps};
  return kSuccess;
}
