// SPDX-License-Identifier: Apache-2.0
//
// The specification that `gpemu-kubernetes cdi` writes, and what its hook refuses.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/wait.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/containers/container_edits.hpp"
#include "gpemu/device/node.hpp"

#include "kubernetes/program_for_tests.hpp"

namespace gpemu {
namespace {

using nlohmann::json;

class CdiCommandTest : public testing::Test {
 protected:
  CdiCommandTest() { make_installation(folder_.path() / "gpemu"); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() / name; }

  json spec(const std::string& gpus) {
    EXPECT_TRUE(program_.start({"cdi", "--gpu", gpus, "--machine", "m", "--state", path("state"),
                                "--installation", path("gpemu"), "--output", path("cdi.json")}));
    EXPECT_EQ(program_.end(0), 0);
    return json::parse(read_file(path("cdi.json")).value());
  }
  static json edits(const json& spec, const std::string& name) {
    for (const json& device : spec["devices"]) {
      if (device["name"] == name) return device["containerEdits"];
    }
    return {};
  }
  static bool sets(const json& edits, const std::string& variable) {
    return std::ranges::find(edits["env"], json(variable)) != edits["env"].end();
  }
  /// Executes the specification's hook for a container with these variables.
  int hook(const json& spec, const json& variables) {
    std::filesystem::create_directories(path("bundle"));
    write_file_atomically(path("bundle/config.json"),
                          json({{"process", {{"env", variables}}}}).dump())
        .value();
    write_file_atomically(path("state.json"),
                          json({{"id", "c"}, {"bundle", path("bundle")}}).dump())
        .value();
    const json& command = spec["containerEdits"]["hooks"][0];
    write_file_atomically(path("hook.sh"), command["args"][2].get<std::string>()).value();
    const std::string line = fmt::format("{} {} <{} 2>{}", command["path"].get<std::string>(),
                                         path("hook.sh"), path("state.json"), path("said"));
    return WEXITSTATUS(std::system(line.c_str()));
  }

  TemporaryFolder folder_ = TemporaryFolder::create(testing::TempDir(), "gpemu-cdi-").value();
  KubernetesProgram program_;
};

TEST_F(CdiCommandTest, ContainersWithTheSameGpuShareIt) {
  const json made = spec("A100-SXM4-40GB:2");
  EXPECT_EQ(made["kind"], "nvidia.com/gpu");
  EXPECT_EQ(made["devices"].size(), 5U) << "by index and UUID, and all";
  const json one = edits(made, "1"), all = edits(made, "all");
  EXPECT_TRUE(sets(one, "GPEMU_DEVICES=1"));
  EXPECT_EQ(one["mounts"], all["mounts"]) << "the same node";
  std::string node;
  for (const json& mount : all["mounts"]) {
    if (mount["containerPath"] == containers::kNodeFolder) node = mount["hostPath"];
  }
  const auto opened = device::Node::open(containers::kNodeName, node);
  ASSERT_TRUE(opened);
  EXPECT_EQ((*opened)->device_count(), 2);
  const std::string uuid = (*opened)->device_snapshot(1, TimePoint{}).uuid;
  EXPECT_EQ(edits(made, uuid), one);
  EXPECT_TRUE(sets(one, "NVIDIA_VISIBLE_DEVICES=" + uuid));
  EXPECT_EQ(spec("A100-SXM4-40GB:2"), made) << "containers that run keep their node";
}

TEST_F(CdiCommandTest, AContainerHasOneDeviceOrAll) {
  const json made = spec("A100-SXM4-40GB:2");
  json variables = edits(made, "1")["env"];
  EXPECT_EQ(hook(made, variables), 0);
  const json other = edits(made, "0")["env"];
  variables.insert(variables.end(), other.begin(), other.end());
  EXPECT_EQ(hook(made, variables), 1);
  EXPECT_EQ(read_file(path("said")).value(),
            "gpemu: a container can have one device of nvidia.com/gpu, or all: "
            "nvidia.com/gpu=all\n");
}

}  // namespace
}  // namespace gpemu
