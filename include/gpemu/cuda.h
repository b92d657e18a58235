/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA's semantics on emulated devices: the interface of libgpemu.so for the shims of NVIDIA's
 * libraries. All shims in a process share the one state behind it.
 *
 * Conventions
 *  1. A function returns a status numbered as CUresult and cudaError_t, which agree (CUDA 12 and
 *     13); GPEMU_CUDA_SUCCESS is 0. On failure, no output is changed. Unless stated otherwise, an
 *     output pointer that is NULL yields GPEMU_CUDA_ERROR_INVALID_VALUE.
 *  2. The process attaches on first use: to the node that GPEMU_NODE names, or to its own node with
 *     the GPU that GPEMU_GPU names, with GPEMU_MEMORY_MIB of memory if that is set.
 *     CUDA_VISIBLE_DEVICES selects and orders devices. After fork in a process that had attached,
 *     every call in the child yields GPEMU_CUDA_ERROR_NOT_INITIALIZED.
 *  3. Handles are pointers. A handle that is not alive yields GPEMU_CUDA_ERROR_INVALID_HANDLE or,
 *     of a graph, its nodes and executable graphs, GPEMU_CUDA_ERROR_INVALID_VALUE, as from the real
 *     driver, whatever its value; no handle is ever dereferenced unchecked.
 *  4. Stream arguments accept CUDA's special values: NULL (the legacy default stream of the current
 *     device), 1 (legacy) and 2 (per-thread default stream).
 *  5. Device addresses are in ranges that this process has reserved, so no host pointer equals a
 *     device address. The host must not dereference them, except in managed memory.
 *  6. All functions may be called from any thread.
 *  7. If the host is out of memory, any function yields GPEMU_CUDA_ERROR_OUT_OF_MEMORY. Other
 *     exceptions, including those of callbacks that a function calls before it returns, yield
 *     GPEMU_CUDA_ERROR_UNKNOWN. Both are logged. Callbacks on a gpemu thread, such as host
 *     functions, let none out: as with CUDA, there is no caller, and the process ends.
 */
#ifndef GPEMU_CUDA_H_
#define GPEMU_CUDA_H_

#include <stddef.h>
#include <stdint.h>

#include "gpemu/gpemu.h"
#include "gpemu/operation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ---- */

typedef int32_t gpemu_cuda_status;

enum {
  GPEMU_CUDA_SUCCESS = 0,
  GPEMU_CUDA_ERROR_INVALID_VALUE = 1,
  GPEMU_CUDA_ERROR_OUT_OF_MEMORY = 2,
  GPEMU_CUDA_ERROR_NOT_INITIALIZED = 3,
  GPEMU_CUDA_ERROR_DEINITIALIZED = 4,
  GPEMU_CUDA_ERROR_INVALID_CONFIGURATION = 9,     /* runtime only; the driver: INVALID_VALUE */
  GPEMU_CUDA_ERROR_INVALID_SYMBOL = 13,           /* runtime only */
  GPEMU_CUDA_ERROR_INVALID_MEMCPY_DIRECTION = 21, /* runtime only */
  GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE = 46,       /* the compute mode refuses the process */
  GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION = 98,  /* runtime only */
  GPEMU_CUDA_ERROR_NO_DEVICE = 100,
  GPEMU_CUDA_ERROR_INVALID_DEVICE = 101,
  GPEMU_CUDA_ERROR_INVALID_IMAGE = 200,
  GPEMU_CUDA_ERROR_INVALID_CONTEXT = 201,
  GPEMU_CUDA_ERROR_NOT_MAPPED = 211,
  GPEMU_CUDA_ERROR_UNSUPPORTED_LIMIT = 215,
  GPEMU_CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
  GPEMU_CUDA_ERROR_NVLINK_UNCORRECTABLE = 220,
  GPEMU_CUDA_ERROR_FILE_NOT_FOUND = 301,
  GPEMU_CUDA_ERROR_OPERATING_SYSTEM = 304,
  GPEMU_CUDA_ERROR_INVALID_HANDLE = 400,
  GPEMU_CUDA_ERROR_ILLEGAL_STATE = 401,
  GPEMU_CUDA_ERROR_NOT_FOUND = 500,
  GPEMU_CUDA_ERROR_NOT_READY = 600,
  GPEMU_CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  GPEMU_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  GPEMU_CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
  GPEMU_CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705,
  GPEMU_CUDA_ERROR_ASSERT = 710,
  GPEMU_CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
  GPEMU_CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
  GPEMU_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720,
  GPEMU_CUDA_ERROR_NOT_SUPPORTED = 801,
  GPEMU_CUDA_ERROR_MPS_CONNECTION_FAILED = 805,
  GPEMU_CUDA_ERROR_MPS_RPC_FAILURE = 806,
  GPEMU_CUDA_ERROR_MPS_SERVER_NOT_READY = 807,
  GPEMU_CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808,
  GPEMU_CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809,
  GPEMU_CUDA_ERROR_MPS_CLIENT_TERMINATED = 810,
  GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  GPEMU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  GPEMU_CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  GPEMU_CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  GPEMU_CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  GPEMU_CUDA_ERROR_CAPTURED_EVENT = 907,
  GPEMU_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
  GPEMU_CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910,
  GPEMU_CUDA_ERROR_UNKNOWN = 999
};

/* Counts a call that is not supported, and logs it once per function. Under `gpemu run --strict`,
 * prints the function's name and ends the process. */
GPEMU_API void gpemu_cuda_not_supported(const char* library, const char* function);

/* Returns how many bytes this process has read that a kernel or a library wrote without computing
 * them. */
GPEMU_API uint64_t gpemu_cuda_not_computed_bytes(void);

/* Registers a function that receives the log lines, too, like cuLogsRegisterCallback. The function
 * may be called on any thread. `level` is 0 for errors, 1 for warnings. */
typedef struct gpemu_cuda_log* gpemu_cuda_log_handle;
typedef void (*gpemu_cuda_log_callback)(void* data, int32_t level, char* message, size_t length);
GPEMU_API gpemu_cuda_status gpemu_cuda_log_register(gpemu_cuda_log_callback callback, void* data,
                                                    gpemu_cuda_log_handle* log);
/* Errors: INVALID_VALUE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_log_unregister(gpemu_cuda_log_handle log);

/* Return and set the calling thread's last error, for cudaGetLastError and cudaPeekAtLastError. If
 * `clear` is not 0, the last error is then GPEMU_CUDA_SUCCESS. Only the runtime shim uses these. */
