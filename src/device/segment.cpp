// SPDX-License-Identifier: Apache-2.0
#include "segment.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "gpemu/base/log.hpp"
#include "gpemu/base/saturate.hpp"
#include "gpemu/device/node_files.hpp"

#include "device_sharing.hpp"
#include "holders.hpp"
#include "identity.hpp"
#include "process_id.hpp"

namespace gpemu::device {
namespace {

/// Allocates what a new segment needs. The states of time slices take most space, and only some
/// processes share a device, so each allocates its own: see SliceTable::take_place().
int allocate(const FileDescriptor& file, const NodeConfig& config) {
  const layout::Offsets offsets = offsets_of(config);
  if (!layout::has_slice_tables(config.policy)) return take_space(file, 0, offsets.end);
  if (const int error = take_space(file, 0, offsets.slice_tables); error != 0) return error;
  for (std::uint64_t place = 0; place < offsets.places; ++place) {
    // The first state counts before anybody has written one.
    const int error = take_space(file, offsets.slice_tables + place * sizeof(layout::SliceTable),
                                 layout::offset_of_slices(1));
    if (error != 0) return error;
  }
  return take_space(file, offsets.mig_tables, offsets.end - offsets.mig_tables);
}

Result<FileDescriptor> allocate_file(const std::filesystem::path& folder,
                                     const NodeConfig& config) {
  // The file has no name until it is complete, so a process that is killed before leaves nothing.
  FileDescriptor file(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, config.mode));
  if (!file.valid()) {
    return fail(ErrorCode::kIo, "cannot create a node segment in {}: {}", folder.string(),
                errno_message(errno));
  }
  ::fchmod(file.get(), config.mode);
  // Really allocated: a sparse segment would kill its users later if the file system is full.
  if (const int error = allocate(file, config); error != 0) {
    return fail(
        error == ENOSPC ? ErrorCode::kResourceLimit : ErrorCode::kIo,
        "cannot allocate {} KiB for a node segment in {}: {}; free some space there, or name "
        "another folder with GPEMU_NODE_DIR",
        offsets_of(config).end / kKiB, folder.string(), errno_message(error));
  }
  return file;
}

Result<void> write_static_part(const FileDescriptor& file, const std::vector<std::byte>& bytes,
                               const std::filesystem::path& folder) {
  const ssize_t written = ::pwrite(file.get(), bytes.data(), bytes.size(), 0);
  if (std::cmp_equal(written, bytes.size())) return {};
  return fail(ErrorCode::kIo, "cannot write a node segment in {}: {}", folder.string(),
              errno_message(written < 0 ? errno : ENOSPC));
}

bool try_lock(int descriptor, int operation) {
  return ::flock(descriptor, operation | LOCK_NB) == 0;
}

/// Opens a file by `open(arguments...)` in such a way that no forked child gets it.
template <typename Open, typename... Arguments>
Result<std::unique_ptr<LockFile>> lock_file(Open open, const Arguments&... arguments) {
  const ForkHold hold;
  GPEMU_ASSIGN(FileDescriptor file, open(arguments...));
  return std::make_unique<LockFile>(std::move(file), hold);
}

}  // namespace

Result<std::unique_ptr<Segment>> Segment::adopt(NodePath path, std::unique_ptr<LockFile> locks,
                                                NodeFacts facts, const sim::Clock* clock) {
  std::unique_ptr<Segment> segment(new Segment());
  segment->owner_pid_ = own_pid();
  segment->path_ = std::move(path);
  segment->facts_ = std::move(facts);
  segment->locks_ = std::move(locks);
  GPEMU_TRY(segment->map());
  segment->queue_clock_ = clock != nullptr ? clock : segment->clock_.get();
  GPEMU_TRY(segment->register_process());
  segment->make_claims();
  segment->make_mig_tables();
  auto* const seats = reinterpret_cast<layout::SeatRecord*>(segment->memory_.data() +
                                                            segment->facts_.offsets().seats);
  segment->seats_ = std::make_unique<GroupSeats>(
      Seats(seats, layout::kSeatCapacity), segment->name(), segment->identity(),
      [self = segment.get()](std::uint64_t identity) { return self->is_alive(identity); });
  return segment;
}

