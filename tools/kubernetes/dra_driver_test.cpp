// SPDX-License-Identifier: Apache-2.0
//
// The DRA driver between an API server that only keeps objects and a kubelet that is only its
// calls: what it publishes, prepares and removes, after it has been restarted, too.
#include <atomic>
#include <chrono>
#include <dra.grpc.pb.h>
#include <filesystem>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <plugin_registration.grpc.pb.h>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/containers/container_edits.hpp"
#include "gpemu/device/node.hpp"

#include "kubernetes/fake_api_server.hpp"
#include "kubernetes/program_for_tests.hpp"

namespace gpemu {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.
namespace dra = k8s::io::kubelet::pkg::apis::dra::v1;

constexpr const char* kSlice = "/apis/resource.k8s.io/v1/resourceslices/n1-gpu.nvidia.com";
constexpr const char* kClaims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/";

class DraDriverTest : public testing::Test {
 protected:
  DraDriverTest() {
    make_installation(folder_.path() / "gpemu");
    write_file_atomically(folder_.path() / "kubeconfig", server_.kubeconfig()).value();
    server_.set("/api/v1/nodes/n1", {{"metadata", {{"name", "n1"}, {"uid", "node-uid"}}}});
  }

  [[nodiscard]] std::filesystem::path kubelet() const { return folder_.path() / "kubelet"; }
  [[nodiscard]] std::filesystem::path cdi() const { return folder_.path() / "cdi"; }

  [[nodiscard]] std::vector<std::string> words(const std::vector<std::string>& options) const {
    std::vector<std::string> all = {"dra-driver",
                                    "--machine",
                                    "m",
                                    "--node",
                                    "n1",
                                    "--kubelet",
                                    kubelet(),
                                    "--cdi",
                                    cdi(),
                                    "--state",
                                    folder_.path() / "state",
                                    "--installation",
                                    folder_.path() / "gpemu",
                                    "--kubeconfig",
                                    folder_.path() / "kubeconfig"};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }

  /// Starts the driver, which the kubelet finds.
  void start_found(const std::vector<std::string>& options) {
    ASSERT_TRUE(program_.start(words(options)));
    ASSERT_TRUE(comes_true([this] {
      pluginregistration::RegistrationStatus status;
      status.set_plugin_registered(true);
      pluginregistration::RegistrationStatusResponse response;
      grpc::ClientContext context;
      const auto driver = ask<pluginregistration::Registration>(registry());
      return driver->NotifyRegistrationStatus(&context, status, &response).ok();
    }));
  }
  /// Likewise, and returns when it has published its GPUs.
  void start(const std::vector<std::string>& options) {
    start_found(options);
    ASSERT_TRUE(comes_true([this] { return !devices().empty(); }));
  }