GPEMU_API gpemu_cuda_status gpemu_cuda_last_error(int32_t clear);
GPEMU_API void gpemu_cuda_set_last_error(gpemu_cuda_status status);

/* CUstream and CUevent, cudaStream_t and cudaEvent_t are pointers to these. */
typedef struct gpemu_cuda_stream* gpemu_cuda_stream_handle;
typedef struct gpemu_cuda_event* gpemu_cuda_event_handle;
typedef struct gpemu_cuda_pool* gpemu_cuda_pool_handle;

/* ---- Devices and contexts ---- */

/* Attaches if necessary. Errors: NO_DEVICE (CUDA_VISIBLE_DEVICES hides all devices, or there is no
 * node), NOT_INITIALIZED after fork. */
GPEMU_API gpemu_cuda_status gpemu_cuda_init(void);
GPEMU_API gpemu_cuda_status gpemu_cuda_device_count(int32_t* count);

/* The properties that CUDA reports of a device. Sizes are in bytes and clocks in kHz, as in CUDA.
 * Facts that the datasheet lacks are those of the GPU's generation (docs/reference/gpu-file.md). */
typedef struct gpemu_cuda_device {
  char name[256];
  uint8_t uuid[16];
  char pci_bus_id[16]; /* "0000:01:00.0" */
  int32_t pci_domain, pci_bus, pci_device;
  uint64_t total_memory;
  int32_t major, minor;
  int32_t multiprocessors;
  int32_t clock_khz, memory_clock_khz, memory_bus_bits;
  uint64_t l2_cache_bytes;
  uint64_t shared_memory_per_block, shared_memory_per_block_optin, shared_memory_per_multiprocessor;
  uint64_t reserved_shared_memory_per_block;
  int32_t registers_per_block, registers_per_multiprocessor;
  int32_t max_threads_per_block, max_threads_per_multiprocessor, max_blocks_per_multiprocessor;
  int32_t max_block[3], max_grid[3];
  uint64_t constant_memory;
  int32_t copy_engines;
  int32_t cooperative_launch, memory_pools, managed_memory, can_map_host_memory, concurrent_kernels;
  int32_t concurrent_managed_access; /* the host and the device share managed memory */
  int32_t cluster_launch;
  double fp64_to_fp32;                          /* ratio of rates, e.g. 0.5 */
  int32_t fp16_tensor_cores, tf32_tensor_cores; /* 1: it has tensor cores for these numbers */
} gpemu_cuda_device;

/* Yields a description that stays valid. Errors: INVALID_DEVICE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_get_device(int32_t device, const gpemu_cuda_device** info);

/* Yields the compute mode that a device has now, cudaComputeMode. Errors: INVALID_DEVICE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_get_compute_mode(int32_t device, int32_t* mode);

/* The limits of the current device's context, by their numbers in CUlimit. They have no effect,
 * because no kernel is executed; the context's end resets them. Errors: INVALID_VALUE for a number
 * or value out of range, UNSUPPORTED_LIMIT if the device does not have it or it is only read. */
GPEMU_API gpemu_cuda_status gpemu_cuda_get_limit(int32_t limit, uint64_t* value);
GPEMU_API gpemu_cuda_status gpemu_cuda_set_limit(int32_t limit, uint64_t value);

/* The calling thread's context stack, as in the driver. A device's ordinal identifies its context,
 * because each process has one context per device, the primary one; -1 means no context. Setting
 * the current context replaces the top of the stack; setting it to -1 removes the top. The pointer
 * passed to gpemu_cuda_context_pop may be NULL. Errors: INVALID_CONTEXT. */
GPEMU_API gpemu_cuda_status gpemu_cuda_context_current(int32_t* device);
GPEMU_API gpemu_cuda_status gpemu_cuda_context_set_current(int32_t device);
GPEMU_API gpemu_cuda_status gpemu_cuda_context_push(int32_t device);
GPEMU_API gpemu_cuda_status gpemu_cuda_context_pop(int32_t* device);
/* Count users of the primary context. The first user creates it, which takes device memory. When
 * the last one releases it, it is reset, unless the runtime's functions below use it, too. Errors:
 * OUT_OF_MEMORY. */
GPEMU_API gpemu_cuda_status gpemu_cuda_context_retain(int32_t device);
GPEMU_API gpemu_cuda_status gpemu_cuda_context_release(int32_t device);
GPEMU_API gpemu_cuda_status gpemu_cuda_context_active(int32_t device, int32_t* active);
/* Frees everything that the process holds on the device. */
GPEMU_API gpemu_cuda_status gpemu_cuda_context_reset(int32_t device);

/* The runtime's view: yield or set the calling thread's device, initially 0. Setting it creates the
 * primary context (CUDA 12: "cudaSetDevice will now explicitly initialize the runtime"). */
GPEMU_API gpemu_cuda_status gpemu_cuda_current_device(int32_t* device);
GPEMU_API gpemu_cuda_status gpemu_cuda_set_current_device(int32_t device);
/* Makes the current device's primary context current if the thread has no context. Every runtime
 * call that needs a context does this. */
GPEMU_API gpemu_cuda_status gpemu_cuda_ensure_context(void);

/* Blocks until all work of this process on the current device has ended. */
GPEMU_API gpemu_cuda_status gpemu_cuda_device_synchronize(void);

/* Whether a device can use the memory of a peer: over NVLink, or over PCIe unless the GPUs are
 * GeForce products or, in a node with a topology, below different Intel processors; both must be
 * GPUs of one kind. Copies need no access. Errors: INVALID_DEVICE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_can_access_peer(int32_t device, int32_t peer, int32_t* can);
/* Allow the current device's context to use a peer's memory, or end that. Errors: INVALID_DEVICE;
 * of the first function, PEER_ACCESS_UNSUPPORTED and PEER_ACCESS_ALREADY_ENABLED; of the second,
 * PEER_ACCESS_NOT_ENABLED. */
GPEMU_API gpemu_cuda_status gpemu_cuda_enable_peer_access(int32_t peer);
GPEMU_API gpemu_cuda_status gpemu_cuda_disable_peer_access(int32_t peer);

/* ---- Memory ---- */

GPEMU_API gpemu_cuda_status gpemu_cuda_mem_info(uint64_t* free_bytes, uint64_t* total_bytes);

/* Memory of the current device. For zero bytes, *address is 0 and the call succeeds, as in
 * cudaMalloc; the driver shim refuses zero itself. Errors: OUT_OF_MEMORY. */