Result<void> Segment::map() {
  const std::size_t devices = facts_.devices.size();
  const layout::Offsets offsets = facts_.offsets();
  places_ = offsets.places;
  if (locks_) {
    GPEMU_ASSIGN(memory_, Mapping::of_file(locks_->get(), offsets.end));
  } else {
    GPEMU_ASSIGN(memory_, Mapping::anonymous(offsets.end));
  }
  std::byte* const memory = memory_.data();
  // Bytes that are not written yet are zero, which is a valid value of every record.
  engines_ = {reinterpret_cast<layout::EngineRecord*>(memory + offsets.engines),
              places_ * kEngineCount};
  processes_ = {reinterpret_cast<layout::ProcessRecord*>(memory + offsets.processes),
                layout::kProcessCapacity};
  holdings_ = {reinterpret_cast<layout::HoldingRecord*>(memory + offsets.holdings),
               places_ * layout::kProcessCapacity};
  fault_records_ = {reinterpret_cast<layout::FaultRecord*>(memory + offsets.fault_records),
                    profile::kMostFaults};
  settings_ = {reinterpret_cast<layout::SettingsRecord*>(memory + offsets.settings), devices};
  power_tables_ = {reinterpret_cast<layout::PowerTable*>(memory + offsets.power_tables), devices};
  links_ = {reinterpret_cast<layout::LinkRecord*>(memory + offsets.links), devices};
  if (layout::has_slice_tables(facts_.policy)) {
    slice_tables_ = {reinterpret_cast<layout::SliceTable*>(memory + offsets.slice_tables), places_};
  }
  if (facts_.policy == SharingPolicy::kMig) {
    mig_records_ = {reinterpret_cast<layout::MigTable*>(memory + offsets.mig_tables), devices};
  }
  clock_ = std::make_unique<sim::SharedClock>(
      *reinterpret_cast<sim::ClockPage*>(memory + offsets.clock));
  return {};
}

Result<std::unique_ptr<Segment>> Segment::create_anonymous(const NodeConfig& config) {
  NodePath path{.name = config.name, .folder = {}, .file = config.name, .owner = 0};
  GPEMU_ASSIGN(NodeFacts facts,
               parse_static_part(static_part(config), offsets_of(config).end, path));
  GPEMU_ASSIGN(auto segment, adopt(std::move(path), nullptr, std::move(facts), nullptr));
  segment->set_all(config.compute_mode);
  return segment;
}

void Segment::set_all(ComputeMode mode) {
  for (layout::SettingsRecord& settings : settings_) {
    settings.compute_mode = static_cast<std::uint32_t>(mode);
  }
}

Result<std::unique_ptr<Segment>> Segment::create_file(const NodeConfig& config,
                                                      const std::filesystem::path& folder,
                                                      const sim::Clock* clock) {
  GPEMU_TRY(make_folder(folder));
  sweep(folder);
  NodePath path{.name = config.name, .folder = folder, .file = config.name, .owner = ::geteuid()};
  GPEMU_ASSIGN(std::unique_ptr<LockFile> locks, lock_file(allocate_file, folder, config));
  // No time has been skipped yet.
  std::vector<std::byte> bytes =
      static_part(config, clock != nullptr ? clock->now() : sim::RealClock().now());
  GPEMU_TRY(write_static_part(locks->file(), bytes, folder));
  GPEMU_ASSIGN(NodeFacts facts, parse_static_part(std::move(bytes), offsets_of(config).end, path));
  if (!try_lock(locks->get(), LOCK_SH)) {
    return fail(ErrorCode::kIo, "cannot lock a node segment in {}: {}", folder.string(),
                errno_message(errno));
  }
  GPEMU_ASSIGN(auto segment, adopt(path, std::move(locks), std::move(facts), clock));
  segment->set_all(config.compute_mode);
  const std::string self = fmt::format("/proc/self/fd/{}", segment->locks_->get());
  if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.path().c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (errno == EEXIST) {
      return fail(ErrorCode::kInvalidArgument,
                  "a node named '{}' exists already; choose another name, or remove it with `{}`",
                  config.name, remove_command(path));
    }
    return fail(ErrorCode::kIo, "cannot create {}: {}", path.path().string(), errno_message(errno));
  }
  return segment;
}

Result<std::unique_ptr<Segment>> Segment::open_file(const NodePath& path, const sim::Clock* clock) {
  GPEMU_ASSIGN(std::unique_ptr<LockFile> locks, lock_file(open_segment, path, O_RDWR));
  struct stat status{};
  // Before the content is read, so that nobody removes a temporary node while it is being opened.
  if (!try_lock(locks->get(), LOCK_SH) || ::fstat(locks->get(), &status) != 0 ||
      status.st_nlink == 0) {
    return fail(ErrorCode::kNotFound, "the node '{}' is being removed", path.name);
  }
  GPEMU_ASSIGN(NodeFacts facts, read_facts(locks->file(), path));
  return adopt(path, std::move(locks), std::move(facts), clock);
}

