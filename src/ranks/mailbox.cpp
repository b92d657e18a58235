// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <limits>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "gpemu/memory/memory_state.hpp"

namespace gpemu::ranks {

/// The start of a file.
struct alignas(64) Mailbox::Row {
  std::atomic<std::uint64_t> finished;  ///< the first call that this rank has not finished.
  /// By rank, the number + 1 of the first call for whose post this one waits; 0: none.
  std::array<std::atomic<std::uint64_t>, kMostRanks> awaits;
  std::atomic<std::uint32_t> has_notice;  ///< written last.
  Notice notice;
};

/// A call in the log.
struct alignas(64) Mailbox::Entry {
  std::atomic<std::uint64_t> sequence;  ///< the call's number + 1, written last; 0: none yet.
  /// The same, written when kind, type, reduction, root and count are there.
  std::atomic<std::uint64_t> announced;
  std::uint64_t count;
  std::uint64_t place;  ///< of the parts and, behind them, the bytes; in the file.
  std::uint8_t kind, type, reduction;
  std::uint8_t form;  ///< a Form.
  std::int32_t root;
  std::uint32_t parts;
  std::uint32_t small_bytes;
  std::array<std::byte, 16> small;
};

namespace {

/// Where a post has its parts and bytes. One part needs no file, and so no system calls, if it has
/// few bytes or none.
enum Form : std::uint8_t {
  kInFile,
  kInPost,    ///< one part, which is kept; its bytes are in `small`.
  kBytesless  ///< one part, whose bytes are nowhere: `small` has its content, `place` its size.
};

constexpr Bytes kRowBytes = 12288;
constexpr Bytes kEntryBytes = 64;
constexpr Bytes kMapped = kRowBytes + Mailbox::kMostEntries * kEntryBytes;
/// More than a node's GPUs have; unused bytes take no memory.
constexpr Bytes kBytesRegion = Bytes{64} * 1024 * kMiB;
constexpr Bytes kFileBytes = kMapped + kBytesRegion;
constexpr Bytes kFilePage = 4096;
/// From here on, what all have read is given back.
constexpr Bytes kMostUseless = 4 * kMiB;
constexpr std::uint64_t kEntriesGivenBack = 4096;
constexpr std::uint32_t kMostParts = 1 << 16;

/// Gives the pages of a range of a file back, which then reads as zeros.
void punch(int descriptor, std::uint64_t start, Bytes bytes) {
  if (bytes == 0) return;
  static_cast<void>(::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                static_cast<off_t>(start), static_cast<off_t>(bytes)));
}

/// Gives back a range of a part of the file that is used again and again.
void punch_around(int descriptor, Bytes base, Bytes size, std::uint64_t from, std::uint64_t to) {
  while (from < to) {
    const Bytes at = from % size;
    const Bytes bytes = std::min(to - from, size - at);
    punch(descriptor, base + at, bytes);
    from += bytes;
  }
}

bool write_all(int descriptor, const std::byte* from, Bytes bytes, std::uint64_t place) {
  while (bytes > 0) {
    const ssize_t written = ::pwrite(descriptor, from, bytes, static_cast<off_t>(place));
    if (written <= 0) return false;
    from += written;
    place += static_cast<Bytes>(written);
    bytes -= static_cast<Bytes>(written);
  }
  return true;
}

bool read_all(int descriptor, std::byte* to, Bytes bytes, std::uint64_t place) {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor, to, bytes, static_cast<off_t>(place));
    if (got <= 0) return false;
    to += got;
    place += static_cast<Bytes>(got);
    bytes -= static_cast<Bytes>(got);
  }
  return true;
}

/// Maps the row and the log of a file; a forked child does not get them.
std::byte* map_log(int descriptor, int protection) {
  void* const memory =
      ::mmap(nullptr, kMapped, protection, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (memory == MAP_FAILED) return nullptr;
  ::madvise(memory, kMapped, MADV_DONTFORK);
  return static_cast<std::byte*>(memory);
}

}  // namespace

