// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/published_steps.hpp"

#include <filesystem>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::step {
namespace {

constexpr std::string_view kPublishedHead =
    R"({"format":"gpemu-published-operations-1","source":"timm","precision":"amp",)"
    R"("layout":"nhwc","phase":"training","calls":[{"op":"matmul","class":"matmul",)"
    R"("type":"fp16","compute_type":"fp16"}]})";
constexpr std::string_view kPublishedStep =
    R"({"model":"vit","batch":2,"size":224,"ms":{"RTX-3090":12.5},)"
    R"("operations":[[0,1,2,1,2,3,4],[0,0,7,1,5]]})";

class PublishedSteps : public testing::Test {
 protected:
  Result<std::vector<PublishedStep>> read(const std::string& text) {
    const auto folder = std::filesystem::path(testing::TempDir()) /
                        fmt::format("gpemu_published_steps.{}", getpid());
    std::filesystem::create_directories(folder);
    EXPECT_TRUE(write_file_atomically(folder / "steps.jsonl", text));
    auto steps = read_published_steps(folder);
    std::filesystem::remove_all(folder);
    return steps;
  }

  std::string fault(const std::string& text) {
    const auto steps = read(text);
    return steps ? "none" : steps.error().message;
  }
};

TEST_F(PublishedSteps, KeepWhatTheyAskFor) {
  const auto steps = read(fmt::format("{}\n{}\n", kPublishedHead, kPublishedStep));
  ASSERT_TRUE(steps) << steps.error().message;
  ASSERT_EQ(steps->size(), 1U);
  const PublishedStep& step = steps->front();
  EXPECT_EQ(step.layout, "nhwc");
  EXPECT_TRUE(step.training);
  EXPECT_EQ(step.seconds.front().first, "RTX-3090");
  EXPECT_NEAR(step.seconds.front().second, 0.0125, 1e-12);
  EXPECT_EQ(step.operations[1].operation.kind, GPEMU_OPERATION_MATMUL);
  EXPECT_EQ(step.operations[1].operation.shape[1].constant, 5);
  EXPECT_EQ(step.operations[0].forward, 1);
  EXPECT_EQ(step.operations[1].backward, 7);
  EXPECT_EQ(step.copied, 0U);
}

TEST_F(PublishedSteps, MayCopyTheirInputs) {
  std::string step(kPublishedStep);
  step.replace(step.find("\"ms\""), 0, R"("copied":4096,)");
  const auto steps = read(fmt::format("{}\n{}\n", kPublishedHead, step));
  ASSERT_TRUE(steps) << steps.error().message;
  EXPECT_EQ(steps->front().copied, 4096U);
  step.replace(step.find("4096"), 4, "0");
  EXPECT_NE(fault(fmt::format("{}\n{}\n", kPublishedHead, step)).find("copied"), std::string::npos);
}

TEST_F(PublishedSteps, AskForSomething) {
  std::string step(kPublishedStep);
  step.replace(step.find("[[0,"), std::string::npos, "[]}");
  EXPECT_NE(fault(fmt::format("{}\n{}\n", kPublishedHead, step)).find("operations is empty"),
            std::string::npos);
}

TEST_F(PublishedSteps, MayBeOperations) {
  std::string head(kPublishedHead);
  head.replace(head.find("training"), 8, "operations");
  const auto steps = read(fmt::format("{}\n{}\n", head, kPublishedStep));
  ASSERT_TRUE(steps) << steps.error().message;
  EXPECT_TRUE(steps->front().is_operation);
  EXPECT_FALSE(steps->front().training);
  head.replace(head.find("operations\",\"calls"), 10, "both");
  EXPECT_NE(fault(head + "\n").find("phase is not training, inference or operations"),
            std::string::npos);
}

TEST_F(PublishedSteps, NormalizationsOfImagesHaveTheLayoutOfTheStep) {
  std::string head(kPublishedHead);
  const std::string_view matmul = R"("op":"matmul","class":"matmul")";
  head.replace(head.find(matmul), matmul.size(),
               R"("op":"normalization_forward","class":"normalization")");
  const auto steps = read(
      fmt::format("{}\n{}\n", head,
                  R"({"model":"a","batch":1,"size":1,"ms":{"T4":1},"operations":[[0,1,0,800,8],)"
                  R"([0,1,0,800,0]]})"));
  ASSERT_TRUE(steps) << steps.error().message;
  EXPECT_TRUE(steps->front().operations[0].operation.channels_last);
  EXPECT_FALSE(steps->front().operations[1].operation.channels_last) << "not of images";
}

TEST_F(PublishedSteps, FaultsNameTheirLine) {
  EXPECT_NE(fault("{}\n").find("steps.jsonl:1"), std::string::npos);
  EXPECT_NE(fault("[1\n").find("is not a JSON object"), std::string::npos);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string step(kPublishedStep);
    step.replace(step.find(from), from.size(), to);
    return fault(fmt::format("{}\n{}\n", kPublishedHead, step));
  };
  EXPECT_NE(with("[0,0,7,1,5]", "[1,0,7,1,5]").find("steps.jsonl:2"), std::string::npos);
  EXPECT_NE(with("[0,0,7,1,5]", "[0,-1,7]").find("two counts and a shape"), std::string::npos);
  EXPECT_NE(with("[0,0,7,1,5]", "[0,0,0,1,5]").find("both counts are 0"), std::string::npos);
  EXPECT_NE(with("[0,0,7,1,5]", "[0,1]").find("two counts and a shape"), std::string::npos);
  EXPECT_NE(with("[0,0,7,1,5]", "[0,0,7,1.5]").find("two counts"), std::string::npos);
  EXPECT_NE(with("12.5", "0").find("ms"), std::string::npos);
  EXPECT_NE(with("\"batch\":2", "\"batch\":0").find("batch"), std::string::npos);
  EXPECT_NE(with("\"size\":224", "\"side\":224").find("size"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::step
