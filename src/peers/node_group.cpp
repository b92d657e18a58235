// SPDX-License-Identifier: Apache-2.0
#include "gpemu/peers/node_group.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/base/condition.hpp"
#include "gpemu/base/log.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/packing.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/net/connection.hpp"

#include "sample_server.hpp"

namespace gpemu::peers {
namespace {

using namespace std::chrono_literals;

using sim::kLook;

constexpr Bytes kMostWelcome = 64 * kKiB;
/// Of a message of the agreement: the numbers of 4 million samples, more than fit into a node's
/// memory. Together with the copies of a message, a member cannot take more than 64 MiB.
constexpr Bytes kMostMessage = 16 * kMiB;
/// Connections for samples that are there before all nodes have come: those of 64 nodes of 16
/// cores.
constexpr std::size_t kMostEarlyRequests = 1024;
/// Read of one member before the others, and whoever waits for the agreement, have their turn.
constexpr Bytes kMostAtOnce = kMiB;
/// The kind of the message with which a node says that it has finished. The others are those of the
/// agreement.
constexpr std::uint8_t kFinished = 3;

std::vector<std::byte> packed(const AgreementMessage& message) {
  Packer packer;
  packer.add(static_cast<std::uint8_t>(message.kind)).add(message.view).add(message.step);
  packer.add_all(std::span(message.arrived)).add_all(std::span(message.left));
  packer.add_all(std::span(message.files));
  return packer.bytes();
}

/// Returns nothing if no node sends this.
std::optional<AgreementMessage> unpacked(std::span<const std::byte> bytes) {
  AgreementMessage message;
  Unpacker unpacker(bytes);
  std::uint8_t kind = 0;
  std::vector<std::uint8_t> left;
  unpacker.take(kind);
  unpacker.take(message.view);
  unpacker.take(message.step);
  unpacker.take_all(message.arrived);
  unpacker.take_all(left);
  unpacker.take_all(message.files);
  if (!unpacker.done() || kind < 1 || kind > 2) return std::nullopt;
  message.kind = static_cast<AgreementMessage::Kind>(kind);
  for (const std::uint8_t how : left) {
    if (how > static_cast<std::uint8_t>(Leaving::kLost)) return std::nullopt;
    message.left.push_back(static_cast<Leaving>(how));
  }
  return message;
}

/// Says how a connection ended: the other process's kernel closed it, or nothing is known.
Leaving leaving_of(int error) {
  return error == 0 || error == ECONNRESET || error == EPIPE ? Leaving::kEnded : Leaving::kLost;
}

/// Errors: kInvalidArgument.
Result<net::HostPort> parse_address(std::string_view text) {
  auto address = net::parse_host_port(text);
  if (address) return address;
  return fail(ErrorCode::kInvalidArgument,
              "'{}' is no address: write HOST:PORT, e.g. 10.77.0.1:29500", text);
}

/// A connection to another node, for messages.
struct Control {
  FileDescriptor socket;
  std::vector<std::byte> incoming;
  std::vector<std::byte> outgoing;
  bool finished = false;  ///< the node has said so.
};

/// What the first node tells the others when all have come.
struct Welcome {
  std::string refusal;  ///< empty: none.
  std::uint64_t group = 0;
  std::vector<net::HostPort> addresses;  ///< at which each node listens.
};

bool send_welcome(const FileDescriptor& socket, const Welcome& welcome, const sim::Wait& wait) {
  Packer packer;
  packer.add_text(welcome.refusal).add(welcome.group);
  packer.add(static_cast<std::uint32_t>(welcome.addresses.size()));
  for (const net::HostPort& address : welcome.addresses) {
    packer.add_text(address.host).add(address.port);
  }
  return net::send_message(socket, packer.bytes(), wait).has_value();
}

bool read_welcome(std::span<const std::byte> bytes, std::size_t nodes, Welcome& welcome) {
  Unpacker unpacker(bytes);
  std::uint32_t count = 0;
  unpacker.take_text(welcome.refusal);
  unpacker.take(welcome.group);
  unpacker.take(count);
  if (count > kMostNodes) return false;
  welcome.addresses.resize(count);
  for (net::HostPort& address : welcome.addresses) {
    unpacker.take_text(address.host);
    unpacker.take(address.port);
  }
  // Names of hosts would have to be looked up, for as long as the sender likes. This node knows
  // where the first one is.
  const auto is_name = [](const net::HostPort& address) { return !net::is_number(address); };
  if (count > 1 && std::any_of(welcome.addresses.begin() + 1, welcome.addresses.end(), is_name)) {
    return false;
  }
  return unpacker.done() && (!welcome.refusal.empty() || count == nodes);
}

/// A process on its way into a group.
class Joiner {
 public:
  Joiner(const NodeGroup::Options& options, sim::Wait wait)
      : options_(options), wait_(wait), controls(nodes()) {}

