// SPDX-License-Identifier: Apache-2.0
#include "gpemu/run/program_file.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <climits>

namespace gpemu::run {
namespace {

/// The most scripts that interpret each other. Source: the Linux kernel, BINPRM_MAX_RECURSION.
constexpr int kMaxInterpreters = 5;

/// More than the kernel reads of a script's first line. Source: the Linux kernel, BINPRM_BUF_SIZE,
/// 256.
constexpr std::size_t kLongestFirstLine = 4096;

/// The folders that are searched without PATH. Source: execvp(3).
constexpr const char* kDefaultPath = "/bin:/usr/bin";

Result<std::filesystem::path> find_program(const std::string& name,
                                           const std::optional<std::string>& search_path) {
  if (name.contains('/')) {
    if (::access(name.c_str(), F_OK) == 0) return name;
    return fail(ErrorCode::kNotFound, "cannot start '{}': no such file", name);
  }
  std::istringstream folders(search_path.value_or(kDefaultPath));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::filesystem::path candidate = std::filesystem::path(folder) / name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(candidate, ignored) &&
        ::access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return fail(ErrorCode::kNotFound, "cannot start '{}': no such program in PATH{}", name,
              ::access(name.c_str(), F_OK) == 0 ? "; for the file in this folder, write ./" + name
                                                : std::string());
}

/// Returns whether the dynamic linker will ignore libraries that the environment names. Source:
/// ld.so(8), secure-execution mode.
bool gains_privileges(const std::filesystem::path& path, const struct stat& status) {
  const bool other_user = (status.st_mode & S_ISUID) != 0 && status.st_uid != ::getuid();
  const bool other_group = (status.st_mode & S_ISGID) != 0 && status.st_gid != ::getgid();
  const bool capabilities =
      ::getuid() != 0 && ::getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
  return other_user || other_group || capabilities;
}

/// Returns up to `size` bytes of a file from an offset on; fewer at its end.
std::string read_at(std::ifstream& file, std::uint64_t offset, std::size_t size) {
  std::string content(size, '\0');
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(content.data(), static_cast<std::streamsize>(size));
  content.resize(static_cast<std::size_t>(file.gcount()));
  return content;
}

template <typename Header>
Header header_at(std::ifstream& file, std::uint64_t offset) {
  Header header{};
  const std::string content = read_at(file, offset, sizeof(header));
  if (content.size() == sizeof(header)) std::memcpy(&header, content.data(), sizeof(header));
  return header;
}

/// Checks an ELF file. Its tables may be anywhere: patchelf moves them to the end.
Result<void> check_elf(const std::filesystem::path& path, std::ifstream& file) {
  const auto header = header_at<Elf64_Ehdr>(file, 0);
#if defined(__x86_64__)
  constexpr Elf64_Half kMachine = EM_X86_64;
#else
  constexpr Elf64_Half kMachine = EM_AARCH64;
#endif
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    return fail(ErrorCode::kUnsupported,
                "{} is not a 64-bit program of this machine's architecture", path.string());
  }
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = header_at<Elf64_Phdr>(file, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type != PT_INTERP) continue;
    const std::string linker =
        read_at(file, segment.p_offset, std::min<std::size_t>(segment.p_filesz, PATH_MAX));
    if (!linker.contains("ld-linux")) {
      return fail(ErrorCode::kUnsupported,
                  "{} uses the dynamic linker {}; the shims need that of the GNU C library",
                  path.string(), linker.c_str());
    }
    return {};
  }
  return fail(ErrorCode::kUnsupported,
              "{} is statically linked, so the shims cannot take the place of NVIDIA's libraries; "
              "if it starts another program, pass that one to gpemu run",
              path.string());
}

/// Returns the interpreter that the first line of a script names.
std::string interpreter_of(const std::string& content) {
  std::istringstream line(content.substr(2, content.find('\n')));
  std::string interpreter;
  line >> interpreter;
  return interpreter;
}

}  // namespace

Result<void> check_program(const std::string& name, const std::optional<std::string>& search_path) {
  GPEMU_ASSIGN(std::filesystem::path path, find_program(name, search_path));
  for (int i = 0; i < kMaxInterpreters; ++i) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      return fail(ErrorCode::kInvalidArgument, "cannot start '{}': {}", name,
                  S_ISDIR(status.st_mode) ? "it is a folder"
                  : status.st_mode != 0   ? "it is not a program but a device, a pipe or a socket"
                                          : path.string() + " cannot be read");
    }
    if (::access(path.c_str(), X_OK) != 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "cannot start '{}': {} is not executable; use chmod +x, or name its interpreter: "
                  "-- python {}",
                  name, path.string(), name);
    }
    if (gains_privileges(path, status)) {
      return fail(ErrorCode::kUnsupported,
                  "{} is set-user-ID, set-group-ID or has capabilities: the dynamic linker does "
                  "not give it the shims",
                  path.string());
    }
    // An executable file may be unreadable; then the system decides.
    std::ifstream file(path, std::ios::binary);
    const std::string content = read_at(file, 0, kLongestFirstLine);
    if (content.starts_with(ELFMAG)) return check_elf(path, file);
    if (!content.starts_with("#!")) return {};
    const std::string interpreter = interpreter_of(content);
    if (::access(interpreter.c_str(), F_OK) != 0) {
      return fail(ErrorCode::kNotFound, "cannot start '{}': {} needs the interpreter '{}'", name,
                  path.string(), interpreter);
    }
    path = interpreter;
  }
  return {};
}

}  // namespace gpemu::run
