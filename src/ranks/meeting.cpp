// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/meeting.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <list>
#include <memory>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <tuple>
#include <unistd.h>
#include <utility>

#include "gpemu/base/text.hpp"
#include "gpemu/base/thread.hpp"
#include "gpemu/net/socket.hpp"

#include "network_interface.hpp"

namespace gpemu::ranks {
namespace {

constexpr std::uint64_t kMeetingMagic = 0x6770656d756d6565;  // "gpemumee"
constexpr int kMostVisitors = 1024;  ///< ranks of a meeting. Source: a node has as many seats.

/// What a visitor sends. The key comes first.
struct Hello {
  std::array<std::uint8_t, 16> key{};
  std::array<std::uint64_t, 3> topic{};
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  Meeting::Record record{};
};
static_assert(sizeof(Hello) == 304);

/// What it gets; after kComplete, the records follow.
enum class Answer : std::uint32_t { kComplete = 1, kConflict = 2, kGone = 3 };

/// The key of the meetings at an address that the user has named: whoever knows it may come.
constexpr std::array<std::uint8_t, 16> kNamedKey = {'N', 'C', 'C', 'L', '_', 'C', 'O', 'M',
                                                    'M', '_', 'I', 'D', 0,   0,   0,   0};

}  // namespace

/// Serves meetings: one thread, which waits for all sockets.
class Meeting::Server {
 public:
  /// Starts one for the meetings with a key, or with those of add_meeting().
  static Result<std::unique_ptr<Server>> start(net::Listener listener,
                                               std::set<std::array<std::uint8_t, 16>> keys);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  /// Ends the thread, which first answers all that have come.
  ~Server();

  /// Returns that of this process; a forked child makes its own. Null if it cannot be started.
  static Result<Server*> get();

  Id add_meeting() GPEMU_EXCLUDES(mutex_) {
    Id id{.magic = kMeetingMagic, .address = listener_.address};
    static_cast<void>(::getrandom(id.key.data(), id.key.size(), 0));
    const Lock lock(mutex_);
    keys_.insert(id.key);
    return id;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Visitor {
    FileDescriptor socket;
    Clock::time_point deadline;
    std::size_t got = 0;
    Hello hello;
    bool is_in = false;  ///< whether all of the hello has come.
  };
  using Visitors = std::list<Visitor>;
  using Topic = std::pair<std::array<std::uint8_t, 16>, std::array<std::uint64_t, 3>>;

  Server(net::Listener listener, std::set<std::array<std::uint8_t, 16>> keys)
      : listener_(std::move(listener)), keys_(std::move(keys)) {}

  void run();
  void accept_one();
  /// Reads from a visitor, and returns whether it stays.
  bool read_from(Visitor& visitor);
  /// Lets a visitor in whose hello has come, and returns whether it stays.
  bool let_in(Visitor& visitor);
  [[nodiscard]] bool is_known(const Hello& hello) GPEMU_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    return keys_.contains(hello.key);
  }
  static Topic topic_of(const Visitor& visitor) { return {visitor.hello.key, visitor.hello.topic}; }
  static void answer(const Visitor& visitor, Answer answer) {
    static_cast<void>(net::send_all(visitor.socket.get(), &answer, sizeof(answer)));
  }
  /// Ends a meeting that cannot take place.
  void end(const Topic& topic, Answer why);
  /// Gives all their records if the last one has come.
  void end_if_complete(const Topic& topic, int ranks);

  net::Listener listener_;
  Visitors visitors_;
  std::map<Topic, Answer> ended_;  ///< meetings that failed.
  Mutex mutex_;
  std::set<std::array<std::uint8_t, 16>> keys_ GPEMU_GUARDED_BY(mutex_);
  FileDescriptor stop_;  ///< an event, which ends the thread.
  std::thread thread_;
};

Result<std::unique_ptr<Meeting::Server>> Meeting::Server::start(
    net::Listener listener, std::set<std::array<std::uint8_t, 16>> keys) {
  std::unique_ptr<Server> server(new Server(std::move(listener), std::move(keys)));
  server->stop_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC));
  if (server->stop_.get() >= 0) {
    server->thread_ = start_thread("gpemu meeting", [own = server.get()] { own->run(); });
  }
  if (!server->thread_.joinable()) {
    return fail(ErrorCode::kUnavailable,
                "the system gives no thread or descriptor for NCCL's ranks to meet");
  }
  return server;
}

