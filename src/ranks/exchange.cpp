// SPDX-License-Identifier: Apache-2.0
#include "gpemu/ranks/exchange.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/writers.hpp"
#include "gpemu/streams/host_functions.hpp"
#include "gpemu/streams/mover.hpp"

namespace gpemu::ranks {
namespace {

/// From this size on, the mover copies a source or fills a destination. Source: kLargeCopy of
/// copy.cpp.
constexpr Bytes kLargeExchange = kMiB;

/// Of content that kernels changed in place without computing it, others get no more than this:
/// programs read sizes and flags, but not weights.
constexpr Bytes kMostNotUpdated = kMiB;

/// Returns whether all ranks know from the call alone that the result is not computed.
bool is_too_large(const CollectiveCall& call) {
  return reduces(call.kind) && call.count > kMostReduced;
}

/// What a rank's source is to the others.
struct Source {
  std::uint64_t start = 0;
  Bytes bytes = 0;  ///< 0: they need none.

  [[nodiscard]] std::array<kernels::Access, 1> accesses() const {
    return {kernels::Access{.start = start, .bytes = bytes}};
  }
};

Source source_of(const Exchange& exchange) {
  const CollectiveCall& call = exchange.call;
  const bool is_only = exchange.communicator->real_ranks() == 1 && !reduces(call.kind);
  if (is_too_large(call) || is_only) return {};
  return {call.source, source_bytes(call, exchange.communicator->place())};
}

/// Describes the content of a source that others get as it is.
std::vector<Mailbox::Part> parts_of(const Source& source) {
  const memory::Side side = memory::side_of(source.start, source.bytes);
  if (side.shared) return {{.bytes = source.bytes, .content = memory::Content::kKept}};
  std::vector<Mailbox::Part> parts;
  Bytes not_updated = 0;
  for (Bytes done = 0; done < source.bytes;) {
    const memory::ContentMap::Part part =
        memory::memory().contents.part(source.start + done, source.bytes - done);
    if (part.content == memory::Content::kNotUpdated) not_updated += part.bytes;
    parts.push_back({.bytes = part.bytes, .content = part.content});
    done += part.bytes;
  }
  if (not_updated <= kMostNotUpdated) return parts;
  for (Mailbox::Part& part : parts) {
    if (part.content == memory::Content::kNotUpdated) {
      // Its bytes are left out, so it must not look like the next part's.
      part.content = memory::Content::kNotComputed;
    }
  }
  return parts;
}

/// Returns whether memory that only this process's calls change holds zeros.
bool is_zero(std::uint64_t start, Bytes bytes) {
  if (memory::side_of(start, bytes).is_shared()) return false;
  const memory::ContentMap::Part part = memory::memory().contents.part(start, bytes);
  return part.content == memory::Content::kZeros && part.bytes == bytes;
}

/// Posts the elements of a reduction, if they are known.
void post_elements(const Exchange& exchange, const Source& source) {
  Mailbox& mailbox = exchange.communicator->mailbox();
  // A factor may be infinite.
  if (exchange.call.reduction != GPEMU_CUDA_COMM_SCALED_SUM &&
      is_zero(source.start, source.bytes)) {
    const std::array zeros{
        Mailbox::Part{.bytes = source.bytes, .content = memory::Content::kZeros}};
    return mailbox.post(exchange.number, zeros, nullptr);
  }
  std::array<std::byte, 64> few{};
  std::vector<std::byte> many(source.bytes > few.size() ? source.bytes : 0);
  const std::span<std::byte> elements =
      many.empty() ? std::span(few).first(source.bytes) : std::span(many);
  if (!memory::known_to_kernel(source.start, source.bytes) ||
      !memory::load_for_kernel(source.start, elements.data(), source.bytes)) {
    return mailbox.post(exchange.number, {}, nullptr);
  }
  if (exchange.call.reduction == GPEMU_CUDA_COMM_SCALED_SUM) {
    scale_elements(exchange.call.type, exchange.call.scale, elements);
  }
  const std::array parts{Mailbox::Part{.bytes = source.bytes, .content = memory::Content::kKept}};
  mailbox.post(exchange.number, parts, elements.data());
}

/// Posts what is there now. Returns the processes that waited for it.
std::vector<Communicator::Awaiting> post_now(const Exchange& exchange) {
  const Source source = source_of(exchange);
  if (source.bytes == 0) {
    exchange.communicator->mailbox().post(exchange.number, {}, nullptr);
  } else if (reduces(exchange.call.kind)) {
    post_elements(exchange, source);
  } else {
    exchange.communicator->mailbox().post(exchange.number, parts_of(source),
                                          reinterpret_cast<const std::byte*>(source.start));
  }
  return exchange.communicator->awaiting(exchange.number);
}

/// Returns whether a source has so much content in pages that the host must not copy it. Others may
/// write shared memory at any time, so it is copied at once.
bool is_large(const Source& source) {
  if (source.bytes < kLargeExchange || memory::side_of(source.start, source.bytes).shared)
    return false;
  return !memory::is_unkept(source.start, source.bytes);
}

kernels::WriterId writer_of(const CollectiveCall& call) {
  return process::writer_id(collective_name(call.kind));
}

/// A rank's destination that is being filled.
class Take {
 public:
  Take(Exchange exchange, std::vector<Slice> slices)
      : exchange_(std::move(exchange)), slices_(std::move(slices)) {
    streams::copy_host_calls(*exchange_.stream, calls_);
    const int slowest = exchange_.communicator->slowest.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      if (slices_[i].from == slowest) first_ = i;
    }
  }

