// SPDX-License-Identifier: Apache-2.0
#include "cli/former_words.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

using Words = std::vector<std::string>;

TEST(FormerWords, GetTheFormThatTheyMean) {
  EXPECT_EQ(without_former_words({"train", "--gpu", "T4", "--data", "photos", "--cold"}),
            (Words{"train", "files", "photos", "--gpu", "T4", "--cold"}));
  EXPECT_EQ(without_former_words({"train", "--data=one", "--data", "two"}),
            (Words{"train", "files", "two"}))
      << "the last value counts";
  EXPECT_EQ(
      without_former_words({"train", "--data", "photos", "--host", "dgx-1", "--clock", "virtual"}),
      (Words{"train", "host", "dgx-1", "--data", "photos"}));
  EXPECT_EQ(without_former_words({"train", "--data-service", "here:1", "--clock=real"}),
            (Words{"train", "service", "here:1"}));
  EXPECT_EQ(without_former_words({"train", "--synthetic", "--clock", "virtual"}),
            (Words{"train", "synthetic", "--clock", "virtual"}));
  EXPECT_EQ(without_former_words({"analyze", "--host", "dgx-1"}),
            (Words{"analyze", "host", "dgx-1"}));
}

TEST(FormerWords, LoseOptionsWithoutEffect) {
  EXPECT_EQ(without_former_words({"train", "--workers", "8", "--synthetic", "--epochs=2", "--order",
                                  "auto", "--steps", "3", "--no-pin-memory"}),
            (Words{"train", "synthetic", "--steps", "3"}));
}

TEST(FormerWords, OfTodayStay) {
  for (const Words& words :
       {Words{}, Words{"train"}, Words{"train", "--help"}, Words{"train", "files", "--data", "x"},
        Words{"data", "work", "here:1", "--data", "x"}, Words{"run", "--", "a", "--data", "b"}}) {
    EXPECT_EQ(without_former_words(words), words);
  }
}

TEST(FormerWords, TrainAsTheNewOnesDo) {
  const TestWorld made_up;
  const Words options = {"--gpu", "V100",    "--model", "resnet50", "--steps",
                         "3",     "--clock", "virtual", "--json",   "-"};
  Words former = {"train", "--synthetic"}, words = {"train", "synthetic"};
  former.insert(former.end(), options.begin(), options.end());
  words.insert(words.end(), options.begin(), options.end());
  const Outcome before = made_up.run(former), now = made_up.run(words);
  ASSERT_EQ(now.code, 0) << now.errors;
  EXPECT_EQ(before.code, 0) << before.errors;
  EXPECT_EQ(parsed(before.output)["step_ms"], parsed(now.output)["step_ms"]);
  EXPECT_EQ(parsed(before.output)["options"], parsed(now.output)["options"]);
  EXPECT_EQ(before.errors,
            "gpemu: write `gpemu train synthetic` in place of `gpemu train --synthetic`, which "
            "ends with the next release\n");
}

TEST(FormerWords, AreRefusedWhereTheyContradictEachOther) {
  const TestWorld made_up;
  for (const Words& words : {Words{"--synthetic", "--data", "photos"},
                             Words{"--data-service", "here:1", "--host", "dgx-1"},
                             Words{"--data", "photos", "--clock", "virtual"},
                             Words{"--host", "dgx-1", "--clock", "real"},
                             Words{"--synthetic", "--storage", "hdd"}, Words{"--data"}}) {
    Words all = {"train", "--gpu", "V100", "--model", "resnet50"};
    all.insert(all.end(), words.begin(), words.end());
    EXPECT_EQ(made_up.run(all).code, 2) << words.front();
  }
}

}  // namespace
}  // namespace gpemu::tools
