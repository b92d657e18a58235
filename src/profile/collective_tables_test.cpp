// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/collective_tables.hpp"

#include <filesystem>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::profile {
namespace {

class CollectiveTablesTest : public testing::Test {
 protected:
  CollectiveTablesTest() { std::filesystem::create_directory(folder_); }
  ~CollectiveTablesTest() override { std::filesystem::remove_all(folder_); }

  /// Returns the message of the fault of tables with these rows.
  std::string fault(const std::string& machine, const std::string& time) {
    write(machine, time);
    const auto tables = read_collective_tables(folder_);
    if (tables) return "none";
    return tables.error().message.substr(folder_.string().size() + 1);
  }
  void write(const std::string& machine, const std::string& time) {
    EXPECT_TRUE(write_file_atomically(
        folder_ / "machines.csv",
        "machine,ranks,nodes,gpu,generation,inside,switched,line_gb_per_s,searched_gb_per_s,"
        "channels,between,network_gb_per_s\n" +
            machine + "\n"));
    EXPECT_TRUE(write_file_atomically(
        folder_ / "times.csv",
        "machine,ranks,nodes,collective,bytes,microseconds,launcher,algorithm,forced\n" + time +
            "\n"));
  }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                        ("gpemu_collectives_" + std::to_string(::getpid()));
  const std::string machine_ = "dgx,8,1,a100,ampere,nvlink,yes,300,240,24,none,0";
  const std::string time_ = "dgx,8,1,all-reduce,1024,25.5,each,ring,no";
};

TEST_F(CollectiveTablesTest, AreInBytesAndSeconds) {
  write(machine_, time_);
  const auto tables = read_collective_tables(folder_);
  ASSERT_TRUE(tables) << tables.error().message;
  ASSERT_EQ(tables->groups.size(), 1);
  EXPECT_DOUBLE_EQ(tables->groups[0].line_rate, 300e9);
  EXPECT_TRUE(tables->groups[0].switched);
  ASSERT_EQ(tables->times.size(), 1);
  EXPECT_DOUBLE_EQ(tables->times[0].seconds, 25.5e-6);
  EXPECT_EQ(tables->times[0].bytes, 1024);
  EXPECT_FALSE(tables->times[0].forced);
}

TEST_F(CollectiveTablesTest, NameTheLineOfAFault) {
  EXPECT_EQ(fault(machine_, time_), "none");
  EXPECT_EQ(fault(machine_, "dgx,4,1,all-reduce,1024,25.5,each,ring,no"),
            "times.csv:2: machines.csv does not list these GPUs");
  EXPECT_EQ(fault("dgx,8,3,a100,ampere,nvlink,yes,300,240,24,rdma,25", time_).substr(0, 16),
            "machines.csv:2: ");
  EXPECT_EQ(fault("dgx,8,1,a100,ampere,nvlink,yes,300,240,24,none,25", time_),
            "machines.csv:2: several nodes need a network, and one has none");
  EXPECT_NE(fault(machine_, "dgx,8,1,all-reduce,1024,0,each,ring,no"), "none");
}

}  // namespace
}  // namespace gpemu::profile
