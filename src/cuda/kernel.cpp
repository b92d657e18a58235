// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "gpemu/base/file.hpp"

#include "handle_table.hpp"
#include "image.hpp"
#include "kernel_effect.hpp"
#include "launch_facts.hpp"
#include "machine.hpp"
#include "memory_state.hpp"
#include "stream.hpp"

struct gpemu_cuda_module {
  /// Nothing for other formats than machine code, whose names cannot be listed.
  std::optional<gpemu::cuda::Image> image;
  std::map<std::pair<std::string, int>, std::uint64_t> variables;  ///< addresses, by device.
};

struct gpemu_cuda_kernel {
  std::string owned_name;       ///< of kernels in modules.
  const char* name = nullptr;   ///< mangled.
  const void* owner = nullptr;  ///< the fat binary or the module.
  gpemu_cuda_module* module = nullptr;
  std::once_flag analysis;
  std::atomic<bool> analysed{false};  ///< asked first: std::call_once is dear for each launch.
  gpemu::cost::KernelTraits traits;   ///< valid once analysed.
  std::once_flag decoded;
  const gpemu::cuda::Image* image = nullptr;      ///< valid once decoded; null: compressed, PTX.
  const gpemu::cuda::KernelCode* code = nullptr;  ///< as image.
  gpemu::cuda::KernelEffect effect;               ///< valid once analysed.
  std::once_flag parameters_read;
  std::atomic<bool> has_parameters{false};               ///< asked first, as `analysed`.
  std::vector<gpemu::cuda::LaunchParameter> parameters;  ///< valid once read.
  std::atomic<std::uint64_t> max_dynamic_shared{48 * gpemu::kKiB};
  std::atomic<std::int32_t> carveout{-1};
};

