// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/program_file.hpp"

#include <elf.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace gpemu::run {
namespace {

class ProgramFile : public testing::Test {
 protected:
  ProgramFile() {
    std::ifstream("/proc/self/exe").read(reinterpret_cast<char*>(&header_), kHeader);
  }
  ~ProgramFile() override { std::filesystem::remove(path_); }

  static constexpr std::streamsize kHeader = sizeof(Elf64_Ehdr);

  /// Checks a program of this machine whose table of segments and dynamic linker's name are at
  /// offsets.
  [[nodiscard]] Result<void> check(std::uint64_t table, std::uint64_t name_at,
                                   std::string_view name) {
    header_.e_phoff = table;
    header_.e_phnum = 1;
    Elf64_Phdr segment{};
    segment.p_type = PT_INTERP;
    segment.p_offset = name_at;
    segment.p_filesz = name.size() + 1;
    std::ofstream file(path_);
    file.write(reinterpret_cast<const char*>(&header_), kHeader);
    if (table < kEnd) {
      file.seekp(static_cast<std::streamoff>(table));
      file.write(reinterpret_cast<const char*>(&segment), sizeof(segment));
    }
    if (name_at < kEnd) {
      file.seekp(static_cast<std::streamoff>(name_at));
      file.write(name.data(), static_cast<std::streamsize>(name.size()) + 1);
    }
    file.close();
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    return check_program(path_, "");
  }

  static constexpr std::uint64_t kEnd = 1 << 20;
  std::string path_ = fmt::format("{}/gpemu_program_{}", testing::TempDir(), ::getpid());
  Elf64_Ehdr header_{};
};

TEST_F(ProgramFile, IsFoundByItsNameInTheSearchPath) {
  ASSERT_TRUE(check(64, 200, "/lib64/ld-linux-x86-64.so.2"));
  const std::filesystem::path path = path_;
  const std::string folder = path.parent_path().string();
  EXPECT_TRUE(check_program(path.filename(), "/none:" + folder));
  EXPECT_EQ(check_program(path.filename(), "/none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(check_program(path.filename(), "").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(check_program("sh", std::nullopt)) << "the folders of execvp(3)";
}

TEST_F(ProgramFile, TablesMayBeAnywhere) {
  EXPECT_TRUE(check(64, 200, "/lib64/ld-linux-x86-64.so.2"));
  EXPECT_TRUE(check(64, 100'000, "/lib64/ld-linux-x86-64.so.2"));
  EXPECT_TRUE(check(200'000, 100'000, "/lib64/ld-linux-x86-64.so.2"));
}

TEST_F(ProgramFile, RefusesOtherDynamicLinkers) {
  const auto checked = check(64, 100'000, "/lib/ld-musl-x86_64.so.1");
  ASSERT_FALSE(checked);
  EXPECT_TRUE(checked.error().message.contains("uses the dynamic linker /lib/ld-musl-x86_64.so.1;"))
      << checked.error().message;
}

TEST_F(ProgramFile, RefusesTablesOutsideTheFile) {
  for (const std::uint64_t outside : {std::uint64_t{kEnd}, UINT64_MAX - 8, UINT64_MAX}) {
    EXPECT_FALSE(check(outside, 200, "/lib64/ld-linux-x86-64.so.2")) << outside;
    EXPECT_FALSE(check(64, outside, "/lib64/ld-linux-x86-64.so.2")) << outside;
  }
}

}  // namespace
}  // namespace gpemu::run
