// SPDX-License-Identifier: Apache-2.0
#include "segment_file.hpp"

#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/device/node_files.hpp"

#include "layout.hpp"
#include "test_topology.hpp"

namespace gpemu::device {
namespace {

NodeConfig two_devices() {
  NodeConfig config{.name = "n", .devices = {}};
  config.devices.push_back(
      {.gpu = "A", .memory_bytes = 5 * kMiB, .max_power_w = 250, .idle_power_w = 50});
  config.devices.push_back({.gpu = "B", .memory_bytes = kMiB});
  config.devices[0].facts.multiprocessors = 80;
  std::string("Tesla A").copy(config.devices[0].facts.product_name, 90);
  return config;
}

const NodePath kPath{.name = "n", .folder = "/folder", .file = "n", .owner = 0};

Result<NodeFacts> parse(const std::vector<std::byte>& bytes) {
  const auto* const header = reinterpret_cast<const layout::Header*>(bytes.data());
  return parse_static_part(bytes, header->segment_bytes, kPath);
}

// ---- The part that never changes

TEST(StaticPart, IsReadAsItWasWritten) {
  NodeConfig config = two_devices();
  config.policy = SharingPolicy::kTimeSlices;
  const NodeFacts facts = parse(static_part(config)).value();
  EXPECT_EQ(facts.policy, SharingPolicy::kTimeSlices);
  EXPECT_FALSE(facts.temporary);
  ASSERT_EQ(facts.devices.size(), 2U);
  EXPECT_EQ(facts.devices[0].gpu, "A");
  EXPECT_EQ(facts.devices[0].memory_bytes, 5 * kMiB);
  EXPECT_EQ(facts.devices[0].max_power_w, 250);
  EXPECT_EQ(facts.devices[0].idle_power_w, 50);
  EXPECT_EQ(facts.devices[0].facts.multiprocessors, 80);
  EXPECT_STREQ(facts.devices[0].facts.product_name, "Tesla A");
  EXPECT_EQ(facts.devices[1].gpu, "B");
  EXPECT_NE(facts.devices[0].uuid, facts.devices[1].uuid);
  EXPECT_EQ(facts.devices[1].pci_bus_id, "00000000:02:00.0");
}

TEST(StaticPart, AFlippedBitIsDamage) {
  const std::vector<std::byte> bytes = static_part(two_devices());
  for (std::size_t i = offsetof(layout::Header, policy); i < bytes.size(); ++i) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    const auto facts = parse(damaged);
    ASSERT_FALSE(facts) << "byte " << i;
    EXPECT_EQ(facts.error().code, ErrorCode::kCorruptData) << "byte " << i;
  }
}

TEST(StaticPart, APolicyThatDoesNotExistIsDamageEvenWithAValidChecksum) {
  NodeConfig config = two_devices();
  config.policy = static_cast<SharingPolicy>(200);
  const auto facts = parse(static_part(config));
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, ErrorCode::kCorruptData);
  EXPECT_TRUE(facts.error().message.starts_with(
      "the node 'n' is damaged: there is no sharing policy 200; remove it with `"))
      << facts.error().message;
}

NodeConfig joined_devices() {
  NodeConfig config = two_devices();
  config.devices[1] = config.devices[0];
  config.topology = kPairOfA;
  for (DeviceConfig& device : config.devices) device.facts.nvlink_links = 2;
  return config;
}

TEST(StaticPart, HasTheTopology) {
  EXPECT_FALSE(parse(static_part(two_devices())).value().topology);
  const NodeFacts facts = parse(static_part(joined_devices())).value();
  ASSERT_TRUE(facts.topology);
  EXPECT_EQ(facts.topology->toml, kPairOfA);
  EXPECT_EQ(facts.topology->title, "A pair");
  ASSERT_EQ(facts.topology->bonds.size(), 1U);
  EXPECT_EQ(facts.topology->bonds[0].links, 2);
  EXPECT_GT(facts.offsets().engines, layout::Offsets(2).engines);
  EXPECT_EQ(facts.offsets().engines % alignof(layout::EngineRecord), 0U);
}