GPEMU_API gpemu_cuda_status gpemu_cuda_malloc(uint64_t bytes, uint64_t* address);
GPEMU_API gpemu_cuda_status gpemu_cuda_malloc_managed(uint64_t bytes, uint32_t flags,
                                                      uint64_t* address);
/* Of managed memory on devices that share it with the host. A place is a device's ordinal, or -1
 * for the host; `advice` is a CUmem_advise. Errors: INVALID_VALUE for other memory, INVALID_DEVICE
 * for a device that does not exist or does not share managed memory. */
GPEMU_API gpemu_cuda_status gpemu_cuda_advise(uint64_t address, uint64_t bytes, int32_t advice,
                                              int32_t place);
GPEMU_API gpemu_cuda_status gpemu_cuda_prefetch(uint64_t address, uint64_t bytes, int32_t place,
                                                gpemu_cuda_stream_handle stream);
typedef struct gpemu_cuda_managed_range {
  int32_t read_mostly;           /* whether all of it is */
  int32_t preferred, prefetched; /* places; -2 unless it is the same for all of it */
  uint32_t accessed_by_count;    /* places that have it for all of it; no more than fit */
  int32_t accessed_by[64];
} gpemu_cuda_managed_range;
GPEMU_API gpemu_cuda_status gpemu_cuda_managed_info(uint64_t address, uint64_t bytes,
                                                    gpemu_cuda_managed_range* range);
/* Waits for the device, as cudaFree does. Frees memory from malloc, malloc_managed and
 * malloc_async; does nothing for 0. Errors: INVALID_VALUE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_free(uint64_t address);

/* Page-locked host memory. It is really locked, as far as the user's limit on locked memory allows;
 * if the limit is too low, one log line says so. Errors: OUT_OF_MEMORY. */
GPEMU_API gpemu_cuda_status gpemu_cuda_host_alloc(uint64_t bytes, uint32_t flags, void** memory);
GPEMU_API gpemu_cuda_status gpemu_cuda_host_free(void* memory);
GPEMU_API gpemu_cuda_status gpemu_cuda_host_register(void* memory, uint64_t bytes, uint32_t flags);
GPEMU_API gpemu_cuda_status gpemu_cuda_host_unregister(void* memory);

typedef enum gpemu_cuda_memory_kind GPEMU_INT {
  GPEMU_CUDA_MEMORY_UNREGISTERED = 0, /* numbered as cudaMemoryType */
  GPEMU_CUDA_MEMORY_HOST = 1,
  GPEMU_CUDA_MEMORY_DEVICE = 2,
  GPEMU_CUDA_MEMORY_MANAGED = 3
} gpemu_cuda_memory_kind;

typedef struct gpemu_cuda_pointer {
  gpemu_cuda_memory_kind kind;
  int32_t device; /* -1 when unregistered */
  uint64_t base;  /* of the allocation or registration */
  uint64_t bytes;
  uint32_t flags;     /* of host_alloc or host_register */
  uint64_t buffer_id; /* unique in the process; never used again */
  /* What can be mapped around the address: the reservation of virtual memory, otherwise the
   * allocation; known of reserved addresses without memory, too. */
  uint64_t range_start, range_bytes;
  int32_t legacy_ipc;          /* whether gpemu_cuda_ipc_export_memory takes it */
  int32_t exportable;          /* whether gpemu_cuda_vmm_export takes it */
  uint32_t access;             /* of the current device: 0 none, 1 read, 3 read and write */
  gpemu_cuda_pool_handle pool; /* that it is from, or NULL */
} gpemu_cuda_pointer;

/* Describes an address. An address that gpemu did not give out is UNREGISTERED, not an error. */
GPEMU_API gpemu_cuda_status gpemu_cuda_pointer_info(uint64_t address, gpemu_cuda_pointer* info);

typedef enum gpemu_cuda_copy_kind GPEMU_INT {
  GPEMU_CUDA_COPY_HOST_TO_HOST = 0, /* numbered as cudaMemcpyKind */
  GPEMU_CUDA_COPY_HOST_TO_DEVICE = 1,
  GPEMU_CUDA_COPY_DEVICE_TO_HOST = 2,
  GPEMU_CUDA_COPY_DEVICE_TO_DEVICE = 3,
  GPEMU_CUDA_COPY_DEFAULT = 4 /* decided by the addresses */
} gpemu_cuda_copy_kind;

/* A copy of rows in planes; a plain copy has height = depth = 1. Pitches in bytes. */
typedef struct gpemu_cuda_copy {
  uint64_t destination, source;
  uint64_t width_bytes, height, depth;
  uint64_t destination_pitch, source_pitch;             /* from row to row */
  uint64_t destination_plane_pitch, source_plane_pitch; /* from plane to plane */
  gpemu_cuda_copy_kind kind;
} gpemu_cuda_copy;

/* Queues a copy. With `blocking` 0, returns at once; with 1, returns when the copy has ended, like
 * cudaMemcpy. Exceptions:
 *  - Copies between device addresses always return at once.
 *  - Copies within host memory always wait for the earlier work of the stream.
 *  - With `blocking` 1, copies of up to 64 KiB from pageable memory to a device wait only for that
 *    work.
 *  - All other copies from or to pageable memory always block until they have ended.
 * Errors: INVALID_VALUE (not this process's device memory, or beyond its end),
 * INVALID_MEMCPY_DIRECTION, INVALID_HANDLE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_copy_memory(const gpemu_cuda_copy* copy,
                                                   gpemu_cuda_stream_handle stream,
                                                   int32_t blocking);
/* The plain case of the above. */
GPEMU_API gpemu_cuda_status gpemu_cuda_memcpy(uint64_t destination, uint64_t source, uint64_t bytes,
                                              gpemu_cuda_copy_kind kind,
                                              gpemu_cuda_stream_handle stream, int32_t blocking);
/* Queues work that sets `count` elements of 1, 2 or 4 bytes in each of `height` rows. */
GPEMU_API gpemu_cuda_status gpemu_cuda_set_memory(uint64_t address, uint64_t pitch, uint32_t value,
                                                  uint32_t element_bytes, uint64_t count,
                                                  uint64_t height, gpemu_cuda_stream_handle stream);

/* For shims whose functions leave results that the host will read: write and read device memory at
 * once, without emulated time. Errors: INVALID_VALUE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_poke(uint64_t address, const void* data, uint64_t bytes);
GPEMU_API gpemu_cuda_status gpemu_cuda_peek(uint64_t address, void* data, uint64_t bytes);

/* Stream-ordered memory. A NULL pool handle means the current device's default pool or, for an
 * allocation, the current pool of the stream's device. */
