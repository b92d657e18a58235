// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/gpu_spec.hpp"

#include <algorithm>
#include <cctype>
#include <set>

#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

constexpr std::string_view kGood = R"(name = "X-1"
product_name = "Test X-1"
aliases = ["X1"]
architecture = "Test"

[compute]
capability = { value = 7.5, source = "sheet" }
multiprocessors = { value = 10, source = "sheet" }
cuda_cores = { value = 640, source = "sheet" }
boost_clock_mhz = { value = 1500, source = "sheet" }
fp32_tflops = { value = 1.92, source = "sheet" }

[memory]
capacity_mib = { value = 8192, source = "smi" }
bandwidth_gb_per_s = { value = 250.5, source = "sheet" }
bus_bits = { value = 256, source = "sheet" }
l2_cache_mib = { value = 1.5, source = "sheet" }

[power]
max_w = { value = 75, source = "sheet" }

[links]
pcie_generation = { value = 3, source = "sheet" }
pcie_lanes = { value = 16, source = "sheet" }
pinned_copy_gb_per_s = { value = 12, source = "smi" }

[sources]
sheet = "A datasheet"
smi = "A measurement"
)";

std::string replaced(std::string_view from, std::string_view to) {
  std::string text(kGood);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string fault_of(std::string_view toml) {
  const Result<GpuSpec> spec = parse_gpu_spec(toml, "x.toml");
  if (spec) return "parsed";
  EXPECT_EQ(spec.error().code, ErrorCode::kCorruptData);
  return spec.error().message;
}

TEST(ParseGpuSpec, ConvertsUnitsAndKeepsSources) {
  const Result<GpuSpec> spec = parse_gpu_spec(kGood, "x.toml");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->name, "X-1");
  EXPECT_EQ(spec->aliases, std::vector<std::string>{"X1"});
  EXPECT_EQ(spec->compute_capability_major, 7);
  EXPECT_EQ(spec->compute_capability_minor, 5);
  EXPECT_EQ(spec->memory_bytes, 8 * kGiB);
  EXPECT_EQ(spec->l2_cache_bytes, 1536 * kKiB);
  EXPECT_DOUBLE_EQ(spec->memory_bandwidth_bytes_per_s, 250.5e9);
  EXPECT_DOUBLE_EQ(spec->fp32_flops, 1.92e12);
  EXPECT_EQ(spec->usable_memory_bytes, std::nullopt);
  EXPECT_EQ(spec->nvlink_bytes_per_s, std::nullopt);
  EXPECT_EQ(spec->nvlink_gpus, 1);
  EXPECT_EQ(spec->sources.at("memory.capacity_mib"), "A measurement");
  EXPECT_EQ(std::ranges::count_if(
                spec->sources,
                [](const auto& source) { return !source.first.starts_with("generation."); }),
            13);
}

TEST(ParseGpuSpec, TakesWhatTheDriverKeepsFromTheCapacity) {
  const Result<GpuSpec> spec = parse_gpu_spec(
      replaced("[memory]", "[memory]\nreserved_mib = { value = 192.5, source = \"smi\" }"),
      "x.toml");
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->reserved_memory_bytes, 385 * kMiB / 2);
  EXPECT_EQ(spec->memory_bytes + spec->reserved_memory_bytes, 8192 * kMiB);
}

TEST(ParseGpuSpec, TheMemoryClockIsTheMeasuredOneOrFollows) {
  const Result<GpuSpec> derived = parse_gpu_spec(kGood, "x.toml");
  ASSERT_TRUE(derived);
  EXPECT_NEAR(memory_clock_mhz(*derived), 250.5e3 / 32 / 2, 1e-6);
  const Result<GpuSpec> measured = parse_gpu_spec(
      replaced("[memory]", "[memory]\nclock_mhz = { value = 3201, source = \"smi\" }"), "x.toml");
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_EQ(memory_clock_mhz(*measured), 3201);
}

