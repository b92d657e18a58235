// SPDX-License-Identifier: Apache-2.0
// The cost of a graph of operations: heavy parts are priced by their shapes, the rest by its
// traffic to and from memory, because intermediate results of a fused graph stay in registers.
#include <algorithm>

#include "backend.hpp"

namespace {

using Descriptors = std::vector<std::shared_ptr<const BackendDescriptor>>;

Descriptors operations_in(const BackendDescriptor& graph) {
  const auto found = graph.values.find(kGraphOperations);
  return found == graph.values.end() ? Descriptors{} : found->second.descriptors;
}

std::vector<int64_t> sizes_of(const BackendDescriptor* tensor) {
  return tensor == nullptr ? std::vector<int64_t>{} : tensor->get_all<int64_t>(kTensorSizes);
}

gpemu_data_type tensor_type(const BackendDescriptor* tensor) {
  return tensor == nullptr ? GPEMU_TYPE_UNKNOWN : type_of(tensor->get<int32_t>(kTensorType, -1));
}

// NHWC: neighbours in memory are neighbours in the channels.
bool is_channels_last(const BackendDescriptor* tensor) {
  const auto strides =
      tensor == nullptr ? std::vector<int64_t>{} : tensor->get_all<int64_t>(kTensorStrides);
  const auto sizes = sizes_of(tensor);
  return strides.size() > 2 && sizes.size() == strides.size() && strides[1] == 1 && sizes[1] > 1;
}

gpemu_data_type compute_type(gpemu_data_type type, int64_t engine) {
  if (type == GPEMU_TYPE_FP32 && engine == kTensorCores) {
    return GPEMU_TYPE_TF32;
  }
  // Half precision without tensor cores accumulates in FP32.
  const bool half = type == GPEMU_TYPE_FP16 || type == GPEMU_TYPE_BF16;
  return half && engine != kTensorCores ? GPEMU_TYPE_FP32 : type;
}

/// The attributes of a convolution's operation that are read here.
struct ConvolutionAttributes {
  int kind;
  const char* name;
  gpemu_operation_kind operation;
  int convolution, filter, input, output;
};

constexpr ConvolutionAttributes kConvolutions[] = {
    {kConvolutionForwardKind, "cudnn::convolution_forward", GPEMU_OPERATION_CONVOLUTION_FORWARD,
     kForwardConvolution, kForwardW, kForwardX, kForwardY},
    {kConvolutionBackwardDataKind, "cudnn::convolution_backward_data",
     GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, kBackwardDataConvolution, kBackwardDataW,
     kBackwardDataDx, kBackwardDataDy},
    {kConvolutionBackwardFilterKind, "cudnn::convolution_backward_filter",
     GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, kBackwardFilterConvolution, kBackwardFilterDw,
     kBackwardFilterX, kBackwardFilterDy},
};

bool add_convolution(const BackendDescriptor& operation, int64_t engine,
                     std::vector<gpemu_operation>* out) {
  const auto* const attributes =
      std::ranges::find(kConvolutions, operation.kind, &ConvolutionAttributes::kind);
  const BackendDescriptor* const convolution = operation.child(attributes->convolution);
  const BackendDescriptor* const input = operation.child(attributes->input);
  if (convolution == nullptr) {
    return false;
  }
  const ConvolutionShape shape{
      sizes_of(input),
      sizes_of(operation.child(attributes->filter)),
      sizes_of(operation.child(attributes->output)),
      convolution->get_all<int64_t>(kConvolutionStrides),
      convolution->get_all<int64_t>(kConvolutionDilations),
      0,
      is_channels_last(input) || is_channels_last(operation.child(attributes->output))};
  gpemu_operation made =
      make_operation(attributes->name, attributes->operation, tensor_type(input), {});
  made.compute_type = compute_type(made.type, engine);
  if (!describe_convolution(shape, &made)) {
    return false;
  }
  out->push_back(made);
  return true;
}

/// A: [batch..., m, k], B: [batch..., k, n].
bool add_matmul(const BackendDescriptor& operation, int64_t engine,
                std::vector<gpemu_operation>* out) {
  const auto a = sizes_of(operation.child(kMatmulA));
  const auto b = sizes_of(operation.child(kMatmulB));
  if (a.size() < 2 || b.size() < 2) {
    return false;
  }
  const double batch = std::max(elements_of(a) / times(a.end()[-2], a.end()[-1]),
                                elements_of(b) / times(b.end()[-2], b.end()[-1]));
  gpemu_operation made = make_operation("cudnn::matmul", GPEMU_OPERATION_MATMUL,
                                        tensor_type(operation.child(kMatmulA)),
                                        {entry_of(batch), a.end()[-2], b.end()[-1], a.end()[-1]});
  made.compute_type = compute_type(made.type, engine);
  out->push_back(made);
  return true;
}

/// Query, key and value: [batch, heads, length, head size].
bool add_attention(const std::vector<int64_t>& query, const std::vector<int64_t>& key,
                   gpemu_data_type type, bool backward, bool causal,
                   std::vector<gpemu_operation>* out) {
  if (query.size() != 4 || key.size() != 4) {
    return false;
  }
  out->push_back(make_operation(
      backward ? "cudnn::attention_backward" : "cudnn::attention_forward",
      backward ? GPEMU_OPERATION_ATTENTION_BACKWARD : GPEMU_OPERATION_ATTENTION_FORWARD, type,
      {query[0], query[1], key[1], query[2], key[2], query[3], causal ? 1 : 0}));
  return true;
}

/// The unified operation: its attributes name query and key.
bool add_unified_attention(const BackendDescriptor& operation, std::vector<gpemu_operation>* out) {
  const bool backward = operation.kind == kAttentionBackwardKind;
  const BackendDescriptor* const query =
      operation.child(backward ? kAttentionBackwardQ : kAttentionForwardQ);
  const BackendDescriptor* const key =
      operation.child(backward ? kAttentionBackwardK : kAttentionForwardK);
  return add_attention(sizes_of(query), sizes_of(key), tensor_type(query), backward, false, out);
}

/// Returns whether a graph compares the rows' numbers with the columns' to leave out what comes
/// later. A mask for padding compares them with a length, by another operation. Source:
/// cudnnPointwiseMode_t in cudnn_graph.h.
bool is_causal(const Descriptors& operations) {
  constexpr int32_t kGreater = 302, kGreaterOrEqual = 303;
  return std::ranges::any_of(operations, [&](const auto& operation) {
    const BackendDescriptor* const pointwise = operation->child(kPointwiseDescriptor);
    const int32_t mode =
        pointwise == nullptr ? -1 : pointwise->template get<int32_t>(kPointwiseMode, -1);
    return mode == kGreater || mode == kGreaterOrEqual;
  });
}

/// Attention as a graph of products with a softmax in between: two products forward, five backward.
/// The first one multiplies the query by the key, which is given transposed.
bool add_attention_graph(const Descriptors& operations, const Descriptors& products,
                         std::vector<gpemu_operation>* out) {
  constexpr size_t kForwardProducts = 2;
  const BackendDescriptor* const query = products.front()->child(kMatmulA);
  auto key = sizes_of(products.front()->child(kMatmulB));
  if (key.size() != 4) {
    return false;
  }
  std::swap(key[2], key[3]);
  return add_attention(sizes_of(query), key, tensor_type(query), products.size() > kForwardProducts,
                       is_causal(operations), out);
}

/// Elements that operations read from and write to memory.
struct Traffic {
  double read = 0, written = 0;
  gpemu_data_type type = GPEMU_TYPE_UNKNOWN;
};

void add_traffic(const BackendDescriptor& operation, Traffic* traffic) {
  for (const auto& [attribute, value] : operation.values) {
    for (const auto& tensor : value.descriptors) {
      if (tensor->kind != kTensorKind || !is_in_memory(*tensor)) {
        continue;
      }
      const bool is_output = std::ranges::find(kOutputs, attribute) != std::end(kOutputs);
      const double elements = elements_of(sizes_of(tensor.get()));
      (is_output ? traffic->written : traffic->read) += elements;
      if (traffic->type == GPEMU_TYPE_UNKNOWN) {
        traffic->type = tensor_type(tensor.get());
      }
    }
  }
}

/// Adds a light operation that has its own kind; false if it is priced by its traffic.
bool add_light(const BackendDescriptor& operation, std::vector<gpemu_operation>* out) {
  const auto add = [&](const char* name, gpemu_operation_kind kind, int from, int to, bool shape) {
    const BackendDescriptor* const input = operation.child(from);
    const auto sizes = sizes_of(input);
    const double elements = elements_of(sizes);
    const double second =
        shape ? elements_of(sizes_of(operation.child(to))) : times(sizes.size() > 1 ? sizes[1] : 1);
    if (second == 0) {
      return false;
    }
    const double window = kind == GPEMU_OPERATION_POOLING ? std::max(1.0, elements / second) : 0;
    out->push_back(make_operation(name, kind, tensor_type(input),
                                  {entry_of(elements), entry_of(second), entry_of(window)}));
    return true;
  };
  switch (operation.kind) {
    case kReductionKind:
      return add("cudnn::reduction", GPEMU_OPERATION_REDUCTION, kReductionX, kReductionY, true);
    case kResampleForwardKind:
      return add("cudnn::resample_forward", GPEMU_OPERATION_POOLING, kResampleForwardX,
                 kResampleForwardY, true);
    case kResampleBackwardKind:
      return add("cudnn::resample_backward", GPEMU_OPERATION_POOLING, kResampleBackwardDx,
                 kResampleBackwardDy, true);
    case kNormForwardKind:
      return add("cudnn::norm_forward", GPEMU_OPERATION_NORMALIZATION_FORWARD, kNormForwardX, 0,
                 false);
    case kNormBackwardKind:
      return add("cudnn::norm_backward", GPEMU_OPERATION_NORMALIZATION_BACKWARD, kNormBackwardX, 0,
                 false);
    default:
      return false;
  }
}

bool is_convolution(const BackendDescriptor& operation) {
  return operation.kind >= kConvolutionForwardKind &&
         operation.kind <= kConvolutionBackwardDataKind;
}

bool is_attention(const BackendDescriptor& operation) {
  return operation.kind == kAttentionForwardKind || operation.kind == kAttentionBackwardKind;
}

/// Adds the graph's heavy operations; false if one is unknown.
bool add_heavy(const Descriptors& operations, int64_t engine, std::vector<gpemu_operation>* out) {
  Descriptors products;
  for (const auto& operation : operations) {
    if (operation->kind == kMatmulKind) {
      products.push_back(operation);
    } else if ((is_convolution(*operation) && !add_convolution(*operation, engine, out)) ||
               (is_attention(*operation) && !add_unified_attention(*operation, out))) {
      return false;
    }
  }
  if (products.size() > 1 && add_attention_graph(operations, products, out)) {
    return true;
  }
  return std::ranges::all_of(
      products, [&](const auto& product) { return add_matmul(*product, engine, out); });
}

}  // namespace