typedef enum gpemu_cuda_pool_attribute GPEMU_INT {
  GPEMU_CUDA_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1, /* numbered as cudaMemPoolAttr */
  GPEMU_CUDA_POOL_REUSE_ALLOW_OPPORTUNISTIC = 2,
  GPEMU_CUDA_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,
  GPEMU_CUDA_POOL_RELEASE_THRESHOLD = 4,
  GPEMU_CUDA_POOL_RESERVED_CURRENT = 5,
  GPEMU_CUDA_POOL_RESERVED_HIGH = 6,
  GPEMU_CUDA_POOL_USED_CURRENT = 7,
  GPEMU_CUDA_POOL_USED_HIGH = 8
} gpemu_cuda_pool_attribute;
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_create(int32_t device, uint64_t max_bytes,
                                                   gpemu_cuda_pool_handle* pool);
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_destroy(gpemu_cuda_pool_handle pool);
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_default(int32_t device, gpemu_cuda_pool_handle* pool);
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_current(int32_t device, gpemu_cuda_pool_handle* pool);
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_set_current(int32_t device,
                                                        gpemu_cuda_pool_handle pool);
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_get(gpemu_cuda_pool_handle pool,
                                                gpemu_cuda_pool_attribute attribute,
                                                uint64_t* value);
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_set(gpemu_cuda_pool_handle pool,
                                                gpemu_cuda_pool_attribute attribute,
                                                uint64_t value);
/* Whether a device may use a pool's memory; the pool's own device always may. Errors:
 * INVALID_DEVICE, also for a device that cannot use the pool's memory. */
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_set_access(gpemu_cuda_pool_handle pool, int32_t device,
                                                       int32_t read_write);
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_get_access(gpemu_cuda_pool_handle pool, int32_t device,
                                                       int32_t* read_write);
GPEMU_API gpemu_cuda_status gpemu_cuda_pool_trim(gpemu_cuda_pool_handle pool, uint64_t keep_bytes);
GPEMU_API gpemu_cuda_status gpemu_cuda_malloc_async(uint64_t bytes, gpemu_cuda_pool_handle pool,
                                                    gpemu_cuda_stream_handle stream,
                                                    uint64_t* address);
GPEMU_API gpemu_cuda_status gpemu_cuda_free_async(uint64_t address,
                                                  gpemu_cuda_stream_handle stream);

/* Virtual memory management. A handle names physical memory, like that of cuMemCreate. */
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_granularity(int32_t device, uint64_t* bytes);
/* Only memory that is created as exportable can be exported. */
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_create(int32_t device, uint64_t bytes,
                                                  int32_t exportable, uint64_t* handle);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_release(uint64_t handle);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_retain(uint64_t address, uint64_t* handle);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_properties(uint64_t handle, int32_t* device,
                                                      int32_t* exportable);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_reserve(uint64_t bytes, uint64_t alignment,
                                                   uint64_t wanted, uint64_t* address);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_unreserve(uint64_t address, uint64_t bytes);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_map(uint64_t address, uint64_t bytes, uint64_t offset,
                                               uint64_t handle);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_unmap(uint64_t address, uint64_t bytes);
/* `access`: 0 none, 1 read, 3 read and write, as CUmemAccess_flags. Errors: INVALID_DEVICE, also
 * for a device that cannot use the memory. */
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_set_access(uint64_t address, uint64_t bytes,
                                                      int32_t device, uint32_t access);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_get_access(uint64_t address, int32_t device,
                                                      uint32_t* access);
/* Shares physical memory as a file descriptor that another process of the node can import. */
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_export(uint64_t handle, int32_t* file_descriptor);
GPEMU_API gpemu_cuda_status gpemu_cuda_vmm_import(int32_t file_descriptor, uint64_t* handle);

/* Sharing between processes of one node. The memory stays the exporter's and counts only once. */
typedef struct gpemu_cuda_ipc {
  uint8_t bytes[64];
} gpemu_cuda_ipc;
/* Takes memory of gpemu_cuda_malloc only: not of pools, variables or another process, not managed
 * or virtual memory. */
GPEMU_API gpemu_cuda_status gpemu_cuda_ipc_export_memory(uint64_t address, gpemu_cuda_ipc* ipc);
GPEMU_API gpemu_cuda_status gpemu_cuda_ipc_open_memory(const gpemu_cuda_ipc* ipc,
                                                       uint64_t* address);
GPEMU_API gpemu_cuda_status gpemu_cuda_ipc_close_memory(uint64_t address);
GPEMU_API gpemu_cuda_status gpemu_cuda_ipc_export_event(gpemu_cuda_event_handle event,
                                                        gpemu_cuda_ipc* ipc);
GPEMU_API gpemu_cuda_status gpemu_cuda_ipc_open_event(const gpemu_cuda_ipc* ipc,
                                                      gpemu_cuda_event_handle* event);

/* ---- Streams ---- */

/* `flags`: 0, or 1 for non-blocking; a lower `priority` comes first. */
GPEMU_API gpemu_cuda_status gpemu_cuda_stream_create(uint32_t flags, int32_t priority,
                                                     gpemu_cuda_stream_handle* stream);
GPEMU_API gpemu_cuda_status gpemu_cuda_stream_destroy(gpemu_cuda_stream_handle stream);
typedef struct gpemu_cuda_stream_info {
  int32_t device;
  uint32_t flags;
  int32_t priority;
  uint64_t id; /* unique in the process */
} gpemu_cuda_stream_info;
GPEMU_API gpemu_cuda_status gpemu_cuda_stream_get_info(gpemu_cuda_stream_handle stream,
                                                       gpemu_cuda_stream_info* info);
GPEMU_API gpemu_cuda_status gpemu_cuda_stream_synchronize(gpemu_cuda_stream_handle stream);
/* Errors: NOT_READY. */
GPEMU_API gpemu_cuda_status gpemu_cuda_stream_query(gpemu_cuda_stream_handle stream);
/* `flags`: 1 makes the wait a separate node in a capture, as cudaEventWaitExternal does. */
GPEMU_API gpemu_cuda_status gpemu_cuda_stream_wait_event(gpemu_cuda_stream_handle stream,
                                                         gpemu_cuda_event_handle event,
                                                         uint32_t flags);
