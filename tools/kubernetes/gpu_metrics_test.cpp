// SPDX-License-Identifier: Apache-2.0
//
// `gpemu-kubernetes metrics` beside a pool of GPUs, whose containers are in this process, and a
// kubelet that is only its socket of the API PodResources.
#include <arpa/inet.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <grpcpp/grpcpp.h>
#include <iterator>
#include <memory>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <pod_resources.grpc.pb.h>
#include <regex>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/base/temporary_folder.hpp"
#include "gpemu/containers/container_edits.hpp"
#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/device/device.hpp"
#include "gpemu/device/node.hpp"

#include "kubernetes/program_for_tests.hpp"

namespace gpemu {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

/// Says which pods have which devices.
class PodLister final : public v1::PodResourcesLister::Service {
 public:
  explicit PodLister(const std::filesystem::path& socket) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix://" + socket.string(), grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~PodLister() override { server_->Shutdown(std::chrono::system_clock::now()); }
  PodLister(const PodLister&) = delete;
  PodLister& operator=(const PodLister&) = delete;

  void add(const std::string& pod, const std::vector<std::string>& devices) {
    const std::lock_guard lock(mutex_);
    auto& added = *pods_.add_pod_resources();
    added.set_name(pod);
    added.set_namespace_("ml");
    auto& container = *added.add_containers();
    container.set_name("c");
    auto& resource = *container.add_devices();
    resource.set_resource_name("nvidia.com/gpu");
    for (const std::string& id : devices) resource.add_device_ids(id);
  }

  void remove_all() {
    const std::lock_guard lock(mutex_);
    pods_.clear_pod_resources();
  }

  grpc::Status List(grpc::ServerContext* /*context*/,
                    const v1::ListPodResourcesRequest* /*request*/,
                    v1::ListPodResourcesResponse* response) override {
    const std::lock_guard lock(mutex_);
    *response = pods_;
    return grpc::Status::OK;
  }

 private:
  std::mutex mutex_;
  v1::ListPodResourcesResponse pods_;
  std::unique_ptr<grpc::Server> server_;
};

/// A socket of TCP, and one that listens at a free port.
class Socket {
 public:
  Socket() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { ::close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  static sockaddr_in local(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  [[nodiscard]] std::uint16_t free_port() const {
    sockaddr_in address = local(0);
    socklen_t size = sizeof address;
    ::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), size);
    ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
    return ntohs(address.sin_port);
  }
  /// Returns what a server of HTTP answers; nothing if there is none.
  [[nodiscard]] std::string ask(std::uint16_t port, const std::string& path) const {
    const sockaddr_in address = local(port);
    if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      return "";
    }
    const std::string request = fmt::format("GET {} HTTP/1.0\r\n\r\n", path);
    if (::write(descriptor_, request.data(), request.size()) < 0) return "";
    std::string answer(1 << 16, '\0');
    std::size_t size = 0;
    for (ssize_t got = 0;
         (got = ::read(descriptor_, answer.data() + size, answer.size() - size)) > 0;) {
      size += static_cast<std::size_t>(got);
    }
    return answer.substr(0, size);
  }

 private:
  int descriptor_;
};

class GpuMetricsTest : public testing::Test {
 protected:
  GpuMetricsTest() { make_installation(folder_.path() / "gpemu"); }

  containers::GpuPool pool(int replicas = 1) {
    containers::GpuPoolOptions options{.machine = "m",
                                       .gpus = {},
                                       .faults = {},
                                       .slices = {},
                                       .folder = folder_.path() / "state",
                                       .installation = folder_.path() / "gpemu",
                                       .replicas = replicas};
    device::DeviceConfig gpu{
        .gpu = "TEST-GPU", .memory_bytes = kGiB, .max_power_w = 100, .idle_power_w = 20};
    std::string("Test GPU").copy(gpu.facts.product_name, sizeof gpu.facts.product_name - 1);
    options.gpus = {gpu, gpu};
    return containers::GpuPool::create(std::move(options)).value();
  }

