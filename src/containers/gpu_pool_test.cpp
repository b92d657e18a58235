// SPDX-License-Identifier: Apache-2.0
#include "gpemu/containers/gpu_pool.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/profile/gpu_spec.hpp"

namespace gpemu::containers {
namespace {

class GpuPoolTest : public testing::Test {
 protected:
  GpuPoolTest() {
    std::filesystem::create_directories(installation() / "lib/gpemu/shims/bin");
    write_file_atomically(installation() / "lib/gpemu/shims/libgpemu_audit.so", "").value();
  }

  [[nodiscard]] std::filesystem::path installation() const { return folder_.path() / "gpemu"; }
  [[nodiscard]] std::filesystem::path state() const { return folder_.path() / "state"; }

  [[nodiscard]] GpuPoolOptions options(int gpus, int replicas = 1,
                                       Division division = Division::kNone) const {
    GpuPoolOptions made{.machine = "n1",
                        .gpus = {},
                        .faults = {},
                        .slices = {},
                        .folder = state(),
                        .installation = installation(),
                        .replicas = replicas,
                        .division = division};
    made.gpus.resize(static_cast<std::size_t>(gpus), {.gpu = "TEST-GPU", .memory_bytes = kGiB});
    return made;
  }
  [[nodiscard]] GpuPool pool(int gpus, int replicas = 1,
                             Division division = Division::kNone) const {
    return GpuPool::create(options(gpus, replicas, division)).value();
  }
  static std::vector<std::string> ids(const GpuPool& pool, std::vector<std::size_t> numbers) {
    std::vector<std::string> chosen;
    for (const std::size_t number : numbers) chosen.push_back(pool.devices().at(number).id);
    return chosen;
  }
  static std::optional<std::string> variable(const ContainerEdits& edits, std::string_view name) {
    for (const auto& [its, value] : edits.environment) {
      if (its == name) return value;
    }
    return std::nullopt;
  }
  static std::filesystem::path node_of(const ContainerEdits& edits) {
    const auto found = std::ranges::find(edits.mounts, kNodeFolder, &Mount::container);
    return found->host;
  }