/* Calls `function` at its emulated time on a gpemu thread, one function after the other. The
 * stream, and events and streams that depend on it from then on, are not ready before the function
 * returns. Work that is queued on the device after it does not wait for its return. */
GPEMU_API gpemu_cuda_status gpemu_cuda_launch_host_function(gpemu_cuda_stream_handle stream,
                                                            void (*function)(void*), void* data);
/* Either pointer may be NULL. */
GPEMU_API gpemu_cuda_status gpemu_cuda_stream_priority_range(int32_t* least, int32_t* greatest);

/* ---- Events ---- */

/* `flags`: 1 blocking sync, 2 no timing, 4 interprocess, as in CUDA. The event belongs to the
 * current device: recording it in a stream of another device, or timing it against an event of
 * another device, yields INVALID_HANDLE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_event_create(uint32_t flags, gpemu_cuda_event_handle* event);
GPEMU_API gpemu_cuda_status gpemu_cuda_event_destroy(gpemu_cuda_event_handle event);
/* `flags`: 1 makes a separate node in a capture, as cudaEventRecordExternal does. */
GPEMU_API gpemu_cuda_status gpemu_cuda_event_record(gpemu_cuda_event_handle event,
                                                    gpemu_cuda_stream_handle stream,
                                                    uint32_t flags);
GPEMU_API gpemu_cuda_status gpemu_cuda_event_query(gpemu_cuda_event_handle event);
GPEMU_API gpemu_cuda_status gpemu_cuda_event_synchronize(gpemu_cuda_event_handle event);
/* In nanoseconds. Errors: INVALID_HANDLE if an event was never recorded or has no timing,
 * NOT_READY. */
GPEMU_API gpemu_cuda_status gpemu_cuda_event_elapsed(gpemu_cuda_event_handle start,
                                                     gpemu_cuda_event_handle end,
                                                     int64_t* elapsed_ns);

/* ---- Kernels and operations ---- */

typedef struct gpemu_cuda_module* gpemu_cuda_module_handle;
typedef struct gpemu_cuda_kernel* gpemu_cuda_kernel_handle;

/* Loads a module image: an ELF cubin, a fat binary, or PTX text. Its kernels are found by name.
 * Errors: INVALID_IMAGE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_module_load(const void* image,
                                                   gpemu_cuda_module_handle* module);
GPEMU_API gpemu_cuda_status gpemu_cuda_module_load_file(const char* path,
                                                        gpemu_cuda_module_handle* module);
GPEMU_API gpemu_cuda_status gpemu_cuda_module_unload(gpemu_cuda_module_handle module);
GPEMU_API gpemu_cuda_status gpemu_cuda_module_kernel(gpemu_cuda_module_handle module,
                                                     const char* name,
                                                     gpemu_cuda_kernel_handle* kernel);
GPEMU_API gpemu_cuda_status gpemu_cuda_module_kernel_count(gpemu_cuda_module_handle module,
                                                           uint32_t* count);
GPEMU_API gpemu_cuda_status gpemu_cuda_module_kernels(gpemu_cuda_module_handle module,
                                                      gpemu_cuda_kernel_handle* kernels,
                                                      uint32_t count);
/* A variable of a module: memory of the current device, with the initial value. Errors: NOT_FOUND.
 */
GPEMU_API gpemu_cuda_status gpemu_cuda_module_variable(gpemu_cuda_module_handle module,
                                                       const char* name, uint64_t* address,
                                                       uint64_t* bytes);

/* For the runtime's registration calls, which run at load time. They are cheap and do not touch a
 * device. Launches name a kernel by `host_function`. The strings must stay valid. */
GPEMU_API void gpemu_cuda_register_kernel(const void* host_function, const char* name,
                                          const void* fat_binary);
GPEMU_API void gpemu_cuda_register_variable(const void* host_variable, const char* name,
                                            uint64_t bytes, const void* fat_binary);
GPEMU_API void gpemu_cuda_unregister(const void* fat_binary);
/* Errors: INVALID_DEVICE_FUNCTION, INVALID_SYMBOL. */
GPEMU_API gpemu_cuda_status gpemu_cuda_registered_kernel(const void* host_function,
                                                         gpemu_cuda_kernel_handle* kernel);
GPEMU_API gpemu_cuda_status gpemu_cuda_registered_variable(const void* host_variable,
                                                           uint64_t* address, uint64_t* bytes);

typedef struct gpemu_cuda_kernel_info {
  const char* name;                /* mangled */
  gpemu_cuda_module_handle module; /* NULL for registered ones */
  int32_t registers, max_threads_per_block, binary_version, ptx_version;
  uint64_t static_shared_bytes, constant_bytes, local_bytes;
  uint64_t max_dynamic_shared_bytes; /* settable */
  int32_t shared_carveout;           /* settable; percent, -1 unset */
} gpemu_cuda_kernel_info;
GPEMU_API gpemu_cuda_status gpemu_cuda_kernel_get_info(gpemu_cuda_kernel_handle kernel,
                                                       gpemu_cuda_kernel_info* info);
/* Errors: INVALID_VALUE beyond the opt-in limit. */
GPEMU_API gpemu_cuda_status
gpemu_cuda_kernel_set_max_dynamic_shared(gpemu_cuda_kernel_handle kernel, uint64_t bytes);
GPEMU_API gpemu_cuda_status gpemu_cuda_kernel_set_carveout(gpemu_cuda_kernel_handle kernel,
                                                           int32_t percent);
/* Yields how many blocks of a kernel fit on one multiprocessor at once. */
GPEMU_API gpemu_cuda_status gpemu_cuda_occupancy(gpemu_cuda_kernel_handle kernel,
                                                 int32_t threads_per_block, uint64_t dynamic_shared,
                                                 int32_t* blocks);

typedef struct gpemu_cuda_launch {
  uint32_t grid[3], block[3];
  uint64_t dynamic_shared_bytes;
  int32_t cooperative;
  void* const* arguments; /* may be NULL */
  const void* packed;     /* if not NULL, replaces `arguments`: packed as the kernel expects */
  uint64_t packed_bytes;
} gpemu_cuda_launch;

/* Queues a kernel. Errors: INVALID_CONFIGURATION beyond the launch limits,
 * LAUNCH_OUT_OF_RESOURCES (registers, launch bounds), COOPERATIVE_LAUNCH_TOO_LARGE for more blocks
 * than the device holds at once, INVALID_HANDLE, INVALID_VALUE for fewer packed bytes than the
 * kernel has or too much shared memory, NOT_SUPPORTED for packed arguments of a kernel whose
 * machine code cannot be read. */
