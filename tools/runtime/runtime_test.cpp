// SPDX-License-Identifier: Apache-2.0
//
// The OCI runtime in front of one that only notes how it was called: what containers get, and what
// is refused and passed on.
#include <algorithm>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/containers/container_edits.hpp"
#include "gpemu/device/node.hpp"

#include "runtime/bundle.hpp"
#include "runtime/runtime_call.hpp"
#include "runtime/runtime_settings.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;
using Kind = RuntimeCall::Kind;

RuntimeCall read(const std::vector<std::string>& words) {
  return read_runtime_call(words);
}

TEST(RuntimeCallTest, KnowsWhatEnginesAskFor) {
  // As containerd's shim calls runc, podman crun, and a person runc.
  const RuntimeCall create =
      read({"--root", "/run/runc", "--log", "create", "--log-format=json", "--systemd-cgroup",
            "create", "--bundle", "/b", "--pid-file", "/b/init.pid", "id1"});
  EXPECT_EQ(create.kind, Kind::kCreate);
  EXPECT_EQ(create.bundle, "/b");
  EXPECT_EQ(create.container, "id1");
  EXPECT_EQ(create.log, "create");
  EXPECT_TRUE(create.logs_json);
  const RuntimeCall run = read({"--debug", "run", "-d", "--bundle=/c", "id2"});
  EXPECT_EQ(run.kind, Kind::kRun);
  EXPECT_TRUE(run.detached);
  EXPECT_EQ(run.bundle, "/c");
  EXPECT_EQ(read({"run", "id3"}).bundle, ".");
  const RuntimeCall remove = read({"--root", "/r", "delete", "--force", "id4"});
  EXPECT_EQ(remove.kind, Kind::kDelete);
  EXPECT_EQ(remove.container, "id4");
  for (const auto& words : std::vector<std::vector<std::string>>{
           {}, {"--version"}, {"create"}, {"start", "create"}, {"state", "delete"}}) {
    EXPECT_EQ(read(words).kind, Kind::kOther);
  }
}

TEST(RuntimeSettingsTest, NamesTheLineThatIsWrong) {
  const RuntimeSettings settings =
      parse_runtime_settings("gpus = [\"A:2\", \"B\"]\nruntime = \"crun\"\n", "f").value();
  EXPECT_EQ(settings.gpus, (std::vector<std::string>{"A:2", "B"}));
  EXPECT_EQ(settings.runtime, "crun");
  EXPECT_EQ(settings.installation, "/opt/gpemu");
  EXPECT_FALSE(settings.machine.empty());
  const auto fault = [](const char* text) {
    return parse_runtime_settings(text, "f").error().message;
  };
  EXPECT_EQ(fault(""), "f: no gpus; write e.g. gpus = [\"A100-SXM4-40GB:8\"]");
  EXPECT_EQ(fault("\ngpu = [\"A\"]"),
            "f:2: gpu: unknown; the keys are gpus, machine, installation, state and runtime");
  EXPECT_EQ(fault("gpus = [1]"), "f:1: gpus: expected \"NAME\" or \"NAME:COUNT\"");
  EXPECT_EQ(fault("gpus = [\"A\"]\nstate = 1"), "f:2: state: expected a string");
  EXPECT_EQ(fault("gpus = ").substr(0, 4), "f:1:");
}

class RuntimeTest : public testing::Test {
 protected:
  RuntimeTest() {
    std::filesystem::create_directories(path("gpemu/lib/gpemu/shims/bin"));
    write_file_atomically(path("gpemu/lib/gpemu/shims/libgpemu_audit.so"), "").value();
    write_file_atomically(
        path("runc"), "#!/bin/sh\necho \"$@\" >>" + path("calls").string() + "\nexit ${EXIT:-0}\n")
        .value();
    std::filesystem::permissions(path("runc"), std::filesystem::perms::owner_all);
    settings("gpus = [\"A100-SXM4-40GB:4\"]");
    std::filesystem::create_directories(path("bundle/rootfs"));
  }

