// SPDX-License-Identifier: Apache-2.0
#include "machine.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "gpemu/cuda/own_node.hpp"
#include "gpemu/device/device_config.hpp"
#include "gpemu/profile/database.hpp"

#include "log.hpp"
#include "memory.hpp"
#include "recorder.hpp"
#include "stream.hpp"

namespace gpemu::cuda {
namespace {

enum class Phase : int { kDetached, kAttached, kForked, kFailed };

/// The state of the process. Never destroyed: threads of the program may call while it exits.
struct Machine {
  std::mutex mutex;
  std::atomic<Phase> phase{Phase::kDetached};
  std::unique_ptr<sim::Clock> clock;
  std::shared_ptr<device::Node> node;
  std::vector<std::unique_ptr<DeviceState>> devices;
  Bytes context_bytes = device::kContextBytes;
};

Machine& machine() {
  static auto* const instance = new Machine;
  return *instance;
}

/// A fork waits until no thread attaches or makes a context, so that the child does not inherit a
/// lock of a thread that it does not have. Registered when the library is loaded, before any thread
/// can fork, and last: the lock of the machine is taken before those of the others, here as well as
/// in all that runs under it.
[[maybe_unused]] const bool handles_forks = [] {
  device::handle_forks();
  handle_forks_of_recorder();
  ::pthread_atfork([] { machine().mutex.lock(); }, [] { machine().mutex.unlock(); },
                   [] {
                     if (machine().phase == Phase::kAttached) machine().phase = Phase::kForked;
                     machine().mutex.unlock();
                   });
  return true;
}();

/// More contexts than any program pushes on a thread's stack.
constexpr std::size_t kMaxContexts = 64;

/// What CUDA keeps per thread.
struct ThreadState {
  std::array<std::int32_t, kMaxContexts> contexts;  ///< the driver's stack.
  std::size_t depth;                                ///< of the stack; its last is current.
  std::int32_t device;                              ///< the runtime's current device.
  Status last_error;

