// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/pipe.hpp"

#include <sys/stat.h>

#include <fmt/core.h>

namespace gpemu::mps {
namespace {

std::filesystem::path folder_of(const Lookup& lookup, const char* name, const char* usual) {
  const char* const value = lookup(name);
  return value == nullptr || *value == '\0' ? usual : value;
}

}  // namespace

std::filesystem::path pipe_directory(const Lookup& lookup) {
  return folder_of(lookup, "CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps");
}

std::filesystem::path log_directory(const Lookup& lookup) {
  return folder_of(lookup, "CUDA_MPS_LOG_DIRECTORY", "/var/log/nvidia-mps");
}

std::string machine_key(const std::filesystem::path& segment, std::string_view devices) {
  struct stat status{};
  if (::stat(segment.c_str(), &status) != 0) return "";
  return fmt::format("{}:{}:{}", status.st_dev, status.st_ino, devices);
}

}  // namespace gpemu::mps
