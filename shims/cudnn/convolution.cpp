// SPDX-License-Identifier: Apache-2.0
// Convolutions of the older interface.
#include <algorithm>

#include "cudnn.hpp"

namespace {

/// The name and algorithms of each of the three kinds of convolution.
struct Kind {
  const char* name;
  gpemu_operation_kind operation;
  int preferred, fallback;  // algorithms
  int count;
};

/// What a convolution reads and writes, with its factors. Callers must pass all of it.
using Data = std::initializer_list<const void*>;

constexpr Kind kForward = {"cudnnConvolutionForward", GPEMU_OPERATION_CONVOLUTION_FORWARD, 1, 0,
                           8};  // IMPLICIT_PRECOMP_GEMM, IMPLICIT_GEMM
constexpr Kind kBackwardData = {"cudnnConvolutionBackwardData",
                                GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, 1, 0, 6};
constexpr Kind kBackwardFilter = {"cudnnConvolutionBackwardFilter",
                                  GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, 1, 0, 7};

struct Arguments {
  const void* handle;
  const void* input;   // x or dx
  const void* filter;  // w or dw
  const void* convolution;
  const void* output;  // y or dy
};

template <typename To, typename From>
std::vector<To> widened(const std::vector<From>& values) {
  return {values.begin(), values.end()};
}

gpemu_data_type compute_type_of(gpemu_data_type type, int math_type) {
  if (type != GPEMU_TYPE_FP32 || math_type == kFmaMath) return type;
  const gpemu_cuda_device* const device = current_device();
  return device != nullptr && device->tf32_tensor_cores != 0 ? GPEMU_TYPE_TF32 : type;
}

int describe(const Kind& kind, const Arguments& arguments, gpemu_operation* operation) {
  const Tensor* const input = find_object<Tensor>(arguments.input);
  const Filter* const filter = find_object<Filter>(arguments.filter);
  const Convolution* const convolution = find_object<Convolution>(arguments.convolution);
  const Tensor* const output = find_object<Tensor>(arguments.output);
  if (find_object<Context>(arguments.handle) == nullptr || input == nullptr || filter == nullptr ||
      convolution == nullptr || output == nullptr) {
    return kBadParam;
  }
  ConvolutionShape shape{widened<int64_t>(input->sizes),
                         widened<int64_t>(filter->sizes),
                         widened<int64_t>(output->sizes),
                         widened<int64_t>(convolution->stride),
                         widened<int64_t>(convolution->dilation),
                         convolution->groups,
                         filter->format == kNhwc};
  *operation = make_operation(kind.name, kind.operation, type_of(input->data_type), {});
  operation->compute_type = compute_type_of(operation->type, convolution->math_type);
  return describe_convolution(shape, operation) ? kSuccess : kBadParam;
}

/// Ends a call that writes the result of a convolution. Filters have no gaps.
int leave_result(int status, const Kind& kind, const Arguments& arguments, const void* output) {
  const Context& context = *find_object<Context>(arguments.handle);
  if (kind.operation == GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER) {
    const Filter& filter = *find_object<Filter>(arguments.filter);
    return leave_uncomputed(status, context, kind.name,
                            {{output, filter.data_type, widened<int64_t>(filter.sizes)}});
  }
  const bool forward = kind.operation == GPEMU_OPERATION_CONVOLUTION_FORWARD;
  return leave_uncomputed(status, context, kind.name,
                          {written_tensor(forward ? arguments.output : arguments.input, output)});
}

int run(const Kind& kind, const Arguments& arguments, int algorithm, const void* output,
        Data data) {
  if (any_null(data)) {
    return kBadParam;
  }
  gpemu_operation operation{};
  if (const int status = describe(kind, arguments, &operation); status != kSuccess) {
    return status;
  }
  if (algorithm < 0 || algorithm >= kind.count) {
    return kBadParam;
  }
  const int status = submit(*find_object<Context>(arguments.handle), operation);
  return leave_result(status, kind, arguments, output);
}

int workspace_size(const Kind& kind, const Arguments& arguments, int algorithm, size_t* bytes) {
  gpemu_operation operation{};
  if (const int status = describe(kind, arguments, &operation); status != kSuccess) {
    return status;
  }
  if (bytes == nullptr || algorithm < 0 || algorithm >= kind.count) {
    return kBadParam;
  }
  *bytes = kConvolutionWorkspaceBytes;
  return kSuccess;
}

/// Runs an operation once between two events.
int measure(const Context& context, const gpemu_operation& operation, float* milliseconds) {
  gpemu_cuda_event_handle events[2] = {};
  int64_t elapsed_ns = 0;
  int status = status_of(gpemu_cuda_event_create(0, &events[0]));
  if (status == kSuccess) {
    status = status_of(gpemu_cuda_event_create(0, &events[1]));
  }
  if (status == kSuccess) {
    status = status_of(gpemu_cuda_event_record(events[0], context.stream, 0));
  }
  if (status == kSuccess) {
    status = submit(context, operation);
  }
  if (status == kSuccess) {
    status = status_of(gpemu_cuda_event_record(events[1], context.stream, 0));
  }
  if (status == kSuccess) {
    status = status_of(gpemu_cuda_event_synchronize(events[1]));
  }
  if (status == kSuccess) {
    status = status_of(gpemu_cuda_event_elapsed(events[0], events[1], &elapsed_ns));
  }
  for (const auto event : events) {
    if (event != nullptr) {
      (void)gpemu_cuda_event_destroy(event);
    }
  }
  *milliseconds = static_cast<float>(elapsed_ns) / 1e6F;
  return status;
}

/// Yields the algorithms that work, the preferred one first. With data they are measured, as by
/// cudnnFind..., which overwrites the last of the data; without, the times are -1, as with
/// cudnnGet....
int algorithms(const Kind& kind, const Arguments& arguments, int requested, int* returned,
               Performance* results, Data data) {
  if (any_null(data)) {
    return kBadParam;
  }
  gpemu_operation operation{};
  if (const int status = describe(kind, arguments, &operation); status != kSuccess) {
    return status;
  }
  if (requested < 1 || returned == nullptr || results == nullptr) {
    return kBadParam;
  }
  const int math_type = find_object<Convolution>(arguments.convolution)->math_type;
  const int candidates[] = {kind.preferred, kind.fallback};
  const int count = std::min(requested, 2);
  for (int i = 0; i < count; ++i) {
    const bool deterministic =
        kind.operation == GPEMU_OPERATION_CONVOLUTION_FORWARD || candidates[i] == kind.preferred;
    results[i] = {candidates[i],
                  kSuccess,
                  -1.0F,
                  kConvolutionWorkspaceBytes,
                  deterministic ? kDeterministic : kNonDeterministic,
                  math_type,
                  {}};
    if (data.size() > 0) {
      results[i].status =
          measure(*find_object<Context>(arguments.handle), operation, &results[i].milliseconds);
    }
  }
  *returned = count;
  return data.size() > 0 ? leave_result(kSuccess, kind, arguments, std::rbegin(data)[0])
                         : static_cast<int>(kSuccess);
}

}  // namespace

