// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/communicator.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/process/attach.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/peer.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/mover.hpp"
#include "gpemu/streams/waits.hpp"
#include "gpemu/topology/collective.hpp"
#include "gpemu/topology/network.hpp"
#include "gpemu/topology/traffic.hpp"

namespace gpemu::ranks {
namespace {

std::string_view gpu_of(const Member& member) {
  return {member.gpu.data(), ::strnlen(member.gpu.data(), member.gpu.size())};
}

/// Returns the members on this rank's host.
std::vector<Member> neighbours(const Communicator::Parts& parts) {
  std::vector<Member> found = parts.members;
  const std::uint64_t own = found[static_cast<std::size_t>(parts.place.rank)].computer;
  std::erase_if(found, [own](const Member& member) { return member.computer != own; });
  return found;
}

/// Returns the slowest link that joins this rank to another one of its host. As all ranks of a kind
/// of GPU have the same links, and others have none, it is that of a ring through all.
topology::LinkClass slowest_link(const process::DeviceState& device,
                                 std::span<const Member> members) {
  auto slowest = topology::LinkClass::kNvlink;
  for (const Member& member : members) {
    if (member.device == device.index) continue;
    slowest = std::max(slowest, process::peer_path(device, gpu_of(member), member.device).link);
  }
  return slowest;
}

/// Returns what joins `ranks` ranks of this rank's host.
topology::Fabric fabric_within(const Communicator::Parts& parts, int ranks) {
  const process::DeviceState& device = *parts.device;
  const std::vector<Member> members = neighbours(parts);
  if (device.machine != nullptr) {
    std::vector<int> gpus;
    for (const Member& member : members) gpus.push_back(member.device);
    if (auto fabric = topology::fabric_of(*device.machine, device.spec, gpus)) {
      fabric->ranks = ranks;
      return *fabric;
    }
  }
  return topology::fabric_of(device.spec, ranks, slowest_link(device, members));
}

/// Returns what joins the ranks. If hosts have different numbers of them, all have as many as the
/// one with the most.
topology::Fabric fabric_between(const Communicator::Parts& parts) {
  std::map<std::uint64_t, int> ranks_of_host;
  int most = 0;
  for (const Member& member : parts.members) {
    most = std::max(most, ++ranks_of_host[member.computer]);
  }
  const topology::Fabric host = fabric_within(parts, most);
  if (ranks_of_host.size() == 1) return host;
  // Ranks of several hosts do not meet without a network.
  return topology::across(host, static_cast<int>(ranks_of_host.size()),
                          process::process().settings->network.value());
}

topology::Collective collective_of(gpemu_cuda_collective kind) {
  using topology::Collective;
  switch (kind) {
    case GPEMU_CUDA_ALL_REDUCE:
      return Collective::kAllReduce;
    case GPEMU_CUDA_REDUCE_SCATTER:
      return Collective::kReduceScatter;
    case GPEMU_CUDA_ALL_GATHER:
      return Collective::kAllGather;
    case GPEMU_CUDA_ALL_TO_ALL:
      return Collective::kAllToAll;
    case GPEMU_CUDA_GATHER:
    case GPEMU_CUDA_SCATTER:
      return Collective::kGather;
    case GPEMU_CUDA_REDUCE:
      return Collective::kReduce;
    case GPEMU_CUDA_BROADCAST:
      return Collective::kBroadcast;
    case GPEMU_CUDA_SEND:
    case GPEMU_CUDA_RECEIVE:
      break;
  }
  return Collective::kSendReceive;
}

/// Returns what a host sends to the next one.
topology::Traffic traffic_from(int host, const Communicator& communicator,
                               const CollectiveCall& call) {
  const topology::Fabric& fabric = communicator.fabric();
  const HostRing& hosts = communicator.hosts();
  const topology::RingPlace place{.computer = host,
                                  .root_computer = hosts.host_of(call.root),
                                  .root_rank = hosts.place_on_host(call.root)};
  const Bytes bytes = collective_bytes(call, communicator.place().ranks);
  if (call.kind == GPEMU_CUDA_GATHER) return topology::traffic_of_gather(fabric, bytes, place);
  if (call.kind == GPEMU_CUDA_SCATTER) return topology::traffic_of_scatter(fabric, bytes, place);
  const topology::Collective collective = collective_of(call.kind);
  return topology::traffic_of(fabric, collective, bytes,
                              topology::choose(fabric, collective, bytes), place);
}

/// Returns what faults leave of the rate of the slowest link between a communicator's ranks.
double slowest_link_share(const Communicator& communicator) {
  const process::DeviceState& device = communicator.device();
  double share = 1;
  if (!device.has_faults) return share;
  for (const Member& one : communicator.members()) {
    for (const Member& other : communicator.members()) {
      // A network joins hosts.
      if (one.device == other.device || one.computer != other.computer) continue;
      const auto link = communicator.fabric().inside;
      share = std::min(share, process::link_share(one.device, other.device, link));
    }
  }
  return share;
}

/// Returns the processes that have not been woken since they were found. Wakes this one.
std::vector<std::uint64_t> to_ring(std::span<const Communicator::Awaiting> processes) {
  std::vector<std::uint64_t> others;
  if (processes.empty()) return others;
  device::Node& node = *process::process().node;
  for (const Communicator::Awaiting& one : processes) {
    if (one.identity == node.identity()) {
      streams::mover().look_again();
    } else if (node.bells().times_rung(one.identity) == one.rung) {
      others.push_back(one.identity);
    }
  }
  return others;
}

}  // namespace

process::Status check_links(const Communicator& communicator) {
  process::DeviceState& device = communicator.device();
  if (!device.has_faults || communicator.fabric().inside != topology::LinkClass::kNvlink) {
    return GPEMU_CUDA_SUCCESS;
  }
  const Member& own =
      communicator
          .members()[static_cast<std::size_t>(communicator.model_of(communicator.place().rank))];
  for (const Member& other : communicator.members()) {
    if (other.device == device.index || other.computer != own.computer) continue;
    GPEMU_CUDA_TRY(process::check_nvlink(device, other.device));
  }
  return GPEMU_CUDA_SUCCESS;
}

HostRing hosts_of(const std::vector<Member>& members) {
  std::vector<std::uint64_t> computers;
  for (const Member& member : members) computers.push_back(member.computer);
  return HostRing(computers);
}

CollectiveCost cost_of(const Communicator& communicator, const CollectiveCall& call, Bytes moved) {
  const topology::Fabric& fabric = communicator.fabric();
  const topology::Collective collective = collective_of(call.kind);
  const Bytes bytes = std::max(moved, collective_bytes(call, communicator.place().ranks));
  if (!communicator.crosses_network()) {
    return {
        .time = topology::time_of(fabric, collective, bytes, slowest_link_share(communicator)).time,
        .transfer = {},
        .work = communicator.work_of(call)};
  }
  const HostRing& hosts = communicator.hosts();
  const int own = hosts.host_of(communicator.place().rank);
  const topology::Traffic sent = traffic_from(own, communicator, call);
  const topology::Traffic received = traffic_from(hosts.previous(own), communicator, call);
  return {.time = topology::time_beside_network(fabric, collective, bytes,
                                                topology::choose(fabric, collective, bytes)),
          .transfer = {.sent = sent.sent, .own = sent.own, .received = received.sent},
          .work = communicator.work_of(call)};
}

double tuner_seconds(const Communicator& communicator, const CollectiveCall& call) {
  return topology::choose(communicator.fabric(), collective_of(call.kind),
                          collective_bytes(call, communicator.place().ranks))
      .expected_s;
}

double bus_factor_of(gpemu_cuda_collective kind, int ranks) {
  return topology::bus_factor(collective_of(kind), ranks);
}

Communicator::Communicator(Parts parts)
    : parts_(std::move(parts)),
      hosts_(hosts_of(parts_.members)),
      fabric_(parts_.fabric ? *parts_.fabric : fabric_between(parts_)) {
  process::expect_collectives();
}

Communicator::~Communicator() {
  if (parts_.wire) carrier().remove(*parts_.wire);
}

bool Communicator::crosses_network() const {
  const auto& network = process::process().settings->network;
  return hosts_.size() > 1 && network && network->is_real;
}

process::Status Communicator::begin(std::uint64_t* number) {
  if (is_aborted()) return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
  const Lock lock(mutex_);
  if (!mailbox().has_room(next_number_)) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  *number = next_number_++;
  return GPEMU_CUDA_SUCCESS;
}

Result<device::Moment> Communicator::queue_round(
    device::Stream& stream, const CollectiveCost& cost,
    std::function<void(const device::RoundTimes&)> observer) {
  if (!crosses_network()) {
    return parts_.rendezvous->arrive(stream, cost.time, std::move(observer), cost.work);
  }
  device::Rendezvous::Begin begin;
  if (parts_.wire) {
    begin = [this, transfer = cost.transfer](const device::RoundTimes& times,
                                             const device::OpenEnd& outside) {
      carrier().carry(*parts_.wire, times.start, transfer,
                      [this, outside, earliest = times.end](bool is_through) {
                        // As on a GPU whose peer is gone, the collective does not end.
                        if (!is_through) return lose_network();
                        outside.end(earliest);
                      });
    };
  }
  return parts_.rendezvous->arrive_open(stream, cost.time, std::move(begin), std::move(observer),
                                        cost.work);
}

void Communicator::lose_network() {
  if (is_aborted() || is_cut_.exchange(true)) return;
  const int host = hosts_.host_of(place().rank);
  process::tell(fmt::format("rank {} of {}: a connection to the host of rank {} or {} has ended",
                            place().rank, place().ranks, hosts_.first_rank(hosts_.previous(host)),
                            hosts_.first_rank(hosts_.next(host))));
  static_cast<void>(note(GPEMU_CUDA_ERROR_NOT_FOUND));
}

process::Status Communicator::arrive(device::Stream& stream, const CollectiveCost& cost,
                                     std::function<void(const device::RoundTimes&)> observer,
                                     device::Moment* end) {
  if (is_cut_) return GPEMU_CUDA_ERROR_NOT_FOUND;
  std::string message;
  {
    const Lock lock(mutex_);
    auto arrived = queue_round(stream, cost, std::move(observer));
    if (arrived) {
      last_ = *arrived;
      *end = *std::move(arrived);
      return GPEMU_CUDA_SUCCESS;
    }
    message = std::move(arrived.error().message);
  }
  if (is_aborted()) return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
  process::tell(fmt::format("rank {} of {}: {}", place().rank, place().ranks, message));
  return GPEMU_CUDA_ERROR_NOT_FOUND;
}

std::vector<Communicator::Awaiting> Communicator::awaiting(std::uint64_t number) const {
  std::vector<Awaiting> processes;
  for (int rank = 0; rank < real_ranks(); ++rank) {
    if (!mailbox().is_awaited_by(rank, number)) continue;
    const std::uint64_t identity = members()[static_cast<std::size_t>(rank)].identity;
    processes.push_back({identity, process::process().node->bells().times_rung(identity)});
  }
  return processes;
}

void Communicator::ring(std::span<const Awaiting> processes) {
  process::process().node->bells().ring(to_ring(processes));
}

void Communicator::ring_soon(std::span<const Awaiting> processes) {
  process::process().node->bells().ring_soon(to_ring(processes));
}

std::vector<std::shared_ptr<Communicator>> Communicator::pairs() const {
  std::vector<std::shared_ptr<Communicator>> kept;
  const Lock lock(mutex_);
  for (const auto& [ranks, pair] : pairs_) kept.push_back(pair);
  return kept;
}

void Communicator::abort() {
  aborted_.store(true, std::memory_order_release);
  static_cast<void>(parts_.rendezvous->abort());
  if (parts_.wire) carrier().remove(*parts_.wire);
  for (const auto& pair : pairs()) pair->abort();
  streams::mover().look_again();
}

void Communicator::finalize() {
  device::Moment last;
  {
    const Lock lock(mutex_);
    last = last_;
  }
  for (const auto& pair : pairs()) pair->finalize();
  if (is_aborted()) return;
  // Nothing tells the thread that waits when the network is cut.
  constexpr Duration kBetweenLooks = std::chrono::milliseconds(100);
  Result<void> ended;
  do {
    if (is_cut_ || process::is_lost(device())) return abort();
    ended = parts_.rendezvous->wait(
        last, crosses_network() ? kBetweenLooks : process::time_to_loss(device()));
  } while (!ended && ended.error().code == ErrorCode::kNotReady);
  if (!ended) {
    process::tell(
        fmt::format("rank {} of {}: {}", place().rank, place().ranks, ended.error().message));
    return abort();
  }
  streams::wait_for_moves(last.time());
}

process::Status Communicator::note(process::Status status) {
  const Lock lock(mutex_);
  if (error_ == GPEMU_CUDA_SUCCESS) error_ = status;
  return status;
}

process::Status Communicator::error() const {
  const Lock lock(mutex_);
  return error_;
}

std::uint64_t Communicator::next_division() {
  const Lock lock(mutex_);
  return divisions_++;
}

std::uint64_t Communicator::next_without(const std::set<int>& excluded) {
  const Lock lock(mutex_);
  return without_[excluded]++;
}

Result<void> Communicator::open_meetings() {
  const Lock lock(mutex_);
  if (has_meetings_) return {};
  GPEMU_ASSIGN(const Meeting::Id id, Meeting::open());
  Mailbox::Notice notice{};
  static_assert(sizeof(id) <= sizeof(notice));
  std::memcpy(notice.data(), &id, sizeof(id));
  mailbox().show(notice);
  has_meetings_ = true;
  return {};
}

device::RoundWork Communicator::work_of(const CollectiveCall& call) const {
  const int ranks = place().ranks;
  if (ranks == 1 || !call_fits(call, ranks)) return {};
  const bool is_transfer = call.kind == GPEMU_CUDA_SEND || call.kind == GPEMU_CUDA_RECEIVE;
  const topology::Steps steps =
      topology::steps_of(fabric(), collective_of(call.kind), collective_bytes(call, ranks),
                         call.kind == GPEMU_CUDA_SEND);
  std::uint64_t pattern = is_transfer ? GPEMU_CUDA_SEND : call.kind;
  pattern = pattern * static_cast<std::uint64_t>(ranks) + static_cast<std::uint64_t>(call.root);
  pattern =
      pattern * topology::kAlgorithmNames.size() + static_cast<std::uint64_t>(steps.algorithm);
  pattern = pattern * topology::kProtocolNames.size() + static_cast<std::uint64_t>(steps.protocol);
  return {.pattern = pattern, .width = steps.channels, .gives = steps.gives, .needs = steps.needs};
}

void Communicator::tell_mismatch(const CollectiveCall& own, int other_rank,
                                 const CollectiveCall& other) {
  const bool own_ends = work_of(own).ends_beside(work_of(other));
  const bool other_ends = work_of(other).ends_beside(work_of(own));
  if (has_told_.exchange(true)) return;
  std::string result = "both end, but the results mean nothing";
  if (own_ends != other_ends) {
    result =
        fmt::format("rank {} ends, with a result that means nothing, and rank {} never does",
                    own_ends ? place().rank : other_rank, own_ends ? other_rank : place().rank);
  } else if (!own_ends) {
    result = "all its ranks wait from now on";
  }
  process::tell(fmt::format(
      "the calls of a communicator do not match: rank {} called {}, rank {} called {}; as with "
      "NCCL, {}",
      place().rank, own.to_string(), other_rank, other.to_string(), result));
  if (!own_ends || !other_ends) process::end_if_strict("at collectives that do not match");
}

std::shared_ptr<Communicator> Communicator::pair(int sender, int receiver) const {
  const Lock lock(mutex_);
  const auto found = pairs_.find({sender, receiver});
  return found == pairs_.end() ? nullptr : found->second;
}

void Communicator::keep_pair(int sender, int receiver, std::shared_ptr<Communicator> made) {
  {
    const Lock lock(mutex_);
    pairs_.emplace(std::pair(sender, receiver), made);
  }
  // An abort meanwhile has not seen it.
  if (is_aborted()) made->abort();
}

device::Stream& Communicator::own_stream() {
  const Lock lock(mutex_);
  if (stream_ == nullptr) {
    stream_ = parts_.device->device->create_stream(device::StreamKind::kNonBlocking);
  }
  return *stream_;
}

}  // namespace gpemu::ranks
