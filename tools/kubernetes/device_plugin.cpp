// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/device_plugin.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <device_plugin.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/topology/paths.hpp"

namespace gpemu::tools {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.

constexpr auto kLookPeriod = 500ms;
constexpr auto kRegisterTime = 10s;
constexpr auto kShutdownTime = 1s;
constexpr const char* kVersion = "v1beta1";
constexpr const char* kHealthy = "Healthy";
constexpr const char* kUnhealthy = "Unhealthy";
constexpr const char* kKubeletSocket = "kubelet.sock";

using Log = std::function<void(const std::string&)>;

grpc::Status status_of(const Error& error) {
  const auto code = error.code == ErrorCode::kInvalidArgument ? grpc::StatusCode::INVALID_ARGUMENT
                    : error.code == ErrorCode::kNotFound      ? grpc::StatusCode::NOT_FOUND
                                                              : grpc::StatusCode::INTERNAL;
  return {code, error.message};
}

/// A pool that the services of several resources share.
struct SharedPool {
  containers::GpuPool& gpus;
  std::mutex mutex;
};

/// The service that the kubelet calls for one resource, from several threads.
class Service final : public v1beta1::DevicePlugin::Service {
 public:
  Service(SharedPool& pool, std::vector<containers::PoolDevice> devices, Log log)
      : pool_(pool), devices_(std::move(devices)), log_(std::move(log)) {
    for (const containers::PoolDevice& device : devices_) healthy_[device.gpu] = true;
  }

  [[nodiscard]] std::size_t size() const { return devices_.size(); }

  void look_at_health() {
    for (const auto& [gpu, healthy] : healthy_) look_at_health(gpu);
  }

  void look_at_health(std::size_t gpu) {
    const std::lock_guard lock(pool_.mutex);
    const bool healthy = pool_.gpus.is_healthy(gpu);
    if (healthy_[gpu] == healthy) return;
    healthy_[gpu] = healthy;
    ++version_;
    log_(fmt::format("GPU {} is {}", gpu, healthy ? "healthy again" : "unhealthy"));
    changed_.notify_all();
  }

  /// Ends the streams.
  void stop() {
    const std::lock_guard lock(pool_.mutex);
    stopped_ = true;
    changed_.notify_all();
  }

  grpc::Status GetDevicePluginOptions(grpc::ServerContext* /*context*/,
                                      const v1beta1::Empty* /*request*/,
                                      v1beta1::DevicePluginOptions* options) override {
    options->set_get_preferred_allocation_available(true);
    return grpc::Status::OK;
  }

  grpc::Status ListAndWatch(grpc::ServerContext* context, const v1beta1::Empty* /*request*/,
                            grpc::ServerWriter<v1beta1::ListAndWatchResponse>* writer) override {
    std::optional<std::uint64_t> sent;
    std::unique_lock lock(pool_.mutex);
    while (!stopped_ && !context->IsCancelled()) {
      if (sent == version_) {
        changed_.wait_for(lock, kLookPeriod);
        continue;
      }
      sent = version_;
      v1beta1::ListAndWatchResponse list;
      for (const containers::PoolDevice& device : devices_) {
        v1beta1::Device& entry = *list.add_devices();
        entry.set_id(device.id);
        entry.set_health(healthy_.at(device.gpu) ? kHealthy : kUnhealthy);
        if (const auto& machine = pool_.gpus.topology()) {
          entry.mutable_topology()->add_nodes()->set_id(
              topology::numa_node_of(*machine, machine->gpus[device.gpu]));
        }
      }
      lock.unlock();
      if (!writer->Write(list)) return grpc::Status::OK;
      lock.lock();
    }
    return grpc::Status::OK;
  }