  [[nodiscard]] std::filesystem::path path(const std::string& name) const {
    return folder_.path() / name;
  }
  void settings(const std::string& gpus) {
    write_file_atomically(
        path("runtime.toml"),
        fmt::format("{}\nmachine = \"m\"\ninstallation = \"{}\"\nstate = \"{}\"\n"
                    "runtime = \"{}\"\n",
                    gpus, path("gpemu").string(), path("state").string(), path("runc").string()))
        .value();
  }
  void library(const std::string& name, const std::string& content) {
    std::filesystem::create_directories(path("bundle/rootfs/" + name).parent_path());
    write_file_atomically(path("bundle/rootfs/" + name), content).value();
  }
  void config(const std::vector<std::string>& environment) {
    const json made = {{"process", {{"args", {"sh"}}, {"env", environment}}},
                       {"root", {{"path", "rootfs"}}},
                       {"mounts", {{{"destination", "/proc"}, {"type", "proc"}}}}};
    write_file_atomically(path("bundle/config.json"), made.dump()).value();
  }
  [[nodiscard]] json config() const {
    return json::parse(read_file(path("bundle/config.json")).value());
  }

  /// Runs the runtime; what it says is in said_.
  int run(std::vector<std::string> words, const std::string& code = "0") {
    ::setenv("GPEMU_RUNTIME_SETTINGS", path("runtime.toml").c_str(), 1);
    ::setenv("EXIT", code.c_str(), 1);
    words.insert(words.begin(), GPEMU_RUNTIME);
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    const std::string said = path("said");
    ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, said.c_str(),
                                       O_CREAT | O_TRUNC | O_WRONLY, 0600);
    pid_t process = 0;
    EXPECT_EQ(::posix_spawn(&process, GPEMU_RUNTIME, &files, nullptr, arguments.data(), environ),
              0);
    ::posix_spawn_file_actions_destroy(&files);
    int status = 0;
    ::waitpid(process, &status, 0);
    said_ = read_file(said).value();
    return WEXITSTATUS(status);
  }
  int create(const std::string& id = "c1") {
    return run({"--root", "/r", "create", "--bundle", path("bundle"), id});
  }
  [[nodiscard]] std::string calls() const {
    const auto noted = read_file(path("calls"));
    return noted ? *noted : "";
  }

  [[nodiscard]] std::filesystem::path node() const {
    const json made = config();
    for (const json& mount : made["mounts"]) {
      if (mount["destination"] == containers::kNodeFolder) return mount["source"];
    }
    return {};
  }
  [[nodiscard]] int gpus() const {
    const auto opened = device::Node::open(containers::kNodeName, node());
    return opened ? (*opened)->device_count() : 0;
  }

  TemporaryFolder folder_ = TemporaryFolder::create(testing::TempDir(), "gpemu-runtime-").value();
  std::string said_;
};

TEST_F(RuntimeTest, AContainerHasTheGpusThatItNames) {
  library("lib/x86_64-linux-gnu/libc.so.6", "GNU C Library stable release version 2.36.");
  config({"PATH=/bin", "NVIDIA_VISIBLE_DEVICES=0,2", "LD_AUDIT=old"});
  ASSERT_EQ(create(), 0) << said_;
  EXPECT_EQ(calls(), "--root /r create --bundle " + path("bundle").string() + " c1\n");
  EXPECT_EQ(gpus(), 2);
  const json variables = config()["process"]["env"];
  EXPECT_EQ(variables[0], "PATH=/bin");
  const auto count = [&](const std::string& begin) {
    return std::ranges::count_if(
        variables, [&](const json& entry) { return entry.get<std::string>().starts_with(begin); });
  };
  EXPECT_EQ(count("LD_AUDIT=/opt/gpemu/"), 1);
  EXPECT_EQ(count("LD_AUDIT="), 1);
  EXPECT_EQ(count("NVIDIA_VISIBLE_DEVICES=GPU-"), 1);
  EXPECT_EQ(config()["mounts"][0]["destination"], "/proc");

  const auto first = node();
  const std::string uuid = device::Node::open(containers::kNodeName, first)
                               .value()
                               ->device_snapshot(1, TimePoint{})
                               .uuid;
  config({"NVIDIA_VISIBLE_DEVICES=" + uuid});
  ASSERT_EQ(create("c1.b"), 0) << said_;
  EXPECT_EQ(gpus(), 1);
  EXPECT_NE(node(), first) << "each container has a node of its own";
  EXPECT_EQ(run({"delete", "c1"}), 0);
  EXPECT_FALSE(std::filesystem::exists(first));
  EXPECT_EQ(gpus(), 1) << "the other one's is left";
  EXPECT_EQ(run({"delete", "c1.b"}, "3"), 3);
  EXPECT_EQ(gpus(), 1) << "it was not deleted";
  EXPECT_EQ(run({"delete", "--force", "c1.b"}), 0);
  EXPECT_EQ(gpus(), 0);
}

