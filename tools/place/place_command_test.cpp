// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

constexpr const char* kPods =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
    "a,1000,1024,1,1000,\nb,1000,1024,1,1000,\nc,1000,1024,1,1000,T4\nd,1000,1024,1,1000,T4\n";
constexpr const char* kServers =
    "sn,cpu_milli,memory_mib,gpu,model\ns0,8000,65536,2,T4\ns1,8000,65536,2,A10\n";

/// All of the jobs arrive, and the fifth would go beyond the load; so all of them fit unless those
/// that may have any GPU take those of the others.
TEST(PlaceCommandTest, ShowsHowFullTheFleetIs) {
  const TestWorld world;
  const Outcome outcome = world.run({"place", world.write("pods.csv", kPods), "--fleet",
                                     world.write("servers.csv", kServers), "--placement", "fgd",
                                     "--load", "1", "--seeds", "3", "--threads", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(squeezed(outcome.output).find("pods.csv fgd 3 4 "), std::string::npos)
      << outcome.output;
}

TEST(PlaceCommandTest, SameSeedSameJson) {
  const TestWorld world;
  const std::string pods = world.write("pods.csv", kPods);
  const std::string servers = world.write("servers.csv", kServers);
  const auto json_of = [&](const std::string& threads) {
    const Outcome outcome = world.run({"place", pods, "--fleet", servers, "--seeds", "4", "--seed",
                                       "7", "--threads", threads, "--json", "-"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    return parsed(outcome.output);
  };
  const nlohmann::json json = json_of("1");
  EXPECT_EQ(json["format"], "gpemu-place-1");
  EXPECT_EQ(json["results"].size(), 6U * 4);
  EXPECT_EQ(json["results"][1]["seed"], 8);
  EXPECT_EQ(json["results"], json_of("3")["results"]);
}

TEST(PlaceCommandTest, NamesTheFaultAndWhereItIs) {
  const TestWorld world;
  const std::string servers = world.write("servers.csv", kServers);
  const auto fault_of = [&](const std::string& row) {
    const std::string pods =
        world.write("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n" + row);
    return world.run({"place", pods, "--fleet", servers}).errors;
  };
  EXPECT_NE(fault_of("a,1,1,1,1500,\n").find("pods.csv:2: gpu_milli"), std::string::npos);
  EXPECT_NE(fault_of("a,1,1,2,0,\n").find("pods.csv:2: it asks for GPUs, but for nothing of them"),
            std::string::npos);
  EXPECT_NE(fault_of("a,0,0,0,0,\n").find("pods.csv:2: it asks for nothing"), std::string::npos);
  EXPECT_NE(fault_of("a,1,1,1,1000,H100\n").find("pods.csv:2: the fleet has no GPU \"H100\""),
            std::string::npos);
}

TEST(PlaceCommandTest, ScheduleNeedsToKnowHowLongJobsRun) {
  const TestWorld world;
  const std::string pods = world.write("pods.csv", kPods);
  EXPECT_NE(world.run({"schedule", pods, "--servers", "1"}).errors.find("`gpemu place`"),
            std::string::npos);
}

}  // namespace
}  // namespace gpemu::tools
