// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/pack.hpp"

#include "cli/test_world.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

class ProfileCommandTest : public testing::Test {
 protected:
  [[nodiscard]] Outcome profile(std::vector<std::string> words) const {
    words.insert(words.begin(), "profile");
    return made_up_.run(std::move(words));
  }

  /// Writes a pack "mine" whose forward pass takes 7 ms at batch 1. Returns its folder.
  [[nodiscard]] std::string pack(bool emulated = false, const std::string& gpu = "") const {
    profile::Pack pack = made_up_pack("mine");
    pack.info.emulated = emulated;
    pack.curves.front().points.front().value = 7;
    if (!gpu.empty()) {
      for (profile::Curve& curve : pack.curves) curve.key.gpu = gpu;
      pack.limits.clear();
    }
    const std::filesystem::path folder = made_up_.folder / "pack";
    std::filesystem::remove_all(folder);
    GPEMU_CHECK(profile::write_pack(pack, folder).has_value(), "the folder is new");
    return folder.string();
  }

  /// The forward pass at batch 1, in ms.
  [[nodiscard]] double forward_ms() const {
    const Outcome shown = profile({"show", "--gpu", "V100-PCIE-32GB", "--model", "resnet50",
                                   "--quantity", "forward", "--json"});
    return parsed(shown.output)["curves"][0]["points"][0][1];
  }

  TestWorld made_up_;
};

TEST_F(ProfileCommandTest, MeasuresWithTheScriptBesideTheCommand) {
  const Outcome missing = profile({"measure"});
  EXPECT_EQ(missing.code, exit_code(ErrorCode::kNotFound));
  EXPECT_NE(missing.errors.find("measure_gpu.py is missing"), std::string::npos) << missing.errors;
  const std::string script = made_up_.write("share/gpemu/measure_gpu.py", "");
  made_up_.program = [&script](const StartedProgram& started) {
    EXPECT_EQ(started.words, (std::vector<std::string>{"python3", script, "--output", "mine"}));
    return 7;
  };
  EXPECT_EQ(profile({"measure", "--", "--output", "mine"}).code, 7);
}

