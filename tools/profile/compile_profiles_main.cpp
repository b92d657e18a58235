// SPDX-License-Identifier: Apache-2.0
// Build step: makes profiles.db from the text files of the repository. Not installed.
#include <cstdio>
#include <exception>

#include <fmt/core.h>

#include "gpemu/profile/database_writer.hpp"

int main(int argc, char** argv) {
  try {
    if (argc != 4) {
      fmt::print(stderr, "usage: gpemu_compile_profiles GPUS_FOLDER PACKS_FOLDER OUTPUT\n");
      return gpemu::exit_code(gpemu::ErrorCode::kInvalidArgument);
    }
    const auto result = gpemu::profile::compile_database(argv[1], argv[2], argv[3]);
    if (result) return 0;
    fmt::print(stderr, "{}\n", result.error().message);
    return gpemu::exit_code(result.error().code);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpemu_compile_profiles: internal error: {}\n", error.what());
    return gpemu::exit_code(gpemu::ErrorCode::kInternal);
  }
}
