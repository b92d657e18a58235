// SPDX-License-Identifier: Apache-2.0
#include "mig_table.hpp"

#include <algorithm>
#include <atomic>
#include <bitset>
#include <iterator>

namespace gpemu::device {
namespace {

/// More attempts than processes that only manage instances ever need.
constexpr int kMostMigAttempts = 1000;

/// The lowest bits of a version say which state counts.
constexpr std::uint64_t kMigStateBits = 9;
static_assert(std::size(layout::MigTable{}.states) == 1 << kMigStateBits);

/// In the byte of a compute instance: it is about to be destroyed.
constexpr std::uint64_t kMark = 0x40;
constexpr std::uint64_t kByte = 0xff;

/// The bits of MigLayout::Words where a device's compute instance stands.
int shift_of(const MigDevice& device) {
  return (device.compute_place - device.memory_place + 1) * 8;
}

/// Places of compute instances.
using Places = std::bitset<kMostMigSlices>;

Places places_of(const MigLayout& layout) {
  Places places;
  for (const MigInstance& instance : layout.instances()) {
    for (const MigComputeInstance& compute : instance.compute) {
      places.set(static_cast<std::size_t>(instance.start + compute.start));
    }
  }
  return places;
}

/// Marks the compute instances of `layout` at these places.
MigLayout::Words marked(const MigLayout& layout, const Places& places) {
  MigLayout::Words words = layout.words();
  for (const MigInstance& instance : layout.instances()) {
    for (const MigComputeInstance& compute : instance.compute) {
      if (!places[static_cast<std::size_t>(instance.start + compute.start)]) continue;
      words.at(static_cast<std::size_t>(instance.start)) |= kMark << (compute.start + 1) * 8;
    }
  }
  return words;
}

Result<void> check_known(const MigLayout& layout) {
  for (const MigInstance& instance : layout.instances()) {
    const profile::MigProfile& profile = *layout.profile(instance.profile);
    if (profile.memory_bytes && profile.multiprocessors) continue;
    return fail(ErrorCode::kUnsupported,
                "the GPU's file does not say how many multiprocessors and how much memory {} has; "
                "add multiprocessors and memory_mib to its table mig.\"{}\"",
                profile.name, profile.name);
  }
  return {};
}

}  // namespace

MigTable::State MigTable::read(const layout::MigTable& table) {
  State state;
  state.version = table.current.load(std::memory_order_acquire);
  for (int attempt = 0;; ++attempt) {
    const layout::MigState& counts = table.states[state.version % (1 << kMigStateBits)];
    for (std::size_t i = 0; i < state.words.size(); ++i) {
      state.words.at(i) = counts.words[i].load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    const std::uint64_t after = table.current.load(std::memory_order_acquire);
    if (after == state.version || attempt > kMostMigAttempts) return state;
    state.version = after;
  }
}

std::array<double, layout::kMigPlaces> MigTable::weights(const MigLayout::Words& words) {
  // By the profile of a compute instance, in the lowest bits of its byte. Source:
  // mig_compute_profiles().
  constexpr std::array<int, 8> kSlices = {1, 2, 3, 4, 7, 1, 1, 1};
  constexpr double kAll = 7;
  std::array<double, layout::kMigPlaces> weights{};
  weights.fill(1 / kAll);
  for (std::size_t place = 0; place < words.size(); ++place) {
    for (std::size_t slice = 0; place + slice < weights.size() && slice < 7; ++slice) {
      const std::uint64_t byte = words.at(place) >> (slice + 1) * 8 & kByte;
      if (byte != 0) weights.at(place + slice) = kSlices.at(byte & 7) / kAll;
    }
  }
  return weights;
}

std::uint64_t MigTable::write(std::uint64_t version, const MigLayout::Words& words) {
  // Neither state is written while it counts: of this attachment's two, one does not.
  std::size_t index = 2 * slot_;
  if (version % (1 << kMigStateBits) == index) ++index;
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i) {
    table_.states[index].words[i].store(words.at(i), std::memory_order_relaxed);
  }
  const std::uint64_t next = ((version >> kMigStateBits) + 1) << kMigStateBits | index;
  return table_.current.compare_exchange_strong(version, next) ? next : 0;
}

Result<void> MigTable::change(std::span<const profile::MigProfile> profiles, const Change& change) {
  const Lock lock(mutex_);
  for (int attempt = 0; attempt < kMostMigAttempts; ++attempt) {
    const State state = read();
    const MigLayout before(profiles, state.words);
    MigLayout after = before;
    GPEMU_TRY(change(after));
    GPEMU_TRY(check_known(after));
    std::uint64_t version = state.version;
    // One that is made again at its place is another one, which nobody uses.
    const Places gone = places_of(before) & ~places_of(after);
    if (gone.any()) {
      version = write(version, marked(before, gone));
      if (version == 0) continue;
      for (int place = 0; place < kMostMigSlices; ++place) {
        const std::string users = gone[static_cast<std::size_t>(place)] ? users_(place) : "";
        if (users.empty()) continue;
        write(version, before.words());
        return fail(ErrorCode::kUnavailable, "the compute instance is in use by {}", users);
      }
    }
    if (write(version, after.words()) != 0) return {};
  }
  return fail(ErrorCode::kUnavailable, "other processes keep changing the GPU's instances");
}

bool MigTable::keep(const MigDevice& device) {
  const Lock lock(mutex_);
  for (int attempt = 0; attempt < kMostMigAttempts; ++attempt) {
    State state = read();
    std::uint64_t& word = state.words.at(static_cast<std::size_t>(device.memory_place));
    const std::uint64_t byte = word >> shift_of(device) & kByte;
    if ((word & kByte) != device.entry[0] || (byte & ~kMark) != device.entry[1]) return false;
    if ((byte & kMark) == 0) return true;
    word &= ~(kMark << shift_of(device));
    if (write(state.version, state.words) != 0) return true;
  }
  return false;
}

}  // namespace gpemu::device
