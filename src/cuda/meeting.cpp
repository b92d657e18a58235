// SPDX-License-Identifier: Apache-2.0
#include "meeting.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <list>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <tuple>
#include <unistd.h>
#include <utility>

#include "gpemu/base/text.hpp"
#include "gpemu/base/thread.hpp"

namespace gpemu::cuda {
namespace {

constexpr std::uint64_t kMeetingMagic = 0x6770656d756d6565;  // "gpemumee"
constexpr int kMostVisitors = 1024;  ///< ranks of a meeting. Source: a node has as many seats.

/// How long a socket may take to connect, or to take or bring what is ready.
constexpr int kSocketSeconds = 20;

/// What a visitor sends. The key comes first.
struct Hello {
  std::array<std::uint8_t, 16> key{};
  std::array<std::uint64_t, 3> topic{};
  std::int32_t rank = 0;
  std::int32_t ranks = 0;
  Meeting::Record record{};
};
static_assert(sizeof(Hello) == 240);

/// What it gets; after kComplete, the records follow.
enum class Answer : std::uint32_t { kComplete = 1, kConflict = 2, kGone = 3 };

sockaddr_storage to_socket(const SocketAddress& address, socklen_t* bytes) {
  sockaddr_storage storage{};
  if (address.family == AF_INET6) {
    sockaddr_in6 six{};
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(address.port);
    six.sin6_scope_id = address.scope;
    std::memcpy(&six.sin6_addr, address.number.data(), sizeof(six.sin6_addr));
    std::memcpy(&storage, &six, sizeof(six));
    *bytes = sizeof(six);
  } else {
    sockaddr_in four{};
    four.sin_family = AF_INET;
    four.sin_port = htons(address.port);
    std::memcpy(&four.sin_addr, address.number.data(), sizeof(four.sin_addr));
    std::memcpy(&storage, &four, sizeof(four));
    *bytes = sizeof(four);
  }
  return storage;
}

SocketAddress from_socket(const sockaddr* from) {
  SocketAddress address;
  address.family = from->sa_family;
  if (from->sa_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, from, sizeof(six));
    address.scope = six.sin6_scope_id;
    address.port = ntohs(six.sin6_port);
    std::memcpy(address.number.data(), &six.sin6_addr, sizeof(six.sin6_addr));
  } else {
    sockaddr_in four{};
    std::memcpy(&four, from, sizeof(four));
    address.port = ntohs(four.sin_port);
    std::memcpy(address.number.data(), &four.sin_addr, sizeof(four.sin_addr));
  }
  return address;
}

std::vector<InterfaceAddress> own_addresses() {
  std::vector<InterfaceAddress> found;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return found;
  for (const ifaddrs* one = first; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    found.push_back({.name = one->ifa_name, .address = from_socket(one->ifa_addr)});
  }
  ::freeifaddrs(first);
  return found;
}

std::string_view variable_of(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

/// Returns whether an interface is one of a list of names, or of beginnings of names.
bool is_listed(std::string_view name, std::string_view list, bool whole) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    // A port may follow.
    const std::string_view entry = list.substr(0, std::min(comma, list.find(':')));
    if (!entry.empty() && (whole ? name == entry : name.starts_with(entry))) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

bool send_all(int socket, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

void set_deadlines(int socket) {
  const timeval limit{.tv_sec = kSocketSeconds, .tv_usec = 0};
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

/// A socket that is closed at its end.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

}  // namespace

std::optional<SocketAddress> choose_address(std::span<const InterfaceAddress> addresses,
                                            std::string_view named, std::string_view family) {
  const bool excludes = named.starts_with('^');
  if (excludes) named.remove_prefix(1);
  const bool whole = named.starts_with('=');
  if (whole) named.remove_prefix(1);
  const auto is_usable = [&](const InterfaceAddress& one) {
    if (family == "AF_INET" && one.address.family != AF_INET) return false;
    if (family == "AF_INET6" && one.address.family != AF_INET6) return false;
    return true;
  };
  const auto first = [&](auto is_wanted) -> std::optional<SocketAddress> {
    const auto found = std::ranges::find_if(addresses, [&](const InterfaceAddress& one) {
      return is_usable(one) && is_wanted(std::string_view(one.name));
    });
    if (found == addresses.end()) return std::nullopt;
    return found->address;
  };
  if (!named.empty()) {
    return first([&](std::string_view name) { return is_listed(name, named, whole) != excludes; });
  }
  std::optional<SocketAddress> chosen =
      first([](std::string_view name) { return name.starts_with("ib"); });
  if (!chosen) {
    chosen =
        first([](std::string_view name) { return !is_listed(name, "docker,lo,virbr", false); });
  }
  for (const std::string_view kind : {"docker", "lo", "virbr"}) {
    if (!chosen) chosen = first([kind](std::string_view name) { return name.starts_with(kind); });
  }
  return chosen;
}

/// Serves the meetings of this process: one thread, which waits for all sockets.
class Meeting::Server {
 public:
  /// Returns that of this process; a forked child makes its own. Null if it cannot be started.
  static Result<Server*> get();

  Id add_meeting() GPEMU_EXCLUDES(mutex_) {
    Id id{.magic = kMeetingMagic, .address = address_};
    static_cast<void>(::getrandom(id.key.data(), id.key.size(), 0));
    const Lock lock(mutex_);
    keys_.insert(id.key);
    return id;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Visitor {
    Socket socket;
    Clock::time_point deadline;
    std::size_t got = 0;
    Hello hello;
    bool is_in = false;  ///< whether all of the hello has come.
  };
  using Visitors = std::list<Visitor>;
  using Topic = std::pair<std::array<std::uint8_t, 16>, std::array<std::uint64_t, 3>>;

  Server(Socket listener, SocketAddress address)
      : listener_(std::move(listener)), address_(address) {}

  static Result<Server*> start();
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
    send_all(visitor.socket.get(), &answer, sizeof(answer));
  }
  /// Ends a meeting that cannot take place.
  void end(const Topic& topic, Answer why);
  /// Gives all their records if the last one has come.
  void end_if_complete(const Topic& topic, int ranks);

  Socket listener_;
  SocketAddress address_;
  Visitors visitors_;
  std::map<Topic, Answer> ended_;  ///< meetings that failed.
  Mutex mutex_;
  std::set<std::array<std::uint8_t, 16>> keys_ GPEMU_GUARDED_BY(mutex_);
  std::thread thread_;
};

Result<Meeting::Server*> Meeting::Server::start() {
  const auto addresses = own_addresses();
  auto address = choose_address(addresses, variable_of("NCCL_SOCKET_IFNAME"),
                                variable_of("NCCL_SOCKET_FAMILY"));
  if (!address) {
    return fail(ErrorCode::kNotFound,
                "no network interface for NCCL: NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY excludes "
                "all");
  }
  address->port = 0;
  Socket listener(::socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t bytes = 0;
  const sockaddr_storage wanted = to_socket(*address, &bytes);
  sockaddr_storage bound{};
  socklen_t bound_bytes = sizeof(bound);
  if (listener.get() < 0 ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&wanted), bytes) != 0 ||
      ::listen(listener.get(), kMostVisitors) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &bound_bytes) != 0) {
    return fail(ErrorCode::kUnavailable, "no socket for NCCL's ranks to meet: {}",
                errno_message(errno));
  }
  auto* const server =
      new Server(std::move(listener), from_socket(reinterpret_cast<const sockaddr*>(&bound)));
  server->thread_ = start_thread("gpemu meeting", [server] { server->run(); });
  if (!server->thread_.joinable()) {
    return fail(ErrorCode::kUnavailable, "the system starts no thread for NCCL's ranks to meet");
  }
  return server;
}

Result<Meeting::Server*> Meeting::Server::get() {
  // Never destroyed: threads of the program may call while it exits.
  static auto* const mutex = new Mutex;
  static Server* server = nullptr;
  static pid_t owner = 0;
  const Lock lock(*mutex);
  if (server == nullptr || owner != ::getpid()) {
    GPEMU_ASSIGN(server, start());
    owner = ::getpid();
  }
  return server;
}

void Meeting::Server::run() {
  std::vector<pollfd> waits;
  while (true) {
    waits.assign(1, {.fd = listener_.get(), .events = POLLIN, .revents = 0});
    for (const Visitor& visitor : visitors_) {
      waits.push_back({.fd = visitor.socket.get(), .events = POLLIN, .revents = 0});
    }
    const bool has_slow =
        std::ranges::any_of(visitors_, [](const Visitor& visitor) { return !visitor.is_in; });
    if (::poll(waits.data(), waits.size(), has_slow ? 1000 : -1) < 0) continue;
    std::vector<Topic> left;
    std::size_t index = 1;
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
  Socket socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.get() < 0) {
    // Without a descriptor for it, the call stays; do not ask for it again at once.
    if (errno == EMFILE || errno == ENFILE)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return;
  }
  set_deadlines(socket.get());
  visitors_.push_back({.socket = std::move(socket),
                       .deadline = Clock::now() + std::chrono::seconds(kSocketSeconds)});
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
    send_all(visitor.socket.get(), records.data(), records.size() * sizeof(Record));
  }
  std::erase_if(visitors_, takes_part);
}

