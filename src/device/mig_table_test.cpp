// SPDX-License-Identifier: Apache-2.0
#include "mig_table.hpp"

#include <atomic>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::device {
namespace {

/// The instances of an A100, as two attachments see them.
class MigTableTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto spec =
        profile::load_gpu_spec(std::filesystem::path(GPEMU_GPUS_FOLDER) / "A100-SXM4-40GB.toml");
    ASSERT_TRUE(spec) << spec.error().message;
    profiles_ = spec->mig_profiles;
  }

  static Result<void> make_two(MigLayout& layout) {
    GPEMU_TRY(layout.create(9));
    GPEMU_TRY(layout.create(19));
    GPEMU_TRY(layout.create_compute(2, 2));
    return {};
  }
  static Result<void> destroy_first(MigLayout& layout) { return layout.destroy_compute(2, 0); }

  [[nodiscard]] MigLayout layout() const { return MigLayout(profiles_, first_.read().words); }

  std::vector<profile::MigProfile> profiles_;
  std::unique_ptr<layout::MigTable> table_ = std::make_unique<layout::MigTable>();
  std::string users_;
  std::function<void()> while_it_looks_ = [] {};
  MigTable first_{*table_, 0, [this](int) {
                    while_it_looks_();
                    return users_;
                  }};
  MigTable second_{*table_, 1, [](int) { return ""; }};
};

TEST_F(MigTableTest, AllSeeAWholeChangeOrNothing) {
  EXPECT_EQ(layout(), MigLayout(profiles_));
  ASSERT_TRUE(second_.change(profiles_, make_two));
  EXPECT_EQ(layout().instances().size(), 2U);
  EXPECT_EQ(layout().devices(0, "GPU-1").size(), 1U);
  const Result<void> refused = first_.change(profiles_, [](MigLayout& layout) -> Result<void> {
    GPEMU_TRY(layout.create(19));
    GPEMU_TRY(layout.create(0));
    return {};
  });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(layout().instances().size(), 2U) << "the first of the two has not been made either";
}

TEST_F(MigTableTest, AChangeAppliesToWhatOthersHaveChangedMeanwhile) {
  int calls = 0;
  const Result<void> changed = first_.change(profiles_, [&](MigLayout& layout) -> Result<void> {
    if (++calls == 1) {
      EXPECT_TRUE(second_.change(profiles_, make_two));
    }
    GPEMU_TRY(layout.create(14));
    return {};
  });
  ASSERT_TRUE(changed);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(layout().instances().size(), 3U);
}

TEST_F(MigTableTest, AnInstanceThatAProcessUsesStays) {
  ASSERT_TRUE(first_.change(profiles_, make_two));
  const MigDevice device = layout().devices(0, "GPU-1").front();
  users_ = "process 7 (python)";
  const Result<void> refused = first_.change(profiles_, destroy_first);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the compute instance is in use by process 7 (python)");
  EXPECT_EQ(layout().devices(0, "GPU-1").size(), 1U);
  EXPECT_TRUE(second_.keep(device));
}

// The process has published its use after the destroyer looked, so the mark is what it sees.
TEST_F(MigTableTest, AProcessThatComesDuringTheDestructionKeepsTheInstance) {
  ASSERT_TRUE(first_.change(profiles_, make_two));
  const MigDevice device = layout().devices(0, "GPU-1").front();
  bool kept = false;
  while_it_looks_ = [&] {
    if (kept) return;
    kept = second_.keep(device);
    EXPECT_TRUE(kept);
    users_ = "";
    while_it_looks_ = [&] { users_ = "process 7 (python)"; };
  };
  const Result<void> refused = first_.change(profiles_, destroy_first);
  ASSERT_FALSE(refused);
  EXPECT_TRUE(kept);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(layout().devices(0, "GPU-1").size(), 1U);
}

TEST_F(MigTableTest, AProcessThatComesTooLateIsTold) {
  ASSERT_TRUE(first_.change(profiles_, make_two));
  const MigDevice device = layout().devices(0, "GPU-1").front();
  ASSERT_TRUE(first_.change(profiles_, destroy_first));
  EXPECT_FALSE(second_.keep(device));
  // Another kind of instance at the same place is not this one.
  ASSERT_TRUE(first_.change(profiles_, [](MigLayout& layout) -> Result<void> {
    GPEMU_TRY(layout.create_compute(2, 0));
    return {};
  }));
  EXPECT_FALSE(second_.keep(device));
}

TEST_F(MigTableTest, RefusesInstancesOfUnknownSize) {
  profiles_[4].memory_bytes = std::nullopt;
  const Result<void> refused = first_.change(profiles_, make_two);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_TRUE(refused.error().message.contains("add multiprocessors and memory_mib to its table"));
}

TEST_F(MigTableTest, WeighsPlacesByTheirComputeSlices) {
  ASSERT_TRUE(first_.change(profiles_, make_two));
  const auto weights = MigTable::weights(first_.read().words);
  EXPECT_DOUBLE_EQ(weights[4], 3.0 / 7);
  EXPECT_DOUBLE_EQ(weights[0], 1.0 / 7);
}

TEST_F(MigTableTest, ThreadsThatChangeItLeaveWholeStates) {
  constexpr int kThreads = 4;
  constexpr int kChanges = 2000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([this, i, &running] {
      std::mt19937 random(static_cast<unsigned>(i));
      MigTable own(*table_, static_cast<std::size_t>(2 + i), [](int) { return ""; });
      for (int k = 0; k < kChanges; ++k) {
        const auto draw = random();
        static_cast<void>(own.change(profiles_, [&](MigLayout& layout) -> Result<void> {
          const auto& instances = layout.instances();
          if (draw % 2 == 0 && !instances.empty()) {
            const int id = instances[draw / 2 % instances.size()].id;
            if (!layout.instance(id)->compute.empty()) {
              GPEMU_TRY(layout.destroy_compute(id, layout.instance(id)->compute.front().id));
            }
            return layout.destroy(id);
          }
          GPEMU_ASSIGN(const int id, layout.create(profiles_[draw / 2 % profiles_.size()].id));
          GPEMU_TRY(layout.create_compute(id, 0));
          return {};
        }));
      }
      --running;
    });
  }
  constexpr std::uint64_t kMarks = 0x4040404040404000;
  int reads = 0;
  while (running > 0) {
    MigLayout::Words words = first_.read().words;
    for (std::uint64_t& word : words) word &= ~kMarks;
    // A torn state would overlap, and what overlaps is not read.
    ASSERT_EQ(MigLayout(profiles_, words).words(), words);
    ++reads;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(reads, 0);
  EXPECT_GE(first_.read().version >> 9, 2U * kChanges) << "most changes have been made";
}

}  // namespace
}  // namespace gpemu::device
