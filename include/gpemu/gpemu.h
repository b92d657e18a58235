/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C interface of gpemu, libgpemu.so: emulated nodes, devices, streams, events, memory and
 * costs.
 *
 * Conventions
 *  1. Handles are opaque pointers. The caller that creates a handle releases it with the function
 *     named next to it. Handles may be released in any order, because each keeps alive everything
 *     on which it depends. Releasing NULL does nothing.
 *  2. A function that can fail returns a status; GPEMU_OK is 0. On failure, no output is changed,
 *     and gpemu_last_error() returns a message that says what went wrong and what to do.
 *  3. Structures that may grow begin with `struct_size`, which the caller sets to the structure's
 *     sizeof.
 *  4. Strings are UTF-8 and end with NUL. Times are in nanoseconds, sizes in bytes.
 *  5. All functions may be called from any thread. Passing NULL where a handle or pointer is
 *     required yields GPEMU_ERROR_INVALID_ARGUMENT.
 *  6. Only functions whose names end in `synchronize` or `wait_until` block.
 *  7. Devices and streams belong to the process that opened them. In a child after fork, functions
 *     that queue work, wait for it or ask for memory return GPEMU_ERROR_UNAVAILABLE; open the node
 *     again there.
 */
#ifndef GPEMU_GPEMU_H_
#define GPEMU_GPEMU_H_

#include <stddef.h>
#include <stdint.h>

#include "gpemu/enum.h"

#if defined(__GNUC__)
#define GPEMU_API __attribute__((visibility("default")))
#else
#define GPEMU_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gpemu_status GPEMU_INT {
  GPEMU_OK = 0,
#define X(name, c_name, value, exit_code, meaning) c_name = value,
#include "gpemu/base/error_codes.def"
#undef X
} gpemu_status;

/* Returns the calling thread's last error message, or "" if there was none. Valid until that
 * thread's next call. */
GPEMU_API const char* gpemu_last_error(void);

/* Returns what a status means, e.g. "not supported". */
GPEMU_API const char* gpemu_status_name(gpemu_status status);

/* Returns the library's version, e.g. "0.1.0". */
GPEMU_API const char* gpemu_version(void);

/* ---- Nodes
 * ---------------------------------------------------------------------------------------- */

typedef struct gpemu_node gpemu_node;

typedef enum gpemu_clock GPEMU_INT {
  GPEMU_CLOCK_REAL = 0,   /* the host's CLOCK_MONOTONIC: emulated work takes real time */
  GPEMU_CLOCK_VIRTUAL = 1 /* starts at 0 and jumps when a thread waits; private nodes only */
} gpemu_clock;

typedef struct gpemu_node_config {
  size_t struct_size;   /* covers at least device_count; fields beyond it count as 0 */
  const char* name;     /* NULL: a private node, visible to this process only */
  const char* gpu;      /* kind of all devices, e.g. "V100-PCIE-32GB", or the path of a TOML file */
  int32_t device_count; /* 1 to 4096 */
  gpemu_clock clock;
  const char* topology; /* the path of a TOML file that says what joins the devices, or NULL */
  int32_t mig;          /* 1: MIG divides the devices (gpemu_monitor_change_mig); else 0 */
} gpemu_node_config;

/* Creates a node and attaches to it. A named node belongs to this run: it disappears with its last
 * user. Errors: INVALID_ARGUMENT for a bad configuration or a name that is taken, NOT_FOUND for an
 * unknown GPU, RESOURCE_LIMIT if shared memory is full; for a topology, CORRUPT_DATA and IO.
 * Release with gpemu_node_close. */
GPEMU_API gpemu_status gpemu_node_create(const gpemu_node_config* config, gpemu_node** node);

/* Attaches to an existing node, on the real clock. Errors: NOT_FOUND, INCOMPATIBLE. Release with
 * gpemu_node_close. */
GPEMU_API gpemu_status gpemu_node_open(const char* name, gpemu_node** node);
GPEMU_API void gpemu_node_close(gpemu_node* node);

GPEMU_API gpemu_status gpemu_node_device_count(const gpemu_node* node, int32_t* count);

