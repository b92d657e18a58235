// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/calibration_file.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/profile/database.hpp"
#include "gpemu/profile/database_writer.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::profile {
namespace {

/// A GPU's file, with the sources last as in catalog/gpus/.
std::string gpu_file(std::string_view name = "X-1") {
  return "name = \"" + std::string(name) + R"("
product_name = "Test"
architecture = "Test"

[compute]
capability = { value = 7.5, source = "sheet" }
multiprocessors = { value = 10, source = "sheet" }
cuda_cores = { value = 640, source = "sheet" }
boost_clock_mhz = { value = 1500, source = "sheet" }
fp32_tflops = { value = 1.92, source = "sheet" }

[memory]
capacity_mib = { value = 8192, source = "sheet" }
bandwidth_gb_per_s = { value = 250.5, source = "sheet" }
bus_bits = { value = 256, source = "sheet" }
l2_cache_mib = { value = 1.5, source = "sheet" }

[power]
max_w = { value = 75, source = "sheet" }

[links]
pcie_generation = { value = 3, source = "sheet" }
pcie_lanes = { value = 16, source = "sheet" }
pinned_copy_gb_per_s = { value = 12, source = "sheet" }

# Where it all comes from.
[sources]
sheet = """\
  A datasheet
[calibration]
"""
)";
}

Calibration calibration(bool tensor_cores = false) {
  Calibration made{.gpu = "X-1",
                   .command = "gpemu cost fit \"recordings\"",
                   .pack = "somebody-25",
                   .models = 36,
                   .steps = 400,
                   .error = 0.0444,
                   .tensor_cores = tensor_cores};
  for (int i = 0; i < kOperationParameterCount; ++i) {
    made.parameters.at(i) = kOperationParameters.at(i).typical;
  }
  made.parameters[kDepth] = 28.48721;
  made.parameters[kLatency] = 2.41234e-6;
  made.parameters[kHostNormalizationBackward] =
      kOperationParameters[kHostNormalizationBackward].least;
  return made;
}