Result<void> Segment::register_process() {
  for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
    const auto index = static_cast<std::int64_t>(slot);
    if (locks_ && !locks_->lock(layout::kTakenLocks + index)) continue;
    claim_slot(slot);
    // The slot counts only from now on, when its records are clear of its last holder.
    if (!locks_ || locks_->lock(layout::kAliveLocks + index)) {
      slot_ = static_cast<std::ptrdiff_t>(slot);
      return {};
    }
    locks_->unlock(layout::kTakenLocks + index);
  }
  return fail(ErrorCode::kResourceLimit,
              "the node '{}' already has {} processes attached, which is the maximum; end "
              "some of them (`gpemu smi {}` shows them)",
              path_.name, processes_.size(), path_.name);
}

void Segment::make_claims() {
  const auto slot = static_cast<std::size_t>(slot_);
  for (int device = 0; std::cmp_less(device, places_); ++device) {
    claims_.push_back(std::make_unique<DeviceClaims>(
        facts(device).memory_bytes, holdings(device), slot,
        DeviceClaims::Others{
            .attachments = [this] { return others_alive(); },
            .is_own = [this](std::size_t other) { return is_this_process(processes_[other]); },
            .pause =
                [slot](int attempt) {
                  // Of two, the one in the lower slot looks again first.
                  std::this_thread::sleep_for(std::chrono::microseconds(
                      (slot + 1) * static_cast<std::size_t>(std::min(attempt + 1, 20))));
                }}));
  }
}

void Segment::make_mig_tables() {
  for (int device = 0; std::cmp_less(device, mig_records_.size()); ++device) {
    mig_tables_.push_back(std::make_unique<MigTable>(
        mig_records_[static_cast<std::size_t>(device)], static_cast<std::size_t>(slot_),
        [this, device](int slice) { return users(facts_.mig_place(device, slice)); }));
  }
}

std::string Segment::users(int place) const {
  std::string users;
  const Slots living = alive();
  for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
    if (!living[slot] || holdings(place)[slot].contexts == 0) continue;
    users += (users.empty() ? "" : ", ") + describe(process_of(processes_[slot]));
  }
  return users;
}

bool Segment::allocate_slices(int device, std::size_t offset, std::size_t size) const {
  if (!locks_) return true;
  const std::size_t table =
      facts_.offsets().slice_tables + static_cast<std::size_t>(device) * sizeof(layout::SliceTable);
  const int error = take_space(locks_->file(), table + offset, size);
  if (error == 0) return true;
  log(LogLevel::kError, "cannot allocate {} KiB of the node segment {}: {}; free some space in {}",
      size / kKiB, path_.path().string(), errno_message(error), path_.folder.string());
  return false;
}

bool Segment::is_this_process(const layout::ProcessRecord& process) const {
  return process.pid == owner_pid_ && process.pid_namespace == own_pid_namespace();
}

void Segment::claim_slot(std::size_t slot) {
  layout::ProcessRecord& process = processes_[slot];
  if (process.used.load() != 0) trim_all();
  clear_holdings(slot);
  identity_ = unique_number() << 8 | slot;
  process.identity = identity_;
  process.pid = owner_pid_;
  process.pid_namespace = own_pid_namespace();
  const std::string name = own_process_name();
  const std::size_t count = name.copy(process.name, sizeof process.name - 1);
  process.name[count] = '\0';
  process.used = 1;
}

void Segment::clear_holdings(std::size_t slot) {
  for (std::size_t device = 0; device < places_; ++device) {
    layout::HoldingRecord& holding = holdings(static_cast<int>(device))[slot];
    holding.memory = 0;
    holding.contexts = 0;
    holding.is_mps_client = 0;
    const std::uint32_t tenant = holding.tenant.exchange(0);
    for (std::size_t i = 0; i < kEngineCount; ++i) {
      layout::HoldingRecord::Use& use = holding.engines[i];
      layout::EngineRecord& engine = engines(static_cast<int>(device))[i];
      layout::CountRecord& ended = engine.ended;
      use.tail_ns = 0;
      const std::int64_t busy_ns = use.queued.busy_ns.exchange(0);
      ended.busy_ns += busy_ns;
      if (tenant > 0 && tenant <= kMostTenants) engine.ended_ns_of[tenant - 1] += busy_ns;
      ended.operations += use.queued.operations.exchange(0);
      ended.bytes += use.queued.bytes.exchange(0);
    }
  }
}

Segment::~Segment() {
  if (slot_ < 0 || !owned_by_this_process()) return;
  trim_all();
  clear_holdings(static_cast<std::size_t>(slot_));
  processes_[static_cast<std::size_t>(slot_)].identity = 0;
  processes_[static_cast<std::size_t>(slot_)].used = 0;
  if (locks_ && facts_.temporary) unlink_if_unused();
}

