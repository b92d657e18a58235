// SPDX-License-Identifier: Apache-2.0
#include "async_reader.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <numeric>
#include <optional>
#include <sys/ioctl.h>
#include <tuple>
#include <utility>
#include <vector>

#include "file_part.hpp"

namespace gpemu::data {
namespace {

// Source: the queue of a SATA device holds 32 commands, that of Linux's block layer 64 by default.
// More at the device would let other readers wait longer; the order is decided before.
constexpr std::size_t kDepth = 32;

/// Returns where a part of a file begins on the disk; nothing if the file system does not tell.
std::optional<std::uint64_t> place_of(const std::filesystem::path& path, const Unit& part) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return std::nullopt;
  // A fiemap ends with room for extents.
  alignas(fiemap) std::array<std::byte, sizeof(fiemap) + sizeof(fiemap_extent)> memory{};
  auto* map = reinterpret_cast<fiemap*>(memory.data());
  map->fm_start = part.offset;
  map->fm_length = std::max<Bytes>(part.bytes, 1);
  map->fm_extent_count = 1;
  if (::ioctl(file.get(), FS_IOC_FIEMAP, map) != 0 || map->fm_mapped_extents == 0) {
    return std::nullopt;
  }
  fiemap_extent extent{};
  std::memcpy(&extent, memory.data() + sizeof(fiemap), sizeof extent);
  return extent.fe_physical + (part.offset - std::min(part.offset, Bytes{extent.fe_logical}));
}

/// Returns the indexes of parts in the order of their places.
std::vector<std::size_t> by_place(const Dataset& dataset, std::span<const Unit> parts) {
  std::vector<std::optional<std::uint64_t>> places;
  places.reserve(parts.size());
  for (const Unit& part : parts) places.push_back(place_of(dataset.files()[part.file], part));
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Without places, files have theirs by their numbers.
  std::ranges::sort(order, {}, [&](std::size_t i) {
    return std::tuple(places[i].value_or(0), parts[i].file, parts[i].offset);
  });
  return order;
}

/// A read in progress, or one that has ended before the described device would have it.
struct Reading {
  std::size_t index = 0;
  FileDescriptor file;
  std::shared_ptr<std::byte[]> memory;
  Bytes filled = 0;
  TimePoint end;  ///< on the described device.
  int error = 0;
};

}  // namespace

struct AsyncReader::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (ready) ::io_uring_queue_exit(&ring);
  }

  io_uring ring{};
  bool ready = false;

  // Of the parts that are being read.
  const Dataset* dataset = nullptr;
  std::span<const Unit> parts;
  PartBuffers* buffers = nullptr;
  StorageDevice* storage = nullptr;
  const Take* take = nullptr;
  std::array<std::optional<Reading>, kDepth> slots;
  std::size_t in_flight = 0;
  std::vector<Reading> ended;
  bool stopped = false;

  void begin(std::size_t index);
  void submit(std::size_t slot);
  void wait_for_one();
  void note_end(std::size_t slot, int result);
  void hand_out_earliest();
  void hand_out(Reading reading);
};

/// Begins to read a part.
void AsyncReader::State::begin(std::size_t index) {
  const Unit& part = parts[index];
  Reading reading{.index = index};
  Result<FileDescriptor> file = open_part(dataset->files()[part.file], part);
  if (!file) {
    stopped = !(*take)(index, std::unexpected(std::move(file).error())) || stopped;
    return;
  }
  reading.file = *std::move(file);
  reading.memory = buffers->get(part.bytes);
  if (storage != nullptr) {
    static_cast<void>(::posix_fadvise(reading.file.get(), 0, 0, POSIX_FADV_RANDOM));
    const DeviceRead missing = missing_of(reading.file, part, storage->page_cache());
    if (missing.bytes > 0) reading.end = storage->take_on(missing, parts.size());
  }
  const auto free = std::ranges::find_if(slots, [](const auto& slot) { return !slot; });
  *free = std::move(reading);
  ++in_flight;
  submit(static_cast<std::size_t>(free - slots.begin()));
}