  void start() {
    port_ = Socket().free_port();
    ASSERT_TRUE(
        program_.start({"metrics", "--state", (folder_.path() / "state").string(),
                        "--pod-resources", socket().string(), "--machine", "m", "--interval", "0.1",
                        "--listen", fmt::format("127.0.0.1:{}", port_)}));
  }
  [[nodiscard]] std::filesystem::path socket() const { return folder_.path() / "pods.sock"; }
  [[nodiscard]] std::string scrape() const { return Socket().ask(port_, "/metrics"); }

  /// Scrapes until a line is there, and returns whether it came.
  [[nodiscard]] bool comes(const std::string& line) {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    std::string last;
    while (program_.runs() && std::chrono::steady_clock::now() < end) {
      last = scrape();
      if (last.find("\n" + line + "\n") != std::string::npos) return true;
      std::this_thread::sleep_for(20ms);
    }
    ADD_FAILURE() << last;
    return false;
  }

  /// The labels of a GPU's series.
  static std::string labels(int gpu, const std::string& uuid, const std::string& rest) {
    return fmt::format(
        R"({{gpu="{0}",UUID="{1}",pci_bus_id="00000000:0{2}:00.0",device="nvidia{0}",)"
        R"(modelName="Test GPU",Hostname="m",DCGM_FI_DRIVER_VERSION="595.45.04"{3}}})",
        gpu, uuid, gpu + 1, rest);
  }
  static constexpr const char* kPod = R"(,container="c",namespace="ml",pod="train")";

  struct Container {
    std::shared_ptr<device::Node> node;
    std::unique_ptr<device::Device> device;
  };
  static Container use(containers::GpuPool& pool, const std::string& id, std::uint8_t tenant = 0) {
    const auto edits = pool.allocate(std::vector{id}).value();
    Container made;
    made.node = device::Node::open(containers::kNodeName, edits.mounts.back().host).value();
    made.device =
        device::Device::open(made.node, 0, made.node->clock(), {}, {.tenant = tenant}).value();
    return made;
  }
  static void work(const Container& container, Duration cost) {
    container.device->default_stream().launch(cost);
    container.device->synchronize();
  }

