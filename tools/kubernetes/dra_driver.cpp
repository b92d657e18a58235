// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/dra_driver.hpp"

#include <chrono>
#include <dra.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <plugin_registration.grpc.pb.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kubernetes/claim_preparer.hpp"
#include "kubernetes/xid_events.hpp"

namespace gpemu::tools {
namespace {

namespace dra = k8s::io::kubelet::pkg::apis::dra::v1;
using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only.
using Log = std::function<void(const std::string&)>;

constexpr auto kHealthPeriod = 500ms;
/// How often it looks whether the API server still has the GPUs.
constexpr auto kPublishPeriod = 10s;
/// For how long it looks all the time when the kubelet has found the driver: a kubelet that starts
/// removes what drivers of its node have published.
constexpr auto kRemovedWithin = 30s;
constexpr auto kCallsEndTime = 1s;

/// What the kubelet calls to prepare claims, from several threads.
class Plugin final : public dra::DRAPlugin::Service {
 public:
  Plugin(ClaimPreparer& preparer, Log log) : preparer_(preparer), log_(std::move(log)) {}

  grpc::Status NodePrepareResources(grpc::ServerContext* /*context*/,
                                    const dra::NodePrepareResourcesRequest* request,
                                    dra::NodePrepareResourcesResponse* response) override {
    for (const dra::Claim& claim : request->claims()) {
      dra::NodePrepareResourceResponse& answer = (*response->mutable_claims())[claim.uid()];
      const auto devices = preparer_.prepare(
          {.name_space = claim.namespace_(), .name = claim.name(), .uid = claim.uid()});
      if (!devices) {
        answer.set_error(devices.error().message);
        log_(fmt::format("claim {}/{}: {}", claim.namespace_(), claim.name(),
                         devices.error().message));
        continue;
      }
      std::string names;
      for (const PreparedDevice& device : *devices) {
        dra::Device& entry = *answer.add_devices();
        entry.add_request_names(device.request);
        entry.set_pool_name(device.pool);
        entry.set_device_name(device.device);
        entry.add_cdi_device_ids(device.cdi);
        names += ' ' + device.device;
      }
      log_(fmt::format("claim {}/{} has{}", claim.namespace_(), claim.name(), names));
    }
    return grpc::Status::OK;
  }

  grpc::Status NodeUnprepareResources(grpc::ServerContext* /*context*/,
                                      const dra::NodeUnprepareResourcesRequest* request,
                                      dra::NodeUnprepareResourcesResponse* response) override {
    for (const dra::Claim& claim : request->claims()) {
      dra::NodeUnprepareResourceResponse& answer = (*response->mutable_claims())[claim.uid()];
      const auto done = preparer_.unprepare(claim.uid());
      if (!done) answer.set_error(done.error().message);
      log_(fmt::format("claim {}/{} {}", claim.namespace_(), claim.name(),
                       done ? "is given back" : done.error().message));
    }
    return grpc::Status::OK;
  }

 private:
  ClaimPreparer& preparer_;
  Log log_;
};

using Clock = std::chrono::steady_clock;

/// What the kubelet calls when it finds the driver's socket.
class Registration final : public pluginregistration::Registration::Service {
 public:
  Registration(std::string driver, std::string endpoint, Log log)
      : driver_(std::move(driver)), endpoint_(std::move(endpoint)), log_(std::move(log)) {}

  grpc::Status GetInfo(grpc::ServerContext* /*context*/,
                       const pluginregistration::InfoRequest* /*request*/,
                       pluginregistration::PluginInfo* info) override {
    info->set_type("DRAPlugin");
    info->set_name(driver_);
    info->set_endpoint(endpoint_);
    info->add_supported_versions("v1.DRAPlugin");
    return grpc::Status::OK;
  }

  grpc::Status NotifyRegistrationStatus(
      grpc::ServerContext* /*context*/, const pluginregistration::RegistrationStatus* status,
      pluginregistration::RegistrationStatusResponse* /*response*/) override {
    log_(status->plugin_registered()
             ? fmt::format("the kubelet knows the driver {}", driver_)
             : fmt::format("the kubelet refuses the driver {}: {}", driver_, status->error()));
    if (status->plugin_registered()) found_ = Clock::now().time_since_epoch();
    return grpc::Status::OK;
  }

  /// Returns when the kubelet has found the driver last; the epoch if it has not.
  [[nodiscard]] Clock::time_point found() const { return Clock::time_point(found_.load()); }