  grpc::Status GetPreferredAllocation(grpc::ServerContext* /*context*/,
                                      const v1beta1::PreferredAllocationRequest* request,
                                      v1beta1::PreferredAllocationResponse* response) override {
    const std::lock_guard lock(pool_.mutex);
    for (const auto& wanted : request->container_requests()) {
      const std::vector<std::string> available(wanted.available_device_ids().begin(),
                                               wanted.available_device_ids().end());
      const std::vector<std::string> must(wanted.must_include_device_ids().begin(),
                                          wanted.must_include_device_ids().end());
      const auto count = static_cast<std::size_t>(std::max(wanted.allocation_size(), 0));
      auto* const chosen = response->add_container_responses();
      for (std::string& id : pool_.gpus.prefer(available, must, count)) {
        chosen->add_device_ids(std::move(id));
      }
    }
    return grpc::Status::OK;
  }

  grpc::Status Allocate(grpc::ServerContext* /*context*/, const v1beta1::AllocateRequest* request,
                        v1beta1::AllocateResponse* response) override {
    const std::lock_guard lock(pool_.mutex);
    for (const auto& wanted : request->container_requests()) {
      const std::vector<std::string> ids(wanted.device_ids().begin(), wanted.device_ids().end());
      const auto edits = pool_.gpus.allocate(ids);
      if (!edits) {
        log_(fmt::format("refused: {}", edits.error().message));
        return status_of(edits.error());
      }
      auto* const container = response->add_container_responses();
      for (const auto& [name, value] : edits->environment) {
        (*container->mutable_envs())[name] = value;
      }
      for (const containers::Mount& mount : edits->mounts) {
        v1beta1::Mount& entry = *container->add_mounts();
        entry.set_host_path(mount.host.string());
        entry.set_container_path(mount.container);
        entry.set_read_only(mount.read_only);
      }
      log_(fmt::format("gave {}", fmt::join(ids, ", ")));
    }
    return grpc::Status::OK;
  }

  grpc::Status PreStartContainer(grpc::ServerContext* /*context*/,
                                 const v1beta1::PreStartContainerRequest* /*request*/,
                                 v1beta1::PreStartContainerResponse* /*response*/) override {
    return grpc::Status::OK;
  }

 private:
  SharedPool& pool_;  ///< its mutex guards all that follows.
  std::vector<containers::PoolDevice> devices_;
  Log log_;
  std::condition_variable changed_;
  std::map<std::size_t, bool> healthy_;  ///< by GPU.
  std::uint64_t version_ = 0;            ///< of `healthy_`.
  bool stopped_ = false;
};

/// Returns a number that changes when the kubelet makes its socket anew; nothing without one.
std::optional<std::uint64_t> socket_version(const std::filesystem::path& socket) {
  struct stat status{};
  if (::stat(socket.c_str(), &status) != 0) return std::nullopt;
  return static_cast<std::uint64_t>(status.st_ino) ^
         static_cast<std::uint64_t>(status.st_ctim.tv_sec) * 1'000'000'007U ^
         static_cast<std::uint64_t>(status.st_ctim.tv_nsec);
}

/// The plugin's own socket, and what listens there.
class Endpoint {
 public:
  Endpoint(std::filesystem::path folder, const std::string& resource, Service& service)
      : folder_(std::move(folder)), service_(service) {
    name_ = "gpemu-" + resource + ".sock";
    std::ranges::replace(name_, '/', '-');
  }
  ~Endpoint() { close(); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

  Result<void> open() {
    close();
    std::error_code ignored;
    std::filesystem::remove(folder_ / name_, ignored);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix://" + (folder_ / name_).string(),
                             grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_) return {};
    return fail(ErrorCode::kIo, "cannot listen at {}", (folder_ / name_).string());
  }

 private:
  void close() {
    if (!server_) return;
    server_->Shutdown(std::chrono::system_clock::now() + kShutdownTime);
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove(folder_ / name_, ignored);
  }

