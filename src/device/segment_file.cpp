// SPDX-License-Identifier: Apache-2.0
#include "segment_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <initializer_list>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "identity.hpp"
#include "layout.hpp"
#include "lock_file.hpp"
#include "process_id.hpp"

namespace gpemu::device {
namespace {

static_assert(kMostNameBytes < layout::kNameBytes);

template <std::size_t Size>
void copy_text(char (&destination)[Size], std::string_view text) {
  const std::size_t count = std::min(text.size(), Size - 1);
  text.copy(destination, count);
  destination[count] = '\0';
}

template <std::size_t Size>
std::string text_of(const char (&text)[Size]) {
  return printable({text, ::strnlen(text, Size)});
}

template <std::size_t Size>
void make_printable(char (&text)[Size]) {
  copy_text(text, text_of(text));
}

std::unexpected<Error> damaged(const NodePath& node, std::string_view why) {
  return fail(ErrorCode::kCorruptData, "the node '{}' is damaged: {}; remove it with `{}`",
              printable(node.name), why, remove_command(node));
}

/// FNV-1a, by words of eight bytes for speed. Source: Fowler, Noll, Vo, IETF draft-eastlake-fnv.
std::uint64_t checksum(std::vector<std::byte> bytes) {
  auto* const header = reinterpret_cast<layout::Header*>(bytes.data());
  header->checksum = 0;
  std::uint64_t value = 0xcbf29ce484222325;
  for (std::size_t i = 0; i + sizeof value <= bytes.size(); i += sizeof value) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    value = (value ^ word) * 0x100000001b3;
    value ^= value >> 32;
  }
  return value;
}
static_assert(sizeof(layout::Header) % 8 == 0 && sizeof(layout::FactsRecord) % 8 == 0);

/// Returns whether time slices can have those lengths.
bool are_plausible(const TimeSliceRules& rules) {
  return rules.quantum >= kShortestQuantum && rules.quantum <= kLongestQuantum &&
         rules.context_switch >= Duration() && rules.context_switch <= kLongestQuantum;
}

/// Returns whether a name and numbers are possible for a GPU: anyone who may write a segment can
/// also give it a valid checksum.
bool are_plausible(const layout::FactsRecord& record) {
  constexpr double kMost = 1e12;  // watts and megahertz; products of them stay finite.
  const GpuFacts& facts = record.facts;
  const auto is_size = [](double value) { return value >= 0 && value <= kMost; };
  const std::initializer_list<std::int32_t> counts = {facts.compute_capability_major,
                                                      facts.compute_capability_minor,
                                                      facts.multiprocessors,
                                                      facts.cuda_cores,
                                                      facts.memory_bus_bits,
                                                      facts.pcie_generation,
                                                      facts.pcie_lanes,
                                                      facts.nvlink_links,
                                                      facts.nvlink_gpus,
                                                      facts.nvml_architecture};
  return is_gpu_name(text_of(record.gpu)) && record.memory_bytes > 0 &&
         record.memory_bytes <= Bytes{1} << 60 && facts.reserved_memory_bytes <= Bytes{1} << 60 &&
         is_size(record.max_power_w) && is_size(record.idle_power_w) &&
         is_size(facts.base_clock_mhz) && is_size(facts.boost_clock_mhz) &&
         are_plausible(facts.time_slices) && is_size(facts.memory_clock_mhz) &&
         is_size(facts.nvlink_version) && std::ranges::min(counts) >= 0;
}

DeviceFacts facts_of(const layout::FactsRecord& record) {
  DeviceFacts facts{.gpu = text_of(record.gpu),
                    .uuid = text_of(record.uuid),
                    .pci_bus_id = text_of(record.pci_bus_id),
                    .memory_bytes = record.memory_bytes,
                    .max_power_w = record.max_power_w,
                    .idle_power_w = record.idle_power_w,
                    .facts = record.facts};
  make_printable(facts.facts.product_name);
  make_printable(facts.facts.architecture);
  return facts;
}

/// Returns the number of NVLinks of each GPU.
std::vector<int> nvlinks_of_each(const profile::TopologySpec& topology) {
  std::vector<int> links(topology.gpus.size(), topology.switched_links);
  for (const profile::NvlinkBond& bond : topology.bonds) {
    links[static_cast<std::size_t>(bond.first)] += bond.links;
    links[static_cast<std::size_t>(bond.second)] += bond.links;
  }
  return links;
}

/// Errors: kInvalidArgument unless a topology can join these devices.
Result<void> check_topology(const profile::TopologySpec& topology,
                            const std::vector<DeviceFacts>& devices) {
  if (topology.gpus.size() != devices.size()) {
    return fail(ErrorCode::kInvalidArgument, "the topology {} has {} GPUs, but the node {}",
                topology.name, topology.gpus.size(), devices.size());
  }
  const std::vector<int> links = nvlinks_of_each(topology);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].gpu != topology.gpu) {
      return fail(ErrorCode::kInvalidArgument,
                  "the topology {} joins GPUs of the kind {}, but device {} of the node is of the "
                  "kind {}",
                  topology.name, topology.gpu, i, devices[i].gpu);
    }
    if (links[i] > devices[i].facts.nvlink_links) {
      return fail(ErrorCode::kInvalidArgument,
                  "the topology {} gives GPU {} {} NVLinks, but a {} has {}", topology.name, i,
                  links[i], devices[i].gpu, devices[i].facts.nvlink_links);
    }
  }
  return {};
}

