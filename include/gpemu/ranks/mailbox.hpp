// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/memory/content.hpp"
#include "gpemu/ranks/collective.hpp"

namespace gpemu::ranks {

/// What the ranks of a communicator tell each other about their calls, and the bytes of their
/// sources.
///
/// Each rank writes a file without a name and maps those of the others read-only, so that nothing
/// stays when processes die. A file has a row of counters, a log with one entry per call, which is
/// used again once all ranks have read it, and the bytes, for which the same is true.
///
/// Thread safety: any thread, after all peers were opened.
class Mailbox {
 public:
  /// Ranks of a communicator. Source: a node has as many seats.
  static constexpr int kMostRanks = 1024;
  /// Calls that a rank may be ahead of the slowest.
  static constexpr std::uint64_t kMostEntries = std::uint64_t{1} << 20;

  /// How another process finds a rank's file. It comes from there and may be forged.
  struct Ticket {
    std::int32_t process = 0;
    std::int32_t descriptor = -1;
    std::uint64_t inode = 0;
  };

  /// A part of a source whose content has one state.
  struct Part {
    Bytes bytes = 0;
    memory::Content content = memory::Content::kZeros;
    std::uint32_t unused = 0;
  };
  static_assert(sizeof(Part) == 16);

  /// Makes the file of a rank. Errors: kResourceLimit.
  [[nodiscard]] static Result<std::unique_ptr<Mailbox>> create(Place place);

  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  ~Mailbox();

  [[nodiscard]] Ticket ticket() const;

  /// Opens the file of another rank. Errors: kNotFound, kCorruptData.
  [[nodiscard]] Result<void> open_peer(int rank, const Ticket& ticket);

  /// Returns whether there is room for the entry of a call.
  [[nodiscard]] bool has_room(std::uint64_t number);

  /// Tells the others of a call, whose source may be posted later. Requires: has_room(number); a
  /// number is announced once.
  void announce(std::uint64_t number, const CollectiveCall& call);

  /// Returns whether a rank has announced a call. Only reads memory.
  [[nodiscard]] bool has_announced(int rank, std::uint64_t number) const;

  /// Returns the call that a rank has announced. Requires: has_announced().
  [[nodiscard]] CollectiveCall call(int rank, std::uint64_t number) const;

  /// Posts the source of a call: parts, whose bytes are at `memory` unless they are zeros or not
  /// known. No parts: there is no source that others need. If there is no room for the bytes, they
  /// are posted as not computed. Requires: the call was announced; a number is posted once.
  void post(std::uint64_t number, std::span<const Part> parts, const std::byte* memory);

  /// Returns whether a rank has posted the source of a call. Only reads memory.
  [[nodiscard]] bool has_posted(int rank, std::uint64_t number) const;

  /// Returns the parts of a posted source. They are empty if there are none, or if the file is
  /// damaged. Requires: has_posted().
  [[nodiscard]] std::vector<Part> parts(int rank, std::uint64_t number) const;

  /// Reads bytes of the parts that are in pages, counted without the others, and returns whether it
  /// could. Requires: has_posted().
  [[nodiscard]] bool read(int rank, std::uint64_t number, Bytes offset,
                          std::span<std::byte> to) const;

  /// What a rank tells the others apart from its calls.
  using Notice = std::array<std::byte, 64>;
  /// Shows the others a notice. Once.
  void show(const Notice& notice);
  /// Returns the notice of a rank, nothing if it has shown none.
  [[nodiscard]] std::optional<Notice> notice(int rank) const;
  /// Returns whether the process that gave a ticket still has the file.
  [[nodiscard]] static bool exists(const Ticket& ticket);

  /// Notes that this rank needs nothing of a call any more. Each number once.
  void finish(std::uint64_t number);

  /// Notes that this rank waits for another's post, or that it waits once less. Check has_posted()
  /// afterwards. stop_awaiting() returns whether a post for which this rank still waits has come
  /// without a ring. Requires: one thread at a time.
  void await(int rank, std::uint64_t number);
  [[nodiscard]] bool stop_awaiting(int rank, std::uint64_t number);
  /// Returns whether another rank waits for this rank's post of a call, before all others of this
  /// rank.
  [[nodiscard]] bool is_awaited_by(int rank, std::uint64_t number) const;

  /// For tests: how many bytes of memory the own file takes.
  [[nodiscard]] Bytes held() const;

 private:
  struct Row;
  struct Entry;
  struct Peer {
    int descriptor = -1;
    std::byte* memory = nullptr;
  };

  Mailbox(Place place, Peer own);
  [[nodiscard]] const Row& row(int rank) const;
  [[nodiscard]] Row& own_row();
  [[nodiscard]] const Entry& entry(int rank, std::uint64_t number) const;
  /// Returns the first call that a rank has not finished, of all ranks.
  [[nodiscard]] std::uint64_t first_unfinished() const;
  /// Finds a place for bytes, or returns the end of the file.
  [[nodiscard]] std::uint64_t place_for(std::uint64_t number, Bytes bytes) GPEMU_EXCLUDES(mutex_);
  void give_back() GPEMU_REQUIRES(mutex_);
  [[nodiscard]] bool write(std::span<const Part> parts, const std::byte* memory,
                           std::uint64_t place) const;

  struct Kept {
    std::uint64_t number = 0;
    std::uint64_t end = 0;
  };

  Place place_;
  std::vector<Peer> peers_;                            ///< by rank, the own file too.
  std::vector<std::multiset<std::uint64_t>> awaited_;  ///< calls, by rank.
  Mutex mutex_;
  std::deque<Kept> kept_ GPEMU_GUARDED_BY(mutex_);
  /// Positions in the bytes, which count on: of the next byte, of the first one that is needed, of
  /// the first one whose page was not given back.
  std::uint64_t head_ GPEMU_GUARDED_BY(mutex_) = 0, tail_ GPEMU_GUARDED_BY(mutex_) = 0,
                      returned_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::uint64_t entries_returned_ GPEMU_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> room_until_{0};  ///< there is room for entries before this one.
  Mutex finish_mutex_;
  std::uint64_t finished_ GPEMU_GUARDED_BY(finish_mutex_) = 0;                 ///< all before it.
  std::vector<std::uint64_t> finished_early_ GPEMU_GUARDED_BY(finish_mutex_);  ///< a heap.
};

}  // namespace gpemu::ranks
