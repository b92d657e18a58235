// SPDX-License-Identifier: Apache-2.0
#include "gpemu/skip/proc_text.hpp"

#include <fcntl.h>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::skip {
namespace {

using Pids = std::vector<pid_t>;

/// More than any number type holds.
constexpr std::string_view kHuge = "123456789012345678901234567890";

constexpr std::string_view kSyscall =
    "202 0x7f0e0c0 0x189 0x0 0x0 0x0 0xffffffffffffffff 0x7ffc3430ec88 0x7f9614a322ad\n";

constexpr std::string_view kMaps =
    "1000-3000 r-xp 00000000 08:01 12    /usr/bin/a - b\n"
    "3000-4000 rw-s 00000000 00:01 13    /dev/shm/gpemu-0/node\n"
    "4000-5000 rw-s 00000000 00:01 14    /dev/zero (deleted)\n"
    "5000-6000 rw-s 00000000 00:01 15    /tmp/a\\012b\n"
    "7fff0000-7fff1000 rw-p 00000000 00:00 0 [stack]\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n";

constexpr std::string_view kPollSet =
    "pos:\t0\nflags:\t02000002\nmnt_id:\t17\nino:\t1038\n"
    "tfd:       12 events:       19 data: 7f06e8000b70  pos:0 ino:1f9e sdev:8\n"
    "tfd:        4 events: 80002004 data: ffffffffffffffff  pos:0 ino:7 sdev:f\n";

constexpr std::string_view kRing =
    "pos:\t0\nflags:\t02000002\nSqMask:\t0x3\nSqHead:\t4\nSqTail:\t5\nCachedSqHead:\t5\n"
    "CqMask:\t0x7\nCqHead:\t0\nCqTail:\t4\nCachedCqTail:\t5\nSqThread:\t-1\nUserFiles:\t0\n"
    "PollList:\nCqOverflowList:\nNAPI:\tdisabled\n";

constexpr std::string_view kSnmp =
    "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
    "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens\n"
    "Tcp: 1 200 120000 -1 5375 5277\nUdp: InDatagrams NoPorts InErrors OutDatagrams\nUdp: 1 2 3 "
    "4\n";

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  result.replace(result.find(from), from.size(), to);
  return result;
}

/// Expects that no beginning of a text gives a fact other than the whole text's, or none.
template <typename Parse>
void expect_nothing_wrong_when_cut(std::string_view text, const Parse& parse) {
  const auto whole = parse(text);
  ASSERT_NE(whole, decltype(whole){});
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto cut = parse(text.substr(0, size));
    EXPECT_TRUE(cut == whole || cut == decltype(cut){}) << text.substr(0, size);
  }
}

TEST(ProcText, StateFollowsTheNameWhichMayContainAnything) {
  EXPECT_EQ(state_in("4711 (python) S 1 4711"), 'S');
  EXPECT_EQ(state_in("4711 (a) R) (x) D 1 4711"), 'D');
  EXPECT_EQ(state_in("4711 (a\nb) R\n) Z 1"), 'Z');
  EXPECT_EQ(state_in("4711 () t 1"), 't');
}

TEST(ProcText, NoStateInATextThatEndsBeforeIt) {
  for (const std::string_view text : {"", ")", ") ", "4711", "4711 (python", "4711 (python) "}) {
    EXPECT_EQ(state_in(text), '?') << text;
  }
}

TEST(ProcText, ParentFollowsTheState) {
  EXPECT_EQ(parent_in("4711 (python) S 815 4711 4711 0\n"), 815);
  EXPECT_EQ(parent_in("4711 (a) R 2 (x) D 815 4711"), 815);
  EXPECT_EQ(parent_in("4711 (a\nb) R 2\n) Z 815 1"), 815);
  expect_nothing_wrong_when_cut("4711 (python) S 815 4711 4711 0\n", parent_in);
}

