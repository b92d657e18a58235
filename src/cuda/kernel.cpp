// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstring>
#include <elf.h>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "gpemu/base/file.hpp"

#include "handle_table.hpp"
#include "machine.hpp"
#include "stream.hpp"

struct gpemu_cuda_module {
  /// The symbols of an ELF image; empty for other formats, whose names cannot be listed.
  std::unordered_set<std::string> functions;
  bool listed = false;
};

struct gpemu_cuda_kernel {
  std::string owned_name;       ///< of kernels in modules.
  const char* name = nullptr;   ///< mangled.
  const void* owner = nullptr;  ///< the fat binary or the module.
  gpemu_cuda_module* module = nullptr;
  std::once_flag analysed;
  gpemu::cost::KernelTraits traits;  ///< valid once analysed.
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
  std::uint64_t bytes = 0;
  std::map<int, std::uint64_t> addresses;  ///< by device.
};

/// What the runtime registers at load. Never destroyed: programs unregister while they exit.
struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<const void*, gpemu_cuda_kernel*> kernels;
  std::unordered_map<const void*, Variable> variables;
  std::map<std::pair<gpemu_cuda_module*, std::string>, gpemu_cuda_kernel*> module_kernels;
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

const cost::KernelTraits& traits_of(gpemu_cuda_kernel& kernel) {
  std::call_once(kernel.analysed, [&kernel] { kernel.traits = cost::kernel_traits(kernel.name); });
  return kernel.traits;
}

/// Adds the names of the kernels in an ELF image: a kernel is a section ".text.<name>".
bool list_functions(const std::byte* image, std::unordered_set<std::string>& names) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shstrndx >= header.e_shnum) return false;
  const auto section = [&](std::size_t index) {
    Elf64_Shdr result;
    std::memcpy(&result, image + header.e_shoff + index * sizeof(result), sizeof(result));
    return result;
  };
  const Elf64_Shdr strings = section(header.e_shstrndx);
  constexpr std::string_view kPrefix = ".text.";
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Word name = section(i).sh_name;
    if (name >= strings.sh_size) return false;
    const auto* const text = reinterpret_cast<const char*>(image + strings.sh_offset + name);
    const std::string_view view(text, ::strnlen(text, strings.sh_size - name));
    if (view.starts_with(kPrefix)) names.emplace(view.substr(kPrefix.size()));
  }
  return true;
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

Status price_launch(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                    DeviceState& device, cost::OperationCost* cost, const char** name) {
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  GPEMU_CUDA_TRY(check_launch(*found, launch, device.info));
  const gpemu_operation operation{
      .struct_size = sizeof(operation),
      .kind = GPEMU_OPERATION_KERNEL,
      .shape = {launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1],
                launch.block[2], static_cast<int64_t>(launch.dynamic_shared_bytes)},
      .name = found->name,
      .arguments = launch.arguments};
  *cost = device.costs->price_kernel(traits_of(*found), operation);
  *name = found->name;
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda

// ---- The C interface

using gpemu::cuda::attach;
using gpemu::cuda::current_device;
using gpemu::cuda::DeviceState;
using gpemu::cuda::kernels;
using gpemu::cuda::kRegisters;
using gpemu::cuda::list_functions;
using gpemu::cuda::modules;
using gpemu::cuda::price_launch;
using gpemu::cuda::registry;
using gpemu::cuda::Registry;
using gpemu::cuda::resolve_for_work;
using gpemu::cuda::run_operation;
using gpemu::cuda::Variable;

