// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/communicator_start.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <poll.h>
#include <set>
#include <string>
#include <sys/random.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <climits>
#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/text.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/net/socket.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/log.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/ranks/carrier.hpp"
#include "gpemu/ranks/host_ring.hpp"
#include "gpemu/ranks/wire.hpp"
#include "gpemu/streams/context.hpp"
#include "gpemu/streams/mover.hpp"

#include "job_fabric.hpp"
#include "network_interface.hpp"

namespace gpemu::ranks {
namespace {

/// What the second number of a topic says: what the ranks meet for.
enum class Purpose : std::uint64_t { kStart = 0, kDivide = 1, kPart = 2, kPair = 3, kRemain = 4 };
/// Added to it when the ranks say whether they are ready.
constexpr std::uint64_t kReady = std::uint64_t{1} << 63;

/// Processes that may call a rank before it answers: one of the previous host, and some that
/// belong elsewhere.
constexpr int kMostCallers = 16;

/// How often a rank calls at a named address where nobody answers yet, and the first pause, which
/// grows by itself each time: a minute in all. Source: NCCL User Guide, NCCL_SOCKET_RETRY_CNT and
/// NCCL_SOCKET_RETRY_SLEEP_MSEC.
constexpr int kMostCalls = 34;
constexpr Duration kFirstPause = std::chrono::milliseconds(100);
/// Between two looks at what another process has to do first.
constexpr Duration kBetweenLooks = std::chrono::milliseconds(1);

/// A rank on its way.
struct Rank {
  CommunicatorStart start;
  process::DeviceState* device = nullptr;
  Member own;
  std::unique_ptr<Mailbox> mailbox;
  std::unique_ptr<device::Rendezvous> rendezvous;
  std::vector<Member> members;
  std::optional<topology::Fabric> fabric;  ///< if not all ranks are among the members.
  std::optional<Meeting::Host> host;       ///< of rank 0, if the address is named.
  std::optional<net::Listener> listener;   ///< if the network is real.
  FileDescriptor next;                     ///< to the next host.

