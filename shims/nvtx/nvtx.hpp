// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "abi.hpp"
#include "shim.hpp"

// The functions that an injection hands to programs built with the headers of NVTX 3.
GPEMU_SHIM_EXPORT void nvtxMarkEx(const NvtxAttributes* attributes);
GPEMU_SHIM_EXPORT void nvtxMarkA(const char* text);
GPEMU_SHIM_EXPORT void nvtxMarkW(const wchar_t* text);
GPEMU_SHIM_EXPORT int nvtxRangePushEx(const NvtxAttributes* attributes);
GPEMU_SHIM_EXPORT int nvtxRangePushA(const char* text);
GPEMU_SHIM_EXPORT int nvtxRangePushW(const wchar_t* text);
GPEMU_SHIM_EXPORT int nvtxRangePop();
GPEMU_SHIM_EXPORT uint64_t nvtxRangeStartEx(const NvtxAttributes* attributes);
GPEMU_SHIM_EXPORT uint64_t nvtxRangeStartA(const char* text);
GPEMU_SHIM_EXPORT uint64_t nvtxRangeStartW(const wchar_t* text);
GPEMU_SHIM_EXPORT void nvtxRangeEnd(uint64_t id);
GPEMU_SHIM_EXPORT void nvtxDomainMarkEx(const void* domain, const NvtxAttributes* attributes);
GPEMU_SHIM_EXPORT int nvtxDomainRangePushEx(const void* domain, const NvtxAttributes* attributes);
GPEMU_SHIM_EXPORT int nvtxDomainRangePop(const void* domain);
GPEMU_SHIM_EXPORT uint64_t nvtxDomainRangeStartEx(const void* domain,
                                                  const NvtxAttributes* attributes);
GPEMU_SHIM_EXPORT void nvtxDomainRangeEnd(const void* domain, uint64_t id);
GPEMU_SHIM_EXPORT const void* nvtxDomainCreateA(const char* name);
GPEMU_SHIM_EXPORT const void* nvtxDomainCreateW(const wchar_t* name);
GPEMU_SHIM_EXPORT void nvtxDomainDestroy(const void* domain);
GPEMU_SHIM_EXPORT const void* nvtxDomainRegisterStringA(const void* domain, const char* text);
GPEMU_SHIM_EXPORT const void* nvtxDomainRegisterStringW(const void* domain, const wchar_t* text);
