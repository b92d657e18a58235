// SPDX-License-Identifier: Apache-2.0
#include "device_attribute.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <climits>

#include "cuda_abi.hpp"

namespace {

struct Constant {
  DeviceAttribute attribute;
  int value;
};

// Attributes that all devices from compute capability 6.0 on share, and those of features that are
// not emulated (graphics, NUMA, remote writes), which are 0. Sources: CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability"; tests/shims/recorded/h200.csv, the attributes
// of an H200, which says of each that differs why it does.
constexpr Constant kConstants[] = {
    {kDeviceWarpSize, 32},
    {kDeviceMaxPitch, INT_MAX},
    {kDeviceTextureAlignment, kTextureAlignment},
    {kDeviceGpuOverlap, 1},
    {kDeviceKernelExecTimeout, 0},
    {kDeviceIntegrated, 0},
    {kDeviceMaximumTexture1dWidth, 131072},
    {kDeviceMaximumTexture2dWidth, 131072},
    {kDeviceMaximumTexture2dHeight, 65536},
    {kDeviceMaximumTexture3dWidth, 16384},
    {kDeviceMaximumTexture3dHeight, 16384},
    {kDeviceMaximumTexture3dDepth, 16384},
    {kDeviceMaximumTexture2dLayeredWidth, 32768},
    {kDeviceMaximumTexture2dLayeredHeight, 32768},
    {kDeviceMaximumTexture2dLayeredLayers, 2048},
    {kDeviceSurfaceAlignment, 512},
    {kDeviceEccEnabled, 1},
    {kDeviceTccDriver, 0},  // of Windows
    {kDeviceUnifiedAddressing, 1},
    {kDeviceMaximumTexture1dLayeredWidth, 32768},
    {kDeviceMaximumTexture1dLayeredLayers, 2048},
    {kDeviceCanTex2dGather, 1},  // deprecated
    {kDeviceMaximumTexture2dGatherWidth, 32768},
    {kDeviceMaximumTexture2dGatherHeight, 32768},
    {kDeviceMaximumTexture3dWidthAlternate, 8192},
    {kDeviceMaximumTexture3dHeightAlternate, 8192},
    {kDeviceMaximumTexture3dDepthAlternate, 32768},
    {kDeviceTexturePitchAlignment, 32},
    {kDeviceMaximumTextureCubemapWidth, 32768},
    {kDeviceMaximumTextureCubemapLayeredWidth, 32768},
    {kDeviceMaximumTextureCubemapLayeredLayers, 2046},
    {kDeviceMaximumSurface1dWidth, 32768},
    {kDeviceMaximumSurface2dWidth, 131072},
    {kDeviceMaximumSurface2dHeight, 65536},
    {kDeviceMaximumSurface3dWidth, 16384},
    {kDeviceMaximumSurface3dHeight, 16384},
    {kDeviceMaximumSurface3dDepth, 16384},
    {kDeviceMaximumSurface1dLayeredWidth, 32768},
    {kDeviceMaximumSurface1dLayeredLayers, 2048},
    {kDeviceMaximumSurface2dLayeredWidth, 32768},
    {kDeviceMaximumSurface2dLayeredHeight, 32768},
    {kDeviceMaximumSurface2dLayeredLayers, 2048},
    {kDeviceMaximumSurfaceCubemapWidth, 32768},
    {kDeviceMaximumSurfaceCubemapLayeredWidth, 32768},
    {kDeviceMaximumSurfaceCubemapLayeredLayers, 2046},
    {kDeviceMaximumTexture1dLinearWidth, 268435456},
    {kDeviceMaximumTexture2dLinearWidth, 131072},
    {kDeviceMaximumTexture2dLinearHeight, 65000},
    {kDeviceMaximumTexture2dLinearPitch, 2097120},
    {kDeviceMaximumTexture2dMipmappedWidth, 32768},
    {kDeviceMaximumTexture2dMipmappedHeight, 32768},
    {kDeviceMaximumTexture1dMipmappedWidth, 32768},
    {kDeviceStreamPrioritiesSupported, 1},
    {kDeviceGlobalL1CacheSupported, 1},
    {kDeviceLocalL1CacheSupported, 1},
    {kDeviceMultiGpuBoard, 0},
    {kDeviceHostNativeAtomicSupported, 0},
    {kDevicePageableMemoryAccess, 0},
    {kDeviceComputePreemptionSupported, 1},
    {kDeviceCanUseHostPointerForRegisteredMem, 1},
    {kDeviceCanUseStreamMemOpsV1, 0},
    {kDeviceCanUse64BitStreamMemOpsV1, 0},
    {kDeviceCanUseStreamWaitValueNorV1, 0},
    {kDeviceCooperativeMultiDeviceLaunch, 0},
    {kDeviceCanFlushRemoteWrites, 0},
    {kDeviceHostRegisterSupported, 1},
    {kDevicePageableMemoryAccessUsesHostPageTables, 0},
    {kDeviceDirectManagedMemAccessFromHost, 0},
    {kDeviceVirtualMemoryManagementSupported, 1},
    {kDeviceHandleTypePosixFileDescriptorSupported, 1},
    {kDeviceHandleTypeWin32HandleSupported, 0},
    {kDeviceHandleTypeWin32KmtHandleSupported, 0},
    {kDeviceGenericCompressionSupported, 0},
    {kDeviceMaxPersistingL2CacheSize, 0},
    {kDeviceMaxAccessPolicyWindowSize, 0},
    {kDeviceGpuDirectRdmaWithCudaVmmSupported, 0},
    {kDeviceSparseCudaArraySupported, 0},
    {kDeviceReadOnlyHostRegisterSupported, 1},
    {kDeviceTimelineSemaphoreInteropSupported, 0},
    {kDeviceGpuDirectRdmaSupported, 0},
    {kDeviceGpuDirectRdmaFlushWritesOptions, 0},
    {kDeviceGpuDirectRdmaWritesOrdering, 0},
    {kDeviceMempoolSupportedHandleTypes, 0},
    {kDeviceDeferredMappingCudaArraySupported, 0},
    {kDeviceCanUse64BitStreamMemOps, 0},
    {kDeviceCanUseStreamWaitValueNor, 0},
    {kDeviceDmaBufSupported, 0},
    {kDeviceIpcEventSupported, 1},
    {kDeviceHandleTypeFabricSupported, 0},
    {kDeviceUnifiedFunctionPointers, 1},
    {kDeviceNumaConfig, 0},
    {kDeviceNumaId, -1},
    {kDeviceMulticastSupported, 0},
    {kDeviceMpsEnabled, 0},
    {kDeviceHostNumaId, -1},  // unknown
    {kDeviceD3d12CigSupported, 0},
    {kDeviceMemDecompressAlgorithmMask, 0},
    {kDeviceMemDecompressMaximumLength, 0},
    {kDeviceVulkanCigSupported, 0},
    {kDeviceGpuPciDeviceId, 0},
    {kDeviceGpuPciSubsystemId, 0},
    {kDeviceHostNumaVirtualMemoryManagementSupported, 0},
    {kDeviceHostNumaMemoryPoolsSupported, 0},
    {kDeviceHostNumaMultinodeIpcSupported, 0},
    {kDeviceHostMemoryPoolsSupported, 0},
    {kDeviceHostVirtualMemoryManagementSupported, 0},
    {kDeviceHostAllocDmaBufSupported, 0},
    {kDeviceOnlyPartialHostNativeAtomicSupported, 0},
};

using Device = gpemu_cuda_device;

struct Fact {
  DeviceAttribute attribute;
  int (*value)(const Device&);
};

int clamped(uint64_t value) {
  return static_cast<int>(std::min<uint64_t>(value, INT_MAX));
}

int fp32_to_fp64(const Device& device) {
  return device.fp64_to_fp32 > 0 ? static_cast<int>(std::lround(1 / device.fp64_to_fp32)) : 0;
}

// clang-format off
constexpr Fact kFacts[] = {
    {kDeviceMaxThreadsPerBlock, [](const Device& d) { return d.max_threads_per_block; }},
    {kDeviceMaxBlockDimX, [](const Device& d) { return d.max_block[0]; }},
    {kDeviceMaxBlockDimY, [](const Device& d) { return d.max_block[1]; }},
    {kDeviceMaxBlockDimZ, [](const Device& d) { return d.max_block[2]; }},
    {kDeviceMaxGridDimX, [](const Device& d) { return d.max_grid[0]; }},
    {kDeviceMaxGridDimY, [](const Device& d) { return d.max_grid[1]; }},
    {kDeviceMaxGridDimZ, [](const Device& d) { return d.max_grid[2]; }},
    {kDeviceMaxSharedMemoryPerBlock,
     [](const Device& d) { return clamped(d.shared_memory_per_block); }},
    {kDeviceTotalConstantMemory, [](const Device& d) { return clamped(d.constant_memory); }},
    {kDeviceMaxRegistersPerBlock, [](const Device& d) { return d.registers_per_block; }},
    {kDeviceClockRate, [](const Device& d) { return d.clock_khz; }},
    {kDeviceMultiprocessorCount, [](const Device& d) { return d.multiprocessors; }},
    {kDeviceCanMapHostMemory, [](const Device& d) { return d.can_map_host_memory; }},
    {kDeviceConcurrentKernels, [](const Device& d) { return d.concurrent_kernels; }},
    {kDevicePciBusId, [](const Device& d) { return d.pci_bus; }},
    {kDevicePciDeviceId, [](const Device& d) { return d.pci_device; }},
    {kDeviceMemoryClockRate, [](const Device& d) { return d.memory_clock_khz; }},
    {kDeviceGlobalMemoryBusWidth, [](const Device& d) { return d.memory_bus_bits; }},
    {kDeviceL2CacheSize, [](const Device& d) { return clamped(d.l2_cache_bytes); }},
    {kDeviceMaxThreadsPerMultiprocessor,
     [](const Device& d) { return d.max_threads_per_multiprocessor; }},
    {kDeviceAsyncEngineCount, [](const Device& d) { return d.copy_engines; }},
    {kDevicePciDomainId, [](const Device& d) { return d.pci_domain; }},
    {kDeviceComputeCapabilityMajor, [](const Device& d) { return d.major; }},
    {kDeviceComputeCapabilityMinor, [](const Device& d) { return d.minor; }},
    {kDeviceMaxSharedMemoryPerMultiprocessor,
     [](const Device& d) { return clamped(d.shared_memory_per_multiprocessor); }},
    {kDeviceMaxRegistersPerMultiprocessor,
     [](const Device& d) { return d.registers_per_multiprocessor; }},
    {kDeviceManagedMemory, [](const Device& d) { return d.managed_memory; }},
    {kDeviceConcurrentManagedAccess, [](const Device& d) { return d.concurrent_managed_access; }},
    {kDeviceSingleToDoublePrecisionPerfRatio, [](const Device& d) { return fp32_to_fp64(d); }},
    {kDeviceCooperativeLaunch, [](const Device& d) { return d.cooperative_launch; }},
    {kDeviceMaxSharedMemoryPerBlockOptin,
     [](const Device& d) { return clamped(d.shared_memory_per_block_optin); }},
    {kDeviceMaxBlocksPerMultiprocessor,
     [](const Device& d) { return d.max_blocks_per_multiprocessor; }},
    {kDeviceReservedSharedMemoryPerBlock,
     [](const Device& d) { return clamped(d.reserved_shared_memory_per_block); }},
    {kDeviceMemoryPoolsSupported, [](const Device& d) { return d.memory_pools; }},
    {kDeviceClusterLaunch, [](const Device& d) { return d.cluster_launch; }},
    // Tensor maps came with clusters, and so did several domains of memory synchronisation.
    {kDeviceMemSyncDomainCount, [](const Device& d) { return d.cluster_launch != 0 ? 4 : 1; }},
    {kDeviceTensorMapAccessSupported, [](const Device& d) { return d.cluster_launch; }},
};
// clang-format on

}  // namespace

