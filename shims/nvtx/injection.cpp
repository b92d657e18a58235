// SPDX-License-Identifier: Apache-2.0
// Programs built with NVTX 3, which is headers only, load the library that NVTX_INJECTION64_PATH
// names, call InitializeInjectionNvtx2 in it, and take their functions from there.
#include <iterator>

#include "nvtx.hpp"

namespace {

struct Slot {
  unsigned id;
  void* function;
};

template <typename Function>
Slot slot(unsigned id, Function* function) {
  return {id, reinterpret_cast<void*>(function)};
}

bool fill(const Callbacks& callbacks, int module, const Slot* slots, size_t count) {
  void*** table = nullptr;
  unsigned size = 0;
  if (callbacks.get_module(module, &table, &size) == 0 || table == nullptr) {
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    if (slots[i].id < size && table[slots[i].id] != nullptr) {
      *table[slots[i].id] = slots[i].function;
    }
  }
  return true;
}

}  // namespace

/// Returns 1 if it has handed over its functions, else 0.
GPEMU_SHIM_EXPORT int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t id)) {
  if (export_table == nullptr) {
    return 0;
  }
  const auto* callbacks = static_cast<const Callbacks*>(export_table(kTableOfCallbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(Callbacks) ||
      callbacks->get_module == nullptr) {
    return 0;
  }
  const Slot core[] = {
      slot(kMarkEx, nvtxMarkEx),
      slot(kMarkA, nvtxMarkA),
      slot(kMarkW, nvtxMarkW),
      slot(kRangeStartEx, nvtxRangeStartEx),
      slot(kRangeStartA, nvtxRangeStartA),
      slot(kRangeStartW, nvtxRangeStartW),
      slot(kRangeEnd, nvtxRangeEnd),
      slot(kRangePushEx, nvtxRangePushEx),
      slot(kRangePushA, nvtxRangePushA),
      slot(kRangePushW, nvtxRangePushW),
      slot(kRangePop, nvtxRangePop),
  };
  void (*const initialize)(const void*) = [](const void*) {};
  const Slot core2[] = {
      slot(kDomainMarkEx, nvtxDomainMarkEx),
      slot(kDomainRangeStartEx, nvtxDomainRangeStartEx),
      slot(kDomainRangeEnd, nvtxDomainRangeEnd),
      slot(kDomainRangePushEx, nvtxDomainRangePushEx),
      slot(kDomainRangePop, nvtxDomainRangePop),
      slot(kDomainRegisterStringA, nvtxDomainRegisterStringA),
      slot(kDomainRegisterStringW, nvtxDomainRegisterStringW),
      slot(kDomainCreateA, nvtxDomainCreateA),
      slot(kDomainCreateW, nvtxDomainCreateW),
      slot(kDomainDestroy, nvtxDomainDestroy),
      slot(kInitialize, initialize),
  };
  const bool filled = fill(*callbacks, kModuleCore, core, std::size(core));
  return filled && fill(*callbacks, kModuleCore2, core2, std::size(core2)) ? 1 : 0;
}