/* Yields the current time on the node's clock. */
GPEMU_API gpemu_status gpemu_node_now(const gpemu_node* node, int64_t* now_ns);

/* Blocks until a time on the node's clock; returns at once if it has passed. */
GPEMU_API gpemu_status gpemu_node_wait_until(gpemu_node* node, int64_t time_ns);

/* Like the two functions above, but without a node: on the host's CLOCK_MONOTONIC, which all nodes
 * on the real clock share. A wait sleeps, then spins. On an idle host, it ends a few microseconds
 * after the deadline. */
GPEMU_API gpemu_status gpemu_host_now(int64_t* now_ns);
GPEMU_API gpemu_status gpemu_host_wait_until(int64_t time_ns);

/* ---- Devices
 * -------------------------------------------------------------------------------------- */

typedef struct gpemu_device gpemu_device;

typedef struct gpemu_device_info {
  size_t struct_size;
  char gpu[64];        /* e.g. "V100-PCIE-32GB" */
  char uuid[48];       /* e.g. "GPU-…", the same for the same node name and index */
  char pci_bus_id[32]; /* e.g. "00000000:01:00.0" */
  uint64_t memory_bytes;
} gpemu_device_info;

/* Opens this process's context on a device. Errors: NOT_FOUND; UNAVAILABLE if its
 * compute mode refuses this process. Release with gpemu_device_close, which frees the context's
 * memory. */
GPEMU_API gpemu_status gpemu_device_open(gpemu_node* node, int32_t index, gpemu_device** device);
GPEMU_API void gpemu_device_close(gpemu_device* device);

GPEMU_API gpemu_status gpemu_device_get_info(const gpemu_device* device, gpemu_device_info* info);

/* Blocks until all work that this context has queued has ended. */
GPEMU_API gpemu_status gpemu_device_synchronize(gpemu_device* device);

/* ---- Memory
 * --------------------------------------------------------------------------------------- */

/* Allocates device memory, rounded up to 256 bytes. The address is never 0; do not dereference it.
 * Errors: OUT_OF_MEMORY. Release with gpemu_device_free. */
GPEMU_API gpemu_status gpemu_device_allocate(gpemu_device* device, uint64_t bytes,
                                             uint64_t* address);

/* Errors: INVALID_ARGUMENT if `address` is not the start of a live allocation. */
GPEMU_API gpemu_status gpemu_device_free(gpemu_device* device, uint64_t address);

/* Yields the memory that no process holds, and the capacity. */
GPEMU_API gpemu_status gpemu_device_memory(const gpemu_device* device, uint64_t* free_bytes,
                                           uint64_t* total_bytes);

/* Allocates zero-filled, page-locked host memory. If the user's limit on locked memory is too low,
 * the memory is not locked, and one line on standard error says so. Errors: RESOURCE_LIMIT if the
 * host is out of memory. Release with gpemu_pinned_free. */
GPEMU_API gpemu_status gpemu_pinned_allocate(uint64_t bytes, void** memory);

/* Errors: INVALID_ARGUMENT if `memory` did not come from gpemu_pinned_allocate. */
GPEMU_API gpemu_status gpemu_pinned_free(void* memory);

/* Page-locks memory that the caller has mapped, until it is unmapped. Errors: those of
 * gpemu_pinned_allocate, and INVALID_ARGUMENT for 0 bytes. */
GPEMU_API gpemu_status gpemu_pinned_lock(void* memory, uint64_t bytes);

/* ---- Streams
 * -------------------------------------------------------------------------------------- */

typedef struct gpemu_stream gpemu_stream;

typedef enum gpemu_stream_kind GPEMU_INT {
  GPEMU_STREAM_BLOCKING = 0,    /* synchronises with the legacy default stream */
  GPEMU_STREAM_NON_BLOCKING = 1 /* does not */
} gpemu_stream_kind;

typedef enum gpemu_copy_direction GPEMU_INT {
  GPEMU_COPY_HOST_TO_DEVICE = 0,
  GPEMU_COPY_DEVICE_TO_HOST = 1
} gpemu_copy_direction;

/* When a piece of work is expected to run on the node's clock: when it runs if nothing else is
 * queued. What this or another process queues later may still move it, so this is never the time at
 * which it ran: record an event after the work, and ask gpemu_event_time once that is over. */