Mailbox::Mailbox(Place place, Peer own)
    : place_(place),
      peers_(static_cast<std::size_t>(place.ranks)),
      awaited_(static_cast<std::size_t>(place.ranks)),
      room_until_(kMostEntries) {
  static_assert(sizeof(Row) <= kRowBytes && sizeof(Entry) == kEntryBytes);
  peers_[static_cast<std::size_t>(place.rank)] = own;
}

Mailbox::~Mailbox() {
  for (const Peer& peer : peers_) {
    if (peer.memory != nullptr) ::munmap(peer.memory, kMapped);
    if (peer.descriptor >= 0) ::close(peer.descriptor);
  }
}

Result<std::unique_ptr<Mailbox>> Mailbox::create(Place place) {
  const int descriptor = memory::make_sparse_file(kFileBytes);
  std::byte* const memory = descriptor < 0 ? nullptr : map_log(descriptor, PROT_READ | PROT_WRITE);
  if (memory == nullptr) {
    if (descriptor >= 0) ::close(descriptor);
    return fail(ErrorCode::kResourceLimit,
                "no file for the messages of a communicator; raise the limit of open files or of "
                "memory");
  }
  return std::unique_ptr<Mailbox>(new Mailbox(place, {.descriptor = descriptor, .memory = memory}));
}

Mailbox::Ticket Mailbox::ticket() const {
  const int descriptor = peers_[static_cast<std::size_t>(place_.rank)].descriptor;
  struct stat file{};
  GPEMU_CHECK(::fstat(descriptor, &file) == 0, "a mailbox has a file");
  return {.process = ::getpid(), .descriptor = descriptor, .inode = file.st_ino};
}

Result<void> Mailbox::open_peer(int rank, const Ticket& ticket) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  const int opened =
      ::open(fmt::format("/proc/{}/fd/{}", ticket.process, ticket.descriptor).c_str(),
             O_RDONLY | O_CLOEXEC);
  if (opened < 0) {
    return fail(ErrorCode::kNotFound, "the process {} of rank {} has ended", ticket.process, rank);
  }
  struct stat file{};
  const bool fits = ::fstat(opened, &file) == 0 && file.st_ino == ticket.inode &&
                    ::fcntl(opened, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) &&
                    static_cast<Bytes>(file.st_size) == kFileBytes;
  std::byte* const memory = fits ? map_log(opened, PROT_READ) : nullptr;
  if (memory == nullptr) {
    ::close(opened);
    return fail(ErrorCode::kCorruptData, "rank {} has no mailbox that can be mapped", rank);
  }
  peer = {.descriptor = opened, .memory = memory};
  return {};
}

const Mailbox::Row& Mailbox::row(int rank) const {
  return *reinterpret_cast<const Row*>(peers_[static_cast<std::size_t>(rank)].memory);
}

Mailbox::Row& Mailbox::own_row() {
  return *reinterpret_cast<Row*>(peers_[static_cast<std::size_t>(place_.rank)].memory);
}

const Mailbox::Entry& Mailbox::entry(int rank, std::uint64_t number) const {
  const std::byte* const log = peers_[static_cast<std::size_t>(rank)].memory + kRowBytes;
  return *reinterpret_cast<const Entry*>(log + number % kMostEntries * kEntryBytes);
}

std::uint64_t Mailbox::first_unfinished() const {
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (int rank = 0; rank < place_.ranks; ++rank) {
    first = std::min(first, row(rank).finished.load(std::memory_order_acquire));
  }
  return first;
}

void Mailbox::show(const Notice& notice) {
  own_row().notice = notice;
  own_row().has_notice.store(1, std::memory_order_release);
}

std::optional<Mailbox::Notice> Mailbox::notice(int rank) const {
  if (row(rank).has_notice.load(std::memory_order_acquire) == 0) return std::nullopt;
  return row(rank).notice;
}

bool Mailbox::exists(const Ticket& ticket) {
  struct stat file{};
  const auto path = fmt::format("/proc/{}/fd/{}", ticket.process, ticket.descriptor);
  return ::stat(path.c_str(), &file) == 0 && file.st_ino == ticket.inode;
}

bool Mailbox::has_room(std::uint64_t number) {
  if (number < room_until_.load(std::memory_order_relaxed)) return true;
  const std::uint64_t first = first_unfinished();
  room_until_.store(first + kMostEntries, std::memory_order_relaxed);
  return number < first + kMostEntries;
}

