// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/sim/clock.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

std::string text_of(const TestWorld& world, const char* name) {
  return read_file(world.folder / name, kMiB).value();
}

TEST(JobsCommandTest, MakesTheSameJobsFromTheSameSeed) {
  const TestWorld world;
  const auto make = [&](const char* name, const char* seed) {
    const Outcome outcome =
        world.run({"jobs", "make", (world.folder / name).string(), "--jobs", "50", "--gpus",
                   "1:3,4", "--models", "bert,vgg16:2", "--arrivals", "bursts", "--seed", seed});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_NE(outcome.output.find(std::string(name) + ": 50 jobs in "), std::string::npos);
    return text_of(world, name);
  };
  const std::string first = make("a.csv", "5");
  EXPECT_TRUE(first.starts_with("job,arrival_s,gpus,duration_s,model\n0,0,")) << first;
  EXPECT_EQ(make("b.csv", "5"), first);
  EXPECT_NE(make("c.csv", "6"), first);
  const Outcome scheduled = world.run(
      {"schedule", (world.folder / "a.csv").string(), "--servers", "1", "--policy", "fifo"});
  EXPECT_EQ(scheduled.code, 0) << scheduled.errors;
}

TEST(JobsCommandTest, ConvertsTraces) {
  const TestWorld world;
  const std::string log = world.write(
      "log.csv",
      "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,"
      "queue\n"
      "1,a,v,1,1,1,PASS,2020-06-09 18:00:00,2020-06-09 18:00:00,2020-06-09 18:00:09,9,0\n"
      "2,b,v,2,1,1,PASS,2020-06-09 18:00:10,2020-06-09 18:00:10,2020-06-09 18:00:15,5,0\n"
      "3,b,v,0,1,1,PASS,2020-06-09 18:00:10,2020-06-09 18:00:10,2020-06-09 18:00:15,5,0\n"
      "4,b,v,2,1,1,PASS,2020-06-09 18:00:20,2020-06-09 18:00:20,2020-06-09 18:00:25,5,0\n");
  const std::string output = (world.folder / "jobs.csv").string();
  const Outcome outcome =
      world.run({"jobs", "convert", log, output, "--first", "2", "--stretch", "0.5"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(outcome.output.find("2 jobs in 0.0 h, 0.0 hours of a GPU; 1 that never ran on GPUs is "
                                "left out"),
            std::string::npos)
      << outcome.output;
  EXPECT_EQ(text_of(world, "jobs.csv"),
            "job,arrival_s,gpus,duration_s,user\n1,0,1,9,0\n2,5,2,5,1\n");
}

TEST(JobsCommandTest, ConvertsTracesWithoutDurationsBySpeeds) {
  const TestWorld world;
  const std::string trace =
      world.write("t.csv", "name,time,application,num_replicas,batch_size\nc-0,3,cifar10,2,8\n");
  const std::string output = (world.folder / "jobs.csv").string();
  EXPECT_NE(world.run({"jobs", "convert", trace, output}).errors.find("give a table of speeds"),
            std::string::npos);
  const std::string speeds = world.write("s.csv", "model,gpus,speed\ncifar10,2,0.125\n");
  const Outcome outcome =
      world.run({"jobs", "convert", trace, output, "--speeds", speeds, "--quiet"});
  EXPECT_EQ(outcome, (Outcome{})) << outcome.errors;
  EXPECT_EQ(text_of(world, "jobs.csv"),
            "job,arrival_s,gpus,duration_s,model,iterations,iteration_s\nc-0,3,2,8,cifar10,1,8\n");
}

TEST(JobsCommandTest, RunsAJobOnANode) {
  const TestWorld world;
  device::NodeConfig config{.name = "n"};
  config.devices.assign(1, {.gpu = "GPU", .memory_bytes = kMiB});
  const auto node = device::Node::create(config, world.world.nodes).value();
  const std::string pace = world.write("pace", "2\n");
  const std::string progress = (world.folder / "progress").string();
  const TimePoint begin = node->clock().now();
  const Outcome outcome =
      world.run({"jobs", "run", "--node", "n", "--iterations", "4", "--iteration", "0.004",
                 "--stages", "0.001,0.002,0.001", "--pace", pace, "--progress", progress});
  EXPECT_EQ(outcome, (Outcome{})) << outcome.errors;
  EXPECT_GE(node->clock().now() - begin, std::chrono::milliseconds(32));
  EXPECT_EQ(read_file(progress, kMiB).value(), "4\n");
  const auto fault = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"jobs",         "run", "--node",      "n",
                                   "--iterations", "1",   "--iteration", "0.001"};
    words.insert(words.end(), more.begin(), more.end());
    return world.run(words).errors;
  };
  EXPECT_NE(fault({"--gpus", "2"}).find("--gpus 2 ask for device 1 of node 'n', whose last is 0"),
            std::string::npos);
  EXPECT_NE(fault({"--stages", "1,-2,3"}).find("--stages: give three times"), std::string::npos);
  EXPECT_NE(fault({"--pace", world.write("none", "0")}).find("'0' is no pace"), std::string::npos);
  EXPECT_NE(fault({"--pace", "/no/file"}).find("/no/file"), std::string::npos);
  EXPECT_NE(fault({"--progress", "/no/file"}).find("cannot write /no/file"), std::string::npos);
}