  Result<void> join() {
    GPEMU_ASSIGN(const net::HostPort first, parse_address(options_.place.address));
    GPEMU_TRY(options_.place.rank == 0 ? receive_others(first) : come_to(first));
    for (std::size_t other = 1; other < rank(); ++other) {
      GPEMU_ASSIGN(controls[other], net::connect_to(addresses[other], wait_));
      if (!send_hello(controls[other], hello(Purpose::kControl), wait_)) return not_there(other);
    }
    while (const std::optional<std::size_t> missing = first_missing()) {
      GPEMU_ASSIGN(net::Greeter::Greeting greeting, greeter_.next(listener, wait_));
      if (!greeting.socket.valid()) return not_there(*missing);
      Hello other;
      if (!read_hello(greeting.message, other) || other.group != group || other.rank >= nodes()) {
        continue;
      }
      if (other.purpose == Purpose::kControl && other.rank > rank()) {
        controls[other.rank] = std::move(greeting.socket);
      } else if (other.purpose == Purpose::kSamples && early_requests.size() < kMostEarlyRequests) {
        early_requests.push_back(std::move(greeting.socket));
      }
    }
    return {};
  }

  [[nodiscard]] std::size_t nodes() const { return static_cast<std::size_t>(options_.place.nodes); }
  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(options_.place.rank); }
  [[nodiscard]] Hello hello(Purpose purpose) const {
    return {.purpose = purpose,
            .group = group,
            .rank = static_cast<std::uint32_t>(rank()),
            .nodes = static_cast<std::uint32_t>(nodes())};
  }

 private:
  const NodeGroup::Options& options_;
  sim::Wait wait_;
  net::Greeter greeter_{kMostHello};

 public:
  FileDescriptor listener;
  std::uint64_t group = 0;
  std::vector<FileDescriptor> controls;  ///< to each other node.
  std::vector<net::HostPort> addresses;  ///< at which each node listens.
  std::vector<FileDescriptor> early_requests;

 private:
  [[nodiscard]] std::optional<std::size_t> first_missing() const {
    for (std::size_t node = 0; node < nodes(); ++node) {
      if (node != rank() && !controls[node].valid()) return node;
    }
    return std::nullopt;
  }

  [[nodiscard]] std::unexpected<Error> not_there(std::size_t node) const {
    if (wait_.is_stopped()) {
      return fail(ErrorCode::kInterrupted, "stopped while waiting for other nodes");
    }
    return fail(ErrorCode::kUnavailable,
                "node {} of {} has not come to {} in {:g} s: start all nodes, or give them more "
                "time with --patience",
                node, nodes(), options_.place.address, to_seconds(options_.patience));
  }

  /// For a message that fits into the socket's buffer, and so takes no time.
  [[nodiscard]] sim::Wait last_words() const {
    return {.clock = wait_.clock, .until = wait_.clock.now() + kLook, .stop = wait_.stop};
  }

  /// The first node waits for all others, and tells them where each one listens.
  Result<void> receive_others(const net::HostPort& first) {
    GPEMU_ASSIGN(listener, net::listen_at(first));
    addresses.assign(nodes(), first);
    // Tells apart groups that use the same address one after the other.
    group = static_cast<std::uint64_t>(wait_.clock.now().time_since_epoch().count()) << 16 ^
            static_cast<std::uint64_t>(::getpid());
    std::string refusal;
    ErrorCode code = ErrorCode::kInvalidArgument;
    while (refusal.empty()) {
      const std::optional<std::size_t> missing = first_missing();
      if (!missing) break;
      GPEMU_ASSIGN(net::Greeter::Greeting greeting, greeter_.next(listener, wait_));
      FileDescriptor& socket = greeting.socket;
      if (!socket.valid()) {
        refusal = not_there(*missing).error().message;
        code = ErrorCode::kUnavailable;
        break;
      }
      Hello other;
      if (!read_hello(greeting.message, other) || other.purpose != Purpose::kJoin) continue;
      refusal = refusal_of(other);
      if (other.rank >= nodes()) {
        static_cast<void>(send_welcome(socket, {.refusal = refusal}, last_words()));
        break;
      }
      addresses[other.rank] = {.host = net::peer_of(socket).host, .port = other.port};
      controls[other.rank] = std::move(socket);
    }
    const Welcome welcome{.refusal = refusal, .group = group, .addresses = addresses};
    for (const FileDescriptor& control : controls) {
      if (control.valid()) static_cast<void>(send_welcome(control, welcome, last_words()));
    }
    if (wait_.is_stopped()) return not_there(0);
    if (refusal.empty()) return {};
    return fail(code, "{}", refusal);
  }

