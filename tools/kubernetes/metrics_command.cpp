// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/containers/pool_monitor.hpp"
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

/// What was found at the last look, for scrapes at any time.
class LastLook : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    return metrics_;
  }
  void set(std::vector<prometheus::MetricFamily> metrics) {
    const std::lock_guard lock(mutex_);
    metrics_ = std::move(metrics);
  }

 private:
  mutable std::mutex mutex_;
  std::vector<prometheus::MetricFamily> metrics_;
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
    const auto holders = ask_kubelet(options_.socket, uuids);
    kubelet_.about(holders ? std::nullopt : std::optional(holders.error().message));
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
  Complaint pool_, kubelet_;
};

Result<void> run(const MetricsOptions& options) {
  GPEMU_TRY(check_address("--listen", options.listen, true));
  const auto last = std::make_shared<LastLook>();
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(options.listen);
  } catch (const std::exception& error) {
    return fail(ErrorCode::kIo, "--listen: cannot listen at {}: {}", options.listen, error.what());
  }
  exposer->RegisterCollectable(last);
  const InterruptGuard interrupt;
  report::print_error("gpemu-kubernetes: metrics at port {}\n",
                      exposer->GetListeningPorts().front());
  Watch(options, *last).run(interrupt.flag());
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
