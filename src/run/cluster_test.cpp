// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/cluster.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

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

/// Runs the launcher with programs in place of nsenter and unshare, which need root: they leave out
/// their own options. Returns what the program printed.
struct Launched {
  int code = 0;
  std::string output;
};
Launched launch(const Cluster& cluster, const std::string& program) {
  namespace fs = std::filesystem;
  const fs::path folder =
      fs::path(testing::TempDir()) / fmt::format("gpemu_launcher_{}", ::getpid());
  fs::remove_all(folder);
  fs::create_directories(folder / "bin");
  const auto write = [&folder](const fs::path& name, const std::string& text) {
    std::ofstream(folder / name) << text;
    fs::permissions(folder / name, fs::perms::owner_all);
  };
  write("bin/nsenter", "#!/bin/sh\nspace=${1##*/} && shift && SPACE=$space exec \"$@\"\n");
  write("bin/unshare", "#!/bin/sh\nshift 2 && exec \"$@\"\n");
  write("bin/hostname", "#!/bin/sh\nexit 0\n");
  write("bin/mount", "#!/bin/sh\n[ \"$2\" = /hosts ] && [ \"$3\" = /etc/hosts ]\n");
  write("program", "#!/bin/sh\n" + program);
  const Words words = launcher(cluster, "/hosts");
  write("script", words[2]);
  const std::string command = "PATH=" + (folder / "bin").string() + ":$PATH sh " +
                              (folder / "script").string() + " /hosts " +
                              (folder / "program").string() + " 'two  words' > " +
                              (folder / "output").string() + " 2>&1 < /dev/null";
  EXPECT_EQ(words[0], "sh");
  EXPECT_EQ(words[1], "-c");
  EXPECT_EQ(words.back(), "/hosts");
  const int status = std::system(command.c_str());
  std::ifstream output(folder / "output");
  std::stringstream text;
  text << output.rdbuf();
  fs::remove_all(folder);
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .output = text.str()};
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::ranges::sort(lines);
  return lines;
}

TEST(ClusterLauncher, RunsTheProgramOnEachHostWithWhatItIsToKnow) {
  const Launched launched =
      launch(lab(),
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

TEST(ClusterLauncher, ReturnsTheFirstExitCodeThatIsNotZero) {
  EXPECT_EQ(launch(lab(), "exit $GPEMU_HOST_RANK\n").code, 1);
  EXPECT_EQ(launch(lab(), "exit $((7 - 7 * $GPEMU_HOST_RANK))\n").code, 7);
  EXPECT_EQ(launch(lab(), "exit $((7 - $GPEMU_HOST_RANK))\n").code, 7);
}

TEST(ClusterLauncher, LetsTheOthersGoOn) {
  const Launched launched =
      launch(lab(), "[ $GPEMU_HOST_RANK = 0 ] && exit 3\nsleep 0.2\necho done\n");
  EXPECT_EQ(launched.code, 3);
  EXPECT_EQ(launched.output, "done\n");
}

TEST(ClusterLauncher, PassesSigtermOn) {
  // The second host's program ends the launcher, its parent.
  const Launched launched =
      launch(lab(),
             "trap 'echo told; exit 5' TERM\n[ $GPEMU_HOST_RANK = 1 ] && sleep 0.2 && kill -TERM "
             "$PPID\nsleep 10 &\nwait\n");
  EXPECT_EQ(launched.code, 5);
  EXPECT_EQ(launched.output, "told\ntold\n");
}

}  // namespace
}  // namespace gpemu::run