  [[nodiscard]] std::int32_t current_context() const {
    return depth == 0 ? -1 : contexts[depth - 1];
  }
  [[nodiscard]] std::int32_t current_device() const {
    return depth == 0 ? device : contexts[depth - 1];
  }
};
// Programs call in destructors of statics, which come after those of the thread's variables.
static_assert(std::is_trivially_destructible_v<ThreadState>);
thread_local constinit ThreadState thread_state{};

Status push_context(std::int32_t device) {
  if (thread_state.depth == kMaxContexts) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  thread_state.contexts[thread_state.depth++] = device;
  return GPEMU_CUDA_SUCCESS;
}

const char* environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// ---- Devices

/// Limits by compute capability. Source: CUDA C++ Programming Guide, table "Technical
/// Specifications per Compute Capability".
struct Capability {
  int number;  ///< 10 * major + minor.
  int threads_per_multiprocessor, blocks_per_multiprocessor;
  int shared_kib_per_multiprocessor, shared_kib_optin;
};
constexpr std::array kCapabilities = {
    Capability{37, 2048, 16, 112, 48},  Capability{52, 2048, 32, 96, 48},
    Capability{60, 2048, 32, 64, 48},   Capability{61, 2048, 32, 96, 48},
    Capability{70, 2048, 32, 96, 96},   Capability{75, 1024, 16, 64, 64},
    Capability{80, 2048, 32, 164, 163}, Capability{86, 1536, 16, 100, 99},
    Capability{89, 1536, 24, 100, 99},  Capability{90, 2048, 32, 228, 227},
    Capability{100, 2048, 32, 228, 227}};

/// Returns the newest entry that is not newer than the device.
const Capability& capability_of(const profile::GpuSpec& spec) {
  const int number = spec.compute_capability_major * 10 + spec.compute_capability_minor;
  const Capability* best = &kCapabilities.front();
  for (const Capability& entry : kCapabilities) {
    if (entry.number <= number) best = &entry;
  }
  return *best;
}

template <std::size_t Size>
void copy_text(char (&destination)[Size], std::string_view text) {
  destination[text.copy(destination, Size - 1)] = '\0';
}

void fill_uuid(std::uint8_t (&bytes)[16], std::string_view text) {
  std::string digits;
  for (const char c : text.substr(text.starts_with("GPU-") ? 4 : 0)) {
    if (c != '-') digits += c;
  }
  for (std::size_t i = 0; i < 16 && 2 * i + 2 <= digits.size(); ++i) {
    std::from_chars(digits.data() + 2 * i, digits.data() + 2 * i + 2, bytes[i], 16);
  }
}

gpemu_cuda_device describe(const profile::GpuSpec& spec, const device::DeviceSnapshot& snapshot) {
  const Capability& capability = capability_of(spec);
  const bool ampere = spec.compute_capability_major >= 8;
  gpemu_cuda_device info{};
  copy_text(info.name, spec.product_name);
  fill_uuid(info.uuid, snapshot.uuid);
  // NVML writes the domain with eight digits, CUDA with four.
  const std::string_view bus = snapshot.pci_bus_id;
  copy_text(info.pci_bus_id, bus.size() > 12 ? bus.substr(4) : bus);
  unsigned domain = 0, pci_bus = 0, pci_device = 0;
  if (std::sscanf(snapshot.pci_bus_id.c_str(), "%x:%x:%x", &domain, &pci_bus, &pci_device) == 3) {
    info.pci_domain = static_cast<std::int32_t>(domain);
    info.pci_bus = static_cast<std::int32_t>(pci_bus);
    info.pci_device = static_cast<std::int32_t>(pci_device);
  }
  info.total_memory = snapshot.memory_total;
  info.major = spec.compute_capability_major;
  info.minor = spec.compute_capability_minor;
  info.multiprocessors = spec.multiprocessors;
  info.clock_khz = static_cast<std::int32_t>(spec.boost_clock_mhz * 1e3);
  info.memory_bus_bits = spec.memory_bus_bits;
  // Two transfers per clock.
  info.memory_clock_khz = static_cast<std::int32_t>(spec.memory_bandwidth_bytes_per_s * 8 /
                                                    (2.0 * spec.memory_bus_bits) / 1e3);
  info.l2_cache_bytes = spec.l2_cache_bytes;
  info.shared_memory_per_block = 48 * kKiB;
  info.shared_memory_per_block_optin = static_cast<Bytes>(capability.shared_kib_optin) * kKiB;
  info.shared_memory_per_multiprocessor =
      static_cast<Bytes>(capability.shared_kib_per_multiprocessor) * kKiB;
  info.reserved_shared_memory_per_block = ampere ? kKiB : 0;
  info.registers_per_block = 65536;
  info.registers_per_multiprocessor = capability.number == 37 ? 131072 : 65536;
  info.max_threads_per_block = 1024;
  info.max_threads_per_multiprocessor = capability.threads_per_multiprocessor;
  info.max_blocks_per_multiprocessor = capability.blocks_per_multiprocessor;
  info.max_block[0] = info.max_block[1] = 1024;
  info.max_block[2] = 64;
  info.max_grid[0] = 2147483647;
  info.max_grid[1] = info.max_grid[2] = 65535;
  info.constant_memory = 64 * kKiB;
  info.copy_engines = 2;
  info.cooperative_launch = spec.compute_capability_major >= 6;
  info.managed_memory = 1;
  info.can_map_host_memory = 1;
  info.memory_pools = 1;
  info.concurrent_kernels = 1;
  info.cluster_launch = spec.compute_capability_major >= 9;
  info.fp64_to_fp32 = spec.fp64_flops.value_or(spec.fp32_flops / 32) / spec.fp32_flops;
  return info;
}

/// Returns the node's devices that CUDA_VISIBLE_DEVICES lets see, in its order: up to the first
/// entry that names none, as CUDA does.
std::vector<int> visible_devices(const device::Node& node, TimePoint now) {
  std::vector<int> visible;
  const char* const selection = std::getenv("CUDA_VISIBLE_DEVICES");
  if (selection == nullptr) {
    for (int i = 0; i < node.device_count(); ++i) visible.push_back(i);
    return visible;
  }
  std::string_view rest = selection;
  while (!rest.empty()) {
    std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    while (entry.starts_with(' ')) entry.remove_prefix(1);
    while (entry.ends_with(' ')) entry.remove_suffix(1);
    int index = -1;
    if (entry.starts_with("GPU-")) {
      for (int i = 0; i < node.device_count(); ++i) {
        if (node.device_snapshot(i, now).uuid.starts_with(entry)) index = i;
      }
    } else {
      std::from_chars(entry.data(), entry.data() + entry.size(), index);
    }
    if (index < 0 || index >= node.device_count() || std::ranges::count(visible, index) > 0) break;
    visible.push_back(index);
  }
  return visible;
}

/// Returns a size that is given in MiB in the environment, or `otherwise`.
Result<Bytes> environment_mib(const char* name, Bytes otherwise) {
  const std::string text = environment(name);
  if (text.empty()) return otherwise;
  std::uint32_t mib = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mib);
  if (error != std::errc() || end != text.data() + text.size() || mib == 0) {
    return fail(ErrorCode::kInvalidArgument, "{} is \"{}\", not a number of MiB", name, text);
  }
  return mib * kMiB;
}

/// Returns the GPU of a name: of the files in GPEMU_GPU_FILES, with ':' between them, which
/// describe GPUs that the database does not have, or of the database.
Result<profile::GpuSpec> find_gpu(const profile::Database& database, const std::string& name) {
  const std::string files = environment("GPEMU_GPU_FILES");
  for (std::string_view rest = files; !rest.empty();) {
    const std::string_view path = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(path.size() + 1, rest.size()));
    if (path.empty()) continue;
    GPEMU_ASSIGN(profile::GpuSpec spec, database.gpu(path));
    if (spec.name == name) return spec;
  }
  return database.gpu(name);
}

