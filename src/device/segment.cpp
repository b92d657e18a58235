// SPDX-License-Identifier: Apache-2.0
#include "segment.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "gpemu/base/log.hpp"
#include "gpemu/sim/clock.hpp"

#include "identity.hpp"
#include "process_id.hpp"
#include "robust_lock.hpp"

namespace gpemu::device {
namespace {

template <std::size_t Size>
void copy_text(char (&destination)[Size], std::string_view text) {
  const std::size_t count = std::min(text.size(), Size - 1);
  text.copy(destination, count);
  destination[count] = '\0';
}

Result<void> make_directory(const std::filesystem::path& directory) {
  std::error_code ignored;
  std::filesystem::create_directories(directory.parent_path(), ignored);
  // Shared by all users of the host, as /tmp is; each owns what they create.
  if (::mkdir(directory.c_str(), 0700) == 0) {
    ::chmod(directory.c_str(), 01777);
    return {};
  }
  if (errno == EEXIST) return {};
  return fail(ErrorCode::kIo, "cannot create the node folder {}: {}", directory.string(),
              errno_message(errno));
}

Result<FileDescriptor> allocate_file(const std::filesystem::path& directory, mode_t mode,
                                     std::uint64_t size) {
  // Without a name until it is complete: a process that is killed meanwhile leaves nothing.
  FileDescriptor file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  if (!file.valid()) {
    return fail(ErrorCode::kIo, "cannot create a node segment in {}: {}", directory.string(),
                errno_message(errno));
  }
  ::fchmod(file.get(), mode);
  // Really allocated: a sparse segment would kill its users later when the file system is full.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(size)); error != 0) {
    return fail(
        error == ENOSPC ? ErrorCode::kResourceLimit : ErrorCode::kIo,
        "cannot allocate {} KiB for a node segment in {}: {}; free some space there, or name "
        "another folder with GPEMU_NODE_DIR",
        size / kKiB, directory.string(), errno_message(error));
  }
  return file;
}

bool try_lock(const FileDescriptor& file, int operation) {
  return ::flock(file.get(), operation | LOCK_NB) == 0;
}

}  // namespace

Result<std::unique_ptr<Node::Segment>> Node::Segment::adopt(void* memory, std::size_t size) {
  if (memory == MAP_FAILED) {
    return fail(ErrorCode::kResourceLimit, "cannot map a node segment of {} KiB: {}", size / kKiB,
                errno_message(errno));
  }
  std::unique_ptr<Segment> segment(new Segment());
  segment->owner_pid_ = own_pid();
  segment->memory_ = static_cast<std::byte*>(memory);
  segment->size_ = size;
  return segment;
}

void Node::Segment::locate(std::uint32_t device_count) {
  std::byte* next = memory_;
  header_ = reinterpret_cast<layout::Header*>(next);
  next += sizeof(layout::Header);
  devices_ = {reinterpret_cast<layout::DeviceRecord*>(next), device_count};
  next += devices_.size_bytes();
  processes_ = {reinterpret_cast<layout::ProcessRecord*>(next), layout::kProcessCapacity};
  next += processes_.size_bytes();
  holdings_ = {reinterpret_cast<layout::HoldingRecord*>(next),
               std::size_t{layout::kProcessCapacity} * device_count};
  own_mutexes_ = std::vector<std::mutex>(device_count);
}

