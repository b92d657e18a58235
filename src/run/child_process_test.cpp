// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/child_process.hpp"

#include <atomic>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"

namespace gpemu::run {
namespace {

/// Runs a script of the shell, which has no environment but a PATH.
Result<PrintedRun> run_script(const std::string& script, const std::atomic<bool>& stop,
                              int held = -1) {
  return run_for_output({"sh", "-c", script}, {"PATH=/usr/bin:/bin", "NAME=value"}, "/", held,
                        stop);
}

TEST(RunForOutput, ReturnsWhatAProgramPrints) {
  const std::atomic<bool> never{false};
  const PrintedRun run =
      run_script("read line; echo \"$NAME, $PWD\"; echo bad >&2; exit 3", never).value();
  EXPECT_EQ(run.code, 3);
  EXPECT_EQ(run.output, "value, /\n");
  EXPECT_EQ(run.errors, "bad\n");
}

TEST(RunForOutput, SaysIfThereIsNoProgram) {
  const std::atomic<bool> never{false};
  const auto run = run_for_output({"no-such-program"}, {"PATH=/bin"}, {}, -1, never);
  ASSERT_FALSE(run.has_value());
  EXPECT_EQ(run.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run.error().message, "cannot start 'no-such-program': No such file or directory");
}

TEST(RunForOutput, EndsAProgramAfterStop) {
  const std::atomic<bool> now{true};
  EXPECT_EQ(run_script("exec sleep 10000", now).error().code, ErrorCode::kInterrupted);
  // Also one that does not want to end.
  EXPECT_EQ(run_script("trap '' TERM; sleep 10000 & wait; wait", now).error().code,
            ErrorCode::kInterrupted);
}

TEST(RunForOutput, TheProgramHasADescriptor) {
  const std::string path = testing::TempDir() + "gpemu_run_for_output";
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::atomic<bool> never{false};
  const std::string script = "echo held >&" + std::to_string(file.get());
  ASSERT_EQ(run_script(script, never, file.get()).value().code, 0);
  EXPECT_EQ(read_file(path).value(), "held\n");
  // No other program has it.
  EXPECT_NE(::fcntl(file.get(), F_SETFD, FD_CLOEXEC), -1);
  EXPECT_NE(run_script(script, never).value().code, 0);
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace gpemu::run