TEST(JobsCommandTest, ResumesAJobOnTheGpusThatAVariableNames) {
  TestWorld world;
  device::NodeConfig config{.name = "n"};
  config.devices.assign(3, {.gpu = "GPU", .memory_bytes = kMiB});
  const auto node = device::Node::create(config, world.world.nodes).value();
  world.world.environment = [] { return std::vector<std::string>{"GPEMU_DEVICES=2"}; };
  const std::string progress = (world.folder / "progress").string();
  const auto run = [&](const char* iterations, const char* gpus) {
    return world.run({"jobs", "run", "--node", "n", "--iterations", iterations, "--iteration",
                      "0.01", "--progress", progress, "--resume", "--gpus", gpus});
  };
  const auto busy = [&](int device) {
    return node->device_snapshot(device, node->clock().now()).engines[0].busy;
  };
  EXPECT_EQ(run("3", "1"), (Outcome{}));
  EXPECT_EQ(read_file(progress, kMiB).value(), "3\n");
  EXPECT_EQ(run("5", "1"), (Outcome{}));
  EXPECT_EQ(read_file(progress, kMiB).value(), "5\n");
  EXPECT_EQ(busy(2), std::chrono::milliseconds(50)) << "five iterations, not eight";
  EXPECT_EQ(busy(0), Duration::zero());
  EXPECT_NE(run("5", "2").errors.find("--gpus 2 asks for more GPUs than GPEMU_DEVICES=2 names"),
            std::string::npos);
  static_cast<void>(world.write("progress", "half\n"));
  EXPECT_NE(run("5", "1").errors.find("'half' is no number of iterations; remove the file"),
            std::string::npos);
}

TEST(JobsCommandTest, NamesTheOptionAtFault) {
  const TestWorld world;
  const auto fault_of = [&](std::string option, std::string value) {
    return world
        .run({"jobs", "make", (world.folder / "a.csv").string(), std::move(option),
              std::move(value)})
        .errors;
  };
  EXPECT_NE(fault_of("--gpus", "1:x").find("--gpus: \"1:x\" has no weight"), std::string::npos);
  EXPECT_NE(fault_of("--gpus", "a:1").find("--gpus: \"a:1\" is no number"), std::string::npos);
  EXPECT_NE(fault_of("--swing", "0.5").find("--swing is for --arrivals diurnal"),
            std::string::npos);
  EXPECT_NE(fault_of("--jobs", "0").find("0 jobs"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(world.folder / "a.csv"));
}

}  // namespace
}  // namespace gpemu::tools
