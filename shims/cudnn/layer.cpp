// SPDX-License-Identifier: Apache-2.0
// Batch normalisation, pooling, CTC loss and spatial transformers. Values are not computed.
#include "cudnn.hpp"

namespace {

bool is_mode(int mode, int ops) {
  return mode >= 0 && mode <= kLastNormalizationMode && ops >= 0 && ops <= kLastNormalizationOps;
}

/// Returns whether a tensor has as many dimensions as batches of images: 4 or 5, as documented.
bool has_images(const Tensor& tensor) {
  return tensor.sizes.size() == 4 || tensor.sizes.size() == 5;
}

int normalize(const char* name, gpemu_operation_kind kind, const void* handle, const void* x_desc) {
  const Context* const context = find_object<Context>(handle);
  const Tensor* const x = find_object<Tensor>(x_desc);
  if (context == nullptr || x == nullptr || !has_images(*x)) {
    return kBadParam;
  }
  return submit(*context, make_operation(name, kind, type_of(x->data_type),
                                         {entry_of(elements_of(x->sizes)), x->sizes[1]}));
}

/// Declares that a call writes a tensor whose values are not computed.
int leave_uncomputed(const void* handle, const char* name, const void* descriptor,
                     const void* output) {
  const Tensor* const tensor = find_object<Tensor>(descriptor);
  if (tensor == nullptr || output == nullptr) {
    return kSuccess;
  }
  gpemu_cuda_result result{};
  result.address = address_of(output);
  result.rows = 0;  // Strides may leave gaps.
  result.bytes = static_cast<uint64_t>(
      entry_of(elements_of(tensor->sizes) * gpemu_data_type_bytes(type_of(tensor->data_type))));
  return status_of(
      gpemu_cuda_leave_uncomputed(&result, name, find_object<Context>(handle)->stream));
}

int no_bytes(const void* handle, const void* x_desc, size_t* bytes) {
  if (find_object<Context>(handle) == nullptr || find_object<Tensor>(x_desc) == nullptr ||
      bytes == nullptr) {
    return kBadParam;
  }
  *bytes = 0;
  return kSuccess;
}

/// One pass over the output of a spatial transformer: elements read and written, in units of the
/// tensor.
int transform(const char* name, const void* handle, const void* descriptor, int read, int written) {
  const Context* const context = find_object<Context>(handle);
  const SpatialTransformer* const transformer = find_object<SpatialTransformer>(descriptor);
  if (context == nullptr || transformer == nullptr || transformer->sizes.empty()) {
    return kBadParam;
  }
  constexpr int64_t kInterpolation = 8;  // four neighbours, each weighted
  if (transformer->sizes.size() > 4) {
    return kUnsupported;  // as documented
  }
  const double elements = elements_of(transformer->sizes);
  return submit(
      *context,
      make_operation(name, GPEMU_OPERATION_ELEMENTWISE, type_of(transformer->data_type),
                     {entry_of(read * elements), entry_of(written * elements), kInterpolation}));
}

/// Alpha and beta of the CTC recurrence: each probability is read twice, each gradient written.
int ctc(const char* name, const void* handle, const void* probabilities, const void* gradients,
        int algorithm, const void* loss) {
  const Context* const context = find_object<Context>(handle);
  const Tensor* const tensor = find_object<Tensor>(probabilities);
  if (context == nullptr || tensor == nullptr || tensor->sizes.size() != 3 ||
      find_object<CtcLoss>(loss) == nullptr ||
      (gradients != nullptr && find_object<Tensor>(gradients) == nullptr)) {
    return kBadParam;
  }
  if (tensor->data_type != kFloatData || algorithm < 0 || algorithm > kLastCtcAlgorithm) {
    return kUnsupported;  // as documented
  }
  constexpr int64_t kOperations = 10;
  const double elements = elements_of(tensor->sizes);
  return submit(*context,
                make_operation(name, GPEMU_OPERATION_ELEMENTWISE, type_of(tensor->data_type),
                               {entry_of(2 * elements), entry_of(elements), kOperations}));
}

// Alpha of each time step and label position; positions are at most twice the classes.
int ctc_workspace(const void* handle, const void* probabilities, const void* loss, size_t* bytes) {
  const Tensor* const tensor = find_object<Tensor>(probabilities);
  if (find_object<Context>(handle) == nullptr || tensor == nullptr ||
      find_object<CtcLoss>(loss) == nullptr || bytes == nullptr) {
    return kBadParam;
  }
  *bytes = static_cast<size_t>(entry_of(2 * elements_of(tensor->sizes) * sizeof(float)));
  return kSuccess;
}

}  // namespace

