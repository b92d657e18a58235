// SPDX-License-Identifier: Apache-2.0
//
// Takes part in a node on command, for tests that stop it, kill it, or run it in other namespaces
// or as other users. On an error, prints the message and ends with the command's exit code.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/device/device.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::device {
namespace {

constexpr std::string_view kUsage =
    "usage: node_actor create NODE MIB fifo|exclusive OCTAL_MODE   make a node that stays\n"
    "       node_actor hold NODE MIB    take memory and keep it until killed\n"
    "       node_actor take NODE MIB    take memory, compute 1 ms, give it back\n"
    "       node_actor crowd NODE       take all places of the node and keep them until killed\n"
    "       node_actor work NODE SEED   attach, then take and queue, for ever\n"
    "       node_actor churn NODE SEED  attach, take, queue and detach, for ever\n";

Bytes number(std::string_view text, int base = 10) {
  Bytes value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

Result<void> create(std::string_view name, Bytes bytes, std::string_view policy, mode_t mode) {
  const NodeConfig config{
      .name = std::string(name),
      .devices = {{.gpu = "V100-PCIE-32GB", .memory_bytes = bytes, .max_power_w = 250}},
      .compute_mode =
          policy == "exclusive" ? ComputeMode::kExclusiveProcess : ComputeMode::kDefault,
      .mode = mode};
  GPEMU_TRY(Node::create(config));
  return {};
}

Result<void> hold(std::string_view name, Bytes bytes, bool keep) {
  sim::RealClock clock;
  GPEMU_ASSIGN(auto node, Node::open(name));
  GPEMU_ASSIGN(const auto device, Device::open(std::move(node), 0, clock));
  GPEMU_TRY(device->allocate(bytes));
  device->default_stream().launch(std::chrono::milliseconds(1));
  device->synchronize();
  fmt::print("holds\n");
  std::fflush(stdout);
  if (!keep) return {};
  while (true) ::pause();
}

Result<void> crowd(std::string_view name) {
  std::vector<std::shared_ptr<Node>> places;
  while (auto node = Node::open(name)) places.push_back(*std::move(node));
  fmt::print("holds {}\n", places.size());
  std::fflush(stdout);
  while (true) ::pause();
}

/// Failures here are due to resources that others hold, so it continues.
void work_once(Device& device, sim::Rng& rng) {
  for (std::uint64_t i = rng.below(20); i > 0; --i) {
    const auto address = device.allocate((1 + rng.below(64)) * kMiB);
    device.default_stream().launch(std::chrono::microseconds(rng.below(100)));
    if (address && rng.below(2) == 0) static_cast<void>(device.free(*address));
  }
  device.synchronize();
}

Result<void> work(std::string_view name, sim::Rng& rng, sim::Clock& clock) {
  GPEMU_ASSIGN(auto node, Node::open(name));
  GPEMU_ASSIGN(const auto device, Device::open(std::move(node), 0, clock));
  while (true) work_once(*device, rng);
}

void churn_once(std::string_view name, sim::Rng& rng, sim::Clock& clock) {
  auto node = Node::open(name);
  if (!node) return;
  const auto device = Device::open(*std::move(node), 0, clock);
  if (!device) return;
  work_once(**device, rng);
}

Result<void> act(std::span<char*> words) {
  const std::string_view action = words.size() > 1 ? words[1] : "";
  if (action == "create" && words.size() == 6) {
    return create(words[2], number(words[3]) * kMiB, words[4],
                  static_cast<mode_t>(number(words[5], 8)));
  }
  if ((action == "hold" || action == "take") && words.size() == 4) {
    return hold(words[2], number(words[3]) * kMiB, action == "hold");
  }
  if (action == "crowd" && words.size() == 3) return crowd(words[2]);
  if ((action != "churn" && action != "work") || words.size() != 4) {
    return fail(ErrorCode::kInvalidArgument, "{}", kUsage);
  }
  sim::Rng rng(number(words[3]));
  sim::RealClock clock;
  if (action == "work") return work(words[2], rng, clock);
  while (true) churn_once(words[2], rng, clock);
}

}  // namespace
}  // namespace gpemu::device

int main(int count, char** words) {
  gpemu::device::end_when_cut_short();
  const gpemu::Result<void> result = gpemu::device::act({words, static_cast<std::size_t>(count)});
  if (result) return 0;
  fmt::print(stderr, "{}\n", result.error().message);
  return gpemu::exit_code(result.error().code);
}
