// SPDX-License-Identifier: Apache-2.0
#include "gpemu/report/terminal.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/report/text_table.hpp"

namespace gpemu::report {
namespace {

TEST(Terminal, PrintsNothingThatATerminalObeys) {
  testing::internal::CaptureStdout();
  print_out("{} images\n", "a\x1b[2J");
  ASSERT_TRUE(finish_output());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a\\x1b[2J images\n");
  testing::internal::CaptureStderr();
  print_error("{}\n", "\x07");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "\\x07\n");
}

TEST(Terminal, KeepsARowOfATableInOneLine) {
  TextTable table({"name"});
  table.add_row({"a\nb"});
  EXPECT_EQ(table.str(kAnyWidth), "name\na\\nb\n");
}

TEST(Terminal, ContinuesATableThatIsTooWideBelow) {
  TextTable table({"gpu", "step ms", "why"});
  table.add_row({"T4", "10.25", "it computes"});
  table.add_row({"A100", "2", ""});
  EXPECT_EQ(table.str(26),
            "gpu   step ms  why\n"
            "T4      10.25  it computes\n"
            "A100        2\n");
  EXPECT_EQ(table.str(25),
            "gpu   step ms\n"
            "T4      10.25\n"
            "A100        2\n"
            "\n"
            "gpu   why\n"
            "T4    it computes\n"
            "A100\n");
  EXPECT_EQ(table.str(14),
            "gpu   step ms\n"
            "T4      10.25\n"
            "A100        2\n"
            "\n"
            "gpu   why\n"
            "T4    it\n"
            "      computes\n"
            "A100\n");
}

/// Standard output is another file as long as this lives.
class OutputTo {
 public:
  explicit OutputTo(const char* path) : saved_(::dup(STDOUT_FILENO)) {
    const int file = ::open(path, O_WRONLY | O_CLOEXEC);
    ::dup2(file, STDOUT_FILENO);
    ::close(file);
  }
  OutputTo(const OutputTo&) = delete;
  OutputTo& operator=(const OutputTo&) = delete;
  ~OutputTo() {
    std::clearerr(stdout);
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
  }

 private:
  int saved_;
};

TEST(Terminal, KnowsWhenOutputWasLost) {
  std::fflush(stdout);
  Result<void> written;
  {
    const OutputTo full("/dev/full");
    print_out("lost\n");
    written = finish_output();
  }
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kResourceLimit);
  EXPECT_EQ(written.error().message,
            "cannot write the output: No space left on device; it is incomplete");
  EXPECT_TRUE(finish_output());
}

TEST(Terminal, IsAsWideAsColumnsSays) {
  const auto with_columns = [](std::optional<std::string> columns) {
    return terminal([&columns](const char* name) {
      return std::string_view(name) == "COLUMNS" ? columns : std::nullopt;
    });
  };
  EXPECT_EQ(with_columns("132").columns, 132);
  EXPECT_EQ(with_columns("132").output_columns, 132);
  const Terminal untold = with_columns(std::nullopt);
  for (const char* unusable : {"", "0", "-5", "7", "80x", "99999999999999999999"}) {
    EXPECT_EQ(with_columns(unusable).columns, untold.columns) << unusable;
    EXPECT_EQ(with_columns(unusable).output_columns, untold.output_columns) << unusable;
  }
}

TEST(Terminal, DoesNotRedrawLinesIfItIsDumb) {
  const FileDescriptor pseudo(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  const FileDescriptor saved(::dup(STDERR_FILENO));
  ASSERT_TRUE(pseudo.valid() && saved.valid());
  ::dup2(pseudo.get(), STDERR_FILENO);  // A terminal.
  const auto redraws = [](std::optional<std::string> kind) {
    return terminal([&kind](const char* name) {
             return std::string_view(name) == "TERM" ? kind : std::nullopt;
           })
        .redraws;
  };
  const std::vector<bool> seen = {redraws("xterm"), redraws("dumb"), redraws(""),
                                  redraws(std::nullopt)};
  ::dup2(saved.get(), STDERR_FILENO);
  EXPECT_EQ(seen, (std::vector<bool>{true, false, false, false}));
}

TEST(Terminal, WritesPlusMinusAsItsLocaleCan) {
  EXPECT_EQ(Terminal{.utf8 = true}.plus_minus(), "\u00b1");
  EXPECT_EQ(Terminal{.utf8 = false}.plus_minus(), "+-");
}

}  // namespace
}  // namespace gpemu::report