// ---- Batch normalisation ----

GPEMU_SHIM_EXPORT int cudnnBatchNormalizationForwardTrainingEx(
    void* handle, int mode, int ops, const void* alpha, const void* beta, void* x_desc,
    const void* x, void* /*z_desc*/, const void* /*z*/, void* y_desc, void* y, void* parameter_desc,
    const void* scale, const void* bias, double /*factor*/, void* /*running_mean*/,
    void* /*running_variance*/, double epsilon, void* saved_mean, void* saved_inverse,
    void* /*activation*/, void* /*workspace*/, size_t /*workspace_bytes*/, void* /*reserve*/,
    size_t /*reserve_bytes*/) {
  if (!is_mode(mode, ops) || epsilon < 0 || find_object<Tensor>(y_desc) == nullptr ||
      find_object<Tensor>(parameter_desc) == nullptr ||
      any_null({alpha, beta, x, y, scale, bias}) ||
      (saved_mean == nullptr) != (saved_inverse == nullptr)) {
    return kBadParam;
  }
  const char* const name = "cudnnBatchNormalizationForwardTrainingEx";
  int status = normalize(name, GPEMU_OPERATION_NORMALIZATION_FORWARD, handle, x_desc);
  status = status == kSuccess ? leave_uncomputed(handle, name, y_desc, y) : status;
  status = status == kSuccess ? leave_uncomputed(handle, name, parameter_desc, saved_mean) : status;
  return status == kSuccess ? leave_uncomputed(handle, name, parameter_desc, saved_inverse)
                            : status;
}

// The statistics are known: one pass over the elements.
GPEMU_SHIM_EXPORT int cudnnBatchNormalizationForwardInference(
    void* handle, int mode, const void* alpha, const void* beta, void* x_desc, const void* x_data,
    void* y_desc, void* y, void* parameter_desc, const void* scale, const void* bias,
    const void* mean, const void* variance, double epsilon) {
  const Context* const context = find_object<Context>(handle);
  const Tensor* const x = find_object<Tensor>(x_desc);
  if (context == nullptr || x == nullptr || !has_images(*x) ||
      !is_mode(mode, kPlainNormalization) || epsilon < 0 ||
      find_object<Tensor>(y_desc) == nullptr || find_object<Tensor>(parameter_desc) == nullptr ||
      any_null({alpha, beta, x_data, y, scale, bias, mean, variance})) {
    return kBadParam;
  }
  const int64_t elements = entry_of(elements_of(x->sizes));
  const char* const name = "cudnnBatchNormalizationForwardInference";
  const int status =
      submit(*context, make_operation(name, GPEMU_OPERATION_ELEMENTWISE, type_of(x->data_type),
                                      {elements, elements, 2}));
  return status == kSuccess ? leave_uncomputed(handle, name, y_desc, y) : status;
}