  /// Waits for a condition while the driver runs.
  bool comes_true(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > until || !program_.runs()) return false;
      std::this_thread::sleep_for(20ms);
    }
    return true;
  }

  [[nodiscard]] std::filesystem::path registry() const {
    return kubelet() / "plugins_registry/gpu.nvidia.com-reg.sock";
  }

  json devices() {
    const auto slice = server_.get(kSlice);
    return slice ? slice->at("spec").at("devices") : json::array();
  }

  template <typename Service>
  static std::unique_ptr<typename Service::Stub> ask(const std::filesystem::path& socket) {
    return Service::NewStub(
        grpc::CreateChannel("unix://" + socket.string(), grpc::InsecureChannelCredentials()));
  }

  /// Makes a claim with these devices, one request each, and returns its UID.
  std::string claim(const std::string& name, const std::vector<std::string>& gpus,
                    const json& consumed = json(), const json& pods = json::array()) {
    json results = json::array();
    for (const std::string& gpu : gpus) {
      results.push_back({{"request", "r" + std::to_string(results.size())},
                         {"driver", "gpu.nvidia.com"},
                         {"pool", "n1"},
                         {"device", gpu}});
      if (!consumed.is_null()) results.back()["consumedCapacity"] = consumed;
    }
    json users = json::array();
    for (const json& pod : pods) users.push_back({{"resource", "pods"}, {"name", pod}});
    server_.set(
        kClaims + name,
        {{"metadata", {{"name", name}, {"uid", "uid-" + name}}},
         {"status",
          {{"allocation", {{"devices", {{"results", results}}}}}, {"reservedFor", users}}}});
    return "uid-" + name;
  }

  /// A pod whose container c uses claims: a name, or "NAME REQUEST".
  void pod(const std::string& name, const std::vector<std::vector<std::string>>& uses) {
    json claims = json::array(), names = json::array();
    for (const auto& use : uses) {
      names.push_back({{"name", use[0]}, {"resourceClaimName", use[0]}});
      claims.push_back({{"name", use[0]}});
      if (use.size() > 1) claims.back()["request"] = use[1];
    }
    server_.set("/api/v1/namespaces/default/pods/" + name,
                {{"metadata", {{"name", name}}},
                 {"spec",
                  {{"resourceClaims", names},
                   {"containers", {{{"name", "c"}, {"resources", {{"claims", claims}}}}}}}}});
  }

  dra::NodePrepareResourceResponse prepare(const std::string& name) {
    dra::NodePrepareResourcesRequest request;
    set(*request.add_claims(), name);
    dra::NodePrepareResourcesResponse response;
    grpc::ClientContext context;
    const auto plugin = ask<dra::DRAPlugin>(kubelet() / "plugins/gpu.nvidia.com/dra.sock");
    const grpc::Status status = plugin->NodePrepareResources(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.claims().at("uid-" + name);
  }
  std::string unprepare(const std::string& name) {
    dra::NodeUnprepareResourcesRequest request;
    set(*request.add_claims(), name);
    dra::NodeUnprepareResourcesResponse response;
    grpc::ClientContext context;
    const auto plugin = ask<dra::DRAPlugin>(kubelet() / "plugins/gpu.nvidia.com/dra.sock");
    const grpc::Status status = plugin->NodeUnprepareResources(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.claims().at("uid-" + name).error();
  }
  static void set(dra::Claim& claim, const std::string& name) {
    claim.set_namespace_("default");
    claim.set_name(name);
    claim.set_uid("uid-" + name);
  }

  /// Returns what a runtime would add for a device "KIND=NAME" of a claim.
  json edits(const std::string& claim, const std::string& device) {
    const json spec = json::parse(read_file(cdi() / ("gpemu-uid-" + claim + ".json")).value());
    for (const json& entry : spec["devices"]) {
      if (spec["kind"].get<std::string>() + '=' + entry["name"].get<std::string>() == device) {
        return entry["containerEdits"];
      }
    }
    return {};
  }
  static std::filesystem::path node_of(const json& edits) {
    for (const json& mount : edits["mounts"]) {
      if (mount["containerPath"] == containers::kNodeFolder) return mount["hostPath"];
    }
    return {};
  }
  static bool sets(const json& edits, const std::string& variable) {
    return std::ranges::find(edits["env"], json(variable)) != edits["env"].end();
  }

  tools::FakeApiServer server_;
  TemporaryFolder folder_ = TemporaryFolder::create(testing::TempDir(), "gpemu-dra-").value();
  KubernetesProgram program_;
};

TEST_F(DraDriverTest, PublishesItsGpusAndIsFoundByTheKubelet) {
  start({"--gpu", "A100-SXM4-40GB:2", "--gpu", "H100-SXM5-80GB"});
  ASSERT_EQ(devices().size(), 3U);
  EXPECT_EQ(devices()[2]["attributes"]["architecture"]["string"], "Hopper");
  const json slice = server_.get(kSlice).value();
  EXPECT_EQ(slice["metadata"]["ownerReferences"][0]["uid"], "node-uid");
  EXPECT_EQ(slice["spec"]["pool"]["generation"], 1);

  pluginregistration::PluginInfo info;
  grpc::ClientContext context;
  ASSERT_TRUE(ask<pluginregistration::Registration>(registry())->GetInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.type(), "DRAPlugin");
  EXPECT_EQ(info.name(), "gpu.nvidia.com");
  EXPECT_EQ(info.endpoint(), kubelet() / "plugins/gpu.nvidia.com/dra.sock");
  ASSERT_EQ(info.supported_versions_size(), 1);
  EXPECT_EQ(info.supported_versions(0), "v1.DRAPlugin");

  std::filesystem::remove(registry());
  EXPECT_TRUE(comes_true([this] { return std::filesystem::exists(registry()); }));
  server_.remove(kSlice);
  EXPECT_TRUE(comes_true([this] { return devices().size() == 3; })) << "it is published again";
  EXPECT_EQ(program_.end(), 0);
  EXPECT_TRUE(devices().empty());
  EXPECT_FALSE(std::filesystem::exists(registry()));
}

TEST_F(DraDriverTest, OffersNothingThatTheKubeletCannotPrepare) {
  ASSERT_TRUE(program_.start(words({"--gpu", "A100-SXM4-40GB"})));
  pluginregistration::RegistrationStatus refused;
  refused.set_error("no such version");
  ASSERT_TRUE(comes_true([&] {
    pluginregistration::RegistrationStatusResponse response;
    grpc::ClientContext context;
    const auto driver = ask<pluginregistration::Registration>(registry());
    return driver->NotifyRegistrationStatus(&context, refused, &response).ok();
  }));
  std::this_thread::sleep_for(1s);  // Twice as long as between two looks.
  EXPECT_TRUE(devices().empty());
  EXPECT_EQ(server_.requests(), 1) << "this test's own";
}

TEST_F(DraDriverTest, ClaimsCanAskForGpusOfOnePcieRoot) {
  start({"--topology", "dgx-1v"});
  const json all = devices();
  ASSERT_EQ(all.size(), 8U);
  for (std::size_t gpu = 0; gpu < all.size(); ++gpu) {
    EXPECT_EQ(all[gpu]["attributes"]["resource.kubernetes.io/pcieRoot"]["string"],
              gpu < 4 ? "pci0000:00" : "pci0000:01");
  }
}

TEST_F(DraDriverTest, AClaimIsANodeAndASpecificationUntilItIsGivenBack) {
  start({"--gpu", "A100-SXM4-40GB:4"});
  claim("two", {"gpu-3", "gpu-1"});
  const auto prepared = prepare("two");
  ASSERT_EQ(prepared.error(), "");
  ASSERT_EQ(prepared.devices_size(), 2);
  EXPECT_EQ(prepared.devices(0).request_names(0), "r0");
  EXPECT_EQ(prepared.devices(0).pool_name(), "n1");
  EXPECT_EQ(prepared.devices(0).device_name(), "gpu-3");
  EXPECT_EQ(prepared.devices(0).cdi_device_ids(0), "gpemu/claim=uid-two");
  EXPECT_EQ(prepared.devices(1).cdi_device_ids(0), "gpemu/claim=uid-two");
  const auto node = node_of(edits("two", "gpemu/claim=uid-two"));
  EXPECT_EQ(device::Node::open(containers::kNodeName, node).value()->device_count(), 2);

  write_file_atomically(node / "mark", "").value();
  program_.end(SIGKILL);
  start({"--gpu", "A100-SXM4-40GB:4"});
  EXPECT_EQ(prepare("two").devices_size(), 2);
  EXPECT_TRUE(std::filesystem::exists(node / "mark")) << "containers still use it";
  EXPECT_EQ(unprepare("two"), "");
  EXPECT_FALSE(std::filesystem::exists(node));
  EXPECT_TRUE(std::filesystem::is_empty(cdi()));
  EXPECT_EQ(unprepare("two"), "") << "again";
}

TEST_F(DraDriverTest, ContainersThatNameRequestsGetTheseAlone) {
  start({"--gpu", "A100-SXM4-40GB:4"});
  claim("by-request", {"gpu-0", "gpu-2"}, {}, {"p"});
  pod("p", {{"by-request", "r1"}});
  const auto prepared = prepare("by-request");
  ASSERT_EQ(prepared.devices_size(), 2) << prepared.error();
  EXPECT_EQ(prepared.devices(1).cdi_device_ids(0), "gpemu/claim=uid-by-request.r1");
  const auto node = device::Node::open(
      containers::kNodeName, node_of(edits("by-request", "gpemu/claim=uid-by-request.r1")));
  ASSERT_TRUE(node);
  EXPECT_EQ((*node)->device_count(), 1);
  EXPECT_EQ(unprepare("by-request"), "");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path() / "state"), {}), 2)
      << "the machine's node and nvidia-smi are left";

  claim("one", {"gpu-1"}, {}, {"q"});
  claim("other", {"gpu-2"}, {}, {"q"});
  pod("q", {{"one"}, {"other"}});
  EXPECT_EQ(prepare("one").error(),
            "the container 'c' uses GPUs of the claims one and other, but can have those of one "
            "only: make one claim with several requests");
  claim("both", {"gpu-1", "gpu-2"}, {}, {"s"});
  pod("s", {{"both", "r0"}, {"both", "r1"}});
  EXPECT_NE(prepare("both").error().find("uses several requests of the claim both"),
            std::string::npos);
  EXPECT_TRUE(std::filesystem::is_empty(cdi()));
}