bool describe_convolution(const ConvolutionShape& shape, gpemu_operation* operation) {
  const size_t rank = shape.input.size();
  constexpr size_t kFirstSpatial = 2;
  if (rank < 3 || rank > 5 || shape.filter.size() != rank || shape.output.size() != rank ||
      shape.stride.size() < rank - kFirstSpatial || shape.dilation.size() < rank - kFirstSpatial ||
      shape.filter[1] < 1 || shape.input[0] != shape.output[0] ||
      shape.filter[0] != shape.output[1]) {
    return false;
  }
  const int64_t groups = shape.groups > 0 ? shape.groups : shape.input[1] / shape.filter[1];
  if (groups < 1 || shape.filter[1] * groups != shape.input[1] || shape.filter[0] % groups != 0) {
    return false;
  }
  int64_t* const entry = operation->shape;
  entry[0] = shape.input[0];
  entry[1] = shape.input[1];
  entry[2] = shape.output[1];
  entry[3] = groups;
  entry[4] = static_cast<int64_t>(rank - kFirstSpatial);
  for (size_t i = 0; i < 3; ++i) {
    const bool used = i < rank - kFirstSpatial;
    entry[5 + i] = used ? shape.input[kFirstSpatial + i] : 1;
    entry[8 + i] = used ? shape.filter[kFirstSpatial + i] : 1;
    entry[11 + i] = used ? shape.output[kFirstSpatial + i] : 1;
    entry[14 + i] = used ? shape.stride[i] : 1;
    entry[17 + i] = used ? shape.dilation[i] : 1;
  }
  operation->channels_last = shape.channels_last ? 1 : 0;
  return true;
}

GPEMU_SHIM_EXPORT int cudnnConvolutionForward(void* handle, const void* alpha, void* x_desc,
                                              const void* x, void* w_desc, const void* w,
                                              void* convolution, int algorithm, void* /*workspace*/,
                                              size_t /*bytes*/, const void* beta, void* y_desc,
                                              void* y) {
  return run(kForward, {handle, x_desc, w_desc, convolution, y_desc}, algorithm, y,
             {alpha, x, w, beta, y});
}

// The activation is fused.
GPEMU_SHIM_EXPORT int cudnnConvolutionBiasActivationForward(
    void* handle, const void* alpha1, void* x_desc, const void* x, void* w_desc, const void* w,
    void* convolution, int algorithm, void* /*workspace*/, size_t /*bytes*/, const void* alpha2,
    void* z_desc, const void* z, void* bias_desc, const void* bias, void* activation, void* y_desc,
    void* y) {
  const Activation* const fused = find_object<Activation>(activation);
  if (find_object<Tensor>(z_desc) == nullptr || find_object<Tensor>(bias_desc) == nullptr ||
      fused == nullptr) {
    return kBadParam;
  }
  if (fused->mode != kRelu && fused->mode != kIdentity) {
    return kUnsupported;  // as documented
  }
  return run(kForward, {handle, x_desc, w_desc, convolution, y_desc}, algorithm, y,
             {alpha1, x, w, alpha2, z, bias, y});
}