Result<Meeting::Id> Meeting::open() {
  GPEMU_ASSIGN(Server* const server, Server::get());
  return server->add_meeting();
}

Result<Meeting::Visit> Meeting::visit(const Part& part, const Record& record) {
  const SocketAddress& address = part.id.address;
  if (part.id.magic != kMeetingMagic || (address.family != AF_INET && address.family != AF_INET6)) {
    return fail(ErrorCode::kInvalidArgument, "the unique id was not made by this NCCL");
  }
  Socket socket(::socket(address.family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  socklen_t bytes = 0;
  const sockaddr_storage to = to_socket(address, &bytes);
  if (socket.get() >= 0) set_deadlines(socket.get());
  const Hello hello{.key = part.id.key,
                    .topic = part.topic,
                    .rank = part.rank,
                    .ranks = part.ranks,
                    .record = record};
  if (socket.get() < 0 ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), bytes) != 0 ||
      !send_all(socket.get(), &hello, sizeof(hello))) {
    return fail(ErrorCode::kUnavailable, "the process that made the unique id does not answer: {}",
                errno_message(errno));
  }
  return Visit(socket.release(), part.ranks);
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
  const bool has_answer = receive_all(socket_, &answer, sizeof(answer));
  if (has_answer && answer == Answer::kConflict) {
    return fail(ErrorCode::kInvalidArgument,
                "two processes came as the same rank, or with different numbers of ranks");
  }
  if (!has_answer || answer != Answer::kComplete ||
      !receive_all(socket_, records.data(), records.size() * sizeof(Record))) {
    return fail(ErrorCode::kUnavailable,
                "a rank, or the process that made the unique id, has ended before all ranks came");
  }
  return records;
}

}  // namespace gpemu::cuda