GPEMU_SHIM_EXPORT int cudnnBatchNormalizationBackwardEx(
    void* handle, int mode, int ops, const void* alpha_data, const void* beta_data,
    const void* alpha_parameters, const void* beta_parameters, void* x_desc, const void* x,
    void* /*y_desc*/, const void* /*y*/, void* dy_desc, const void* dy, void* /*dz_desc*/,
    void* /*dz*/, void* dx_desc, void* dx, void* parameter_desc, const void* scale,
    const void* /*bias*/, void* dscale, void* dbias, double epsilon, const void* /*saved_mean*/,
    const void* /*saved_inverse*/, void* /*activation*/, void* /*workspace*/,
    size_t /*workspace_bytes*/, void* /*reserve*/, size_t /*reserve_bytes*/) {
  if (!is_mode(mode, ops) || epsilon < 0 || find_object<Tensor>(dy_desc) == nullptr ||
      find_object<Tensor>(dx_desc) == nullptr || find_object<Tensor>(parameter_desc) == nullptr ||
      any_null({alpha_data, beta_data, alpha_parameters, beta_parameters, x, dy, dx, scale, dscale,
                dbias})) {
    return kBadParam;
  }
  const char* const name = "cudnnBatchNormalizationBackwardEx";
  int status = normalize(name, GPEMU_OPERATION_NORMALIZATION_BACKWARD, handle, x_desc);
  status = status == kSuccess ? leave_uncomputed(handle, name, dx_desc, dx) : status;
  status = status == kSuccess ? leave_uncomputed(handle, name, parameter_desc, dscale) : status;
  return status == kSuccess ? leave_uncomputed(handle, name, parameter_desc, dbias) : status;
}

GPEMU_SHIM_EXPORT int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    void* handle, int mode, int ops, void* x_desc, void* /*z_desc*/, void* /*y_desc*/,
    void* /*parameter_desc*/, void* /*activation*/, size_t* bytes) {
  return is_mode(mode, ops) ? no_bytes(handle, x_desc, bytes) : static_cast<int>(kBadParam);
}

GPEMU_SHIM_EXPORT int cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    void* handle, int mode, int ops, void* x_desc, void* /*y_desc*/, void* /*dy_desc*/,
    void* /*dz_desc*/, void* /*dx_desc*/, void* /*parameter_desc*/, void* /*activation*/,
    size_t* bytes) {
  return is_mode(mode, ops) ? no_bytes(handle, x_desc, bytes) : static_cast<int>(kBadParam);
}

// A fused activation keeps one bit of each element; without one nothing is kept.
GPEMU_SHIM_EXPORT int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    void* handle, int mode, int ops, void* /*activation*/, void* x_desc, size_t* bytes) {
  const Tensor* const x = find_object<Tensor>(x_desc);
  if (find_object<Context>(handle) == nullptr || x == nullptr || bytes == nullptr ||
      !is_mode(mode, ops)) {
    return kBadParam;
  }
  *bytes =
      ops == kPlainNormalization ? 0 : static_cast<size_t>(entry_of(elements_of(x->sizes)) + 7) / 8;
  return kSuccess;
}

// ---- Pooling ----

GPEMU_SHIM_EXPORT int cudnnPoolingForward(void* handle, void* descriptor, const void* /*alpha*/,
                                          void* x_desc, const void* /*x*/, const void* /*beta*/,
                                          void* y_desc, void* y) {
  const Context* const context = find_object<Context>(handle);
  const Pooling* const pooling = find_object<Pooling>(descriptor);
  const Tensor* const x = find_object<Tensor>(x_desc);
  const Tensor* const result = find_object<Tensor>(y_desc);
  if (context == nullptr || pooling == nullptr || x == nullptr || result == nullptr) {
    return kBadParam;
  }
  const int status =
      submit(*context,
             make_operation("cudnnPoolingForward", GPEMU_OPERATION_POOLING, type_of(x->data_type),
                            {entry_of(elements_of(x->sizes)), entry_of(elements_of(result->sizes)),
                             entry_of(elements_of(pooling->window))}));
  return status == kSuccess ? leave_uncomputed(handle, "cudnnPoolingForward", y_desc, y) : status;
}

