// SPDX-License-Identifier: Apache-2.0
#include "entry_points.hpp"

#include <algorithm>
#include <string>
#include <string_view>

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

bool is_runtime_table(const unsigned char* id) {
  return std::ranges::any_of(kRuntimeTables, [id](const TableId& known) {
    return std::equal(known.begin(), known.end(), id);
  });
}

/// Returns an id as it is usually written: 8-4-4-4-12 hexadecimal digits.
std::string text_of_id(const unsigned char* id) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (size_t index = 0; index < kTableIdBytes; ++index) {
    if (index == 4 || index == 6 || index == 8 || index == 10) {
      text += '-';
    }
    text += kDigits[id[index] >> 4];
    text += kDigits[id[index] & 0xf];
  }
  return text;
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

// Undocumented tables of functions are not offered: docs/design/static-runtime.md says why.
GPEMU_SHIM_EXPORT int cuGetExportTable(const void** table, const unsigned char* id) {
  if (table == nullptr || id == nullptr) {
    return kInvalidValue;
  }
  *table = nullptr;
  if (is_runtime_table(id)) {
    return not_supported(
        "cuGetExportTable for the static CUDA runtime (link the program with nvcc -cudart shared)");
  }
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME,
                           ("cuGetExportTable for table " + text_of_id(id)).c_str());
  return GPEMU_CUDA_ERROR_NOT_FOUND;
}