TEST_F(DraDriverTest, PartsOfAGpuShareItsNode) {
  start({"--gpu", "A100-SXM4-40GB", "--divide", "limit"});
  EXPECT_EQ(devices()[0]["allowMultipleAllocations"], true);
  claim("a", {"gpu-0"}, {{"memory", "10Gi"}, {"cores", "40"}});
  claim("b", {"gpu-0"}, {{"memory", "20Gi"}, {"cores", "0"}});
  EXPECT_EQ(prepare("a").error(), "");
  EXPECT_EQ(prepare("b").error(), "");
  const json a = edits("a", "gpemu/claim=uid-a"), b = edits("b", "gpemu/claim=uid-b");
  EXPECT_EQ(node_of(a), node_of(b));
  EXPECT_TRUE(sets(a, "GPEMU_GPU_FRACTION=0.25"));
  EXPECT_TRUE(sets(a, "GPEMU_GPU_LIMIT=0.4"));
  EXPECT_TRUE(sets(b, "GPEMU_GPU_FRACTION=0.5"));
  EXPECT_EQ(unprepare("a"), "");
  EXPECT_TRUE(device::Node::open(containers::kNodeName, node_of(b)));
}

TEST_F(DraDriverTest, ALostGpuHasATaintUntilItIsBack) {
  write_file_atomically(folder_.path() / "faults.toml",
                        "[[fault]]\nkind = \"lost\"\ngpu = 1\nat_s = 1\nfor_s = 2\n")
      .value();
  start({"--gpu", "A100-SXM4-40GB:2", "--faults", folder_.path() / "faults.toml"});
  ASSERT_TRUE(comes_true([this] { return devices()[1].contains("taints"); }));
  EXPECT_EQ(devices()[1]["taints"][0]["key"], "gpu.nvidia.com/gpu-lost");
  EXPECT_EQ(devices()[1]["taints"][0]["effect"], "NoSchedule");
  EXPECT_FALSE(devices()[0].contains("taints"));
  ASSERT_TRUE(comes_true([this] { return !devices()[1].contains("taints"); }));
  EXPECT_GE(server_.get(kSlice).value()["spec"]["pool"]["generation"], 3);
}