TEST(StaticPart, AFlippedBitOfTheTopologyIsDamage) {
  const std::vector<std::byte> bytes = static_part(joined_devices());
  for (std::size_t i = layout::Offsets(2).topology; i < bytes.size(); i += 7) {
    std::vector<std::byte> damaged = bytes;
    damaged[i] ^= std::byte{0x10};
    EXPECT_FALSE(parse(damaged)) << "byte " << i;
  }
}

TEST(StaticPart, ATopologyThatDoesNotFitIsDamageEvenWithAValidChecksum) {
  const std::pair<std::function<void(NodeConfig&)>, std::string> damages[] = {
      {[](NodeConfig& config) { config.topology = "name = 1"; }, "its topology:1"},
      {[](NodeConfig& config) { config.devices.pop_back(); }, "has 2 GPUs, but the node 1"},
      {[](NodeConfig& config) { config.devices[1].gpu = "B"; },
       "device 1 of the node is of the kind B"},
      {[](NodeConfig& config) { config.devices[1].facts.nvlink_links = 1; },
       "gives GPU 1 2 NVLinks, but a A has 1"}};
  for (const auto& [damage, message] : damages) {
    NodeConfig config = joined_devices();
    damage(config);
    const auto facts = parse(static_part(config));
    ASSERT_FALSE(facts) << message;
    EXPECT_EQ(facts.error().code, ErrorCode::kCorruptData);
    EXPECT_TRUE(facts.error().message.contains(message)) << facts.error().message;
  }
}

TEST(StaticPart, TextOfATopologyIsPrintable) {
  NodeConfig config = joined_devices();
  config.topology.replace(config.topology.find("A pair"), 6, "\\u001b[31m");
  EXPECT_FALSE(parse(static_part(config)).value().topology->title.contains('\x1b'));
}

TEST(StaticPart, ASizeThatDisagreesWithTheFilesIsDamage) {
  const std::vector<std::byte> bytes = static_part(two_devices());
  const std::uint64_t size = layout::Offsets(2).end;
  EXPECT_TRUE(parse_static_part(bytes, size, kPath));
  for (const std::uint64_t other : {size - 1, size + 1, std::uint64_t{0}}) {
    EXPECT_EQ(parse_static_part(bytes, other, kPath).error().code, ErrorCode::kCorruptData);
  }
}

TEST(StaticPart, ImpossibleFactsAreDamageEvenWithAValidChecksum) {
  using Damage = std::function<void(DeviceConfig&)>;
  const std::vector<Damage> damages = {
      [](DeviceConfig& device) { device.gpu = ""; },
      [](DeviceConfig& device) { device.gpu = "/dev/pts/0"; },
      [](DeviceConfig& device) { device.memory_bytes = 0; },
      [](DeviceConfig& device) { device.memory_bytes = ~Bytes{0}; },
      [](DeviceConfig& device) { device.max_power_w = std::nan(""); },
      [](DeviceConfig& device) { device.idle_power_w = -1; },
      [](DeviceConfig& device) { device.facts.boost_clock_mhz = HUGE_VAL; },
      [](DeviceConfig& device) { device.facts.nvlink_gpus = -1; }};
  for (std::size_t i = 0; i < damages.size(); ++i) {
    NodeConfig config = two_devices();
    damages[i](config.devices[1]);
    const auto facts = parse(static_part(config));
    ASSERT_FALSE(facts) << i;
    EXPECT_EQ(facts.error().code, ErrorCode::kCorruptData);
    EXPECT_TRUE(facts.error().message.contains("device 1")) << facts.error().message;
  }
}

TEST(StaticPart, TextIsCutToItsFieldAndPrintable) {
  NodeConfig config = two_devices();
  config.devices[0].gpu = "\x1b" + std::string(1000, 'x');
  const std::string gpu = parse(static_part(config)).value().devices[0].gpu;
  EXPECT_EQ(gpu.find('\x1b'), std::string::npos);
  EXPECT_TRUE(gpu.ends_with("xxx"));
  EXPECT_LT(gpu.size(), 2 * layout::kNameBytes);
}

// ---- Names

