// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/kernel.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <optional>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/per_thread.hpp"
#include "gpemu/kernels/kernel_traits.hpp"
#include "gpemu/process/attach.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/process/writers.hpp"

namespace gpemu::launch {
namespace {

/// The assumed registers of a thread if the code does not say. Source: within the limits of full
/// occupancy on all supported GPUs (65536 registers for 2048 threads).
constexpr std::int32_t kRegisters = 32;

/// A thread's cache of the registry, because programs launch the same kernels repeatedly.
struct FoundKernel {
  const void* host_function;
  gpemu_cuda_kernel* kernel;
  std::uint64_t changes;  ///< of the registry at that time; later ones may concern the kernel.
};
struct FoundKernels {
  /// Functions begin at multiples of 16.
  FoundKernel& of(const void* host_function) {
    return all[reinterpret_cast<std::uintptr_t>(host_function) / 16 % all.size()];
  }
  std::array<FoundKernel, 256> all{};
};

/// Whether the program has element-wise kernels of PyTorch 2.5 or older, whose tensors are in an
/// array of PyTorch's own.
bool has_old_pytorch() {
  KernelRegistry& state = registry();
  const Lock lock(state.mutex);
  return std::ranges::any_of(state.kernels, [](const auto& entry) {
    return std::string_view(entry.second->name).contains("NS_6detail5ArrayIPcLi");
  });
}

/// Returns what the compiler recorded about a kernel, if anything.
kernels::CodeFacts facts_of_code(const gpemu_cuda_kernel& kernel) {
  kernels::CodeFacts facts;
  if (kernel.module == nullptr) {
    if (kernel.owner == nullptr) return facts;
    const auto code = kernel_code(static_cast<const std::byte*>(kernel.owner), kernel.name);
    if (code) facts = {.places = code->parameters, .ptx = {}, .access = code->access};
    return facts;
  }
  if (!kernel.module->image) return facts;
  const auto found = kernel.module->image->kernels.find(kernel.name);
  if (found != kernel.module->image->kernels.end()) {
    facts.places = found->second.parameters;
    facts.access = found->second.access;
  }
  facts.ptx = kernel.module->image->ptx;
  facts.old_pytorch = has_old_pytorch();
  return facts;
}

/// Reads what the compiler recorded about a kernel. Requires: attached.
void decode(gpemu_cuda_kernel& kernel) {
  std::call_once(kernel.decoded, [&kernel] {
    const Image* image = nullptr;
    if (kernel.module != nullptr) {
      image = kernel.module->image ? &*kernel.module->image : nullptr;
    } else {
      KernelRegistry& state = registry();
      const Lock lock(state.mutex);
      image = image_of(state, kernel.owner);
    }
    if (image == nullptr) return;
    const auto found = image->kernels.find(kernel.name);
    if (found == image->kernels.end()) return;
    kernel.image = image;
    kernel.code = &found->second;
  });
}

/// Analyses a kernel, once. Requires: attached.
const kernels::KernelTraits& traits_of(gpemu_cuda_kernel& kernel) {
  if (!kernel.analysed.load(std::memory_order_acquire)) {
    std::call_once(kernel.analysis, [&kernel] {
      decode(kernel);
      kernel.traits = kernels::kernel_traits(kernel.name);
      kernel.effect = kernels::kernel_effect(
          kernel.name, [&kernel] { return facts_of_code(kernel); },
          process::writer_id(kernel.name));
      // Names of newer versions do not give the layout of lists; the code does.
      const auto* const lists = std::get_if<kernels::ListsEffect>(&kernel.effect.recognised);
      if (lists != nullptr) kernel.traits.tensor_lists = lists->layout;
      kernel.analysed.store(true, std::memory_order_release);
    });
  }
  return kernel.traits;
}

/// Reads the facts about a launch of a kernel that is not recognised.
kernels::LaunchFacts facts_of(gpemu_cuda_kernel& kernel, const gpemu_cuda_launch& launch) {
  if (!kernel.has_parameters.load(std::memory_order_acquire)) {
    decode(kernel);
    std::call_once(kernel.parameters_read, [&kernel] {
      kernel.parameters =
          launch_parameters(kernel.name, kernel.code == nullptr ? facts_of_code(kernel).places
                                                                : kernel.code->parameters);
      kernel.has_parameters.store(true, std::memory_order_release);
    });
  }
  return launch_facts(kernel.parameters, launch.arguments,
                      kernel.code == nullptr ? kernels::LaunchFacts::Arithmetic::kUnknown
                                             : kernel.code->arithmetic);
}

/// Warps get registers in units, and blocks get warps in groups. Source: the CUDA Occupancy
/// Calculator, for all compute capabilities since 3.7.
constexpr std::int32_t kRegisterUnit = 256;
constexpr std::int32_t kWarpGroup = 4;

/// More waves of a kernel are not distinguished: each one takes the host about as long as a launch,
/// and an urgent kernel that waits for the end of one waits for at most 1 % of the kernel.
constexpr std::int64_t kMostWaves = 128;
/// Nor are shorter ones, after which an urgent kernel would start as soon.
constexpr Duration kShortestWave = std::chrono::microseconds(10);

int registers_of(const gpemu_cuda_kernel& kernel) {
  return kernel.code != nullptr && kernel.code->registers > 0 ? kernel.code->registers : kRegisters;
}

/// Returns for how many warps of a kernel the registers suffice.
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

Bytes static_shared_of(const gpemu_cuda_kernel& kernel) {
  return kernel.code == nullptr ? 0 : kernel.code->static_shared;
}

/// Returns the most dynamic shared memory that a block of a kernel may have: what the program
/// chose, or what its own leaves of the memory that needs no choice. Source: an H200, driver
/// 580.159, on which occupancy and launches with more are 0 and refused.
Bytes max_dynamic_of(const gpemu_cuda_kernel& kernel, const gpemu_cuda_device& device) {
  if (kernel.opted_in) return kernel.max_dynamic_shared;
  return device.shared_memory_per_block -
         std::min(device.shared_memory_per_block, static_shared_of(kernel));
}

/// Requires: the kernel is decoded, if that is possible.
process::Status check_launch(gpemu_cuda_kernel& kernel, const gpemu_cuda_launch& launch,
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
  if (launch.dynamic_shared_bytes > max_dynamic_of(kernel, device) ||
      static_shared_of(kernel) + launch.dynamic_shared_bytes >
          device.shared_memory_per_block_optin) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const auto in_block = static_cast<int>(threads);
  if (in_block > max_threads_of(kernel, device)) return GPEMU_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  if (launch.cooperative != 0) {
    const auto fitting = static_cast<std::uint64_t>(
        fitting_blocks(kernel, device, in_block, launch.dynamic_shared_bytes));
    const std::uint64_t plane = std::uint64_t{launch.grid[0]} * launch.grid[1];
    // Grids may have more blocks than 64 bits count.
    if (plane > fitting * static_cast<std::uint64_t>(device.multiprocessors) / launch.grid[2]) {
      return GPEMU_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    }
  }
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

int architecture_of(const process::DeviceState& device) {
  return device.info.major * 10 + device.info.minor;
}

const Image* image_of(KernelRegistry& state, const void* fat_binary) {
  if (fat_binary == nullptr) return nullptr;
  const auto [entry, added] = state.images.try_emplace(fat_binary);
  std::optional<Image>& image = entry->second;
  if (added) {
    image = read_fat_binary(static_cast<const std::byte*>(fat_binary),
                            architecture_of(process::device_at(0)));
  }
  return image ? &*image : nullptr;
}

process::Status unpack_launch(gpemu_cuda_kernel_handle kernel, const gpemu_cuda_launch& launch,
                              std::vector<void*>* arguments, gpemu_cuda_launch* plain) {
  gpemu_cuda_kernel* const found = kernels().find(kernel);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  decode(*found);
  const std::vector<ParameterPlace> places =
      found->code == nullptr ? facts_of_code(*found).places : found->code->parameters;
  if (places.empty() && launch.packed_bytes > 0) {
    process::record_not_supported("libcuda.so.1",
                                  "packed arguments of a kernel without machine code");
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  // The program's own memory, to which nothing writes.
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

process::Status find_launched(gpemu_cuda_kernel_handle handle, const gpemu_cuda_launch& launch,
                              const process::DeviceState& device, gpemu_cuda_kernel** kernel) {
  *kernel = kernels().find(handle);
  if (*kernel == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  static_cast<void>(traits_of(**kernel));
  return check_launch(**kernel, launch, device.info);
}

void set_shape(gpemu_cuda_kernel& kernel, const gpemu_cuda_launch& launch,
               const process::DeviceState& device, cost::OperationCost& cost) {
  const auto multiprocessors = static_cast<std::uint64_t>(device.info.multiprocessors);
  // Checked grids have at most 2^31 blocks in x and 2^16 in y and z, and so less than 2^63.
  const std::uint64_t blocks = std::uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  if (blocks < multiprocessors) {
    cost.width = static_cast<double>(blocks) * device.multiprocessor_share;
    return;
  }
  if (!device.has_priorities.load(std::memory_order_relaxed)) return;
  const auto threads = static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  const auto at_once =
      multiprocessors *
      static_cast<std::uint64_t>(
          std::max(fitting_blocks(kernel, device.info, threads, launch.dynamic_shared_bytes), 1));
  const std::int64_t most = std::min(cost.estimate.time / kShortestWave, kMostWaves);
  cost.waves = static_cast<int>(
      std::clamp<std::int64_t>(static_cast<std::int64_t>((blocks + at_once - 1) / at_once), 1,
                               std::max<std::int64_t>(most, 1)));
}

kernels::DescribedOperation describe_operation(gpemu_cuda_kernel& kernel,
                                               const gpemu_cuda_launch& launch,
                                               const process::DeviceState& device) {
  const gpemu_operation launched = {
      .struct_size = sizeof(launched),
      .kind = GPEMU_OPERATION_KERNEL,
      .shape = {launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1],
                launch.block[2], static_cast<int64_t>(launch.dynamic_shared_bytes)},
      .name = kernel.name,
      .arguments = launch.arguments};
  kernels::LaunchContext context{.memory = device.info.total_memory};
  std::optional<kernels::LaunchFacts> facts;
  if (kernel.traits.foreign && kernel.traits.elements == kernels::ElementsFrom::kThreads) {
    facts = facts_of(kernel, launch);
    context.facts = &*facts;
  }
  return kernels::describe_kernel(kernel.traits, launched, context);
}

void register_kernel(const void* host_function, const char* name, const void* fat_binary) {
  gpemu_cuda_kernel* const kernel = kernels().create();
  if (kernel == nullptr) return;
  kernel->name = name;
  kernel->owner = fat_binary;
  KernelRegistry& state = registry();
  const Lock lock(state.mutex);
  state.kernels[host_function] = kernel;
  ++state.changes;
  state.registered[fat_binary].push_back(host_function);
}

process::Status registered_kernel(const void* host_function, gpemu_cuda_kernel** kernel) {
  KernelRegistry& state = registry();
  FoundKernel none{};
  auto* const before = PerThread<FoundKernels>::get();
  FoundKernel& last = before == nullptr ? none : before->of(host_function);
  const std::uint64_t changes = state.changes.load(std::memory_order_acquire);
  if (last.host_function == host_function && last.changes == changes) {
    *kernel = last.kernel;
    return GPEMU_CUDA_SUCCESS;
  }
  const Lock lock(state.mutex);
  const auto found = state.kernels.find(host_function);
  if (found == state.kernels.end()) return GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION;
  last = {.host_function = host_function, .kernel = found->second, .changes = changes};
  *kernel = found->second;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_kernel_info describe_kernel(gpemu_cuda_kernel& kernel,
                                       const process::DeviceState& device) {
  decode(kernel);
  const int version =
      kernel.image == nullptr ? architecture_of(device) : kernel.image->architecture;
  gpemu_cuda_kernel_info info{.name = kernel.name,
                              .module = kernel.module,
                              .registers = registers_of(kernel),
                              .max_threads_per_block = max_threads_of(kernel, device.info),
                              .binary_version = version,
                              .ptx_version = version,
                              .max_dynamic_shared_bytes = max_dynamic_of(kernel, device.info),
                              .shared_carveout = kernel.carveout};
  if (kernel.code != nullptr) {
    info.static_shared_bytes = kernel.code->static_shared;
    info.constant_bytes = kernel.image->constant;
    info.local_bytes = kernel.code->local;
  }
  return info;
}

int fitting_blocks(gpemu_cuda_kernel& kernel, const gpemu_cuda_device& info, int threads_per_block,
                   Bytes dynamic_shared) {
  decode(kernel);
  if (threads_per_block > max_threads_of(kernel, info) ||
      dynamic_shared > max_dynamic_of(kernel, info)) {
    return 0;
  }
  const int warps = (threads_per_block + 31) / 32;
  int fitting = info.max_threads_per_multiprocessor / (32 * warps);
  fitting = std::min(fitting, warps_for(kernel, info.registers_per_multiprocessor) / warps);
  fitting = std::min(fitting, info.max_blocks_per_multiprocessor);
  const std::uint64_t shared =
      dynamic_shared + static_shared_of(kernel) + info.reserved_shared_memory_per_block;
  if (shared > 0) {
    fitting = static_cast<int>(std::min<std::uint64_t>(
        static_cast<std::uint64_t>(fitting), info.shared_memory_per_multiprocessor / shared));
  }
  return fitting;
}

}  // namespace gpemu::launch