void Node::Segment::initialise(const NodeConfig& config) {
  // The memory is zero, which is a valid value of every record.
  locate(static_cast<std::uint32_t>(config.devices.size()));
  std::memcpy(header_->magic, layout::kMagic, sizeof layout::kMagic);
  header_->version = layout::kVersion;
  header_->header_bytes = sizeof(layout::Header);
  header_->segment_bytes = size_;
  header_->device_count = static_cast<std::uint32_t>(config.devices.size());
  header_->process_capacity = layout::kProcessCapacity;
  header_->policy = config.policy;
  header_->temporary = config.temporary;
  copy_text(header_->name, config.name);
  initialise_robust_mutex(header_->registry_mutex);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    layout::DeviceRecord& device = devices_[i];
    copy_text(device.gpu, config.devices[i].gpu);
    copy_text(device.uuid, device_uuid(config.name, i));
    copy_text(device.pci_bus_id, device_pci_bus_id(i));
    device.memory_bytes = config.devices[i].memory_bytes;
    device.max_power_w = config.devices[i].max_power_w;
    device.idle_power_w = config.devices[i].idle_power_w;
    device.facts = config.devices[i].facts;
    initialise_robust_mutex(device.ledger_mutex);
  }
  name_ = config.name;
}

Result<std::unique_ptr<Node::Segment>> Node::Segment::create_anonymous(const NodeConfig& config) {
  const std::size_t size = layout::segment_bytes(config.devices.size());
  GPEMU_ASSIGN(auto segment, adopt(::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                                   size));
  segment->initialise(config);
  return segment;
}

Result<std::unique_ptr<Node::Segment>> Node::Segment::create_file(
    const NodeConfig& config, const std::filesystem::path& directory) {
  GPEMU_TRY(make_directory(directory));
  GPEMU_TRY(sweep(directory));
  const std::size_t size = layout::segment_bytes(config.devices.size());
  GPEMU_ASSIGN(FileDescriptor file, allocate_file(directory, config.mode, size));
  GPEMU_ASSIGN(
      auto segment,
      adopt(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), size));
  segment->initialise(config);
  GPEMU_CHECK(try_lock(file, LOCK_SH), "a new file is locked");
  segment->path_ = directory / config.name;
  const std::string self = fmt::format("/proc/self/fd/{}", file.get());
  if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, segment->path_.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    if (errno == EEXIST) {
      return fail(ErrorCode::kInvalidArgument,
                  "a node named '{}' exists already; choose another name, or remove it with "
                  "`gpemu node rm {}`",
                  config.name, config.name);
    }
    return fail(ErrorCode::kIo, "cannot create {}: {}", segment->path_.string(),
                errno_message(errno));
  }
  segment->file_ = std::move(file);
  return segment;
}

Result<std::unique_ptr<Node::Segment>> Node::Segment::map_any(const std::filesystem::path& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid() && errno == ENOENT) {
    return fail(ErrorCode::kNotFound,
                "no node named '{}' (`gpemu node list` shows those there are)",
                path.filename().string());
  }
  struct stat status{};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::kIo, "cannot open the node segment {}: {}", path.string(),
                errno_message(errno));
  }
  const auto not_a_segment = [&path](std::string_view why) {
    return fail(ErrorCode::kIncompatible, "{} is not a gpemu node segment: {}", path.string(), why);
  };
  if (!S_ISREG(status.st_mode)) return not_a_segment("it is no regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < sizeof(layout::Header)) return not_a_segment("it is too short");
  // Before the content is looked at, so that a temporary node cannot be swept from under it.
  if (!try_lock(file, LOCK_SH) || ::fstat(file.get(), &status) != 0 || status.st_nlink == 0) {
    return fail(ErrorCode::kNotFound, "the node '{}' is being removed", path.filename().string());
  }
  GPEMU_ASSIGN(
      auto segment,
      adopt(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0), size));
  auto* header = reinterpret_cast<layout::Header*>(segment->memory_);
  if (std::memcmp(header->magic, layout::kMagic, sizeof layout::kMagic) != 0) {
    return not_a_segment("it does not start with the magic number");
  }
  segment->header_ = header;
  segment->file_ = std::move(file);
  segment->path_ = path;
  segment->name_ = path.filename().string();
  return segment;
}

