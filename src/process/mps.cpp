// SPDX-License-Identifier: Apache-2.0
#include "gpemu/process/mps.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "gpemu/base/file.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/mps/pipe.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/process.hpp"

#include "fatal.hpp"

namespace gpemu::process {
namespace {

/// A server answers at once, unless it is stopped or the machine is very busy.
constexpr std::chrono::seconds kAnswerTime(20);

/// A server may be killed while a process connects to it; the daemon then starts another one.
constexpr int kMostGreetings = 3;

/// The connection's descriptor and its file, for a forked child.
std::atomic<int> connection{-1};
std::atomic<ino_t> connection_inode{0};

ino_t inode_of(int descriptor) {
  struct stat status{};
  return ::fstat(descriptor, &status) == 0 ? status.st_ino : 0;
}

/// Returns what the environment allows this process.
Result<mps::Limits> own_limits(const MpsSettings& settings) {
  mps::Limits limits;
  const auto check = [](const char* name, auto value) {
    if (!value) value.error().message = fmt::format("{}: {}", name, value.error().message);
    return value;
  };
  if (settings.percentage) {
    GPEMU_ASSIGN(
        limits.active_thread_percentage,
        check("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", mps::parse_percentage(*settings.percentage)));
  }
  if (settings.memory_limits) {
    GPEMU_ASSIGN(limits.device_memory, check("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
                                             mps::parse_device_memory(*settings.memory_limits)));
  }
  const std::string priority = settings.priority.value_or("0");
  if (priority != "0" && priority != "1") {
    return fail(ErrorCode::kInvalidArgument,
                "CUDA_MPS_CLIENT_PRIORITY: expected 0 (normal) or 1 (below normal), not \"{}\"",
                priority);
  }
  return limits;
}

/// Returns this process's command line, for lists of clients.
std::string own_command() {
  std::string command = read_file("/proc/self/cmdline").value_or("");
  std::ranges::replace(command, '\0', ' ');
  while (!command.empty() && command.back() == ' ') command.pop_back();
  return command;
}

std::string own_namespace() {
  return std::to_string([] {
    struct stat status{};
    return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : ino_t{0};
  }());
}

/// Connects to a control daemon that this process can trust. A process that cannot connect runs
/// without MPS. Source: the manual page of nvidia-cuda-mps-control, "DESCRIPTION".
std::optional<mps::Channel> find_daemon(const Settings& settings) {
  // Only a node has processes that could share anything.
  if (settings.node.empty()) return std::nullopt;
  auto channel = mps::connect_to(mps::control_socket(settings.mps.pipe));
  if (!channel) {
    if (channel.error().code != ErrorCode::kNotFound) {
      tell(fmt::format("this process does not use MPS: {}", channel.error().message));
    }
    return std::nullopt;
  }
  const uid_t user = channel->peer().second;
  if (user == 0 || user == ::geteuid()) return *std::move(channel);
  tell(
      fmt::format("the MPS control daemon of {} belongs to user {}, so this process does not use "
                  "MPS; CUDA_MPS_PIPE_DIRECTORY names another daemon",
                  settings.mps.pipe.string(), user));
  return std::nullopt;
}

Status status_in(const mps::Message& message, Status fallback) {
  const auto number = message.number("status");
  return number && *number > 0 && *number <= GPEMU_CUDA_ERROR_UNKNOWN ? static_cast<Status>(*number)
                                                                      : fallback;
}

std::string reason_of(Status status) {
  switch (status) {
    case GPEMU_CUDA_ERROR_MPS_SERVER_NOT_READY:
      return "the MPS server is not ready: it waits until all clients that a fault has reached "
             "have "
             "ended, or its daemon quits";
    case GPEMU_CUDA_ERROR_MPS_MAX_CLIENTS_REACHED:
      return "the MPS server has as many clients on this GPU as it can have";
    case GPEMU_CUDA_ERROR_MPS_CLIENT_TERMINATED:
      return "the MPS server has terminated this client";
    case GPEMU_CUDA_ERROR_MPS_RPC_FAILURE:
      return "the MPS server has gone";
    case GPEMU_CUDA_ERROR_MPS_CONNECTION_FAILED:
      return "cannot connect to the MPS server";
    default:
      return fmt::format("a client of the MPS server has had a fatal error ({})",
                         static_cast<int>(status));
  }
}

}  // namespace

std::expected<std::unique_ptr<MpsMember>, MpsMember::Refusal> MpsMember::join(
    const device::Node& node, const Settings& settings) {
  const bool is_implied = device::is_side_by_side(node.policy());
  for (int attempt = 1;; ++attempt) {
    auto channel = find_daemon(settings);
    if (!channel && !is_implied) return nullptr;
    auto limits = own_limits(settings.mps);
    if (!limits) {
      return std::unexpected(
          Refusal{.status = GPEMU_CUDA_ERROR_INVALID_VALUE, .message = limits.error().message});
    }
    auto member = std::make_unique<MpsMember>(*std::move(limits));
    if (!channel) return member;
    member->channel_ = *std::move(channel);
    if (auto refusal = member->greet(node, settings)) {
      if (refusal->tries_again && attempt < kMostGreetings) continue;
      return std::unexpected(*std::move(refusal));
    }
    if (!member->channel_.valid()) return is_implied ? std::move(member) : nullptr;
    if (is_implied || device::uses_time_slices(node.policy())) return member;
    return std::unexpected(
        Refusal{.status = GPEMU_CUDA_ERROR_NOT_SUPPORTED,
                .message = fmt::format("MPS is not supported on the GPUs of node '{}', which are "
                                       "not shared by time slices: see `gpemu node create "
                                       "--sharing`",
                                       node.name())});
  }
}

/// Introduces this process to the daemon and then to its server. Returns why it was refused. If the
/// daemon is that of another node, closes the connection.
std::optional<MpsMember::Refusal> MpsMember::greet(const device::Node& node,
                                                   const Settings& settings) {
  const mps::Message hello{
      .kind = "hello",
      .values = {{"pid", std::to_string(::getpid())},
                 {"command", own_command()},
                 {"namespace", own_namespace()},
                 {"machine", mps::machine_key(node.place_of_clock().first, settings.devices)},
                 {"percentage", fmt::format("{}", limits_.active_thread_percentage)},
                 {"memory", mps::device_memory_text(limits_.device_memory)}},
      .text = {}};
  std::optional<std::chrono::milliseconds> time = kAnswerTime;
  auto received =
      channel_.send(hello)
          ? channel_.receive(time)
          : Result<mps::Channel::Received>(fail(ErrorCode::kUnavailable, "the daemon has gone"));
  if (received && received->message.kind == "wait") received = channel_.receive();
  if (!received) {
    return Refusal{.message = fmt::format("cannot connect to the MPS control daemon of {}: {}",
                                          settings.mps.pipe.string(), received.error().message),
                   .tries_again = received.error().code == ErrorCode::kUnavailable};
  }
  const mps::Message& message = received->message;
  if (message.kind == "elsewhere") {
    tell(
        fmt::format("the MPS control daemon of {} belongs to another node, so this process does "
                    "not use MPS; CUDA_MPS_PIPE_DIRECTORY names another daemon",
                    settings.mps.pipe.string()));
    channel_.close();
    return std::nullopt;
  }
  if (message.kind != "welcome") {
    const Status status = status_in(message, GPEMU_CUDA_ERROR_MPS_CONNECTION_FAILED);
    return Refusal{.status = status, .message = reason_of(status)};
  }
  server_ =
      static_cast<std::uint64_t>(std::max<std::int64_t>(message.number("server").value_or(1), 1));
  limits_ = limits_.tightened(
      {.active_thread_percentage = mps::parse_percentage(message.value("percentage")).value_or(100),
       .device_memory = mps::parse_device_memory(message.value("memory"))
                            .value_or(std::map<std::string, Bytes>())});
  if (message.values.contains("devices")) devices_ = message.value("devices");
  connection_inode = inode_of(channel_.descriptor());
  connection = channel_.descriptor();
  return std::nullopt;
}

device::MpsClient MpsMember::client_on(const DeviceState& device, int multiprocessors) const {
  const auto width = static_cast<std::uint64_t>(device::kWholeWidth) *
                     static_cast<std::uint64_t>(device.info.multiprocessors) /
                     static_cast<std::uint64_t>(multiprocessors);
  const Bytes memory = limits_.memory_of(device.mps_number, device.uuid);
  device::MpsClient client{.server = server_,
                           .width = std::clamp(static_cast<std::uint32_t>(width), std::uint32_t{1},
                                               device::kWholeWidth)};
  if (memory < device.info.total_memory) client.memory = memory;
  return client;
}

void MpsMember::start() {
  if (!channel_.valid()) return;
  std::thread thread = start_thread("gpemu mps", [this] { follow(); });
  if (thread.joinable()) {
    thread.detach();
  } else {
    tell("cannot start a thread that follows the MPS server");
    answer(GPEMU_CUDA_ERROR_MPS_CONNECTION_FAILED);
  }
}

/// Reads what the server sends, until it ends.
void MpsMember::follow() {
  while (true) {
    const auto received = channel_.receive();
    if (!received) break;
    const mps::Message& message = received->message;
    if (message.kind == "granted") answer(GPEMU_CUDA_SUCCESS);
    if (message.kind == "refused") {
      answer(status_in(message, GPEMU_CUDA_ERROR_MPS_MAX_CLIENTS_REACHED));
    }
    if (message.kind != "end") continue;
    const Status status = status_in(message, GPEMU_CUDA_ERROR_MPS_RPC_FAILURE);
    if (end_all_contexts(status)) tell(reason_of(status));
  }
  {
    const Lock lock(mutex_);
    has_ended_ = true;
    answered_.notify_all();
  }
  if (end_all_contexts(GPEMU_CUDA_ERROR_MPS_RPC_FAILURE)) {
    tell(reason_of(GPEMU_CUDA_ERROR_MPS_RPC_FAILURE));
  }
}

void MpsMember::answer(Status status) {
  const Lock lock(mutex_);
  answer_ = status;
  answered_.notify_all();
}

Status MpsMember::enter(const DeviceState& device) {
  if (!channel_.valid()) return GPEMU_CUDA_SUCCESS;
  Lock lock(mutex_);
  answer_.reset();
  const mps::Message question{
      .kind = "context",
      .values = {{"uuid", device.uuid},
                 {"most_clients", std::to_string(device.spec.generation.mps_clients)},
                 {"number", std::to_string(device.mps_number)},
                 {"name", device.spec.product_name}},
      .text = {}};
  if (has_ended_ || !channel_.send(question)) return GPEMU_CUDA_ERROR_MPS_RPC_FAILURE;
  answered_.wait_for(lock, kAnswerTime,
                     [this]() GPEMU_REQUIRES(mutex_) { return answer_ || has_ended_; });
  return answer_.value_or(GPEMU_CUDA_ERROR_MPS_RPC_FAILURE);
}

void MpsMember::report(Status status) {
  if (!channel_.valid()) return;
  // If the server has gone, there is nobody left to tell.
  static_cast<void>(channel_.send({.kind = "fault",
                                   .values = {{"status", std::to_string(static_cast<int>(status))}},
                                   .text = {}}));
}

void close_mps_in_child() {
  const int descriptor = connection;
  // Programs close descriptors that they did not open, so it may be another file by now.
  if (descriptor >= 0 && inode_of(descriptor) == connection_inode) ::close(descriptor);
}

}  // namespace gpemu::process
