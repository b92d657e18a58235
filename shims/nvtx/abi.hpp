// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// nvtxMessageType_t. Source: nvToolsExt.h.
enum MessageType : int32_t { kMessageAscii = 1, kMessageWide = 2, kMessageRegistered = 3 };

/// NVTX_NO_PUSH_POP_TRACKING. Source: nvToolsExt.h.
constexpr int kNoTracking = -2;

/// What functions that are not supported return: most are void, of the others it is no handle.
constexpr int kNothing = 0;

/// NvtxExportTableID. Source: nvtxTypes.h.
constexpr uint32_t kTableOfCallbacks = 1;

/// NvtxCallbackModule. Source: nvtxTypes.h.
enum CallbackModule : int { kModuleCore = 1, kModuleCore2 = 5 };

/// NvtxCallbackIdCore: those that are given here. Source: nvtxTypes.h.
enum CoreCallback : unsigned {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
};

/// NvtxCallbackIdCore2: those that are given here. Source: nvtxTypes.h.
enum DomainCallback : unsigned {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
  kDomainDestroy = 14,
  kInitialize = 15,
};

/// A program's description of a mark or a range. Source: nvToolsExt.h, nvtxEventAttributes_v2.
struct NvtxAttributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void* message;
};
static_assert(sizeof(NvtxAttributes) == 48);

/// The content of an export table of NVTX. Source: nvtxTypes.h, NvtxExportTableCallbacks.
struct Callbacks {
  size_t struct_size;
  int (*get_module)(int module, void**** table, unsigned* size);
};
static_assert(sizeof(Callbacks) == 16);