Result<void> Node::Segment::check_layout() const {
  if (header_->version != layout::kVersion) {
    return fail(ErrorCode::kIncompatible,
                "the node '{}' is of another gpemu, with segments of version {} instead of {}; "
                "remove it with `gpemu node rm {}` and create it anew",
                name_, header_->version, layout::kVersion, name_);
  }
  if (header_->header_bytes != sizeof(layout::Header) || header_->device_count == 0 ||
      header_->device_count > layout::kMaxDevices ||
      header_->process_capacity != layout::kProcessCapacity || header_->segment_bytes != size_ ||
      layout::segment_bytes(header_->device_count) != size_) {
    return fail(ErrorCode::kIncompatible,
                "{} is damaged: its sizes do not agree; remove it with `gpemu node rm {}`",
                path_.string(), name_);
  }
  return {};
}

Result<std::unique_ptr<Node::Segment>> Node::Segment::map_file(const std::filesystem::path& path) {
  GPEMU_ASSIGN(auto segment, map_any(path));
  GPEMU_TRY(segment->check_layout());
  segment->locate(segment->header().device_count);
  return segment;
}

Result<std::vector<std::string>> Node::Segment::sweep(const std::filesystem::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    auto segment = map_any(it->path());
    // Vanished meanwhile, or somebody else's: only what is no segment at all deserves a word.
    if (!segment && segment.error().code != ErrorCode::kIncompatible) continue;
    if (segment && (*segment)->header().temporary && (*segment)->unlink(false)) continue;
    const Result<void> usable =
        segment ? (*segment)->check_layout() : std::unexpected(segment.error());
    if (usable) {
      names.push_back((*segment)->name());
    } else {
      log(LogLevel::kWarning, "{}", usable.error().message);
    }
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return fail(ErrorCode::kIo, "cannot read the node folder {}: {}", directory.string(),
                error.message());
  }
  std::ranges::sort(names);
  return names;
}

bool Node::Segment::used_by_others() const {
  if (!file_.valid()) return false;
  const bool alone = try_lock(file_, LOCK_EX);
  try_lock(file_, LOCK_SH);
  return !alone;
}

Result<void> Node::Segment::unlink(bool force) {
  if (!file_.valid()) return {};
  // Converting our shared lock works only while nobody else holds one.
  if (!force && !try_lock(file_, LOCK_EX)) {
    try_lock(file_, LOCK_SH);
    return fail(ErrorCode::kUnavailable,
                "the node '{}' is in use (`gpemu smi {}` shows by whom); end those processes, or "
                "remove it with --force",
                name_, name_);
  }
  struct stat named{};
  struct stat own{};
  if (::stat(path_.c_str(), &named) == 0 && ::fstat(file_.get(), &own) == 0 &&
      named.st_ino == own.st_ino && ::unlink(path_.c_str()) != 0) {
    return fail(ErrorCode::kIo, "cannot remove {}: {}", path_.string(), errno_message(errno));
  }
  return {};
}

bool Node::Segment::owned_by_this_process() const {
  return own_pid() == owner_pid_;
}

Result<void> Node::Segment::check_owner() const {
  if (owned_by_this_process()) return {};
  return fail(
      ErrorCode::kUnavailable,
      "the node '{}' was opened before this process was forked: open it anew here, or start "
      "the process with spawn instead of fork",
      name_);
}

Node::Segment::~Segment() {
  const bool owner = owned_by_this_process();
  if (owner && slot_ >= 0) {
    const RobustLock lock(header_->registry_mutex, [] {});
    release_slot(static_cast<std::size_t>(slot_));
  }
  if (owner && header_ != nullptr && file_.valid() && header_->temporary) {
    // In use by others: the last of them removes it.
    static_cast<void>(unlink(false));
  }
  ::munmap(memory_, size_);
}

Result<void> Node::Segment::register_process() {
  const RobustLock lock(header_->registry_mutex, [] {});
  recover_locked();
  for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
    layout::ProcessRecord& process = processes_[slot];
    if (process.live) continue;
    process.pid = own_pid();
    process.start_time = process_start_time(process.pid);
    copy_text(process.name, own_process_name());
    process.live = true;
    slot_ = static_cast<std::ptrdiff_t>(slot);
    return {};
  }
  return fail(ErrorCode::kResourceLimit, "the node '{}' already has {} processes attached", name_,
              processes_.size());
}