Result<void> open_node(Machine& state, const profile::Database& database) {
  const std::string name = environment("GPEMU_NODE");
  const bool is_virtual = std::string_view(environment("GPEMU_CLOCK")) == "virtual";
  if (is_virtual) {
    state.clock = std::make_unique<sim::VirtualClock>();
  } else {
    state.clock = std::make_unique<sim::RealClock>();
  }
  if (!name.empty()) {
    device::Node::end_when_cut_short();
    GPEMU_ASSIGN(state.node, device::Node::open(name));
    return {};
  }
  const std::string gpu = environment("GPEMU_GPU");
  if (gpu.empty()) {
    return fail(ErrorCode::kNotFound,
                "no emulated GPU: start the program with `gpemu run --gpu NAME -- PROGRAM`, or set "
                "GPEMU_NODE or GPEMU_GPU");
  }
  GPEMU_ASSIGN(const profile::GpuSpec spec, find_gpu(database, gpu));
  device::NodeConfig config{.name = "private", .devices = {device::device_config(spec)}};
  device::DeviceConfig& only = config.devices.front();
  GPEMU_ASSIGN(only.memory_bytes, environment_mib("GPEMU_MEMORY_MIB", only.memory_bytes));
  GPEMU_ASSIGN(state.node, device::Node::create_private(config));
  return {};
}

Result<void> attach_now(Machine& state) {
  GPEMU_ASSIGN(state.context_bytes, environment_mib("GPEMU_CONTEXT_MIB", device::kContextBytes));
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open());
  GPEMU_TRY(open_node(state, database));
  const TimePoint now = state.clock->now();
  int ordinal = 0;
  for (const int index : visible_devices(*state.node, now)) {
    const device::DeviceSnapshot snapshot = state.node->device_snapshot(index, now);
    DeviceState& device = *state.devices.emplace_back(std::make_unique<DeviceState>());
    device.ordinal = ordinal++;
    device.index = index;
    GPEMU_ASSIGN(device.spec, find_gpu(database, snapshot.gpu));
    device.info = describe(device.spec, snapshot);
    device.costs = std::make_unique<cost::OperationCostModel>(device.spec);
  }
  return {};
}

Status status_of(Phase phase) {
  return phase == Phase::kAttached ? GPEMU_CUDA_SUCCESS
         : phase == Phase::kForked ? GPEMU_CUDA_ERROR_NOT_INITIALIZED
                                   : GPEMU_CUDA_ERROR_NO_DEVICE;
}

