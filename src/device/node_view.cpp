// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/node_view.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>
#include <utility>
#include <vector>

#include "gpemu/sim/shared_clock.hpp"

#include "layout.hpp"
#include "mig_table.hpp"
#include "power.hpp"
#include "segment_file.hpp"
#include "slice_table.hpp"
#include "snapshot.hpp"

namespace gpemu::device {
namespace {

/// A watcher notices skipped time after this period at the latest.
constexpr Duration kLookAgain = std::chrono::milliseconds(20);

/// The clock of a node that a process only watches.
class WatchedClock final : public sim::Clock {
 public:
  WatchedClock(const FileDescriptor& file, const NodePath& path, std::uint64_t offset)
      : file_(file), path_(path), offset_(offset) {}

  [[nodiscard]] TimePoint now() const override {
    std::uint64_t state = 0;
    // If the file was truncated, the node is at an end; time goes on.
    if (read_exactly(file_, path_, &state, sizeof state, offset_ + kState)) {
      skipped_ns_ = std::max(sim::ClockPage::skipped_ns(state), skipped_ns_.load());
    }
    const TimePoint host = host_.host_now();
    return host + Duration(skipped_ns_.load() + pace().ahead_ns(to_ns(host)));
  }

  void wait_until(TimePoint deadline) override {
    for (TimePoint time = now(); time < deadline; time = now()) {
      sleep(deadline - time);
    }
  }

  void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t seen,
                       TimePoint deadline) override {
    for (TimePoint time = now(); word.load() == seen && time < deadline; time = now()) {
      sleep(deadline - time);
    }
  }

  [[nodiscard]] bool runs_by_itself() const override { return true; }

 private:
  static constexpr std::uint64_t kState = offsetof(sim::ClockPage, state);
  static constexpr std::uint64_t kPace = offsetof(sim::ClockPage, pace);

  /// Returns the pace that was read last: it is set once.
  [[nodiscard]] sim::HostPace pace() const {
    sim::HostPace pace{};
    if (pace_permille_ == 0 && read_exactly(file_, path_, &pace, sizeof pace, offset_ + kPace)) {
      pace_since_ns_ = pace.since_ns;
      pace_permille_ = pace.permille;
    }
    return {.since_ns = pace_since_ns_, .permille = pace_permille_, .unused = 0};
  }
  void sleep(Duration time) const {
    std::this_thread::sleep_for(std::min(Duration(pace().to_host(time.count())), kLookAgain));
  }

  const FileDescriptor& file_;
  const NodePath& path_;
  std::uint64_t offset_;
  sim::ClockPage own_page_{};
  sim::SharedClock host_{own_page_};
  mutable std::atomic<std::int64_t> skipped_ns_{0}, pace_since_ns_{0};
  mutable std::atomic<std::uint32_t> pace_permille_{0};
};

}  // namespace

/// More attempts than processes that only manage instances ever need.
constexpr int kMostMigReads = 1000;

/// What is in the segment at a place.
struct PlaceCopy {
  std::vector<layout::EngineRecord> engines;
  std::vector<layout::HoldingRecord> holdings;
};

struct NodeView::State {
  std::shared_ptr<Node> node;  ///< null for a node that is only watched; then the rest is used.
  NodePath path;
  FileDescriptor file;
  NodeFacts facts;
  std::unique_ptr<WatchedClock> clock;

  /// Reads `count` records from an offset of the file.
  template <typename Record>
  [[nodiscard]] Result<std::vector<Record>> read(std::size_t count, std::uint64_t offset) const {
    std::vector<Record> records(count);
    GPEMU_TRY(read_exactly(file, path, records.data(), count * sizeof(Record), offset));
    return records;
  }

  /// Returns the time slices of a place up to now; nothing if no process goes by them.
  [[nodiscard]] Result<std::optional<TimeSlices>> time_slices(std::uint64_t place,
                                                              TimePoint now) const {
    if (!layout::has_slice_tables(facts.policy)) return std::nullopt;
    const std::uint64_t table = facts.offsets().slice_tables + place * sizeof(layout::SliceTable);
    TimeSlices slices;
    for (int attempt = 0; attempt < kMostReads; ++attempt) {
      GPEMU_ASSIGN(const auto before, read<std::uint64_t>(1, table));
      const std::uint64_t state = table + offsetof(layout::SliceTable, states) +
                                  SliceTable::state_of(before[0]) * sizeof(layout::SliceState);
      GPEMU_ASSIGN(const auto states, read<layout::SliceState>(1, state));
      GPEMU_ASSIGN(const auto after, read<std::uint64_t>(1, table));
      SliceTable::read(states[0], slices);
      if (after == before) break;
    }
    if (!slices.is_in_use()) return std::nullopt;
    slices.advance(now, facts.slices_of(static_cast<int>(place)));
    return slices;
  }

