// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/nvlink.hpp"

#include <filesystem>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

// The numbers of links that `nvidia-smi nvlink -s` lists on these boards.
TEST(Nvlinks, AreThoseOfTheBoards) {
  const std::filesystem::path folder = GPEMU_GPUS_FOLDER;
  for (const auto& [name, links] : {std::pair<std::string, int>{"V100-SXM2-32GB", 6},
                                    {"A100-SXM4-40GB", 12},
                                    {"H100-SXM5-80GB", 18},
                                    {"RTX-3090", 4},
                                    {"T4", 0}}) {
    EXPECT_EQ(nvlinks_of(load_gpu_spec(folder / (name + ".toml")).value()), links) << name;
  }
}

}  // namespace
}  // namespace gpemu::profile