void Segment::unlink_if_unused() {
  struct stat named{};
  // Converting our shared lock works only if nobody else holds one: the last process removes the
  // node.
  if (try_lock(locks_->get(), LOCK_EX) && ::lstat(path_.path().c_str(), &named) == 0 &&
      named.st_ino == locks_->inode() && named.st_dev == locks_->file_system()) {
    ::unlink(path_.path().c_str());
  }
}

bool Segment::owned_by_this_process() const {
  return own_pid() == owner_pid_;
}

Result<void> Segment::check_owner() const {
  if (owned_by_this_process()) return {};
  return fail(
      ErrorCode::kUnavailable,
      "the node '{}' was opened before this process was forked: open it again here, or start "
      "the process with spawn instead of fork",
      path_.name);
}

DeviceTables Segment::tables(int device) const {
  return {.engines = engines(device), .processes = processes_, .holdings = holdings(device)};
}

bool Segment::all_others_among(const std::set<pid_t>& processes) const {
  const Slots others = others_alive();
  const std::uint64_t pid_namespace = own_pid_namespace();
  for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
    const layout::ProcessRecord& process = processes_[slot];
    if (others[slot] &&
        (process.pid_namespace != pid_namespace || !processes.contains(process.pid))) {
      return false;
    }
  }
  return true;
}

Slots Segment::others_alive() const {
  if (!locks_) return {};
  Slots others = alive();
  if (slot_ >= 0) others.reset(static_cast<std::size_t>(slot_));
  return others;
}

Slots Segment::alive() const {
  if (!locks_) {
    // A private node has one process.
    Slots own;
    if (slot_ >= 0) own.set(static_cast<std::size_t>(slot_));
    return own;
  }
  if (locks_->get() < 0) {
    // A forked child does not have the open file that it needs to ask.
    Slots used;
    for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
      used.set(slot, processes_[slot].used.load() != 0);
    }
    return used;
  }
  return slots_alive(locks_->get(), slot_);
}

bool Segment::is_alive(std::uint64_t identity) const {
  if (identity == identity_) return true;
  if (!locks_ || locks_->get() < 0) return false;
  const std::uint64_t slot = identity % layout::kProcessCapacity;
  return locked_by_others(locks_->get(), layout::kAliveLocks + static_cast<std::int64_t>(slot),
                          1) &&
         processes_[slot].identity == identity;
}

pid_t Segment::pid_here(std::uint64_t identity) const {
  const layout::ProcessRecord& record = process(identity);
  return record.pid_namespace == own_pid_namespace() ? record.pid.load() : 0;
}

std::string Segment::describe_process(std::uint64_t identity) const {
  const layout::ProcessRecord& record = process(identity);
  return record.identity == identity ? describe(process_of(record)) : "a process that has ended";
}

void Segment::trim_all() {
  const TimePoint now = queue_clock_->now();
  for (std::size_t device = 0; device < places_; ++device) {
    for (std::size_t i = 0; i < kEngineCount; ++i) trim(static_cast<int>(device), i, now, 0);
  }
}

void Segment::trim(int device, std::size_t engine, TimePoint time, std::int64_t own_tail_ns) {
  // A private node ends with its only process.
  if (!locks_) return;
  const std::int64_t now = to_ns(time);
  layout::EngineRecord& record = engines(device)[engine];
  std::int64_t tail = record.tail_ns;
  std::int64_t needed = 0;
  std::int64_t dropped = 0;
  int attempts = 0;
  do {
    if (++attempts > DeviceClaims::kMostAttempts) return;
    needed = std::max(now, own_tail_ns);
    if (needed >= tail) return;
    // Look again for each exchange: a process that queued in between has published its end before.
    const Slots others = others_alive();
    needed =
        needed_until(holdings(device), others, engine, needed, now + layout::kLongestQueue.count());
    if (needed >= tail) return;
    Slots living = others;
    if (own_tail_ns > 0) living.set(static_cast<std::size_t>(slot_));
    dropped = work_of_dead(tables(device), living, engine, needed, tail);
  } while (!record.tail_ns.compare_exchange_weak(tail, needed));
  record.ended.busy_ns -= dropped;
  // New work may be placed where the gaps were.
  for (layout::GapRecord& gap : record.gaps) gap.end_ns = std::min(gap.end_ns.load(), needed);
}

Bytes Segment::memory_used(int device) const {
  return std::min(memory_held(holdings(device), alive()), claims(device).capacity());
}

