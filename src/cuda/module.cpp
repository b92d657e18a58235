// SPDX-License-Identifier: Apache-2.0
#include "module.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/launch/kernel.hpp"
#include "gpemu/memory/allocation.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/streams/context.hpp"

#include "copy.hpp"
#include "memory.hpp"
#include "synchronize.hpp"

namespace gpemu::cuda {
namespace {

/// Forgets the addresses of the program's variables on a device whose context ends.
void forget_variables(process::DeviceState& device) {
  launch::KernelRegistry& state = launch::registry();
  const Lock lock(state.mutex);
  for (auto& entry : state.variables) entry.second.addresses.erase(device.ordinal);
  launch::modules().for_each([&](gpemu_cuda_module& module) {
    std::erase_if(module.variables,
                  [&](const auto& entry) { return entry.first.second == device.ordinal; });
  });
}

/// A variable on a device; valid while the registry is locked.
struct VariablePlace {
  std::uint64_t* address = nullptr;  ///< 0 there: its memory is not allocated.
  Bytes bytes = 0;
  std::vector<std::byte> initial;  ///< of a variable whose memory is not allocated.
};

VariablePlace place_of(std::uint64_t& address, Bytes bytes, const launch::Image* image,
                       const std::string& name) {
  VariablePlace place{.address = &address, .bytes = bytes, .initial = {}};
  if (address != 0 || image == nullptr) return place;
  const auto found = image->variables.find(name);
  if (found != image->variables.end()) place.initial = found->second.initial;
  place.initial.resize(std::min<Bytes>(bytes, place.initial.size()));
  return place;
}

/// Yields the address of a variable on the current device, and its size; the first call allocates
/// its memory. `find` returns its place while the registry is locked, or nothing. The memory is
/// allocated without that lock: allocations take the lock of graphs, and a thread with that lock
/// may wait for this one.
template <typename Find>
process::Status locate_variable(process::DeviceState& device, const Find& find,
                                std::uint64_t* address, std::uint64_t* bytes) {
  Lock lock(launch::registry().mutex);
  std::optional<VariablePlace> place = find();
  std::uint64_t made = 0;
  if (place && *place->address == 0) {
    lock.unlock();
    device.end_with_context(process::ContextPart::kVariables, forget_variables);
    GPEMU_CUDA_TRY(allocate(place->bytes, memory::Origin::kVariable, &made));
    GPEMU_CUDA_TRY(poke(made, place->initial.data(), place->initial.size()));
    lock.lock();
    place = find();
    // Another thread may have allocated it meanwhile.
    if (place && *place->address == 0) *place->address = std::exchange(made, 0);
  }
  if (place && address != nullptr) *address = *place->address;
  if (place && bytes != nullptr) *bytes = place->bytes;
  lock.unlock();
  if (made != 0) static_cast<void>(memory::free_block(made, false));
  return place ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_INVALID_SYMBOL;
}

}  // namespace

process::Status load_module(const std::byte* bytes, Bytes limit, gpemu_cuda_module** module) {
  std::uint32_t magic = 0;
  if (limit < sizeof(magic)) return GPEMU_CUDA_ERROR_INVALID_IMAGE;
  std::memcpy(&magic, bytes, sizeof(magic));
  const auto first = static_cast<unsigned char>(bytes[0]);
  const bool text = first == '/' || first == '.' || first == '\n' || first == ' ';
  // A wrapper contains an address, which is meaningless in a file.
  const bool container = magic == launch::kFatBinaryMagic ||
                         (magic == launch::kFatBinaryWrapperMagic && limit == launch::kUnknownSize);
  if (magic != launch::kElfMagic && !container && !text) return GPEMU_CUDA_ERROR_INVALID_IMAGE;
  std::optional<launch::Image> read;
  if (container) {
    if (!launch::holds_fat_binary(bytes, limit)) return GPEMU_CUDA_ERROR_INVALID_IMAGE;
    read = launch::read_fat_binary(bytes, launch::architecture_of(process::device_at(0)));
  }
  if (magic == launch::kElfMagic) {
    const std::optional<Bytes> size = launch::cubin_size(bytes, limit);
    if (size) read = launch::read_cubin({bytes, *size});
    if (!read) return GPEMU_CUDA_ERROR_INVALID_IMAGE;
  }
  gpemu_cuda_module* const created = launch::modules().create();
  if (created == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
  created->image = std::move(read);
  *module = created;
  return GPEMU_CUDA_SUCCESS;
}

void unload_module(gpemu_cuda_module& module) {
  launch::KernelRegistry& state = launch::registry();
  Lock lock(state.mutex);
  const auto variables = std::exchange(module.variables, {});
  // Without the lock, because host functions for which it waits may launch kernels.
  lock.unlock();
  for (const auto& [place, address] : variables) {
    synchronize(process::device_at(place.second));
    static_cast<void>(memory::free_block(address, false));
  }
  lock.lock();
  std::erase_if(state.module_kernels, [&module](const auto& entry) {
    if (entry.first.first != &module) return false;
    launch::kernels().destroy(entry.second);
    return true;
  });
  launch::modules().destroy(&module);
}

process::Status find_kernel(gpemu_cuda_module& module, const char* name,
                            gpemu_cuda_kernel** kernel) {
  if (module.image && !module.image->kernels.contains(name)) return GPEMU_CUDA_ERROR_NOT_FOUND;
  launch::KernelRegistry& state = launch::registry();
  const Lock lock(state.mutex);
  gpemu_cuda_kernel*& entry = state.module_kernels[{&module, name}];
  if (entry == nullptr) {
    entry = launch::kernels().create();
    if (entry == nullptr) return GPEMU_CUDA_ERROR_OUT_OF_MEMORY;
    entry->owned_name = name;
    entry->name = entry->owned_name.c_str();
    entry->module = &module;
  }
  *kernel = entry;
  return GPEMU_CUDA_SUCCESS;
}

process::Status find_variable(gpemu_cuda_module& module, const char* name, std::uint64_t* address,
                              std::uint64_t* bytes) {
  if (!module.image) {
    process::record_not_supported("cuda", "variables of modules that are PTX or compressed");
    return GPEMU_CUDA_ERROR_NOT_FOUND;
  }
  const auto variable = module.image->variables.find(name);
  if (variable == module.image->variables.end()) return GPEMU_CUDA_ERROR_NOT_FOUND;
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  const auto find = [&]() -> std::optional<VariablePlace> {
    return place_of(module.variables[{name, device->ordinal}], variable->second.bytes,
                    &*module.image, name);
  };
  return locate_variable(*device, find, address, bytes);
}

void register_variable(const void* host_variable, const char* name, Bytes bytes,
                       const void* fat_binary) {
  launch::KernelRegistry& state = launch::registry();
  const Lock lock(state.mutex);
  launch::Variable& variable = state.variables[host_variable];
  variable.name = name;
  variable.owner = fat_binary;
  variable.bytes = bytes;
  state.registered[fat_binary].push_back(host_variable);
}

void unregister(const void* fat_binary) {
  launch::KernelRegistry& state = launch::registry();
  std::vector<std::uint64_t> addresses;
  Lock lock(state.mutex);
  const auto registered = state.registered.find(fat_binary);
  if (registered == state.registered.end()) return;
  for (const void* const name : registered->second) {
    const auto kernel = state.kernels.find(name);
    if (kernel != state.kernels.end() && kernel->second->owner == fat_binary) {
      launch::kernels().destroy(kernel->second);
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
  for (const std::uint64_t address : addresses)
    static_cast<void>(memory::free_block(address, false));
}

process::Status registered_variable(const void* host_variable, std::uint64_t* address,
                                    std::uint64_t* bytes) {
  process::DeviceState* device = nullptr;
  GPEMU_CUDA_TRY(streams::current_device(&device));
  const auto find = [&]() GPEMU_REQUIRES(launch::registry().mutex) -> std::optional<VariablePlace> {
    const auto found = launch::registry().variables.find(host_variable);
    if (found == launch::registry().variables.end()) return std::nullopt;
    launch::Variable& variable = found->second;
    return place_of(variable.addresses[device->ordinal], variable.bytes,
                    launch::image_of(launch::registry(), variable.owner), variable.name);
  };
  return locate_variable(*device, find, address, bytes);
}

}  // namespace gpemu::cuda