void Mailbox::give_back() {
  const std::uint64_t first = first_unfinished();
  const int descriptor = peers_[static_cast<std::size_t>(place_.rank)].descriptor;
  while (!kept_.empty() && kept_.front().number < first) {
    tail_ = kept_.front().end;
    kept_.pop_front();
  }
  const std::uint64_t end = tail_ / kFilePage * kFilePage;
  if (end > returned_) {
    punch_around(descriptor, kMapped, kBytesRegion, returned_, end);
    returned_ = end;
  }
  const std::uint64_t entries = first / kEntriesGivenBack * kEntriesGivenBack;
  if (entries > entries_returned_) {
    punch_around(descriptor, kRowBytes, kMostEntries * kEntryBytes, entries_returned_ * kEntryBytes,
                 entries * kEntryBytes);
    entries_returned_ = entries;
  }
}

std::uint64_t Mailbox::place_for(std::uint64_t number, Bytes bytes) {
  const Lock lock(mutex_);
  if (head_ - returned_ >= kMostUseless) give_back();
  const Bytes rest = kBytesRegion - head_ % kBytesRegion;
  const std::uint64_t start = bytes <= rest ? head_ : head_ + rest;
  if (bytes > kBytesRegion || start + bytes - returned_ > kBytesRegion) return kFileBytes;
  head_ = start + bytes;
  kept_.push_back({.number = number, .end = head_});
  return kMapped + start % kBytesRegion;
}

bool Mailbox::write(std::span<const Part> parts, const std::byte* memory,
                    std::uint64_t place) const {
  const int descriptor = peers_[static_cast<std::size_t>(place_.rank)].descriptor;
  if (!write_all(descriptor, reinterpret_cast<const std::byte*>(parts.data()), parts.size_bytes(),
                 place)) {
    return false;
  }
  place += parts.size_bytes();
  for (const Part& part : parts) {
    if (memory::in_pages(part.content)) {
      if (!write_all(descriptor, memory, part.bytes, place)) return false;
      place += part.bytes;
    }
    memory += part.bytes;
  }
  return true;
}

void Mailbox::announce(std::uint64_t number, const CollectiveCall& call) {
  Entry& announced = const_cast<Entry&>(entry(place_.rank, number));
  announced.count = call.count;
  announced.kind = static_cast<std::uint8_t>(call.kind);
  announced.type = static_cast<std::uint8_t>(call.type);
  announced.reduction = static_cast<std::uint8_t>(call.reduction);
  announced.root = call.root;
  // Sequentially consistent: of two ranks that announce and then look, at least one sees the other.
  announced.announced.store(number + 1);
}

void Mailbox::post(std::uint64_t number, std::span<const Part> parts, const std::byte* memory) {
  Entry& posted = const_cast<Entry&>(entry(place_.rank, number));
  posted.parts = static_cast<std::uint32_t>(parts.size());
  posted.form = kInFile;
  if (parts.size() == 1 && !memory::in_pages(parts[0].content)) {
    posted.form = kBytesless;
    posted.small[0] = static_cast<std::byte>(parts[0].content);
    posted.place = parts[0].bytes;
  } else if (parts.size() == 1 && parts[0].content == memory::Content::kKept &&
             parts[0].bytes <= posted.small.size()) {
    posted.form = kInPost;
    posted.small_bytes = static_cast<std::uint32_t>(parts[0].bytes);
    std::memcpy(posted.small.data(), memory, parts[0].bytes);
  } else if (!parts.empty()) {
    Bytes bytes = parts.size_bytes();
    for (const Part& part : parts) bytes += memory::in_pages(part.content) ? part.bytes : 0;
    const bool fits = parts.size() <= kMostParts;
    posted.place = fits ? place_for(number, memory::round_up(bytes, 16)) : kFileBytes;
    if (posted.place == kFileBytes || !write(parts, memory, posted.place)) posted.parts = 0;
  }
  if (number % kEntriesGivenBack == 0) {
    const Lock lock(mutex_);
    give_back();
  }
  // Sequentially consistent, as is what a rank that waits does in the opposite order.
  posted.sequence.store(number + 1);
}