  std::filesystem::path folder_;
  std::string name_;
  Service& service_;
  std::unique_ptr<grpc::Server> server_;
};

/// Tells the kubelet of the plugin. Returns false if it does not answer, as while it starts.
Result<bool> register_at(const std::filesystem::path& folder, const std::string& endpoint,
                         const std::string& resource) {
  const auto channel = grpc::CreateChannel("unix://" + (folder / kKubeletSocket).string(),
                                           grpc::InsecureChannelCredentials());
  const auto kubelet = v1beta1::Registration::NewStub(channel);
  v1beta1::RegisterRequest request;
  request.set_version(kVersion);
  request.set_endpoint(endpoint);
  request.set_resource_name(resource);
  request.mutable_options()->set_get_preferred_allocation_available(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kRegisterTime);
  v1beta1::Empty answer;
  const grpc::Status status = kubelet->Register(&context, request, &answer);
  if (status.ok()) return true;
  const bool is_away = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                       status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  if (is_away) return false;
  return fail(ErrorCode::kUnavailable, "the kubelet refuses the plugin for {}: {}", resource,
              status.error_message());
}

/// A resource, and how the kubelet gets it.
struct Offer {
  Offer(SharedPool& pool, const std::filesystem::path& folder, std::string name,
        std::vector<containers::PoolDevice> devices, const Log& log)
      : resource(std::move(name)),
        service(pool, std::move(devices), log),
        endpoint(folder, resource, service) {}

  std::string resource;
  Service service;
  Endpoint endpoint;
};

/// Logs an error, unless it is the one before.
void log_new(const Result<void>& done, std::string& before, const Log& log) {
  const std::string fault = done ? "" : done.error().message;
  if (!fault.empty() && fault != before) log(fault);
  before = fault;
}

std::string resource_of(const DevicePluginOptions& options, const containers::PoolDevice& device) {
  if (!device.mig || !options.is_mixed) return options.resource;
  std::string name = "nvidia.com/mig-" + device.profile;
  std::ranges::replace(name, '+', '.');  // As NVIDIA's plugin does: "1g.5gb+me".
  return name;
}

/// Registers a resource, if the kubelet answers; returns whether it did.
Result<bool> offer_to_kubelet(Offer& offer, const std::filesystem::path& folder, const Log& log) {
  GPEMU_TRY(offer.endpoint.open());
  GPEMU_ASSIGN(const bool done, register_at(folder, offer.endpoint.name(), offer.resource));
  if (done) log(fmt::format("registered {} devices as {}", offer.service.size(), offer.resource));
  return done;
}

}  // namespace

Result<void> serve_kubelet(const DevicePluginOptions& options, containers::GpuPool& pool,
                           XidEvents* xids, const std::atomic<bool>& stop, const Log& log) {
  std::error_code error;
  if (!std::filesystem::is_directory(options.folder, error)) {
    return fail(ErrorCode::kIo,
                "{} is no folder: is there a kubelet? Its device plugins have their sockets there",
                options.folder.string());
  }
  std::map<std::string, std::vector<containers::PoolDevice>> by_resource;
  for (const containers::PoolDevice& device : pool.devices()) {
    by_resource[resource_of(options, device)].push_back(device);
  }
  SharedPool shared{.gpus = pool, .mutex = {}};
  std::vector<std::unique_ptr<Offer>> offers;
  for (auto& [resource, devices] : by_resource) {
    offers.push_back(
        std::make_unique<Offer>(shared, options.folder, resource, std::move(devices), log));
  }
  std::optional<std::uint64_t> registered;
  std::string fault;
  while (!stop) {
    for (const auto& offer : offers) offer->service.look_at_health();
    if (xids != nullptr) log_new(xids->look(pool.machine()), fault, log);
    // A kubelet that starts removes all sockets of plugins and makes its own anew.
    const auto socket = socket_version(options.folder / kKubeletSocket);
    if (socket && socket != registered) {
      bool done = true;
      for (const auto& offer : offers) {
        GPEMU_ASSIGN(const bool one, offer_to_kubelet(*offer, options.folder, log));
        done = done && one;
      }
      if (done) registered = socket;
    }
    std::this_thread::sleep_for(kLookPeriod);
  }
  for (const auto& offer : offers) offer->service.stop();
  return {};
}

}  // namespace gpemu::tools