  TemporaryFolder folder_ =
      TemporaryFolder::create(testing::TempDir(), "gpemu-containers-").value();
};

TEST_F(GpuPoolTest, ContainersHaveTheFaultsOfTheirGpus) {
  GpuPoolOptions faulty = options(4);
  faulty.faults =
      "[[fault]]\nkind = \"lost\"\ngpu = 3\nat_s = 0\n"
      "[[fault]]\nkind = \"lost\"\ngpu = 2\nat_s = 0\nfor_s = 0\n"
      "[[fault]]\nkind = \"broken-link\"\nlink = \"nvlink\"\ngpu = 0\nat_s = 0\n"
      "[[fault]]\nkind = \"slow\"\ngpu = 1\nat_s = 0\nclock = 0.5\n"
      "[[fault]]\nkind = \"lost\"\ngpu = 1\nat_s = 1000000\n";
  GpuPool four = GpuPool::create(faulty).value();
  EXPECT_FALSE(four.is_healthy(3));
  EXPECT_TRUE(four.is_healthy(2)) << "it is back";
  EXPECT_TRUE(four.is_healthy(1)) << "slow, but there";
  EXPECT_FALSE(four.is_healthy(0));
  const auto node =
      device::Node::open(kNodeName, node_of(four.allocate(ids(four, {1, 3})).value())).value();
  const TimePoint now = node->clock().now();
  EXPECT_EQ(node->faults().health(0, now).clock, 0.5);
  EXPECT_FALSE(node->faults().health(0, now).lost);
  EXPECT_TRUE(node->faults().health(1, now).lost);
}

TEST_F(GpuPoolTest, AFaultByCountMakesAGpuUnhealthyOnceAContainerHasCounted) {
  GpuPoolOptions faulty = options(2);
  faulty.faults = "[[fault]]\nkind = \"lost\"\ngpu = 1\nat_collective = 2\n";
  GpuPool two = GpuPool::create(faulty).value();
  const std::filesystem::path folder = node_of(two.allocate(ids(two, {1})).value());
  const auto node = device::Node::open(kNodeName, folder).value();
  EXPECT_FALSE(node->faults().count_collective(0, node->clock().now())) << "nobody is killed";
  EXPECT_TRUE(two.is_healthy(1));
  EXPECT_FALSE(node->faults().count_collective(0, node->clock().now())) << "nobody is killed";
  EXPECT_FALSE(two.is_healthy(1));
  EXPECT_TRUE(two.is_healthy(0));
  // A container that writes garbage does not take GPUs from others that way.
  write_file_atomically(folder / kNodeName, "garbage").value();
  EXPECT_TRUE(two.is_healthy(0));
}

TEST_F(GpuPoolTest, WatchersFindTheMachine) {
  const GpuPool three = pool(3);
  const auto machine = device::NodeView::open("gpus", GpuPool::machine_folder(state())).value();
  ASSERT_EQ(machine->device_count(), 3);
  EXPECT_EQ(machine->device_snapshot(2, TimePoint{})->uuid, three.devices()[2].id);
}

TEST_F(GpuPoolTest, AContainerSeesItsGpusAloneAsTheMachineHasThem) {
  GpuPool four = pool(4);
  ASSERT_EQ(four.devices().size(), 4U);
  const ContainerEdits edits = four.allocate(ids(four, {3, 1})).value();
  const auto node = device::Node::open(kNodeName, node_of(edits)).value();
  ASSERT_EQ(node->device_count(), 2);
  const device::DeviceSnapshot first = node->device_snapshot(0, TimePoint{});
  EXPECT_EQ(first.uuid, four.devices()[1].id);
  EXPECT_EQ(first.pci_bus_id, "00000000:02:00.0");
  EXPECT_EQ(node->device_snapshot(1, TimePoint{}).uuid, four.devices()[3].id);
  EXPECT_EQ(variable(edits, "NVIDIA_VISIBLE_DEVICES"),
            four.devices()[1].id + "," + four.devices()[3].id);
  EXPECT_EQ(variable(edits, "GPEMU_NODE"), fmt::format("{}/gpus", ::geteuid()));
  EXPECT_EQ(variable(edits, "GPEMU_NODE_DIR"), kNodeFolder);
  EXPECT_EQ(variable(edits, "LD_AUDIT"), "/opt/gpemu/lib/gpemu/shims/libgpemu_audit.so");
  EXPECT_EQ(variable(edits, "GPEMU_RECORD_DIR"), std::nullopt);
  const auto writable = std::ranges::count(edits.mounts, false, &Mount::read_only);
  EXPECT_EQ(writable, 1) << "its own node alone";
  const auto smi = std::ranges::find(edits.mounts, "/usr/bin/nvidia-smi", &Mount::container);
  EXPECT_EQ(read_file(smi->host, kKiB).value(),
            "#!/bin/sh\nexec /opt/gpemu/bin/gpemu nvidia-smi \"$@\"\n");
}

TEST_F(GpuPoolTest, NamesAreTheSameAfterARestart) {
  EXPECT_EQ(pool(2).devices()[1].id, pool(4).devices()[1].id);
  GpuPool before = pool(2);
  const auto kept = before.allocate(ids(before, {0})).value();
  GpuPool after = pool(2);
  EXPECT_TRUE(device::Node::open(kNodeName, node_of(kept))) << "a container still uses it";
  const auto other = after.allocate(ids(after, {1})).value();
  EXPECT_TRUE(device::Node::open(kNodeName, node_of(kept)));
  // The kubelet gives a GPU away again when its container has ended.
  const auto again = after.allocate(ids(after, {0, 1})).value();
  EXPECT_FALSE(device::Node::open(kNodeName, node_of(kept)));
  EXPECT_FALSE(device::Node::open(kNodeName, node_of(other)));
  EXPECT_TRUE(device::Node::open(kNodeName, node_of(again)));
}

TEST_F(GpuPoolTest, ReplicasShareANodeAndMayBeParts) {
  GpuPool turns = pool(2, 4);
  ASSERT_EQ(turns.devices().size(), 8U);
  EXPECT_TRUE(turns.devices()[5].id.ends_with("::1"));
  EXPECT_EQ(turns.devices()[5].gpu, 1U);
  const auto one = turns.allocate(ids(turns, {0})).value();
  const auto other = turns.allocate(ids(turns, {1})).value();
  EXPECT_EQ(node_of(one), node_of(other));
  EXPECT_EQ(variable(one, "GPEMU_GPU_SHARE"), std::nullopt);
  EXPECT_EQ(variable(one, "GPEMU_TENANT"), "1");
  EXPECT_EQ(variable(other, "GPEMU_TENANT"), "2");

  GpuPool shares = pool(2, 4, Division::kShare);
  const auto three = shares.allocate(ids(shares, {4, 5, 6})).value();
  EXPECT_EQ(variable(three, "GPEMU_GPU_SHARE"), "0.75");
  EXPECT_EQ(variable(three, "GPEMU_TENANT"), "1");
  EXPECT_EQ(variable(three, "GPEMU_GPU_FRACTION"), "0.75");
  GpuPool limits = pool(2, 3, Division::kLimit);
  EXPECT_EQ(variable(limits.allocate(ids(limits, {0})).value(), "GPEMU_GPU_LIMIT"), "0.333333");
  EXPECT_EQ(variable(limits.allocate(ids(limits, {0, 1, 2})).value(), "GPEMU_GPU_LIMIT"),
            std::nullopt)
      << "the whole GPU";
}

TEST_F(GpuPoolTest, ASharedNodeOfAnEarlierPoolCountsOnlyIfItsGpuIsTheSame) {
  GpuPool before = pool(1, 2);
  const auto node = node_of(before.allocate(ids(before, {0})).value());
  const auto held = device::Node::open(kNodeName, node).value();
  GpuPool same = pool(1, 2);
  EXPECT_EQ(node_of(same.allocate(ids(same, {1})).value()), node);
  EXPECT_EQ(device::Node::open(kNodeName, node).value()->device_snapshot(0, TimePoint{}).gpu,
            "TEST-GPU");
  GpuPoolOptions changed = options(1, 2);
  changed.gpus[0].gpu = "OTHER-GPU";
  GpuPool other = GpuPool::create(changed).value();
  ASSERT_TRUE(other.allocate(ids(other, {0})));
  EXPECT_EQ(device::Node::open(kNodeName, node).value()->device_snapshot(0, TimePoint{}).gpu,
            "OTHER-GPU");
  write_file_atomically(node / kNodeName, "garbage").value();
  ASSERT_TRUE(other.allocate(ids(other, {0}))) << "a damaged one is made anew";
  EXPECT_TRUE(device::Node::open(kNodeName, node));
}

TEST_F(GpuPoolTest, AHolderKeepsItsNodeUntilItIsTakenBack) {
  GpuPool four = pool(4);
  const std::vector<GpuPart> two = {{.gpu = 3}, {.gpu = 1}};
  const auto first = node_of(four.give("claim", two).value());
  const auto held = device::Node::open(kNodeName, first).value();
  EXPECT_EQ(held->device_snapshot(0, TimePoint{}).uuid, four.devices()[1].id);
  EXPECT_EQ(held->device_snapshot(1, TimePoint{}).uuid, four.devices()[3].id);
  write_file_atomically(first / "mark", "").value();
  GpuPool anew = pool(4);
  const auto again = anew.give("claim", two).value();
  EXPECT_EQ(node_of(again), first);
  EXPECT_TRUE(std::filesystem::exists(first / "mark")) << "it was made anew";
  const auto part = node_of(anew.give("claim.r1", std::vector<GpuPart>{{.gpu = 0}}).value());
  const auto other = node_of(anew.give("claim2", std::vector<GpuPart>{{.gpu = 2}}).value());
  anew.take_back("claim").value();
  EXPECT_FALSE(device::Node::open(kNodeName, first));
  EXPECT_FALSE(device::Node::open(kNodeName, part));
  EXPECT_TRUE(device::Node::open(kNodeName, other));
  anew.take_back("claim").value();
}

TEST_F(GpuPoolTest, HoldersOfPartsShareTheirGpusNode) {
  GpuPool two = pool(2);
  const auto give = [&](const std::string& holder, std::vector<GpuPart> parts,
                        Division division = Division::kLimit) {
    return two.give(holder, parts, division);
  };
  const auto one = give("a", {{.gpu = 1, .memory = 0.25, .compute = 0.5}}).value();
  const auto other = give("b", {{.gpu = 1, .memory = 0.5, .compute = 0}}).value();
  EXPECT_EQ(node_of(one), node_of(other));
  EXPECT_EQ(variable(one, "GPEMU_GPU_FRACTION"), "0.25");
  EXPECT_EQ(variable(one, "GPEMU_GPU_LIMIT"), "0.5");
  EXPECT_EQ(variable(one, "GPEMU_TENANT"), "1");
  EXPECT_EQ(variable(other, "GPEMU_TENANT"), "2");
  EXPECT_EQ(variable(other, "GPEMU_GPU_FRACTION"), "0.5");
  EXPECT_EQ(variable(other, "GPEMU_GPU_LIMIT"), std::nullopt);
  const auto sum = give("c",
                        {{.gpu = 1, .memory = 0.25, .compute = 0.25},
                         {.gpu = 1, .memory = 0.5, .compute = 0.25}},
                        Division::kShare)
                       .value();
  EXPECT_EQ(variable(sum, "GPEMU_GPU_FRACTION"), "0.75");
  EXPECT_EQ(variable(sum, "GPEMU_GPU_SHARE"), "0.5");
  const auto again = pool(2).give("b", std::vector<GpuPart>{{.gpu = 1, .memory = 0.5}}).value();
  EXPECT_EQ(variable(again, "GPEMU_TENANT"), "2") << "the same after a restart";
  two.take_back("a").value();
  const auto next = give("e", {{.gpu = 1, .memory = 0.25}}).value();
  EXPECT_EQ(variable(next, "GPEMU_TENANT"), "1");
  EXPECT_TRUE(device::Node::open(kNodeName, node_of(other))) << "others still use it";

  EXPECT_EQ(give("d", {}).error().message, "d asks for no GPU");
  EXPECT_EQ(give("d", {{.gpu = 2}}).error().message, "the machine 'n1' has no GPU 2");
  EXPECT_NE(give("d", {{.gpu = 0, .memory = 0.5}, {.gpu = 1, .memory = 0.5}})
                .error()
                .message.find("parts of 2 GPUs"),
            std::string::npos);
  EXPECT_EQ(give("d", {{.gpu = 0, .memory = 1.5, .compute = 1}}).error().message,
            "d asks for 1.5 of the memory and 1 of the time of GPU 0");
}

TEST_F(GpuPoolTest, PrefersReplicasOfOneGpuAndTheFullestThatFits) {
  const GpuPool two = pool(2, 4);
  const auto available = ids(two, {0, 1, 2, 5, 6, 7});
  EXPECT_EQ(two.prefer(available, {}, 2), ids(two, {0, 1})) << "equally full: the first";
  EXPECT_EQ(two.prefer(ids(two, {0, 1, 2, 6, 7}), {}, 2), ids(two, {6, 7}));
  EXPECT_EQ(two.prefer(available, ids(two, {7}), 2), ids(two, {7, 5}));
  EXPECT_EQ(two.prefer(ids(two, {3, 4}), {}, 2), ids(two, {3, 4})) << "no GPU has two";
  const GpuPool whole = pool(4);
  EXPECT_EQ(whole.prefer(ids(whole, {3, 1, 2}), {}, 2), ids(whole, {1, 2}));
}

TEST_F(GpuPoolTest, PrefersGpusThatAreJoinedBest) {
  GpuPoolOptions of_dgx = options(8);
  of_dgx.topology = profile::find_topology(GPEMU_TOPOLOGIES_FOLDER, "dgx-1v").value();
  const auto file = std::filesystem::path(GPEMU_GPUS_FOLDER) / (of_dgx.topology->gpu + ".toml");
  of_dgx.gpus.assign(8, device::device_config(profile::load_gpu_spec(file).value()));
  GpuPool dgx = GpuPool::create(of_dgx).value();
  // Two NVLinks join 0 with 3 and 4, 1 with 2 and 5, 2 with 3, 4 with 7.
  const auto all = ids(dgx, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(dgx.prefer(all, ids(dgx, {4}), 2), ids(dgx, {4, 7}));
  EXPECT_EQ(dgx.prefer(ids(dgx, {0, 1, 2, 6}), {}, 2), ids(dgx, {1, 2}));
  EXPECT_EQ(dgx.prefer(ids(dgx, {3, 5, 6, 7}), {}, 3), ids(dgx, {5, 6, 7}));
  EXPECT_EQ(dgx.prefer(all, {}, 4), ids(dgx, {0, 1, 2, 3}));
  EXPECT_EQ(dgx.prefer(all, {}, 8), all);
  EXPECT_EQ(dgx.prefer(all, {}, 9), all);

  const auto edits = dgx.allocate(ids(dgx, {7, 4})).value();
  const auto node = device::Node::open(kNodeName, node_of(edits)).value();
  ASSERT_NE(node->topology(), nullptr);
  ASSERT_EQ(node->topology()->bonds.size(), 1U);
  EXPECT_EQ(node->topology()->bonds[0].links, 2);
}

TEST_F(GpuPoolTest, NamesWhatCannotBe) {
  GpuPool shared = pool(2, 2);
  const auto fault = [&](const std::vector<std::string>& wanted) {
    return shared.allocate(wanted).error().message;
  };
  EXPECT_EQ(fault({"GPU-x"}), "the machine 'n1' has no device GPU-x");
  EXPECT_EQ(fault({}), "a container asks for no device");
  EXPECT_NE(fault(ids(shared, {0, 2})).find("replicas of 2 GPUs"), std::string::npos);
  const auto create = [](GpuPoolOptions wrong) {
    return GpuPool::create(std::move(wrong)).error().message;
  };
  EXPECT_EQ(create(options(0)), "a pool needs GPUs");
  EXPECT_EQ(create(options(1, 65)), "replicas: expected 1 to 64, not 65");
  EXPECT_EQ(create(options(1, 1, Division::kLimit)),
            "only GPUs with several replicas can be divided");
  GpuPoolOptions nowhere = options(1);
  nowhere.installation = folder_.path() / "nothing";
  EXPECT_NE(create(nowhere).find("has no lib/gpemu/shims/libgpemu_audit.so"), std::string::npos);
  std::filesystem::create_directories(installation() / "bin");
  write_file_atomically(installation() / "bin/sh", "").value();
  EXPECT_NE(create(options(1)).find("holds other programs, too"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::containers