Result<layout::Header> read_header(const FileDescriptor& file, const NodePath& node) {
  layout::Header header{};
  const Result<void> read = read_exactly(file, node, &header, sizeof header, 0);
  if (!read && read.error().code == ErrorCode::kCorruptData) {
    return not_a_segment(node, "it is too short");
  }
  GPEMU_TRY(read);
  if (std::memcmp(header.magic, layout::kMagic, sizeof layout::kMagic) != 0) {
    return not_a_segment(node, "it does not start with the magic number");
  }
  return header;
}

}  // namespace

bool is_gpu_name(std::string_view text) {
  return !text.empty() && !text.contains('/') && !text.ends_with(".toml");
}

std::unexpected<Error> not_a_segment(const NodePath& node, std::string_view why) {
  const std::string path = node.path().string();
  std::error_code error;
  return fail(ErrorCode::kIncompatible, "{} is not a gpemu node segment: {}; `{}` removes it",
              printable(path), why,
              std::filesystem::is_directory(std::filesystem::symlink_status(node.path(), error))
                  ? fmt::format("rm -r {}", shell_word(path))
                  : remove_command(node, true));
}

Result<FileDescriptor> open_segment(const NodePath& node, int access) {
  // Without waiting, because it may be anything, for example a pipe.
  FileDescriptor file(
      ::open(node.path().c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  struct stat status{};
  if (!file.valid() && errno == ENOENT) {
    return fail(ErrorCode::kNotFound, "no node named '{}' (`gpemu node list` lists the nodes)",
                printable(node.name));
  }
  if (!file.valid() && (errno == ELOOP || errno == ENXIO || errno == EISDIR)) {
    return not_a_segment(node, "it is not a regular file");
  }
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    return fail(ErrorCode::kIo, "cannot open the node segment {}: {}",
                printable(node.path().string()), errno_message(errno));
  }
  if (status.st_uid != node.owner) {
    const std::string owner = user_name(status.st_uid);
    return fail(ErrorCode::kNotFound,
                "the node '{}' in {} belongs to user {}, who could deceive you; if you trust that "
                "user, name it {}/{}",
                printable(node.file), printable(node.folder.string()), owner, owner,
                printable(node.file));
  }
  if (!S_ISREG(status.st_mode)) return not_a_segment(node, "it is not a regular file");
  return file;
}

Result<SegmentPrefix> read_prefix(const FileDescriptor& file, const NodePath& node) {
  GPEMU_ASSIGN(const layout::Header header, read_header(file, node));
  return SegmentPrefix{.version = header.version, .temporary = header.temporary != 0};
}

Result<void> read_exactly(const FileDescriptor& file, const NodePath& node, void* destination,
                          std::size_t count, std::uint64_t offset) {
  auto* next = static_cast<std::byte*>(destination);
  while (count > 0) {
    const ssize_t part = ::pread(file.get(), next, count, static_cast<off_t>(offset));
    if (part < 0 && errno == EINTR) continue;
    if (part < 0) {
      return fail(ErrorCode::kIo, "cannot read the node segment {}: {}",
                  printable(node.path().string()), errno_message(errno));
    }
    if (part == 0) return damaged(node, "it was truncated");
    next += part;
    offset += static_cast<std::uint64_t>(part);
    count -= static_cast<std::size_t>(part);
  }
  return {};
}

Result<profile::TopologySpec> read_topology(std::string_view toml, std::string_view origin,
                                            const std::vector<DeviceFacts>& devices) {
  GPEMU_ASSIGN(profile::TopologySpec topology, profile::parse_topology_spec(toml, origin));
  GPEMU_TRY(check_topology(topology, devices));
  topology.title = printable(topology.title);
  for (std::string& processor : topology.sockets) processor = printable(processor);
  for (auto& [field, source] : topology.sources) source = printable(source);
  return topology;
}

namespace {

layout::Offsets offsets_of(const layout::Header& header) {
  return layout::Offsets(header.device_count, header.topology_bytes, header.faults_bytes,
                         static_cast<SharingPolicy>(header.policy));
}

std::int64_t number_of(const std::optional<Duration>& setting) {
  return setting ? setting->count() : layout::Header::kUsual;
}

std::optional<Duration> setting_of(std::int64_t number) {
  return number == layout::Header::kUsual ? std::nullopt : std::optional(Duration(number));
}

}  // namespace

Result<NodeFacts> read_facts(const FileDescriptor& file, const NodePath& node) {
  GPEMU_ASSIGN(const layout::Header header, read_header(file, node));
  if (header.version != layout::kVersion) {
    return fail(
        ErrorCode::kIncompatible,
        "the node '{}' was created by another gpemu, with segment version {:x} instead of {:x}; "
        "remove it with `{}` and create it again",
        printable(node.name), header.version, layout::kVersion, remove_command(node));
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || header.device_count == 0 ||
      header.device_count > layout::kMaxDevices ||
      header.topology_bytes > layout::kMaxTopologyBytes ||
      header.faults_bytes > layout::kMaxFaultsBytes) {
    return damaged(node, "its sizes do not agree");
  }
  const layout::Offsets offsets = offsets_of(header);
  std::vector<std::byte> bytes(offsets.engines);
  GPEMU_TRY(read_exactly(file, node, bytes.data(), bytes.size(), 0));
  return parse_static_part(std::move(bytes), static_cast<std::uint64_t>(status.st_size), node);
}

layout::Offsets offsets_of(const NodeConfig& config) {
  return layout::Offsets(config.devices.size(), config.topology.size(), config.faults.size(),
                         config.policy);
}

std::vector<std::byte> static_part(const NodeConfig& config, TimePoint made) {
  const layout::Offsets offsets = offsets_of(config);
  std::vector<std::byte> bytes(offsets.engines);
  auto* const header = reinterpret_cast<layout::Header*>(bytes.data());
  std::memcpy(header->magic, layout::kMagic, sizeof layout::kMagic);
  header->version = layout::kVersion;
  header->header_bytes = sizeof(layout::Header);
  header->segment_bytes = offsets.end;
  header->device_count = static_cast<std::uint32_t>(config.devices.size());
  header->process_capacity = layout::kProcessCapacity;
  header->policy = static_cast<std::uint8_t>(config.policy);
  header->temporary = config.temporary ? 1 : 0;
  copy_text(header->name, config.name);
  header->topology_bytes = static_cast<std::uint32_t>(config.topology.size());
  header->faults_bytes = static_cast<std::uint32_t>(config.faults.size());
  header->made_ns = to_ns(made);
  header->quantum_ns = number_of(config.slices.quantum);
  header->context_switch_ns = number_of(config.slices.context_switch);
  auto* record = reinterpret_cast<layout::FactsRecord*>(bytes.data() + layout::Offsets::kFacts);
  for (std::size_t i = 0; i < config.devices.size(); ++i, ++record) {
    copy_text(record->gpu, config.devices[i].gpu);
    const DeviceConfig& device = config.devices[i];
    const bool is_shown = !device.shown_node.empty();
    const std::size_t number = is_shown ? device.shown_number : i;
    copy_text(record->uuid, device_uuid(is_shown ? device.shown_node : config.name, number));
    copy_text(record->pci_bus_id, device_pci_bus_id(number));
    record->memory_bytes = config.devices[i].memory_bytes;
    record->max_power_w = config.devices[i].max_power_w;
    record->idle_power_w = config.devices[i].idle_power_w;
    record->facts = config.devices[i].facts;
  }
  std::memcpy(bytes.data() + offsets.topology, config.topology.data(), config.topology.size());
  std::memcpy(bytes.data() + offsets.faults, config.faults.data(), config.faults.size());
  header->checksum = checksum(bytes);
  return bytes;
}

Result<NodeFacts> parse_static_part(std::vector<std::byte> bytes, std::uint64_t file_size,
                                    const NodePath& node) {
  const auto* const header = reinterpret_cast<const layout::Header*>(bytes.data());
  const layout::Offsets offsets = offsets_of(*header);
  if (header->header_bytes != sizeof(layout::Header) || header->segment_bytes != file_size ||
      header->process_capacity != layout::kProcessCapacity || offsets.end != file_size ||
      offsets.engines != bytes.size()) {
    return damaged(node, "its sizes do not agree");
  }
  if (header->checksum != checksum(bytes)) return damaged(node, "its checksum is wrong");
  const auto policy = static_cast<SharingPolicy>(header->policy);
  if (policy != SharingPolicy::kFifo && policy != SharingPolicy::kMig &&
      !layout::has_slice_tables(policy)) {
    return damaged(node, fmt::format("there is no sharing policy {}", header->policy));
  }
  const TimeSliceSettings slices{.quantum = setting_of(header->quantum_ns),
                                 .context_switch = setting_of(header->context_switch_ns)};
  if (!are_plausible(slices.on({}))) return damaged(node, "its time slices are impossible");
  NodeFacts facts{.policy = policy,
                  .slices = slices,
                  .temporary = header->temporary != 0,
                  .devices = {},
                  .topology = {},
                  .faults = {},
                  .made = at_ns(header->made_ns)};
  const auto* record =
      reinterpret_cast<const layout::FactsRecord*>(bytes.data() + layout::Offsets::kFacts);
  for (std::uint32_t i = 0; i < header->device_count; ++i, ++record) {
    if (!are_plausible(*record)) {
      return damaged(node, fmt::format("the description of device {} is impossible", i));
    }
    facts.devices.push_back(facts_of(*record));
  }
  if (header->topology_bytes > 0) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data() + offsets.topology),
                                header->topology_bytes);
    Result<profile::TopologySpec> topology = read_topology(text, "its topology", facts.devices);
    if (!topology) return damaged(node, topology.error().message);
    facts.topology = *std::move(topology);
  }
  if (header->faults_bytes > 0) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data() + offsets.faults),
                                header->faults_bytes);
    auto faults = profile::parse_fault_plan(text, "its faults", facts.devices.size());
    if (!faults) return damaged(node, faults.error().message);
    facts.faults = *std::move(faults);
  }
  return facts;
}

bool is_unused(const FileDescriptor& file) {
  return !locked_by_others(file.get(), layout::kTakenLocks,
                           std::int64_t{2} * layout::kProcessCapacity);
}

}  // namespace gpemu::device