/// Attaches unless that was done or tried before.
Status attach_first(Phase phase) {
  if (phase != Phase::kDetached) return status_of(phase);
  Machine& state = machine();
  std::unique_lock lock(state.mutex);
  if (state.phase != Phase::kDetached) return status_of(state.phase);
  const Result<void> attached = attach_now(state);
  state.phase = attached && !state.devices.empty() ? Phase::kAttached : Phase::kFailed;
  lock.unlock();
  // Whoever is told may fork.
  if (!attached) tell(attached.error().message);
  return status_of(state.phase);
}

/// Makes the primary context of a device unless it is made. Errors: NO_DEVICE, OUT_OF_MEMORY.
Status make_context(DeviceState& device) {
  Machine& state = machine();
  std::unique_lock lock(state.mutex);
  if (device.active) return GPEMU_CUDA_SUCCESS;
  std::unique_ptr<device::Device> first;
  if (device.device == nullptr) {
    auto opened = device::Device::open(state.node, device.index, *state.clock);
    if (!opened) {
      lock.unlock();
      tell(opened.error().message);
      return GPEMU_CUDA_ERROR_NO_DEVICE;
    }
    first = *std::move(opened);
  }
  const auto context = (first ? first : device.device)->allocate(state.context_bytes);
  if (!context) {
    lock.unlock();
    tell(context.error().message);
    return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  }
  device.context = *context;
  if (first) {
    device.device = std::move(first);
    make_default_stream(device);
    record_device(device);
  }
  device.active = true;
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

Status attach() {
  // Every call comes here.
  const Phase phase = machine().phase.load(std::memory_order_acquire);
  return phase == Phase::kAttached ? GPEMU_CUDA_SUCCESS : attach_first(phase);
}

bool forked() {
  return machine().phase.load(std::memory_order_acquire) == Phase::kForked;
}

std::shared_ptr<device::Node> own_node() {
  return attach() == GPEMU_CUDA_SUCCESS ? machine().node : nullptr;
}

sim::Clock& clock() {
  return *machine().clock;
}

int device_count() {
  return static_cast<int>(machine().devices.size());
}

DeviceState& device_at(int ordinal) {
  return *machine().devices[static_cast<std::size_t>(ordinal)];
}

Status device_with_context(int ordinal, DeviceState** device) {
  GPEMU_CUDA_TRY(attach());
  if (ordinal < 0 || ordinal >= device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  *device = &device_at(ordinal);
  return (*device)->active.load(std::memory_order_acquire) ? GPEMU_CUDA_SUCCESS
                                                           : make_context(**device);
}

int current_ordinal() {
  return thread_state.current_device();
}

Status current_device(DeviceState** device) {
  return device_with_context(current_ordinal(), device);
}

Status enter_context(DeviceState** device) {
  const ThreadState& thread = thread_state;  // Finding it takes a call.
  GPEMU_CUDA_TRY(device_with_context(thread.current_device(), device));
  return thread.depth == 0 ? push_context((*device)->ordinal) : GPEMU_CUDA_SUCCESS;
}

void end_context(DeviceState& device) {
  wait_for(device);
  release_memory(device);
  Machine& state = machine();
  const std::lock_guard lock(state.mutex);
  if (!device.active.exchange(false)) return;
  const auto freed = device.device->free(device.context);
  GPEMU_CHECK(freed.has_value(), "the ledger knows a context's memory");
  device.runtime_uses = false;
  device.peers.clear();
  for (const auto& other : state.devices) other->peers.erase(device.ordinal);
}

void wait_for(DeviceState& device) {
  const TimePoint before = clock().now();
  device.device->synchronize();
  wait_for_moves(clock().now());
  record_wait(clock().now() - before);
  wait_for_host_functions(device);
  trim_pools();
}

}  // namespace gpemu::cuda

// ---- The C interface

using gpemu::Bytes;
using gpemu::cuda::attach;
using gpemu::cuda::check_unsafe_call;
using gpemu::cuda::current_device;
using gpemu::cuda::device_at;
using gpemu::cuda::device_count;
using gpemu::cuda::device_with_context;
using gpemu::cuda::DeviceState;
using gpemu::cuda::end_context;
using gpemu::cuda::enter_context;
using gpemu::cuda::machine;
using gpemu::cuda::push_context;
using gpemu::cuda::Status;
using gpemu::cuda::thread_state;
using gpemu::cuda::wait_for;

gpemu_cuda_status gpemu_cuda_last_error(int32_t clear) {
  const Status status = thread_state.last_error;
  if (clear != 0) thread_state.last_error = GPEMU_CUDA_SUCCESS;
  return status;
}

void gpemu_cuda_set_last_error(gpemu_cuda_status status) {
  thread_state.last_error = status;
}

gpemu_cuda_status gpemu_cuda_init(void) {
  return attach();
}

gpemu_cuda_status gpemu_cuda_device_count(int32_t* count) {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  *count = device_count();
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_get_device(int32_t device, const gpemu_cuda_device** info) {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  if (device < 0 || device >= device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  *info = &device_at(device).info;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_context_current(int32_t* device) {
  if (device == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  *device = thread_state.current_context();
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_context_set_current(int32_t device) {
  GPEMU_CUDA_TRY(attach());
  if (device < -1 || device >= device_count()) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  if (thread_state.depth > 0) --thread_state.depth;
  if (device < 0) return GPEMU_CUDA_SUCCESS;
  thread_state.device = device;
  return push_context(device);
}

gpemu_cuda_status gpemu_cuda_context_push(int32_t device) {
  GPEMU_CUDA_TRY(attach());
  if (device < 0 || device >= device_count()) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  return push_context(device);
}

gpemu_cuda_status gpemu_cuda_context_pop(int32_t* device) {
  GPEMU_CUDA_TRY(attach());
  if (thread_state.depth == 0) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  if (device != nullptr) *device = thread_state.current_context();
  --thread_state.depth;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_context_retain(int32_t device) {
  DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(device_with_context(device, &state));
  ++state->context_users;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_context_release(int32_t device) {
  GPEMU_CUDA_TRY(attach());
  if (device < 0 || device >= device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  DeviceState& state = device_at(device);
  if (state.context_users == 0) return GPEMU_CUDA_ERROR_INVALID_CONTEXT;
  if (--state.context_users == 0 && !state.runtime_uses && state.active) end_context(state);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_context_active(int32_t device, int32_t* active) {
  if (active == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  if (device < 0 || device >= device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  *active = device_at(device).active ? 1 : 0;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_context_reset(int32_t device) {
  GPEMU_CUDA_TRY(attach());
  if (device < 0 || device >= device_count()) return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  DeviceState& state = device_at(device);
  if (state.active) end_context(state);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_current_device(int32_t* device) {
  if (device == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  *device = thread_state.current_device();
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_set_current_device(int32_t device) {
  DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(device_with_context(device, &state));
  state->runtime_uses = true;
  return gpemu_cuda_context_set_current(device);
}

gpemu_cuda_status gpemu_cuda_ensure_context(void) {
  DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(enter_context(&state));
  // Every call of the runtime comes here; threads need not take the line from each other.
  if (!state->runtime_uses.load(std::memory_order_relaxed)) state->runtime_uses = true;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_device_synchronize(void) {
  DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(current_device(&state));
  GPEMU_CUDA_TRY(check_unsafe_call());
  wait_for(*state);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_can_access_peer(int32_t device, int32_t peer, int32_t* can) {
  if (can == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  if (device < 0 || device >= device_count() || peer < 0 || peer >= device_count()) {
    return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  }
  *can = device != peer ? 1 : 0;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_enable_peer_access(int32_t peer) {
  DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(current_device(&state));
  if (peer < 0 || peer >= device_count() || peer == state->ordinal) {
    return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  }
  const std::lock_guard lock(machine().mutex);
  return state->peers.insert(peer).second ? GPEMU_CUDA_SUCCESS
                                          : GPEMU_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

gpemu_cuda_status gpemu_cuda_disable_peer_access(int32_t peer) {
  DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(current_device(&state));
  const std::lock_guard lock(machine().mutex);
  return state->peers.erase(peer) > 0 ? GPEMU_CUDA_SUCCESS
                                      : GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

gpemu_cuda_status gpemu_cuda_mem_info(uint64_t* free_bytes, uint64_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  DeviceState* state = nullptr;
  GPEMU_CUDA_TRY(current_device(&state));
  const gpemu::device::MemoryInfo info = state->device->memory_info();
  *free_bytes = info.free;
  *total_bytes = info.total;
  return GPEMU_CUDA_SUCCESS;
}