 private:
  std::string driver_, endpoint_;
  Log log_;
  std::atomic<Clock::duration> found_{};
};

/// A socket on which a service listens, and which is made anew if its file is removed.
class Socket {
 public:
  Socket(std::filesystem::path path, grpc::Service& service)
      : path_(std::move(path)), service_(service) {}
  ~Socket() { close(); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  Result<void> keep() {
    std::error_code error;
    if (server_ && std::filesystem::exists(path_, error)) return {};
    close();
    std::filesystem::create_directories(path_.parent_path(), error);
    if (error) return fail(ErrorCode::kIo, "{}: {}", path_.parent_path().string(), error.message());
    std::filesystem::remove(path_, error);  // One that was killed has left it.
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix://" + path_.string(), grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_) return {};
    return fail(ErrorCode::kIo, "cannot listen at {}", path_.string());
  }

 private:
  void close() {
    if (!server_) return;
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
    server_->Shutdown(std::chrono::system_clock::now() + kCallsEndTime);
    server_.reset();
  }

  std::filesystem::path path_;
  grpc::Service& service_;
  std::unique_ptr<grpc::Server> server_;
};

/// Keeps the API server's picture of the GPUs as they are.
class Publisher {
 public:
  Publisher(const DraDriverOptions& options, ApiServer server, const containers::GpuPool& pool,
            ClaimPreparer& preparer, Log log)
      : options_(options), server_(std::move(server)), preparer_(preparer), log_(std::move(log)) {
    for (int gpu = 0; gpu < pool.machine().device_count(); ++gpu) {
      gpus_.push_back(pool.machine().device_snapshot(gpu, TimePoint{}));
    }
    if (options.slice.mig.empty()) slices_.emplace_back(server_, options.slice);
    for (std::size_t gpu = 0; gpu < gpus_.size() && !options.slice.mig.empty(); ++gpu) {
      slices_.emplace_back(server_, options.slice, device_name(gpu));
    }
    lost_.assign(gpus_.size(), false);
  }

  /// Call it every kHealthPeriod. `found`: when the kubelet has found the driver. Until then,
  /// nothing is published: a pod whose claim the kubelet cannot prepare waits for a minute.
  void look(Clock::time_point found) {
    bool changed = false;
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      const bool lost = !preparer_.is_healthy(gpu);
      if (lost == lost_[gpu]) continue;
      lost_[gpu] = lost;
      changed = true;
      log_(fmt::format("GPU {} is {}", gpu, lost ? "lost" : "back"));
    }
    if (found == Clock::time_point()) return;
    const auto now = Clock::now();
    if (!changed && now < next_ && now > found + kRemovedWithin) return;
    const auto done = publish();
    next_ = done ? now + kPublishPeriod : now;
    if (done && *done) log_(fmt::format("published {} GPUs", gpus_.size()));
    const std::string fault = done ? "" : done.error().message;
    if (!fault.empty() && fault != fault_) log_(fault);
    fault_ = fault;
  }

  void end() {
    for (PublishedSlice& slice : slices_) {
      if (const auto done = slice.remove(); !done) log_(done.error().message);
    }
  }

 private:
  /// Returns whether the API server had something else.
  Result<bool> publish() {
    const SliceOptions& options = options_.slice;
    if (options.mig.empty()) {
      return slices_.front().publish(devices_of(gpus_, lost_, options));
    }
    bool changed = false;
    for (std::size_t gpu = 0; gpu < gpus_.size(); ++gpu) {
      GPEMU_ASSIGN(const bool one,
                   slices_[gpu].publish(mig_devices_of(gpus_[gpu], gpu, lost_[gpu], options),
                                        counters_of(gpu, options)));
      changed = changed || one;
    }
    return changed;
  }

  const DraDriverOptions& options_;
  ApiServer server_;
  ClaimPreparer& preparer_;
  Log log_;
  std::vector<PublishedSlice> slices_;  ///< one, or one for each GPU.
  std::vector<device::DeviceSnapshot> gpus_;
  std::vector<bool> lost_;
  Clock::time_point next_;
  std::string fault_;  ///< the last one that was logged, unless it is over.
};

}  // namespace

Result<void> serve_claims(const DraDriverOptions& options, const ApiAccess& access,
                          containers::GpuPool& pool, const std::atomic<bool>& stop,
                          const Log& log) {
  GPEMU_ASSIGN(ApiServer for_claims, ApiServer::create(access));
  GPEMU_ASSIGN(ApiServer for_slices, ApiServer::create(access));
  GPEMU_ASSIGN(ApiServer for_events, ApiServer::create(access));
  XidEvents xids(std::move(for_events), options.slice.node);
  ClaimPreparer preparer(
      {.driver = options.slice.driver, .division = options.division, .cdi = options.cdi},
      std::move(for_claims), pool);
  const std::string& driver = options.slice.driver;
  const std::filesystem::path endpoint = options.kubelet / "plugins" / driver / "dra.sock";
  Plugin plugin(preparer, log);
  Registration registration(driver, endpoint.string(), log);
  Publisher publisher(options, std::move(for_slices), pool, preparer, log);
  // A kubelet that starts looks for sockets itself.
  Socket served(endpoint, plugin);
  std::string fault;  // The last one that was logged.
  Socket found(options.kubelet / "plugins_registry" / (driver + "-reg.sock"), registration);
  while (!stop) {
    GPEMU_TRY(served.keep());
    GPEMU_TRY(found.keep());
    publisher.look(registration.found());
    const auto told = xids.look(pool.machine());
    const std::string now = told ? "" : told.error().message;
    if (!now.empty() && now != fault) log(now);
    fault = now;
    std::this_thread::sleep_for(kHealthPeriod);
  }
  publisher.end();
  return {};
}

}  // namespace gpemu::tools
