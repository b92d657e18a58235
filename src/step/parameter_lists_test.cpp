// SPDX-License-Identifier: Apache-2.0
#include "parameter_lists.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/step/published_steps.hpp"
#include "gpemu/step/step_cost.hpp"

#include "test_evidence.hpp"

namespace gpemu::step {
namespace {

constexpr std::uint64_t kResnet50 = 25557032;

Recording recording_of(const std::string& model) {
  const auto file =
      std::filesystem::path(GPEMU_PACKS_FOLDER) / "gpemu-vldb25" / "operations" / (model + ".json");
  return parse_recording(read_file(file).value(), model).value();
}

std::vector<const RecordedOperation*> phase_of(const Recording& recording, std::size_t index) {
  std::vector<const RecordedOperation*> phase;
  for (const int operation : recording.phases.at(index).operations) {
    phase.push_back(&recording.operations[operation]);
  }
  return phase;
}

/// How often a step asks for operations, by kind and shape.
using Counts = std::map<std::pair<int, std::vector<std::int64_t>>, int>;

std::vector<std::int64_t> shape_of(const RecordedOperation& operation, std::int64_t batch) {
  std::vector<std::int64_t> shape;
  for (const AffineEntry& entry : operation.shape) shape.push_back(entry.at(batch));
  return shape;
}

TEST(ParameterLists, LeaveWhatAProgramOfPytorch211Asks) {
  constexpr int kBatch = 64;
  const Recording recording = recording_of("resnet50");
  const auto backward = phase_of(recording, 1);
  const auto listed = in_lists(backward, kResnet50);
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->tensors, 161U);
  Counts recorded;
  for (const RecordedOperation* const operation : phase_of(recording, 0)) {
    ++recorded[{operation->kind, shape_of(*operation, kBatch)}];
  }
  for (std::size_t i = 0; i < listed->dropped.size(); ++i) {
    if (listed->dropped[i]) continue;
    ++recorded[{backward[i]->kind, shape_of(*backward[i], kBatch)}];
  }
  const auto steps = read_published_steps(GPEMU_MEASURED_FOLDER "/h200/operations").value();
  const auto program = std::ranges::find_if(steps, [](const PublishedStep& step) {
    return step.model == "resnet50" && step.training && step.batch == kBatch &&
           step.precision == "tf32" && step.layout == "nchw";
  });
  ASSERT_NE(program, steps.end());
  // What is left is the optimizer, without the weight decay that the recorded program has.
  std::int64_t written = 0, read = 0;
  for (const auto& [operation, forward, after] : program->operations) {
    const std::pair key{int{operation.kind}, shape_of(operation, kBatch)};
    const int more = forward + after - std::exchange(recorded[key], 0);
    ASSERT_GE(more, 0) << "the program does not ask for it as often";
    read += more * key.second[0];
    written += more * key.second[1];
  }
  for (const auto& [key, count] : recorded) EXPECT_EQ(count, 0) << "the program never asks for it";
  constexpr std::int64_t kLoss = 1;  // Its gradient begins as a one.
  EXPECT_LE(written - 3 * static_cast<std::int64_t>(kResnet50), kLoss);
  ASSERT_EQ(listed->passes.size(), 4U);
  std::int64_t pass_written = 0, pass_read = 0;
  for (std::size_t i = 1; i < listed->passes.size(); ++i) {
    pass_read += listed->passes[i].shape[0].constant;
    pass_written += listed->passes[i].shape[1].constant;
  }
  EXPECT_NEAR(static_cast<double>(written), static_cast<double>(pass_written), kLoss);
  EXPECT_NEAR(static_cast<double>(read), static_cast<double>(pass_read), kLoss);
}

TEST(ParameterLists, AreOnlyThoseOfTheSameParameters) {
  const Recording recording = recording_of("resnet50");
  const auto backward = phase_of(recording, 1);
  EXPECT_FALSE(in_lists(backward, kResnet50 + 1));
  EXPECT_FALSE(in_lists(backward, kResnet50 - 1));
  EXPECT_FALSE(in_lists(phase_of(recording, 0), kResnet50));
  EXPECT_FALSE(in_lists({}, kResnet50));
  // A tensor that the optimizer forgets.
  EXPECT_FALSE(in_lists(std::span(backward).first(backward.size() - 4), kResnet50));
  EXPECT_FALSE(in_lists(std::span(backward).first(backward.size() - 1), kResnet50));
}

/// A row of raw/steps.csv, by column.
using Row = std::map<std::string, std::string>;

std::vector<Row> measured_steps() {
  std::istringstream lines(
      read_file(GPEMU_MEASURED_FOLDER "/h200-sxm-pytorch2.11/raw/steps.csv").value());
  const auto cells = [](const std::string& line) {
    std::vector<std::string> found;
    std::istringstream stream(line);
    for (std::string cell; std::getline(stream, cell, ',');) found.push_back(cell);
    return found;
  };
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> header = cells(line);
  std::vector<Row> rows;
  while (std::getline(lines, line)) {
    const std::vector<std::string> values = cells(line);
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < std::min(header.size(), values.size()); ++i) {
      row[header[i]] = values[i];
    }
  }
  return rows;
}