  [[nodiscard]] std::size_t descriptors() const {
    const auto all =
        std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", program_.process()));
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  [[nodiscard]] long resident_kib() const {
    std::ifstream file(fmt::format("/proc/{}/status", program_.process()));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    std::smatch found;
    return std::regex_search(text, found, std::regex("VmRSS:\\s+(\\d+)")) ? std::stol(found[1]) : 0;
  }

  TemporaryFolder folder_ = TemporaryFolder::create("/tmp", "gpemu-metrics-").value();
  KubernetesProgram program_;
  std::uint16_t port_ = 0;
};

TEST_F(GpuMetricsTest, SayWhatEachPodDidByNvidiasNames) {
  auto gpus = pool();
  const std::string free = gpus.devices()[0].id, used = gpus.devices()[1].id;
  PodLister kubelet(socket());
  kubelet.add("train", {used});
  start();
  ASSERT_TRUE(comes("gpemu_gpu_busy_seconds_total" + labels(1, used, kPod) + " 0"));
  const Container container = use(gpus, used);
  ASSERT_TRUE(container.device->allocate(64 * kMiB));
  work(container, 30ms);
  work(container, 20ms);
  EXPECT_TRUE(comes("gpemu_gpu_busy_seconds_total" + labels(1, used, kPod) + " 0.05"));
  EXPECT_TRUE(comes("DCGM_FI_DEV_FB_USED" + labels(1, used, kPod) + " 64"));
  EXPECT_TRUE(comes("DCGM_FI_DEV_FB_FREE" + labels(1, used, kPod) + " 960"));
  EXPECT_TRUE(comes("DCGM_FI_DEV_GPU_UTIL" + labels(1, used, kPod) + " 0")) << "it has ended";
  EXPECT_TRUE(comes("DCGM_FI_DEV_POWER_USAGE" + labels(0, free, "") + " 20"));
  EXPECT_TRUE(comes("DCGM_FI_DEV_XID_ERRORS" + labels(0, free, "") + " 0"));
  EXPECT_TRUE(comes("# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter"));
}

TEST_F(GpuMetricsTest, SumsOfAPodBeginWithIt) {
  auto gpus = pool();
  const std::string uuid = gpus.devices()[0].id;
  const auto busy = [&](const char* pod) {
    const std::string its =
        *pod == '\0' ? "" : fmt::format(R"(,container="c",namespace="ml",pod="{}")", pod);
    return "gpemu_gpu_busy_seconds_total" + labels(0, uuid, its);
  };
  PodLister kubelet(socket());
  kubelet.add("first", {uuid});
  start();
  ASSERT_TRUE(comes(busy("first") + " 0"));
  work(use(gpus, uuid), 30ms);
  EXPECT_TRUE(comes(busy("first") + " 0.03"));
  kubelet.remove_all();
  EXPECT_TRUE(comes(busy("") + " 0.03")) << "of the GPU";
  kubelet.add("second", {uuid});
  EXPECT_TRUE(comes(busy("second") + " 0"));
  work(use(gpus, uuid), 10ms);
  EXPECT_TRUE(comes(busy("second") + " 0.01"));
}

TEST_F(GpuMetricsTest, TellPodsThatShareAGpuApart) {
  auto gpus = pool(4);
  const std::string uuid = gpus.devices()[0].id.substr(0, gpus.devices()[0].id.find("::"));
  PodLister kubelet(socket());
  kubelet.add("train", {gpus.devices()[3].id, gpus.devices()[1].id});
  kubelet.add("idle", {gpus.devices()[0].id});
  start();
  const std::string train = labels(0, uuid, std::string(R"(,vgpu="1")") + kPod);
  const std::string idle = labels(0, uuid, R"(,vgpu="0",container="c",namespace="ml",pod="idle")");
  ASSERT_TRUE(comes("gpemu_gpu_busy_seconds_total" + train + " 0"));
  const Container container = use(gpus, gpus.devices()[1].id, 2);
  ASSERT_TRUE(container.device->allocate(64 * kMiB));
  work(container, 30ms);
  EXPECT_TRUE(comes("gpemu_gpu_busy_seconds_total" + train + " 0.03"));
  EXPECT_TRUE(comes("DCGM_FI_DEV_FB_USED" + train + " 64"));
  EXPECT_TRUE(comes("gpemu_gpu_busy_seconds_total" + idle + " 0"));
  EXPECT_TRUE(comes("DCGM_FI_DEV_FB_USED" + idle + " 0"));
}

TEST_F(GpuMetricsTest, WaitForThePoolAndGoOnWithoutAKubelet) {
  start();
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (program_.runs() && !scrape().starts_with("HTTP/1.1 200") &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_EQ(scrape().find("DCGM"), std::string::npos);
  const auto gpus = pool();
  EXPECT_TRUE(comes("DCGM_FI_DEV_GPU_UTIL" + labels(0, gpus.devices()[0].id, "") + " 0"));
}

TEST_F(GpuMetricsTest, ScrapesLeaveNothing) {
  auto gpus = pool();
  PodLister kubelet(socket());
  start();
  ASSERT_TRUE(comes("DCGM_FI_DEV_GPU_UTIL" + labels(0, gpus.devices()[0].id, "") + " 0"));
  const auto scrape_often = [&] {
    for (int i = 0; i < 500; ++i) {
      // Containers come and go meanwhile.
      if (i % 50 == 0) work(use(gpus, gpus.devices()[1].id), 1ms);
      ASSERT_FALSE(scrape().empty());
    }
  };
  scrape_often();
  const std::size_t files = descriptors();
  const long before = resident_kib();
  scrape_often();
  // A call to the kubelet may be under way; the node of the last container may be open.
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (descriptors() > files + 1 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_LE(descriptors(), files + 1);
  EXPECT_LT(resident_kib() - before, 1024);
}

TEST_F(GpuMetricsTest, AnAddressThatIsTakenIsNamed) {
  Socket taken;
  port_ = taken.free_port();
  ASSERT_TRUE(program_.start({"metrics", "--listen", fmt::format("127.0.0.1:{}", port_), "--state",
                              folder_.path().string()}));
  // A socket that is bound, without SO_REUSEADDR, cannot be bound again.
  EXPECT_NE(WEXITSTATUS(program_.end(0)), 0);
}

}  // namespace
}  // namespace gpemu