  [[nodiscard]] bool is_ready() const { return calls_.empty() && all_posted(); }

  /// Like is_ready(). If a rank has not posted, it is asked to ring. Requires: one thread at a time
  /// for all takes of a communicator.
  [[nodiscard]] bool may_begin() {
    if (exchange_.communicator->is_aborted()) {
      await(-1);
      return true;
    }
    for (; next_ < slices_.size(); ++next_) {
      const Slice& slice = slices_[(first_ + next_) % slices_.size()];
      if (!needs_post(slice) || mailbox().has_posted(slice.from, exchange_.number)) continue;
      await(slice.from);
      if (!mailbox().has_posted(slice.from, exchange_.number)) return false;
    }
    await(-1);
    return streams::have_returned(calls_);
  }

  void run() {
    const CollectiveCall& call = exchange_.call;
    // If the system starts no thread for the mover, this runs before the others have posted.
    if (exchange_.communicator->is_aborted() || !all_posted() || !all_match()) {
      drop_all();
    } else if (!reduces(call.kind)) {
      for (const Slice& slice : slices_) move(slice);
    } else if (!reduce()) {
      drop_all();
    }
    mailbox().finish(exchange_.number);
  }

  [[nodiscard]] std::vector<kernels::Access> accesses() const {
    const Place place = exchange_.communicator->place();
    std::vector<kernels::Access> accesses{{.start = exchange_.call.destination,
                                           .bytes = destination_bytes(exchange_.call, place),
                                           .writes = true}};
    const bool reads_own =
        std::ranges::any_of(slices_, [this](const Slice& slice) { return !needs_post(slice); });
    if (reads_own) {
      accesses.push_back(
          {.start = exchange_.call.source, .bytes = source_bytes(exchange_.call, place)});
    }
    return accesses;
  }

 private:
  [[nodiscard]] Mailbox& mailbox() const { return exchange_.communicator->mailbox(); }
  /// What a rank moves to itself it takes from its source.
  [[nodiscard]] bool needs_post(const Slice& slice) const {
    return reduces(exchange_.call.kind) || slice.from != exchange_.communicator->place().rank;
  }
  [[nodiscard]] bool all_posted() const {
    return std::ranges::all_of(slices_, [this](const Slice& slice) {
      return !needs_post(slice) || mailbox().has_posted(slice.from, exchange_.number);
    });
  }

  void await(int rank) {
    if (awaited_ == rank) return;
    const int before = std::exchange(awaited_, rank);
    if (rank >= 0) {
      mailbox().await(rank, exchange_.number);
      exchange_.communicator->slowest.store(rank, std::memory_order_relaxed);
    }
    if (before >= 0 && mailbox().stop_awaiting(before, exchange_.number)) {
      process::process().node->bells().ring(process::process().node->identity());
    }
  }

  [[nodiscard]] bool is_transfer() const { return exchange_.call.kind == GPEMU_CUDA_RECEIVE; }
  /// Returns whether what others have posted means something here. A sender may send more or less.
  [[nodiscard]] bool all_match() const {
    return std::ranges::all_of(slices_, [this](const Slice& slice) {
      if (!needs_post(slice)) return true;
      CollectiveCall other = mailbox().call(slice.from, exchange_.number);
      if (is_transfer()) other.count = exchange_.call.count;
      return exchange_.call.matches(other);
    });
  }

  void drop_all() const {
    memory::leave_uncomputed(exchange_.call.destination,
                             destination_bytes(exchange_.call, exchange_.communicator->place()),
                             kernels::Uncomputed::kWritten, writer_of(exchange_.call));
  }

