// SPDX-License-Identifier: Apache-2.0
#include "entry_points.hpp"

#include <algorithm>

#include "cuda.hpp"

namespace {

int find_entry_point(const char* symbol, void** function, int version, uint64_t flags, int* found) {
  if (symbol == nullptr || function == nullptr || flags > kPerThread) {
    return kInvalidValue;
  }
  const std::string_view name = symbol;
  const std::span<const EntryPoint> all = entry_points();
  auto entry = std::lower_bound(
      all.begin(), all.end(), name,
      [](const EntryPoint& left, std::string_view right) { return left.name < right; });
  *function = nullptr;
  int answer = kNoSymbol;
  for (; entry != all.end() && entry->name == name; ++entry) {
    if (entry->version > version) {
      answer = answer == kFound ? kFound : kNoVersion;
      break;
    }
    answer = kFound;
    *function = reinterpret_cast<void*>(flags == kPerThread ? entry->per_thread : entry->function);
  }
  if (found != nullptr) {
    *found = answer;
  }
  // A caller that learns why there is none gets no error. Source: an H200, driver 580.159.
  return answer == kFound || found != nullptr ? kSuccess
                                              : static_cast<int>(GPEMU_CUDA_ERROR_NOT_FOUND);
}

}  // namespace

GPEMU_SHIM_EXPORT int cuGetProcAddress(const char* symbol, void** function, int version,
                                       uint64_t flags) {
  return find_entry_point(symbol, function, version, flags, nullptr);
}

GPEMU_SHIM_EXPORT int cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                          uint64_t flags, int* found) {
  return find_entry_point(symbol, function, version, flags, found);
}

// Undocumented tables of functions are not offered. A program that asks for them has linked
// the runtime statically; `nvcc -cudart shared` makes a program that runs.
GPEMU_SHIM_EXPORT int cuGetExportTable(const void** table, const void* id) {
  if (table == nullptr || id == nullptr) {
    return kInvalidValue;
  }
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME,
                           "cuGetExportTable (link the runtime with nvcc -cudart shared)");
  *table = nullptr;
  return GPEMU_CUDA_ERROR_NOT_FOUND;
}