GPEMU_API gpemu_cuda_status gpemu_cuda_launch_kernel(gpemu_cuda_kernel_handle kernel,
                                                     const gpemu_cuda_launch* launch,
                                                     gpemu_cuda_stream_handle stream);

/* Queues an operation of a library on a stream of the current device, at the cost model's price.
 * The shims for cuBLAS, cuDNN and so on use this function. Obeys capture. */
GPEMU_API gpemu_cuda_status gpemu_cuda_submit(const gpemu_operation* operation,
                                              gpemu_cuda_stream_handle stream);

/* Declares that a library's function writes rows of memory whose values are not computed: they read
 * as zeros and count as not computed. If `updates` is not 0, the rows are changed in place and keep
 * their content. Obeys capture. */
typedef struct gpemu_cuda_result {
  uint64_t address;
  uint64_t bytes; /* of a row */
  uint64_t pitch; /* from a row to the next */
  uint64_t rows;  /* 0: places in a tensor whose end is not known, which keeps its content */
  int32_t updates;
  uint32_t matrices; /* not 0: `address` is that of an array on the device, which contains the
                        addresses of this many results */
} gpemu_cuda_result;
GPEMU_API gpemu_cuda_status gpemu_cuda_leave_uncomputed(const gpemu_cuda_result* result,
                                                        const char* function,
                                                        gpemu_cuda_stream_handle stream);

/* C = alpha * op(A) * op(B) + beta * C by columns, like cublasGemmStridedBatchedEx, on a stream. C
 * is computed only if the product is small and all its inputs are known. Takes no emulated time:
 * gpemu_cuda_submit does. Obeys capture. */
typedef struct gpemu_cuda_product {
  uint64_t a, b, c;
  int64_t m, n, k, batch;
  int64_t leading_a, leading_b, leading_c; /* elements from a column to the next */
  int64_t stride_a, stride_b, stride_c;    /* elements from a product to the next */
  int32_t transpose_a, transpose_b;        /* 0 or not */
  int32_t arrays; /* 1: a, b and c are addresses of arrays on the device, which contain the
                     addresses of each product's operands */
  gpemu_data_type type, type_c; /* of A and B, of C */
  int32_t known;                /* whether alpha and beta are known, and the values are wanted */
  double alpha, beta;
} gpemu_cuda_product;
GPEMU_API gpemu_cuda_status gpemu_cuda_multiply(const gpemu_cuda_product* product,
                                                const char* function,
                                                gpemu_cuda_stream_handle stream);

/* ---- Communicators ---- */

/* Collectives between devices of one node, each of which is a rank of a communicator. A rank is a
 * handle; several ranks may be of one process. */
typedef struct gpemu_cuda_comm* gpemu_cuda_comm_handle;

typedef struct gpemu_cuda_comm_id {
  uint8_t bytes[128];
} gpemu_cuda_comm_id;

/* Yields a new id, by which the ranks of one communicator find each other. The calling process
 * helps them to meet; it need not attach. If NCCL_COMM_ID names an address, the id is that of the
 * address in all processes, and rank 0 helps. Errors: OPERATING_SYSTEM; INVALID_VALUE for an
 * address that is none. */
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_unique_id(gpemu_cuda_comm_id* id);

/* A rank to be made: of a new communicator, or of a part of `parent`. */
typedef struct gpemu_cuda_comm_start {
  const gpemu_cuda_comm_id* id; /* NULL: of a part of `parent` */
  int32_t ranks, rank, device;  /* with an id */
  gpemu_cuda_comm_handle parent;
  int32_t color, key; /* as for MPI_Comm_split; a negative color: this rank takes no part */
  /* Unless there are none: instead of a division, all ranks of `parent` but these, which take no
   * part and may have ended. */
  const int32_t* excluded;
  uint64_t excluded_count;
  int32_t aborts_parent;    /* not 0: ends this rank's open collectives of `parent` first */
  const int32_t* cancelled; /* NULL, or not 0 as soon as the call shall give up */
} gpemu_cuda_comm_start;

/* Makes ranks. Blocks until all ranks of their communicators are being made. Yields NULL for a rank
 * that takes no part. Errors, which all ranks get: INVALID_VALUE (also for an id that is none, and
 * for a rank that comes twice), INVALID_DEVICE (of two ranks), NOT_SUPPORTED (ranks in several
 * nodes; a virtual clock), OUT_OF_MEMORY (the node has no seats left), NOT_FOUND (a rank has ended
 * or the process that made the id), OPERATING_SYSTEM; ILLEGAL_STATE for the caller if it was
 * cancelled. */
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_start_all(const gpemu_cuda_comm_start* starts,
                                                      size_t count, gpemu_cuda_comm_handle* comms);

/* What NCCL says of the thread's last gpemu_cuda_comm_start_all that failed with INVALID_DEVICE;
 * empty without one. Stays as long as the process. */
GPEMU_API const char* gpemu_cuda_comm_warning(void);

typedef enum gpemu_cuda_comm_type GPEMU_INT {
  GPEMU_CUDA_COMM_INT8 = 0,
  GPEMU_CUDA_COMM_UINT8 = 1,
  GPEMU_CUDA_COMM_INT32 = 2,
  GPEMU_CUDA_COMM_UINT32 = 3,
  GPEMU_CUDA_COMM_INT64 = 4,
  GPEMU_CUDA_COMM_UINT64 = 5,
  GPEMU_CUDA_COMM_FP16 = 6,
  GPEMU_CUDA_COMM_FP32 = 7,
  GPEMU_CUDA_COMM_FP64 = 8,
  GPEMU_CUDA_COMM_BF16 = 9,
  GPEMU_CUDA_COMM_FP8_E4M3 = 10,
  GPEMU_CUDA_COMM_FP8_E5M2 = 11
} gpemu_cuda_comm_type;

typedef enum gpemu_cuda_comm_reduction GPEMU_INT {
  GPEMU_CUDA_COMM_SUM = 0,
  GPEMU_CUDA_COMM_PROD = 1,
  GPEMU_CUDA_COMM_MAX = 2,
  GPEMU_CUDA_COMM_MIN = 3,
  GPEMU_CUDA_COMM_AVG = 4,
  GPEMU_CUDA_COMM_SCALED_SUM = 5 /* of each rank's source times its `scale` */
} gpemu_cuda_comm_reduction;

