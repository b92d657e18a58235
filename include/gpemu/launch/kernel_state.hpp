// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "gpemu/base/mutex.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/cost/operation_cost.hpp"
#include "gpemu/cuda.h"
#include "gpemu/kernels/kernel_effect.hpp"
#include "gpemu/kernels/kernel_traits.hpp"
#include "gpemu/launch/image.hpp"
#include "gpemu/launch/launch_facts.hpp"
#include "gpemu/process/handle_table.hpp"
#include "gpemu/process/made_once.hpp"
#include "gpemu/process/process.hpp"

struct gpemu_cuda_module {
  /// Nothing for formats other than machine code, whose names cannot be listed.
  std::optional<gpemu::launch::Image> image;
  std::map<std::pair<std::string, int>, std::uint64_t> variables;  ///< addresses, by device.
};

struct gpemu_cuda_kernel {
  std::string owned_name;       ///< of kernels in modules.
  const char* name = nullptr;   ///< mangled.
  const void* owner = nullptr;  ///< the fat binary or the module.
  gpemu_cuda_module* module = nullptr;
  std::once_flag analysis;
  std::atomic<bool> analysed{false};  ///< asked first: std::call_once is too slow for each launch.
  gpemu::kernels::KernelTraits traits;  ///< valid once analysed.
  std::once_flag decoded;
  const gpemu::launch::Image* image = nullptr;      ///< valid once decoded; null: compressed, PTX.
  const gpemu::launch::KernelCode* code = nullptr;  ///< as image.
  gpemu::kernels::KernelEffect effect;              ///< valid once analysed.
  std::once_flag parameters_read;
  std::atomic<bool> has_parameters{false};                 ///< asked first, as `analysed`.
  std::vector<gpemu::launch::LaunchParameter> parameters;  ///< valid once read.
  std::atomic<std::uint64_t> max_dynamic_shared{0};
  std::atomic<bool> opted_in{false};  ///< whether the program chose max_dynamic_shared.
  std::atomic<std::int32_t> carveout{-1};
};

namespace gpemu::launch {

struct Variable {
  std::string name;
  const void* owner = nullptr;  ///< the fat binary.
  std::uint64_t bytes = 0;
  std::map<int, std::uint64_t> addresses;  ///< by device.
};

/// The kernels and variables that the runtime registers at load.
struct KernelRegistry {
  Mutex mutex;
  std::atomic<std::uint64_t> changes{1};  ///< of `kernels`.
  std::unordered_map<const void*, gpemu_cuda_kernel*> kernels GPEMU_GUARDED_BY(mutex);
  std::unordered_map<const void*, Variable> variables GPEMU_GUARDED_BY(mutex);
  std::map<std::pair<gpemu_cuda_module*, std::string>, gpemu_cuda_kernel*> module_kernels
      GPEMU_GUARDED_BY(mutex);
  /// Of fat binaries, once read.
  std::unordered_map<const void*, std::optional<Image>> images GPEMU_GUARDED_BY(mutex);
  /// What each fat binary registered, of `kernels` and `variables`.
  std::unordered_map<const void*, std::vector<const void*>> registered GPEMU_GUARDED_BY(mutex);
};

/// PyTorch registers some 20,000 kernels.
inline constexpr std::size_t kMaxKernels = 1 << 20;
inline constexpr std::size_t kMaxModules = 1 << 16;

[[nodiscard]] inline process::HandleTable<gpemu_cuda_kernel>& kernels() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_kernel>> table;
  return table.get(kMaxKernels);
}
[[nodiscard]] inline process::HandleTable<gpemu_cuda_module>& modules() {
  static constinit process::MadeOnce<process::HandleTable<gpemu_cuda_module>> table;
  return table.get(kMaxModules);
}
[[nodiscard]] inline KernelRegistry& registry() {
  static constinit process::MadeOnce<KernelRegistry> made;
  return made.get();
}

}  // namespace gpemu::launch