  [[nodiscard]] std::string refusal_of(const Hello& other) const {
    if (other.nodes != nodes() || other.rank == 0 || other.rank >= nodes()) {
      return fmt::format("node {} of {} comes to a group of {}", other.rank, other.nodes, nodes());
    }
    if (controls[other.rank].valid()) {
      return fmt::format("two processes say that they are node {}", other.rank);
    }
    if (other.settings != options_.settings) {
      return fmt::format(
          "the nodes must have the same data and options; node 0 has {}, and node {} has {}",
          options_.settings, other.rank, other.settings);
    }
    return {};
  }

  Result<void> come_to(const net::HostPort& first) {
    FileDescriptor& control = controls[0];
    {
      Result<FileDescriptor> connected = net::connect_to(first, wait_);
      if (!connected && wait_.is_over()) return not_there(0);
      GPEMU_ASSIGN(control, std::move(connected));
    }
    // Others reach this node where node 0 does.
    GPEMU_ASSIGN(listener, net::listen_at({.host = net::own_of(control).host, .port = 0}));
    Hello own = hello(Purpose::kJoin);
    own.port = net::own_of(listener).port;
    own.settings = options_.settings;
    if (!send_hello(control, own, wait_)) return not_there(0);
    const auto message = net::receive_message(control, kMostWelcome, wait_);
    if (!message && wait_.is_over()) return not_there(0);
    Welcome welcome;
    if (!message || !read_welcome(*message, nodes(), welcome)) {
      return fail(ErrorCode::kUnavailable, "what listens at {} is no node 0 of {}", first.str(),
                  nodes());
    }
    if (!welcome.refusal.empty()) {
      return fail(ErrorCode::kInvalidArgument, "{}", welcome.refusal);
    }
    group = welcome.group;
    addresses = std::move(welcome.addresses);
    addresses[0] = first;
    return {};
  }
};

}  // namespace

struct NodeGroup::State {
  State(const Options& group_options, Cached cached_samples, sim::Clock& group_clock,
        const std::atomic<bool>& group_stop)
      : place(group_options.place),
        patience(group_options.patience),
        cached(std::move(cached_samples)),
        clock(group_clock),
        stop(group_stop),
        agreement(place.nodes, place.rank, cached.all),
        awaited(patience),
        controls(static_cast<std::size_t>(place.nodes)),
        idle(static_cast<std::size_t>(place.nodes)),
        sends_no_samples(static_cast<std::size_t>(place.nodes)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    {
      const Lock lock(mutex);
      stopping = true;
    }
    if (thread.joinable()) {
      wake_up();
      thread.join();
    }
  }

  Result<void> begin(Joiner& joiner);
  void wake_up() const {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wake.get(), &one, sizeof one));
  }
  void run() GPEMU_EXCLUDES(mutex);
  void move_bytes(const std::vector<pollfd>& polled) GPEMU_REQUIRES(mutex);
  void receive(int node) GPEMU_REQUIRES(mutex);
  void take_in(int node) GPEMU_REQUIRES(mutex);
  void understand(int node, std::span<const std::byte> message) GPEMU_REQUIRES(mutex);
  void send_to(Control& control) GPEMU_REQUIRES(mutex);
  void end(int node, int error_number) GPEMU_REQUIRES(mutex);
  void broadcast(std::span<const std::byte> message) GPEMU_REQUIRES(mutex);
  void tell() GPEMU_REQUIRES(mutex);
  [[nodiscard]] bool have_finished() GPEMU_REQUIRES(mutex);
  void go_on_without_the_overdue() GPEMU_REQUIRES(mutex);
  [[nodiscard]] sim::Wait wait_for(Duration time) const {
    return {.clock = clock, .until = clock.now() + time, .stop = stop};
  }
  Result<data::SampleBytes> request(int node, pipeline::FileId sample, Bytes most);

  const GroupPlace place;
  const Duration patience;
  const Cached cached;
  sim::Clock& clock;
  const std::atomic<bool>& stop;
  std::uint64_t group = 0;
  std::vector<net::HostPort> addresses;
  Hello request_hello;

  Mutex mutex;
  Condition changed;
  StepAgreement agreement GPEMU_GUARDED_BY(mutex);
  sim::Awaited awaited GPEMU_GUARDED_BY(mutex);
  std::vector<Control> controls GPEMU_GUARDED_BY(mutex);  ///< by node.
  std::optional<Error> error GPEMU_GUARDED_BY(mutex);     ///< ends the run.
  bool stopping GPEMU_GUARDED_BY(mutex) = false;

  Mutex idle_mutex;
  std::vector<std::vector<FileDescriptor>> idle GPEMU_GUARDED_BY(idle_mutex);  ///< by node.
  /// By node: it had its time, and is not asked again.
  std::vector<char> sends_no_samples GPEMU_GUARDED_BY(idle_mutex);

  FileDescriptor wake;
  std::thread thread;
  std::optional<SampleServer> server;
};