  [[nodiscard]] Result<PlaceCopy> read_place(std::uint64_t place) const {
    const layout::Offsets offsets = facts.offsets();
    PlaceCopy copy;
    GPEMU_ASSIGN(
        copy.engines,
        read<layout::EngineRecord>(
            kEngineCount, offsets.engines + place * kEngineCount * sizeof(layout::EngineRecord)));
    GPEMU_ASSIGN(copy.holdings,
                 read<layout::HoldingRecord>(layout::kProcessCapacity,
                                             offsets.holdings + place * layout::kProcessCapacity *
                                                                    sizeof(layout::HoldingRecord)));
    return copy;
  }

  [[nodiscard]] Result<PowerSettings> power_settings(std::uint64_t device) const {
    const std::uint64_t offset = facts.offsets().power_tables + device * sizeof(layout::PowerTable);
    GPEMU_ASSIGN(const auto before, read<layout::PowerTable>(1, offset));
    GPEMU_ASSIGN(const auto after, read<layout::PowerTable>(1, offset));
    return read_power(before.front(), after.front());
  }
  [[nodiscard]] Result<MigMode> mig_mode(std::uint64_t device) const {
    GPEMU_ASSIGN(const auto settings,
                 read<layout::SettingsRecord>(
                     1, facts.offsets().settings + device * sizeof(layout::SettingsRecord)));
    return mig_mode_of(settings.front(), facts.policy);
  }

  /// Requires: the policy is kMig.
  [[nodiscard]] Result<MigLayout::Words> mig_words(std::uint64_t device) const {
    const std::uint64_t offset = facts.offsets().mig_tables + device * sizeof(layout::MigTable);
    for (int attempt = 0;; ++attempt) {
      GPEMU_ASSIGN(const auto tables, read<layout::MigTable>(1, offset));
      GPEMU_ASSIGN(const auto after, read<std::atomic<std::uint64_t>>(1, offset));
      // Nobody writes the state that counts, so it is whole if it still counts.
      if (tables.front().current == after.front() || attempt > kMostMigReads) {
        return MigTable::read(tables.front()).words;
      }
    }
  }

 private:
  /// Attempts to read a state that does not change meanwhile.
  static constexpr int kMostReads = 100;
};

NodeView::NodeView(std::unique_ptr<State> state) : state_(std::move(state)) {}
NodeView::~NodeView() = default;

Result<std::shared_ptr<NodeView>> NodeView::open(std::string_view name,
                                                 const std::filesystem::path& directory) {
  auto state = std::make_unique<State>();
  GPEMU_ASSIGN(state->path, resolve(name, directory));
  GPEMU_ASSIGN(state->file, open_segment(state->path, O_RDONLY));
  GPEMU_ASSIGN(state->facts, read_facts(state->file, state->path));
  if (state->facts.temporary && is_unused(state->file)) {
    return fail(ErrorCode::kNotFound, "the run to which the node '{}' belonged has ended",
                state->path.name);
  }
  state->clock =
      std::make_unique<WatchedClock>(state->file, state->path, state->facts.offsets().clock);
  return std::shared_ptr<NodeView>(new NodeView(std::move(state)));
}

std::shared_ptr<NodeView> NodeView::of(std::shared_ptr<Node> node) {
  auto state = std::make_unique<State>();
  state->node = std::move(node);
  return std::shared_ptr<NodeView>(new NodeView(std::move(state)));
}

const std::string& NodeView::name() const {
  return state_->node ? state_->node->name() : state_->path.name;
}

int NodeView::device_count() const {
  return state_->node ? state_->node->device_count()
                      : static_cast<int>(state_->facts.devices.size());
}

SharingPolicy NodeView::policy() const {
  return state_->node ? state_->node->policy() : state_->facts.policy;
}

bool NodeView::temporary() const {
  return state_->node ? state_->node->temporary() : state_->facts.temporary;
}

const profile::TopologySpec* NodeView::topology() const {
  if (state_->node) return state_->node->topology();
  return state_->facts.topology ? &*state_->facts.topology : nullptr;
}

Result<MigLayout> NodeView::mig_layout(int index,
                                       std::span<const profile::MigProfile> profiles) const {
  if (state_->node) return state_->node->mig(index).layout(profiles);
  GPEMU_CHECK(index >= 0 && index < device_count(), "device index out of range");
  GPEMU_ASSIGN(const MigMode mode, state_->mig_mode(static_cast<std::uint64_t>(index)));
  if (!mode.divided) return MigLayout(profiles);
  GPEMU_ASSIGN(const MigLayout::Words words, state_->mig_words(static_cast<std::uint64_t>(index)));
  return MigLayout(profiles, words);
}