typedef enum gpemu_cuda_collective GPEMU_INT {
  GPEMU_CUDA_ALL_REDUCE = 0,
  GPEMU_CUDA_REDUCE = 1,
  GPEMU_CUDA_REDUCE_SCATTER = 2,
  GPEMU_CUDA_BROADCAST = 3,
  GPEMU_CUDA_ALL_GATHER = 4,
  GPEMU_CUDA_ALL_TO_ALL = 5,
  GPEMU_CUDA_GATHER = 6,
  GPEMU_CUDA_SCATTER = 7,
  GPEMU_CUDA_SEND = 8,
  GPEMU_CUDA_RECEIVE = 9
} gpemu_cuda_collective;

typedef struct gpemu_cuda_comm_call {
  gpemu_cuda_comm_handle comm;
  gpemu_cuda_collective collective;
  gpemu_cuda_comm_type type;
  gpemu_cuda_comm_reduction reduction;
  int32_t root;                 /* for sends and receives, the other rank */
  uint64_t source, destination; /* where the rank has none, any address */
  uint64_t count;               /* of elements, as NCCL counts them for each collective */
  uint8_t scale[8];             /* an element of the type */
  gpemu_cuda_stream_handle stream;
} gpemu_cuda_comm_call;

/* Queues collectives, sends and receives that run side by side, like the calls of a group of NCCL.
 * Each ends when all its ranks have reached it and the data has moved. The host call returns at
 * once, except for the first send or receive between two ranks, which blocks until the other rank
 * has queued the matching call. Content is reduced if it is known and small, and moved if it is
 * known; else destinations read as zeros and count as not computed. Ranks whose calls do not match
 * get such destinations and a line in the log. In a stream that captures, each launch of the graph
 * queues the calls; sends and receives of one call must then be in one stream.
 * Errors: INVALID_HANDLE; INVALID_VALUE (a range that is not in memory of this process, a rank that
 * the communicator does not have, this rank as the other one); STREAM_CAPTURE_UNSUPPORTED;
 * ILLEGAL_STATE after an abort; NOT_FOUND after a rank has ended. */
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_run(const gpemu_cuda_comm_call* calls, size_t count);

/* Yields how long NCCL's tuner expects one of some collectives to take that are called together,
 * the last one, in microseconds; this ranks NCCL's choices and is not the time that
 * gpemu_cuda_comm_run takes. A negative number if none of them is a collective of several ranks.
 * Queues nothing. Errors: INVALID_HANDLE, INVALID_VALUE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_expected_time(const gpemu_cuda_comm_call* calls,
                                                          size_t count, double* microseconds);

typedef struct gpemu_cuda_comm_info {
  int32_t ranks, rank, device;
} gpemu_cuda_comm_info;
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_get_info(gpemu_cuda_comm_handle comm,
                                                     gpemu_cuda_comm_info* info);
/* Yields SUCCESS in `error` until a call on the rank has failed, then that call's status. */
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_error(gpemu_cuda_comm_handle comm,
                                                  gpemu_cuda_status* error);
/* Blocks until the rank's collectives have ended, or a rank has. */
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_finalize(gpemu_cuda_comm_handle comm);
/* Does the same and ends the rank. */
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_destroy(gpemu_cuda_comm_handle comm);
/* Ends the rank and its open collectives at once; their destinations count as not computed. */
GPEMU_API gpemu_cuda_status gpemu_cuda_comm_abort(gpemu_cuda_comm_handle comm);

/* ---- Capture and graphs ---- */

typedef struct gpemu_cuda_graph* gpemu_cuda_graph_handle;
typedef struct gpemu_cuda_node* gpemu_cuda_node_handle;
typedef struct gpemu_cuda_exec* gpemu_cuda_exec_handle;

/* `mode`: 0 global, 1 thread-local, 2 relaxed. If `graph` is not NULL, captures into it. */
GPEMU_API gpemu_cuda_status gpemu_cuda_begin_capture(gpemu_cuda_stream_handle stream, int32_t mode,
                                                     gpemu_cuda_graph_handle graph);
GPEMU_API gpemu_cuda_status gpemu_cuda_end_capture(gpemu_cuda_stream_handle stream,
                                                   gpemu_cuda_graph_handle* graph);
typedef struct gpemu_cuda_capture_info {
  int32_t status; /* 0 none, 1 active, 2 invalidated */
  uint64_t id;
  gpemu_cuda_graph_handle graph;
  const gpemu_cuda_node_handle* dependencies; /* valid until the next call on the stream */
  size_t dependency_count;
} gpemu_cuda_capture_info;
GPEMU_API gpemu_cuda_status gpemu_cuda_capture_get_info(gpemu_cuda_stream_handle stream,
                                                        gpemu_cuda_capture_info* info);
GPEMU_API gpemu_cuda_status gpemu_cuda_capture_set_dependencies(
    gpemu_cuda_stream_handle stream, const gpemu_cuda_node_handle* dependencies, size_t count,
    int32_t add);
/* For work that no graph can hold, such as cudaStreamAddCallback. Errors:
 * STREAM_CAPTURE_UNSUPPORTED if the stream captures; the capture is then invalidated. */
GPEMU_API gpemu_cuda_status gpemu_cuda_refuse_capture(gpemu_cuda_stream_handle stream);
/* Sets the thread's capture mode and yields the previous one. */
GPEMU_API gpemu_cuda_status gpemu_cuda_exchange_capture_mode(int32_t* mode);

GPEMU_API gpemu_cuda_status gpemu_cuda_graph_create(gpemu_cuda_graph_handle* graph);
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_clone(gpemu_cuda_graph_handle graph,
                                                   gpemu_cuda_graph_handle* clone);
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_destroy(gpemu_cuda_graph_handle graph);