TEST_F(ProfileCommandTest, ListsPacksGpusAndModels) {
  const Outcome outcome = profile({"list"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(squeezed(outcome.output),
            "PACK from title\nmade-up installed Made up\n\n"
            "GPU architecture memory / MiB models measured also called\n"
            "T4 Turing 15360 0 Tesla_T4\n"
            "V100-PCIE-32GB Volta 32768 1 V100, Tesla_V100-PCIE-32GB\n\n"
            "MODEL parameters input GPUs measured\nresnet50 25557032 3x224x224 1\n\n"
            "--gpu or --model lists what was measured.\n");
}

TEST_F(ProfileCommandTest, ListsTheMeasurementsOfAGpuOrAModel) {
  const std::string measured =
      "Measured batch sizes of each quantity:\n"
      "GPU model precision forward backward_optimizer input_copy_pageable peak_memory "
      "persistent_memory points pack\n"
      "V100-PCIE-32GB resnet50 fp32 1-256 1-256 1-256 1-256 1-256 14 made-up\n";
  EXPECT_EQ(squeezed(profile({"list", "--gpu", "v100"}).output), measured);
  EXPECT_EQ(squeezed(profile({"list", "--model", "resnet50"}).output), measured);
  EXPECT_EQ(profile({"list", "--gpu", "T4"}), (Outcome{0, "there are no such measurements\n", ""}));
  EXPECT_EQ(profile({"list", "--gpu", "T5"}).code, 3);
  const json all = parsed(profile({"list", "--json"}).output);
  EXPECT_EQ(all["gpus"][1]["models_measured"], 1) << all["gpus"];
  EXPECT_EQ(all["gpus"][0]["models_measured"], 0);
  EXPECT_EQ(all["models"][0]["gpus_measured"], 1);
  EXPECT_EQ(all["measured"][0]["batches"]["forward"], (json{1, 256}));
  EXPECT_EQ(parsed(profile({"list", "--gpu", "T4", "--json"}).output)["measured"], json::array());
}

TEST_F(ProfileCommandTest, ShowsCurvesWithTheirLimit) {
  const Outcome outcome = profile({"show", "--gpu", "V100", "--model", "resnet50", "--quantity",
                                   "forward", "--quantity", "peak_memory"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const std::string text = squeezed(outcome.output);
  EXPECT_TRUE(text.starts_with(
      "resnet50 on V100-PCIE-32GB, fp32\n\n"
      "quantity unit batches measured rows points kept mean error / % p95 / % max / % pack\n"
      "forward ms 1-256 256 3 1.00 3.00 4.00 made-up\n"
      "peak_memory MiB 1-256 256 3 1.00 3.00 4.00 made-up\n"
      "Measured to fit up to batch 256; out of memory at 257.\n"))
      << text;
  EXPECT_TRUE(
      text.ends_with("batch forward / ms peak_memory / MiB\n1 10 500\n64 60 6000\n256 240 24000\n"))
      << text;
}

TEST_F(ProfileCommandTest, ShowsTheSourceOfEachNumberOfAGpu) {
  const Outcome outcome = profile({"show", "--gpu", "T4", "--json"});
  EXPECT_EQ(outcome.code, 0);
  const json spec = parsed(outcome.output);
  EXPECT_EQ(spec["name"], "T4");
  EXPECT_FALSE(spec["numbers"].empty());
  for (const auto& [name, number] : spec["numbers"].items()) {
    EXPECT_FALSE(number["source"].get<std::string>().empty()) << name;
  }
}

TEST_F(ProfileCommandTest, RefusesASelectionThatIsNotThere) {
  EXPECT_EQ(profile({"show"}),
            (Outcome{2, "", "gpemu: give --gpu, and --model for its measurements\n"}));
  EXPECT_EQ(profile({"show", "--gpu", "T4", "--plot", "t4.svg"}),
            (Outcome{2, "", "gpemu: --plot draws measurements: give a --model\n"}));
  EXPECT_EQ(profile({"show", "--gpu", "T4", "--model", "resnet50"}),
            (Outcome{3, "", "gpemu: resnet50 was not measured on T4, but on V100-PCIE-32GB\n"}));
  EXPECT_EQ(profile({"show", "--gpu", "V100", "--model", "resnet50", "--precision", "tf32"}),
            (Outcome{3, "",
                     "gpemu: resnet50 was measured on V100-PCIE-32GB at fp32; choose one with "
                     "--precision\n"}));
  EXPECT_EQ(profile({"show", "--gpu", "V100", "--model", "resnet50", "--plot", "x.png"}).code, 2);
}

TEST_F(ProfileCommandTest, PlotsTheCurvesOfTheFirstUnit) {
  const std::string plot = (made_up_.folder / "plot.svg").string();
  EXPECT_EQ(profile({"show", "--gpu", "V100", "--model", "resnet50", "--plot", plot}).code, 0);
  const std::string svg = read_file(plot).value();
  EXPECT_TRUE(svg.contains("backward_optimizer"));
  EXPECT_FALSE(svg.contains("peak_memory"));
}

TEST_F(ProfileCommandTest, ExportsCurvesAsCsvAndPacksAsFolders) {
  const std::string csv = (made_up_.folder / "v100.csv").string();
  EXPECT_EQ(profile({"export", "--gpu", "V100", "--model", "resnet50", "--quantity", "forward",
                     "--output", csv}),
            (Outcome{0, fmt::format("wrote 3 points of 1 curves to {}\n", csv), ""}));
  EXPECT_EQ(read_file(csv).value(),
            "gpu,model,precision,quantity,unit,batch,value,pack\n"
            "V100-PCIE-32GB,resnet50,fp32,forward,ms,1,10,made-up\n"
            "V100-PCIE-32GB,resnet50,fp32,forward,ms,64,60,made-up\n"
            "V100-PCIE-32GB,resnet50,fp32,forward,ms,256,240,made-up\n");
  const std::string folder = (made_up_.folder / "exported").string();
  EXPECT_EQ(profile({"export", "--pack", "made-up", "--output", folder}),
            (Outcome{0, fmt::format("wrote 5 curves to {}\n", folder), ""}));
  EXPECT_EQ(profile({"export", "--gpu", "V100", "--output", csv}),
            (Outcome{2, "", "gpemu: give --pack, or --gpu and --model\n"}));
  EXPECT_EQ(profile({"export", "--gpu", "V100", "--model", "resnet50", "--output", "x.txt"}).code,
            2);
}

TEST_F(ProfileCommandTest, YourPacksTakePrecedenceUntilTheyAreRemoved) {
  EXPECT_EQ(forward_ms(), 10);
  const std::string user = made_up_.world.profiles.user.string();
  EXPECT_EQ(profile({"add", pack()}),
            (Outcome{0, fmt::format("added mine (5 curves) to {}\n", user), ""}));
  EXPECT_EQ(forward_ms(), 7);
  EXPECT_EQ(profile({"remove", "mine"}),
            (Outcome{0, fmt::format("removed mine from {}\n", user), ""}));
  EXPECT_EQ(forward_ms(), 10);
  EXPECT_EQ(profile({"remove", "mine"}).code, 3);
}

TEST_F(ProfileCommandTest, MeasurementsOnAnEmulatedGpuReplaceNoneOnARealOne) {
  const Outcome refused = profile({"add", pack(true)});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(refused.errors.starts_with(
      "gpemu: pack mine was measured on an emulated GPU, and resnet50 on V100-PCIE-32GB at fp32 "
      "was measured on a real one, in pack made-up: the new measurement would replace it."))
      << refused.errors;
  EXPECT_EQ(forward_ms(), 10);
  EXPECT_TRUE(profile({"add", pack(true, "T4")})
                  .output.starts_with("note: mine was measured on an emulated GPU: results that "
                                      "rest on it have the evidence 'emulated'\n"));
}

TEST_F(ProfileCommandTest, NotesAGpuThatHasNoSpecification) {
  EXPECT_TRUE(profile({"add", pack(false, "X1")})
                  .output.starts_with("note: there is no GPU \"X1\"; use these profiles with --gpu "
                                      "PATH, a TOML file whose name is \"X1\"\n"));
}

TEST_F(ProfileCommandTest, ChecksAPack) {
  EXPECT_EQ(profile({"check", "/none"}), (Outcome{3, "", "gpemu: there is no /none/pack.toml\n"}));
  const Outcome outcome = profile({"check", pack(false, "X1")});
  EXPECT_EQ(outcome.code, 6);
  EXPECT_TRUE(outcome.output.contains("X1")) << outcome.output;
  EXPECT_TRUE(outcome.errors.contains(" fault")) << outcome.errors;
}

TEST_F(ProfileCommandTest, ImportNeedsANameAndLabelsOfPrecisions) {
  const std::string tables = made_up_.folder.string();
  EXPECT_EQ(profile({"import", tables}),
            (Outcome{2, "", "gpemu: give the pack a --name, or an --info file with one\n"}));
  EXPECT_EQ(profile({"import", tables, "--name", "x", "--precision", "V100"}),
            (Outcome{2, "", "gpemu: --precision V100: write GPU=LABEL\n"}));
  EXPECT_EQ(profile({"import", tables, "--name", "x", "--precision", "V100="}).code, 2);
  EXPECT_EQ(profile({"import", tables, "--name", "x", "--precision", "T5=tf32"}).code, 3);
}

}  // namespace
}  // namespace gpemu::tools