Meeting::Server::~Server() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  static_cast<void>(::write(stop_.get(), &one, sizeof(one)));
  thread_.join();
}

Result<Meeting::Server*> Meeting::Server::get() {
  // Never destroyed: threads of the program may call while it exits.
  static auto* const mutex = new Mutex;
  static Server* server = nullptr;
  static pid_t owner = 0;
  const Lock lock(*mutex);
  if (server == nullptr || owner != ::getpid()) {
    GPEMU_ASSIGN(net::Listener listener, listen_for_peers(kMostVisitors));
    GPEMU_ASSIGN(auto started, start(std::move(listener), {}));
    server = started.release();
    owner = ::getpid();
  }
  return server;
}

void Meeting::Server::run() {
  std::vector<pollfd> waits;
  while (true) {
    waits.assign(1, {.fd = listener_.socket.get(), .events = POLLIN, .revents = 0});
    waits.push_back({.fd = stop_.get(), .events = POLLIN, .revents = 0});
    for (const Visitor& visitor : visitors_) {
      waits.push_back({.fd = visitor.socket.get(), .events = POLLIN, .revents = 0});
    }
    const bool has_slow =
        std::ranges::any_of(visitors_, [](const Visitor& visitor) { return !visitor.is_in; });
    if (::poll(waits.data(), waits.size(), has_slow ? 1000 : -1) < 0) continue;
    if (waits[1].revents != 0) return;
    std::vector<Topic> left;
    std::size_t index = 2;
    for (auto visitor = visitors_.begin(); visitor != visitors_.end(); ++index) {
      const bool stays = waits[index].revents == 0
                             ? visitor->is_in || Clock::now() < visitor->deadline
                             : read_from(*visitor);
      if (!stays && visitor->is_in) left.push_back(topic_of(*visitor));
      visitor = stays ? std::next(visitor) : visitors_.erase(visitor);
    }
    for (const Topic& topic : left) end(topic, Answer::kGone);
    std::map<Topic, int> open;
    for (const Visitor& visitor : visitors_) {
      if (visitor.is_in) open[topic_of(visitor)] = visitor.hello.ranks;
    }
    for (const auto& [topic, ranks] : open) end_if_complete(topic, ranks);
    if (waits[0].revents != 0) accept_one();
  }
}

