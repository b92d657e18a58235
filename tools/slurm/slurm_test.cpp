// SPDX-License-Identifier: Apache-2.0
//
// What `gpemu-slurm` decides without Slurm. In a cluster: tests/cluster/slurm_test.py.
#include <cstdio>
#include <filesystem>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"

#include "slurm/gres_text.hpp"
#include "slurm/job_usage.hpp"
#include "slurm/slurm_settings.hpp"

namespace gpemu::tools {
namespace {

using Names = std::vector<std::string>;

TEST(Hostlist, MeansNames) {
  EXPECT_EQ(names_of_hostlist("n1").value(), Names({"n1"}));
  EXPECT_EQ(names_of_hostlist("n[1-3,7],login").value(), Names({"n1", "n2", "n3", "n7", "login"}));
  EXPECT_EQ(names_of_hostlist("rack[08-10]x").value(), Names({"rack08x", "rack09x", "rack10x"}));
}

TEST(Hostlist, RefusesWhatIsNone) {
  for (const char* list : {"", "n[", "n]1", "n[3-1]", "n[a]", "n1,", "n[1][2]", "n[]"}) {
    EXPECT_FALSE(names_of_hostlist(list)) << list;
  }
  EXPECT_FALSE(names_of_hostlist("n[1-99999999999999999999]"));
  EXPECT_FALSE(names_of_hostlist("n[1-99999999]")) << "too many";
}

TEST(SlurmSettings, SayWhatNodesHave) {
  const SlurmSettings settings = parse_slurm_settings(
                                     "usage = '/shared'\n[[nodes]]\nnames = 'n[1-2]'\n"
                                     "gpus = ['T4:2']\nshards = 4\nlimit_shards = false\n"
                                     "[[nodes]]\nnames = 'g'\ntopology = 'dgx-1v'\ncpus = 8\n",
                                     "slurm.toml")
                                     .value();
  EXPECT_EQ(settings.state, "/run/gpemu-slurm");
  EXPECT_EQ(settings.usage, "/shared");
  EXPECT_EQ(settings.of("n2").value()->gpus, Names({"T4:2"}));
  EXPECT_EQ(settings.of("n2").value()->shards, 4);
  EXPECT_FALSE(settings.of("n2").value()->limits_shards);
  EXPECT_EQ(settings.of("g").value()->topology, "dgx-1v");
  EXPECT_FALSE(settings.of("n3"));
}

TEST(SlurmSettings, FaultsHaveALine) {
  const std::pair<const char*, const char*> faults[] = {
      {"x = 1", "f:1: x: unknown; the keys are nodes, state, usage and network"},
      {"state = 1", "f:1: state: expected a string"},
      {"network = '10gbit'", "f:1: network: "},
      {"", "f: no nodes; write e.g."},
      {"nodes = 1", "f:1: nodes: expected tables [[nodes]]"},
      {"\n[[nodes]]\ngpus = ['T4']", "f:2: names: missing"},
      {"[[nodes]]\nnames = 'n['", "f:2: names: \"n[\" is no host list"},
      {"[[nodes]]\nnames = 'n'", "f:1: gpus: missing"},
      {"[[nodes]]\nnames = 'n'\ngpus = []", "f:3: gpus: expected a list of strings"},
      {"[[nodes]]\nnames = 'n'\ngpus = ['T4']\nshards = 65", "f:4: shards: expected a number from"},
      {"[[nodes]]\nnames = 'n'\ngpus = ['T4']\nmps = 1", "f:4: mps: expected true or false"},
      {"[[nodes]]\nnames = 'n'\ngpus = ['T4']\nlimit_shards = false",
       "f:1: limit_shards: the nodes have no shards; give shards, too"},
      {"[[nodes]]\nnames = 'n'\ngpus = ['T4']\nmps = true\nshards = 2", "give only one of"},
      {"[[nodes]]\nnames = 'n'\ngpus = ['T4']\nmps = true\n"
       "[[nodes]]\nnames = 'm'\ngpus = ['T4']\nshards = 2",
       "a cluster of Slurm has either shards or mps"},
      {"[[nodes]]\nnames = 'n[1-2]'\ngpus = ['T4']\n[[nodes]]\nnames = 'n2'\ngpus = ['T4']",
       "f:4: names: n2 is in an earlier table, too"},
      {"[[nodes]\n", "f:1: "}};
  for (const auto& [text, message] : faults) {
    const auto settings = parse_slurm_settings(text, "f");
    ASSERT_FALSE(settings) << text;
    EXPECT_NE(settings.error().message.find(message), std::string::npos)
        << settings.error().message;
  }
}

/// Four GPUs in two sockets; those of a socket are joined.
profile::TopologySpec two_pairs() {
  profile::TopologySpec machine;
  machine.sockets = {"a", "b"};
  machine.bridges = {{.name = "cpu0", .socket = 0}, {.name = "cpu1", .socket = 1}};
  machine.switches = {{.name = "plx", .place = {.index = 1}, .uplink = {}}};
  machine.gpus = {{}, {}, {.below_switch = true, .index = 0}, {.below_switch = true, .index = 0}};
  machine.bonds = {{0, 1, 2}, {2, 3, 4}};
  return machine;
}

TEST(GresText, HasLinksAndCoresOfTheTopology) {
  EXPECT_EQ(links_of(two_pairs(), 0), std::vector({-1, 2, 0, 0}));
  EXPECT_EQ(links_of(two_pairs(), 3), std::vector({0, 0, 4, -1}));
  EXPECT_EQ(socket_of(two_pairs(), 1), 0);
  EXPECT_EQ(socket_of(two_pairs(), 2), 1);
  const MachineGpus machine{.gpus = std::vector<device::DeviceConfig>(4),
                            .topology = two_pairs(),
                            .devices = {{"v100", 0}, {"v100", 1}, {"v100", 2}, {"v100", 3}}};
  const SlurmNodes nodes{.pattern = "n[1-2]", .cpus = 16, .shards = 2};
  EXPECT_EQ(gres_lines(nodes, machine, "/s"),
            "# slurm.conf: NodeName=n[1-2] Gres=gpu:v100:4,shard:8\n"
            "NodeName=n[1-2] Name=gpu Type=v100 File=/s/dev/nvidia0 Cores=0-7 Links=-1,2,0,0\n"
            "NodeName=n[1-2] Name=gpu Type=v100 File=/s/dev/nvidia1 Cores=0-7 Links=2,-1,0,0\n"
            "NodeName=n[1-2] Name=gpu Type=v100 File=/s/dev/nvidia2 Cores=8-15 Links=0,0,-1,4\n"
            "NodeName=n[1-2] Name=gpu Type=v100 File=/s/dev/nvidia3 Cores=8-15 Links=0,0,4,-1\n"
            "NodeName=n[1-2] Name=shard Count=8\n");
}

TEST(JobUsages, AreAddedUpByJobAndNode) {
  const auto folder = TemporaryFolder::create("/tmp", "gpemu-slurm-usage-").value();
  const auto file = folder.path() / "n1.jsonl";
  JobUsage usage{.job = "7",
                 .node = "n1",
                 .user = 5,
                 .kind = "shard",
                 .gpus = {1},
                 .busy_s = 2,
                 .peak_memory_mib = 10,
                 .processes = 1};
  append_usage(file, usage).value();
  usage.gpus = {0};
  usage.peak_memory_mib = 4;
  append_usage(file, usage).value();
  usage.job = "8";
  append_usage(file, usage).value();
  EXPECT_EQ(read_usages(folder.path(), "").value().size(), 2U);
  const std::vector<JobUsage> of_job = read_usages(folder.path(), "7").value();
  ASSERT_EQ(of_job.size(), 1U);
  EXPECT_EQ(of_job[0].busy_s, 4);
  EXPECT_EQ(of_job[0].peak_memory_mib, 10);
  EXPECT_EQ(of_job[0].processes, 2);
  EXPECT_EQ(of_job[0].gpus, std::vector({0, 1}));
  EXPECT_NE(usage_table(of_job).find("shard"), std::string::npos);
  write_file_atomically(file, "x\n").value();
  EXPECT_EQ(read_usages(folder.path(), "").error().message.find(file.string() + ":1:"), 0U);
}

/// The program, with a cluster of its own.
class SlurmProgram : public testing::Test {
 protected:
  SlurmProgram() { describe("gpus = ['T4:2', 'V100-PCIE-32GB']\nshards = 2\n"); }

