// SPDX-License-Identifier: Apache-2.0
#include "warden.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "test_processes.hpp"

namespace gpemu::run {
namespace {

using Leftovers = Warden::Leftovers;

/// A program whose orphan has a session of its own and says when it has it.
constexpr const char* kWithOrphan =
    "(setsid sh -c 'echo ready; exec sleep 10000' &); exec sleep 10000";

/// The programs are shell scripts. Everything that they start holds a pipe, which ends with the
/// last of them.
class WardenTest : public testing::Test {
 protected:
  WardenTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader_ = FileDescriptor(ends[0]);
    writer_ = FileDescriptor(ends[1]);
  }

  Warden start(const char* script, Leftovers leftovers = Leftovers::kEnd,
               const char* shell = "/bin/sh") {
    Result<Warden> warden = Warden::start(
        [&] {
          ::dup2(writer_.get(), STDOUT_FILENO);
          ::execl(shell, "sh", "-c", script, nullptr);
          return errno;
        },
        leftovers);
    close_writer();
    return std::move(warden).value();
  }

  void close_writer() { writer_ = FileDescriptor(); }

  /// Returns the next line; "" when all processes have ended.
  [[nodiscard]] std::string line() const {
    std::string line;
    while (true) {
      pollfd event{reader_.get(), POLLIN, 0};
      constexpr int kHungMs = 60'000;
      if (::poll(&event, 1, kHungMs) == 0) return "hung";
      char c = 0;
      if (::read(reader_.get(), &c, 1) != 1 || c == '\n') return line;
      line += c;
    }
  }

  [[nodiscard]] bool some_live() const {
    pollfd event{reader_.get(), POLLIN, 0};
    return ::poll(&event, 1, 0) == 0;
  }

  /// Returns the exit code as wait() does, but not later than when a test has hung.
  static std::optional<int> code_of(Warden& warden) {
    std::optional<int> code;
    EXPECT_TRUE(skip::eventually([&] { return (code = warden.poll()).has_value(); }));
    return code;
  }

 private:
  FileDescriptor reader_, writer_;
};

TEST_F(WardenTest, ReturnsTheExitCode) {
  Warden warden = start("exit 7");
  EXPECT_EQ(warden.start_error(), 0);
  EXPECT_EQ(warden.wait(), 7);
  EXPECT_EQ(warden.wait(), 7);
  EXPECT_EQ(warden.poll(), 7);
}

TEST_F(WardenTest, ReturnsTheSignalThatEndedTheProgram) {
  Warden warden = start("kill -TERM $$");
  EXPECT_EQ(code_of(warden), 128 + SIGTERM);
}

TEST_F(WardenTest, SaysWhyAProgramCannotBeStarted) {
  Warden warden = start("", Leftovers::kEnd, "/nonexistent/sh");
  EXPECT_EQ(warden.start_error(), ENOENT);
  EXPECT_EQ(code_of(warden), 127);
}

TEST_F(WardenTest, EndsWhatTheProgramLeft) {
  Warden warden = start("sleep 10000 & (setsid sleep 10000 &); exit 3");
  EXPECT_EQ(code_of(warden), 3);
  EXPECT_EQ(line(), "");
}

TEST_F(WardenTest, LetsLiveWhatTheProgramLeft) {
  Warden warden = start("sleep 10000 & echo $!; exit 3", Leftovers::kLiveOn);
  EXPECT_EQ(code_of(warden), 3);
  warden.end();
  const pid_t left = std::stoi(line());
  EXPECT_TRUE(some_live());
  // This process has adopted it.
  EXPECT_EQ(::kill(left, SIGKILL), 0);
  EXPECT_EQ(::waitpid(left, nullptr, 0), left);
  EXPECT_EQ(line(), "");
}

TEST_F(WardenTest, EndsOrphansInTheirOwnSessions) {
  Warden warden = start(kWithOrphan);
  ASSERT_EQ(line(), "ready");
  EXPECT_EQ(warden.poll(), std::nullopt);
  warden.end();
  EXPECT_EQ(line(), "");
  EXPECT_EQ(warden.poll(), 128 + SIGKILL);
}

TEST_F(WardenTest, EndsTheProgramIfTheWardenIsKilled) {
  Warden warden = start(kWithOrphan, Leftovers::kLiveOn);
  ASSERT_EQ(line(), "ready");
  ::kill(warden.pid(), SIGKILL);
  EXPECT_EQ(code_of(warden), 128 + SIGKILL);
  EXPECT_EQ(line(), "");
}

TEST_F(WardenTest, EndsProgramsThatStartedLaterIfTheWardenIsKilled) {
  Warden first = start("exec sleep 10000");
  Warden second = start("exec sleep 10000");
  Warden third = start("exec sleep 10000");
  ::kill(second.pid(), SIGKILL);
  EXPECT_EQ(code_of(second), 128 + SIGKILL);
  EXPECT_EQ(code_of(third), 128 + SIGKILL);
  EXPECT_EQ(third.wait(), 128 + SIGKILL);
  EXPECT_EQ(first.poll(), std::nullopt);
}

TEST_F(WardenTest, EndsTheProgramIfItsOwnerIsKilled) {
  const pid_t owner = ::fork();
  if (owner == 0) {
    Warden warden = start(kWithOrphan, Leftovers::kLiveOn);
    ::_exit(warden.wait());
  }
  // Only the owner's processes hold the pipe now.
  close_writer();
  ASSERT_EQ(line(), "ready");
  ::kill(owner, SIGKILL);
  EXPECT_EQ(::waitpid(owner, nullptr, 0), owner);
  EXPECT_EQ(line(), "");
}

TEST_F(WardenTest, PassesOnSignalsOfItsOwnerOnly) {
  Warden warden =
      start("trap 'exit 8' USR1; trap 'exit 9' USR2; echo ready; sleep 10000 & wait; exit 1");
  ASSERT_EQ(line(), "ready");
  const pid_t other = ::fork();
  if (other == 0) {
    ::kill(warden.pid(), SIGUSR1);
    ::_exit(0);
  }
  ::waitpid(other, nullptr, 0);
  // The warden reads this signal after that one, which has the lower number.
  ::kill(warden.pid(), SIGUSR2);
  EXPECT_EQ(code_of(warden), 9);
}

}  // namespace
}  // namespace gpemu::run
