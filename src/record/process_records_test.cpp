// SPDX-License-Identifier: Apache-2.0
#include "gpemu/record/process_records.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::record {
namespace {

constexpr const char* kName = R"({"name":0,"text":"gemm"})";
constexpr const char* kOperation =
    R"({"op":"matmul","name":0,"device":0,"stream":7,"start_ns":1,"end_ns":2,"duration_ns":1,)"
    R"("class":"matmul","evidence":"analytic"})";
constexpr const char* kCollective =
    R"({"collective":5,"name":0,"device":0,"stream":7,"communicator":"0a","number":3,)"
    R"("rank":1,"ranks":2,"type":"fp32","bytes":8,"bus_factor":1,"asked_ns":1})";
constexpr const char* kMark = R"({"mark":"push","time_ns":1,"thread":2,"text":"step"})";

class ProcessRecords : public testing::Test {
 protected:
  ProcessRecords() {
    std::filesystem::create_directories(folder_);
    process_.lines = folder_ / "42.lines";
  }
  ~ProcessRecords() override { std::filesystem::remove_all(folder_); }

  /// Reads lines as those of one process, and returns the number of entries.
  [[nodiscard]] Result<int> read(const std::string& lines) {
    process_.totals.lines = std::ranges::count(lines, '\n');
    std::ofstream(process_.lines) << lines;
    return read();
  }

  /// Reads the lines that there are, and returns the number of entries.
  [[nodiscard]] Result<int> read() const {
    int entries = 0;
    GPEMU_TRY(for_each_entry(process_, [&entries](nlohmann::json&) -> Result<void> {
      ++entries;
      return {};
    }));
    return entries;
  }

  /// Expects that the lines cannot be read, for a reason.
  void expect_unreadable(const char* reason) {
    process_.totals.lines = 1;
    const auto lines = read();
    ASSERT_FALSE(lines);
    EXPECT_EQ(lines.error().code, ErrorCode::kIo);
    EXPECT_TRUE(lines.error().message.ends_with(std::string("42.lines: ") + reason))
        << lines.error().message;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_records_{}", ::getpid());
  RecordedProcess process_{};
};

TEST_F(ProcessRecords, AreReadLineByLine) {
  EXPECT_EQ(read(fmt::format("{}\n{}\n{}\n{{\"memory\":1}}\n", kName, kOperation, kMark)), 2);
}

TEST_F(ProcessRecords, GiveTimesThatBecameKnownLater) {
  std::string lines = fmt::format("{}\n", kName);
  for (const int id : {8, 9}) {
    nlohmann::ordered_json line = nlohmann::ordered_json::parse(kOperation);
    line["id"] = id;
    lines += line.dump() + "\n";
  }
  lines += fmt::format(
      "{}\n{{\"moved\":9,\"start_ns\":100,\"end_ns\":200}}\n"
      "{{\"ended\":5,\"arrived_ns\":10,\"start_ns\":20,\"end_ns\":30,\"waited_for\":1}}\n",
      kCollective);
  process_.totals.lines = 6;
  std::ofstream(process_.lines) << lines;
  std::vector<nlohmann::json> entries;
  ASSERT_TRUE(for_each_entry(process_, [&entries](nlohmann::json& entry) -> Result<void> {
    entries.push_back(entry);
    return {};
  }));
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0]["start_ns"], 1) << "it was not moved";
  EXPECT_EQ(entries[1]["start_ns"], 100);
  EXPECT_EQ(entries[1]["end_ns"], 200);
  EXPECT_EQ(entries[2]["name"], "gemm");
  EXPECT_EQ(entries[2]["arrived_ns"], 10);
  EXPECT_EQ(entries[2]["start_ns"], 20);
  EXPECT_EQ(entries[2]["end_ns"], 30);
  EXPECT_EQ(entries[2]["waited_for"], 1);
  EXPECT_EQ(ProcessLines::read(process_).value().count(), 4);
}

TEST_F(ProcessRecords, OfACollectiveThatDidNotEndHaveNoTimes) {
  process_.totals.lines = 2;
  std::ofstream(process_.lines) << kName << '\n' << kCollective << '\n';
  ASSERT_TRUE(for_each_entry(process_, [](nlohmann::json& entry) -> Result<void> {
    EXPECT_FALSE(entry.contains("end_ns"));
    return {};
  }));
}

TEST_F(ProcessRecords, WithDamagedTimesAreRefusedWithTheirLine) {
  for (const char* const line :
       {R"({"moved":9,"start_ns":100})", R"({"moved":"x","start_ns":1,"end_ns":2})",
        R"({"ended":5,"start_ns":1,"end_ns":2})", R"({"ended":5)"}) {
    const auto entries = read(fmt::format("{}\n{}\n", kName, line));
    ASSERT_FALSE(entries) << line;
    EXPECT_EQ(entries.error().code, ErrorCode::kCorruptData);
    EXPECT_TRUE(entries.error().message.contains(".lines:2: ")) << entries.error().message;
  }
}

TEST_F(ProcessRecords, WithoutLinesNeedNoFile) {
  EXPECT_EQ(read(), 0);
}

TEST_F(ProcessRecords, ThatAreShorterThanTheirTotalsSayAreDamaged) {
  ASSERT_TRUE(read(fmt::format("{}\n", kMark)));
  process_.totals.lines = 2;
  const auto entries = read();
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error().code, ErrorCode::kCorruptData);
}

TEST_F(ProcessRecords, ThatCannotBeReadAreNotDamaged) {
  expect_unreadable("No such file or directory");
  std::filesystem::create_directory(process_.lines);
  expect_unreadable("Is a directory");
}

TEST_F(ProcessRecords, ThatMayNotBeReadAreNotDamaged) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  ASSERT_TRUE(read(fmt::format("{}\n", kMark)));
  std::filesystem::permissions(process_.lines, std::filesystem::perms::none);
  expect_unreadable("Permission denied");
}

TEST_F(ProcessRecords, NameTheLibrariesThatProcessesLoaded) {
  std::ofstream(folder_ / "42.loaded") << "/bin/program\nlibcuda.so.1\n";
  std::ofstream(folder_ / "7.loaded") << "/bin/other";
  const auto loaded = read_loaded(folder_);
  ASSERT_TRUE(loaded);
  ASSERT_EQ(loaded->size(), 2U);
  EXPECT_EQ((*loaded)[0].process, 7);
  EXPECT_EQ((*loaded)[0].program, "/bin/other");
  EXPECT_EQ((*loaded)[0].library, "");
  EXPECT_EQ((*loaded)[1].process, 42);
  EXPECT_EQ((*loaded)[1].program, "/bin/program");
  EXPECT_EQ((*loaded)[1].library, "libcuda.so.1");
}

TEST_F(ProcessRecords, CountRanksThatDidNotRun) {
  std::ofstream(folder_ / "42.loaded") << "/bin/program\nlibcuda.so.1\n";
  EXPECT_EQ(count_phantoms(folder_).value(), 0);
  for (const char* name : {"43.phantom", "44.phantom"}) std::ofstream(folder_ / name).flush();
  EXPECT_EQ(count_phantoms(folder_).value(), 2);
  EXPECT_FALSE(count_phantoms(folder_ / "none"));
}

TEST_F(ProcessRecords, SayWhyALibraryCannotBeRead) {
  std::filesystem::create_directory(folder_ / "42.loaded");
  const auto loaded = read_loaded(folder_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kIo);
}

TEST_F(ProcessRecords, ThatAreDamagedAreRefusedWithTheirLine) {
  for (const char* const text : {kOperation, kCollective, kMark, kName}) {
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