TEST(ParseGpuSpec, NamesOriginLineAndFieldOfAFault) {
  EXPECT_EQ(fault_of(replaced("{ value = 10, source = \"sheet\" }", "10")),
            "x.toml:8: compute.multiprocessors: a number needs a source: "
            "{ value = ..., source = \"...\" }");
  EXPECT_EQ(fault_of(replaced("value = 10, source = \"sheet\"", "value = 10")),
            "x.toml:8: compute.multiprocessors: no source");
  EXPECT_EQ(fault_of(replaced("10, source = \"sheet\"", "10, source = \"hearsay\"")),
            "x.toml:8: compute.multiprocessors: source 'hearsay' is not in [sources]; add hearsay "
            "= \"...\" there");
}

TEST(ParseGpuSpec, RefusesWrongTypes) {
  EXPECT_EQ(fault_of(replaced("value = 10,", "value = \"10\",")),
            "x.toml:8: compute.multiprocessors: expected a number");
  EXPECT_EQ(fault_of(replaced("value = 10,", "value = true,")),
            "x.toml:8: compute.multiprocessors: expected a number");
  EXPECT_EQ(fault_of(replaced("name = \"X-1\"", "name = 1")),
            "x.toml:1: name: expected a non-empty string");
  EXPECT_EQ(fault_of(replaced("[\"X1\"]", "\"X1\"")),
            "x.toml:3: aliases: expected a list of strings");
  EXPECT_EQ(fault_of(replaced("sheet = \"A datasheet\"", "sheet = 7")),
            "x.toml:28: sources.sheet: expected a citation");
  EXPECT_EQ(fault_of("power = 3\n" + std::string(kGood.substr(0, kGood.find("[power]"))) +
                     std::string(kGood.substr(kGood.find("[links]")))),
            "x.toml:1: power: expected a table");
}

TEST(ParseGpuSpec, RefusesWhatCannotBe) {
  EXPECT_EQ(fault_of(replaced("value = 75", "value = -75")),
            "x.toml:20: power.max_w: -75 is not between 1 and 100000; is the unit right?");
  EXPECT_EQ(fault_of(replaced("value = 75", "value = nan")),
            "x.toml:20: power.max_w: nan is not between 1 and 100000; is the unit right?");
  EXPECT_EQ(fault_of(replaced("value = 75", "value = inf")),
            "x.toml:20: power.max_w: inf is not between 1 and 100000; is the unit right?");
  EXPECT_EQ(fault_of(replaced("value = 10,", "value = 10.5,")),
            "x.toml:8: compute.multiprocessors: 10.5 is not a multiple of 1");
  EXPECT_EQ(fault_of(replaced("value = 7.5,", "value = 7.55,")),
            "x.toml:7: compute.capability: 7.55 is not a multiple of 0.1");
  EXPECT_EQ(fault_of(replaced("[memory]",
                              "[memory]\nusable_mib = { value = 8193, source = "
                              "\"smi\" }")),
            "x.toml:13: memory.usable_mib: more than capacity_mib");
  EXPECT_EQ(
      fault_of(replaced("[memory]", "[memory]\nreserved_mib = { value = 8192, source = \"smi\" }")),
      "x.toml:13: memory.reserved_mib: not less than capacity_mib");
  EXPECT_EQ(fault_of(replaced("[power]", "[power]\nidle_w = { value = 0, source = \"smi\" }")),
            "x.toml:20: power.idle_w: 0 is not between 0.1 and 100000; is the unit right?");
  EXPECT_EQ(fault_of(replaced("[links]",
                              "[links]\nnvlink_gb_per_s = { value = 50, source = "
                              "\"smi\" }")),
            "x.toml:22: links: nvlink_gb_per_s and nvlink_gpus go together");
}

