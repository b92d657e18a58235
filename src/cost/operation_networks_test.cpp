// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::cost {
namespace {

/// The operations of one training step of a network in FP32, as PyTorch runs it: built layer by
/// layer, each adding its forward and its backward part.
class Network {
 public:
  Network(std::int64_t batch, gpemu_data_type convolution_type)
      : batch_(batch), convolution_type_(convolution_type) {}

  [[nodiscard]] const std::vector<gpemu_operation>& forward() const { return forward_; }
  [[nodiscard]] const std::vector<gpemu_operation>& backward() const { return backward_; }
  [[nodiscard]] std::int64_t channels() const { return channels_; }

  /// A square convolution with "same" padding, batch norm unless `plain`, and ReLU unless `linear`.
  void convolution(std::int64_t out, std::int64_t filter, std::int64_t stride, bool linear = false,
                   std::int64_t groups = 1) {
    convolve(out, filter, stride, groups);
    add(GPEMU_OPERATION_NORMALIZATION_FORWARD, forward_, {elements(), channels_});
    add(GPEMU_OPERATION_NORMALIZATION_BACKWARD, backward_, {elements(), channels_});
    parameters_ += 2 * channels_;
    if (!linear) relu();
  }

  void plain_convolution(std::int64_t out, std::int64_t filter, std::int64_t stride) {
    convolve(out, filter, stride, 1);
    // The bias and its gradient.
    add(GPEMU_OPERATION_ELEMENTWISE, forward_, {elements(), elements(), 1});
    add(GPEMU_OPERATION_REDUCTION, backward_, {elements(), channels_});
    relu();
  }

  void relu() {
    add(GPEMU_OPERATION_ELEMENTWISE, forward_, {elements(), elements(), 1});
    add(GPEMU_OPERATION_ELEMENTWISE, backward_, {2 * elements(), elements(), 1});
  }

  /// Adds the result of another branch; the gradients of the branches are added up too.
  void join() {
    add(GPEMU_OPERATION_ELEMENTWISE, forward_, {2 * elements(), elements(), 1});
    add(GPEMU_OPERATION_ELEMENTWISE, backward_, {2 * elements(), elements(), 1});
  }

  void pool(std::int64_t window, std::int64_t stride) {
    const std::int64_t before = elements();
    size_ = (size_ + stride - 1) / stride;
    add(GPEMU_OPERATION_POOLING, forward_, {before, elements(), window * window});
    add(GPEMU_OPERATION_POOLING, backward_, {2 * elements(), before, 1});
  }

  void linear(std::int64_t in, std::int64_t out) {
    add(GPEMU_OPERATION_MATMUL, forward_, {1, out, batch_, in});
    add(GPEMU_OPERATION_MATMUL, backward_, {1, in, batch_, out});
    add(GPEMU_OPERATION_MATMUL, backward_, {1, in, out, batch_});
    parameters_ += in * out + out;
  }

  /// SGD with momentum and weight decay, in four passes over the parameters.
  void optimize() {
    for (int pass = 0; pass < 4; ++pass) {
      add(GPEMU_OPERATION_ELEMENTWISE, backward_, {2 * parameters_, parameters_, 2});
    }
  }

  /// Goes back to an earlier point, for a second branch.
  void restart(std::int64_t channels, std::int64_t size) {
    channels_ = channels;
    size_ = size;
  }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  [[nodiscard]] std::int64_t elements() const { return batch_ * channels_ * size_ * size_; }

  static void add(gpemu_operation_kind kind, std::vector<gpemu_operation>& list,
                  std::initializer_list<std::int64_t> shape,
                  gpemu_data_type compute_type = GPEMU_TYPE_FP32) {
    gpemu_operation operation{.struct_size = sizeof(gpemu_operation),
                              .kind = kind,
                              .type = GPEMU_TYPE_FP32,
                              .compute_type = compute_type,
                              .channels_last = 0,
                              .shape = {},
                              .name = "",
                              .arguments = nullptr};
    std::copy(shape.begin(), shape.end(), operation.shape);
    list.push_back(operation);
  }

