// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim.hpp"

// Handles, numbers and structures with the same binary layout in the driver and the runtime.
// Source: cuda.h and driver_types.h of CUDA 12.8 and 13.2.

using Stream = gpemu_cuda_stream_handle;
using Event = gpemu_cuda_event_handle;
using Kernel = gpemu_cuda_kernel_handle;
using Pool = gpemu_cuda_pool_handle;
using Graph = gpemu_cuda_graph_handle;
using Node = gpemu_cuda_node_handle;
using Exec = gpemu_cuda_exec_handle;
using UserObject = gpemu_cuda_user_object_handle;
using StreamCallback = void (*)(Stream stream, int status, void* data);

/// CU_STREAM_PER_THREAD and cudaStreamPerThread.
constexpr uintptr_t kPerThreadStream = 2;

constexpr int kSuccess = GPEMU_CUDA_SUCCESS;
constexpr int kInvalidValue = GPEMU_CUDA_ERROR_INVALID_VALUE;

/// CUDA_ERROR_UNSUPPORTED_LIMIT and cudaErrorUnsupportedLimit.
constexpr int kUnsupportedLimit = 215;
constexpr int kPrimaryContextActive = 708;

/// CU_DEVICE_INVALID and cudaInvalidDeviceId.
constexpr int kNoDevice = -2;

