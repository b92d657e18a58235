// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/cluster.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::run {
namespace {

constexpr const char* kPath = "/run/gpemu/lab.json";

Cluster lab() {
  return {.name = "lab", .hosts = 2, .gpus = 4, .gpu = "T4", .network = "tcp:10gbit", .rate = ""};
}

bool contains(const std::vector<Words>& commands, const Words& command) {
  return std::ranges::count(commands, command) == 1;
}

TEST(Cluster, IsTheSameAfterItWasWrittenAndRead) {
  Cluster written = lab();
  written.rate = "1gbit";
  written.delay = "50us";
  const auto read = parse_cluster(cluster_text(written), kPath);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(cluster_text(*read), cluster_text(written));
}

TEST(Cluster, IsRefusedIfItsFileIsDamaged) {
  const std::string good = cluster_text(lab());
  ASSERT_TRUE(parse_cluster(good, kPath));
  std::vector<std::string> texts = {"", "{", "[]", "null", "{}"};
  const auto with = [&good](std::string_view from, std::string_view to) {
    std::string text = good;
    const std::size_t place = text.find(from);
    EXPECT_NE(place, std::string::npos) << from;
    return text.replace(place, from.size(), to);
  };
  texts.push_back(with("\"lab\"", "\"../lab\""));
  texts.push_back(with("\"lab\"", "\"lab; reboot\""));
  texts.push_back(with("\"hosts\": 2", "\"hosts\": 0"));
  texts.push_back(with("\"hosts\": 2", "\"hosts\": 251"));
  texts.push_back(with("\"hosts\": 2", "\"hosts\": \"2\""));
  texts.push_back(with("\"gpus\": 4", "\"gpus\": -1"));
  texts.push_back(with("tcp:10gbit", "tcp:10gbit; reboot"));
  texts.push_back(with("\"rate\": \"\"", "\"rate\": \"1\""));
  texts.push_back(with("\"delay\": \"\"", "\"delay\": \"1us; reboot\""));
  for (const std::string& text : texts) {
    const auto read = parse_cluster(text, kPath);
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().code, ErrorCode::kCorruptData);
    EXPECT_NE(read.error().message.find(kPath), std::string::npos);
  }
}

TEST(Cluster, HasANameOfSmallLettersDigitsAndDashes) {
  for (const char* name : {"a", "cluster", "lab-2"}) EXPECT_TRUE(check_cluster_name(name)) << name;
  for (const char* name : {"", "2", "-a", "A", "a_b", "a/b", "a b", "..", "a.b",
                           "a123456789012345678901234567890123"}) {
    EXPECT_FALSE(check_cluster_name(name)) << name;
  }
}

TEST(Cluster, HasASwitchThatJoinsItsHosts) {
  const std::vector<Words> commands = commands_to_make(lab());
  EXPECT_TRUE(contains(commands, {"ip", "netns", "add", "gpemu-lab-switch"}));
  EXPECT_TRUE(contains(commands, {"ip", "netns", "add", "gpemu-lab-1"}));
  EXPECT_TRUE(contains(commands,
                       {"ip", "-n", "gpemu-lab-1", "addr", "add", "10.77.0.2/24", "dev", "eth0"}));
  EXPECT_TRUE(std::ranges::none_of(commands, [](const Words& words) { return words[0] == "tc"; }));
}