  void describe(const std::string& gpus, const std::string& cluster = "") {
    write_file_atomically(conf(), cluster + "state = '" + state().string() +
                                      "'\n[[nodes]]\nnames = 'n[1-2]'\n" + gpus)
        .value();
  }
  [[nodiscard]] std::filesystem::path state() const { return folder_.path() / "state"; }
  [[nodiscard]] std::filesystem::path conf() const { return folder_.path() / "slurm.toml"; }

  /// Returns what the program prints, with its faults.
  std::string call(const std::string& words) {
    const std::string command =
        std::string(GPEMU_SLURM) + " " + words + " --conf " + conf().string() + " 2>&1";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    std::string text;
    for (int letter = std::fgetc(pipe); letter != EOF; letter = std::fgetc(pipe)) {
      text += static_cast<char>(letter);
    }
    code_ = WEXITSTATUS(::pclose(pipe));
    return text;
  }
  std::string give(const std::string& job, const std::string& step, const std::string& rest,
                   pid_t process = ::getpid(), const std::string& node = "n1") {
    return call("give --node " + node + " --job " + job + " --step " + step + " --process " +
                std::to_string(process) + " --user " + std::to_string(::getuid()) + " --group " +
                std::to_string(::getgid()) + " " + rest);
  }
  /// Returns what jobs have left.
  [[nodiscard]] Names left() const {
    Names names;
    for (const auto& path : paths_in(state() / "n1")) {
      if (path.filename() != "lock") names.push_back(path.filename());
    }
    return names;
  }
  static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  }

