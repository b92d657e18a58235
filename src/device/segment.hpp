// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/device/node.hpp"

#include "layout.hpp"

namespace gpemu::device {

/// A mapped node segment and this process's slot in its registry.
///
/// A segment file is locked shared (flock) by every process that has it mapped, and the kernel
/// drops the lock when a process ends in whatever way. So a temporary node whose file can be locked
/// exclusively belongs to nobody.
class Node::Segment {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Segment>> create_file(
      const NodeConfig& config, const std::filesystem::path& directory);
  [[nodiscard]] static Result<std::unique_ptr<Segment>> create_anonymous(const NodeConfig& config);
  /// Maps the segment of any version that a file holds: only its header up to `temporary` and
  /// `unlink` may be used.
  [[nodiscard]] static Result<std::unique_ptr<Segment>> map_any(const std::filesystem::path& path);
  /// Maps an existing file without registering this process.
  [[nodiscard]] static Result<std::unique_ptr<Segment>> map_file(const std::filesystem::path& path);
  /// Removes temporary nodes that no process uses; returns the names of the others.
  [[nodiscard]] static Result<std::vector<std::string>> sweep(
      const std::filesystem::path& directory);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  /// Takes a slot in the registry. Errors: kResourceLimit when it is full.
  [[nodiscard]] Result<void> register_process();

  /// Gives back what dead processes held; returns how many those were.
  int recover();

  /// Recomputes a device's used memory from what each process holds. Requires: its ledger is
  /// locked.
  void recount_memory(int device);

  /// Counts this process's contexts on a device. Errors: kUnavailable under the exclusive policy.
  [[nodiscard]] Result<void> add_context(int device);
  void remove_context(int device);

  /// Returns whether the file is locked by another segment too.
  [[nodiscard]] bool used_by_others() const;

  /// Unlinks the file if it still is this segment's, and if `force` or no other process has it
  /// mapped.
  [[nodiscard]] Result<void> unlink(bool force);

  [[nodiscard]] layout::Header& header() const { return *header_; }
  [[nodiscard]] std::span<layout::DeviceRecord> devices() const { return devices_; }
  [[nodiscard]] std::span<layout::ProcessRecord> processes() const { return processes_; }
  [[nodiscard]] layout::HoldingRecord& holding(std::size_t slot, int device) const {
    return holdings_[slot * devices_.size() + static_cast<std::size_t>(device)];
  }
  /// Returns what this process holds. Requires: registered.
  [[nodiscard]] layout::HoldingRecord& own_holding(int device) const {
    return holding(static_cast<std::size_t>(slot_), device);
  }
  /// Guards what this process queues on a device, among its threads.
  [[nodiscard]] std::mutex& own_mutex(int device) {
    return own_mutexes_[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// A child that was forked after attaching has this object but neither the slot nor the lock.
  [[nodiscard]] bool owned_by_this_process() const;
  /// Errors: kUnavailable in such a child.
  [[nodiscard]] Result<void> check_owner() const;

 private:
  Segment() = default;
  [[nodiscard]] static Result<std::unique_ptr<Segment>> adopt(void* memory, std::size_t size);
  void initialise(const NodeConfig& config);
  /// Errors: kIncompatible for another version, or sizes that do not agree.
  [[nodiscard]] Result<void> check_layout() const;
  void locate(std::uint32_t device_count);
  void release_slot(std::size_t slot);
  int recover_locked();
  /// Ends an engine's queue after the last work of the given processes, or now if that is later.
  /// What it drops is no more than the work `released_ns` of the process that is released.
  void drop_unneeded_work(int device, std::size_t engine, std::span<const std::size_t> live_slots,
                          std::int64_t released_ns);

  std::byte* memory_ = nullptr;
  std::size_t size_ = 0;
  FileDescriptor file_;  ///< invalid for an anonymous segment.
  std::filesystem::path path_;
  std::string name_;
  layout::Header* header_ = nullptr;
  std::span<layout::DeviceRecord> devices_;
  std::span<layout::ProcessRecord> processes_;
  std::span<layout::HoldingRecord> holdings_;
  std::vector<std::mutex> own_mutexes_;  ///< by device.
  std::ptrdiff_t slot_ = -1;
  pid_t owner_pid_ = 0;
};

}  // namespace gpemu::device