TEST(ResolveNode, NamesAFileInTheFolder) {
  const NodePath path = resolve("n1.x_y-z", "/folder").value();
  EXPECT_EQ(path.path(), "/folder/n1.x_y-z");
  EXPECT_EQ(path.name, "n1.x_y-z");
  EXPECT_EQ(path.owner, ::geteuid());
  for (const char* const text : {"", ".", "..", "a/b/c", "a/", ".hidden", "a b", "a\nb"}) {
    EXPECT_FALSE(resolve(text, "/folder")) << text;
  }
  EXPECT_TRUE(resolve(std::string(layout::kNameBytes - 1, 'x'), "/folder"));
  EXPECT_FALSE(resolve(std::string(layout::kNameBytes, 'x'), "/folder"));
}

TEST(ResolveNode, AUserBeforeTheNameOwnsTheNode) {
  const NodePath other = resolve("4000001/n1", "/folder").value();
  EXPECT_EQ(other.owner, 4'000'001U);
  EXPECT_EQ(other.name, "4000001/n1");
  EXPECT_EQ(other.path(), "/folder/n1") << "only the folders of users are by user";
  const NodePath own = resolve(fmt::format("{}/n1", ::geteuid()), "/folder").value();
  EXPECT_EQ(own.name, "n1");
  const NodePath theirs = resolve("4000001/n1", user_folder(::geteuid())).value();
  EXPECT_EQ(theirs.folder, user_folder(4'000'001));
  EXPECT_EQ(resolve("no-such-user/n1", "/folder").error().code, ErrorCode::kNotFound);
}

TEST(RemoveCommand, IsWhatAShellUnderstands) {
  const auto command = [](std::string name) {
    return remove_command({.name = std::move(name), .folder = {}, .file = {}});
  };
  EXPECT_EQ(command("n1"), "gpemu node remove n1");
  EXPECT_EQ(command("-f"), "gpemu node remove -- -f");
  EXPECT_EQ(command("a b"), "gpemu node remove 'a b'");
  EXPECT_EQ(remove_command({.name = "n1", .folder = {}, .file = {}}, true),
            "gpemu node remove --force n1");
}

TEST(IsGpuName, IsNoPath) {
  EXPECT_TRUE(is_gpu_name("V100-PCIE-32GB"));
  for (const char* const text : {"", "/dev/null", "a/b", "V100.toml"}) {
    EXPECT_FALSE(is_gpu_name(text)) << text;
  }
}

// ---- Files

class SegmentFileTest : public testing::Test {
 protected:
  SegmentFileTest() {
    std::filesystem::remove_all(folder_);
    EXPECT_TRUE(make_folder(folder_));
  }
  ~SegmentFileTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] NodePath path(const std::string& file) const {
    return {.name = file, .folder = folder_, .file = file, .owner = ::geteuid()};
  }
  /// Writes a segment that no process uses. Its version is another one if given.
  void write(const std::string& file, bool temporary, std::uint32_t version = layout::kVersion) {
    NodeConfig config = two_devices();
    config.temporary = temporary;
    std::vector<std::byte> bytes = static_part(config);
    reinterpret_cast<layout::Header*>(bytes.data())->version = version;
    std::ofstream out(folder_ / file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    std::filesystem::resize_file(folder_ / file, layout::Offsets(2).end);
  }
  [[nodiscard]] bool exists(const char* file) const {
    return std::filesystem::exists(folder_ / file);
  }
  [[nodiscard]] ErrorCode opening(const char* file) const {
    return open_segment(path(file), O_RDONLY).error().code;
  }

  const std::filesystem::path folder_ = std::filesystem::path(testing::TempDir()) /
                                        fmt::format("gpemu_segment_file_test_{}", ::getpid());
};

TEST_F(SegmentFileTest, OthersMayPassThroughTheFolderButNotListIt) {
  EXPECT_EQ(std::filesystem::status(folder_).permissions(), std::filesystem::perms(0711));
  EXPECT_TRUE(make_folder(folder_)) << "it may exist";
  std::ofstream(folder_ / "file") << "x";
  EXPECT_EQ(make_folder(folder_ / "file" / "below").error().code, ErrorCode::kIo);
}

