// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/mps/channel.hpp"
#include "gpemu/mps/limits.hpp"
#include "gpemu/process/device_state.hpp"
#include "gpemu/process/settings.hpp"
#include "gpemu/process/status.hpp"

namespace gpemu::process {

/// This process as a client of an MPS server: either of one to which it is connected, or, on a node
/// whose policy is kMps, of one that does nothing but let its clients run side by side.
///
/// Thread safety: any thread. Never destroyed once the process has attached.
class MpsMember {
 public:
  struct Refusal {
    Status status = GPEMU_CUDA_ERROR_MPS_CONNECTION_FAILED;
    std::string message;
    bool tries_again = false;  ///< the connection has ended before the server said anything.
  };

  /// Connects to the control daemon of this process's node, as CUDA does when it is initialised.
  /// Returns null if there is none, and the node's policy is not kMps. Blocks while the server of
  /// another user is active.
  [[nodiscard]] static std::expected<std::unique_ptr<MpsMember>, Refusal> join(
      const device::Node& node, const Settings& settings);

  explicit MpsMember(mps::Limits limits) : limits_(std::move(limits)) {}

  [[nodiscard]] double percentage() const { return limits_.active_thread_percentage; }
  /// The daemon's CUDA_VISIBLE_DEVICES, if it has one.
  [[nodiscard]] const std::optional<std::string>& devices() const { return devices_; }
  /// Returns how the process is a client on a device of which it uses so many multiprocessors.
  [[nodiscard]] device::MpsClient client_on(const DeviceState& device, int multiprocessors) const;

  /// From now on, follows what the server says. Requires: the process's devices are known.
  void start();
  /// Asks for a context on a device. Errors: MPS_MAX_CLIENTS_REACHED, MPS_RPC_FAILURE.
  [[nodiscard]] Status enter(const DeviceState& device) GPEMU_EXCLUDES(mutex_);
  /// Tells the server of a fatal error.
  void report(Status status);

 private:
  [[nodiscard]] std::optional<Refusal> greet(const device::Node& node, const Settings& settings);
  void follow();
  void answer(Status status) GPEMU_EXCLUDES(mutex_);

  mps::Limits limits_;
  std::uint64_t server_ = device::MpsClient{}.server;
  std::optional<std::string> devices_;
  mps::Channel channel_;  ///< not valid without a server to which it is connected.
  Mutex mutex_;
  Condition answered_;
  std::optional<Status> answer_ GPEMU_GUARDED_BY(mutex_);  ///< to the last question.
  bool has_ended_ GPEMU_GUARDED_BY(mutex_) = false;        ///< the connection.
};

/// After a fork, closes the child's copy of the connection: a server notices the end of its client
/// when all copies are closed. Async-signal-safe.
void close_mps_in_child();

}  // namespace gpemu::process