bool Mailbox::has_announced(int rank, std::uint64_t number) const {
  return entry(rank, number).announced.load() == number + 1;
}

bool Mailbox::has_posted(int rank, std::uint64_t number) const {
  return entry(rank, number).sequence.load() == number + 1;
}

CollectiveCall Mailbox::call(int rank, std::uint64_t number) const {
  const Entry& announced = entry(rank, number);
  return {.kind = static_cast<gpemu_cuda_collective>(announced.kind),
          .type = static_cast<gpemu_cuda_comm_type>(announced.type),
          .reduction = static_cast<gpemu_cuda_comm_reduction>(announced.reduction),
          .root = announced.root,
          .count = announced.count};
}

std::vector<Mailbox::Part> Mailbox::parts(int rank, std::uint64_t number) const {
  const Entry& posted = entry(rank, number);
  if (posted.form == kInPost) {
    return {{.bytes = std::min<Bytes>(posted.small_bytes, posted.small.size()),
             .content = memory::Content::kKept}};
  }
  const auto is_valid = [](const Part& part) {
    return part.bytes <= kBytesRegion && part.content <= memory::Content::kNotUpdated;
  };
  if (posted.form == kBytesless) {
    const Part part{.bytes = posted.place,
                    .content = static_cast<memory::Content>(posted.small[0])};
    return is_valid(part) && !memory::in_pages(part.content) ? std::vector{part}
                                                             : std::vector<Part>();
  }
  const std::uint32_t count = posted.parts;
  if (count == 0 || count > kMostParts) return {};
  std::vector<Part> parts(count);
  const int descriptor = peers_[static_cast<std::size_t>(rank)].descriptor;
  if (!read_all(descriptor, reinterpret_cast<std::byte*>(parts.data()), count * sizeof(Part),
                posted.place)) {
    return {};
  }
  return std::ranges::all_of(parts, is_valid) ? parts : std::vector<Part>();
}

bool Mailbox::read(int rank, std::uint64_t number, Bytes offset, std::span<std::byte> to) const {
  const Entry& posted = entry(rank, number);
  if (posted.form == kBytesless) return false;
  if (posted.form == kInPost) {
    if (offset > posted.small.size() || to.size() > posted.small.size() - offset) return false;
    std::memcpy(to.data(), &posted.small[0] + offset, to.size());
    return true;
  }
  if (offset > kBytesRegion) return false;
  const int descriptor = peers_[static_cast<std::size_t>(rank)].descriptor;
  return read_all(descriptor, to.data(), to.size(),
                  posted.place + posted.parts * sizeof(Part) + offset);
}

void Mailbox::finish(std::uint64_t number) {
  const Lock lock(finish_mutex_);
  if (number != finished_) {
    finished_early_.push_back(number);
    std::ranges::push_heap(finished_early_, std::greater());
    return;
  }
  ++finished_;
  while (!finished_early_.empty() && finished_early_.front() == finished_) {
    std::ranges::pop_heap(finished_early_, std::greater());
    finished_early_.pop_back();
    ++finished_;
  }
  own_row().finished.store(finished_, std::memory_order_release);
}

void Mailbox::await(int rank, std::uint64_t number) {
  const auto index = static_cast<std::size_t>(rank);
  awaited_[index].insert(number);
  own_row().awaits[index].store(*awaited_[index].begin() + 1);
}

bool Mailbox::stop_awaiting(int rank, std::uint64_t number) {
  const auto index = static_cast<std::size_t>(rank);
  std::multiset<std::uint64_t>& awaited = awaited_[index];
  awaited.erase(awaited.find(number));
  own_row().awaits[index].store(awaited.empty() ? 0 : *awaited.begin() + 1);
  return !awaited.empty() && has_posted(rank, *awaited.begin());
}

bool Mailbox::is_awaited_by(int rank, std::uint64_t number) const {
  return row(rank).awaits[static_cast<std::size_t>(place_.rank)].load() == number + 1;
}

Bytes Mailbox::held() const {
  struct stat file{};
  if (::fstat(peers_[static_cast<std::size_t>(place_.rank)].descriptor, &file) != 0) return 0;
  return static_cast<Bytes>(file.st_blocks) * 512;
}

}  // namespace gpemu::ranks