/// CUdevice_attribute and cudaDeviceAttr, by their names in cuda.h: those that have values here.
enum DeviceAttribute {
  kDeviceMaxThreadsPerBlock = 1,
  kDeviceMaxBlockDimX = 2,
  kDeviceMaxBlockDimY = 3,
  kDeviceMaxBlockDimZ = 4,
  kDeviceMaxGridDimX = 5,
  kDeviceMaxGridDimY = 6,
  kDeviceMaxGridDimZ = 7,
  kDeviceMaxSharedMemoryPerBlock = 8,
  kDeviceTotalConstantMemory = 9,
  kDeviceWarpSize = 10,
  kDeviceMaxPitch = 11,
  kDeviceMaxRegistersPerBlock = 12,
  kDeviceClockRate = 13,
  kDeviceTextureAlignment = 14,
  kDeviceGpuOverlap = 15,
  kDeviceMultiprocessorCount = 16,
  kDeviceKernelExecTimeout = 17,
  kDeviceIntegrated = 18,
  kDeviceCanMapHostMemory = 19,
  kDeviceComputeMode = 20,
  kDeviceMaximumTexture1dWidth = 21,
  kDeviceMaximumTexture2dWidth = 22,
  kDeviceMaximumTexture2dHeight = 23,
  kDeviceMaximumTexture3dWidth = 24,
  kDeviceMaximumTexture3dHeight = 25,
  kDeviceMaximumTexture3dDepth = 26,
  kDeviceMaximumTexture2dLayeredWidth = 27,
  kDeviceMaximumTexture2dLayeredHeight = 28,
  kDeviceMaximumTexture2dLayeredLayers = 29,
  kDeviceSurfaceAlignment = 30,
  kDeviceConcurrentKernels = 31,
  kDeviceEccEnabled = 32,
  kDevicePciBusId = 33,
  kDevicePciDeviceId = 34,
  kDeviceTccDriver = 35,
  kDeviceMemoryClockRate = 36,
  kDeviceGlobalMemoryBusWidth = 37,
  kDeviceL2CacheSize = 38,
  kDeviceMaxThreadsPerMultiprocessor = 39,
  kDeviceAsyncEngineCount = 40,
  kDeviceUnifiedAddressing = 41,
  kDeviceMaximumTexture1dLayeredWidth = 42,
  kDeviceMaximumTexture1dLayeredLayers = 43,
  kDeviceCanTex2dGather = 44,
  kDeviceMaximumTexture2dGatherWidth = 45,
  kDeviceMaximumTexture2dGatherHeight = 46,
  kDeviceMaximumTexture3dWidthAlternate = 47,
  kDeviceMaximumTexture3dHeightAlternate = 48,
  kDeviceMaximumTexture3dDepthAlternate = 49,
  kDevicePciDomainId = 50,
  kDeviceTexturePitchAlignment = 51,
  kDeviceMaximumTextureCubemapWidth = 52,
  kDeviceMaximumTextureCubemapLayeredWidth = 53,
  kDeviceMaximumTextureCubemapLayeredLayers = 54,
  kDeviceMaximumSurface1dWidth = 55,
  kDeviceMaximumSurface2dWidth = 56,
  kDeviceMaximumSurface2dHeight = 57,
  kDeviceMaximumSurface3dWidth = 58,
  kDeviceMaximumSurface3dHeight = 59,
  kDeviceMaximumSurface3dDepth = 60,
  kDeviceMaximumSurface1dLayeredWidth = 61,
  kDeviceMaximumSurface1dLayeredLayers = 62,
  kDeviceMaximumSurface2dLayeredWidth = 63,
  kDeviceMaximumSurface2dLayeredHeight = 64,
  kDeviceMaximumSurface2dLayeredLayers = 65,
  kDeviceMaximumSurfaceCubemapWidth = 66,
  kDeviceMaximumSurfaceCubemapLayeredWidth = 67,
  kDeviceMaximumSurfaceCubemapLayeredLayers = 68,
  kDeviceMaximumTexture1dLinearWidth = 69,
  kDeviceMaximumTexture2dLinearWidth = 70,
  kDeviceMaximumTexture2dLinearHeight = 71,
  kDeviceMaximumTexture2dLinearPitch = 72,
  kDeviceMaximumTexture2dMipmappedWidth = 73,
  kDeviceMaximumTexture2dMipmappedHeight = 74,
  kDeviceComputeCapabilityMajor = 75,
  kDeviceComputeCapabilityMinor = 76,
  kDeviceMaximumTexture1dMipmappedWidth = 77,
  kDeviceStreamPrioritiesSupported = 78,
  kDeviceGlobalL1CacheSupported = 79,
  kDeviceLocalL1CacheSupported = 80,
  kDeviceMaxSharedMemoryPerMultiprocessor = 81,
  kDeviceMaxRegistersPerMultiprocessor = 82,
  kDeviceManagedMemory = 83,
  kDeviceMultiGpuBoard = 84,
  kDeviceMultiGpuBoardGroupId = 85,
  kDeviceHostNativeAtomicSupported = 86,
  kDeviceSingleToDoublePrecisionPerfRatio = 87,
  kDevicePageableMemoryAccess = 88,
  kDeviceConcurrentManagedAccess = 89,
  kDeviceComputePreemptionSupported = 90,
  kDeviceCanUseHostPointerForRegisteredMem = 91,
  kDeviceCanUseStreamMemOpsV1 = 92,
  kDeviceCanUse64BitStreamMemOpsV1 = 93,
  kDeviceCanUseStreamWaitValueNorV1 = 94,
  kDeviceCooperativeLaunch = 95,
  kDeviceCooperativeMultiDeviceLaunch = 96,
  kDeviceMaxSharedMemoryPerBlockOptin = 97,
  kDeviceCanFlushRemoteWrites = 98,
  kDeviceHostRegisterSupported = 99,
  kDevicePageableMemoryAccessUsesHostPageTables = 100,
  kDeviceDirectManagedMemAccessFromHost = 101,
  kDeviceVirtualMemoryManagementSupported = 102,
  kDeviceHandleTypePosixFileDescriptorSupported = 103,
  kDeviceHandleTypeWin32HandleSupported = 104,
  kDeviceHandleTypeWin32KmtHandleSupported = 105,
  kDeviceMaxBlocksPerMultiprocessor = 106,
  kDeviceGenericCompressionSupported = 107,
  kDeviceMaxPersistingL2CacheSize = 108,
  kDeviceMaxAccessPolicyWindowSize = 109,
  kDeviceGpuDirectRdmaWithCudaVmmSupported = 110,
  kDeviceReservedSharedMemoryPerBlock = 111,
  kDeviceSparseCudaArraySupported = 112,
  kDeviceReadOnlyHostRegisterSupported = 113,
  kDeviceTimelineSemaphoreInteropSupported = 114,
  kDeviceMemoryPoolsSupported = 115,
  kDeviceGpuDirectRdmaSupported = 116,
  kDeviceGpuDirectRdmaFlushWritesOptions = 117,
  kDeviceGpuDirectRdmaWritesOrdering = 118,
  kDeviceMempoolSupportedHandleTypes = 119,
  kDeviceClusterLaunch = 120,
  kDeviceDeferredMappingCudaArraySupported = 121,
  kDeviceCanUse64BitStreamMemOps = 122,
  kDeviceCanUseStreamWaitValueNor = 123,
  kDeviceDmaBufSupported = 124,
  kDeviceIpcEventSupported = 125,
  kDeviceMemSyncDomainCount = 126,
  kDeviceTensorMapAccessSupported = 127,
  kDeviceHandleTypeFabricSupported = 128,
  kDeviceUnifiedFunctionPointers = 129,
  kDeviceNumaConfig = 130,
  kDeviceNumaId = 131,
  kDeviceMulticastSupported = 132,
  kDeviceMpsEnabled = 133,
  kDeviceHostNumaId = 134,
  kDeviceD3d12CigSupported = 135,
  kDeviceMemDecompressAlgorithmMask = 136,
  kDeviceMemDecompressMaximumLength = 137,
  kDeviceVulkanCigSupported = 138,
  kDeviceGpuPciDeviceId = 139,
  kDeviceGpuPciSubsystemId = 140,
  kDeviceHostNumaVirtualMemoryManagementSupported = 141,
  kDeviceHostNumaMemoryPoolsSupported = 142,
  kDeviceHostNumaMultinodeIpcSupported = 143,
  kDeviceHostMemoryPoolsSupported = 144,
  kDeviceHostVirtualMemoryManagementSupported = 145,
  kDeviceHostAllocDmaBufSupported = 146,
  kDeviceOnlyPartialHostNativeAtomicSupported = 147,
};