/// The recorded models at batch 8 on an H200: the host limits almost all of them.
TEST(ParameterLists, PriceSmallStepsAsAnH200TookThem) {
  const profile::GpuSpec h200 =
      profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "H200-SXM-141GB.toml")
          .value();
  const std::vector<Row> rows = measured_steps();
  std::map<std::string, std::uint64_t> parameters;
  std::istringstream models(read_file(GPEMU_PACKS_FOLDER "/gpemu-vldb25/models.csv").value());
  for (std::string line; std::getline(models, line);) {
    const std::size_t comma = line.find(',');
    parameters[line.substr(0, comma)] = std::strtoull(line.c_str() + comma + 1, nullptr, 10);
  }
  int steps = 0, within = 0;
  double forward = 0, backward = 0;
  for (const Row& row : rows) {
    if (row.at("precision") != "tf32" || !parameters.contains(row.at("model"))) continue;
    StepEvidence known = evidence_for_test();
    std::erase_if(known.curves, [](const profile::Curve& curve) {
      return curve.key.quantity <= profile::Quantity::kBackwardOptimizer;
    });
    known.gpu = h200;
    known.model.parameters = parameters.at(row.at("model"));
    known.recording = recording_of(row.at("model"));
    const auto model = StepCostModel::from_evidence(std::move(known));
    ASSERT_TRUE(model) << model.error().message;
    const StepCost cost = model->step(std::stoi(row.at("batch"))).value();
    const double forward_ratio =
        to_milliseconds(cost.forward.time) / std::stod(row.at("forward_ms"));
    const double backward_ratio =
        to_milliseconds(cost.backward_optimizer.time) /
        (std::stod(row.at("backward_ms")) + std::stod(row.at("optimizer_ms")));
    forward += std::abs(forward_ratio - 1);
    backward += std::abs(backward_ratio - 1);
    const double bar = 1 + cost.backward_optimizer.relative_error;
    within += backward_ratio < bar && backward_ratio > 1 / bar ? 1 : 0;
    ++steps;
    RecordProperty(row.at("model"),
                   std::to_string(forward_ratio) + " " + std::to_string(backward_ratio));
    if (row.at("model") == "resnet50") {
      EXPECT_NEAR(backward_ratio, 1, 0.1) << "6.8 and 1.15 ms";
    }
  }
  EXPECT_GE(steps, 30);
  EXPECT_LT(forward / steps, 0.25);
  EXPECT_LT(backward / steps, 0.2);
  EXPECT_GT(within, steps * 8 / 10);
}

}  // namespace
}  // namespace gpemu::step