typedef enum gpemu_cuda_node_kind GPEMU_INT {
  GPEMU_CUDA_NODE_KERNEL = 0, /* numbered as cudaGraphNodeType */
  GPEMU_CUDA_NODE_COPY = 1,
  GPEMU_CUDA_NODE_SET = 2,
  GPEMU_CUDA_NODE_HOST = 3,
  GPEMU_CUDA_NODE_GRAPH = 4,
  GPEMU_CUDA_NODE_EMPTY = 5,
  GPEMU_CUDA_NODE_WAIT_EVENT = 6,
  GPEMU_CUDA_NODE_RECORD_EVENT = 7,
  GPEMU_CUDA_NODE_ALLOCATE = 10,
  GPEMU_CUDA_NODE_FREE = 11
} gpemu_cuda_node_kind;
typedef struct gpemu_cuda_node_parameters {
  gpemu_cuda_node_kind kind;
  gpemu_cuda_kernel_handle kernel; /* KERNEL */
  gpemu_cuda_launch launch;        /* KERNEL; the arguments are read during the call */
  gpemu_cuda_copy copy;            /* COPY */
  uint64_t set_address, set_pitch, set_count, set_height; /* SET */
  uint32_t set_value, set_element_bytes;
  void (*host_function)(void*); /* HOST */
  void* host_data;
  gpemu_cuda_graph_handle child; /* GRAPH */
  gpemu_cuda_event_handle event; /* WAIT_EVENT, RECORD_EVENT */
} gpemu_cuda_node_parameters;
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_add(gpemu_cuda_graph_handle graph,
                                                 const gpemu_cuda_node_handle* dependencies,
                                                 size_t count,
                                                 const gpemu_cuda_node_parameters* parameters,
                                                 gpemu_cuda_node_handle* node);
/* Makes from[i] a dependency of to[i], or removes that dependency. Errors: INVALID_VALUE, also if
 * an edge to add exists already, or one to remove does not exist. */
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_connect(gpemu_cuda_graph_handle graph,
                                                     const gpemu_cuda_node_handle* from,
                                                     const gpemu_cuda_node_handle* to, size_t count,
                                                     int32_t connect);
/* Yields up to *count nodes (or pairs of an edge's ends) and their number. If `nodes` is NULL,
 * yields the total number. */
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_nodes(gpemu_cuda_graph_handle graph,
                                                   gpemu_cuda_node_handle* nodes, size_t* count);
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_edges(gpemu_cuda_graph_handle graph,
                                                   gpemu_cuda_node_handle* from,
                                                   gpemu_cuda_node_handle* to, size_t* count);
GPEMU_API gpemu_cuda_status gpemu_cuda_node_dependencies(gpemu_cuda_node_handle node,
                                                         gpemu_cuda_node_handle* nodes,
                                                         size_t* count);
GPEMU_API gpemu_cuda_status gpemu_cuda_node_dependents(gpemu_cuda_node_handle node,
                                                       gpemu_cuda_node_handle* nodes,
                                                       size_t* count);
/* Yields a node's parameters. Those of a kernel lack its arguments, and those of a library's
 * operation have no kernel. */
GPEMU_API gpemu_cuda_status gpemu_cuda_node_get(gpemu_cuda_node_handle node,
                                                gpemu_cuda_node_parameters* parameters);
/* Errors: INVALID_VALUE if the node is of another kind or a child graph. */
GPEMU_API gpemu_cuda_status gpemu_cuda_node_set(gpemu_cuda_node_handle node,
                                                const gpemu_cuda_node_parameters* parameters);
GPEMU_API gpemu_cuda_status gpemu_cuda_node_destroy(gpemu_cuda_node_handle node);
/* Errors: INVALID_VALUE if the dependencies of nodes form a cycle. */
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_instantiate(gpemu_cuda_graph_handle graph,
                                                         gpemu_cuda_exec_handle* exec);
/* Errors: GRAPH_EXEC_UPDATE_FAILURE if the graphs differ in more than parameters. */
GPEMU_API gpemu_cuda_status gpemu_cuda_exec_update(gpemu_cuda_exec_handle exec,
                                                   gpemu_cuda_graph_handle graph);
/* Changes what a node does in later launches, or leaves it out. The node belongs to the graph from
 * which `exec` was made. Errors: INVALID_VALUE for parameters of another kind, a node of another
 * graph, or a node that cannot be left out. */
GPEMU_API gpemu_cuda_status gpemu_cuda_exec_set(gpemu_cuda_exec_handle exec,
                                                gpemu_cuda_node_handle node,
                                                const gpemu_cuda_node_parameters* parameters);
GPEMU_API gpemu_cuda_status gpemu_cuda_exec_set_enabled(gpemu_cuda_exec_handle exec,
                                                        gpemu_cuda_node_handle node,
                                                        int32_t enabled);
GPEMU_API gpemu_cuda_status gpemu_cuda_exec_destroy(gpemu_cuda_exec_handle exec);
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_launch(gpemu_cuda_exec_handle exec,
                                                    gpemu_cuda_stream_handle stream);
/* Prepares for launches; their times do not change. Errors: INVALID_VALUE. */
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_upload(gpemu_cuda_exec_handle exec,
                                                    gpemu_cuda_stream_handle stream);
/* An object of the caller that graphs own. `destroy` is called when the last reference is released.
 */
typedef struct gpemu_cuda_user_object* gpemu_cuda_user_object_handle;
GPEMU_API gpemu_cuda_status gpemu_cuda_user_object_create(void* object, void (*destroy)(void*),
                                                          uint32_t references,
                                                          gpemu_cuda_user_object_handle* handle);
GPEMU_API gpemu_cuda_status gpemu_cuda_user_object_retain(gpemu_cuda_user_object_handle handle,
                                                          uint32_t count);
GPEMU_API gpemu_cuda_status gpemu_cuda_user_object_release(gpemu_cuda_user_object_handle handle,
                                                           uint32_t count);
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_retain_user_object(
    gpemu_cuda_graph_handle graph, gpemu_cuda_user_object_handle handle, uint32_t count,
    int32_t move);
GPEMU_API gpemu_cuda_status gpemu_cuda_graph_release_user_object(
    gpemu_cuda_graph_handle graph, gpemu_cuda_user_object_handle handle, uint32_t count);

/* ---- Marks ---- */

/* NVTX ranges and the profiler's switches, kept in recordings of operations and in traces. Pushed
 * ranges nest in their thread. Started ranges may end in any thread; their text identifies them. */
typedef enum gpemu_cuda_mark_kind GPEMU_INT {
  GPEMU_CUDA_MARK_PUSH = 0,
  GPEMU_CUDA_MARK_POP = 1,
  GPEMU_CUDA_MARK_INSTANT = 2,
  GPEMU_CUDA_MARK_PROFILER_START = 3,
  GPEMU_CUDA_MARK_PROFILER_STOP = 4,
  GPEMU_CUDA_MARK_START = 5,
  GPEMU_CUDA_MARK_END = 6
} gpemu_cuda_mark_kind;
GPEMU_API void gpemu_cuda_mark(gpemu_cuda_mark_kind kind, const char* text);

#ifdef __cplusplus
}
#endif

#endif /* GPEMU_CUDA_H_ */