TEST(ParseGpuSpec, RefusesMissingAndUnknownKeys) {
  EXPECT_EQ(fault_of(replaced("max_w", "max_watts")), "x.toml:20: power.max_watts: unknown key");
  EXPECT_EQ(fault_of(replaced("max_w = { value = 75, source = \"sheet\" }", "")),
            "x.toml:19: power.max_w: missing");
  EXPECT_EQ(fault_of(replaced("[power]\nmax_w = { value = 75, source = \"sheet\" }", "")),
            "x.toml:1: power.max_w: missing");
  EXPECT_EQ(fault_of(replaced("[power]", "[powers]")), "x.toml:19: powers: unknown key");
  EXPECT_EQ(fault_of(replaced("value = 75,", "value = 75, unit = \"W\",")),
            "x.toml:20: power.max_w: unknown key 'unit'; expected value and source");
  EXPECT_EQ(fault_of(replaced("smi = \"A", "other = \"B\"\nsmi = \"A")),
            "x.toml:29: sources.other: no number names this source");
  EXPECT_EQ(fault_of(""), "x.toml:1: name: missing; expected a string");
}

TEST(ParseGpuSpec, ReportsSyntaxErrorsWithTheirLine) {
  const std::string message = fault_of(replaced("[power]", "[power"));
  EXPECT_TRUE(message.starts_with("x.toml:19: ")) << message;
}

TEST(ParseGpuSpec, RefusesNamesThatAreNoFileNames) {
  EXPECT_TRUE(fault_of(replaced("\"X-1\"", "\"../X\"")).starts_with("x.toml:1: name: expected"));
  EXPECT_TRUE(fault_of(replaced("\"X-1\"", "\"X 1\"")).starts_with("x.toml:1: name: expected"));
}

/// The files that gpemu ships.
constexpr std::string_view kMig = R"([mig."1g.4gb"]
id = 14
nvml_profile = 0
placement = { size = 1, starts = [0, 1, 2, 3] }
engines = { copy = 1, ofa = 0 }
source = "smi"

[mig."4g.8gb+me"]
id = 0
nvml_profile = 3
placement = { size = 4, starts = [0] }
multiprocessors = 8
memory_mib = 8000
engines = { copy = 4, decode = 3, jpeg = 2, ofa = 1 }
source = "smi"

[sources])";

std::string mig(std::string_view from, std::string_view to) {
  std::string text(kMig);
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return replaced("[sources]", text.replace(at, from.size(), to));
}

TEST(ParseGpuSpec, ReadsTheProfilesOfMig) {
  const Result<GpuSpec> spec = parse_gpu_spec(replaced("[sources]", kMig), "x.toml");
  ASSERT_TRUE(spec) << spec.error().message;
  ASSERT_EQ(spec->mig_profiles.size(), 2U);
  const MigProfile& small = spec->mig_profiles[0];
  EXPECT_EQ(small.name, "1g.4gb");
  EXPECT_EQ(small.compute_slices, 1);
  EXPECT_EQ(small.starts, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(small.max_instances(), 4);
  EXPECT_EQ(small.memory_bytes, std::nullopt);
  const MigProfile& whole = spec->mig_profiles[1];
  EXPECT_EQ(whole.compute_slices, 4);
  EXPECT_TRUE(whole.media_extensions);
  EXPECT_EQ(whole.memory_bytes, 8000 * kMiB);
  EXPECT_EQ(whole.decoders, 3);
  EXPECT_EQ(spec->sources.at("mig.1g.4gb"), "A measurement");
  EXPECT_EQ(memory_slices_of(spec->mig_profiles), 4);
}

TEST(ParseGpuSpec, RefusesProfilesOfMigThatCannotBe) {
  EXPECT_EQ(fault_of(mig("[0, 1, 2, 3]", "[0, 2, 1]")),
            "x.toml:30: mig.1g.4gb: starts: expected rising multiples of 1 up to 7, the last slice "
            "at which a placement of that size fits");
  EXPECT_EQ(fault_of(mig("[0, 1, 2, 3]", "[4]")),
            "x.toml:27: mig.1g.4gb: a start is beyond the 4 slices that the largest profile has");
  EXPECT_EQ(fault_of(mig("1g.4gb", "small")),
            "x.toml:27: mig.small: expected a name such as \"3g.20gb\" or \"1g.5gb+me\"");
  EXPECT_EQ(fault_of(mig("id = 14", "id = 0")),
            "x.toml:34: mig.4g.8gb+me: has the id or nvml_profile of 1g.4gb");
  EXPECT_EQ(fault_of(mig("multiprocessors = 8", "multiprocessors = 11")),
            "x.toml:27: mig.4g.8gb+me: more multiprocessors or memory than the GPU has");
  EXPECT_EQ(fault_of(mig("ofa = 1", "nvenc = 1")), "x.toml:40: mig.4g.8gb+me: unknown key 'nvenc'");
  EXPECT_EQ(
      fault_of(mig("source = \"smi\"", "source = \"hearsay\"")),
      "x.toml:32: mig.1g.4gb: source 'hearsay' is not in [sources]; add hearsay = \"...\" there");
}

class ShippedGpus : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& entry : std::filesystem::directory_iterator(GPEMU_GPUS_FOLDER)) {
      Result<GpuSpec> spec = load_gpu_spec(entry.path());
      ASSERT_TRUE(spec) << spec.error().message;
      EXPECT_EQ(spec->name, entry.path().stem());
      specs_.push_back(*std::move(spec));
    }
  }

  std::vector<GpuSpec> specs_;
};

