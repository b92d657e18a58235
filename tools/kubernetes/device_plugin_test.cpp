// SPDX-License-Identifier: Apache-2.0
//
// The device plugin beside a kubelet that is only its two sockets: what it registers, lists and
// gives, after each of them has been restarted, too.
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <device_plugin.grpc.pb.h>
#include <filesystem>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/containers/container_edits.hpp"
#include "gpemu/device/node.hpp"

#include "kubernetes/program_for_tests.hpp"

namespace gpemu {
namespace {

/// The kubelet's registration of plugins.
class Kubelet final : public v1beta1::Registration::Service {
 public:
  explicit Kubelet(const std::filesystem::path& folder) : folder_(folder) {
    // As a kubelet that starts does.
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      std::filesystem::remove(entry.path());
    }
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix://" + (folder / "kubelet.sock").string(),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Kubelet() override { server_->Shutdown(std::chrono::system_clock::now()); }
  Kubelet(const Kubelet&) = delete;
  Kubelet& operator=(const Kubelet&) = delete;

  grpc::Status Register(grpc::ServerContext* /*context*/, const v1beta1::RegisterRequest* request,
                        v1beta1::Empty* /*answer*/) override {
    const std::lock_guard lock(mutex_);
    request_ = *request;
    requests_[request->resource_name()] = *request;
    came_.notify_all();
    return grpc::Status::OK;
  }

  /// Waits for a plugin, for any resource or this one, and returns what calls it.
  std::unique_ptr<v1beta1::DevicePlugin::Stub> plugin(const std::string& resource = "") {
    std::unique_lock lock(mutex_);
    const auto has_come = [&] {
      return resource.empty() ? request_.has_value() : requests_.contains(resource);
    };
    if (!came_.wait_for(lock, kPatience, has_come)) return nullptr;
    const auto& request = resource.empty() ? *request_ : requests_.at(resource);
    return v1beta1::DevicePlugin::NewStub(grpc::CreateChannel(
        "unix://" + (folder_ / request.endpoint()).string(), grpc::InsecureChannelCredentials()));
  }
  [[nodiscard]] const v1beta1::RegisterRequest& request() const { return *request_; }

 private:
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::optional<v1beta1::RegisterRequest> request_;  ///< the last one.
  std::map<std::string, v1beta1::RegisterRequest> requests_;
  std::unique_ptr<grpc::Server> server_;
};

class DevicePluginTest : public testing::Test {
 protected:
  DevicePluginTest() {
    make_installation(folder_.path() / "gpemu");
    std::filesystem::create_directories(sockets());
  }

  [[nodiscard]] std::filesystem::path sockets() const { return folder_.path() / "sockets"; }

  void start(const std::vector<std::string>& options) {
    std::vector<std::string> words = {"device-plugin", "--machine",      "m",
                                      "--sockets",     sockets(),        "--state",
                                      state(),         "--installation", folder_.path() / "gpemu"};
    words.insert(words.end(), options.begin(), options.end());
    ASSERT_TRUE(program_.start(words));
  }
  [[nodiscard]] std::filesystem::path state() const { return folder_.path() / "state"; }

  static std::vector<std::string> healthy(const v1beta1::ListAndWatchResponse& list) {
    std::vector<std::string> ids;
    for (const auto& device : list.devices()) {
      if (device.health() == "Healthy") ids.push_back(device.id());
    }
    return ids;
  }
  static std::vector<std::string> list(v1beta1::DevicePlugin::Stub& plugin) {
    grpc::ClientContext context;
    const auto reader = plugin.ListAndWatch(&context, {});
    v1beta1::ListAndWatchResponse answer;
    const bool came = reader->Read(&answer);
    context.TryCancel();
    return came ? healthy(answer) : std::vector<std::string>();
  }
  static grpc::Status allocate(v1beta1::DevicePlugin::Stub& plugin,
                               const std::vector<std::string>& ids,
                               v1beta1::ContainerAllocateResponse& given) {
    v1beta1::AllocateRequest request;
    auto* const container = request.add_container_requests();
    for (const std::string& id : ids) container->add_device_ids(id);
    v1beta1::AllocateResponse response;
    grpc::ClientContext context;
    grpc::Status status = plugin.Allocate(&context, request, &response);
    if (status.ok()) given = response.container_responses(0);
    return status;
  }