// ---- CTC loss ----

GPEMU_SHIM_EXPORT int cudnnCTCLoss(void* handle, void* probabilities, const void* /*data*/,
                                   const int* /*labels*/, const int* /*label_lengths*/,
                                   const int* /*input_lengths*/, void* /*costs*/, void* gradients,
                                   void* /*gradient_data*/, int algorithm, void* loss,
                                   void* /*workspace*/, size_t /*bytes*/) {
  return ctc("cudnnCTCLoss", handle, probabilities, gradients, algorithm, loss);
}

GPEMU_SHIM_EXPORT int cudnnCTCLoss_v8(void* handle, int algorithm, void* loss, void* probabilities,
                                      const void* /*data*/, const int* /*labels*/,
                                      const int* /*label_lengths*/, const int* /*input_lengths*/,
                                      void* /*costs*/, void* gradients, void* /*gradient_data*/,
                                      size_t /*bytes*/, void* /*workspace*/) {
  return ctc("cudnnCTCLoss_v8", handle, probabilities, gradients, algorithm, loss);
}

GPEMU_SHIM_EXPORT int cudnnGetCTCLossWorkspaceSize(void* handle, void* probabilities,
                                                   void* /*gradients*/, const int* /*labels*/,
                                                   const int* /*label_lengths*/,
                                                   const int* /*input_lengths*/, int /*algorithm*/,
                                                   void* loss, size_t* bytes) {
  return ctc_workspace(handle, probabilities, loss, bytes);
}

GPEMU_SHIM_EXPORT int cudnnGetCTCLossWorkspaceSize_v8(void* handle, int /*algorithm*/, void* loss,
                                                      void* probabilities, void* /*gradients*/,
                                                      size_t* bytes) {
  return ctc_workspace(handle, probabilities, loss, bytes);
}

// ---- Spatial transformers ----

GPEMU_SHIM_EXPORT int cudnnSpatialTfGridGeneratorForward(void* handle, void* descriptor,
                                                         const void* theta, void* grid) {
  return any_null({theta, grid})
             ? static_cast<int>(kBadParam)
             : transform("cudnnSpatialTfGridGeneratorForward", handle, descriptor, 0, 1);
}

GPEMU_SHIM_EXPORT int cudnnSpatialTfGridGeneratorBackward(void* handle, void* descriptor,
                                                          const void* dgrid, void* dtheta) {
  return any_null({dgrid, dtheta})
             ? static_cast<int>(kBadParam)
             : transform("cudnnSpatialTfGridGeneratorBackward", handle, descriptor, 1, 1);
}

GPEMU_SHIM_EXPORT int cudnnSpatialTfSamplerForward(void* handle, void* descriptor,
                                                   const void* /*alpha*/, void* x_desc,
                                                   const void* x, const void* grid,
                                                   const void* /*beta*/, void* y_desc, void* y) {
  if (find_object<Tensor>(x_desc) == nullptr || find_object<Tensor>(y_desc) == nullptr ||
      any_null({x, grid, y})) {
    return kBadParam;
  }
  return transform("cudnnSpatialTfSamplerForward", handle, descriptor, 2, 1);
}

GPEMU_SHIM_EXPORT int cudnnSpatialTfSamplerBackward(
    void* handle, void* descriptor, const void* /*alpha*/, void* x_desc, const void* x,
    const void* /*beta*/, void* dx_desc, void* dx, const void* /*alpha_grid*/, void* dy_desc,
    const void* dy, const void* grid, const void* /*beta_grid*/, void* dgrid) {
  if (find_object<Tensor>(x_desc) == nullptr || find_object<Tensor>(dx_desc) == nullptr ||
      find_object<Tensor>(dy_desc) == nullptr || any_null({x, dx, dy, grid, dgrid})) {
    return kBadParam;
  }
  return transform("cudnnSpatialTfSamplerBackward", handle, descriptor, 3, 2);
}
