// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/plain_moves.hpp"

#include <algorithm>
#include <cstddef>

#include "gpemu/kernels/pytorch/tensor_work.hpp"
#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/memory/memory_content.hpp"

namespace gpemu::memory {

using kernels::kMostElements, kernels::Places, kernels::Walk;

namespace {

/// The most pieces of adjacent bytes that one kernel moves. Moving a piece takes the host some
/// 0.3 us.
constexpr Bytes kMostPieces = 4096;

/// Of content that kernels changed in place without computing it, a kernel moves no more than this:
/// programs read sizes and flags, but not weights.
constexpr Bytes kMostMovedNotUpdated = kMiB;

/// Calls a function with each pair of adjacent bytes of a move: their offsets and their number.
template <typename Function>
void for_each_piece(const PlainMove& move, Function&& function) {
  Walk to(move.to_places, move.element_bytes), from(move.from_places, move.element_bytes);
  for (Bytes left = move.to_places.count() * move.element_bytes; left > 0;) {
    const Bytes bytes = move.from == 0 ? to.left() : std::min(to.left(), from.left());
    function(to.offset(), from.offset(), bytes);
    to.advance(bytes);
    if (move.from != 0) from.advance(bytes);
    left -= bytes;
  }
}

Bytes pieces_of(const PlainMove& move) {
  const Bytes to = Walk(move.to_places, move.element_bytes).pieces();
  return move.from == 0 ? to : std::max(to, Walk(move.from_places, move.element_bytes).pieces());
}

Bytes extent_of(const Places& places, const PlainMove& move) {
  return places.extent() + move.element_bytes;
}

Side source_side(const PlainMove& move) {
  return side_of(move.from, extent_of(move.from_places, move));
}

/// What is known of the sources of moves.
struct Knowledge {
  bool anything = false;
  Bytes not_updated = 0;
};

/// Looks at the memory in which the sources lie.
Knowledge look_at(const std::vector<PlainMove>& moves) {
  Knowledge found;
  for (const PlainMove& move : moves) {
    if (move.from == 0) continue;
    const Side side = source_side(move);
    if (!side.is_read_by_kernels()) continue;
    if (side.shared) {
      found.anything = true;
      continue;
    }
    const Bytes extent = extent_of(move.from_places, move);
    for (Bytes done = 0; done < extent;) {
      const ContentMap::Part part = memory().contents.part(move.from + done, extent - done);
      found.anything |= is_known(part.content) || part.content == Content::kNotUpdated;
      if (part.content == Content::kNotUpdated) found.not_updated += part.bytes;
      done += part.bytes;
    }
  }
  return found;
}

/// Moves adjacent bytes between memory that only this process's calls change.
void move_own(std::uint64_t to, std::uint64_t from, Bytes bytes, bool with_not_updated,
              const Side& target, const Side& source) {
  if (with_not_updated) return copy_row(to, from, bytes, target, source);
  for (Bytes done = 0; done < bytes;) {
    const ContentMap::Part part = memory().contents.part(from + done, bytes - done);
    if (part.content == Content::kNotUpdated) {
      drop(to + done, part.bytes, Content::kNotComputed, part.writer);
    } else {
      copy_row(to + done, from + done, part.bytes, target, source);
    }
    done += part.bytes;
  }
}

/// Marks what a move writes as not computed.
void leave_move(const PlainMove& move, kernels::WriterId writer) {
  kernels::KernelWork work;  // As a range, if it has no gaps.
  add_tensor(&work, move.to, move.to_places, move.element_bytes, Uncomputed::kWritten);
  for (const auto& range : work.ranges) {
    leave_uncomputed(range.address, range.bytes, range.how, writer);
  }
  for (const auto& tensor : work.scattered) leave_uncomputed(tensor, writer);
}

/// Moves the pieces of one move, or leaves it uncomputed if its memory is not there.
void move_pieces(const PlainMove& move, bool with_not_updated, kernels::WriterId writer) {
  if (move.from == 0) {
    const std::byte zero{};
    return for_each_piece(move, [&](Bytes to, Bytes, Bytes bytes) {
      fill_by_kernel(move.to + to, &zero, 1, bytes, writer);
    });
  }
  const Side target = side_of(move.to, extent_of(move.to_places, move)), source = source_side(move);
  if (!target.inside || !(target.is_written_by_kernels() || target.on_host()) ||
      !source.is_read_by_kernels()) {
    return leave_move(move, writer);
  }
  const bool own = !target.shared && !source.shared;
  for_each_piece(move, [&](Bytes to_offset, Bytes from_offset, Bytes bytes) {
    const std::uint64_t to = move.to + to_offset, from = move.from + from_offset;
    if (to == from) return;
    own ? move_own(to, from, bytes, with_not_updated, target, source)
        : copy_row(to, from, bytes, target, source);
  });
}

/// Small elements that lie scattered are moved one by one, if all of them are known.
bool move_elements(const PlainMove& move) {
  constexpr Bytes kFewPieces = 16;
  return move.from != 0 && move.to_places.count() <= Bytes{kMostElements} &&
         pieces_of(move) > kFewPieces &&
         compute_move({.element_bytes = move.element_bytes,
                       .to = move.to,
                       .from = move.from,
                       .to_places = move.to_places,
                       .from_places = move.from_places},
                      kernel_memory());
}

}  // namespace

bool perform_moves(const std::vector<PlainMove>& moves, kernels::WriterId writer) {
  const Knowledge known = look_at(moves);
  if (!known.anything) return false;
  const bool with_not_updated = known.not_updated <= kMostMovedNotUpdated;
  Bytes pieces = 0;
  for (const PlainMove& move : moves) {
    if (move_elements(move)) continue;
    pieces += pieces_of(move);
    if (pieces <= kMostPieces) {
      move_pieces(move, with_not_updated, writer);
    } else {
      leave_move(move, writer);
    }
  }
  return true;
}

}  // namespace gpemu::memory