TEST(ProcText, NoParentInOtherTexts) {
  for (const std::string_view text : {"", ")", "4711 815 1", "4711 (python) S", "1 (a) S x 1"}) {
    EXPECT_EQ(parent_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(parent_in("1 (a) S " + std::string(kHuge) + " 1"), std::nullopt);
}

TEST(ProcText, RunCountIsTheLastNumber) {
  EXPECT_EQ(run_count_in("101588 1592952 27\n"), 27U);
  EXPECT_EQ(run_count_in("1 2 18446744073709551615\n"), ~0ULL);
  expect_nothing_wrong_when_cut("101588 1592952 27\n", run_count_in);
}

TEST(ProcText, NoRunCountIfTheKernelDoesNotCount) {
  // Without CONFIG_SCHEDSTATS, and with kernel.task_delayacct = 0, which is the default.
  EXPECT_EQ(run_count_in("0 0 0\n"), std::nullopt);
}

TEST(ProcText, NoRunCountInOtherTexts) {
  for (const std::string_view text : {"", "\n", " \n", "27\n", "1 2 x\n", "1 2 -3\n", "1 2 3"}) {
    EXPECT_EQ(run_count_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(run_count_in("1 2 " + std::string(kHuge) + "\n"), std::nullopt);
}

TEST(ProcText, SystemCallHasSixArguments) {
  const SystemCall expected{.number = 202, .arguments = {0x7f0e0c0, 0x189, 0, 0, 0, ~0ULL}};
  EXPECT_EQ(system_call_in(kSyscall), expected);
  expect_nothing_wrong_when_cut(kSyscall, system_call_in);
}

TEST(ProcText, NoSystemCallOfAThreadThatIsInNone) {
  for (const std::string_view text :
       {"", "running\n", "-1 0x7ffc3430ec88 0x7f9614a322ad\n", "140737488355328", "x 0x1\n"}) {
    EXPECT_EQ(system_call_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(system_call_in(replaced(kSyscall, "202", kHuge)), std::nullopt);
  EXPECT_EQ(system_call_in(replaced(kSyscall, "0x189", "0x1" + std::string(16, '0'))),
            std::nullopt);
}

TEST(ProcText, NoSystemCallOfA32BitProgram) {
  EXPECT_EQ(system_call_in(replaced(kSyscall, "0x7ffc3430ec88", "0xffffdc88")), std::nullopt);
  EXPECT_NE(system_call_in(replaced(kSyscall, "0x7ffc3430ec88", "0x100000000")), std::nullopt);
}

TEST(ProcText, ListsChildren) {
  EXPECT_EQ(children_in("12 345 6 "), (Pids{12, 345, 6}));
  EXPECT_EQ(children_in(""), Pids{});
  EXPECT_EQ(children_in("12  345"), (Pids{12, 345}));
  EXPECT_EQ(children_in("12 x 345 "), Pids{12});
  EXPECT_EQ(children_in(kHuge), Pids{});
}

TEST(ProcText, LastPidIsTheLastNumber) {
  EXPECT_EQ(last_pid_in("7.05 4.50 3.28 3/103 22326\n"), 22326);
  for (const std::string_view text : {"", "\n", "22326\n", "7.05 ", "7.05 x\n"}) {
    EXPECT_EQ(last_pid_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(last_pid_in("0 " + std::string(kHuge)), std::nullopt);
}

/// Returns whether memory is own where no path names a file.
bool is_own(std::string_view maps, std::uint64_t address, std::string_view shared_file = "") {
  return is_own_memory(maps, address, shared_file, [](std::string_view) { return false; });
}

TEST(ProcText, OwnMemoryIsPrivateOrWithoutAName) {
  EXPECT_TRUE(is_own(kMaps, 0x1000));
  EXPECT_TRUE(is_own(kMaps, 0x2fff));
  EXPECT_FALSE(is_own(kMaps, 0x3000));
  EXPECT_TRUE(is_own(kMaps, 0x4fff));
  EXPECT_FALSE(is_own(kMaps, 0x5000));
  EXPECT_TRUE(is_own(kMaps, 0x7fff0000));
  EXPECT_TRUE(is_own(kMaps, 0xffffffffff600fff));
}

TEST(ProcText, AFileMayBeNamedAsOneThatWasDeleted) {
  std::vector<std::string> asked;
  EXPECT_FALSE(is_own_memory(kMaps, 0x4000, "", [&asked](std::string_view path) {
    asked.emplace_back(path);
    return true;
  }));
  EXPECT_EQ(asked, std::vector<std::string>{"/dev/zero (deleted)"});
}

TEST(ProcText, OwnMemoryIsThatOfTheSharedFile) {
  EXPECT_TRUE(is_own(kMaps, 0x3000, "/dev/shm/gpemu-0/node"));
  EXPECT_FALSE(is_own(kMaps, 0x5000, "/dev/shm/gpemu-0/node"));
  EXPECT_FALSE(is_own(kMaps, 0x3000, "/gpemu-0/node")) << "another path that ends so";
}

TEST(ProcText, ASegmentOfSystemVIsOwnIfItHasNoKey) {
  EXPECT_TRUE(is_own("1000-2000 rw-s 00000000 00:01 0    /SYSV00000000 (deleted)\n", 0x1000));
  EXPECT_FALSE(is_own("1000-2000 rw-s 00000000 00:01 0    /SYSV00001267 (deleted)\n", 0x1000));
}

TEST(ProcText, MemoryThatIsNotListedIsNotOwn) {
  for (const std::uint64_t address : {0ULL, 0xfffULL, 0x6000ULL, ~0ULL}) {
    EXPECT_FALSE(is_own(kMaps, address, "/dev/shm/gpemu-0/node")) << address;
  }
  for (const std::string_view text :
       {"", "\n\n", "-", "1000", "1000-", "1000-3000", "1000-3000 rw", "1000-3000 rw-s",
        "1000-3000 rw-s 0 0:1 1", "x-3000 rw-p 0", "1000-x rw-p 0", "3000-1000 rw-p 0"}) {
    EXPECT_FALSE(is_own(text, 0x1000)) << text;
  }
  EXPECT_FALSE(is_own("0-" + std::string(kHuge) + " rw-p 0 00:00 0\n", 0x1000));
}

TEST(ProcText, InodeIsInTheLink) {
  EXPECT_EQ(inode_in("socket:[4711]"), 4711U);
  EXPECT_EQ(inode_in("pipe:[1]"), 1U);
  for (const std::string_view link : {"", "socket:[", "socket:[x]", "anon_inode:[eventfd]",
                                      "anon_inode:[12]", "/tmp/socket:[4711]"}) {
    EXPECT_EQ(inode_in(link), std::nullopt) << link;
  }
  EXPECT_EQ(inode_in("socket:[" + std::string(kHuge) + "]"), std::nullopt);
}

TEST(ProcText, AccessModeIsInTheFlags) {
  EXPECT_EQ(access_mode_in("pos:\t0\nflags:\t0100000\nmnt_id:\t16\n"), O_RDONLY);
  EXPECT_EQ(access_mode_in("pos:\t0\nflags:\t02004001\n"), O_WRONLY);
  EXPECT_EQ(access_mode_in("pos:\t0\nflags:\t02\n"), O_RDWR);
  for (const std::string_view text : {"", "pos:\t0\nfla", "flags:", "flags:\t\n", "flags:\t9"}) {
    EXPECT_EQ(access_mode_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(access_mode_in("flags:\t7" + std::string(40, '7')), std::nullopt);
}

TEST(ProcText, ListsThePollSet) {
  const std::vector<PollTarget> expected = {{.descriptor = 12, .events = 0x19, .inode = 0x1f9e},
                                            {.descriptor = 4, .events = 0x80002004, .inode = 7}};
  EXPECT_EQ(poll_targets_in(kPollSet), expected);
  EXPECT_EQ(poll_targets_in("pos:\t0\nflags:\t02\nino:\t1038\n"), std::vector<PollTarget>{});
}

TEST(ProcText, NothingOfAPollSetThatCannotBeRead) {
  for (const std::string_view text : {"", "tfd: 1 events: 1 ino:1\n", "pos:\t0\ntfd:",
                                      "pos:\t0\ntfd: 1\n", "pos:\t0\ntfd: 1 events: 1 data: 0"}) {
    EXPECT_EQ(poll_targets_in(text), std::nullopt) << text;
  }
  for (const std::string_view number : {"12", "19", "1f9e"}) {
    EXPECT_EQ(poll_targets_in(replaced(kPollSet, number, kHuge)), std::nullopt) << number;
    EXPECT_EQ(poll_targets_in(replaced(kPollSet, number, "x")), std::nullopt) << number;
  }
}

TEST(ProcText, ATimerIsStoppedIfNoTimeIsLeft) {
  EXPECT_TRUE(timer_is_stopped("clockid: 1\nticks: 0\nit_value: (0, 0)\nit_interval: (1, 0)\n"));
  EXPECT_FALSE(timer_is_stopped("clockid: 1\nticks: 0\nit_value: (0, 1)\nit_interval: (0, 0)\n"));
  EXPECT_FALSE(timer_is_stopped("clockid: 1\nit_value: (0, "));
  EXPECT_FALSE(timer_is_stopped(""));
}

TEST(ProcText, ProcessOfAPidfd) {
  EXPECT_EQ(process_in("pos:\t0\nPid:\t4711\nNSpid:\t4711\t1\n"), 4711);
  EXPECT_EQ(process_in("pos:\t0\nPid:\t-1\nNSpid:\t-1\n"), -1);
  for (const std::string_view text : {"", "pos:\t0\nNSpid:\t1\n", "pos:\t0\nPid:", "\nPid:\tx"}) {
    EXPECT_EQ(process_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(process_in("\nPid:\t" + std::string(kHuge)), std::nullopt);
}

TEST(ProcText, IdOfAnEventfd) {
  EXPECT_EQ(eventfd_id_in("pos:\t0\neventfd-count:        3\neventfd-id: 17\n"), 17);
  EXPECT_EQ(eventfd_id_in("pos:\t0\neventfd-count:        3\n"), std::nullopt);
  EXPECT_EQ(eventfd_id_in("eventfd-id: "), std::nullopt);
  EXPECT_EQ(eventfd_id_in(""), std::nullopt);
}

TEST(ProcText, ARingIsIdleIfAllRequestsAreDone) {
  EXPECT_TRUE(ring_is_idle(kRing));
  EXPECT_FALSE(ring_is_idle(replaced(kRing, "SqTail:\t5", "SqTail:\t6"))) << "not taken yet";
  EXPECT_FALSE(ring_is_idle(replaced(kRing, "CachedCqTail:\t5", "CachedCqTail:\t4"))) << "not done";
  EXPECT_FALSE(ring_is_idle(replaced(kRing, "SqThread:\t-1", "SqThread:\t17"))) << "is polled";
  EXPECT_FALSE(ring_is_idle(replaced(kRing, "PollList:\n", "PollList:\n  op=6, task_works=0\n")));
}

TEST(ProcText, ARingOfWhichTooLittleIsKnownIsNotIdle) {
  EXPECT_FALSE(ring_is_idle(""));
  EXPECT_FALSE(ring_is_idle("\nPollList:\nCqOverflowList:"));
  const std::size_t end = kRing.find("NAPI") - 1;
  for (std::size_t size = 0; size < end; ++size) EXPECT_FALSE(ring_is_idle(kRing.substr(0, size)));
  EXPECT_FALSE(ring_is_idle(replaced(kRing, "CachedSqHead:\t5", "CachedSqHead:\tx")));
}

TEST(ProcText, OpenedConnectionsAreTheFifthValue) {
  EXPECT_EQ(opened_connections_in(kSnmp), 5375U);
  for (const std::string_view text :
       {"", "Tcp: ", "\nTcp: ", "\nTcp: 1 200\nUdp: 1 2 3 4\n", "\nTcp: 1 2 3 4 x\n"}) {
    EXPECT_EQ(opened_connections_in(text), std::nullopt) << text;
  }
  EXPECT_EQ(opened_connections_in("\nTcp: 1 2 3 4 " + std::string(kHuge)), std::nullopt);
}

}  // namespace
}  // namespace gpemu::skip