std::string calibrated_file(std::string_view other = "") {
  return replace_calibration(gpu_file(), "x.toml", calibration(), other).value();
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string message_of(const std::string& toml) {
  const Result<GpuSpec> spec = parse_gpu_spec(toml, "x.toml");
  return spec ? "parsed" : spec.error().message;
}

/// Returns what a file says, or an empty calibration.
Calibration read_calibration(const std::string& toml) {
  const Result<GpuSpec> spec = parse_gpu_spec(toml, "x.toml");
  EXPECT_TRUE(spec) << spec.error().message;
  return spec ? spec->calibration.value_or(Calibration{}) : Calibration{};
}

TEST(Calibration, BarsAreReadAsTheyWereWritten) {
  EXPECT_FALSE(read_calibration(calibrated_file()).bars);
  Calibration with_bars = calibration();
  with_bars.bars = {.unseen_model = 0.1494, .known_batch = 0.08, .other_gpu = 0.151};
  const std::string file = replace_calibration(gpu_file(), "x.toml", with_bars, "").value();
  const CalibrationBars bars = read_calibration(file).bars.value_or(CalibrationBars{});
  EXPECT_EQ(bars.unseen_model, 0.149);
  EXPECT_EQ(bars.known_batch, 0.08);
  EXPECT_EQ(bars.other_gpu, 0.151);
  EXPECT_FALSE(bars.tf32 || bars.fp32);
  EXPECT_NE(message_of(replaced(file, "bar_known_batch = 0.080\n", "")).find("bar_known_batch"),
            std::string::npos);
}

TEST(Calibration, SaysIfItsNumbersHad16Bits) {
  Calibration half = calibration(true);
  half.half = true;
  const std::string file = replace_calibration(gpu_file(), "x.toml", half, "").value();
  EXPECT_TRUE(read_calibration(file).half);
  EXPECT_FALSE(read_calibration(calibrated_file()).half);
  EXPECT_NE(message_of(replaced(file, "half = true", "half = 1")).find("calibration.half"),
            std::string::npos);
}

TEST(Calibration, IsReadAsItWasWrittenToFourDigits) {
  const Result<GpuSpec> spec = parse_gpu_spec(calibrated_file("Y-1"), "x.toml");
  ASSERT_TRUE(spec) << spec.error().message;
  const Calibration read = spec->calibration.value_or(Calibration{});
  EXPECT_EQ(read.gpu, "X-1");
  EXPECT_EQ(read.command, "gpemu cost fit \"recordings\"");
  EXPECT_EQ(read.pack, "somebody-25");
  EXPECT_EQ(read.models, 36);
  EXPECT_EQ(read.steps, 400);
  EXPECT_EQ(read.error, 0.044);
  EXPECT_FALSE(read.tensor_cores);
  EXPECT_EQ(read.parameters[kDepth], 28.49);
  EXPECT_EQ(read.parameters[kLatency], 2.412e-6);
  EXPECT_EQ(read.parameters[kHostNormalizationBackward],
            kOperationParameters[kHostNormalizationBackward].least)
      << "a bound of more digits must not be rounded beyond itself";
  EXPECT_EQ(spec->other_arithmetic_like, "Y-1");
  EXPECT_EQ(parse_gpu_spec(gpu_file(), "x.toml")->calibration, std::nullopt);
}

TEST(Calibration, ReplacingLeavesEveryOtherByte) {
  const std::string plain = gpu_file();
  const std::string once = calibrated_file();
  EXPECT_TRUE(once.starts_with(plain + "\n[calibration]\n")) << once;
  EXPECT_EQ(replace_calibration(once, "x.toml", calibration(), "").value(), once);

  // In the middle of a file, before a comment that is the next table's.
  const std::string table = once.substr(plain.size() + 1);
  const std::string middle = replaced(plain, "\n# Where", "\n" + table + "\n# Where");
  EXPECT_EQ(replace_calibration(middle, "x.toml", calibration(), "").value(), middle);
  const std::string like =
      replaced(plain, "\n# Where", "\n[calibration]\nlike = \"Y-1\"\n\n# Where");
  EXPECT_EQ(replace_calibration(like, "x.toml", calibration(), "").value(), middle);
}

TEST(Calibration, KeepsTheParametersOfEachArithmetic) {
  Calibration all = calibration(true);
  all.half = true;
  all.tf32 = all.fp32 = all.parameters;
  all.tf32->at(kMatmul) = 0.5;
  all.fp32->at(kMatmul) = 0.25;
  const std::string file = replace_calibration(gpu_file(), "x.toml", all, "").value();
  const Calibration read = read_calibration(file);
  EXPECT_TRUE(read.has_all_arithmetic());
  EXPECT_EQ(read.tf32.value_or(OperationParameters{}).at(kMatmul), 0.5);
  EXPECT_EQ(read.fp32.value_or(OperationParameters{}).at(kMatmul), 0.25);
  EXPECT_EQ(read.fp32.value_or(OperationParameters{}).at(kLatency), read.parameters.at(kLatency))
      << "what has no arithmetic is common";
  EXPECT_NE(message_of(replaced(file, "[calibration.tf32]", "[calibration.tf32]\nlatency = 1e-6"))
                .find("calibration.tf32.latency: unknown key"),
            std::string::npos);
  EXPECT_FALSE(read_calibration(calibrated_file()).has_all_arithmetic());
}

TEST(Calibration, KeepsTheBarOfEachArithmetic) {
  Calibration all = calibration(true);
  all.half = true;
  all.tf32 = all.fp32 = all.parameters;
  all.bars = {.unseen_model = 0.2, .known_batch = 0.2, .other_gpu = 0.15, .tf32 = 0.3};
  const std::string file = replace_calibration(gpu_file(), "x.toml", all, "").value();
  const CalibrationBars bars = read_calibration(file).bars.value_or(CalibrationBars{});
  EXPECT_EQ(bars.unseen_model, 0.2);
  EXPECT_EQ(bars.tf32, 0.3);
  EXPECT_FALSE(bars.fp32) << "too few steps";
  EXPECT_NE(message_of(replaced(file, "bar_unseen_model = 0.300", "bar_unseen_model = 0")),
            "parsed");
  all.bars.reset();
  const std::string without = replace_calibration(gpu_file(), "x.toml", all, "").value();
  EXPECT_NE(message_of(replaced(without, "[calibration.tf32]",
                                "[calibration.tf32]\nbar_unseen_model = 0.3"))
                .find("calibration.tf32.bar_unseen_model: unknown key"),
            std::string::npos)
      << "only beside the others";
}

TEST(Calibration, KeepsTheHostsTimeForATensorInAList) {
  Calibration listed = calibration(true);
  EXPECT_FALSE(read_calibration(calibrated_file()).listed_tensor);
  listed.listed_tensor = 7.3e-6;
  const std::string file = replace_calibration(gpu_file(), "x.toml", listed, "").value();
  EXPECT_EQ(read_calibration(file).listed_tensor, 7.3e-6);
  EXPECT_NE(message_of(replaced(file, "host_listed_tensor = 7.3e-06", "host_listed_tensor = 1"))
                .find("calibration.host_listed_tensor: 1 is not between"),
            std::string::npos);
  Calibration other = calibration(true);
  take_host(listed, other);
  EXPECT_EQ(other.listed_tensor, 7.3e-6);
  take_host(calibration(true), other);
  EXPECT_FALSE(other.listed_tensor) << "a host without lists";
}

TEST(Calibration, ReplacesNothingInAFileThatIsWrong) {
  EXPECT_EQ(replace_calibration("name = 1", "x.toml", calibration(), "").error().message,
            "x.toml:1: name: expected a non-empty string");
  Calibration wrong = calibration();
  wrong.command.clear();
  EXPECT_FALSE(replace_calibration(gpu_file(), "x.toml", wrong, ""));
}

TEST(Calibration, NamesFileLineAndFieldOfAFault) {
  const std::string good = calibrated_file();
  EXPECT_EQ(message_of(good), "parsed");
  // What stands instead of `from`, and what is said of its line or that of `where`.
  const auto expect = [&](std::string_view from, std::string_view to, std::string_view where,
                          std::string_view message) {
    const std::string wrong = replaced(good, from, to);
    const auto lines = std::ranges::count(wrong.substr(0, wrong.find(where)), '\n') + 1;
    EXPECT_EQ(message_of(wrong), fmt::format("x.toml:{}: {}", lines, message));
  };
  const std::string_view depth = "depth = 28.49", table = "[calibration]\n#";
  expect(depth, "depths = 28.49", "depths", "calibration.depths: unknown key");
  const std::string_view from =
      "from a file in catalog/gpus/ of this gpemu, or write only like = \"GPU\" to "
      "have what a measured GPU has";
  expect(depth, "", table, fmt::format("calibration.depth: missing; copy it {}", from));
  expect(depth, "depth = 0.1", "depth =", "calibration.depth: 0.1 is not between 4 and 200");
  expect(depth, "depth = nan", "depth =", "calibration.depth: nan is not between 4 and 200");
  expect(depth, "depth = \"28\"", "depth =", "calibration.depth: expected a number");
  expect("tensor_cores = false", "tensor_cores = 0", "tensor_cores",
         "calibration.tensor_cores: expected true or false");
  expect("pack = \"somebody-25\"", "", table,
         fmt::format("calibration.pack: missing; copy it {}", from));
  expect("host_launch", "matmul", "matmul = 2.5e-05", "calibration.host.matmul: unknown key");
  expect("[calibration.host]", "[calibration.hosts]", "[calibration.hosts]",
         "calibration.hosts: unknown key");
  expect("models = 36", "models = 36.5", "models", "calibration.models: expected a whole number");
  expect(table, "[calibration]\nlike = 'Y-1'\n#", "apart", "calibration.apart: unknown key");
  EXPECT_EQ(message_of("calibration = 1\n" + gpu_file()),
            "x.toml:1: calibration: expected a table");
}

TEST(Calibration, NamesAllKeysThatAreMissing) {
  std::string file = calibrated_file();
  for (const std::string_view line :
       {"depth = 28.49", "latency = 2.412e-06", "host_launch = 2.5e-05"}) {
    file = replaced(file, fmt::format("\n{}\n", line), "\n");
  }
  EXPECT_NE(
      message_of(file).find(": calibration.depth, latency, host.host_launch: missing; copy them"),
      std::string::npos)
      << message_of(file);
}

TEST(Calibration, IsTakenFromTheGpuThatAFileNames) {
  const auto file = [](std::string_view name, bool tensor_cores, std::string_view other) {
    return replace_calibration(gpu_file(name), "x.toml", calibration(tensor_cores), other).value();
  };
  const std::string like = gpu_file("Z-1") + "\n[calibration]\nlike = \"X-1\"\n";
  std::vector<GpuText> gpus = {{file("X-1", false, "Y-1"), "X-1.toml"},
                               {file("Y-1", true, "X-1"), "Y-1.toml"},
                               {like, "Z-1.toml"}};
  const Database database = Database::from_image(build_database_image(gpus, {}).value()).value();
  const GpuSpec spec = database.gpu("Z-1").value();
  const Calibration own = spec.calibration.value_or(Calibration{});
  EXPECT_EQ(own.gpu, "X-1");
  EXPECT_EQ(own.parameters[kDepth], 28.49);
  const Calibration other = spec.other_arithmetic.value_or(Calibration{});
  EXPECT_EQ(other.gpu, "Y-1");
  EXPECT_TRUE(other.tensor_cores);
  EXPECT_EQ(database.gpu("X-1").value().other_arithmetic.value_or(Calibration{}).gpu, "Y-1");

  // The host may be another GPU's: by the file, or because a user asks for it.
  const auto launch = [](const Result<GpuSpec>& gpu) {
    return gpu && gpu->calibration ? gpu->calibration->parameters.at(kHostLaunch) : 0;
  };
  Calibration slow = calibration(true);
  slow.parameters[kHostLaunch] = 9e-5;
  gpus[1].toml = replace_calibration(gpu_file("Y-1"), "x.toml", slow, "X-1").value();
  gpus[2].toml = replaced(like, "like = \"X-1\"", "like = \"X-1\"\nhost_like = \"Y-1\"");
  const Database hosts = Database::from_image(build_database_image(gpus, {}).value()).value();
  EXPECT_EQ(launch(hosts.gpu("Z-1")), 9e-5);
  EXPECT_EQ(launch(hosts.gpu("X-1")), 2.5e-5);
  EXPECT_EQ(launch(hosts.gpu("X-1", "")), 2.5e-5);
  EXPECT_EQ(launch(hosts.gpu("X-1", "Y-1")), 9e-5);
  EXPECT_EQ(hosts.gpu("X-1", "Y-1").value().calibration.value_or(Calibration{}).gpu, "X-1");
  EXPECT_EQ(hosts.gpu("X-1", "W-1").error().code, ErrorCode::kNotFound);

  gpus[2].toml = replaced(like, "like = \"X-1\"", "like = \"W-1\"");
  EXPECT_EQ(build_database_image(gpus, {}).error().message,
            "Z-1: calibration.like: there is no GPU \"W-1\" with parameters");
  gpus = {{file("X-1", false, "Y-1"), "X-1.toml"}, {file("Y-1", false, ""), "Y-1.toml"}};
  EXPECT_EQ(build_database_image(gpus, {}).error().message,
            "X-1: calibration.other_arithmetic_like: Y-1 has no other arithmetic");
}

}  // namespace
}  // namespace gpemu::profile