  /// Returns whether all ranks have zeros, of which every reduction gives zeros.
  [[nodiscard]] bool all_zero() const {
    const int ranks = exchange_.communicator->place().ranks;
    return std::ranges::all_of(slices_, [&](const Slice& slice) {
      const auto parts = mailbox().parts(slice.from, exchange_.number);
      return parts.size() == 1 && parts[0].content == memory::Content::kZeros &&
             parts[0].bytes == source_bytes(exchange_.call, {slice.from, ranks});
    });
  }

  /// Sets the destination to zeros, without pages where the program cannot see the difference.
  [[nodiscard]] bool store_zeros(Bytes bytes) const {
    const std::uint64_t to = exchange_.call.destination;
    const memory::Side side = memory::side_of(to, bytes);
    if (side.inside && side.on_device() && !side.is_shared()) {
      memory::drop(to, bytes, memory::Content::kZeros);
    } else {
      const std::vector<std::byte> zeros(bytes);
      memory::store_by_kernel(to, zeros.data(), bytes);
    }
    return true;
  }

  [[nodiscard]] bool reduce() const {
    const Place place = exchange_.communicator->place();
    const Bytes bytes = destination_bytes(exchange_.call, place);
    if (all_zero()) return store_zeros(bytes);
    std::vector<std::byte> elements(bytes * slices_.size()), result(bytes);
    std::vector<std::span<const std::byte>> sources;
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const Slice& slice = slices_[i];
      const auto parts = mailbox().parts(slice.from, exchange_.number);
      const std::span to = std::span(elements).subspan(i * bytes, bytes);
      if (parts.size() != 1 || !memory::is_known(parts[0].content) ||
          parts[0].bytes != source_bytes(exchange_.call, {slice.from, place.ranks}) ||
          (parts[0].content == memory::Content::kKept &&
           !mailbox().read(slice.from, exchange_.number, slice.source, to))) {
        return false;
      }
      sources.emplace_back(to);
    }
    // Phantoms have what their models have.
    for (int rank = static_cast<int>(slices_.size()); rank < place.ranks; ++rank) {
      sources.push_back(sources[static_cast<std::size_t>(exchange_.communicator->model_of(rank))]);
    }
    combine(exchange_.call.type, exchange_.call.reduction, sources, result);
    memory::store_by_kernel(exchange_.call.destination, result.data(), bytes);
    return true;
  }

  /// Moves a slice to the destination.
  void move(const Slice& slice) const {
    const std::uint64_t to = exchange_.call.destination + slice.destination;
    if (!needs_post(slice)) {
      const std::uint64_t from = exchange_.call.source + slice.source;
      if (to != from) {
        memory::copy_row(to, from, slice.bytes, memory::side_of(to, slice.bytes),
                         memory::side_of(from, slice.bytes));
      }
      return;
    }
    const auto parts = mailbox().parts(slice.from, exchange_.number);
    Bytes all = 0;
    for (const Mailbox::Part& part : parts) all += part.bytes;
    if (!is_transfer() &&
        all != source_bytes(exchange_.call, {slice.from, exchange_.communicator->place().ranks})) {
      return memory::leave_uncomputed(to, slice.bytes, kernels::Uncomputed::kWritten,
                                      writer_of(exchange_.call));
    }
    if (all < slice.bytes) {
      memory::leave_uncomputed(to + all, slice.bytes - all, kernels::Uncomputed::kWritten,
                               writer_of(exchange_.call));
    }
    Bytes start = 0, in_file = 0;  // of the part
    for (const Mailbox::Part& part : parts) {
      const Bytes first = std::max(start, slice.source);
      const Bytes last = std::min(start + part.bytes, slice.source + slice.bytes);
      if (first < last) {
        place_part(slice.from, part.content, in_file + (first - start), to + (first - slice.source),
                   last - first);
      }
      start += part.bytes;
      if (memory::in_pages(part.content)) in_file += part.bytes;
    }
  }

  /// Gives a range of the destination the content of a part.
  void place_part(int rank, memory::Content content, Bytes offset, std::uint64_t to,
                  Bytes bytes) const {
    const memory::Side side = memory::side_of(to, bytes);
    if (!side.is_read_by_kernels() && !side.is_written_by_kernels()) return;  // freed meanwhile
    if (content == memory::Content::kZeros && !side.on_host()) {
      return side.shared ? memory::clear_pages(to, bytes)
                         : memory::drop(to, bytes, memory::Content::kZeros);
    }
    auto* const memory = reinterpret_cast<std::byte*>(to);
    if (content == memory::Content::kZeros) {
      std::memset(memory, 0, bytes);
      return;
    }
    if (!memory::in_pages(content)) {
      return memory::leave_uncomputed(to, bytes, kernels::Uncomputed::kWritten,
                                      writer_of(exchange_.call));
    }
    if (!side.shared) memory::keep(to, bytes);
    if (!mailbox().read(rank, exchange_.number, offset, {memory, bytes})) {
      return memory::leave_uncomputed(to, bytes, kernels::Uncomputed::kWritten,
                                      writer_of(exchange_.call));
    }
    if (content == memory::Content::kNotUpdated && !side.shared) {
      memory::memory().contents.assign(to, bytes, content, writer_of(exchange_.call));
    }
  }

