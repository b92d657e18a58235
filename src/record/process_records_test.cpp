// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/process_records.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::record {
namespace {

constexpr const char* kName = R"({"name":0,"text":"gemm"})";
constexpr const char* kOperation =
    R"({"op":"matmul","name":0,"device":0,"stream":7,"start_ns":1,"end_ns":2,"duration_ns":1,)"
    R"("class":"matmul","evidence":"analytic"})";
constexpr const char* kMark = R"({"mark":"push","time_ns":1,"thread":2,"text":"step"})";

class ProcessRecords : public testing::Test {
 protected:
  ~ProcessRecords() override { std::filesystem::remove(process_.lines); }

  /// Reads lines as those of one process, and returns the number of entries.
  [[nodiscard]] Result<int> read(const std::string& lines) {
    process_.lines = fmt::format("{}/gpemu_{}.lines", testing::TempDir(), ::getpid());
    process_.totals.lines = std::ranges::count(lines, '\n');
    std::ofstream(process_.lines) << lines;
    int entries = 0;
    GPEMU_TRY(for_each_entry(process_, [&entries](nlohmann::json&) -> Result<void> {
      ++entries;
      return {};
    }));
    return entries;
  }

  RecordedProcess process_{};
};

TEST_F(ProcessRecords, AreReadLineByLine) {
  EXPECT_EQ(read(fmt::format("{}\n{}\n{}\n{{\"memory\":1}}\n", kName, kOperation, kMark)), 2);
}

TEST_F(ProcessRecords, ThatAreDamagedAreRefusedWithTheirLine) {
  for (const char* const text : {kOperation, kMark, kName}) {
    const nlohmann::json whole = nlohmann::json::parse(text);
    for (const auto& [field, value] : whole.items()) {
      nlohmann::json other = whole;
      other[field] = value.is_string() ? nlohmann::json(1) : nlohmann::json("text");
      const auto read_other = read(fmt::format("{}\n{}\n", kName, other.dump()));
      ASSERT_FALSE(read_other) << other;
      EXPECT_EQ(read_other.error().code, ErrorCode::kCorruptData);
      EXPECT_TRUE(read_other.error().message.contains(".lines:2: ")) << read_other.error().message;
    }
  }
  EXPECT_FALSE(read(fmt::format("{}\n", kOperation))) << "a name that was not said";
  EXPECT_FALSE(read("[1]\n"));
  nlohmann::json far = nlohmann::json::parse(kOperation);
  for (const std::int64_t device : {std::int64_t{-1}, std::int64_t{1} << 40}) {
    far["device"] = device;
    EXPECT_FALSE(read(fmt::format("{}\n{}\n", kName, far.dump()))) << device;
  }
}

}  // namespace
}  // namespace gpemu::record