int get_device_attribute(int* value, int attribute, int device) {
  if (value == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const Device* info = nullptr;
  if (const int status = gpemu_cuda_get_device(device, &info); status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  if (attribute == kDeviceMultiGpuBoardGroupId) {  // the device itself
    *value = device;
    return GPEMU_CUDA_SUCCESS;
  }
  if (attribute == kDeviceComputeMode) return gpemu_cuda_get_compute_mode(device, value);
  for (const Fact& fact : kFacts) {
    if (fact.attribute == attribute) {
      *value = fact.value(*info);
      return GPEMU_CUDA_SUCCESS;
    }
  }
  for (const Constant& constant : kConstants) {
    if (constant.attribute == attribute) {
      *value = constant.value;
      return GPEMU_CUDA_SUCCESS;
    }
  }
  return GPEMU_CUDA_ERROR_INVALID_VALUE;
}

int get_pci_bus_id(char* text, int capacity, int device) {
  if (text == nullptr || capacity < 1) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  const Device* info = nullptr;
  if (const int status = gpemu_cuda_get_device(device, &info); status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  const size_t length = strnlen(info->pci_bus_id, sizeof(info->pci_bus_id));
  const size_t copied = std::min(length, static_cast<size_t>(capacity) - 1);
  std::memcpy(text, info->pci_bus_id, copied);
  text[copied] = '\0';
  return GPEMU_CUDA_SUCCESS;
}

int find_device_by_pci_bus_id(int* device, const char* text) {
  if (device == nullptr || text == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  // NOLINTBEGIN(cert-err34-c): numbers out of range match no device
  if (std::sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) {
    domain = 0;
    if (std::sscanf(text, "%x:%x", &bus, &slot) != 2) {
      return GPEMU_CUDA_ERROR_INVALID_VALUE;
    }
  }
  // NOLINTEND(cert-err34-c)
  int count = 0;
  if (const int status = gpemu_cuda_device_count(&count); status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  for (int index = 0; index < count; ++index) {
    const Device* info = nullptr;
    if (gpemu_cuda_get_device(index, &info) == GPEMU_CUDA_SUCCESS &&
        info->pci_domain == static_cast<int>(domain) && info->pci_bus == static_cast<int>(bus) &&
        info->pci_device == static_cast<int>(slot)) {
      *device = index;
      return GPEMU_CUDA_SUCCESS;
    }
  }
  return GPEMU_CUDA_ERROR_INVALID_DEVICE;
}

int get_peer_attribute(int* value, int attribute, int device, int peer) {
  if (value == nullptr) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (device == peer) {
    return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  }
  if (attribute < kPerformanceRank || attribute > kPeerArrayAccess) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  int32_t can = 0;
  if (const int status = gpemu_cuda_can_access_peer(device, peer, &can);
      status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  // All links rank the same; atomics over links and arrays are not emulated.
  *value = attribute == kPeerAccess ? can : 0;
  return GPEMU_CUDA_SUCCESS;
}
