// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "cudnn.hpp"

namespace {

bool is_mode(int mode) {
  return mode == kInference || mode == kTraining;
}

int64_t gates_of(const Rnn& rnn) {
  if (rnn.cell == kLstm) {
    return 4;
  }
  return rnn.cell == kGru ? 3 : 1;
}

int64_t directions_of(const Rnn& rnn) {
  return rnn.direction + 1;
}

/// Returns the length of a layer's output vector in one direction.
int64_t output_of(const Rnn& rnn) {
  return rnn.projection > 0 ? rnn.projection : rnn.hidden;
}

int64_t input_of(const Rnn& rnn, int64_t pseudo_layer) {
  return pseudo_layer < directions_of(rnn) ? rnn.input : output_of(rnn) * directions_of(rnn);
}

int64_t biases_of(const Rnn& rnn) {
  if (rnn.bias_mode == kNoBias) {
    return 0;
  }
  return rnn.bias_mode == kDoubleBias ? 2 : 1;
}

/// Elements of the matrices of one pseudo-layer: inputs, recurrences, the projection.
double matrices_of(const Rnn& rnn, int64_t pseudo_layer) {
  const double projection = rnn.projection > 0 ? times(output_of(rnn), rnn.hidden) : 0;
  return times(gates_of(rnn), rnn.hidden, input_of(rnn, pseudo_layer) + output_of(rnn)) +
         projection;
}

/// The same of all pseudo-layers before one. Those of the first layer take the network's input,
/// the others a layer's output.
double matrices_before(const Rnn& rnn, int64_t pseudo_layer) {
  const int64_t first = std::min(pseudo_layer, directions_of(rnn));
  return times(first) * matrices_of(rnn, 0) +
         times(pseudo_layer - first) * matrices_of(rnn, directions_of(rnn));
}

int64_t layers_of(const Rnn& rnn) {
  return int64_t{rnn.layers} * directions_of(rnn);
}

/// Returns a size as a descriptor has it: the largest int if it is more.
int as_size(int64_t size) {
  return static_cast<int>(std::min<int64_t>(size, std::numeric_limits<int>::max()));
}

/// Where a matrix and its bias lie in the weights, in elements. All matrices come first, one
/// pseudo-layer after the other, then all biases.
struct Place {
  double matrix;
  int rows, columns;
  double bias;  // -1: there is none
};

bool find_place(const Rnn& rnn, int64_t pseudo_layer, int64_t linear, Place* place) {
  const int64_t gates = gates_of(rnn);
  const bool is_projection = rnn.projection > 0 && linear == 2 * gates;
  if (pseudo_layer < 0 || pseudo_layer >= layers_of(rnn) || linear < 0 ||
      (linear >= 2 * gates && !is_projection)) {
    return false;
  }
  const double begin = matrices_before(rnn, pseudo_layer);
  const int64_t input = input_of(rnn, pseudo_layer);
  const int64_t output = output_of(rnn);
  if (is_projection) {
    *place = {begin + times(gates, rnn.hidden, input + output), static_cast<int>(output),
              rnn.hidden, -1};
    return true;
  }
  const bool is_input = linear < gates;
  const int64_t recurrent = linear - gates;
  place->matrix = begin + (is_input ? times(linear, rnn.hidden, input)
                                    : times(rnn.hidden, gates * input + recurrent * output));
  place->rows = rnn.hidden;
  place->columns = as_size(is_input ? input : output);
  // One bias belongs to the inputs (mode 1) or to the recurrences (mode 3).
  const int64_t biases = biases_of(rnn);
  const bool has_bias = biases == 2 || (biases == 1 && is_input == (rnn.bias_mode == kInputBias));
  const int64_t index = biases == 2 ? linear : linear % gates;
  place->bias = has_bias ? matrices_before(rnn, layers_of(rnn)) +
                               times(pseudo_layer * biases * gates + index, rnn.hidden)
                         : -1;
  return true;
}

/// Puts a matrix or a bias; a caller that passes neither output does not want it.
bool put_result(const void* descriptor, const Tensor& tensor, void** output, void* address) {
  if (descriptor == nullptr && output == nullptr) {
    return true;
  }
  Tensor* const target = find_object<Tensor>(descriptor);
  if (target == nullptr || output == nullptr) {
    return false;
  }
  *target = tensor;
  *output = address;
  return true;
}

double weights_of(const Rnn& rnn) {
  return matrices_before(rnn, layers_of(rnn)) +
         times(layers_of(rnn), biases_of(rnn), gates_of(rnn), rnn.hidden);
}

gpemu_operation describe(const char* name, gpemu_operation_kind kind, const Rnn& rnn,
                         const RnnData& data) {
  return make_operation(name, kind, type_of(rnn.data_type),
                        {rnn.layers, directions_of(rnn), data.sequence, data.batch, rnn.input,
                         rnn.hidden, gates_of(rnn)});
}

/// All sequences' inputs or outputs.
Written sequences(const void* descriptor, const void* elements) {
  const RnnData& data = *find_object<RnnData>(descriptor);
  return {elements, data.data_type, {data.steps, data.vector}};
}

/// A state of all pseudo-layers before or after the sequences.
Written state(const Rnn& rnn, const RnnData& data, int64_t length, const void* elements) {
  return {elements, rnn.data_type, {layers_of(rnn), data.batch, length}};
}

}  // namespace