TEST_F(ShippedGpus, AreThoseThatThePagesName) {
  std::set<std::string> names;
  for (const GpuSpec& spec : specs_) names.insert(spec.name);
  EXPECT_EQ(names, (std::set<std::string>{"K80", "M40", "P100-PCIE-16GB", "V100-PCIE-32GB",
                                          "V100-SXM2-32GB", "Quadro-RTX-6000", "T4", "A10", "L4",
                                          "RTX-3090", "RTX-4090", "A100-PCIE-40GB",
                                          "A100-SXM4-40GB", "A100-SXM4-80GB", "H100-PCIE-80GB",
                                          "H100-SXM5-80GB", "H200-SXM-141GB", "B200-SXM-180GB"}));
}

TEST_F(ShippedGpus, HaveNamesAndAliasesThatNeverClash) {
  std::set<std::string> seen;
  for (const GpuSpec& spec : specs_) {
    std::vector<std::string> names = spec.aliases;
    names.push_back(spec.name);
    for (std::string& name : names) {
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      EXPECT_TRUE(seen.insert(name).second) << name;
    }
  }
}

// Each number was typed in by hand; these relations between them would show a slip.
TEST_F(ShippedGpus, AgreeWithThemselves) {
  for (const GpuSpec& spec : specs_) {
    SCOPED_TRACE(spec.name);
    EXPECT_EQ(spec.cuda_cores % spec.multiprocessors, 0);
    // Two operations per core and clock. Datasheets round, and some count another clock.
    EXPECT_NEAR(spec.fp32_flops / (2.0 * spec.cuda_cores * spec.boost_clock_mhz * 1e6), 1, 0.03);
    EXPECT_LT(spec.fp64_flops.value_or(0), 0.6 * spec.fp32_flops);
    if (spec.bf16_tensor_flops) {
      EXPECT_EQ(spec.bf16_tensor_flops, spec.fp16_tensor_flops);
    }
    if (spec.tf32_tensor_flops) {
      EXPECT_NEAR(spec.fp16_tensor_flops.value_or(0) / *spec.tf32_tensor_flops, 2, 0.05);
    }
    if (spec.fp8_tensor_flops) {
      EXPECT_NEAR(*spec.fp8_tensor_flops / spec.fp16_tensor_flops.value_or(0), 2, 0.01);
    }
    // Lanes of 8, 16 and 32 GT/s with 128b/130b coding. Source: PCI Express Base Specification.
    const double signalled =
        1e9 / 8 * (1 << spec.pcie_generation) * spec.pcie_lanes * 128.0 / 130.0;
    EXPECT_GT(spec.pinned_copy_bytes_per_s, 0.7 * signalled);
    EXPECT_LT(spec.pinned_copy_bytes_per_s, signalled);
    if (spec.usable_memory_bytes) {
      EXPECT_GT(*spec.usable_memory_bytes, spec.memory_bytes * 9 / 10);
    }
  }
}

}  // namespace
}  // namespace gpemu::profile