  Exchange exchange_;
  std::vector<Slice> slices_;
  streams::HostCalls calls_;
  std::size_t first_ = 0;  ///< of the slices, where the look at their posts begins.
  std::size_t next_ = 0;   ///< so many slices from there on have been posted.
  int awaited_ = -1;
};

/// Returns whether a reduction's result is not known whatever others post.
bool is_hopeless(const Exchange& exchange) {
  if (!reduces(exchange.call.kind)) return false;
  if (is_too_large(exchange.call)) return true;
  const Mailbox& mailbox = exchange.communicator->mailbox();
  const int own = exchange.communicator->place().rank;
  return mailbox.has_posted(own, exchange.number) && mailbox.parts(own, exchange.number).empty();
}

/// Returns the slices of a rank's destination, those of phantoms as slices of their models. If the
/// collective reduces, there is one for each model.
std::vector<Slice> slices_of(const Exchange& exchange) {
  const Communicator& communicator = *exchange.communicator;
  std::vector<Slice> slices = slices_for(exchange.call, communicator.place());
  if (reduces(exchange.call.kind) && !slices.empty()) {
    slices.resize(static_cast<std::size_t>(communicator.real_ranks()));
  }
  for (Slice& slice : slices) slice.from = communicator.model_of(slice.from);
  return slices;
}

}  // namespace

bool is_in_memory(const CollectiveCall& call, Place place) {
  const auto is_usable = [](std::uint64_t address, Bytes bytes) {
    if (bytes == 0) return true;
    const memory::Side side = memory::side_of(address, bytes);
    return side.inside && side.kind != GPEMU_CUDA_MEMORY_UNREGISTERED;
  };
  return is_usable(call.source, source_bytes(call, place)) &&
         is_usable(call.destination, destination_bytes(call, place));
}

std::vector<Communicator::Awaiting> post_source(const Exchange& exchange) {
  const Source source = source_of(exchange);
  streams::HostCalls calls;
  if (source.bytes != 0) streams::copy_host_calls(*exchange.stream, calls);
  const bool waits =
      source.bytes != 0 && (!calls.empty() || (streams::mover().busy() &&
                                               streams::mover().overlaps_any(source.accesses())));
  if (!waits && (reduces(exchange.call.kind) || !is_large(source))) return post_now(exchange);
  streams::Mover::Job job{
      .accesses = {source.accesses().front()},
      .end = exchange.stream->stream->last_end(),
      .lane = is_large(source) ? streams::Mover::Lane::kToHost : streams::Mover::Lane::kEither,
      .work = [exchange] { Communicator::ring(post_now(exchange)); }};
  if (!calls.empty()) {
    job.may_begin = [calls = std::move(calls)] { return streams::have_returned(calls); };
  }
  streams::mover().add(std::move(job));
  return {};
}

void take_result(const Exchange& exchange, const device::Moment& end) {
  Communicator& communicator = *exchange.communicator;
  const Bytes bytes = destination_bytes(exchange.call, communicator.place());
  if (bytes == 0) return communicator.mailbox().finish(exchange.number);
  if (is_hopeless(exchange)) {
    const std::array written{
        kernels::Access{.start = exchange.call.destination, .bytes = bytes, .writes = true}};
    streams::mover().in_order(written, [destination = exchange.call.destination, bytes,
                                        writer = writer_of(exchange.call)] {
      memory::leave_uncomputed(destination, bytes, kernels::Uncomputed::kWritten, writer);
    });
    return communicator.mailbox().finish(exchange.number);
  }
  const auto take = std::make_shared<Take>(exchange, slices_of(exchange));
  std::vector<kernels::Access> accesses = take->accesses();
  if (bytes < kLargeExchange && take->is_ready() &&
      !(streams::mover().busy() && streams::mover().overlaps_any(accesses))) {
    return take->run();
  }
  streams::mover().add({.accesses = std::move(accesses),
                        .end = end,
                        .lane = streams::Mover::Lane::kToDevice,
                        .work = [take] { take->run(); },
                        .may_begin = [take] { return take->may_begin(); }});
}

}  // namespace gpemu::ranks