Result<void> NodeGroup::State::begin(Joiner& joiner) {
  group = joiner.group;
  addresses = std::move(joiner.addresses);
  request_hello = joiner.hello(Purpose::kSamples);
  {
    const Lock lock(mutex);
    for (std::size_t node = 0; node < controls.size(); ++node) {
      controls[node].socket = std::move(joiner.controls[node]);
    }
  }
  server.emplace(std::move(joiner.listener), group, cached.find, clock, patience);
  GPEMU_TRY(server->start());
  for (FileDescriptor& socket : joiner.early_requests) server->serve(std::move(socket));
  wake = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.valid()) thread = start_thread("gpemu-group", [this] { run(); });
  if (thread.joinable()) return {};
  return fail(ErrorCode::kResourceLimit, "cannot start a thread for the group of nodes");
}

/// Moves messages between this node and the others until the group ends.
void NodeGroup::State::run() {
  std::vector<pollfd> polled;
  Lock lock(mutex);
  while (!stopping) {
    polled.assign(1, {.fd = wake.get(), .events = POLLIN, .revents = 0});
    for (const Control& control : controls) {
      const bool sends = !control.outgoing.empty();
      polled.push_back({.fd = control.socket.get(),  // -1 is ignored.
                        .events = static_cast<short>(POLLIN | (sends ? POLLOUT : 0)),
                        .revents = 0});
    }
    lock.unlock();
    static_cast<void>(::poll(polled.data(), polled.size(), -1));
    std::uint64_t count = 0;
    static_cast<void>(!::read(wake.get(), &count, sizeof count));
    lock.lock();
    move_bytes(polled);
    changed.notify_all();
  }
}

void NodeGroup::State::move_bytes(const std::vector<pollfd>& polled) {
  for (int node = 0; node < place.nodes; ++node) {
    const short events = polled[static_cast<std::size_t>(node) + 1].revents;
    Control& control = controls[static_cast<std::size_t>(node)];
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0) receive(node);
    if ((events & POLLOUT) != 0 && control.socket.valid()) send_to(control);
  }
}

void NodeGroup::State::receive(int node) {
  Control& control = controls[static_cast<std::size_t>(node)];
  std::array<std::byte, 65536> buffer;
  Bytes all = 0;
  while (control.socket.valid()) {
    const ssize_t got = ::recv(control.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      control.incoming.insert(control.incoming.end(), buffer.begin(), buffer.begin() + got);
      all += static_cast<Bytes>(got);
      if (all < kMostAtOnce) continue;
      return take_in(node);
    }
    const int number = got == 0 ? 0 : errno;
    if (number == EINTR) continue;
    take_in(node);
    if (number != EAGAIN || got == 0) end(node, number);
    return;
  }
}

/// Takes the messages that have come as a whole.
void NodeGroup::State::take_in(int node) {
  Control& control = controls[static_cast<std::size_t>(node)];
  std::size_t begin = 0;
  while (control.incoming.size() - begin >= sizeof(std::uint32_t)) {
    const auto rest = std::span<const std::byte>(control.incoming).subspan(begin);
    std::uint32_t size = 0;
    Unpacker unpacker(rest.first(sizeof size));
    unpacker.take(size);
    if (size > kMostMessage) {
      error = Error{ErrorCode::kCorruptData,
                    fmt::format("node {} sends a message of {} bytes, which are more than {}", node,
                                size, kMostMessage)};
      return end(node, EBADMSG);
    }
    if (rest.size() - sizeof size < size) {
      control.incoming.reserve(begin + sizeof size + size);  // Not twice as much.
      break;
    }
    understand(node, rest.subspan(sizeof size, size));
    begin += sizeof size + size;
  }
  control.incoming.erase(control.incoming.begin(),
                         control.incoming.begin() + static_cast<std::ptrdiff_t>(begin));
}