typedef struct gpemu_expected_interval {
  int64_t start_ns;
  int64_t end_ns;
} gpemu_expected_interval;

/* Errors: INVALID_ARGUMENT for an unknown kind. Release with gpemu_stream_destroy; queued work
 * still runs. */
GPEMU_API gpemu_status gpemu_stream_create(gpemu_device* device, gpemu_stream_kind kind,
                                           gpemu_stream** stream);
/* Yields the legacy default stream. Release with gpemu_stream_destroy, too. */
GPEMU_API gpemu_status gpemu_stream_default(gpemu_device* device, gpemu_stream** stream);
GPEMU_API void gpemu_stream_destroy(gpemu_stream* stream);

/* Queues work on the compute engine. `expected` may be NULL. Blocks as long as the node's sharing
 * policy holds this process back. Work that would end after the time
 * INT64_MAX ends there. Errors: INVALID_ARGUMENT for a negative duration. */
GPEMU_API gpemu_status gpemu_stream_launch(gpemu_stream* stream, int64_t duration_ns,
                                           gpemu_expected_interval* expected);
/* Queues a copy on the copy engine of its direction; otherwise like gpemu_stream_launch. Errors:
 * INVALID_ARGUMENT also for an unknown direction. */
GPEMU_API gpemu_status gpemu_stream_copy(gpemu_stream* stream, gpemu_copy_direction direction,
                                         uint64_t bytes, int64_t duration_ns,
                                         gpemu_expected_interval* expected);

/* Returns GPEMU_OK if all work queued so far has ended, else GPEMU_ERROR_NOT_READY. */
GPEMU_API gpemu_status gpemu_stream_query(const gpemu_stream* stream);
GPEMU_API gpemu_status gpemu_stream_synchronize(gpemu_stream* stream);

/* ---- Events
 * --------------------------------------------------------------------------------------- */

typedef struct gpemu_event gpemu_event;

/* Release with gpemu_event_destroy. */
GPEMU_API gpemu_status gpemu_event_create(gpemu_event** event);
GPEMU_API void gpemu_event_destroy(gpemu_event* event);

/* Makes the event stand for all work queued on the stream so far. */
GPEMU_API gpemu_status gpemu_event_record(gpemu_event* event, gpemu_stream* stream);
/* Makes work that is queued on the stream later start only after the event. An event that was never
 * recorded counts as over. */
GPEMU_API gpemu_status gpemu_stream_wait_event(gpemu_stream* stream, const gpemu_event* event);
/* Returns GPEMU_OK if the event is over, else GPEMU_ERROR_NOT_READY. */
GPEMU_API gpemu_status gpemu_event_query(const gpemu_event* event);
GPEMU_API gpemu_status gpemu_event_synchronize(const gpemu_event* event);
/* Errors: INVALID_ARGUMENT if one was never recorded, NOT_READY if one is not over. */
GPEMU_API gpemu_status gpemu_event_elapsed(const gpemu_event* start, const gpemu_event* end,
                                           int64_t* elapsed_ns);

/* Yields the time of an event that is over, on the node's clock. Errors: INVALID_ARGUMENT if it was
 * never recorded, NOT_READY if it is not over. */
GPEMU_API gpemu_status gpemu_event_time(const gpemu_event* event, int64_t* time_ns);

/* ---- Rendezvous
 * ------------------------------------------------------------------------------------ */

/* One party of a group. The members of a group queue rounds of work that end for all of them
 * together, as a collective does. Parties are processes of a node, or threads of one process. A
 * party arrives at a round when its stream reaches it. The round starts at the latest arrival, or
 * at the end of the previous round if that is later. It ends for all parties after the largest cost
 * that any of them gave. All must queue the same rounds in the same order. */
typedef struct gpemu_rendezvous gpemu_rendezvous;

#define GPEMU_GROUP_ID_BYTES 64

/* Creates a group and writes its id, which the parties need to join. Errors: INVALID_ARGUMENT for
 * fewer than one party, RESOURCE_LIMIT if the node has too few free seats. */
