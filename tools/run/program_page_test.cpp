// SPDX-License-Identifier: Apache-2.0
#include "run/program_page.hpp"

#include <filesystem>
#include <fstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/record/summary.hpp"

namespace gpemu::tools {
namespace {

TEST(ProgramPage, LeavesOutDevicesThatTheRecordHasNoRoomFor) {
  record::RecordedProcess process{};
  process.lines = fmt::format("{}/gpemu_page_{}.lines", testing::TempDir(), ::getpid());
  std::ofstream file(process.lines);
  file << R"({"name":0,"text":"gemm"})" << '\n';
  for (const int device : {0, 256, 4095}) {
    file << fmt::format(
                R"({{"op":"matmul","name":0,"device":{},"stream":7,"start_ns":1,"end_ns":2,)"
                R"("duration_ns":1,"class":"matmul","evidence":"analytic"}})",
                device)
         << '\n';
  }
  file.close();
  process.totals.lines = 4;
  process.totals.devices[0].used = 1;
  nlohmann::ordered_json summary = record::summarise({process});
  summary.update({{"program", {"p"}},
                  {"gpus", {"V100"}},
                  {"node", ""},
                  {"clock", "virtual"},
                  {"exit_code", 0}});
  const auto page = program_page(summary, {process}, {});
  std::filesystem::remove(process.lines);
  ASSERT_TRUE(page) << page.error().message;
  EXPECT_TRUE(page->contains("The last 1 operations"));
}

}  // namespace
}  // namespace gpemu::tools