int Node::Segment::recover() {
  const RobustLock lock(header_->registry_mutex, [] {});
  return recover_locked();
}

int Node::Segment::recover_locked() {
  int recovered = 0;
  for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
    const layout::ProcessRecord& process = processes_[slot];
    if (!process.live || !process_ended(process.pid, process.start_time)) continue;
    release_slot(slot);
    ++recovered;
  }
  return recovered;
}

void Node::Segment::release_slot(std::size_t slot) {
  std::vector<std::size_t> others;
  for (std::size_t other = 0; other < processes_.size(); ++other) {
    if (other != slot && processes_[other].live) others.push_back(other);
  }
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const int device = static_cast<int>(i);
    layout::HoldingRecord& released = holding(slot, device);
    {
      const RobustLock lock(devices_[i].ledger_mutex, [] {});
      released.memory = 0;
      recount_memory(device);
    }
    released.contexts = 0;
    for (std::size_t engine = 0; engine < kEngineCount; ++engine) {
      released.engine_tail_ns[engine] = 0;
      drop_unneeded_work(device, engine, others, released.engine_busy_ns[engine]);
      released.engine_busy_ns[engine] = 0;
    }
  }
  // Last: should this process die before, the slot is released again.
  processes_[slot].live = false;
}

void Node::Segment::drop_unneeded_work(int device, std::size_t engine,
                                       std::span<const std::size_t> live_slots,
                                       std::int64_t released_ns) {
  // A private node ends with its only process.
  if (!file_.valid()) return;
  layout::EngineRecord& record = devices_[static_cast<std::size_t>(device)].engines[engine];
  std::int64_t tail = record.tail_ns;
  std::int64_t needed = 0;
  do {
    needed = sim::RealClock().now().time_since_epoch().count();
    for (const std::size_t slot : live_slots) {
      // Published before the work is queued, so this is never too early.
      needed = std::max(needed, holding(slot, device).engine_tail_ns[engine].load());
    }
    if (needed >= tail) return;
  } while (!record.tail_ns.compare_exchange_weak(tail, needed));
  std::int64_t busy = record.busy_ns;
  const std::int64_t dropped = std::min(layout::work_between(record, needed, tail), released_ns);
  while (!record.busy_ns.compare_exchange_weak(busy, std::max(busy - dropped, std::int64_t{0}))) {
  }
  // Work that comes now may lie where they were.
  for (layout::GapRecord& gap : record.gaps) gap.end_ns = std::min(gap.end_ns.load(), needed);
}

void Node::Segment::recount_memory(int device) {
  std::uint64_t used = 0;
  for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
    if (processes_[slot].live) used += holding(slot, device).memory;
  }
  devices_[static_cast<std::size_t>(device)].memory_used = used;
}

Result<void> Node::Segment::add_context(int device) {
  GPEMU_TRY(check_owner());
  const RobustLock lock(header_->registry_mutex, [] {});
  if (header_->policy == SharingPolicy::kExclusive) {
    recover_locked();
    for (std::size_t slot = 0; slot < processes_.size(); ++slot) {
      const layout::ProcessRecord& process = processes_[slot];
      if (!process.live || process.pid == own_pid() || holding(slot, device).contexts == 0) {
        continue;
      }
      return fail(ErrorCode::kUnavailable,
                  "device {} of node '{}' is exclusive and held by process {} ({})", device, name_,
                  process.pid, process.name);
    }
  }
  ++own_holding(device).contexts;
  return {};
}

void Node::Segment::remove_context(int device) {
  const RobustLock lock(header_->registry_mutex, [] {});
  --own_holding(device).contexts;
}

}  // namespace gpemu::device