/// CUfunction_attribute, of which cudaFuncAttribute is a part.
enum KernelAttribute {
  kKernelMaxThreads = 0,
  kKernelStaticShared = 1,
  kKernelConstant = 2,
  kKernelLocal = 3,
  kKernelRegisters = 4,
  kKernelPtxVersion = 5,
  kKernelBinaryVersion = 6,
  kKernelCacheMode = 7,
  kKernelMaxDynamicShared = 8,
  kKernelCarveout = 9,
  kKernelFirstOfClusters = 10,
  kKernelNonPortableClusters = 14,
  kKernelLastOfClusters = 15
};

/// CU_LAUNCH_PARAM_END, CU_LAUNCH_PARAM_BUFFER_POINTER and CU_LAUNCH_PARAM_BUFFER_SIZE.
constexpr uintptr_t kPackedEnd = 0, kPackedPointer = 1, kPackedSize = 2;

/// CUlaunchAttributeID and cudaLaunchAttributeID, for launches and for streams.
enum LaunchAttributeId { kLaunchCooperative = 2, kLaunchClusters = 4, kLaunchPriority = 8 };

/// One attribute of a launch: CUlaunchAttribute and cudaLaunchAttribute.
struct LaunchAttribute {
  int id;
  char padding[4];
  union {
    int flag;
    struct {
      uint32_t x, y, z;
    } cluster;
    char bytes[64];
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM and cudaEnablePerThreadDefaultStream: the last of
/// the flags.
constexpr uint64_t kPerThread = 2;

/// CUfunc_cache and cudaFuncCache: the default, and the last.
constexpr int kDefaultCache = 0, kLastCache = 3;

/// CUsharedconfig and cudaSharedMemConfig: banks of four bytes, and the last.
constexpr int kFourByteBanks = 1, kLastBanks = 2;

/// CUshared_carveout and cudaSharedCarveout, in percent: the default, and the largest.
constexpr int kDefaultCarveout = -1, kMaxCarveout = 100;

/// CUoccupancy_flags and cudaOccupancyDisableCachingOverride.
constexpr unsigned kAllOccupancyFlags = 1;

/// CU_CTX_FLAGS_MASK and cudaDeviceMask.
constexpr unsigned kAllContextFlags = 0xff;

/// The flags of cuMemHostAlloc (portable, mapped, write-combined) and of cuMemHostRegister
/// (portable, mapped, I/O memory, read-only), which are those of the runtime.
constexpr unsigned kAllHostFlags = 1 | 2 | 4;
constexpr unsigned kAllRegisterFlags = 1 | 2 | 4 | 8;
/// Memory of a device that is not a GPU, which the host does not have.
constexpr unsigned kIoMemory = 4;

/// Returns the flags that the driver shows of host memory: it maps all, and does not show that it
/// is only read. Source: an H200, driver 580.159.
constexpr unsigned shown_host_flags(unsigned flags) {
  constexpr unsigned kMapped = 2;
  return (flags & kAllHostFlags) | kMapped;
}

/// CUevent_flags: blocking, without timing, between processes.
constexpr unsigned kAllEventFlags = 1 | 2 | 4;

/// CU_STREAM_NON_BLOCKING and cudaStreamNonBlocking.
constexpr unsigned kAllStreamFlags = 1;

/// CU_EVENT_RECORD_EXTERNAL and CU_EVENT_WAIT_EXTERNAL, and the runtime's.
constexpr unsigned kAllRecordFlags = 1, kAllWaitFlags = 1;

/// How the device waits for a function of the host, the last argument of cuLaunchHostFunc_v2:
/// blocked or, the last, spinning.
constexpr unsigned kLastHostWait = 1;

/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS and cudaIpcMemLazyEnablePeerAccess.
constexpr unsigned kAllIpcFlags = 1;

/// CUmemAttach_flags, cudaMemAttachGlobal and the following.
enum AttachFlags : unsigned { kAttachGlobal = 1, kAttachHost = 2, kAttachSingle = 4 };

/// CUmem_range_attribute and cudaMemRangeAttribute.
enum RangeAttribute : int {
  kRangeReadMostly = 1,
  kRangePreferred = 2,
  kRangeAccessedBy = 3,
  kRangePrefetched = 4,
  kRangePreferredType = 5,
  kRangePreferredId = 6,
  kRangePrefetchedType = 7,
  kRangePrefetchedId = 8,
};

/// CU_DEVICE_CPU and CU_DEVICE_INVALID, and the runtime's.
constexpr int kHostPlace = -1, kNoPlace = -2;

/// CUdevice_P2PAttribute and cudaDeviceP2PAttr: the first, access, and the last.
enum PeerAttribute : int { kPerformanceRank = 1, kPeerAccess = 2, kPeerArrayAccess = 4 };

/// CUstreamCaptureMode and cudaStreamCaptureMode: the last, "relaxed".
constexpr int kLastCaptureMode = 2;

/// CUstreamCaptureStatus and cudaStreamCaptureStatus.
enum CaptureStatus : int { kNotCapturing = 0, kCapturing = 1 };

/// CUstreamUpdateCaptureDependencies_flags and cudaStreamUpdateCaptureDependenciesFlags.
enum DependencyFlags : unsigned { kAddDependencies = 0, kSetDependencies = 1 };

/// CU_USER_OBJECT_NO_DESTRUCTOR_SYNC and CU_GRAPH_USER_OBJECT_MOVE, and the runtime's.
constexpr unsigned kNoDestructorSync = 1, kMoveReferences = 1;

/// CUgraphMem_attribute and cudaGraphMemAttributeType.
enum GraphMemory : int { kUsedNow = 0, kUsedPeak = 1, kReservedNow = 2, kReservedPeak = 3 };

/// CUgraphInstantiateResult and CUgraphExecUpdateResult, and the runtime's.
constexpr int kInstantiateError = 1, kUpdateError = 1;

/// CUgraphInstantiate_flags: free on launch, upload, launch from the device, priorities of nodes.
constexpr uint64_t kInstantiateForDevice = 4;
constexpr uint64_t kAllInstantiateFlags = 1 | 2 | kInstantiateForDevice | 8;

/// CUmemAccess_flags and cudaMemAccessFlags, and CU_POINTER_ATTRIBUTE_ACCESS_FLAGS alike.
constexpr unsigned kReadWrite = 3;

/// CUmemLocation and cudaMemLocation.
struct Location {
  int type;
  int id;
};
constexpr int kNoLocation = 0, kDeviceLocation = 1, kHostLocation = 2;

/// CU_MEM_ALLOCATION_TYPE_PINNED and CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR.
constexpr int kPinnedAllocation = 1;
constexpr int kFileDescriptorHandle = 1;
constexpr int kFabricHandle = 8;

/// CUmemAccessDesc and cudaMemAccessDesc.
struct Access {
  Location location;
  unsigned flags;
};
static_assert(sizeof(Access) == 12);

/// CUmemPoolProps and cudaMemPoolProps.
struct PoolProperties {
  int allocation_type;
  int handle_types;
  Location location;
  void* security;
  size_t max_size;
  unsigned short usage;
  unsigned char reserved[54];
};
static_assert(sizeof(PoolProperties) == 88);

/// CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams, and cudaMemsetParamsV2 as far as they agree.
struct SetParameters {
  uint64_t destination;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
static_assert(sizeof(SetParameters) == 40);

/// CUDA_HOST_NODE_PARAMS and cudaHostNodeParams.
struct HostParameters {
  void (*function)(void*);
  void* data;
};
static_assert(sizeof(HostParameters) == 16);

/// CUgraphEdgeData and cudaGraphEdgeData, three bytes and five reserved ones: all zero is a full
/// dependency, the only kind here.
struct EdgeData {
  unsigned char bytes[8];
};
static_assert(sizeof(EdgeData) == 8);

/// CUipcMemHandle, CUipcEventHandle and the runtime's: CU_IPC_HANDLE_SIZE bytes.
static_assert(sizeof(gpemu_cuda_ipc) == 64);

/// CUDA_GRAPH_INSTANTIATE_PARAMS and cudaGraphInstantiateParams.
struct InstantiateParameters {
  uint64_t flags;
  Stream upload_stream;
  Node error_node;
  int result;
};
static_assert(sizeof(InstantiateParameters) == 32);

/// CUgraphExecUpdateResultInfo and cudaGraphExecUpdateResultInfo.
struct UpdateResult {
  int result;
  Node error_node, error_from_node;
};
static_assert(sizeof(UpdateResult) == 24);
