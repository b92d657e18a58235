// SPDX-License-Identifier: Apache-2.0
#include "device_attribute.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include <climits>

namespace {

struct Constant {
  int attribute;
  int value;
};

// Attributes that all devices from compute capability 6.0 on share, and those of features that are
// not emulated (graphics, NUMA, remote writes), which are 0. Source: CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability".
constexpr Constant kConstants[] = {
    {10, 32},         // warp size
    {11, INT_MAX},    // largest pitch
    {14, 512},        // texture alignment
    {15, 1},          // copies overlap with kernels
    {17, 0},          // kernel time limit
    {18, 0},          // integrated
    {20, 0},          // compute mode: default
    {21, 131072},     // 1D texture
    {22, 131072},     // 2D texture
    {23, 65536},      //
    {24, 16384},      // 3D texture
    {25, 16384},      //
    {26, 16384},      //
    {27, 32768},      // 2D layered texture
    {28, 32768},      //
    {29, 2048},       //
    {30, 512},        // surface alignment
    {32, 1},          // error correction
    {35, 1},          // no display driver
    {41, 1},          // unified addressing
    {42, 32768},      // 1D layered texture
    {43, 2048},       //
    {44, 0},          // deprecated: textures that can be gathered from
    {45, 32768},      // 2D texture gather
    {46, 32768},      //
    {47, 8192},       // 3D texture, the alternate limits
    {48, 8192},       //
    {49, 32768},      //
    {51, 32},         // texture pitch alignment
    {52, 32768},      // cubemap texture
    {53, 32768},      // layered cubemap texture
    {54, 2046},       //
    {55, 32768},      // 1D surface
    {56, 131072},     // 2D surface
    {57, 65536},      //
    {58, 16384},      // 3D surface
    {59, 16384},      //
    {60, 16384},      //
    {61, 32768},      // 1D layered surface
    {62, 2048},       //
    {63, 32768},      // 2D layered surface
    {64, 32768},      //
    {65, 2048},       //
    {66, 32768},      // cubemap surface
    {67, 32768},      // layered cubemap surface
    {68, 2046},       //
    {69, 268435456},  // 1D texture over linear memory
    {70, 131072},     // 2D texture over linear memory
    {71, 65000},      //
    {72, 2097120},    //
    {73, 32768},      // 2D mipmapped texture
    {74, 32768},      //
    {77, 32768},      // 1D mipmapped texture
    {78, 1},          // stream priorities
    {79, 1},          // caching of globals in L1
    {80, 1},          // caching of locals in L1
    {84, 0},          // board of several devices
    {86, 0},          // native atomics to the host
    {88, 0},          // pageable memory read by the device
    {89, 0},          // managed memory used by host and device at once
    {90, 1},          // preemption
    {91, 0},          // device uses host pointers of registered memory
    {92, 0},          // memory operations on streams
    {93, 0},          //
    {94, 0},          //
    {96, 0},          // cooperative launches over several devices
    {98, 0},          // flush of remote writes
    {99, 1},          // registration of host memory
    {100, 0},         // page tables of the host
    {101, 0},         // managed memory read by the host without migration
    {102, 1},         // virtual memory management
    {103, 1},         // its handles as file descriptors
    {104, 0},         // as Windows handles
    {105, 0},         //
    {107, 0},         // compression
    {108, 0},         // persisting lines of the L2
    {109, 0},         // access policy windows
    {110, 0},         // RDMA with virtual memory management
    {112, 0},         // sparse arrays
    {113, 0},         // registration of read-only memory
    {114, 0},         // timeline semaphores
    {116, 0},         // GPUDirect RDMA
    {117, 0},         //
    {118, 0},         //
    {119, 0},         // handle types of memory pools
    {121, 0},         // deferred mapping of arrays
    {122, 0},         // memory operations on streams, second version
    {123, 0},         //
    {124, 0},         // DMA-BUF
    {125, 1},         // events between processes
    {126, 1},         // memory synchronisation domains
    {128, 0},         // fabric handles
    {129, 1},         // unified function pointers
    {130, 0},         // NUMA
    {131, -1},        //
    {132, 0},         // multicast
    {133, 0},         // MPS
    {134, -1},        // NUMA node of the host: unknown
    {135, 0},         // graphics interoperation
    {136, 0},         //
    {137, 0},         //
    {138, 0},         //
    {139, 0},         // PCI device and subsystem: not emulated
    {140, 0},         //
    {141, 0},         // pools of host memory
    {142, 0},         //
    {143, 0},         //
    {144, 0},         //
    {145, 0},         //
    {147, 0},         //
};

using Device = gpemu_cuda_device;

struct Fact {
  int attribute;
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
    {1, [](const Device& d) { return d.max_threads_per_block; }},
    {2, [](const Device& d) { return d.max_block[0]; }},
    {3, [](const Device& d) { return d.max_block[1]; }},
    {4, [](const Device& d) { return d.max_block[2]; }},
    {5, [](const Device& d) { return d.max_grid[0]; }},
    {6, [](const Device& d) { return d.max_grid[1]; }},
    {7, [](const Device& d) { return d.max_grid[2]; }},
    {8, [](const Device& d) { return clamped(d.shared_memory_per_block); }},
    {9, [](const Device& d) { return clamped(d.constant_memory); }},
    {12, [](const Device& d) { return d.registers_per_block; }},
    {13, [](const Device& d) { return d.clock_khz; }},
    {16, [](const Device& d) { return d.multiprocessors; }},
    {19, [](const Device& d) { return d.can_map_host_memory; }},
    {31, [](const Device& d) { return d.concurrent_kernels; }},
    {33, [](const Device& d) { return d.pci_bus; }},
    {34, [](const Device& d) { return d.pci_device; }},
    {36, [](const Device& d) { return d.memory_clock_khz; }},
    {37, [](const Device& d) { return d.memory_bus_bits; }},
    {38, [](const Device& d) { return clamped(d.l2_cache_bytes); }},
    {39, [](const Device& d) { return d.max_threads_per_multiprocessor; }},
    {40, [](const Device& d) { return d.copy_engines; }},
    {50, [](const Device& d) { return d.pci_domain; }},
    {75, [](const Device& d) { return d.major; }},
    {76, [](const Device& d) { return d.minor; }},
    {81, [](const Device& d) { return clamped(d.shared_memory_per_multiprocessor); }},
    {82, [](const Device& d) { return d.registers_per_multiprocessor; }},
    {83, [](const Device& d) { return d.managed_memory; }},
    {87, [](const Device& d) { return fp32_to_fp64(d); }},
    {95, [](const Device& d) { return d.cooperative_launch; }},
    {97, [](const Device& d) { return clamped(d.shared_memory_per_block_optin); }},
    {106, [](const Device& d) { return d.max_blocks_per_multiprocessor; }},
    {111, [](const Device& d) { return clamped(d.reserved_shared_memory_per_block); }},
    {115, [](const Device& d) { return d.memory_pools; }},
    {120, [](const Device& d) { return d.cluster_launch; }},
    {127, [](const Device& d) { return d.cluster_launch; }},  // tensor maps came with clusters
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
  if (attribute == 85) {  // the group of a board: the device itself
    *value = device;
    return GPEMU_CUDA_SUCCESS;
  }
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
  constexpr int kPerformanceRank = 1;
  constexpr int kAccess = 2;
  constexpr int kArrayAccess = 4;
  if (value == nullptr || attribute < kPerformanceRank || attribute > kArrayAccess) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (device == peer) {
    return GPEMU_CUDA_ERROR_INVALID_DEVICE;
  }
  int32_t can = 0;
  if (const int status = gpemu_cuda_can_access_peer(device, peer, &can);
      status != GPEMU_CUDA_SUCCESS) {
    return status;
  }
  // All links rank the same; atomics over links and arrays are not emulated.
  *value = attribute == kAccess ? can : 0;
  return GPEMU_CUDA_SUCCESS;
}