namespace gpemu::cuda {
namespace {

/// PyTorch registers some 20,000 kernels.
constexpr std::size_t kMaxKernels = 1 << 20;
constexpr std::size_t kMaxModules = 1 << 16;

/// Registers that a thread is taken to use where the code does not say. Source: within the limits
/// of full occupancy on all supported GPUs (65536 registers for 2048 threads).
constexpr std::int32_t kRegisters = 32;

HandleTable<gpemu_cuda_kernel>& kernels() {
  static auto* const table = new HandleTable<gpemu_cuda_kernel>(kMaxKernels);
  return *table;
}

HandleTable<gpemu_cuda_module>& modules() {
  static auto* const table = new HandleTable<gpemu_cuda_module>(kMaxModules);
  return *table;
}

struct Variable {
  std::string name;
  const void* owner = nullptr;  ///< the fat binary.
  std::uint64_t bytes = 0;
  std::map<int, std::uint64_t> addresses;  ///< by device.
};

/// What the runtime registers at load. Never destroyed: programs unregister while they exit.
struct Registry {
  std::mutex mutex;
  std::atomic<std::uint64_t> changes{1};  ///< of `kernels`.
  std::unordered_map<const void*, gpemu_cuda_kernel*> kernels;
  std::unordered_map<const void*, Variable> variables;
  std::map<std::pair<gpemu_cuda_module*, std::string>, gpemu_cuda_kernel*> module_kernels;
  std::unordered_map<const void*, std::optional<Image>> images;  ///< of fat binaries, once read.
  /// What each fat binary registered, of `kernels` and `variables`.
  std::unordered_map<const void*, std::vector<const void*>> registered;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

/// What a thread found in the registry. It looks here first: programs launch the same kernels again
/// and again.
struct FoundKernel {
  const void* host_function;
  gpemu_cuda_kernel* kernel;
  std::uint64_t changes;  ///< that the registry had seen; later ones may concern the kernel.
};
thread_local constinit std::array<FoundKernel, 256> found_kernels{};

/// Functions begin at multiples of 16.
FoundKernel& found_kernel(const void* host_function) {
  return found_kernels[reinterpret_cast<std::uintptr_t>(host_function) / 16 % found_kernels.size()];
}

/// Returns what the compiler wrote down of a kernel, as far as it did.
CodeFacts facts_of_code(const gpemu_cuda_kernel& kernel) {
  CodeFacts facts;
  if (kernel.module == nullptr) {
    if (kernel.owner != nullptr) {
      facts.places = kernel_parameters(static_cast<const std::byte*>(kernel.owner), kernel.name);
    }
    return facts;
  }
  if (!kernel.module->image) return facts;
  const auto found = kernel.module->image->kernels.find(kernel.name);
  if (found != kernel.module->image->kernels.end()) facts.places = found->second.parameters;
  facts.ptx = kernel.module->image->ptx;
  return facts;
}

const cost::KernelTraits& traits_of(gpemu_cuda_kernel& kernel) {
  if (!kernel.analysed.load(std::memory_order_acquire)) {
    std::call_once(kernel.analysis, [&kernel] {
      kernel.traits = cost::kernel_traits(kernel.name);
      kernel.effect = kernel_effect(kernel.name, [&kernel] { return facts_of_code(kernel); });
      kernel.analysed.store(true, std::memory_order_release);
    });
  }
  return kernel.traits;
}

int architecture_of(const DeviceState& device) {
  return device.info.major * 10 + device.info.minor;
}

/// Returns what a fat binary holds for the first device, read on first use, or null. Requires: the
/// registry's lock.
const Image* image_of(Registry& state, const void* fat_binary) {
  if (fat_binary == nullptr) return nullptr;
  const auto [entry, added] = state.images.try_emplace(fat_binary);
  std::optional<Image>& image = entry->second;
  if (added) {
    image =
        read_fat_binary(static_cast<const std::byte*>(fat_binary), architecture_of(device_at(0)));
  }
  return image ? &*image : nullptr;
}

/// Finds out what the compiler wrote down of a kernel. Requires: attached.
void decode(gpemu_cuda_kernel& kernel) {
  std::call_once(kernel.decoded, [&kernel] {
    const Image* image = nullptr;
    if (kernel.module != nullptr) {
      image = kernel.module->image ? &*kernel.module->image : nullptr;
    } else {
      Registry& state = registry();
      const std::lock_guard lock(state.mutex);
      image = image_of(state, kernel.owner);
    }
    if (image == nullptr) return;
    const auto found = image->kernels.find(kernel.name);
    if (found == image->kernels.end()) return;
    kernel.image = image;
    kernel.code = &found->second;
  });
}

/// Reads what is known of a launch of a kernel that is not recognised.
cost::LaunchFacts facts_of(gpemu_cuda_kernel& kernel, const gpemu_cuda_launch& launch) {
  if (!kernel.has_parameters.load(std::memory_order_acquire)) {
    decode(kernel);
    std::call_once(kernel.parameters_read, [&kernel] {
      kernel.parameters =
          launch_parameters(kernel.name, kernel.code == nullptr ? facts_of_code(kernel).places
                                                                : kernel.code->parameters);
      kernel.has_parameters.store(true, std::memory_order_release);
    });
  }
  return launch_facts(
      kernel.parameters, launch.arguments,
      kernel.code == nullptr ? cost::LaunchFacts::Arithmetic::kUnknown : kernel.code->arithmetic);
}

/// Registers are given out to warps in units, and warps in groups. Source: the CUDA Occupancy
/// Calculator, for all compute capabilities since 3.7.
constexpr std::int32_t kRegisterUnit = 256;
constexpr std::int32_t kWarpGroup = 4;

int registers_of(const gpemu_cuda_kernel& kernel) {
  return kernel.code != nullptr && kernel.code->registers > 0 ? kernel.code->registers : kRegisters;
}

/// Returns how many warps of a kernel so many registers suffice for.
int warps_for(const gpemu_cuda_kernel& kernel, int registers) {
  const int of_warp = (registers_of(kernel) * 32 + kRegisterUnit - 1) / kRegisterUnit;
  return registers / (of_warp * kRegisterUnit) / kWarpGroup * kWarpGroup;
}

/// Returns the largest block that a kernel can be launched with.
int max_threads_of(const gpemu_cuda_kernel& kernel, const gpemu_cuda_device& device) {
  const int bound = kernel.code == nullptr ? 0 : kernel.code->max_threads_per_block;
  const int threads =
      std::min(device.max_threads_per_block, 32 * warps_for(kernel, device.registers_per_block));
  return bound > 0 ? std::min(threads, bound) : threads;
}

/// Yields memory of the current device for a variable, which holds its initial value.
Status make_variable(const Image* image, const std::string& name, Bytes bytes,
                     std::uint64_t* address) {
  GPEMU_CUDA_TRY(gpemu_cuda_malloc(bytes, address));
  if (image == nullptr) return GPEMU_CUDA_SUCCESS;
  const auto found = image->variables.find(name);
  if (found == image->variables.end() || found->second.initial.empty()) return GPEMU_CUDA_SUCCESS;
  const std::vector<std::byte>& initial = found->second.initial;
  return gpemu_cuda_poke(*address, initial.data(), std::min<Bytes>(bytes, initial.size()));
}

Status check_launch(const gpemu_cuda_kernel& kernel, const gpemu_cuda_launch& launch,
                    const gpemu_cuda_device& device) {
  std::uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    const auto grid_limit = static_cast<std::uint32_t>(device.max_grid[i]);
    const auto block_limit = static_cast<std::uint32_t>(device.max_block[i]);
    if (launch.grid[i] == 0 || launch.grid[i] > grid_limit || launch.block[i] == 0 ||
        launch.block[i] > block_limit) {
      return GPEMU_CUDA_ERROR_INVALID_CONFIGURATION;
    }
    threads *= launch.block[i];
  }
  if (threads > static_cast<std::uint64_t>(device.max_threads_per_block)) {
    return GPEMU_CUDA_ERROR_INVALID_CONFIGURATION;
  }
  if (launch.dynamic_shared_bytes > kernel.max_dynamic_shared) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

Status unpack_launch(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                     std::vector<void*>* arguments, gpemu_cuda_launch* plain) {
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  decode(*found);
  const std::vector<ParameterPlace> places =
      found->code == nullptr ? facts_of_code(*found).places : found->code->parameters;
  if (places.empty() && launch.packed_bytes > 0) {
    gpemu_cuda_not_supported("libcuda.so.1", "packed arguments of a kernel without machine code");
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  // The program's own memory, which nothing writes to.
  auto* const packed = static_cast<std::byte*>(const_cast<void*>(launch.packed));
  for (const ParameterPlace& place : places) {
    if (place.bytes > launch.packed_bytes || place.offset > launch.packed_bytes - place.bytes) {
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    }
    arguments->push_back(packed + place.offset);
  }
  *plain = launch;
  plain->arguments = arguments->data();
  plain->packed = nullptr;
  return GPEMU_CUDA_SUCCESS;
}

void describe_launch(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                     KernelWork* work) {
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return;
  static_cast<void>(traits_of(*found));
  describe_work(found->effect, launch, work);
}

PricedLaunch price_launch(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                          const DeviceState& device) {
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return {.status = GPEMU_CUDA_ERROR_INVALID_HANDLE};
  const Status checked = check_launch(*found, launch, device.info);
  if (checked != GPEMU_CUDA_SUCCESS) return {.status = checked};
  const gpemu_operation launched = {
      .struct_size = sizeof(launched),
      .kind = GPEMU_OPERATION_KERNEL,
      .shape = {launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1],
                launch.block[2], static_cast<int64_t>(launch.dynamic_shared_bytes)},
      .name = found->name,
      .arguments = launch.arguments};
  const cost::KernelTraits& traits = traits_of(*found);
  cost::LaunchContext context{.memory = device.info.total_memory};
  std::optional<cost::LaunchFacts> facts;
  if (traits.foreign && traits.elements == cost::KernelTraits::Elements::kFromThreads) {
    facts = facts_of(*found, launch);
    context.facts = &*facts;
  }
  const cost::DescribedOperation described = cost::describe_kernel(traits, launched, context);
  return {.cost = device.costs->price(described), .operation = described.operation};
}

void forget_variables(const DeviceState& device) {
  Registry& state = registry();
  const std::lock_guard lock(state.mutex);
  for (auto& entry : state.variables) entry.second.addresses.erase(device.ordinal);
  modules().for_each([&](gpemu_cuda_module& module) {
    std::erase_if(module.variables,
                  [&](const auto& entry) { return entry.first.second == device.ordinal; });
  });
}

}  // namespace gpemu::cuda

// ---- The C interface

using gpemu::Bytes;
using gpemu::cuda::architecture_of;
using gpemu::cuda::attach;
using gpemu::cuda::capturing;
using gpemu::cuda::cubin_size;
using gpemu::cuda::current_device;
using gpemu::cuda::current_ordinal;
using gpemu::cuda::decode;
using gpemu::cuda::device_at;
using gpemu::cuda::DeviceState;
using gpemu::cuda::forked;
using gpemu::cuda::found_kernel;
using gpemu::cuda::FoundKernel;
using gpemu::cuda::free_block;
using gpemu::cuda::holds_fat_binary;
using gpemu::cuda::Image;
using gpemu::cuda::image_of;
using gpemu::cuda::kElfMagic;
using gpemu::cuda::kernels;
using gpemu::cuda::kFatBinaryMagic;
using gpemu::cuda::kFatBinaryWrapperMagic;
using gpemu::cuda::kUnknownSize;
using gpemu::cuda::make_variable;
using gpemu::cuda::max_threads_of;
using gpemu::cuda::modules;
using gpemu::cuda::perform_launch;
using gpemu::cuda::price_launch;
using gpemu::cuda::PricedLaunch;
using gpemu::cuda::read_cubin;
using gpemu::cuda::read_fat_binary;
using gpemu::cuda::registers_of;
using gpemu::cuda::registry;
using gpemu::cuda::Registry;
using gpemu::cuda::resolve_for_work;
using gpemu::cuda::run_operation;
using gpemu::cuda::Status;
using gpemu::cuda::Variable;
using gpemu::cuda::warps_for;

namespace {

/// Loads what lies at an address, of which no more than `limit` bytes are there.
Status load_module(const std::byte* bytes, Bytes limit, gpemu_cuda_module_handle* module) {
  GPEMU_CUDA_TRY(attach());
  std::uint32_t magic = 0;
  if (limit < sizeof(magic)) return GPEMU_CUDA_ERROR_INVALID_IMAGE;
  std::memcpy(&magic, bytes, sizeof(magic));
  const auto first = static_cast<unsigned char>(bytes[0]);
  const bool text = first == '/' || first == '.' || first == '\n' || first == ' ';
  // A wrapper holds an address, which means nothing in a file.
  const bool container =
      magic == kFatBinaryMagic || (magic == kFatBinaryWrapperMagic && limit == kUnknownSize);
  if (magic != kElfMagic && !container && !text) return GPEMU_CUDA_ERROR_INVALID_IMAGE;
  std::optional<Image> read;
  if (container) {
    if (!holds_fat_binary(bytes, limit)) return GPEMU_CUDA_ERROR_INVALID_IMAGE;
    read = read_fat_binary(bytes, architecture_of(device_at(0)));
  }
  if (magic == kElfMagic) {
    const std::optional<Bytes> size = cubin_size(bytes, limit);
    if (size) read = read_cubin({bytes, *size});
    if (!read) return GPEMU_CUDA_ERROR_INVALID_IMAGE;
  }
  gpemu_cuda_module* const created = modules().create();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  created->image = std::move(read);
  *module = created;
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

gpemu_cuda_status gpemu_cuda_module_load(const void* image, gpemu_cuda_module_handle* module) {
  if (image == nullptr || module == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return load_module(static_cast<const std::byte*>(image), kUnknownSize, module);
}

gpemu_cuda_status gpemu_cuda_module_load_file(const char* path, gpemu_cuda_module_handle* module) {
  if (path == nullptr || module == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const auto content = gpemu::read_file(path);
  if (!content) return GPEMU_CUDA_ERROR_FILE_NOT_FOUND;
  return load_module(reinterpret_cast<const std::byte*>(content->data()), content->size(), module);
}

gpemu_cuda_status gpemu_cuda_module_unload(gpemu_cuda_module_handle module) {
  gpemu_cuda_module* const found = modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  // Before the lock: host functions that cudaFree waits for may launch kernels.
  for (const auto& variable : found->variables) {
    static_cast<void>(gpemu_cuda_free(variable.second));
  }
  Registry& state = registry();
  const std::lock_guard lock(state.mutex);
  std::erase_if(state.module_kernels, [found](const auto& entry) {
    if (entry.first.first != found) return false;
    kernels().destroy(entry.second);
    return true;
  });
  modules().destroy(found);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_module_kernel(gpemu_cuda_module_handle module, const char* name,
                                           gpemu_cuda_kernel_handle* kernel) {
  if (name == nullptr || kernel == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_module* const found = modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (found->image && !found->image->kernels.contains(name)) return GPEMU_CUDA_ERROR_NOT_FOUND;
  Registry& state = registry();
  const std::lock_guard lock(state.mutex);
  gpemu_cuda_kernel*& entry = state.module_kernels[{found, name}];
  if (entry == nullptr) {
    entry = kernels().create();
    if (entry == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    entry->owned_name = name;
    entry->name = entry->owned_name.c_str();
    entry->module = found;
  }
  *kernel = entry;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_module_kernel_count(gpemu_cuda_module_handle module, uint32_t* count) {
  if (count == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const gpemu_cuda_module* const found = modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (!found->image) return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  *count = static_cast<uint32_t>(found->image->kernels.size());
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_module_kernels(gpemu_cuda_module_handle module,
                                            gpemu_cuda_kernel_handle* kernels, uint32_t count) {
  if (kernels == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const gpemu_cuda_module* const found = modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (!found->image) return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  uint32_t filled = 0;
  for (const auto& [name, code] : found->image->kernels) {
    if (filled == count) break;
    GPEMU_CUDA_TRY(gpemu_cuda_module_kernel(module, name.c_str(), &kernels[filled++]));
  }
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_module_variable(gpemu_cuda_module_handle module, const char* name,
                                             uint64_t* address, uint64_t* bytes) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_module* const found = modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (!found->image) {
    gpemu_cuda_not_supported("cuda", "variables of modules that are PTX or compressed");
    return GPEMU_CUDA_ERROR_NOT_FOUND;
  }
  const auto variable = found->image->variables.find(name);
  if (variable == found->image->variables.end()) return GPEMU_CUDA_ERROR_NOT_FOUND;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  const std::lock_guard lock(registry().mutex);
  std::uint64_t& of_device = found->variables[{name, device->ordinal}];
  if (of_device == 0) {
    GPEMU_CUDA_TRY(make_variable(&*found->image, name, variable->second.bytes, &of_device));
  }
  if (address != nullptr) *address = of_device;
  if (bytes != nullptr) *bytes = variable->second.bytes;
  return GPEMU_CUDA_SUCCESS;
}

void gpemu_cuda_register_kernel(const void* host_function, const char* name,
                                const void* fat_binary) {
  if (host_function == nullptr || name == nullptr || forked()) return;
  gpemu_cuda_kernel* const kernel = kernels().create();
  if (kernel == nullptr) return;
  kernel->name = name;
  kernel->owner = fat_binary;
  Registry& state = registry();
  const std::lock_guard lock(state.mutex);
  state.kernels[host_function] = kernel;
  ++state.changes;
  state.registered[fat_binary].push_back(host_function);
}

void gpemu_cuda_register_variable(const void* host_variable, const char* name, uint64_t bytes,
                                  const void* fat_binary) {
  if (host_variable == nullptr || name == nullptr || forked()) return;
  Registry& state = registry();
  const std::lock_guard lock(state.mutex);
  Variable& variable = state.variables[host_variable];
  variable.name = name;
  variable.owner = fat_binary;
  variable.bytes = bytes;
  state.registered[fat_binary].push_back(host_variable);
}

void gpemu_cuda_unregister(const void* fat_binary) {
  if (forked()) return;
  Registry& state = registry();
  std::vector<std::uint64_t> addresses;
  std::unique_lock lock(state.mutex);
  const auto registered = state.registered.find(fat_binary);
  if (registered == state.registered.end()) return;
  for (const void* const name : registered->second) {
    const auto kernel = state.kernels.find(name);
    if (kernel != state.kernels.end() && kernel->second->owner == fat_binary) {
      kernels().destroy(kernel->second);
      state.kernels.erase(kernel);
    }
    const auto variable = state.variables.find(name);
    if (variable != state.variables.end() && variable->second.owner == fat_binary) {
      for (const auto& of_device : variable->second.addresses) {
        addresses.push_back(of_device.second);
      }
      state.variables.erase(variable);
    }
  }
  ++state.changes;
  state.registered.erase(registered);
  state.images.erase(fat_binary);
  lock.unlock();
  for (const std::uint64_t address : addresses) static_cast<void>(free_block(address, false));
}

gpemu_cuda_status gpemu_cuda_registered_kernel(const void* host_function,
                                               gpemu_cuda_kernel_handle* kernel) {
  if (kernel == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (forked()) return GPEMU_CUDA_ERROR_NOT_INITIALIZED;
  Registry& state = registry();
  FoundKernel& last = found_kernel(host_function);
  const std::uint64_t changes = state.changes.load(std::memory_order_acquire);
  if (last.host_function == host_function && last.changes == changes) {
    *kernel = last.kernel;
    return GPEMU_CUDA_SUCCESS;
  }
  const std::lock_guard lock(state.mutex);
  const auto found = state.kernels.find(host_function);
  if (found == state.kernels.end()) return GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION;
  last = {.host_function = host_function, .kernel = found->second, .changes = changes};
  *kernel = found->second;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_registered_variable(const void* host_variable, uint64_t* address,
                                                 uint64_t* bytes) {
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  Registry& state = registry();
  const std::lock_guard lock(state.mutex);
  const auto found = state.variables.find(host_variable);
  if (found == state.variables.end()) return GPEMU_CUDA_ERROR_INVALID_SYMBOL;
  std::uint64_t& of_device = found->second.addresses[device->ordinal];
  if (of_device == 0) {
    GPEMU_CUDA_TRY(make_variable(image_of(state, found->second.owner), found->second.name,
                                 found->second.bytes, &of_device));
  }
  if (address != nullptr) *address = of_device;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_kernel_get_info(gpemu_cuda_kernel_handle kernel,
                                             gpemu_cuda_kernel_info* info) {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  decode(*found);
  const int version =
      found->image == nullptr ? architecture_of(*device) : found->image->architecture;
  *info = {.name = found->name,
           .module = found->module,
           .registers = registers_of(*found),
           .max_threads_per_block = max_threads_of(*found, device->info),
           .binary_version = version,
           .ptx_version = version,
           .max_dynamic_shared_bytes = found->max_dynamic_shared,
           .shared_carveout = found->carveout};
  if (found->code != nullptr) {
    info->static_shared_bytes = found->code->static_shared;
    info->constant_bytes = found->image->constant;
    info->local_bytes = found->code->local;
  }
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_kernel_set_max_dynamic_shared(gpemu_cuda_kernel_handle kernel,
                                                           uint64_t bytes) {
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  if (bytes > device->info.shared_memory_per_block_optin) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  found->max_dynamic_shared = std::max(bytes, device->info.shared_memory_per_block);
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_kernel_set_carveout(gpemu_cuda_kernel_handle kernel, int32_t percent) {
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (percent < -1 || percent > 100) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  found->carveout = percent;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_occupancy(gpemu_cuda_kernel_handle kernel, int32_t threads_per_block,
                                       uint64_t dynamic_shared, int32_t* blocks) {
  if (blocks == nullptr || threads_per_block <= 0) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  const gpemu_cuda_device& info = device->info;
  decode(*found);
  const Bytes own = found->code == nullptr ? 0 : found->code->static_shared;
  if (threads_per_block > max_threads_of(*found, info) ||
      dynamic_shared > info.shared_memory_per_multiprocessor) {
    *blocks = 0;
    return GPEMU_CUDA_SUCCESS;
  }
  const int warps = (threads_per_block + 31) / 32;
  int fitting = info.max_threads_per_multiprocessor / (32 * warps);
  fitting = std::min(fitting, warps_for(*found, info.registers_per_multiprocessor) / warps);
  fitting = std::min(fitting, info.max_blocks_per_multiprocessor);
  const std::uint64_t shared = dynamic_shared + own + info.reserved_shared_memory_per_block;
  if (shared > 0) {
    fitting = static_cast<int>(std::min<std::uint64_t>(
        static_cast<std::uint64_t>(fitting), info.shared_memory_per_multiprocessor / shared));
  }
  *blocks = fitting;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_launch_kernel(gpemu_cuda_kernel_handle kernel,
                                           const gpemu_cuda_launch* launch,
                                           gpemu_cuda_stream_handle stream) {
  if (launch == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (launch->packed != nullptr) {
    std::vector<void*> arguments;
    gpemu_cuda_launch plain{};
    GPEMU_CUDA_TRY(attach());
    GPEMU_CUDA_TRY(gpemu::cuda::unpack_launch(kernel, *launch, &arguments, &plain));
    return gpemu_cuda_launch_kernel(kernel, &plain, stream);
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  // Source: CUDA C++ Programming Guide, "Multi-Device System", on streams.
  if (found->device->ordinal != current_ordinal()) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  if (capturing(*found)) {
    gpemu_cuda_node_parameters node{.kind = GPEMU_CUDA_NODE_KERNEL};
    node.kernel = kernel;
    node.launch = *launch;
    return gpemu::cuda::capture(*found, node);
  }
  const PricedLaunch priced = price_launch(kernel, *launch, *found->device);
  GPEMU_CUDA_TRY(priced.status);
  perform_launch(kernels().find(kernel)->effect, *launch);
  return run_operation(priced.cost, priced.operation, *found);
}

gpemu_cuda_status gpemu_cuda_submit(const gpemu_operation* operation,
                                    gpemu_cuda_stream_handle stream) {
  if (operation == nullptr || operation->name == nullptr ||
      operation->struct_size != sizeof(*operation)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  return run_operation(found->device->costs->price(*operation), *operation, *found);
}