void Meeting::Server::accept_one() {
  FileDescriptor socket = net::accept_peer(listener_);
  if (socket.get() < 0) {
    // Without a descriptor for it, the call stays; do not ask for it again at once.
    if (errno == EMFILE || errno == ENFILE)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  visitors_.push_back({.socket = std::move(socket),
                       .deadline = Clock::now() + std::chrono::seconds(net::kSocketSeconds)});
}

bool Meeting::Server::read_from(Visitor& visitor) {
  if (visitor.is_in) return false;  // It has gone, or says more than it should.
  auto* const hello = reinterpret_cast<std::byte*>(&visitor.hello);
  const ssize_t got =
      ::recv(visitor.socket.get(), hello + visitor.got, sizeof(Hello) - visitor.got, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0) return false;
  visitor.got += static_cast<std::size_t>(got);
  return visitor.got < sizeof(Hello) || let_in(visitor);
}

bool Meeting::Server::let_in(Visitor& visitor) {
  const Hello& hello = visitor.hello;
  if (!is_known(hello)) return false;
  const Topic topic = topic_of(visitor);
  if (const auto ended = ended_.find(topic); ended != ended_.end()) {
    answer(visitor, ended->second);
    return false;
  }
  const bool conflicts =
      hello.ranks < 1 || hello.ranks > kMostVisitors || hello.rank < 0 ||
      hello.rank >= hello.ranks ||
      std::ranges::any_of(
          visitors_,
          [&](const Visitor& other) {
            return other.is_in && topic_of(other) == topic &&
                   (other.hello.rank == hello.rank || other.hello.ranks != hello.ranks);
          });
  visitor.is_in = true;
  if (conflicts) ended_[topic] = Answer::kConflict;
  return true;
}

void Meeting::Server::end(const Topic& topic, Answer why) {
  ended_.emplace(topic, why);
}

void Meeting::Server::end_if_complete(const Topic& topic, int ranks) {
  const auto takes_part = [&](const Visitor& visitor) {
    return visitor.is_in && topic_of(visitor) == topic;
  };
  if (const auto ended = ended_.find(topic); ended != ended_.end()) {
    for (const Visitor& visitor : visitors_) {
      if (takes_part(visitor)) answer(visitor, ended->second);
    }
    std::erase_if(visitors_, takes_part);
    // Those that use a named address may try again.
    if (topic.first == kNamedKey) ended_.erase(ended);
    return;
  }
  if (std::ranges::count_if(visitors_, takes_part) != ranks) return;
  std::vector<Record> records(static_cast<std::size_t>(ranks));
  for (const Visitor& visitor : visitors_) {
    if (!takes_part(visitor)) continue;
    records[static_cast<std::size_t>(visitor.hello.rank)] = visitor.hello.record;
  }
  for (const Visitor& visitor : visitors_) {
    if (!takes_part(visitor)) continue;
    answer(visitor, Answer::kComplete);
    static_cast<void>(
        net::send_all(visitor.socket.get(), records.data(), records.size() * sizeof(Record)));
  }
  std::erase_if(visitors_, takes_part);
}

Result<Meeting::Id> Meeting::open() {
  GPEMU_ASSIGN(Server* const server, Server::get());
  return server->add_meeting();
}

Meeting::Host::Host(std::unique_ptr<Server> server) : server_(std::move(server)) {}
Meeting::Host::Host(Host&&) noexcept = default;
Meeting::Host::~Host() = default;

Meeting::Id Meeting::at(const net::SocketAddress& address) {
  return {.magic = kMeetingMagic, .address = address, .key = kNamedKey};
}

bool Meeting::has_named_address(const Id& id) {
  return id.key == kNamedKey;
}

Result<Meeting::Host> Meeting::host(const Id& id) {
  auto listener = net::listen_at(id.address, kMostVisitors);
  if (!listener) {
    return fail(ErrorCode::kUnavailable, "rank 0 cannot listen at {}, which NCCL_COMM_ID names: {}",
                id.address.to_string(), listener.error().message);
  }
  GPEMU_ASSIGN(auto server, Server::start(*std::move(listener), {id.key}));
  return Host(std::move(server));
}

Result<Meeting::Visit> Meeting::visit(const Part& part, const Record& record) {
  if (part.id.magic != kMeetingMagic || !part.id.address.is_usable()) {
    return fail(ErrorCode::kInvalidArgument, "the unique id was not made by this NCCL");
  }
  auto socket = net::call_peer(part.id.address);
  const Hello hello{.key = part.id.key,
                    .topic = part.topic,
                    .rank = part.rank,
                    .ranks = part.ranks,
                    .record = record};
  if (!socket || !net::send_all(socket->get(), &hello, sizeof(hello))) {
    return fail(ErrorCode::kNotFound, "no process with NCCL's ranks answers at {}: {}",
                part.id.address.to_string(),
                socket ? errno_message(errno) : socket.error().message);
  }
  return Visit(socket->release(), part.ranks);
}

Meeting::Visit::Visit(Visit&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), ranks_(other.ranks_) {}

Meeting::Visit::~Visit() {
  if (socket_ >= 0) ::close(socket_);
}

Result<std::vector<Meeting::Record>> Meeting::Visit::records(
    const std::function<bool()>& is_cancelled) {
  constexpr int kPeriodMs = 100;
  pollfd wait{.fd = socket_, .events = POLLIN, .revents = 0};
  // The other ranks may take any time.
  while (true) {
    const int ready = ::poll(&wait, 1, is_cancelled ? kPeriodMs : -1);
    if (ready > 0 || (ready < 0 && errno != EINTR)) break;
    if (is_cancelled && is_cancelled()) {
      return fail(ErrorCode::kInterrupted, "the communicator was aborted before all ranks came");
    }
  }
  Answer answer{};
  std::vector<Record> records(static_cast<std::size_t>(ranks_));
  const bool has_answer = net::receive_all(socket_, &answer, sizeof(answer));
  if (has_answer && answer == Answer::kConflict) {
    return fail(ErrorCode::kInvalidArgument,
                "two processes came as the same rank, or with different numbers of ranks");
  }
  if (!has_answer) {
    return fail(ErrorCode::kNotFound,
                "the process that made the unique id has ended before all ranks came");
  }
  if (answer != Answer::kComplete ||
      !net::receive_all(socket_, records.data(), records.size() * sizeof(Record))) {
    return fail(ErrorCode::kUnavailable, "a rank has ended before all ranks came");
  }
  return records;
}

}  // namespace gpemu::ranks