TEST(Cluster, HasADelayInWholeUnits) {
  for (const char* text : {"50us", "1ms", "10s", "10000000us"})
    EXPECT_TRUE(check_delay(text)) << text;
  for (const char* text : {"", "50", "us", "0us", "-1us", "1.5ms", "11s", "50 us", "50usx", "1m",
                           "99999999999999999999us"}) {
    EXPECT_EQ(check_delay(text).error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST(Cluster, MayHaveARealNetworkForCollectives) {
  Cluster cluster = lab();
  EXPECT_FALSE(has_real_network(cluster));
  cluster.network = "real:1gbit";
  EXPECT_TRUE(has_real_network(cluster));
}

TEST(Cluster, DelaysWhatEachHostSendsBeforeItsRateIsLimited) {
  Cluster delayed = lab();
  delayed.delay = "50us";
  const Words delay = {"tc",     "-n", "gpemu-lab-0", "qdisc", "add",  "dev",   "eth0",   "root",
                       "handle", "1:", "netem",       "delay", "50us", "limit", "1000000"};
  std::vector<Words> commands = commands_to_make(delayed);
  EXPECT_TRUE(contains(commands, delay));
  EXPECT_TRUE(needs_netem(delay));
  EXPECT_EQ(std::ranges::count_if(commands, needs_netem), delayed.hosts);
  const auto is_tc = [](const Words& words) { return words.front() == "tc"; };
  EXPECT_EQ(std::ranges::count_if(commands, is_tc), delayed.hosts);
  delayed.rate = "1gbit";
  commands = commands_to_make(delayed);
  const Words limit = {"tc",  "-n",  "gpemu-lab-0", "qdisc", "add",   "dev",    "eth0",    "parent",
                       "1:1", "tbf", "rate",        "1gbit", "burst", "500000", "latency", "50ms"};
  EXPECT_TRUE(contains(commands, limit));
  EXPECT_LT(std::ranges::find(commands, delay), std::ranges::find(commands, limit));
}

TEST(Cluster, LimitsWhatEachHostSendsAndReceives) {
  Cluster limited = lab();
  limited.rate = "1gbit";
  const std::vector<Words> commands = commands_to_make(limited);
  const auto limit = [](const char* space, const char* interface) {
    return Words{"tc",  "-n",   space,   "qdisc", "add",    "dev",     interface, "root",
                 "tbf", "rate", "1gbit", "burst", "500000", "latency", "50ms"};
  };
  EXPECT_TRUE(contains(commands, limit("gpemu-lab-0", "eth0")));
  EXPECT_TRUE(contains(commands, limit("gpemu-lab-1", "eth0")));
  EXPECT_TRUE(contains(commands, limit("gpemu-lab-switch", "port0")));
  EXPECT_TRUE(contains(commands, limit("gpemu-lab-switch", "port1")));
}

/// Programs in place of nsenter and unshare, which need root: they leave out their own options.
class ClusterHosts : public testing::Test {
 protected:
  struct Launched {
    int code = 0;
    std::string output;
  };

  ClusterHosts() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "bin");
    write("bin/nsenter", "#!/bin/sh\nspace=${1##*/} && shift && SPACE=$space exec \"$@\"\n");
    write("bin/unshare", "#!/bin/sh\nshift 2 && exec \"$@\"\n");
    write("bin/hostname", "#!/bin/sh\nexit 0\n");
    write("bin/mount", "#!/bin/sh\n[ \"$2\" = /hosts ] && [ \"$3\" = /etc/hosts ]\n");
  }
  ~ClusterHosts() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
  }

  /// Starts a shell script on each host, as the only ones of a process group. Returns the process
  /// that has started them.
  pid_t start(const std::string& program) {
    write("program", "#!/bin/sh\n" + program);
    const auto programs = host_programs(lab(), "/hosts", {folder_ / "program", "two  words"});
    const std::string path = (folder_ / "bin").string() + ":" + std::getenv("PATH");
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setpgid(0, 0);
      const FileDescriptor file(::open(output().c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600));
      ::dup2(file.get(), STDOUT_FILENO);
      ::setenv("PATH", path.c_str(), 1);
      ::_exit(run_hosts(programs, {"PATH=" + path}).value_or(99));
    }
    ::setpgid(pid, pid);
    return pid;
  }
  Launched end(pid_t pid) {
    int status = 0;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    std::ifstream file(output());
    std::stringstream text;
    text << file.rdbuf();
    return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .output = text.str()};
  }
  Launched launch(const std::string& program) { return end(start(program)); }
  [[nodiscard]] std::filesystem::path output() const { return folder_ / "output"; }

 private:
  std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / fmt::format("gpemu_hosts_{}", ::getpid());
};

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

TEST_F(ClusterHosts, RunsTheProgramOnEachHostWithWhatItIsToKnow) {
  const Launched launched = launch(
      "echo $SPACE $GPEMU_HOST_RANK/$GPEMU_HOSTS $GPEMU_DEVICES $GPEMU_NETWORK "
      "$PET_NODE_RANK/$PET_NNODES $PET_NPROC_PER_NODE $PET_MASTER_ADDR:$PET_MASTER_PORT "
      "$MASTER_ADDR:$MASTER_PORT \"$#:$1\"\n");
  EXPECT_EQ(launched.code, 0);
  EXPECT_EQ(sorted_lines(launched.output),
            std::vector<std::string>({"gpemu-lab-0 0/2 0-3 tcp:10gbit 0/2 4 10.77.0.1:29500 "
                                      "10.77.0.1:29500 1:two  words",
                                      "gpemu-lab-1 1/2 4-7 tcp:10gbit 1/2 4 10.77.0.1:29500 "
                                      "10.77.0.1:29500 1:two  words"}));
}

TEST_F(ClusterHosts, ReturnsTheFirstExitCodeThatIsNotZero) {
  EXPECT_EQ(launch("exit $GPEMU_HOST_RANK\n").code, 1);
  EXPECT_EQ(launch("exit $((7 - 7 * $GPEMU_HOST_RANK))\n").code, 7);
  EXPECT_EQ(launch("exit $((7 - $GPEMU_HOST_RANK))\n").code, 7);
}

TEST_F(ClusterHosts, LetsTheOthersGoOn) {
  const Launched launched = launch("[ $GPEMU_HOST_RANK = 0 ] && exit 3\nsleep 0.2\necho done\n");
  EXPECT_EQ(launched.code, 3);
  EXPECT_EQ(launched.output, "done\n");
}

TEST_F(ClusterHosts, PassesSigtermOn) {
  // The second host's program ends what has started it.
  const Launched launched = launch(
      "trap 'echo told; exit 5' TERM\n[ $GPEMU_HOST_RANK = 1 ] && sleep 0.2 && kill -TERM "
      "$PPID\nsleep 10 &\nwait\n");
  EXPECT_EQ(launched.code, 5);
  EXPECT_EQ(launched.output, "told\ntold\n");
}

TEST_F(ClusterHosts, PassesOnWhatTheirParentSendsAlone) {
  const pid_t pid = start("echo started\nexec sleep 10000\n");
  while (read_file(output()).value_or("") != "started\nstarted\n") ::sched_yield();
  ::kill(pid, SIGINT);
  EXPECT_EQ(end(pid).code, 128 + SIGINT);
}

TEST_F(ClusterHosts, LosesNoSignalOfATerminalWhileTheyStart) {
  // Each moment of a start, which takes some milliseconds.
  for (int i = 0; i < 60; ++i) {
    const pid_t pid = start("exec sleep 10000\n");
    for (int yields = 0; yields < 50 * i; ++yields) ::sched_yield();
    ::kill(-pid, SIGINT);
    const int code = end(pid).code;
    EXPECT_TRUE(code == 128 + SIGINT || code == -1) << code;
    // Nobody of the group is left.
    EXPECT_EQ(::kill(-pid, 0), -1) << i;
  }
}

}  // namespace
}  // namespace gpemu::run