TEST_F(DraDriverTest, ALostGpuIsLeftOutWhereThereAreNoTaints) {
  server_.edit_what_is_made([](json& object) {
    if (!object.contains("spec")) return;
    for (json& device : object["spec"]["devices"]) device.erase("taints");
  });
  write_file_atomically(folder_.path() / "faults.toml",
                        "[[fault]]\nkind = \"lost\"\ngpu = 0\nat_s = 1\nfor_s = 2\n")
      .value();
  start({"--gpu", "A100-SXM4-40GB:2", "--faults", folder_.path() / "faults.toml"});
  ASSERT_TRUE(comes_true([this] { return devices().size() == 1; }));
  EXPECT_EQ(devices()[0]["name"], "gpu-1");
  ASSERT_TRUE(comes_true([this] { return devices().size() == 2; }));
}

TEST_F(DraDriverTest, SaysWhatIsWrongWithAClaim) {
  start({"--gpu", "A100-SXM4-40GB"});
  claim("far", {"gpu-7"});
  EXPECT_EQ(prepare("far").error(),
            "the device 'gpu-7' is none of this node's: the driver has 1 GPUs");
  server_.set(kClaims + std::string("anew"), {{"metadata", {{"uid", "another"}}}});
  EXPECT_EQ(prepare("anew").error(), "there is another claim of this name now");
  EXPECT_NE(prepare("none").error().find("(404)"), std::string::npos);
}