GPEMU_API gpemu_status gpemu_rendezvous_create_group(gpemu_node* node, int32_t parties,
                                                     char id[GPEMU_GROUP_ID_BYTES]);

/* Takes a seat, 0 to parties - 1. Errors: INVALID_ARGUMENT for a seat that does not exist or is
 * taken, NOT_FOUND if the node no longer has the group. Release with gpemu_rendezvous_leave; other
 * parties that wait for this one then fail. */
GPEMU_API gpemu_status gpemu_rendezvous_join(gpemu_node* node, const char* id, int32_t seat,
                                             gpemu_rendezvous** rendezvous);
GPEMU_API void gpemu_rendezvous_leave(gpemu_rendezvous* rendezvous);

/* Queues a round on a stream. Work that is queued on the stream later starts after the round. If
 * `end` is not NULL, it then stands for the end of the round. Errors: UNAVAILABLE after a party has
 * died or left without arriving, INVALID_ARGUMENT for a negative cost or a stream of another node.
 */
GPEMU_API gpemu_status gpemu_rendezvous_arrive(gpemu_rendezvous* rendezvous, gpemu_stream* stream,
                                               int64_t cost_ns, gpemu_event* end);
/* Errors: UNAVAILABLE once a party for which this one waits has died or left. */
GPEMU_API gpemu_status gpemu_rendezvous_check(gpemu_rendezvous* rendezvous);
/* Waits until all work queued on the stream so far has ended. Errors: those of
 * gpemu_rendezvous_check, also if a party dies or leaves during the wait; NOT_READY after
 * `timeout_ns`, unless it is negative. */
GPEMU_API gpemu_status gpemu_rendezvous_synchronize(gpemu_rendezvous* rendezvous,
                                                    gpemu_stream* stream, int64_t timeout_ns);

/* How well this process keeps up with the rounds of all its groups. */
typedef struct gpemu_round_statistics {
  size_t struct_size;
  uint64_t rounds;         /* rounds whose ends are known */
  int64_t median_late_ns;  /* median of the time from the end of a round until that end was known;
                              a longer median than a millisecond is given as a millisecond */
  int64_t latest_ns;       /* the longest such time */
  int64_t settling_cpu_ns; /* CPU time of the thread that settles rounds */
} gpemu_round_statistics;
GPEMU_API gpemu_status gpemu_rendezvous_statistics(gpemu_rendezvous* rendezvous,
                                                   gpemu_round_statistics* statistics);

/* ---- Costs
 * ---------------------------------------------------------------------------------------- */

typedef struct gpemu_cost_model gpemu_cost_model;

/* The evidence on which a number rests, best first. */
typedef enum gpemu_evidence GPEMU_INT {
  GPEMU_EVIDENCE_MEASURED = 0,
  GPEMU_EVIDENCE_INTERPOLATED = 1,
  GPEMU_EVIDENCE_EXTRAPOLATED = 2,
  GPEMU_EVIDENCE_SCALED = 3,
  GPEMU_EVIDENCE_CALIBRATED = 4,
  GPEMU_EVIDENCE_TRANSFERRED = 5,
  GPEMU_EVIDENCE_ANALYTIC = 6,
  GPEMU_EVIDENCE_GUESSED = 7,
  GPEMU_EVIDENCE_EMULATED = 8,
  GPEMU_EVIDENCE_PUBLISHED = 9
} gpemu_evidence;

/* A duration; in 9 of 10 cases the truth is at most a factor of 1 + relative_error above or below
 * time_ns. */
typedef struct gpemu_estimate {
  int64_t time_ns;
  double relative_error;
  gpemu_evidence evidence;
} gpemu_estimate;

/* The cost of one training step. */
typedef struct gpemu_step_cost {
  size_t struct_size;
  gpemu_estimate forward;
  gpemu_estimate backward_optimizer; /* loss, backward pass and optimizer step */
  gpemu_estimate copy_pageable;      /* one batch of input to the device, from pageable memory */
  gpemu_estimate copy_pinned;        /* the same from page-locked memory */
  uint64_t persistent_bytes;         /* held between steps */
  uint64_t peak_bytes;               /* held at most, as the framework's allocator counts it */
  uint64_t reserved_bytes;           /* beyond the allocator: context, workspaces, fragmentation */
} gpemu_step_cost;