gpemu_cuda_status gpemu_cuda_module_load(const void* image, gpemu_cuda_module_handle* module) {
  if (image == nullptr || module == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  GPEMU_CUDA_TRY(attach());
  const auto* const bytes = static_cast<const std::byte*>(image);
  std::uint32_t magic = 0;
  std::memcpy(&magic, bytes, sizeof(magic));
  // Source: the ELF specification; fatbinary.h of the toolkit for the container and its wrapper.
  constexpr std::uint32_t kElf = 0x464c457f;
  constexpr std::uint32_t kFatBinary = 0xba55ed50;
  constexpr std::uint32_t kFatBinaryWrapper = 0x466243b1;
  const auto first = static_cast<unsigned char>(bytes[0]);
  const bool text = first == '/' || first == '.' || first == '\n' || first == ' ';
  if (magic != kElf && magic != kFatBinary && magic != kFatBinaryWrapper && !text) {
    return GPEMU_CUDA_ERROR_INVALID_IMAGE;
  }
  gpemu_cuda_module* const created = modules().create();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  if (magic == kElf) {
    created->listed = true;
    if (!list_functions(bytes, created->functions)) {
      modules().destroy(created);
      return GPEMU_CUDA_ERROR_INVALID_IMAGE;
    }
  }
  *module = created;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_module_load_file(const char* path, gpemu_cuda_module_handle* module) {
  if (path == nullptr || module == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const auto content = gpemu::read_file(path);
  if (!content) return GPEMU_CUDA_ERROR_FILE_NOT_FOUND;
  return gpemu_cuda_module_load(content->c_str(), module);
}

gpemu_cuda_status gpemu_cuda_module_unload(gpemu_cuda_module_handle module) {
  gpemu_cuda_module* const found = modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  Registry& state = registry();
  const std::unique_lock lock(state.mutex);
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
  if (found->listed && !found->functions.contains(name)) return GPEMU_CUDA_ERROR_NOT_FOUND;
  Registry& state = registry();
  const std::unique_lock lock(state.mutex);
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
  if (!found->listed) return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  *count = static_cast<uint32_t>(found->functions.size());
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_module_kernels(gpemu_cuda_module_handle module,
                                            gpemu_cuda_kernel_handle* kernels, uint32_t count) {
  if (kernels == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const gpemu_cuda_module* const found = modules().find(module);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  uint32_t filled = 0;
  for (const std::string& name : found->functions) {
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
  if (modules().find(module) == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  gpemu_cuda_not_supported("cuda", "variables of modules");
  return GPEMU_CUDA_ERROR_NOT_FOUND;
}

void gpemu_cuda_register_kernel(const void* host_function, const char* name,
                                const void* fat_binary) {
  if (host_function == nullptr || name == nullptr) return;
  gpemu_cuda_kernel* const kernel = kernels().create();
  if (kernel == nullptr) return;
  kernel->name = name;
  kernel->owner = fat_binary;
  Registry& state = registry();
  const std::unique_lock lock(state.mutex);
  state.kernels[host_function] = kernel;
}

void gpemu_cuda_register_variable(const void* host_variable, const char* name, uint64_t bytes) {
  if (host_variable == nullptr || name == nullptr) return;
  Registry& state = registry();
  const std::unique_lock lock(state.mutex);
  Variable& variable = state.variables[host_variable];
  variable.name = name;
  variable.bytes = bytes;
}

void gpemu_cuda_unregister(const void* fat_binary) {
  Registry& state = registry();
  const std::unique_lock lock(state.mutex);
  std::erase_if(state.kernels, [fat_binary](const auto& entry) {
    if (entry.second->owner != fat_binary) return false;
    kernels().destroy(entry.second);
    return true;
  });
}

gpemu_cuda_status gpemu_cuda_registered_kernel(const void* host_function,
                                               gpemu_cuda_kernel_handle* kernel) {
  if (kernel == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  Registry& state = registry();
  const std::shared_lock lock(state.mutex);
  const auto found = state.kernels.find(host_function);
  if (found == state.kernels.end()) return GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION;
  *kernel = found->second;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_registered_variable(const void* host_variable, uint64_t* address,
                                                 uint64_t* bytes) {
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  Registry& state = registry();
  const std::unique_lock lock(state.mutex);
  const auto found = state.variables.find(host_variable);
  if (found == state.variables.end()) return GPEMU_CUDA_ERROR_INVALID_SYMBOL;
  std::uint64_t& of_device = found->second.addresses[device->ordinal];
  if (of_device == 0) GPEMU_CUDA_TRY(gpemu_cuda_malloc(found->second.bytes, &of_device));
  if (address != nullptr) *address = of_device;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_kernel_get_info(gpemu_cuda_kernel_handle kernel,
                                             gpemu_cuda_kernel_info* info) {
  if (info == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  const gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  const int version = device->info.major * 10 + device->info.minor;
  *info = {.name = found->name,
           .module = found->module,
           .registers = kRegisters,
           .max_threads_per_block = device->info.max_threads_per_block,
           .binary_version = version,
           .ptx_version = version,
           .max_dynamic_shared_bytes = found->max_dynamic_shared,
           .shared_carveout = found->carveout};
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
  if (kernels().find(kernel) == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  const gpemu_cuda_device& info = device->info;
  if (threads_per_block > info.max_threads_per_block ||
      dynamic_shared > info.shared_memory_per_multiprocessor) {
    *blocks = 0;
    return GPEMU_CUDA_SUCCESS;
  }
  // Warps are whole.
  const int threads = (threads_per_block + 31) / 32 * 32;
  int fitting = info.max_threads_per_multiprocessor / threads;
  fitting = std::min(fitting, info.registers_per_multiprocessor / (kRegisters * threads));
  fitting = std::min(fitting, info.max_blocks_per_multiprocessor);
  const std::uint64_t shared = dynamic_shared + info.reserved_shared_memory_per_block;
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
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  gpemu::cost::OperationCost cost;
  const char* name = nullptr;
  GPEMU_CUDA_TRY(price_launch(kernel, *launch, *found->device, &cost, &name));
  return run_operation(cost, name, *found);
}

gpemu_cuda_status gpemu_cuda_submit(const gpemu_operation* operation,
                                    gpemu_cuda_stream_handle stream) {
  if (operation == nullptr || operation->name == nullptr ||
      operation->struct_size != sizeof(*operation)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  return run_operation(found->device->costs->price(*operation), operation->name, *found);
}