std::string Segment::largest_holders(int device) const {
  const Slots living = alive();
  std::vector<ProcessSnapshot> processes;
  for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
    if (!living[slot]) continue;
    ProcessSnapshot& process = processes.emplace_back(process_of(processes_[slot]));
    process.memory_held =
        std::min(holdings(device)[slot].memory.load(), facts(device).memory_bytes);
  }
  return describe_largest_holders(std::move(processes), own_pid(), locks_.get());
}

void Segment::ring(std::uint64_t identity) const {
  layout::ProcessRecord& record = process(identity);
  ++record.bell;
  sim::wake_all(record.bell);
}

Result<void> Segment::add_context(int device, bool is_mps_client) {
  GPEMU_TRY(check_owner());
  for (int attempt = 0; attempt < DeviceClaims::kMostAttempts; ++attempt) {
    const ComputeMode mode = compute_mode_of(settings(device));
    if (mode == ComputeMode::kProhibited) {
      return fail(
          ErrorCode::kUnavailable,
          "device {} of node '{}' is prohibited: its compute mode allows no process; `gpemu "
          "nvidia-smi -c DEFAULT` allows all",
          facts_.device_of(device), path_.name);
    }
    const auto refusal =
        claims(device).add_context(mode == ComputeMode::kExclusiveProcess, is_mps_client);
    if (refusal) {
      return fail(
          ErrorCode::kUnavailable, "device {} of node '{}' is exclusive and {}",
          facts_.device_of(device), path_.name,
          refusal->holder
              ? "held by " + describe_holder(process_of(processes_[*refusal->holder]), locks_.get())
              : "other processes keep claiming it");
    }
    // A process that the new mode refuses sees this context, unless it looked before.
    if (compute_mode_of(settings(device)) == mode) return {};
    claims(device).remove_context();
  }
  return fail(ErrorCode::kUnavailable, "the compute mode of device {} of node '{}' keeps changing",
              facts_.device_of(device), path_.name);
}

Result<void> Segment::change_power(int device, TimePoint now,
                                   const std::function<void(PowerSettings&)>& change) {
  // Far more than a process needs to write settings for which it has taken a number.
  constexpr int kMostPauses = 100;
  constexpr Duration kPause = std::chrono::microseconds(10);
  layout::PowerTable& table = power_table(device);
  for (int attempt = 0; attempt < DeviceClaims::kMostAttempts; ++attempt) {
    const std::uint64_t taken = table.taken;
    PowerSettings settings = read_power(table);
    if (settings.number != taken && attempt < kMostPauses) {
      // Another process is about to write, or has died.
      std::this_thread::sleep_for(kPause);
      continue;
    }
    const DeviceSnapshot before = snapshot(device, now);
    settings.from = now;
    settings.busy = before.engines[0].busy;
    settings.capped = before.power.capped_time;
    settings.energy_j = before.power.energy_j;
    change(settings);
    // If others have taken a number since, they may not have seen what this one wrote.
    if (write_power(table, taken, settings) && table.taken == settings.number) return {};
  }
  return fail(ErrorCode::kUnavailable,
              "other processes keep changing the power settings of device {} of node '{}'", device,
              path_.name);
}

DeviceSnapshot Segment::snapshot(int device, TimePoint now) const {
  const Slots living = alive();
  std::array<TimeSlices, 1 + layout::kMigPlaces> slices;
  const auto tables_at = [&](int place, TimeSlices& its) {
    DeviceTables found = tables(place);
    if (slice_tables_.empty()) return found;
    SliceTable::read(slice_tables_[static_cast<std::size_t>(place)], its);
    its.advance(now, facts_.slices_of(place));
    if (its.is_in_use()) found.slices = &its;
    return found;
  };
  DeviceSnapshot snapshot =
      make_snapshot(device, facts(device), tables_at(device, slices.front()), living, now);
  if (!mig_records_.empty()) {
    std::array<DeviceTables, layout::kMigPlaces> places;
    for (std::size_t i = 0; i < places.size(); ++i) {
      places.at(i) = tables_at(facts_.mig_place(device, static_cast<int>(i)), slices.at(1 + i));
    }
    add_mig_places(snapshot, places, MigTable::weights(mig_table(device).read().words),
                   facts(device), living, now);
  }
  snapshot.health = faults().health(device, now);
  add_settings(snapshot, settings(device), facts_.policy);
  add_links(snapshot, links(device));
  snapshot.power =
      power_at(read_power(power_table(device)), facts(device), snapshot.engines[0].busy, now);
  return snapshot;
}

}  // namespace gpemu::device
