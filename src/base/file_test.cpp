// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/file.hpp"

#include <array>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace gpemu {
namespace {

TEST(ReadFile, DoesNotWaitForANamedPipe) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("gpemu_pipe_" + std::to_string(::getpid()));
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto content = read_file(path);
  std::filesystem::remove(path);
  ASSERT_FALSE(content);
  EXPECT_EQ(content.error().code, ErrorCode::kIo);
  EXPECT_EQ(content.error().message, "cannot read " + path.string() +
                                         ": it is a named pipe, which may never end; give a file");
}

TEST(ReadFile, ReadsAPipeOfTheShell) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const FileDescriptor reader(ends[0]);
  {
    const FileDescriptor writer(ends[1]);
    ASSERT_EQ(::write(writer.get(), "text", 4), 4);
  }
  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(reader.get())).value(), "text");
}

}  // namespace
}  // namespace gpemu