std::vector<int64_t> engines_of(const BackendDescriptor& graph) {
  gpemu_data_type type = GPEMU_TYPE_UNKNOWN;
  for (const auto& operation : operations_in(graph)) {
    for (const auto& convolution : kConvolutions) {
      if (operation->kind == convolution.kind) {
        type = tensor_type(operation->child(convolution.input));
      }
    }
    if (operation->kind == kMatmulKind) {
      type = tensor_type(operation->child(kMatmulA));
    }
  }
  const gpemu_cuda_device* const device = current_device();
  if (device == nullptr) return {kPlain};
  const bool like_fp16 = type == GPEMU_TYPE_FP16 || type == GPEMU_TYPE_INT8;
  // Tensor cores for TF32 came with those for BF16.
  const bool like_tf32 =
      type == GPEMU_TYPE_FP32 || type == GPEMU_TYPE_BF16 || type == GPEMU_TYPE_FP8;
  if ((like_fp16 && device->fp16_tensor_cores != 0) ||
      (like_tf32 && device->tf32_tensor_cores != 0)) {
    return {kTensorCores, kPlain};
  }
  return {kPlain};
}

std::vector<gpemu_operation> operations_of(const BackendDescriptor& graph, int64_t engine) {
  const Descriptors operations = operations_in(graph);
  std::vector<gpemu_operation> out;
  if (!add_heavy(operations, engine, &out)) {
    return {};
  }
  if (!out.empty()) {
    return out;  // operations fused with a heavy one work on its output before that is written
  }
  Traffic traffic;
  for (const auto& operation : operations) {
    if (!add_light(*operation, &out)) {
      add_traffic(*operation, &traffic);
    }
  }
  if (traffic.read + traffic.written > 0) {
    out.push_back(make_operation("cudnn::pointwise", GPEMU_OPERATION_ELEMENTWISE, traffic.type,
                                 {entry_of(traffic.read), entry_of(traffic.written),
                                  static_cast<int64_t>(operations.size())}));
  }
  return out;
}