void NodeGroup::State::understand(int node, std::span<const std::byte> message) {
  if (message.size() == 1 && message.front() == std::byte{kFinished}) {
    controls[static_cast<std::size_t>(node)].finished = true;
    return;
  }
  auto read = unpacked(message);
  Result<void> received =
      read ? agreement.receive(node, *std::move(read))
           : fail(ErrorCode::kCorruptData, "node {} sends a message that is none", node);
  if (!received && !error) error = std::move(received).error();
  tell();
}

void NodeGroup::State::end(int node, int error_number) {
  Control& control = controls[static_cast<std::size_t>(node)];
  control.socket = FileDescriptor();
  control.outgoing.clear();
  // A node that has finished has told all that it knows, unless it only says so, or others have
  // left since.
  const std::vector<int> nodes = agreement.awaited();
  if (control.finished && std::ranges::find(nodes, node) == nodes.end()) return;
  agreement.note_left(node, leaving_of(error_number));
  tell();
}

void NodeGroup::State::send_to(Control& control) {
  while (!control.outgoing.empty()) {
    const ssize_t sent = ::send(control.socket.get(), control.outgoing.data(),
                                control.outgoing.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    // An error also ends what is received, and is noticed there, after what has come.
    if (sent <= 0) return;
    control.outgoing.erase(control.outgoing.begin(), control.outgoing.begin() + sent);
  }
}

void NodeGroup::State::broadcast(std::span<const std::byte> message) {
  Packer packer;
  packer.add(static_cast<std::uint32_t>(message.size()));
  std::vector<int> stuck;
  for (Control& control : controls) {
    if (!control.socket.valid()) continue;
    control.outgoing.insert(control.outgoing.end(), packer.bytes().begin(), packer.bytes().end());
    control.outgoing.insert(control.outgoing.end(), message.begin(), message.end());
    send_to(control);
    if (control.outgoing.size() > 2 * kMostMessage) {
      stuck.push_back(static_cast<int>(&control - controls.data()));
    }
  }
  // They take nothing any more, whatever they say themselves.
  for (const int node : stuck) end(node, ETIMEDOUT);
}

void NodeGroup::State::tell() {
  for (const AgreementMessage& message : agreement.take_messages()) broadcast(packed(message));
}

bool NodeGroup::State::have_finished() {
  return std::ranges::all_of(controls, [](const Control& control) {
    return !control.socket.valid() || (control.finished && control.outgoing.empty());
  });
}

/// Ends the connections to members that had the time to say what this node waits for.
void NodeGroup::State::go_on_without_the_overdue() {
  const bool changing = agreement.is_changing();
  const std::uint64_t step = agreement.steps_done() + 1;
  for (const int node : awaited.overdue(agreement.round(), agreement.awaited(), clock.now())) {
    log(LogLevel::kWarning, "node {} has not said {} for {:g} s (--patience): going on without it",
        node,
        changing ? "what it knows of nodes that have left"
                 : fmt::format("that it has its part of step {}", step),
        to_seconds(patience));
    end(node, ETIMEDOUT);
  }
}

Result<GroupPlace> parse_group_place(std::string_view text) {
  GroupPlace place;
  const std::size_t slash = text.find('/');
  const std::size_t at = text.find('@');
  const auto number = [](std::string_view digits, int& value) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  if (slash == std::string_view::npos || at == std::string_view::npos || slash > at ||
      !number(text.substr(0, slash), place.rank) ||
      !number(text.substr(slash + 1, at - slash - 1), place.nodes)) {
    return fail(ErrorCode::kInvalidArgument,
                "'{}' does not say which node this is: write RANK/NODES@HOST:PORT, e.g. "
                "0/2@127.0.0.1:29500",
                text);
  }
  place.address = text.substr(at + 1);
  GPEMU_TRY(parse_address(place.address));
  if (place.nodes < 1 || place.nodes > kMostNodes || place.rank < 0 || place.rank >= place.nodes) {
    return fail(ErrorCode::kInvalidArgument,
                "node {} of {}: a group has 1 to {} nodes, which count from 0", place.rank,
                place.nodes, kMostNodes);
  }
  return place;
}

NodeGroup::NodeGroup(std::unique_ptr<State> state) : state_(std::move(state)) {}
NodeGroup::~NodeGroup() = default;

Result<std::unique_ptr<NodeGroup>> NodeGroup::join(const Options& options, Cached cached,
                                                   sim::Clock& clock,
                                                   const std::atomic<bool>& stop) {
  auto state = std::make_unique<State>(options, std::move(cached), clock, stop);
  if (options.place.nodes > 1) {
    Joiner joiner(options, {.clock = clock, .until = clock.now() + options.patience, .stop = stop});
    GPEMU_TRY(joiner.join());
    GPEMU_TRY(state->begin(joiner));
  }
  return std::unique_ptr<NodeGroup>(new NodeGroup(std::move(state)));
}

int NodeGroup::rank() const {
  return state_->place.rank;
}

int NodeGroup::nodes() const {
  return state_->place.nodes;
}

std::vector<int> NodeGroup::members() const {
  const Lock lock(state_->mutex);
  return state_->agreement.members();
}

std::uint32_t NodeGroup::view() const {
  const Lock lock(state_->mutex);
  return state_->agreement.view();
}

Result<StepAgreement::Outcome> NodeGroup::agree(std::vector<pipeline::FileId> newly_cached) {
  State& state = *state_;
  Lock lock(state.mutex);
  bool arrived = false;
  while (true) {
    if (state.error) return std::unexpected(*state.error);
    if (state.agreement.has_outcome()) return state.agreement.take_outcome();
    if (state.stop.load(std::memory_order_relaxed)) {
      return fail(ErrorCode::kInterrupted, "stopped while waiting for other nodes");
    }
    if (!arrived) {
      state.agreement.arrive(std::exchange(newly_cached, {}));
      state.tell();
      // What could not be sent at once, the thread sends.
      if (state.thread.joinable()) state.wake_up();
      arrived = true;
      continue;
    }
    state.go_on_without_the_overdue();
    if (state.error || state.agreement.has_outcome()) continue;
    state.changed.wait_for(lock, kLook, [&state]() GPEMU_REQUIRES(state.mutex) {
      return state.error || state.agreement.has_outcome();
    });
  }
}

Result<data::SampleBytes> NodeGroup::State::request(int node, pipeline::FileId sample, Bytes most) {
  const auto index = static_cast<std::size_t>(node);
  FileDescriptor socket;
  {
    const Lock lock(idle_mutex);
    if (sends_no_samples[index] != 0) {
      return fail(ErrorCode::kUnavailable, "node {} has sent no samples", node);
    }
    if (!idle[index].empty()) {
      socket = std::move(idle[index].back());
      idle[index].pop_back();
    }
  }
  const sim::Wait wait = wait_for(patience);
  if (!socket.valid()) {
    GPEMU_ASSIGN(socket,
                 net::connect_to(addresses[index], wait_for(std::min<Duration>(1s, patience))));
    GPEMU_TRY(send_hello(socket, request_hello, wait));
  }
  GPEMU_ASSIGN(data::SampleBytes bytes, request_sample(socket, sample, most, wait));
  const Lock lock(idle_mutex);
  idle[index].push_back(std::move(socket));
  return bytes;
}

Result<data::SampleBytes> NodeGroup::fetch(int node, pipeline::FileId sample, Bytes most) {
  State& state = *state_;
  const TimePoint begin = state.clock.now();
  Result<data::SampleBytes> bytes = state.request(node, sample, most);
  if (bytes || state.clock.now() - begin < state.patience) return bytes;
  // Each of its samples would take as long.
  const Lock lock(state.idle_mutex);
  if (std::exchange(state.sends_no_samples[static_cast<std::size_t>(node)], 1) == 0) {
    log(LogLevel::kWarning,
        "node {} has not sent a sample for {:g} s (--patience): its samples come from storage",
        node, to_seconds(state.patience));
  }
  return bytes;
}

void NodeGroup::finish() {
  State& state = *state_;
  if (state.place.nodes == 1) return;
  Lock lock(state.mutex);
  const std::byte finished{kFinished};
  state.broadcast(std::span(&finished, 1));
  state.wake_up();
  const sim::Wait wait = state.wait_for(state.patience);
  while (!state.have_finished() && !wait.is_over()) {
    state.changed.wait_for(
        lock, kLook, [&state]() GPEMU_REQUIRES(state.mutex) { return state.have_finished(); });
  }
}

}  // namespace gpemu::peers