/// Asks the kernel for what is missing of a part.
void AsyncReader::State::submit(std::size_t slot) {
  const Reading& reading = *slots[slot];
  const Unit& part = parts[reading.index];
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring);
  GPEMU_CHECK(entry != nullptr, "the ring has a place for each slot");
  ::io_uring_prep_read(entry, reading.file.get(), reading.memory.get() + reading.filled,
                       static_cast<unsigned>(part.bytes - reading.filled),
                       part.offset + reading.filled);
  ::io_uring_sqe_set_data64(entry, slot);
}

void AsyncReader::State::wait_for_one() {
  io_uring_cqe* entry = nullptr;
  int error = 0;
  do {
    error = ::io_uring_wait_cqe(&ring, &entry);
  } while (error == -EINTR);
  GPEMU_CHECK(error == 0, "a ring with reads in flight has a completion");
  do {
    const auto slot = static_cast<std::size_t>(::io_uring_cqe_get_data64(entry));
    const int result = entry->res;
    ::io_uring_cqe_seen(&ring, entry);
    note_end(slot, result);
  } while (::io_uring_peek_cqe(&ring, &entry) == 0);
}

/// Notes what came of a read. A part may come in pieces.
void AsyncReader::State::note_end(std::size_t slot, int result) {
  Reading& reading = *slots[slot];
  const bool again = result == -EINTR || result == -EAGAIN;
  if (result > 0) reading.filled += static_cast<Bytes>(result);
  const bool complete = reading.filled == parts[reading.index].bytes;
  if (again || (result > 0 && !complete)) return submit(slot);
  reading.error = result < 0 ? -result : 0;
  ended.push_back(std::move(reading));
  slots[slot].reset();
  --in_flight;
}

void AsyncReader::State::hand_out_earliest() {
  const auto earliest = std::ranges::min_element(ended, {}, &Reading::end);
  Reading reading = std::move(*earliest);
  ended.erase(earliest);
  if (storage != nullptr && !stopped) storage->clock().wait_until(reading.end);
  hand_out(std::move(reading));
}

void AsyncReader::State::hand_out(Reading reading) {
  if (stopped) return;
  const Unit& part = parts[reading.index];
  if (reading.error != 0) {
    stopped = !(*take)(reading.index, cannot_read_part(dataset->files()[part.file], reading.error));
    return;
  }
  stopped = !(*take)(
      reading.index,
      PartBytes{.part = part, .memory = std::move(reading.memory), .filled = reading.filled});
}

AsyncReader::AsyncReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
AsyncReader::AsyncReader(AsyncReader&&) noexcept = default;
AsyncReader& AsyncReader::operator=(AsyncReader&&) noexcept = default;
AsyncReader::~AsyncReader() = default;

Result<AsyncReader> AsyncReader::create() {
  auto state = std::make_unique<State>();
  const int error = ::io_uring_queue_init(kDepth, &state->ring, 0);
  if (error != 0) {
    return fail(ErrorCode::kUnsupported, "the kernel offers no io_uring: {}",
                errno_message(-error));
  }
  state->ready = true;
  return AsyncReader(std::move(state));
}

void AsyncReader::read(const Dataset& dataset, std::span<const Unit> parts, PartBuffers& buffers,
                       StorageDevice* storage, const Take& take) {
  State& state = *state_;
  state.dataset = &dataset;
  state.parts = parts;
  state.buffers = &buffers;
  state.storage = storage;
  state.take = &take;
  state.stopped = false;
  const std::vector<std::size_t> order = by_place(dataset, parts);
  std::size_t next = 0;
  while (true) {
    while (!state.stopped && next < order.size() && state.in_flight + state.ended.size() < kDepth) {
      state.begin(order[next++]);
    }
    ::io_uring_submit(&state.ring);
    if (state.in_flight > 0 && (state.stopped || state.ended.empty())) state.wait_for_one();
    if (!state.ended.empty()) {
      state.hand_out_earliest();
    } else if (state.in_flight == 0 && (state.stopped || next == order.size())) {
      return;
    }
  }
}

}  // namespace gpemu::data
