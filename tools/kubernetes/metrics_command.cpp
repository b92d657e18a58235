// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cerrno>
#include <chrono>
#include <httplib.h>
#include <memory>
#include <mutex>
#include <optional>
#include <prometheus/text_serializer.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/containers/pool_monitor.hpp"
#include "gpemu/net/address.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command.hpp"
#include "cli/interrupt.hpp"
#include "cli/remote_calls.hpp"
#include "kubernetes/gpu_metrics.hpp"
#include "kubernetes/kubernetes_commands.hpp"
#include "kubernetes/pod_devices.hpp"
#include "kubernetes/pool_options.hpp"

namespace gpemu::tools {
namespace {

struct MetricsOptions {
  std::string listen = "0.0.0.0:9400";
  std::string state = "/run/gpemu-device-plugin";
  std::string socket = "/var/lib/kubelet/pod-resources/kubelet.sock";
  std::string machine;
  double interval_s = 1;
};

/// What was found at the last look, in Prometheus' text format, for scrapes at any time.
class LastLook {
 public:
  [[nodiscard]] std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  void set(const std::vector<prometheus::MetricFamily>& metrics) {
    std::string text = prometheus::TextSerializer().Serialize(metrics);
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// Answers scrapes. (Not by prometheus-cpp's own server: the 100 KiB of its threads' stacks are too
/// few beside this program's libraries.)
class MetricsServer {
 public:
  explicit MetricsServer(const LastLook& last) {
    // As httplib's own, without SO_REUSEPORT: with it, a port that is taken could be shared.
    server_.set_socket_options([](int socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server_.set_keep_alive_max_count(1);
    server_.Get("/metrics", [&last](const httplib::Request&, httplib::Response& response) {
      response.set_content(last.text(), "text/plain; version=0.0.4; charset=utf-8");
    });
  }
  ~MetricsServer() {
    if (!thread_.joinable()) return;
    server_.stop();
    thread_.join();
  }
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// Begins to listen. Returns the port.
  Result<int> listen(const std::string& address) {
    const auto [host, wanted] = *net::parse_host_port(address, 0);
    errno = 0;
    const int port = wanted == 0                          ? server_.bind_to_any_port(host)
                     : server_.bind_to_port(host, wanted) ? wanted
                                                          : -1;
    if (port < 0) {
      return fail(ErrorCode::kIo, "--listen: cannot listen at {}: {}", address,
                  errno == 0 ? "there is no such address" : errno_message(errno));
    }
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // Until then, stop() does nothing.
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return port;
  }

 private:
  httplib::Server server_;
  std::thread thread_;
};

/// Says each thing once until it has changed.
class Complaint {
 public:
  void about(const std::optional<std::string>& what) {
    if (what && what != last_) report::print_error("gpemu-kubernetes: {}\n", *what);
    last_ = what;
  }

 private:
  std::optional<std::string> last_;
};

/// Watches the GPUs until it is interrupted.
class Watch {
 public:
  Watch(const MetricsOptions& options, LastLook& last) : options_(options), last_(last) {}

  void run(const std::atomic<bool>& stop) {
    while (!stop) {
      const auto next =
          std::chrono::steady_clock::now() + std::chrono::duration<double>(options_.interval_s);
      look();
      while (!stop && std::chrono::steady_clock::now() < next) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    }
  }

 private:
  void look() {
    if (!monitor_) {
      auto opened = containers::PoolMonitor::open(options_.state);
      if (!opened) return lose(opened.error());
      monitor_ = *std::move(opened);
    }
    const auto gpus = monitor_->look();
    if (!gpus) return lose(gpus.error());
    pool_.about(std::nullopt);
    std::vector<std::string> uuids;
    for (const containers::GpuUse& gpu : *gpus) uuids.push_back(gpu.now.uuid);
    auto holders = ask_kubelet(options_.socket, uuids);
    kubelet_.about(holders ? std::nullopt : std::optional(holders.error().message));
    if (holders) sums_.look(*gpus, *holders);
    last_.set(gpu_metrics(*gpus, holders.value_or(GpuHolders()), options_.machine));
  }

  /// There is no pool at the moment: its program may come later.
  void lose(const Error& error) {
    pool_.about(error.message);
    last_.set({});
  }

  const MetricsOptions& options_;
  LastLook& last_;
  std::optional<containers::PoolMonitor> monitor_;
  HolderSums sums_;
  Complaint pool_, kubelet_;
};

Result<void> run(const MetricsOptions& options) {
  GPEMU_TRY(check_address("--listen", options.listen, true));
  LastLook last;
  MetricsServer server(last);
  const auto port = server.listen(options.listen);
  if (!port) return std::unexpected(port.error());
  const InterruptGuard interrupt;
  report::print_error("gpemu-kubernetes: metrics at port {}\n", *port);
  Watch(options, last).run(interrupt.flag());
  return {};
}

}  // namespace

void add_metrics_command(Command kubernetes) {
  Command command = kubernetes.subcommand(
      "metrics",
      "Tells Prometheus what the GPUs of this machine do, by the names of NVIDIA's DCGM exporter, "
      "for each pod that has some. Runs beside `device-plugin` or `dra-driver`");
  const auto options = std::make_shared<MetricsOptions>();
  options->machine = host_name();
  command.option("--listen", options->listen, "ADDRESS:PORT; the path is /metrics").show_default();
  command.option("--interval", options->interval_s, "Seconds between two looks at the GPUs")
      .real_range(0.1, 3600)
      .show_default();
  command.option("--machine", options->machine, "The label Hostname").show_default();
  command.option("--state", options->state, "The folder of the containers' nodes").show_default();
  command.option("--pod-resources", options->socket, "The kubelet's socket that says who has what")
      .show_default();
  command.notes(
      "Examples:\n"
      "  gpemu-kubernetes metrics\n"
      "  gpemu-kubernetes metrics --listen 127.0.0.1:9400 --interval 10\n");
  command.on_run([options] { return run(*options); });
}

}  // namespace gpemu::tools