TEST_F(DraDriverTest, MakesTheInstancesOfMigThatClaimsHave) {
  const std::string slices = "/apis/resource.k8s.io/v1/resourceslices/n1-gpu.nvidia.com-gpu-";
  start_found({"--gpu", "A100-SXM4-40GB:2", "--mig"});
  ASSERT_TRUE(comes_true([&] { return server_.get(slices + "1").has_value(); }));
  const json spec = server_.get(slices + "1")->at("spec");
  EXPECT_EQ(spec["pool"]["name"], "n1/gpu-1");
  EXPECT_EQ(spec["sharedCounters"][0]["name"], "gpu-1");
  EXPECT_EQ(spec["sharedCounters"][0]["counters"].size(), 9U);
  std::map<std::string, json> by_name;
  for (const json& device : spec["devices"]) by_name[device["name"]] = device;
  EXPECT_EQ(by_name.at("gpu-1")["consumesCounters"][0]["counters"].size(), 9U);
  const json& half = by_name.at("gpu-1-mig-9-4");
  EXPECT_EQ(half["attributes"]["profile"]["string"], "3g.20gb");
  EXPECT_EQ(half["capacity"]["multiprocessors"]["value"], "42");
  EXPECT_EQ(half["consumesCounters"][0]["counters"],
            json::parse(R"({"memory-slice-4": {"value": "1"}, "memory-slice-5": {"value": "1"},
                            "memory-slice-6": {"value": "1"}, "memory-slice-7": {"value": "1"}})"));
  claim("half", {"gpu-1-mig-9-4"});
  const auto prepared = prepare("half");
  ASSERT_EQ(prepared.error(), "");
  EXPECT_EQ(prepared.devices(0).device_name(), "gpu-1-mig-9-4");
  claim("both", {"gpu-1-mig-9-4", "gpu-0"});
  EXPECT_NE(prepare("both").error().find("MIG devices beside whole GPUs"), std::string::npos);
  program_.end();
  EXPECT_FALSE(server_.get(slices + "0"));
}

TEST_F(DraDriverTest, PublishesNoInstancesThatCouldOverlap) {
  std::atomic<bool> made = false;
  server_.edit_what_is_made([&](json& object) {
    if (!object.contains("spec")) return;
    made = object["spec"].erase("sharedCounters") > 0;
  });
  start_found({"--gpu", "A100-SXM4-40GB", "--mig"});
  EXPECT_TRUE(comes_true([&] {
    return made && !server_.get("/apis/resource.k8s.io/v1/resourceslices/n1-gpu.nvidia.com-gpu-0");
  })) << "it is removed at once";
}

}  // namespace
}  // namespace gpemu