GPEMU_SHIM_EXPORT int cudnnGetRNNWeightSpaceSize(void* handle, void* descriptor, size_t* bytes) {
  const Rnn* const rnn = find_object<Rnn>(descriptor);
  if (find_object<Context>(handle) == nullptr || rnn == nullptr || bytes == nullptr) {
    return kBadParam;
  }
  *bytes = static_cast<size_t>(
      entry_of(weights_of(*rnn) * gpemu_data_type_bytes(type_of(rnn->data_type))));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnGetRNNWeightParams(void* handle, void* descriptor, int32_t pseudo_layer,
                                              size_t space_bytes, const void* space, int32_t linear,
                                              void* matrix_descriptor, void** matrix,
                                              void* bias_descriptor, void** bias) {
  const Rnn* const rnn = find_object<Rnn>(descriptor);
  Place place{};
  if (find_object<Context>(handle) == nullptr || rnn == nullptr ||
      !find_place(*rnn, pseudo_layer, linear, &place)) {
    return kBadParam;
  }
  const int element = gpemu_data_type_bytes(type_of(rnn->data_type));
  if (space_bytes < static_cast<uint64_t>(entry_of(weights_of(*rnn) * element))) {
    return kSizeInsufficient;
  }
  const auto at = [&](double elements) {
    return pointer_to(address_of(space) + static_cast<uint64_t>(entry_of(elements * element)));
  };
  const int rows = place.rows;
  const int columns = place.columns;
  const Tensor matrix_tensor{
      rnn->data_type, {1, rows, columns}, {as_size(int64_t{rows} * columns), columns, 1}};
  const bool has_bias = place.bias >= 0;
  const Tensor bias_tensor{rnn->data_type, {1, rows, 1}, {rows, 1, 1}};
  const Tensor no_tensor{rnn->data_type, {0, 0, 0}, {0, 0, 0}};
  if (!put_result(matrix_descriptor, matrix_tensor, matrix, at(place.matrix)) ||
      !put_result(bias_descriptor, has_bias ? bias_tensor : no_tensor, bias,
                  has_bias ? at(place.bias) : nullptr)) {
    return kBadParam;
  }
  return kSuccess;
}

// The workspace holds the gates of one layer over the whole sequence. For the backward pass the
// gates, the cells and the outputs of every layer are kept.
GPEMU_SHIM_EXPORT int cudnnGetRNNTempSpaceSizes(void* handle, void* descriptor, int mode,
                                                void* data_descriptor, size_t* workspace,
                                                size_t* reserve) {
  const Rnn* const rnn = find_object<Rnn>(descriptor);
  const RnnData* const data = find_object<RnnData>(data_descriptor);
  if (find_object<Context>(handle) == nullptr || rnn == nullptr || data == nullptr ||
      !is_mode(mode)) {
    return kBadParam;
  }
  const double steps =
      times(data->sequence, data->batch, gpemu_data_type_bytes(type_of(rnn->data_type)));
  if (workspace != nullptr) {
    *workspace = static_cast<size_t>(
        entry_of(steps * times(directions_of(*rnn), gates_of(*rnn), rnn->hidden)));
  }
  if (reserve != nullptr) {
    const double kept = times(layers_of(*rnn), rnn->hidden, gates_of(*rnn) + 2);
    *reserve = mode == kTraining ? static_cast<size_t>(entry_of(steps * kept)) : 0;
  }
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnRNNForward(void* handle, void* descriptor, int mode,
                                      const int32_t* /*lengths*/, void* x_descriptor, const void* x,
                                      void* y_descriptor, void* y, void* /*h_descriptor*/,
                                      const void* /*hx*/, void* hy, void* /*c_descriptor*/,
                                      const void* /*cx*/, void* cy, size_t /*weight_bytes*/,
                                      const void* weights, size_t /*workspace_bytes*/,
                                      void* /*workspace*/, size_t reserve_bytes, void* reserve) {
  const Context* const context = find_object<Context>(handle);
  const Rnn* const rnn = find_object<Rnn>(descriptor);
  const RnnData* const data = find_object<RnnData>(x_descriptor);
  if (context == nullptr || rnn == nullptr || data == nullptr ||
      find_object<RnnData>(y_descriptor) == nullptr || x == nullptr || y == nullptr ||
      weights == nullptr || !is_mode(mode) || (mode == kTraining && reserve == nullptr)) {
    return kBadParam;
  }
  const char* const name = "cudnnRNNForward";
  const int status = submit(*context, describe(name, GPEMU_OPERATION_RNN_FORWARD, *rnn, *data));
  const Written kept{reserve, kInt8Data, {entry_of(times(reserve_bytes))}};
  return leave_uncomputed(status, *context, name,
                          {sequences(y_descriptor, y), state(*rnn, *data, output_of(*rnn), hy),
                           state(*rnn, *data, rnn->hidden, rnn->cell == kLstm ? cy : nullptr),
                           mode == kTraining ? kept : Written{nullptr, kInt8Data, {}}});
}

GPEMU_SHIM_EXPORT int cudnnRNNBackwardData_v8(
    void* handle, void* descriptor, const int32_t* /*lengths*/, void* y_descriptor,
    const void* /*y*/, const void* dy, void* x_descriptor, void* dx, void* /*h_descriptor*/,
    const void* /*hx*/, const void* /*dhy*/, void* dhx, void* /*c_descriptor*/, const void* /*cx*/,
    const void* /*dcy*/, void* dcx, size_t /*weight_bytes*/, const void* weights,
    size_t /*workspace_bytes*/, void* /*workspace*/, size_t /*reserve_bytes*/, void* reserve) {
  const Context* const context = find_object<Context>(handle);
  const Rnn* const rnn = find_object<Rnn>(descriptor);
  const RnnData* const data = find_object<RnnData>(x_descriptor);
  if (context == nullptr || rnn == nullptr || data == nullptr ||
      find_object<RnnData>(y_descriptor) == nullptr || dy == nullptr || dx == nullptr ||
      weights == nullptr || reserve == nullptr) {
    return kBadParam;
  }
  const char* const name = "cudnnRNNBackwardData_v8";
  const int status = submit(*context, describe(name, GPEMU_OPERATION_RNN_BACKWARD, *rnn, *data));
  return leave_uncomputed(status, *context, name,
                          {sequences(x_descriptor, dx), state(*rnn, *data, output_of(*rnn), dhx),
                           state(*rnn, *data, rnn->hidden, rnn->cell == kLstm ? dcx : nullptr)});
}

// RNN_BACKWARD is the whole backward pass and was queued with the data's gradient, which always
// comes first. Only the sums of the weights' gradients remain.
GPEMU_SHIM_EXPORT int cudnnRNNBackwardWeights_v8(
    void* handle, void* descriptor, int add, const int32_t* /*lengths*/, void* x_descriptor,
    const void* x, void* /*h_descriptor*/, const void* /*hx*/, void* y_descriptor, const void* y,
    size_t /*weight_bytes*/, void* dweights, size_t /*workspace_bytes*/, void* /*workspace*/,
    size_t /*reserve_bytes*/, void* reserve) {
  const Context* const context = find_object<Context>(handle);
  const Rnn* const rnn = find_object<Rnn>(descriptor);
  if (context == nullptr || rnn == nullptr || add != kAddGradients ||
      find_object<RnnData>(x_descriptor) == nullptr ||
      find_object<RnnData>(y_descriptor) == nullptr || x == nullptr || y == nullptr ||
      dweights == nullptr || reserve == nullptr) {
    return kBadParam;
  }
  const int64_t weights = entry_of(weights_of(*rnn));
  const char* const name = "cudnnRNNBackwardWeights_v8";
  const int status =
      submit(*context, make_operation(name, GPEMU_OPERATION_ELEMENTWISE, type_of(rnn->data_type),
                                      {weights, weights, 1}));
  return leave_uncomputed(
      status, *context, name,
      {{.elements = dweights, .data_type = rnn->data_type, .sizes = {weights}, .updates = true}});
}