  TemporaryFolder folder_ = TemporaryFolder::create("/tmp", "gpemu-slurm-test-").value();
  int code_ = 0;
};

TEST_F(SlurmProgram, GivesAJobItsGpusAndTakesThemBack) {
  const std::string given = give("12", "0", "--gpus 0,2");
  EXPECT_EQ(code_, 0) << given;
  EXPECT_TRUE(has(given, "set GPEMU_DEVICES=0,2\n")) << given;
  EXPECT_TRUE(has(given, "set GPEMU_NODE_DIR=" + (state() / "n1/job-12").string() + "\n"));
  EXPECT_TRUE(has(given, "visible 0\nvisible 1\n"));
  EXPECT_FALSE(has(given, "GPEMU_TENANT"));
  EXPECT_TRUE(has(give("12", "1", "--gpus 1"), "set GPEMU_DEVICES=1\n"));
  EXPECT_EQ(left(), Names({"12@job-12.json", "job-12", "records-12"}));
  call("take-back --node n1 --job 12");
  EXPECT_EQ(left(), Names());
  const std::string report = call("report --json");
  EXPECT_TRUE(has(report, "\"gpus\": [\n      0,\n      1,\n      2\n    ]")) << report;
}

TEST_F(SlurmProgram, ShardsArePartsOfOneGpuThatStepsShare) {
  const std::string first = give("12", "0", "--gpus 1 --shards 1");
  EXPECT_TRUE(has(first, "set GPEMU_GPU_FRACTION=0.5\nset GPEMU_GPU_LIMIT=0.5\n")) << first;
  EXPECT_TRUE(has(first, "set GPEMU_TENANT=1\n"));
  EXPECT_TRUE(has(give("13", "0", "--gpus 1 --shards 1"), "set GPEMU_TENANT=2\n"));
  EXPECT_FALSE(has(give("14", "0", "--gpus 0 --shards 2"), "GPEMU_GPU_LIMIT")) << "all of it";
  call("take-back --node n1 --job 12");
  EXPECT_TRUE(has(give("15", "0", "--gpus 1 --shards 1"), "set GPEMU_TENANT=1\n"));
  for (const char* job : {"13", "14"}) call(std::string("take-back --node n1 --job ") + job);
  EXPECT_EQ(left(), Names({"15.0@shards-1.json", "records-15.0", "shards-1"}));
  call("take-back --node n1 --job 15");
  EXPECT_EQ(left(), Names());
}

TEST_F(SlurmProgram, StepsOfAJobThatHaveEndedLeaveTheirPlaces) {
  const pid_t ended = ::fork();
  if (ended == 0) ::_exit(0);
  ::waitpid(ended, nullptr, 0);
  for (const char* step : {"0", "1"}) {
    const std::string given = give("12", step, "--gpus 1 --shards 1", ended);
    EXPECT_TRUE(has(given, "set GPEMU_TENANT=1\n")) << given;
  }
  EXPECT_EQ(left(), Names({"12.1@shards-1.json", "records-12.1", "shards-1"}));
}

TEST_F(SlurmProgram, RanksOfAJobOnTwoMachinesShareANode) {
  const std::string hosts = "--gpus 1 --hosts n[1-2] --network-is-set";
  EXPECT_TRUE(has(give("12", "0", hosts), "but n2 is another computer than n1"));
  call("clean --node n2");  // As its slurmd does when it starts here.
  EXPECT_TRUE(has(give("12", "0", hosts),
                  "set GPEMU_DEVICES=1\nset GPEMU_HOSTS=2\n"
                  "set GPEMU_HOST_RANK=0\n"));
  const std::string second = give("12", "0", hosts, ::getpid(), "n2");
  EXPECT_TRUE(has(second, "set GPEMU_DEVICES=4\nset GPEMU_HOSTS=2\nset GPEMU_HOST_RANK=1\n"))
      << second;
  const std::filesystem::path node = state() / "jobs/hosts-12/gpus";
  EXPECT_TRUE(has(second, "set GPEMU_NODE_DIR=" + node.parent_path().string() + "\n"));
  call("take-back --node n1 --job 12");
  EXPECT_TRUE(std::filesystem::exists(node)) << "the other machine uses it";
  call("take-back --node n2 --job 12");
  EXPECT_FALSE(std::filesystem::exists(node));
  EXPECT_TRUE(has(call("report"), "n2"));
}

TEST_F(SlurmProgram, RanksOfAJobShareANodeOverTheNetworkOfTheCluster) {
  call("clean --node n2");
  const std::string hosts = "--gpus 1 --hosts n[1-2]";
  const std::string none = give("12", "0", hosts);
  EXPECT_FALSE(has(none, "GPEMU_HOSTS")) << none;
  describe("gpus = ['T4:3']\n", "network = 'real:10gbit'\n");
  const std::string given = give("13", "0", hosts);
  EXPECT_TRUE(has(given, "set GPEMU_HOSTS=2\n")) << given;
  EXPECT_TRUE(has(given, "set GPEMU_NETWORK=real:10gbit\n")) << given;
  const std::string own = give("13", "1", hosts + " --network-is-set");
  EXPECT_TRUE(has(own, "set GPEMU_HOSTS=2\n")) << own;
  EXPECT_FALSE(has(own, "GPEMU_NETWORK")) << "the job has it: " << own;
  EXPECT_FALSE(has(give("14", "0", "--gpus 1 --hosts n1"), "GPEMU_HOSTS"));
}

TEST_F(SlurmProgram, GpusThatSlurmDoesNotKnowReachThoseOfOtherMachines) {
  call("clean --node n2");
  const std::string hosts = "--gpu A100-SXM4-40GB:2 --hosts n[1-2] --network-is-set";
  EXPECT_TRUE(has(give("12", "0", hosts), "set GPEMU_DEVICES=0,1\n"));
  const std::string second = give("12", "0", hosts, ::getpid(), "n2");
  EXPECT_TRUE(has(second, "set GPEMU_DEVICES=2,3\n")) << second;
  EXPECT_TRUE(has(second, "visible 0\nvisible 1\n")) << second;
  EXPECT_TRUE(std::filesystem::exists(state() / "jobs/hosts-12-A100-SXM4-40GB-2"));
  for (const char* node : {"n1", "n2"}) call(fmt::format("take-back --node {} --job 12", node));
  EXPECT_EQ(left(), Names());
  EXPECT_FALSE(std::filesystem::exists(state() / "jobs/hosts-12-A100-SXM4-40GB-2"));
}

TEST_F(SlurmProgram, CleansUpAfterStepsThatWereKilled) {
  const pid_t killed = ::fork();
  if (killed == 0) ::_exit(0);
  ::waitpid(killed, nullptr, 0);
  give("1", "0", "--gpus 0", killed);
  give("2", "0", "--gpus 1 --shards 1", killed);
  give("3", "0", "--gpus 2");
  call("clean --node n1");
  EXPECT_EQ(left(), Names({"3@job-3.json", "job-3", "records-3"}));
}

TEST_F(SlurmProgram, CleansUpAfterItselfIfItWasKilled) {
  give("3", "0", "--gpus 2");
  // What a call leaves that is killed before it has noted what it gave.
  for (const char* name : {"n1/job-4", "n1/records-4", "n1/shards-0", "jobs/hosts-5"}) {
    std::filesystem::create_directories(state() / name);
  }
  call("take-back --node n1 --job 9");
  EXPECT_EQ(left(), Names({"3@job-3.json", "job-3", "records-3"}));
  EXPECT_FALSE(std::filesystem::exists(state() / "jobs/hosts-5"));
}

TEST_F(SlurmProgram, RefusesWhatTheMachineDoesNotHave) {
  EXPECT_TRUE(
      has(give("1", "0", "--gpus 3"), "Slurm allocated GPU 3, but n1 has 3: make gres.conf"));
  EXPECT_NE(code_, 0);
  EXPECT_TRUE(has(give("1", "0", "--gpus 0 --shards 3"), "3 shards of a GPU that has 2"));
  EXPECT_TRUE(has(give("1", "0", "--gpus 0,1 --shards 1"), "parts of 2 GPUs"));
  EXPECT_TRUE(has(give("1", "0", "--gpu X100"), "there is no GPU \"X100\""));
  EXPECT_TRUE(has(call("clean --node n9"), "has no node n9"));
  describe("gpus = ['T4']\nmig = ['1g.5gb']\n");
  EXPECT_TRUE(has(call("gres"), "line 2: mig: a T4 has no instance 1g.5gb; it has none"));
  describe("gpus = ['A100-SXM4-40GB']\nmig = ['4g.20gb', '4g.20gb']\n");
  call("gres");
  EXPECT_NE(code_, 0) << "no room";
  EXPECT_EQ(left(), Names());
}

TEST_F(SlurmProgram, GresConfGroupsTypesAsSlurmNumbersThem) {
  describe("gpus = ['A100-SXM4-40GB:2']\nmig = ['3g.20gb', '1g.5gb']\n");
  const std::string text = call("gres");
  const std::string file = (state() / "dev/nvidia").string();
  EXPECT_TRUE(has(text, "Gres=gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:2\n")) << text;
  EXPECT_TRUE(has(text, "Type=a100_3g.20gb File=" + file + "[0-1]\n"));
  EXPECT_TRUE(has(text, "Type=a100_1g.5gb File=" + file + "[2-3]\n"));
  const std::string given = give("1", "0", "--gpus 2");
  EXPECT_TRUE(has(given, "visible MIG-")) << given;
  describe("gpus = ['A100-SXM4-40GB', 'A100-PCIE-40GB', 'T4']\n");
  EXPECT_TRUE(has(call("gres"), "Gres=gpu:a100-sxm4-40gb:1,gpu:a100-pcie-40gb:1,gpu:t4:1\n"));
}

}  // namespace
}  // namespace gpemu::tools