  [[nodiscard]] bool has_phantoms() const { return start.real_ranks < start.place.ranks; }
};

/// What a host says that calls the next one.
struct Greeting {
  std::uint64_t magic = 0x6770656d756e6574;  // "gpemunet"
  std::uint64_t key = 0;                     ///< of the member that is called.
};

std::uint64_t random_number() {
  std::uint64_t number = 0;
  static_cast<void>(::getrandom(&number, sizeof(number), 0));
  return number;
}

/// Returns a device's address on its bus as NCCL writes it: its digits, as one number.
std::uint64_t bus_number(const gpemu_cuda_device& device) {
  return std::uint64_t(device.pci_domain) << 20 | std::uint64_t(device.pci_bus) << 12 |
         std::uint64_t(device.pci_device) << 4;
}

/// Returns a number that is the same for processes of one machine that know each other's numbers.
std::uint64_t own_host() {
  struct stat file{};
  std::uint64_t numbers = 0;
  if (::stat("/proc/self/ns/pid", &file) == 0) numbers = file.st_ino;
  const auto boot = read_file("/proc/sys/kernel/random/boot_id");
  return std::hash<std::string>()(fmt::format("{} {}", boot ? *boot : "", numbers));
}

/// Returns a number that is the same for processes which NCCL takes to be on one host: those with
/// the same host name, or with the same NCCL_HOSTID. Source: NCCL User Guide, "Environment
/// Variables".
std::uint64_t own_computer() {
  const char* const given = std::getenv("NCCL_HOSTID");
  std::array<char, HOST_NAME_MAX + 1> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return std::hash<std::string>()(given == nullptr ? name.data() : given);
}

/// Returns a number that is the same for processes of one node.
std::uint64_t own_node_number() {
  struct stat file{};
  const auto path = process::process().node->place_of_clock().first;
  if (path.empty() || ::stat(path.c_str(), &file) != 0) {
    return std::hash<std::string>()(fmt::format("private {}", process::process().node->identity()));
  }
  return std::hash<std::string>()(fmt::format("{} {}", file.st_dev, file.st_ino));
}

Meeting::Record record_of(const Member& member) {
  Meeting::Record record{};
  std::memcpy(record.data(), &member, sizeof(member));
  return record;
}

/// Brings a member's record to a meeting of each rank, and gets those of all. Errors: those of
/// Meeting.
template <typename Rank, typename PartOf>
Result<void> meet_once(std::vector<Rank>& ranks, PartOf part_of, const IsCancelled& is_cancelled) {
  std::vector<Meeting::Visit> visits;
  // A rank that cannot come ends the meetings of the others, too: their visits end here.
  for (Rank& rank : ranks) {
    GPEMU_ASSIGN(auto visit, Meeting::visit(part_of(rank), record_of(rank.own)));
    visits.push_back(std::move(visit));
  }
  Result<void> met;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const auto records = visits[i].records(is_cancelled);
    if (!records) {
      met = std::unexpected(records.error());
      continue;
    }
    ranks[i].members.resize(records->size());
    for (std::size_t rank = 0; rank < records->size(); ++rank) {
      std::memcpy(&ranks[i].members[rank], (*records)[rank].data(), sizeof(Member));
    }
  }
  return met;
}

bool is_cancelled_by(const IsCancelled& is_cancelled) {
  return is_cancelled && is_cancelled();
}

/// Waits for a time, a look at a time; returns whether it has not been cancelled.
bool pause_for(Duration time, const IsCancelled& is_cancelled) {
  for (; time > Duration::zero(); time -= kBetweenLooks) {
    if (is_cancelled_by(is_cancelled)) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

/// The same as meet_once(). At a named address, rank 0 may come later than others.
template <typename Rank, typename PartOf>
process::Status meet_all(std::vector<Rank>& ranks, PartOf part_of,
                         const IsCancelled& is_cancelled) {
  for (int call = 1;; ++call) {
    const auto met = meet_once(ranks, part_of, is_cancelled);
    if (met) return GPEMU_CUDA_SUCCESS;
    const bool may_retry = met.error().code == ErrorCode::kNotFound && call <= kMostCalls &&
                           Meeting::has_named_address(part_of(ranks.front()).id);
    if (!may_retry || !pause_for(call * kFirstPause, is_cancelled)) {
      return status_of_meeting(met.error());
    }
  }
}

bool network_is_real() {
  const auto& network = process::process().settings->network;
  return network && network->is_real;
}

/// Finds out what joins the ranks of a job, most of which do not come. Errors: INVALID_VALUE,
/// NOT_SUPPORTED.
process::Status find_fabric(Rank& rank) {
  if (network_is_real()) {
    process::tell(fmt::format(
        "ranks that do not run (--ranks-for-real) send nothing over a real network: give "
        "{} a modelled one, e.g. rdma:200gbit",
        variable::kNetwork));
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  const process::Process& state = process::process();
  std::vector<int> gpus;
  for (const auto& device : state.devices) gpus.push_back(device->index);
  const bool is_alone = state.settings->node.empty();
  auto fabric =
      fabric_of_job(*state.settings->job, {.gpu = rank.device->spec,
                                           .topology = rank.device->machine,
                                           .gpus = is_alone ? std::vector<int>{} : std::move(gpus),
                                           .network = state.settings->network});
  if (!fabric) return status_of_meeting(fabric.error());
  rank.fabric = *std::move(fabric);
  return GPEMU_CUDA_SUCCESS;
}

/// Lets ranks meet at a named address until they are made, and elsewhere afterwards, because the
/// first rank of another communicator may listen there then.
process::Status open_named_meeting(Rank& rank) {
  auto host = Meeting::host(rank.start.id);
  if (!host) return status_of_meeting(host.error());
  rank.host.emplace(*std::move(host));
  const auto later = Meeting::open();
  if (!later) return status_of_meeting(later.error());
  rank.own.meetings = *later;
  return GPEMU_CUDA_SUCCESS;
}

/// Makes what a rank needs before it meets the others.
process::Status prepare(Rank& rank) {
  GPEMU_CUDA_TRY(streams::device_with_context(rank.start.device, &rank.device));
  Member& own = rank.own;
  own.host = own_host();
  own.computer = own_computer();
  own.node = own_node_number();
  own.identity = process::process().node->identity();
  own.device = rank.device->index;
  own.bus = bus_number(rank.device->info);
  const std::string& gpu = rank.device->spec.name;
  std::memcpy(own.gpu.data(), gpu.data(), std::min(gpu.size(), own.gpu.size()));
  if (rank.has_phantoms()) GPEMU_CUDA_TRY(find_fabric(rank));
  const int real_ranks = rank.start.real_ranks;
  auto mailbox = Mailbox::create({.rank = rank.start.place.rank, .ranks = real_ranks});
  if (!mailbox) return status_of_meeting(mailbox.error());
  rank.mailbox = *std::move(mailbox);
  own.mailbox = rank.mailbox->ticket();
  if (network_is_real()) {
    auto listener = listen_for_peers(kMostCallers);
    if (!listener) return status_of_meeting(listener.error());
    own.address = listener->address;
    own.key = random_number();
    rank.listener = *std::move(listener);
  }
  if (rank.start.place.rank != 0) return GPEMU_CUDA_SUCCESS;
  if (Meeting::has_named_address(rank.start.id)) GPEMU_CUDA_TRY(open_named_meeting(rank));
  const auto group = device::Rendezvous::create_group(*process::process().node, real_ranks);
  if (!group) return status_of_meeting(group.error());
  own.group = *group;
  own.tag = random_number();
  return GPEMU_CUDA_SUCCESS;
}

/// Returns the status that all ranks get for the network that joins their hosts.
process::Status check_network(const std::vector<Member>& members) {
  const auto is_elsewhere = [&members](const Member& member) {
    return member.computer != members.front().computer;
  };
  if (std::ranges::none_of(members, is_elsewhere)) return GPEMU_CUDA_SUCCESS;
  if (!process::process().settings->network) {
    process::tell(fmt::format(
        "the ranks of a communicator have different host names: set {} to the network that joins "
        "the hosts, e.g. rdma:200gbit",
        variable::kNetwork));
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const auto has_same = [](const Member& member) {
    return member.address.is_usable() == network_is_real();
  };
  if (!std::ranges::all_of(members, has_same)) {
    process::tell(
        fmt::format("for some ranks of a communicator, {} is a real network, and for others not: "
                    "give all the same",
                    variable::kNetwork));
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (!network_is_real() || process::process().node->clock().page().skipping == 0)
    return GPEMU_CUDA_SUCCESS;
  process::record_not_supported("libnccl.so.2",
                                "a real network between hosts with --clock virtual");
  return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
}

/// The thread's last warning; see gpemu_cuda_comm_warning. Points into warnings that are kept.
const char*& thread_warning() {
  thread_local const char* warning = "";
  return warning;
}

/// Tells a warning, and keeps it for the thread's gpemu_cuda_comm_warning.
void warn(std::string text) {
  static std::mutex mutex;
  static std::set<std::string> kept;
  const std::scoped_lock lock(mutex);
  const std::string& warning = *kept.insert(std::move(text)).first;
  thread_warning() = warning.c_str();
  process::tell(warning);
}

/// Returns the status that all ranks get for what they have said of themselves.
process::Status check_members(const Rank& own) {
  const std::vector<Member>& members = own.members;
  const auto failed = std::ranges::find_if(
      members, [](const Member& member) { return member.status != GPEMU_CUDA_SUCCESS; });
  if (failed != members.end()) {
    process::tell(fmt::format("rank {} of a new communicator has failed: status {}",
                              failed - members.begin(), failed->status));
    return failed->status;
  }
  std::map<int, int> devices;  // with the first rank on each.
  for (const Member& member : members) {
    if (member.host != members.front().host || member.node != members.front().node) {
      process::record_not_supported("libnccl.so.2", "ranks in several nodes");
      return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
    }
    const auto rank = static_cast<int>(&member - members.data());
    if (const auto [first, is_new] = devices.try_emplace(member.device, rank); !is_new) {
      // The words of NCCL, which programs and people look for: each rank speaks of itself first.
      const auto [one, other] = own.start.place.rank == first->second
                                    ? std::pair(first->second, rank)
                                    : std::pair(rank, first->second);
      warn(fmt::format("Duplicate GPU detected : rank {} and rank {} both on CUDA device {:x}", one,
                       other, member.bus));
      return GPEMU_CUDA_ERROR_INVALID_DEVICE;
    }
  }
  return check_network(members);
}

/// Calls the next host, if the rank is the first one of several hosts.
process::Status call_next_host(Rank& rank) {
  const HostRing hosts = hosts_of(rank.members);
  const int own = rank.start.place.rank;
  if (!rank.listener || hosts.size() == 1 || !hosts.is_first(own)) return GPEMU_CUDA_SUCCESS;
  const int other = hosts.first_rank(hosts.next(hosts.host_of(own)));
  const Member& next = rank.members[static_cast<std::size_t>(other)];
  auto socket = net::call_peer(next.address);
  const Greeting greeting{.key = next.key};
  if (!socket || !net::send_all(socket->get(), &greeting, sizeof(greeting))) {
    return status_of_meeting(
        Error{.code = ErrorCode::kUnavailable,
              .message = fmt::format("rank {} does not reach rank {} at {}: {}", own, other,
                                     next.address.to_string(),
                                     socket ? errno_message(errno) : socket.error().message)});
  }
  rank.next = *std::move(socket);
  return GPEMU_CUDA_SUCCESS;
}

/// Answers the previous host, which has called already.
Result<Wire> answer_previous_host(Rank& rank) {
  pollfd wait{.fd = rank.listener->socket.get(), .events = POLLIN, .revents = 0};
  while (::poll(&wait, 1, net::kSocketSeconds * 1000) > 0) {
    FileDescriptor caller = net::accept_peer(*rank.listener);
    const Greeting wanted{.key = rank.own.key};
    Greeting greeting;
    if (caller.get() >= 0 && net::receive_all(caller.get(), &greeting, sizeof(greeting)) &&
        greeting.magic == wanted.magic && greeting.key == wanted.key) {
      return Wire(std::move(rank.next), std::move(caller));
    }
  }
  return fail(ErrorCode::kUnavailable, "rank {}: the previous host does not call",
              rank.start.place.rank);
}

/// Joins the others, about whom the rank now knows.
process::Status join(Rank& rank) {
  for (int other = 0; other < rank.start.real_ranks; ++other) {
    if (other == rank.start.place.rank) continue;
    const auto opened =
        rank.mailbox->open_peer(other, rank.members[static_cast<std::size_t>(other)].mailbox);
    if (!opened) return status_of_meeting(opened.error());
  }
  auto joined = device::Rendezvous::join(process::process().node, rank.members.front().group,
                                         rank.start.place.rank, process::clock());
  if (!joined) return status_of_meeting(joined.error());
  rank.rendezvous = *std::move(joined);
  return call_next_host(rank);
}

/// Makes the communicator of a rank that has joined the others.
process::Status finish(Rank& rank, std::vector<Member> members,
                       std::vector<std::shared_ptr<Communicator>>* made) {
  const bool is_named = Meeting::has_named_address(rank.start.id);
  Communicator::Parts parts{.place = rank.start.place,
                            .device = rank.device,
                            .id = is_named ? members.front().meetings : rank.start.id,
                            .members = std::move(members),
                            .fabric = rank.fabric,
                            .mailbox = std::move(rank.mailbox),
                            .rendezvous = std::move(rank.rendezvous)};
  if (rank.next.get() >= 0) {
    auto wire = answer_previous_host(rank);
    if (!wire) return status_of_meeting(wire.error());
    auto number = carrier().add(*std::move(wire));
    if (!number) return status_of_meeting(number.error());
    parts.wire = *number;
  }
  made->push_back(std::make_shared<Communicator>(std::move(parts)));
  return GPEMU_CUDA_SUCCESS;
}

Meeting::Part part_of_meeting(const CommunicatorStart& start, std::uint64_t ready) {
  auto topic = start.topic;
  topic[1] |= ready;
  return {.id = start.id, .topic = topic, .rank = start.place.rank, .ranks = start.real_ranks};
}

/// Lets posts of other processes start jobs of the mover.
void listen_for_posts() {
  static std::once_flag once;
  std::call_once(once, [] {
    process::process().node->bells().call_when_rung([] { streams::mover().look_again(); });
  });
}

}  // namespace

const char* last_warning() {
  return thread_warning();
}

process::Status status_of_meeting(const Error& error) {
  process::tell(error.message);
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    case ErrorCode::kUnavailable:
    case ErrorCode::kNotFound:
      return GPEMU_CUDA_ERROR_NOT_FOUND;
    case ErrorCode::kResourceLimit:
      return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    case ErrorCode::kInterrupted:
      return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
    default:
      return GPEMU_CUDA_ERROR_OPERATING_SYSTEM;
  }
}

process::Status find_real_ranks(Place place, int* real_ranks) {
  GPEMU_CUDA_TRY(process::attach());
  const std::optional<process::Job>& job = process::process().settings->job;
  if (job && (place.ranks != job->ranks || place.rank != job->rank)) {
    process::record_not_supported("libnccl.so.2",
                                  "a communicator of some of a job's ranks with --ranks-for-real");
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  *real_ranks = job ? job->real_ranks : place.ranks;
  return GPEMU_CUDA_SUCCESS;
}

process::Status start_communicators(std::span<const CommunicatorStart> starts,
                                    std::vector<std::shared_ptr<Communicator>>* made,
                                    const IsCancelled& is_cancelled) {
  std::vector<Rank> ranks;
  GPEMU_CUDA_TRY(process::attach());
  const auto has_others = [](const CommunicatorStart& start) { return start.real_ranks > 1; };
  if (!process::process().time_is_real && std::ranges::any_of(starts, has_others)) {
    // Each process of a run with this clock has its own time.
    process::record_not_supported("libnccl.so.2", "several ranks with --clock gpu-only");
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  listen_for_posts();
  // A rank that fails says so, because the others wait for it.
  for (const CommunicatorStart& start : starts) {
    Rank& rank = ranks.emplace_back();
    rank.start = start;
    rank.own.status = prepare(rank);
    // Without a host, nobody could be told.
    const bool is_host = start.place.rank == 0 && Meeting::has_named_address(start.id);
    if (is_host && !rank.host) return rank.own.status;
  }
  GPEMU_CUDA_TRY(meet_all(
      ranks, [](const Rank& rank) { return part_of_meeting(rank.start, 0); }, is_cancelled));
  for (Rank& rank : ranks) GPEMU_CUDA_TRY(check_members(rank));
  std::vector<Rank> ready = std::move(ranks);
  std::vector<std::vector<Member>> members;
  for (Rank& rank : ready) {
    rank.own.status = join(rank);
    members.push_back(rank.members);
  }
  GPEMU_CUDA_TRY(meet_all(
      ready, [](const Rank& rank) { return part_of_meeting(rank.start, kReady); }, is_cancelled));
  for (Rank& rank : ready) GPEMU_CUDA_TRY(check_members(rank));
  for (std::size_t i = 0; i < ready.size(); ++i) {
    GPEMU_CUDA_TRY(finish(ready[i], std::move(members[i]), made));
  }
  return GPEMU_CUDA_SUCCESS;
}

process::Status divide_communicators(std::span<const CommunicatorDivision> divisions,
                                     std::vector<std::optional<CommunicatorStart>>* starts,
                                     const IsCancelled& is_cancelled) {
  struct Divided {
    std::shared_ptr<Communicator> parent;
    std::uint64_t number = 0;
    Member own;
    std::vector<Member> members;
  };
  std::vector<Divided> ranks;
  for (const CommunicatorDivision& division : divisions) {
    if (division.parent->has_phantoms() && division.color >= 0) {
      process::record_not_supported(
          "libnccl.so.2", "dividing a communicator with ranks that do not run (--ranks-for-real)");
      return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
    }
    Divided& rank = ranks.emplace_back();
    rank.parent = division.parent;
    rank.number = division.parent->next_division();
    rank.own.color = division.color;
    rank.own.order = division.key;
  }
  if (ranks.empty()) return GPEMU_CUDA_SUCCESS;
  const auto part_of = [](const Divided& rank) {
    const int own = rank.parent->place().rank;
    const int count = rank.parent->real_ranks();
    return Meeting::Part{
        .id = rank.parent->id(),
        .topic = {rank.parent->tag(), static_cast<std::uint64_t>(Purpose::kDivide), rank.number},
        .rank = own,
        .ranks = count};
  };
  GPEMU_CUDA_TRY(meet_all(ranks, part_of, is_cancelled));
  for (const Divided& rank : ranks) {
    if (rank.own.color < 0) {
      starts->emplace_back();
      continue;
    }
    const int own = rank.parent->place().rank;
    const auto key_of = [&](int other) {
      return std::pair(rank.members[static_cast<std::size_t>(other)].order, other);
    };
    Place place{.rank = 0, .ranks = 0};
    for (int other = 0; other < rank.parent->place().ranks; ++other) {
      if (rank.members[static_cast<std::size_t>(other)].color != rank.own.color) continue;
      ++place.ranks;
      if (key_of(other) < key_of(own)) ++place.rank;
    }
    starts->push_back(
        CommunicatorStart{.id = rank.parent->id(),
                          .topic = {rank.parent->tag(),
                                    static_cast<std::uint64_t>(Purpose::kPart) |
                                        static_cast<std::uint64_t>(rank.own.color) << 8,
                                    rank.number},
                          .place = place,
                          .real_ranks = place.ranks,
                          .device = rank.parent->device().ordinal});
  }
  return GPEMU_CUDA_SUCCESS;
}

namespace {

/// Returns the first rank that is not excluded.
int first_of(const CommunicatorRemainder& remainder) {
  int first = 0;
  while (remainder.excluded.contains(first)) ++first;
  return first;
}

/// Waits until a rank lets others meet at it.
process::Status find_meetings(const Communicator& communicator, int rank,
                              const IsCancelled& is_cancelled, Meeting::Id* id) {
  while (true) {
    if (const auto notice = communicator.mailbox().notice(rank)) {
      std::memcpy(id, notice->data(), sizeof(*id));
      return GPEMU_CUDA_SUCCESS;
    }
    if (!Mailbox::exists(communicator.members()[static_cast<std::size_t>(rank)].mailbox)) {
      return status_of_meeting(Error{
          .code = ErrorCode::kUnavailable,
          .message = fmt::format("rank {} has ended, and is not among the excluded ones", rank)});
    }
    if (!pause_for(kBetweenLooks, is_cancelled)) return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
  }
}

process::Status check_remainder(const CommunicatorRemainder& remainder) {
  const Communicator& parent = *remainder.parent;
  if (parent.has_phantoms()) {
    process::record_not_supported(
        "libnccl.so.2", "a part of a communicator with ranks that do not run (--ranks-for-real)");
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  const bool exist =
      remainder.excluded.empty() ||
      (*remainder.excluded.begin() >= 0 && *remainder.excluded.rbegin() < parent.place().ranks);
  return exist && !remainder.excluded.contains(parent.place().rank)
             ? GPEMU_CUDA_SUCCESS
             : GPEMU_CUDA_ERROR_INVALID_VALUE;
}

/// Returns a number that is the same for the same ranks.
std::uint64_t number_of(const std::set<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += fmt::format("{} ", rank);
  return std::hash<std::string>()(text);
}

}  // namespace

process::Status find_remainders(std::span<const CommunicatorRemainder> remainders,
                                std::vector<CommunicatorStart>* starts,
                                const IsCancelled& is_cancelled) {
  // Ranks of this process may wait for each other.
  for (const CommunicatorRemainder& remainder : remainders) {
    GPEMU_CUDA_TRY(check_remainder(remainder));
    if (remainder.parent->place().rank != first_of(remainder)) continue;
    const auto opened = remainder.parent->open_meetings();
    if (!opened) return status_of_meeting(opened.error());
  }
  for (const auto& [parent, excluded] : remainders) {
    const int own = parent->place().rank;
    const auto before = std::distance(excluded.begin(), excluded.lower_bound(own));
    const int ranks = parent->place().ranks - static_cast<int>(excluded.size());
    CommunicatorStart start{
        .topic = {parent->tag() ^ number_of(excluded), static_cast<std::uint64_t>(Purpose::kRemain),
                  parent->next_without(excluded)},
        .place = {.rank = own - static_cast<int>(before), .ranks = ranks},
        .real_ranks = ranks,
        .device = parent->device().ordinal};
    GPEMU_CUDA_TRY(find_meetings(*parent, first_of({parent, excluded}), is_cancelled, &start.id));
    starts->push_back(start);
  }
  return GPEMU_CUDA_SUCCESS;
}

process::Status make_unique_id(Meeting::Id* id) {
  const char* const named = std::getenv("NCCL_COMM_ID");
  if (named == nullptr || *named == '\0') {
    const auto opened = Meeting::open();
    if (!opened) return status_of_meeting(opened.error());
    *id = *opened;
    return GPEMU_CUDA_SUCCESS;
  }
  const auto address = net::find_address(named);
  if (!address) {
    process::tell(
        fmt::format("NCCL_COMM_ID is \"{}\": {}; write ADDRESS:PORT, [ADDRESS]:PORT for IPv6, or "
                    "HOST:PORT",
                    named, address.error().message));
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  *id = Meeting::at(*address);
  return GPEMU_CUDA_SUCCESS;
}

CommunicatorStart start_of_pair(const Communicator& communicator, int sender, int receiver) {
  return {.id = communicator.id(),
          .topic = {communicator.tag(), static_cast<std::uint64_t>(Purpose::kPair),
                    static_cast<std::uint64_t>(sender) << 32 | static_cast<unsigned>(receiver)},
          .place = {.rank = communicator.place().rank == sender ? 0 : 1, .ranks = 2},
          .real_ranks = 2,
          .device = communicator.device().ordinal};
}

}  // namespace gpemu::ranks