  void convolve(std::int64_t out, std::int64_t filter, std::int64_t stride, std::int64_t groups) {
    const std::int64_t in = channels_, in_size = size_, out_size = (size_ + stride - 1) / stride;
    const bool first = forward_.empty();
    const std::initializer_list<std::int64_t> shape = {
        batch_, in,       out,      groups, 2,      in_size, in_size, 1, filter, filter,
        1,      out_size, out_size, 1,      stride, stride,  1,       1, 1,      1};
    add(GPEMU_OPERATION_CONVOLUTION_FORWARD, forward_, shape, convolution_type_);
    add(GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER, backward_, shape, convolution_type_);
    if (!first) {
      add(GPEMU_OPERATION_CONVOLUTION_BACKWARD_DATA, backward_, shape, convolution_type_);
    }
    parameters_ += out * (in / groups) * filter * filter;
    channels_ = out;
    size_ = out_size;
  }

  std::int64_t batch_;
  gpemu_data_type convolution_type_;
  std::int64_t channels_ = 3;
  std::int64_t size_ = 224;
  std::int64_t parameters_ = 0;
  std::vector<gpemu_operation> forward_;
  std::vector<gpemu_operation> backward_;
};

void build_resnet50(Network& network) {
  network.convolution(64, 7, 2);
  network.pool(3, 2);
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    const std::int64_t width = 64 << stage;
    for (int block = 0; block < blocks[stage]; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const std::int64_t channels = network.channels(), size = network.size();
      network.convolution(width, 1, 1);
      network.convolution(width, 3, stride);
      network.convolution(4 * width, 1, 1, true);
      if (block == 0) {
        network.restart(channels, size);
        network.convolution(4 * width, 1, stride, true);
      }
      network.join();
      network.relu();
    }
  }
  network.pool(7, 7);
  network.linear(2048, 1000);
}

void build_vgg16(Network& network) {
  const int convolutions[] = {2, 2, 3, 3, 3};
  const std::int64_t channels[] = {64, 128, 256, 512, 512};
  for (int stage = 0; stage < 5; ++stage) {
    for (int i = 0; i < convolutions[stage]; ++i) {
      network.plain_convolution(channels[stage], 3, 1);
    }
    network.pool(2, 2);
  }
  network.linear(25088, 4096);
  network.linear(4096, 4096);
  network.linear(4096, 1000);
}

void build_mobilenet_v2(Network& network) {
  struct Stage {
    std::int64_t expansion, channels, blocks, stride;
  };
  network.convolution(32, 3, 2);
  for (const Stage& stage :
       {Stage{1, 16, 1, 1}, Stage{6, 24, 2, 2}, Stage{6, 32, 3, 2}, Stage{6, 64, 4, 2},
        Stage{6, 96, 3, 1}, Stage{6, 160, 3, 2}, Stage{6, 320, 1, 1}}) {
    for (int block = 0; block < stage.blocks; ++block) {
      const std::int64_t inner = network.channels() * stage.expansion;
      if (stage.expansion > 1) network.convolution(inner, 1, 1);
      network.convolution(inner, 3, block == 0 ? stage.stride : 1, false, inner);
      network.convolution(stage.channels, 1, 1, true);
      if (block > 0) network.join();
    }
  }
  network.convolution(1280, 1, 1);
  network.pool(7, 7);
  network.linear(1280, 1000);
}

struct MeasuredStep {
  const char* gpu;
  const char* model;
  std::int64_t batch;
  double forward_ms;
  double backward_ms;
};

// Source: GPEmu measurements (VLDB 2025), the rows in evidence/packs/gpemu-vldb25 and, where a row
// was left out there because interpolation finds it, the measured value of the same run.
constexpr MeasuredStep kMeasuredSteps[] = {
    {"A100-SXM4-40GB", "resnet50", 32, 14.5534, 33.8396},
    {"A100-SXM4-40GB", "resnet50", 64, 27.6115, 58.4172},
    {"A100-SXM4-40GB", "vgg16", 32, 17.5801, 43.4278},
    {"A100-SXM4-40GB", "vgg16", 64, 34.4082, 78.2488},
    {"A100-SXM4-40GB", "mobilenet_v2", 32, 10.7941, 24.0884},
    {"A100-SXM4-40GB", "mobilenet_v2", 64, 15.6937, 38.9274},
    {"V100-PCIE-32GB", "resnet50", 32, 31.7250, 79.5707},
    {"V100-PCIE-32GB", "resnet50", 64, 61.1568, 145.1168},
    {"V100-PCIE-32GB", "vgg16", 32, 54.1159, 99.0473},
    {"V100-PCIE-32GB", "vgg16", 64, 109.3248, 185.0669},
    {"V100-PCIE-32GB", "mobilenet_v2", 32, 11.0621, 31.1853},
    {"V100-PCIE-32GB", "mobilenet_v2", 64, 21.2046, 54.7784},
    {"P100-PCIE-16GB", "resnet50", 32, 50.9194, 112.3444},
    {"P100-PCIE-16GB", "resnet50", 64, 97.9877, 212.0521},
    {"P100-PCIE-16GB", "vgg16", 32, 80.1074, 168.1010},
    {"P100-PCIE-16GB", "vgg16", 64, 156.8608, 311.4445},
    {"P100-PCIE-16GB", "mobilenet_v2", 32, 19.7219, 53.0170},
    {"P100-PCIE-16GB", "mobilenet_v2", 64, 37.3556, 99.6990},
    {"Quadro-RTX-6000", "resnet50", 32, 35.0589, 81.4811},
    {"Quadro-RTX-6000", "resnet50", 64, 69.2815, 164.4467},
    {"Quadro-RTX-6000", "vgg16", 32, 58.6029, 113.5710},
    {"Quadro-RTX-6000", "vgg16", 64, 117.6760, 211.0808},
    {"Quadro-RTX-6000", "mobilenet_v2", 32, 12.9496, 34.9707},
    {"Quadro-RTX-6000", "mobilenet_v2", 64, 25.9375, 63.9710},
};

