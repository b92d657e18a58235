// SPDX-License-Identifier: Apache-2.0
#include "gpemu/scheduling/fleet_table.hpp"

#include <string>

#include <gtest/gtest.h>

#include "gpemu/scheduling/job_table.hpp"
#include "gpemu/scheduling/policy.hpp"

namespace gpemu::scheduling {
namespace {

std::string message_of(const auto& result) {
  return result ? std::string() : result.error().message;
}

TEST(FleetTableTest, ReadsServersAndHowManyThereAre) {
  const Fleet fleet = parse_fleet(
                          "server,gpu,gpus,cores,memory_gib,count\n"
                          "a,V100,8,24,500,2\nb,P100,4,12.5,64,1\n",
                          "fleet.csv")
                          .value();
  ASSERT_EQ(fleet.servers().size(), 3U);
  EXPECT_EQ(fleet.servers()[1].name, "a1");
  EXPECT_EQ(fleet.kinds(), (std::vector<std::string>{"V100", "P100"}));
  EXPECT_EQ(fleet.kind_of(2), 1);
  EXPECT_EQ(fleet.servers()[2].host, (HostShare{.millicores = 12500, .memory_mib = 64 * 1024}));
  EXPECT_EQ(fleet.gpus(), 20U);
}

TEST(FleetTableTest, ReadsOpenb) {
  const Fleet fleet =
      parse_fleet("sn,cpu_milli,memory_mib,gpu,model\nn,64000,262144,2,P100\nc,96000,1,0,\n", "n")
          .value();
  EXPECT_EQ(fleet.servers()[0].host, (HostShare{.millicores = 64000, .memory_mib = 262144}));
  EXPECT_EQ(fleet.servers()[1].gpus, 0U);
}

TEST(FleetTableTest, NamesTheFaultAndWhereItIs) {
  EXPECT_NE(message_of(parse_fleet("server,gpus\na,65\n", "f.csv")).find("f.csv:2: gpus"),
            std::string::npos);
  EXPECT_NE(message_of(parse_fleet("server,gpus\na,1.5\n", "f.csv")).find("f.csv:2:"),
            std::string::npos);
  EXPECT_NE(message_of(parse_fleet("server,gpus\na,0\n", "f.csv")).find("0 GPUs"),
            std::string::npos);
  EXPECT_NE(message_of(parse_fleet("server\na\n", "f.csv")).find("f.csv:1: these columns"),
            std::string::npos);
  EXPECT_NE(message_of(parse_fleet("server,gpus,count\na,64,99999999\n", "f.csv")).find("count"),
            std::string::npos);
}

TEST(SpeedTableTest, SpeedsOfKindsAndHostsAreMultiplied) {
  const Fleet fleet = parse_fleet("server,gpu,gpus\na,V100,8\nb,K80,8\n", "f").value();
  const SpeedTable speeds =
      parse_speeds(
          "model,gpu,cores,memory_gib,speed\nr,V100,,,1\nr,K80,,,0.25\nr,T4,,,0.5\n"
          "r,,3,10,1\nr,,6,10,2\n",
          "s.csv", fleet)
          .value();
  const JobTableOptions options{.fleet = &fleet, .speeds = &speeds};
  const Job job =
      parse_jobs("job,arrival_s,gpus,duration_s,model,cores,memory_gib\na,0,2,100,r,8,40\n",
                 "j.csv", options)
          .value()[0];
  EXPECT_EQ(job.iteration_s_on(0), 1);
  EXPECT_EQ(job.iteration_s_on(1), 4);
  GpuSet both;
  both.add({.server = 0, .gpus = 1});
  both.add({.server = 1, .gpus = 1});
  EXPECT_EQ(iteration_s_with(fleet, job, both, {.millicores = 12000, .memory_mib = 20480}), 2);
  EXPECT_EQ(iteration_s_with(fleet, job, both, {.millicores = 5999, .memory_mib = 20480}), kNever);
}

TEST(SpeedTableTest, AFasterGpuNeedsMoreCores) {
  const Fleet fleet = parse_fleet("server,gpu,gpus\na,V100,8\nb,K80,8\n", "f").value();
  const SpeedTable speeds =
      parse_speeds(
          "model,gpu,cores,speed,evidence\nr,V100,3,1,measured\nr,V100,6,2,described host\n"
          "r,K80,3,0.5,measured\nr,T4,1,9,\n",
          "s.csv", fleet)
          .value();
  const SpeedProfile& profile = *speeds.at({"r", kAnyGpus});
  EXPECT_EQ(profile.evidence, "described host and measured");
  EXPECT_EQ(profile.speed(0, {.millicores = 6000}), 2);
  EXPECT_EQ(profile.speed(0, {.millicores = 5999}), 1);
  EXPECT_EQ(profile.speed(1, {.millicores = 6000}), 0.5);
  EXPECT_EQ(profile.speed(1, {.millicores = 2999}), 0);
}

TEST(SpeedTableTest, NamesTheFaultAndWhereItIs) {
  const Fleet fleet = parse_fleet("server,gpu,gpus\na,V100,8\nb,K80,8\n", "f").value();
  const auto fault = [&](const char* text) {
    return message_of(parse_speeds(text, "s.csv", fleet));
  };
  EXPECT_NE(fault("model,gpu,speed\nr,V100,1\n").find("no speed on gpu \"K80\""),
            std::string::npos);
  EXPECT_NE(fault("model,gpu,speed\nr,V100,1\nr,V100,2\n").find("s.csv:3:"), std::string::npos);
  EXPECT_NE(fault("model,gpu,speed\nr,,1\n").find("s.csv:2:"), std::string::npos);
  EXPECT_NE(fault("model,gpu,cores,speed\nr,V100,2,1\n").find("no speed on gpu \"K80\""),
            std::string::npos);
  EXPECT_NE(fault("model,gpu,cores,speed\nr,V100,2,1\nr,K80,,1\n").find("s.csv:3: some rows"),
            std::string::npos);
  EXPECT_NE(fault("model,gpu,speed\nr,V100,-1\n").find("s.csv:2: speed"), std::string::npos);
  EXPECT_NE(fault("model,gpu,speed\nr,V100,0\nr,K80,0\n").find("can run on no GPU"),
            std::string::npos);
}

TEST(JobTableTest, NamesUnknownKindsOfGpus) {
  const Fleet fleet = parse_fleet("server,gpu,gpus\na,V100,8\nb,K80,8\n", "f").value();
  const JobTableOptions options{.fleet = &fleet};
  EXPECT_EQ(parse_jobs("job,arrival_s,gpus,duration_s,gpu,gpu_share,user\n"
                       "a,0,1,5,K80,0.5,x\nb,0,1,5,K80|V100,1,y\nc,0,1,5,,1,x\n",
                       "j.csv", options)
                .value()[0]
                .demand,
            (Demand{.gpus = 1, .gpu_share = 500, .host = {}, .kinds = 2}));
  EXPECT_EQ(
      message_of(parse_jobs("job,arrival_s,gpus,duration_s,gpu\na,0,1,5,A100\n", "j.csv", options)),
      "j.csv:2: the fleet has no GPU \"A100\"; it has V100, K80");
  EXPECT_NE(message_of(parse_jobs("job,arrival_s,gpus,duration_s\na,0,0,5\n", "j.csv", options))
                .find("j.csv:2: it asks for nothing"),
            std::string::npos);
}

}  // namespace
}  // namespace gpemu::scheduling
