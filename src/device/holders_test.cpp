// SPDX-License-Identifier: Apache-2.0
#include "holders.hpp"

#include <csignal>
#include <cstdio>
#include <memory>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::device {
namespace {

constexpr pid_t kOwn = 10;

ProcessSnapshot holder(pid_t pid, Bytes memory, std::uint64_t foreign_namespace = 0) {
  return {
      .pid = pid, .foreign_namespace = foreign_namespace, .name = "python", .memory_held = memory};
}

TEST(Holders, ThoseThatHoldMostComeFirst) {
  EXPECT_EQ(describe_largest_holders(
                {holder(kOwn, 9 * kMiB), holder(11, kMiB), holder(12, 0), holder(13, 3 * kMiB),
                 holder(kOwn, 2 * kMiB, 99), holder(14, 4 * kMiB)},
                kOwn, nullptr),
            fmt::format("4.0 MiB by {}; 3.0 MiB by {}; 2.0 MiB by {}", describe(holder(14, 0)),
                        describe(holder(13, 0)), describe(holder(kOwn, 0, 99))));
}

TEST(Holders, ThisProcessAndThoseThatHoldNothingAreNotNamed) {
  EXPECT_EQ(describe_largest_holders({holder(kOwn, kMiB), holder(11, 0)}, kOwn, nullptr), "");
}

TEST(Holders, AStoppedProcessIsNamedWithWhatContinuesIt) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> open(std::tmpfile(), std::fclose);
  const LockFile file(FileDescriptor(::dup(::fileno(open.get()))), ForkHold());
  const pid_t child = ::fork();  // It inherits the file that `open` has.
  if (child == 0) {
    while (true) ::pause();
  }
  const ProcessSnapshot process = holder(child, kMiB);
  EXPECT_EQ(describe_holder(process, &file), describe(process));
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_EQ(
      describe_holder(process, &file),
      fmt::format("{}, which is stopped: `kill -CONT {}` continues it, `kill -KILL {}` ends it",
                  describe(process), child, child));
  EXPECT_EQ(describe_holder(holder(child, kMiB, 99), &file), describe(holder(child, 0, 99)))
      << "its number means something else here";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace gpemu::device
