// SPDX-License-Identifier: Apache-2.0
#include "module.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocation.hpp"
#include "attach.hpp"
#include "context.hpp"
#include "copy.hpp"
#include "kernel.hpp"
#include "memory.hpp"
#include "recorder.hpp"

namespace gpemu::cuda {
namespace {

/// Forgets where variables of the program lie on a device whose context ends.
void forget_variables(DeviceState& device) {
  KernelRegistry& state = registry();
  const std::lock_guard lock(state.mutex);
  for (auto& entry : state.variables) entry.second.addresses.erase(device.ordinal);
  modules().for_each([&](gpemu_cuda_module& module) {
    std::erase_if(module.variables,
                  [&](const auto& entry) { return entry.first.second == device.ordinal; });
  });
}

/// Yields memory of the current device for a variable, which holds its initial value.
Status make_variable(DeviceState& device, const Image* image, const std::string& name, Bytes bytes,
                     std::uint64_t* address) {
  device.end_with_context(ContextPart::kVariables, forget_variables);
  GPEMU_CUDA_TRY(allocate(bytes, GPEMU_CUDA_MEMORY_DEVICE, address));
  if (image == nullptr) return GPEMU_CUDA_SUCCESS;
  const auto found = image->variables.find(name);
  if (found == image->variables.end() || found->second.initial.empty()) return GPEMU_CUDA_SUCCESS;
  const std::vector<std::byte>& initial = found->second.initial;
  return poke(*address, initial.data(), std::min<Bytes>(bytes, initial.size()));
}

}  // namespace

Status load_module(const std::byte* bytes, Bytes limit, gpemu_cuda_module** module) {
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

void unload_module(gpemu_cuda_module& module) {
  // Before the lock: host functions that cudaFree waits for may launch kernels.
  for (const auto& variable : module.variables) {
    static_cast<void>(free_memory(variable.second));
  }
  KernelRegistry& state = registry();
  const std::lock_guard lock(state.mutex);
  std::erase_if(state.module_kernels, [&module](const auto& entry) {
    if (entry.first.first != &module) return false;
    kernels().destroy(entry.second);
    return true;
  });
  modules().destroy(&module);
}

Status find_kernel(gpemu_cuda_module& module, const char* name, gpemu_cuda_kernel** kernel) {
  if (module.image && !module.image->kernels.contains(name)) return GPEMU_CUDA_ERROR_NOT_FOUND;
  KernelRegistry& state = registry();
  const std::lock_guard lock(state.mutex);
  gpemu_cuda_kernel*& entry = state.module_kernels[{&module, name}];
  if (entry == nullptr) {
    entry = kernels().create();
    if (entry == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    entry->owned_name = name;
    entry->name = entry->owned_name.c_str();
    entry->module = &module;
  }
  *kernel = entry;
  return GPEMU_CUDA_SUCCESS;
}

Status find_variable(gpemu_cuda_module& module, const char* name, std::uint64_t* address,
                     std::uint64_t* bytes) {
  if (!module.image) {
    record_not_supported("cuda", "variables of modules that are PTX or compressed");
    return GPEMU_CUDA_ERROR_NOT_FOUND;
  }
  const auto variable = module.image->variables.find(name);
  if (variable == module.image->variables.end()) return GPEMU_CUDA_ERROR_NOT_FOUND;
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  const std::lock_guard lock(registry().mutex);
  std::uint64_t& of_device = module.variables[{name, device->ordinal}];
  if (of_device == 0) {
    GPEMU_CUDA_TRY(
        make_variable(*device, &*module.image, name, variable->second.bytes, &of_device));
  }
  if (address != nullptr) *address = of_device;
  if (bytes != nullptr) *bytes = variable->second.bytes;
  return GPEMU_CUDA_SUCCESS;
}

void register_variable(const void* host_variable, const char* name, Bytes bytes,
                       const void* fat_binary) {
  KernelRegistry& state = registry();
  const std::lock_guard lock(state.mutex);
  Variable& variable = state.variables[host_variable];
  variable.name = name;
  variable.owner = fat_binary;
  variable.bytes = bytes;
  state.registered[fat_binary].push_back(host_variable);
}

void unregister(const void* fat_binary) {
  KernelRegistry& state = registry();
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

Status registered_variable(const void* host_variable, std::uint64_t* address,
                           std::uint64_t* bytes) {
  DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(current_device(&device));
  KernelRegistry& state = registry();
  const std::lock_guard lock(state.mutex);
  const auto found = state.variables.find(host_variable);
  if (found == state.variables.end()) return GPEMU_CUDA_ERROR_INVALID_SYMBOL;
  std::uint64_t& of_device = found->second.addresses[device->ordinal];
  if (of_device == 0) {
    GPEMU_CUDA_TRY(make_variable(*device, image_of(state, found->second.owner), found->second.name,
                                 found->second.bytes, &of_device));
  }
  if (address != nullptr) *address = of_device;
  if (bytes != nullptr) *bytes = found->second.bytes;
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace gpemu::cuda
