// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/host_spec.hpp"

#include <string>

#include <gtest/gtest.h>

namespace gpemu::profile {
namespace {

const std::string kToyHost = R"(name = "toy"
title = "A toy"

[cpu]
model = "A processor"
cores = 4
threads = 8
speed_by_busy = [[1, 1.0], [4, 0.5]]
source = "made up"

[memory]
gib = 2
source = "made up"

[[loader]]
name = "slow"
image_ms = 4
batch_ms = 40
start_ms = 15
source = "made up"

[[loader]]
name = "fast"
image_ms = 1.5
source = "made up"

[[storage]]
name = "hdd"
access_ms = 4
access_depth = 2
access_by_depth = [[1, 1], [2, 0.5]]
mb_per_s = 100
source = "made up"

[[storage]]
device = "chameleon-nfs"

[network]
mb_per_s = 1250
request_ms = 0.1
source = "made up"

[sources]
"made up" = "Nobody measured it"
)";

/// Returns the message about the host with `old` replaced by `changed`.
std::string host_fault(const std::string& old, const std::string& changed) {
  std::string text = kToyHost;
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  text.replace(at, old.size(), changed);
  const auto spec = parse_host_spec(text, "toy.toml", GPEMU_STORAGE_FOLDER);
  if (spec) return "no fault";
  EXPECT_EQ(spec.error().code, ErrorCode::kCorruptData);
  return spec.error().message;
}

TEST(ParseHostSpec, ReadsEachTable) {
  const HostSpec spec = parse_host_spec(kToyHost, "toy.toml", GPEMU_STORAGE_FOLDER).value();
  EXPECT_EQ(spec.name, "toy");
  EXPECT_EQ(spec.cpu.cores, 4);
  EXPECT_EQ(spec.cpu.threads, 8);
  EXPECT_DOUBLE_EQ(spec.cpu.speed_by_busy.at(2.5), 0.75);
  EXPECT_EQ(spec.memory, 2 * kGiB);
  EXPECT_DOUBLE_EQ(spec.loader("").value().image_s, 0.004);
  EXPECT_DOUBLE_EQ(spec.loader("").value().batch_s, 0.04);
  EXPECT_DOUBLE_EQ(spec.loader("fast").value().image_s, 0.0015);
  EXPECT_DOUBLE_EQ(spec.loader("fast").value().start_s, 0);
  // 4 ms at a depth of 2, where an access takes half of its time alone.
  EXPECT_DOUBLE_EQ(spec.storage("hdd").value().access_s, 0.008);
  EXPECT_DOUBLE_EQ(spec.storage("").value().bytes_per_s, 1e8);
  EXPECT_FALSE(spec.storage("").value().shared);
  EXPECT_TRUE(spec.storage("chameleon-nfs").value().shared) << "the one of a file";
  EXPECT_DOUBLE_EQ(spec.network->bytes_per_s, 1.25e9);
  EXPECT_EQ(spec.sources.at("storage hdd"), "Nobody measured it");
}

TEST(ParseHostSpec, NamesTheLineAndTheKey) {
  EXPECT_EQ(host_fault("cores = 4", "cores = 4.5"),
            "toy.toml:6: cpu: cores: expected a whole number");
  EXPECT_EQ(host_fault("cores = 4", "cores = 0"),
            "toy.toml:6: cpu: cores: expected a number from 1 to 4096");
  EXPECT_EQ(host_fault("threads = 8", "threads = 2"),
            "toy.toml:7: cpu: threads: expected a number from 4 to 4096");
  EXPECT_EQ(host_fault("image_ms = 4", "image_ms = nan"),
            "toy.toml:17: loader slow: image_ms: expected a number from 0 to 1000000");
  EXPECT_EQ(host_fault("image_ms = 4\n", ""), "toy.toml:15: loader slow: image_ms: missing");
  EXPECT_EQ(host_fault("gib = 2", "gigs = 2"), "toy.toml:12: memory: unknown key 'gigs'");
  EXPECT_EQ(host_fault("gib = 2", "gib = 2\nspeed = 1"),
            "toy.toml:13: memory: unknown key 'speed'");
  EXPECT_EQ(host_fault("name = \"fast\"", "name = \"slow\""),
            "toy.toml:22: loader slow: there is another one of this name");
  EXPECT_EQ(host_fault("[[storage]]\nname", "[[disk]]\nname"),
            "toy.toml:27: the file: unknown key 'disk'");
  EXPECT_EQ(host_fault("title = \"A toy\"", "title = 1"),
            "toy.toml:2: title: expected a non-empty string");
  EXPECT_EQ(host_fault("[network]\n", "[network]\nlatency = 1\n"),
            "toy.toml:39: network: unknown key 'latency'");
  EXPECT_EQ(host_fault("device = \"chameleon-nfs\"", "device = \"chameleon-nfs\"\nmb_per_s = 1"),
            "toy.toml:37: storage: unknown key 'mb_per_s'");
  EXPECT_TRUE(host_fault("device = \"chameleon-nfs\"", "device = \"none\"")
                  .starts_with("toy.toml:35: storage: there is no storage \"none\""));
}

TEST(ParseHostSpec, CurvesFallFromOne) {
  const std::string wanted =
      "speed_by_busy: expected [count, share] pairs: [1, 1] first, then greater counts, and shares "
      "from 0.0001 to 1";
  for (const char* curve :
       {"[]", "1", "[[1, 0.5]]", "[[2, 1]]", "[[1, 1], [1, 0.5]]", "[[1, 1, 1]]",
        "[[1, 1], [2, 0]]", "[[1, 1], [2, 2]]", "[[1, 1], [2, nan]]"}) {
    EXPECT_EQ(host_fault("[[1, 1.0], [4, 0.5]]", curve), "toy.toml:8: cpu: " + wanted) << curve;
  }
}

TEST(HostSpec, NamesWhatItHas) {
  const HostSpec spec = parse_host_spec(kToyHost, "toy.toml", GPEMU_STORAGE_FOLDER).value();
  EXPECT_EQ(spec.loader("dali").error().message,
            "the host toy has no loader 'dali'; it has: slow, fast");
  EXPECT_EQ(spec.storage("ssd").error().message,
            "the host toy has no storage 'ssd'; it has: hdd, chameleon-nfs");
}

TEST(HostFiles, AreValidAndNamedAsTheirFiles) {
  const std::vector<std::string> names = host_names(GPEMU_HOSTS_FOLDER);
  EXPECT_GE(names.size(), 5U);
  for (const std::string& name : names) {
    const auto spec = find_host({GPEMU_HOSTS_FOLDER, GPEMU_STORAGE_FOLDER}, name);
    ASSERT_TRUE(spec) << spec.error().message;
    EXPECT_EQ(spec->name, name);
  }
}

TEST(FindHost, SuggestsSimilarNames) {
  const auto found = find_host({GPEMU_HOSTS_FOLDER, GPEMU_STORAGE_FOLDER}, "dgx1");
  ASSERT_FALSE(found);
  EXPECT_TRUE(found.error().message.starts_with(
      "there is no host \"dgx1\" (did you mean dgx-1?); there are: chameleon-ffcv, "))
      << found.error().message;
}

}  // namespace
}  // namespace gpemu::profile