TEST_F(SegmentFileTest, OpensRegularFilesOnly) {
  write("n1", false);
  EXPECT_TRUE(open_segment(path("n1"), O_RDWR));
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  ASSERT_EQ(::symlink("n1", (folder_ / "link").c_str()), 0);
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_EQ(opening("none"), ErrorCode::kNotFound);
  EXPECT_EQ(opening("pipe"), ErrorCode::kIncompatible);
  EXPECT_EQ(opening("link"), ErrorCode::kIncompatible);
  EXPECT_EQ(opening("folder"), ErrorCode::kIncompatible);
}

TEST_F(SegmentFileTest, ReadsTheFactsOfItsOwnVersionAndThePrefixOfAny) {
  write("n1", true);
  write("old", true, layout::kVersion - 1);
  const FileDescriptor file = open_segment(path("n1"), O_RDONLY).value();
  EXPECT_EQ(read_facts(file, path("n1")).value().devices.size(), 2U);
  const FileDescriptor old = open_segment(path("old"), O_RDONLY).value();
  EXPECT_EQ(read_facts(old, path("old")).error().code, ErrorCode::kIncompatible);
  const SegmentPrefix prefix = read_prefix(old, path("old")).value();
  EXPECT_EQ(prefix.version, layout::kVersion - 1);
  EXPECT_TRUE(prefix.temporary);
}

TEST_F(SegmentFileTest, ReadsNoBytesThatAreNotThere) {
  write("n1", false);
  const FileDescriptor file = open_segment(path("n1"), O_RDONLY).value();
  std::uint64_t value = 0;
  const std::uint64_t end = layout::Offsets(2).end;
  EXPECT_TRUE(read_exactly(file, path("n1"), &value, sizeof value, end - sizeof value));
  EXPECT_EQ(read_exactly(file, path("n1"), &value, sizeof value, end - 1).error().code,
            ErrorCode::kCorruptData);
}

TEST_F(SegmentFileTest, DoesNotTakeAFailedReadForDamage) {
  write("n1", false);
  const FileDescriptor file = open_segment(path("n1"), O_WRONLY).value();
  std::uint64_t value = 0;
  EXPECT_EQ(read_exactly(file, path("n1"), &value, sizeof value, 0).error().code, ErrorCode::kIo);
  EXPECT_EQ(read_prefix(file, path("n1")).error().code, ErrorCode::kIo);
}

TEST_F(SegmentFileTest, SweepsTemporaryNodesThatNobodyUses) {
  write("run", true);
  write("used", true);
  write("kept", false);
  write("old-run", true, layout::kVersion - 1);
  std::ofstream(folder_ / "notes") << "not a segment";
  const FileDescriptor user = open_segment(path("used"), O_RDONLY).value();
  ASSERT_EQ(::flock(user.get(), LOCK_SH), 0);
  sweep(folder_);
  EXPECT_FALSE(exists("run"));
  EXPECT_FALSE(exists("old-run"));
  EXPECT_TRUE(exists("used") && exists("kept") && exists("notes"));
}

TEST_F(SegmentFileTest, AnUnusedNodeOfARunIsNotListed) {
  write("b", false);
  write("a", false);
  write("run", true);
  const std::vector<NodeEntry> nodes = list_nodes(folder_).value();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].name, "a");
  EXPECT_EQ(nodes[1].name, "b");
  EXPECT_TRUE(list_nodes(folder_ / "none").value().empty());
  EXPECT_EQ(list_nodes(folder_ / "a").error().code, ErrorCode::kIo);
}

TEST_F(SegmentFileTest, RemovesANodeInUseOnlyByForce) {
  write("n1", false);
  const FileDescriptor user = open_segment(path("n1"), O_RDONLY).value();
  ASSERT_EQ(::flock(user.get(), LOCK_SH), 0);
  EXPECT_EQ(remove_node("n1", false, folder_).error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(exists("n1"));
  EXPECT_TRUE(remove_node("n1", true, folder_));
  EXPECT_FALSE(exists("n1"));
  EXPECT_EQ(remove_node("n1", true, folder_).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace gpemu::device