GPEMU_SHIM_EXPORT int cudnnConvolutionBackwardData(void* handle, const void* alpha, void* w_desc,
                                                   const void* w, void* dy_desc, const void* dy,
                                                   void* convolution, int algorithm,
                                                   void* /*workspace*/, size_t /*bytes*/,
                                                   const void* beta, void* dx_desc, void* dx) {
  return run(kBackwardData, {handle, dx_desc, w_desc, convolution, dy_desc}, algorithm, dx,
             {alpha, w, dy, beta, dx});
}

GPEMU_SHIM_EXPORT int cudnnConvolutionBackwardFilter(void* handle, const void* alpha, void* x_desc,
                                                     const void* x, void* dy_desc, const void* dy,
                                                     void* convolution, int algorithm,
                                                     void* /*workspace*/, size_t /*bytes*/,
                                                     const void* beta, void* dw_desc, void* dw) {
  return run(kBackwardFilter, {handle, x_desc, dw_desc, convolution, dy_desc}, algorithm, dw,
             {alpha, x, dy, beta, dw});
}

GPEMU_SHIM_EXPORT int cudnnGetConvolutionForwardWorkspaceSize(void* handle, void* x_desc,
                                                              void* w_desc, void* convolution,
                                                              void* y_desc, int algorithm,
                                                              size_t* bytes) {
  return workspace_size(kForward, {handle, x_desc, w_desc, convolution, y_desc}, algorithm, bytes);
}

GPEMU_SHIM_EXPORT int cudnnGetConvolutionBackwardDataWorkspaceSize(void* handle, void* w_desc,
                                                                   void* dy_desc, void* convolution,
                                                                   void* dx_desc, int algorithm,
                                                                   size_t* bytes) {
  return workspace_size(kBackwardData, {handle, dx_desc, w_desc, convolution, dy_desc}, algorithm,
                        bytes);
}

GPEMU_SHIM_EXPORT int cudnnGetConvolutionBackwardFilterWorkspaceSize(void* handle, void* x_desc,
                                                                     void* dy_desc,
                                                                     void* convolution,
                                                                     void* dw_desc, int algorithm,
                                                                     size_t* bytes) {
  return workspace_size(kBackwardFilter, {handle, x_desc, dw_desc, convolution, dy_desc}, algorithm,
                        bytes);
}

GPEMU_SHIM_EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(void* handle, void* x_desc,
                                                             void* w_desc, void* convolution,
                                                             void* y_desc, int requested,
                                                             int* returned, Performance* results) {
  return algorithms(kForward, {handle, x_desc, w_desc, convolution, y_desc}, requested, returned,
                    results, {});
}

GPEMU_SHIM_EXPORT int cudnnGetConvolutionBackwardDataAlgorithm_v7(void* handle, void* w_desc,
                                                                  void* dy_desc, void* convolution,
                                                                  void* dx_desc, int requested,
                                                                  int* returned,
                                                                  Performance* results) {
  return algorithms(kBackwardData, {handle, dx_desc, w_desc, convolution, dy_desc}, requested,
                    returned, results, {});
}

GPEMU_SHIM_EXPORT int cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    void* handle, void* x_desc, void* dy_desc, void* convolution, void* dw_desc, int requested,
    int* returned, Performance* results) {
  return algorithms(kBackwardFilter, {handle, x_desc, dw_desc, convolution, dy_desc}, requested,
                    returned, results, {});
}

GPEMU_SHIM_EXPORT int cudnnFindConvolutionForwardAlgorithmEx(
    void* handle, void* x_desc, const void* x, void* w_desc, const void* w, void* convolution,
    void* y_desc, void* y, int requested, int* returned, Performance* results, void* /*workspace*/,
    size_t /*bytes*/) {
  return algorithms(kForward, {handle, x_desc, w_desc, convolution, y_desc}, requested, returned,
                    results, {x, w, y});
}

GPEMU_SHIM_EXPORT int cudnnFindConvolutionBackwardDataAlgorithmEx(
    void* handle, void* w_desc, const void* w, void* dy_desc, const void* dy, void* convolution,
    void* dx_desc, void* dx, int requested, int* returned, Performance* results,
    void* /*workspace*/, size_t /*bytes*/) {
  return algorithms(kBackwardData, {handle, dx_desc, w_desc, convolution, dy_desc}, requested,
                    returned, results, {w, dy, dx});
}

GPEMU_SHIM_EXPORT int cudnnFindConvolutionBackwardFilterAlgorithmEx(
    void* handle, void* x_desc, const void* x, void* dy_desc, const void* dy, void* convolution,
    void* dw_desc, void* dw, int requested, int* returned, Performance* results,
    void* /*workspace*/, size_t /*bytes*/) {
  return algorithms(kBackwardFilter, {handle, x_desc, dw_desc, convolution, dy_desc}, requested,
                    returned, results, {x, dy, dw});
}