TEST_F(RuntimeTest, AllGpusAndOnesThatRun) {
  config({"NVIDIA_VISIBLE_DEVICES=all"});
  ASSERT_EQ(create(), 0) << said_;
  EXPECT_EQ(gpus(), 4);
  config({"NVIDIA_VISIBLE_DEVICES=1"});
  EXPECT_EQ(run({"run", "--bundle", path("bundle"), "c2"}, "7"), 7) << said_;
  EXPECT_FALSE(std::filesystem::exists(node())) << "the container has ended";
  EXPECT_EQ(run({"run", "--detach", "--bundle", path("bundle"), "c3"}), 0) << said_;
}

TEST_F(RuntimeTest, PassesOnAllElse) {
  for (const std::string value : {"", "void", "none"}) {
    config({"NVIDIA_VISIBLE_DEVICES=" + value});
    const json before = config();
    EXPECT_EQ(create(), 0) << said_;
    EXPECT_EQ(config(), before);
  }
  config({"NVIDIA_VISIBLE_DEVICES=0", "GPEMU_NODE=0/gpus"});
  const json before = config();
  EXPECT_EQ(create(), 0) << "the kubelet has given it GPUs";
  EXPECT_EQ(config(), before);
  EXPECT_EQ(run({"state", "c1"}, "5"), 5);
  EXPECT_TRUE(calls().ends_with("state c1\n"));
  EXPECT_FALSE(std::filesystem::exists(path("state")));
}

TEST_F(RuntimeTest, RefusesImagesWhoseProgramsWouldFindNoGpu) {
  config({"NVIDIA_VISIBLE_DEVICES=0"});
  library("lib/ld-musl-x86_64.so.1", "");
  EXPECT_EQ(create(), 1);
  EXPECT_NE(said_.find("musl, which has no LD_AUDIT"), std::string::npos) << said_;
  library("usr/lib/x86_64-linux-gnu/libc.so.6", "GNU C Library stable release version 2.28.");
  EXPECT_EQ(create(), 1);
  EXPECT_NE(said_.find("the image's glibc is 2.28"), std::string::npos) << said_;
  EXPECT_EQ(calls(), "");
  library("lib64/libc.so.6", "GNU C Library stable release version 2.31.");
  EXPECT_EQ(create(), 0) << said_;
}

TEST_F(RuntimeTest, SaysWhatIsWrong) {
  config({"NVIDIA_VISIBLE_DEVICES=0,4"});
  EXPECT_EQ(create(), 1);
  EXPECT_EQ(said_,
            "gpemu-runtime: NVIDIA_VISIBLE_DEVICES=0,4: there is no GPU '4'; this machine has 0 to "
            "3, `all`, or their UUIDs\n");
  EXPECT_EQ(run({"--log", path("log"), "--log-format", "json", "create", "--bundle", path("bundle"),
                 "c1"}),
            1);
  const json logged = json::parse(read_file(path("log")).value());
  EXPECT_EQ(logged["level"], "error");
  EXPECT_EQ(logged["msg"].get<std::string>() + '\n', said_);
  settings("gpus = [\"NO-GPU\"]");
  EXPECT_EQ(create(), 1);
  EXPECT_NE(said_.find("NO-GPU"), std::string::npos);
  settings("nothing = 1");
  EXPECT_EQ(run({"state", "c1"}), 1);
  EXPECT_NE(said_.find("runtime.toml:1: nothing: unknown"), std::string::npos) << said_;
  EXPECT_EQ(calls(), "");
}

}  // namespace
}  // namespace gpemu::tools
