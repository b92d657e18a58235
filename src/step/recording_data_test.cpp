// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/step/recording.hpp"

namespace gpemu::step {
namespace {

namespace fs = std::filesystem;

const fs::path kFolder = fs::path(GPEMU_PACKS_FOLDER) / "gpemu-vldb25" / "operations";

/// Arithmetic of the convolutions and products of a phase, in GFLOP.
double gflops(const Recording& recording, std::size_t phase, int batch) {
  double total = 0;
  for (const int index : recording.phases.at(phase).operations) {
    const auto& operation = recording.operations.at(static_cast<std::size_t>(index));
    const kernels::DescribedOperation at = operation.at(batch);
    const auto* const shape = at.operation.shape;
    if (operation.kind == GPEMU_OPERATION_MATMUL) {
      total += 2e-9 * static_cast<double>(shape[0] * shape[1] * shape[2] * shape[3]);
    } else if (operation.kind >= GPEMU_OPERATION_CONVOLUTION_FORWARD &&
               operation.kind <= GPEMU_OPERATION_CONVOLUTION_BACKWARD_FILTER) {
      const std::int64_t channels_of_filter = shape[1] / shape[3];
      total += 2e-9 * static_cast<double>(shape[0] * channels_of_filter * shape[2] * shape[8] *
                                          shape[9] * shape[11] * shape[12]);
    }
  }
  return total;
}

TEST(RecordingData, IsWhatTheWriterWrites) {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".jsonl") continue;  // Times of single operations.
    const auto text = read_file(entry.path());
    ASSERT_TRUE(text.has_value()) << name;
    const auto recording = parse_recording(*text, name);
    ASSERT_TRUE(recording.has_value()) << recording.error().message;
    EXPECT_TRUE(write_recording(*recording) == *text) << name;
    EXPECT_EQ(recording->model + ".json", name);
    ASSERT_EQ(recording->phases.size(), 2U) << name;
    EXPECT_EQ(recording->phases[0].name, "forward");
    EXPECT_EQ(recording->phases[1].name, "backward");
    EXPECT_TRUE(std::ranges::none_of(recording->operations, [](const auto& operation) {
      return operation.kind == GPEMU_OPERATION_KERNEL;
    })) << name;
    // Backward is twice the work of forward, less the gradient of the images.
    const double ratio = gflops(*recording, 1, 8) / gflops(*recording, 0, 8);
    EXPECT_GT(ratio, 1.7) << name;
    EXPECT_LE(ratio, 2) << name;
    ASSERT_TRUE(recording->memory.has_value()) << name;
    const AllocatedMemory memory = allocated_at(recording->memory.value_or(RecordedMemory()), 32);
    EXPECT_GT(memory.peak, memory.persistent) << name;
    ++files;
  }
  EXPECT_EQ(files, 36);
}

TEST(RecordingData, LinearLayersSumAlongBothOperandsForwardOnly) {
  const auto text = read_file(fs::path(kFolder) / "resnet50.json");
  ASSERT_TRUE(text.has_value());
  const auto recording = parse_recording(*text, "resnet50.json");
  ASSERT_TRUE(recording.has_value());
  const auto products = [&](std::size_t phase) {
    std::vector<std::int64_t> along;
    for (const int index : recording->phases.at(phase).operations) {
      const auto& operation = recording->operations.at(static_cast<std::size_t>(index));
      if (operation.kind == GPEMU_OPERATION_MATMUL) along.push_back(operation.shape[6].constant);
    }
    return along;
  };
  EXPECT_EQ(products(0), (std::vector<std::int64_t>{1}));
  EXPECT_EQ(products(1), (std::vector<std::int64_t>{0, 0}));
}

TEST(RecordingData, HasTheKnownWorkOfModels) {
  // Multiply-adds of one image. Source: torchvision's table of weights ("GFLOPS", which counts
  // multiply-adds): resnet50 4.09, vgg16 15.47, mobilenet_v2 0.30, densenet121 2.83.
  const std::pair<const char*, double> known[] = {
      {"resnet50", 4.09}, {"vgg16", 15.47}, {"mobilenet_v2", 0.30}, {"densenet121", 2.83}};
  for (const auto& [model, multiply_adds] : known) {
    const auto text = read_file(kFolder / (std::string(model) + ".json"));
    ASSERT_TRUE(text.has_value()) << model;
    const auto recording = parse_recording(*text, model);
    ASSERT_TRUE(recording.has_value()) << recording.error().message;
    EXPECT_NEAR(gflops(*recording, 0, 1) / 2 / multiply_adds, 1, 0.02) << model;
    EXPECT_NEAR(gflops(*recording, 0, 256), 256 * gflops(*recording, 0, 1), 1e-6) << model;
  }
}

TEST(RecordingData, HoldsWeightsGradientsAndMomentumBetweenSteps) {
  // Source: torchvision's table of weights ("num_params").
  const std::pair<const char*, double> known[] = {
      {"resnet50", 25557032}, {"vgg16", 138357544}, {"densenet121", 7978856}};
  for (const auto& [model, parameters] : known) {
    const auto text = read_file(kFolder / (std::string(model) + ".json"));
    ASSERT_TRUE(text.has_value()) << model;
    const auto recording = parse_recording(*text, model);
    ASSERT_TRUE(recording.has_value() && recording->memory.has_value()) << model;
    const double images = 64.0 * 3 * 224 * 224 * 4;
    const RecordedMemory memory = recording->memory.value_or(RecordedMemory());
    const auto held = static_cast<double>(allocated_at(memory, 64).persistent);
    // The rest are outputs, targets, the state of batch normalization, and rounding.
    EXPECT_GT(held, 12 * parameters + images) << model;
    EXPECT_LT(held, 1.03 * (12 * parameters + images)) << model;
  }
}

}  // namespace
}  // namespace gpemu::step
