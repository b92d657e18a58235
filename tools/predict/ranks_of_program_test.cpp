// SPDX-License-Identifier: Apache-2.0
#include "predict/ranks_of_program.hpp"

#include <gtest/gtest.h>

namespace gpemu::tools {
namespace {

using Words = std::vector<std::string>;

TEST(WithRanks, StartsAScriptByTorchrun) {
  EXPECT_EQ(with_ranks({"python3", "-u", "-X", "dev", "train.py", "--nnodes", "3"}, 8).value(),
            (Words{"python3", "-u", "-X", "dev", "-m", "torch.distributed.run", "--standalone",
                   "--nproc-per-node", "8", "train.py", "--nnodes", "3"}));
  EXPECT_EQ(with_ranks({"/bin/python", "-m", "package.train", "-m"}, 2).value(),
            (Words{"/bin/python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node",
                   "2", "-m", "package.train", "-m"}));
}

TEST(WithRanks, ReplacesTheNumberOfTorchrun) {
  const Words expected = {
      "torchrun", "--standalone", "--nproc-per-node", "4", "train.py", "--nproc-per-node", "9"};
  for (const Words& given :
       {Words{"--nproc_per_node", "2"}, Words{"--nproc-per-node=2"}, Words{}}) {
    Words words = {"torchrun"};
    words.insert(words.end(), given.begin(), given.end());
    words.insert(words.end(), {"train.py", "--nproc-per-node", "9"});
    EXPECT_EQ(with_ranks(words, 4).value(), expected) << words[1];
  }
  EXPECT_EQ(with_ranks({"python", "-m", "torch.distributed.run", "--standalone", "--max-restarts",
                        "3", "-m", "train"},
                       4)
                .value(),
            (Words{"python", "-m", "torch.distributed.run", "--nproc-per-node", "4", "--standalone",
                   "--max-restarts", "3", "-m", "train"}));
}

TEST(WithRanks, RefusesWhatIsNotOneJobOfOneHost) {
  const auto fault = [](const Words& words) { return with_ranks(words, 2).error().message; };
  EXPECT_TRUE(fault({"./program"}).starts_with("--gpus: ./program is neither Python nor torchrun"));
  EXPECT_TRUE(fault({"python", "-c", "pass"}).contains("a script or a module"));
  EXPECT_TRUE(fault({"python"}).contains("a script or a module"));
  EXPECT_TRUE(fault({"torchrun", "--nnodes=2", "a.py"}).contains("leave out torchrun's --nnodes"));
  EXPECT_TRUE(fault({"torchrun", "--nproc-per-node", "2"}).contains("no script"));
}

}  // namespace
}  // namespace gpemu::tools