  TemporaryFolder folder_ = TemporaryFolder::create(testing::TempDir(), "gpemu-plugin-").value();
  KubernetesProgram program_;
};

TEST_F(DevicePluginTest, SaysWhereGpusAreAndPrefersThoseThatAreJoined) {
  Kubelet kubelet(sockets());
  start({"--topology", "dgx-1v"});
  const auto plugin = kubelet.plugin();
  ASSERT_TRUE(plugin);
  grpc::ClientContext listing, asking;
  v1beta1::ListAndWatchResponse all;
  ASSERT_TRUE(plugin->ListAndWatch(&listing, {})->Read(&all));
  ASSERT_EQ(all.devices_size(), 8);
  for (int gpu = 0; gpu < 8; ++gpu) {
    ASSERT_EQ(all.devices(gpu).topology().nodes_size(), 1);
    EXPECT_EQ(all.devices(gpu).topology().nodes(0).id(), gpu < 4 ? 0 : 1);
  }
  v1beta1::PreferredAllocationRequest request;
  auto* const container = request.add_container_requests();
  container->set_allocation_size(2);
  container->add_must_include_device_ids(all.devices(1).id());
  for (const auto& device : all.devices()) container->add_available_device_ids(device.id());
  v1beta1::PreferredAllocationResponse response;
  ASSERT_TRUE(plugin->GetPreferredAllocation(&asking, request, &response).ok());
  const auto& chosen = response.container_responses(0);
  ASSERT_EQ(chosen.device_ids_size(), 2);
  EXPECT_EQ(chosen.device_ids(1), all.devices(2).id()) << "two NVLinks";
}

TEST_F(DevicePluginTest, OffersAndGivesItsGpus) {
  Kubelet kubelet(sockets());
  start({"--gpu", "A100-SXM4-40GB:4", "--resource", "nvidia.com/gpu"});
  const auto plugin = kubelet.plugin();
  ASSERT_TRUE(plugin);
  EXPECT_EQ(kubelet.request().resource_name(), "nvidia.com/gpu");
  EXPECT_EQ(kubelet.request().version(), "v1beta1");
  EXPECT_TRUE(kubelet.request().options().get_preferred_allocation_available());
  const std::vector<std::string> ids = list(*plugin);
  ASSERT_EQ(ids.size(), 4U);

  v1beta1::PreferredAllocationRequest wanted;
  auto* const two = wanted.add_container_requests();
  for (const std::string& id : {ids[3], ids[2]}) two->add_available_device_ids(id);
  two->set_allocation_size(1);
  v1beta1::PreferredAllocationResponse preferred;
  grpc::ClientContext context;
  ASSERT_TRUE(plugin->GetPreferredAllocation(&context, wanted, &preferred).ok());
  ASSERT_EQ(preferred.container_responses(0).device_ids_size(), 1);
  EXPECT_EQ(preferred.container_responses(0).device_ids(0), ids[2]);

  v1beta1::ContainerAllocateResponse given;
  ASSERT_TRUE(allocate(*plugin, {ids[2]}, given).ok());
  EXPECT_EQ(given.envs().at("NVIDIA_VISIBLE_DEVICES"), ids[2]);
  std::filesystem::path node;
  for (const auto& mount : given.mounts()) {
    if (mount.container_path() == containers::kNodeFolder) node = mount.host_path();
  }
  const auto opened = device::Node::open(containers::kNodeName, node);
  ASSERT_TRUE(opened);
  EXPECT_EQ((*opened)->device_snapshot(0, TimePoint{}).gpu, "A100-SXM4-40GB");
  const grpc::Status refused = allocate(*plugin, {"GPU-none"}, given);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(refused.error_message(), "the machine 'm' has no device GPU-none");
  EXPECT_EQ(program_.end(), 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(sockets()), {}), 1)
      << "its socket is gone";
}

TEST_F(DevicePluginTest, RegistersAgainWhenTheKubeletOrItselfHasRestarted) {
  auto kubelet = std::make_unique<Kubelet>(sockets());
  start({"--gpu", "A100-SXM4-40GB:2"});
  const std::vector<std::string> first = list(*kubelet->plugin());
  ASSERT_EQ(first.size(), 2U);
  for (int i = 0; i < 3; ++i) {
    kubelet.reset();
    kubelet = std::make_unique<Kubelet>(sockets());
    const auto plugin = kubelet->plugin();
    ASSERT_TRUE(plugin) << i;
    EXPECT_EQ(list(*plugin), first);
  }
  program_.end(SIGKILL);
  kubelet.reset();
  kubelet = std::make_unique<Kubelet>(sockets());
  start({"--gpu", "A100-SXM4-40GB:2"});
  const auto plugin = kubelet->plugin();
  ASSERT_TRUE(plugin);
  EXPECT_EQ(list(*plugin), first);
}

TEST_F(DevicePluginTest, ALostGpuIsUnhealthyUntilItIsBack) {
  write_file_atomically(folder_.path() / "faults.toml",
                        "[[fault]]\nkind = \"lost\"\ngpu = 1\nat_s = 1\nfor_s = 2\n")
      .value();
  Kubelet kubelet(sockets());
  start({"--gpu", "A100-SXM4-40GB:2", "--faults", (folder_.path() / "faults.toml").string()});
  const auto plugin = kubelet.plugin();
  ASSERT_TRUE(plugin);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto reader = plugin->ListAndWatch(&context, {});
  v1beta1::ListAndWatchResponse answer;
  std::vector<std::string> ids;
  while (reader->Read(&answer)) {
    ids = healthy(answer);
    if (ids.size() == 1) break;
  }
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_EQ(ids[0], answer.devices(0).id());
  ASSERT_TRUE(reader->Read(&answer));
  EXPECT_EQ(healthy(answer).size(), 2U);
  context.TryCancel();
}

TEST_F(DevicePluginTest, OffersMigDevicesByTheirProfiles) {
  Kubelet kubelet(sockets());
  start({"--gpu", "A100-SXM4-40GB:2", "--mig", "3g.20gb,1g.5gb:3"});
  const auto small = kubelet.plugin("nvidia.com/mig-1g.5gb");
  const auto large = kubelet.plugin("nvidia.com/mig-3g.20gb");
  ASSERT_TRUE(small && large);
  EXPECT_EQ(list(*small).size(), 6U);
  const std::vector<std::string> ids = list(*large);
  ASSERT_EQ(ids.size(), 2U);
  v1beta1::ContainerAllocateResponse given;
  ASSERT_TRUE(allocate(*large, {ids[1]}, given).ok());
  EXPECT_EQ(given.envs().at("NVIDIA_VISIBLE_DEVICES"), ids[1]);
  EXPECT_TRUE(ids[1].starts_with("MIG-"));
}

TEST_F(DevicePluginTest, OffersMigDevicesAsGpusIfToldSo) {
  Kubelet kubelet(sockets());
  start({"--gpu", "A100-SXM4-40GB:2", "--mig", "1g.5gb:7", "--resource", "nvidia.com/gpu"});
  const auto plugin = kubelet.plugin("nvidia.com/gpu");
  ASSERT_TRUE(plugin);
  EXPECT_EQ(list(*plugin).size(), 14U);
}

TEST_F(DevicePluginTest, SaysWhatIsWrong) {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{"--gpu", "NO-GPU"}, Words{"--gpu", "V100-PCIE-32GB", "--mig", "1g.5gb"},
        Words{"--gpu", "A100-SXM4-40GB", "--mig", "1g.5gb:9"},
        Words{"--gpu", "A100-SXM4-40GB", "--mig", "1g.5gb:8"},
        Words{"--gpu", "A100-SXM4-40GB", "--mig", "1g.5gb", "--replicas", "2"},
        Words{"--gpu", "A100-SXM4-40GB", "--mig", "1g.5gb,3g.20gb", "--resource", "a.b/c"}}) {
    start(words);
    EXPECT_NE(WEXITSTATUS(program_.end(0)), 0) << words.back();
  }
}

}  // namespace
}  // namespace gpemu