Result<Bytes> NodeView::mig_memory_used(int index, int memory_place) const {
  if (state_->node) return state_->node->mig(index).memory_used(memory_place);
  GPEMU_CHECK(policy() == SharingPolicy::kMig, "MIG does not divide the node's GPUs");
  const int place = state_->facts.mig_place(index, memory_place);
  GPEMU_ASSIGN(const PlaceCopy copy, state_->read_place(static_cast<std::uint64_t>(place)));
  return memory_held(copy.holdings, slots_alive(state_->file.get(), -1));
}

bool NodeView::over() const {
  if (state_->node) return false;
  struct stat status{};
  return ::fstat(state_->file.get(), &status) != 0 || status.st_nlink == 0 ||
         (state_->facts.temporary && is_unused(state_->file));
}

sim::Clock& NodeView::clock() const {
  if (state_->node) return state_->node->clock();
  return *state_->clock;
}

Result<FaultTable> NodeView::faults() const {
  if (state_->node) return state_->node->faults();
  if (state_->facts.faults.faults.empty())
    return FaultTable(state_->facts.faults, state_->facts.made, nullptr);
  using Records = std::vector<layout::FaultRecord>;
  GPEMU_ASSIGN(Records read, state_->read<layout::FaultRecord>(
                                 profile::kMostFaults, state_->facts.offsets().fault_records));
  const auto records = std::make_shared<const Records>(std::move(read));
  return FaultTable(state_->facts.faults, state_->facts.made, {records, records->data()});
}

Result<DeviceSnapshot> NodeView::device_snapshot(int index, TimePoint now) const {
  if (state_->node) return state_->node->device_snapshot(index, now);
  GPEMU_CHECK(index >= 0 && index < device_count(), "device index out of range");
  const auto device = static_cast<std::uint64_t>(index);
  const layout::Offsets offsets = state_->facts.offsets();
  GPEMU_ASSIGN(const auto processes,
               state_->read<layout::ProcessRecord>(layout::kProcessCapacity, offsets.processes));
  GPEMU_ASSIGN(const PlaceCopy own, state_->read_place(device));
  const Slots alive = slots_alive(state_->file.get(), -1);
  const auto tables = [&processes](const PlaceCopy& place) {
    return DeviceTables{
        .engines = place.engines, .processes = processes, .holdings = place.holdings};
  };
  const DeviceFacts& facts = state_->facts.devices[device];
  GPEMU_ASSIGN(const auto slices, state_->time_slices(device, now));
  DeviceTables own_tables = tables(own);
  own_tables.slices = slices ? &*slices : nullptr;
  DeviceSnapshot snapshot = make_snapshot(index, facts, own_tables, alive, now);
  if (policy() == SharingPolicy::kMig) {
    GPEMU_ASSIGN(const MigLayout::Words words, state_->mig_words(device));
    std::array<PlaceCopy, layout::kMigPlaces> copies;
    std::array<std::optional<TimeSlices>, layout::kMigPlaces> slices_of;
    std::array<DeviceTables, layout::kMigPlaces> places;
    for (std::size_t i = 0; i < copies.size(); ++i) {
      const auto place =
          static_cast<std::uint64_t>(state_->facts.mig_place(index, static_cast<int>(i)));
      GPEMU_ASSIGN(copies.at(i), state_->read_place(place));
      places.at(i) = tables(copies.at(i));
      GPEMU_ASSIGN(slices_of.at(i), state_->time_slices(place, now));
      if (slices_of.at(i)) places.at(i).slices = &*slices_of.at(i);
    }
    add_mig_places(snapshot, places, MigTable::weights(words), facts, alive, now);
  }
  GPEMU_ASSIGN(const FaultTable faults, this->faults());
  snapshot.health = faults.health(index, now);
  GPEMU_ASSIGN(const auto settings,
               state_->read<layout::SettingsRecord>(
                   1, offsets.settings + device * sizeof(layout::SettingsRecord)));
  add_settings(snapshot, settings.front(), policy());
  GPEMU_ASSIGN(const auto links, state_->read<layout::LinkRecord>(
                                     1, offsets.links + device * sizeof(layout::LinkRecord)));
  add_links(snapshot, links.front());
  GPEMU_ASSIGN(const PowerSettings power, state_->power_settings(device));
  snapshot.power = power_at(power, facts, snapshot.engines[0].busy, now);
  return snapshot;
}

}  // namespace gpemu::device
