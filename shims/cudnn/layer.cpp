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
  gpemu_operation operation = make_operation(name, kind, type_of(x->data_type),
                                             {entry_of(elements_of(x->sizes)), x->sizes[1]});
  operation.channels_last = x->strides.size() > 1 && x->strides[1] == 1 && x->sizes[1] > 1 ? 1 : 0;
  return submit(*context, operation);
}

/// Ends a call whose results are not computed, unless it failed with `status`.
int leave(int status, const void* handle, const char* name,
          std::initializer_list<Written> results) {
  return status == kSuccess ? leave_uncomputed(status, *find_object<Context>(handle), name, results)
                            : status;
}

/// What a normalisation keeps for the backward pass, of which only the size is known.
Written reserve_space(const void* reserve, size_t bytes) {
  return {reserve, kInt8Data, {entry_of(times(bytes))}};
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

/// The grid of a spatial transformer: the coordinates of each point of the output.
Written grid_of(const void* descriptor, const void* grid) {
  const SpatialTransformer& transformer = *find_object<SpatialTransformer>(descriptor);
  const auto& sizes = transformer.sizes;
  const auto coordinates = static_cast<int64_t>(sizes.size()) - 2;
  std::vector<int64_t> shape{sizes[0], coordinates};
  for (int64_t i = 0; i < coordinates; ++i) {
    shape.push_back(sizes[static_cast<size_t>(2 + i)]);
  }
  return {grid, transformer.data_type, shape};
}

/// The affine transformation of each image: a row for each coordinate.
Written theta_of(const void* descriptor, const void* theta) {
  const SpatialTransformer& transformer = *find_object<SpatialTransformer>(descriptor);
  const auto coordinates = static_cast<int64_t>(transformer.sizes.size()) - 2;
  return {theta, transformer.data_type, {transformer.sizes[0], coordinates, coordinates + 1}};
}

/// Alpha and beta of the CTC recurrence: each probability is read twice, each gradient written.
int ctc(const char* name, const void* handle, const void* probabilities, const void* gradients,
        int algorithm, const void* loss, const void* costs, const void* gradient_data) {
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
  const int status =
      submit(*context, make_operation(name, GPEMU_OPERATION_ELEMENTWISE, type_of(tensor->data_type),
                                      {entry_of(2 * elements), entry_of(elements), kOperations}));
  // One cost for each sequence: probabilities are by step, sequence and label.
  return leave_uncomputed(
      status, *context, name,
      {{costs, kFloatData, {tensor->sizes[1]}}, written_tensor(gradients, gradient_data)});
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
    const void* scale, const void* bias, double factor, void* running_mean, void* running_variance,
    double epsilon, void* saved_mean, void* saved_inverse, void* /*activation*/,
    void* /*workspace*/, size_t /*workspace_bytes*/, void* reserve, size_t reserve_bytes) {
  if (!is_mode(mode, ops) || epsilon < 0 || find_object<Tensor>(y_desc) == nullptr ||
      find_object<Tensor>(parameter_desc) == nullptr ||
      any_null({alpha, beta, x, y, scale, bias}) ||
      (saved_mean == nullptr) != (saved_inverse == nullptr)) {
    return kBadParam;
  }
  const char* const name = "cudnnBatchNormalizationForwardTrainingEx";
  const bool keeps_average = factor != 1;
  return leave(normalize(name, GPEMU_OPERATION_NORMALIZATION_FORWARD, handle, x_desc), handle, name,
               {written_tensor(y_desc, y), written_tensor(parameter_desc, saved_mean),
                written_tensor(parameter_desc, saved_inverse),
                written_tensor(parameter_desc, running_mean, keeps_average),
                written_tensor(parameter_desc, running_variance, keeps_average),
                reserve_space(reserve, reserve_bytes)});
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
  return leave_uncomputed(status, *context, name, {written_tensor(y_desc, y)});
}

GPEMU_SHIM_EXPORT int cudnnBatchNormalizationBackwardEx(
    void* handle, int mode, int ops, const void* alpha_data, const void* beta_data,
    const void* alpha_parameters, const void* beta_parameters, void* x_desc, const void* x,
    void* /*y_desc*/, const void* /*y*/, void* dy_desc, const void* dy, void* dz_desc, void* dz,
    void* dx_desc, void* dx, void* parameter_desc, const void* scale, const void* /*bias*/,
    void* dscale, void* dbias, double epsilon, const void* /*saved_mean*/,
    const void* /*saved_inverse*/, void* /*activation*/, void* /*workspace*/,
    size_t /*workspace_bytes*/, void* /*reserve*/, size_t /*reserve_bytes*/) {
  if (!is_mode(mode, ops) || epsilon < 0 || find_object<Tensor>(dy_desc) == nullptr ||
      find_object<Tensor>(dx_desc) == nullptr || find_object<Tensor>(parameter_desc) == nullptr ||
      any_null({alpha_data, beta_data, alpha_parameters, beta_parameters, x, dy, dx, scale, dscale,
                dbias})) {
    return kBadParam;
  }
  const char* const name = "cudnnBatchNormalizationBackwardEx";
  return leave(normalize(name, GPEMU_OPERATION_NORMALIZATION_BACKWARD, handle, x_desc), handle,
               name,
               {written_tensor(dx_desc, dx), written_tensor(dz_desc, dz),
                written_tensor(parameter_desc, dscale), written_tensor(parameter_desc, dbias)});
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
  return leave_uncomputed(status, *context, "cudnnPoolingForward", {written_tensor(y_desc, y)});
}

// ---- CTC loss ----

GPEMU_SHIM_EXPORT int cudnnCTCLoss(void* handle, void* probabilities, const void* /*data*/,
                                   const int* /*labels*/, const int* /*label_lengths*/,
                                   const int* /*input_lengths*/, void* costs, void* gradients,
                                   void* gradient_data, int algorithm, void* loss,
                                   void* /*workspace*/, size_t /*bytes*/) {
  return ctc("cudnnCTCLoss", handle, probabilities, gradients, algorithm, loss, costs,
             gradient_data);
}

GPEMU_SHIM_EXPORT int cudnnCTCLoss_v8(void* handle, int algorithm, void* loss, void* probabilities,
                                      const void* /*data*/, const int* /*labels*/,
                                      const int* /*label_lengths*/, const int* /*input_lengths*/,
                                      void* costs, void* gradients, void* gradient_data,
                                      size_t /*bytes*/, void* /*workspace*/) {
  return ctc("cudnnCTCLoss_v8", handle, probabilities, gradients, algorithm, loss, costs,
             gradient_data);
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
  if (any_null({theta, grid})) {
    return kBadParam;
  }
  const char* const name = "cudnnSpatialTfGridGeneratorForward";
  const int status = transform(name, handle, descriptor, 0, 1);
  return status == kSuccess ? leave(status, handle, name, {grid_of(descriptor, grid)}) : status;
}

GPEMU_SHIM_EXPORT int cudnnSpatialTfGridGeneratorBackward(void* handle, void* descriptor,
                                                          const void* dgrid, void* dtheta) {
  if (any_null({dgrid, dtheta})) {
    return kBadParam;
  }
  const char* const name = "cudnnSpatialTfGridGeneratorBackward";
  const int status = transform(name, handle, descriptor, 1, 1);
  return status == kSuccess ? leave(status, handle, name, {theta_of(descriptor, dtheta)}) : status;
}

GPEMU_SHIM_EXPORT int cudnnSpatialTfSamplerForward(void* handle, void* descriptor,
                                                   const void* /*alpha*/, void* x_desc,
                                                   const void* x, const void* grid,
                                                   const void* /*beta*/, void* y_desc, void* y) {
  if (find_object<Tensor>(x_desc) == nullptr || find_object<Tensor>(y_desc) == nullptr ||
      any_null({x, grid, y})) {
    return kBadParam;
  }
  const char* const name = "cudnnSpatialTfSamplerForward";
  return leave(transform(name, handle, descriptor, 2, 1), handle, name,
               {written_tensor(y_desc, y)});
}

GPEMU_SHIM_EXPORT int cudnnSpatialTfSamplerBackward(
    void* handle, void* descriptor, const void* /*alpha*/, void* x_desc, const void* x,
    const void* /*beta*/, void* dx_desc, void* dx, const void* /*alpha_grid*/, void* dy_desc,
    const void* dy, const void* grid, const void* /*beta_grid*/, void* dgrid) {
  if (find_object<Tensor>(x_desc) == nullptr || find_object<Tensor>(dx_desc) == nullptr ||
      find_object<Tensor>(dy_desc) == nullptr || any_null({x, dx, dy, grid, dgrid})) {
    return kBadParam;
  }
  const char* const name = "cudnnSpatialTfSamplerBackward";
  const int status = transform(name, handle, descriptor, 3, 2);
  return status == kSuccess ? leave(status, handle, name,
                                    {written_tensor(dx_desc, dx), grid_of(descriptor, dgrid)})
                            : status;
}