/* Reads the profiles of a model on a GPU. If `precision` is NULL or "", the measured one is used.
 * Errors: NOT_FOUND, UNSUPPORTED if the pair was not measured. Release with
 * gpemu_cost_model_destroy. */
GPEMU_API gpemu_status gpemu_cost_model_create(const char* model, const char* gpu,
                                               const char* precision,
                                               gpemu_cost_model** cost_model);
GPEMU_API void gpemu_cost_model_destroy(gpemu_cost_model* cost_model);

/* Errors: INVALID_ARGUMENT if batch < 1, OUT_OF_MEMORY if the batch does not fit. */
GPEMU_API gpemu_status gpemu_cost_model_step(const gpemu_cost_model* cost_model, int32_t batch,
                                             gpemu_step_cost* cost);

/* Yields the largest batch that fits. */
GPEMU_API gpemu_status gpemu_cost_model_largest_batch(const gpemu_cost_model* cost_model,
                                                      int32_t* batch);

/* ---- The profile database
 * ----------------------------------------------------------------------- */

typedef struct gpemu_database gpemu_database;

/* A kind of GPU. Rates are the datasheet's. */
typedef struct gpemu_gpu_info {
  size_t struct_size;
  char name[64];         /* gpemu's name, e.g. "V100-PCIE-32GB" */
  char product_name[96]; /* as NVML reports it */
  char architecture[32]; /* e.g. "Volta" */
  int32_t compute_capability_major;
  int32_t compute_capability_minor;
  int32_t multiprocessors;
  int32_t reserved; /* 0 */
  uint64_t memory_bytes;
  double memory_bandwidth_bytes_per_s;
  double fp32_flops;              /* per second, without tensor cores */
  double pinned_copy_bytes_per_s; /* a large copy from pinned host memory, as achieved */
} gpemu_gpu_info;

/* A model that was profiled. */
typedef struct gpemu_model_info {
  size_t struct_size;
  char name[64]; /* e.g. "resnet50" */
  uint64_t parameters;
  int32_t input_shape[3]; /* channels, height, width of one FP32 sample */
  int32_t reserved;       /* 0 */
} gpemu_model_info;

/* Opens a database file. If `file` is NULL, opens the installed database, overlaid with the user's.
 * Errors: NOT_FOUND, INCOMPATIBLE, UNAVAILABLE, IO, CORRUPT_DATA. Release with
 * gpemu_database_close. */
GPEMU_API gpemu_status gpemu_database_open(const char* file, gpemu_database** database);
GPEMU_API void gpemu_database_close(gpemu_database* database);

/* GPUs are numbered from 0, in the order of their names. Errors: NOT_FOUND beyond the last. */
GPEMU_API gpemu_status gpemu_database_gpu_count(gpemu_database* database, int32_t* count);
GPEMU_API gpemu_status gpemu_database_gpu(gpemu_database* database, int32_t index,
                                          gpemu_gpu_info* info);
/* Finds a GPU by name or alias, e.g. "Tesla_V100-PCIE-32GB", or by the path of a TOML file. Errors:
 * NOT_FOUND, with the nearest names. */
GPEMU_API gpemu_status gpemu_database_find_gpu(gpemu_database* database, const char* name,
                                               gpemu_gpu_info* info);

/* The same for models. */
GPEMU_API gpemu_status gpemu_database_model_count(gpemu_database* database, int32_t* count);
GPEMU_API gpemu_status gpemu_database_model(gpemu_database* database, int32_t index,
                                            gpemu_model_info* info);
GPEMU_API gpemu_status gpemu_database_find_model(gpemu_database* database, const char* name,
                                                 gpemu_model_info* info);

/* Like gpemu_cost_model_create, but from this database. The cost model stays valid after the
 * database is closed. */
GPEMU_API gpemu_status gpemu_database_cost_model(gpemu_database* database, const char* model,
                                                 const char* gpu, const char* precision,
                                                 gpemu_cost_model** cost_model);

#ifdef __cplusplus
}
#endif

#endif /* GPEMU_GPEMU_H_ */