double total_ms(const OperationCostModel& model, const std::vector<gpemu_operation>& operations) {
  Duration total{};
  for (const gpemu_operation& operation : operations) total += model.price(operation).estimate.time;
  return to_milliseconds(total);
}

Result<profile::GpuSpec> load(const std::string& gpu) {
  return profile::load_gpu_spec(std::string(GPEMU_GPUS_FOLDER "/") + gpu + ".toml");
}

TEST(OperationCostModel, AMaskTakesAtMostThreeTimesItsBytes) {
  // Of attention's scores, on all GPUs with parameters of their own.
  constexpr std::int64_t kScores = std::int64_t{80} * 1024 * 1024, kMask = 1024 * 1024;
  for (const char* const gpu : {"K80", "M40", "P100-PCIE-16GB", "V100-PCIE-32GB", "Quadro-RTX-6000",
                                "A100-SXM4-40GB", "RTX-3090", "H100-SXM5-80GB", "H200-SXM-141GB"}) {
    const Result<profile::GpuSpec> spec = load(gpu);
    ASSERT_TRUE(spec) << spec.error().message;
    const gpemu_operation mask{.struct_size = sizeof(gpemu_operation),
                               .kind = GPEMU_OPERATION_ELEMENTWISE,
                               .type = GPEMU_TYPE_FP32,
                               .shape = {kScores + kMask, kScores},
                               .name = "mask",
                               .access = GPEMU_ACCESS_STRIDED};
    const double seconds = to_seconds(OperationCostModel(*spec).price(mask).estimate.time);
    const double bytes = 4.0 * (2 * kScores + kMask);
    EXPECT_LT(seconds * spec->memory_bandwidth_bytes_per_s / bytes, 3) << gpu;
  }
}

TEST(OperationCostModel, ComesNearMeasuredTrainingSteps) {
  double errors = 0;
  for (const MeasuredStep& measured : kMeasuredSteps) {
    Result<profile::GpuSpec> spec = load(measured.gpu);
    ASSERT_TRUE(spec) << spec.error().message;
    if (!spec->other_arithmetic_like.empty()) {
      spec->other_arithmetic = load(spec->other_arithmetic_like)->calibration;
    }
    const OperationCostModel model(*spec);
    // PyTorch's convolutions use TF32 by default, its products do not.
    Network network(measured.batch, spec->tf32_tensor_flops ? GPEMU_TYPE_TF32 : GPEMU_TYPE_FP32);
    const std::string name = measured.model;
    if (name == "resnet50") build_resnet50(network);
    if (name == "vgg16") build_vgg16(network);
    if (name == "mobilenet_v2") build_mobilenet_v2(network);
    network.optimize();
    const double forward_ms = total_ms(model, network.forward());
    const double backward_ms = total_ms(model, network.backward());
    const double ratio = (forward_ms + backward_ms) / (measured.forward_ms + measured.backward_ms);
    RecordProperty(name + "." + measured.gpu, std::to_string(ratio));
    EXPECT_LT(std::abs(ratio - 1), 0.35) << name << " on " << measured.gpu;
    errors += std::abs(ratio - 1);
  }
  RecordProperty("mean_error", std::to_string(errors / std::size(kMeasuredSteps)));
  EXPECT_LT(errors / std::size(kMeasuredSteps), 0.12);
}

}  // namespace
}  // namespace gpemu::cost
