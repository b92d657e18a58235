/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching the devices of a node. The NVML shim uses this interface.
 *
 * Conventions: those of gpemu.h. The process watches one node, which all callers share: the one
 * that GPEMU_NODE names, or else the only one that exists. CUDA_VISIBLE_DEVICES has no effect. A
 * process on a private node (GPEMU_GPU, as under `gpemu run --clock gpu-only`) watches that node,
 * whose load is not measured (GPEMU_ERROR_UNSUPPORTED). Devices are numbered as in the node; an
 * index that the node does not have yields GPEMU_ERROR_NOT_FOUND. While no user is attached, all
 * functions that return a status, except gpemu_monitor_attach, yield GPEMU_ERROR_UNAVAILABLE.
 */
#ifndef GPEMU_MONITOR_H_
#define GPEMU_MONITOR_H_

#include <stddef.h>
#include <stdint.h>

#include "gpemu/gpemu.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Attaches to the node, or counts one more user. The first period of the load begins. Errors:
 * NOT_FOUND without a node, INVALID_ARGUMENT with several and no GPEMU_NODE, both with one line in
 * the log; INCOMPATIBLE, RESOURCE_LIMIT. */
GPEMU_API gpemu_status gpemu_monitor_attach(void);

/* Counts one user fewer. The last user's call detaches from the node. Error: UNAVAILABLE without a
 * user. */
GPEMU_API gpemu_status gpemu_monitor_detach(void);

GPEMU_API gpemu_status gpemu_monitor_device_count(int32_t* count);

/* Returns the version of the emulated driver, e.g. "595.45.04". Works without being attached. */
GPEMU_API const char* gpemu_monitor_driver_version(void);

/* The properties of a device. Only its compute mode may change. A number that is not known is 0. */
typedef struct gpemu_monitor_device {
  size_t struct_size;
  char gpu[64];          /* e.g. "V100-PCIE-32GB" */
  char product_name[96]; /* e.g. "Tesla V100-PCIE-32GB" */
  char architecture[32]; /* e.g. "Volta" */
  char uuid[48];         /* "GPU-…" */
  char pci_bus_id[32];   /* "00000000:01:00.0" */
  int32_t compute_capability_major, compute_capability_minor;
  int32_t multiprocessors, cuda_cores;
  int32_t memory_bus_bits;
  int32_t pcie_generation, pcie_lanes;
  int32_t nvlink_links;
  int32_t nvlink_gpus;  /* GPUs in a group that NVLink connects; 1 without NVLink */
  int32_t compute_mode; /* 0: any process may use the device, 2: none, 3: one at a time; NVML's
                           numbers */
  double base_clock_mhz, boost_clock_mhz, memory_clock_mhz;
  double max_power_w, idle_power_w;
  int32_t mig; /* 0: the GPU has no MIG, or its node does not divide it; 1: MIG divides it */
  int32_t mig_pending;       /* the same of the time from which nobody uses it any more */
  int32_t has_mig;           /* 1: the GPU has MIG */
  int32_t nvml_architecture; /* NVML_DEVICE_ARCH_...; 0: not known */
  double nvlink_version;     /* 2.2 for NVLink 2.2; 0 without NVLink */
} gpemu_monitor_device;
GPEMU_API gpemu_status gpemu_monitor_get_device(int32_t index, gpemu_monitor_device* device);

/* Sets the compute mode of a device, for all processes. Those that use it continue to do so.
 * Errors: INVALID_ARGUMENT for another number than 0, 2 and 3; UNSUPPORTED for a private node. */
GPEMU_API gpemu_status gpemu_monitor_set_compute_mode(int32_t index, int32_t compute_mode);

/* What joins two devices. */
typedef struct gpemu_monitor_path {
  size_t struct_size;
  int32_t pcie;    /* what the path over PCIe crosses: 0 nothing (the same device), 1 one switch, 2
                      several switches, 3 a host bridge, 4 several host bridges of one NUMA node, 5
                      the link between NUMA nodes; -1: not known, the node has no topology */
  int32_t nvlinks; /* NVLinks over which they reach each other without another GPU between them */
  int32_t access;  /* 1: each can use the other's memory */
} gpemu_monitor_path;
GPEMU_API gpemu_status gpemu_monitor_get_path(int32_t index, int32_t peer,
                                              gpemu_monitor_path* path);

/* What an NVLink of a device leads to, unless that is another device. Broken ones are inactive. */
#define GPEMU_MONITOR_NVLINK_INACTIVE (-1)
#define GPEMU_MONITOR_NVLINK_SWITCH (-2)
#define GPEMU_MONITOR_NVLINK_UNKNOWN                          \
  (-3) /* to one of several devices; the node has no topology \
        */

/* Yields the device that an NVLink leads to, or one of the numbers above. Links are numbered from
 * 0. Error: NOT_FOUND for a link that the device does not have. */
GPEMU_API gpemu_status gpemu_monitor_get_nvlink(int32_t index, int32_t link, int32_t* peer);

/* Yields the bytes that a device has sent and received over one of its NVLinks, or over PCIe (-1),
 * since the node was made. Error: NOT_FOUND for a link that the device does not have. */
GPEMU_API gpemu_status gpemu_monitor_get_link_traffic(int32_t index, int32_t link, uint64_t* sent,
                                                      uint64_t* received);

/* Yields 1 if a device has fallen off the bus, because of a fault of the node; else 0. */
GPEMU_API gpemu_status gpemu_monitor_is_lost(int32_t index, int32_t* lost);

/* Yields up to *count numbers of Xid errors that a driver would have reported of a device so far,
 * because of faults of the node, in the order of time: 31 for an illegal address, 74 for an NVLink
 * that is broken, 79 if it has fallen off the bus. Sets *count to their total number. `xids` may be
 * NULL if *count is 0. */
GPEMU_API gpemu_status gpemu_monitor_get_xids(int32_t index, int32_t* xids, int32_t* count);

/* The current state of a device. */
typedef struct gpemu_monitor_state {
  size_t struct_size;
  uint64_t memory_total, memory_used;
  uint64_t energy_mj;       /* millijoules since the host started; 0 for a private node */
  int32_t process_count;    /* processes with a context on the device */
  uint64_t memory_reserved; /* that the driver keeps, beside memory_total */
} gpemu_monitor_state;
GPEMU_API gpemu_status gpemu_monitor_get_state(int32_t index, gpemu_monitor_state* state);

/* The load of a device over the last period. A period ends with the first call at least 1/6 s after
 * the end of the previous one; earlier calls repeat the last answer. The first call waits for its
 * period to end. Shares are 0 to 1. */
typedef struct gpemu_monitor_load {
  size_t struct_size;
  int64_t start_ns, end_ns; /* on CLOCK_MONOTONIC */
  double compute;           /* share of the period in which kernels ran */
  double copy_h2d, copy_d2h;
  double h2d_bytes_per_s, d2h_bytes_per_s; /* over PCIe, to and from the device */
  double power_w, temperature_c;
  double sm_clock_mhz;       /* 0 if it is not known */
  int32_t performance_state; /* 0 while a process has a context, 8 otherwise */
  double clock_share;        /* the part of the SM clock that faults of the node leave; 1: all */
} gpemu_monitor_load;
GPEMU_API gpemu_status gpemu_monitor_get_load(int32_t index, gpemu_monitor_load* load);

/* The power settings of a device, and what comes of them (docs/design/power.md). */
typedef struct gpemu_monitor_power {
  size_t struct_size;
  double limit_w, default_limit_w; /* the limit that counts; the board's own */
  double min_limit_w, max_limit_w; /* the limits that can be set */
  double locked_clock_mhz;         /* 0: the clock is not locked */
  double clock_share;              /* of the boost clock, at which kernels run */
  int32_t capped;                  /* 1: the power limit holds the clock down */
  int64_t capped_ns;               /* for which kernels ran at a clock that it held down */
} gpemu_monitor_power;
GPEMU_API gpemu_status gpemu_monitor_get_power(int32_t index, gpemu_monitor_power* power);

/* Limits a device's power (0: to the board's own limit), or locks its clock (0: unlocks it), for
 * kernels that any process launches from now on. Errors: INVALID_ARGUMENT for a limit that the
 * board does not have, or a clock below 0; UNSUPPORTED if the device's clock is not known; IO if
 * this user may not change the node. */
GPEMU_API gpemu_status gpemu_monitor_set_power_limit(int32_t index, double limit_w);
GPEMU_API gpemu_status gpemu_monitor_lock_clock(int32_t index, double clock_mhz);

/* A process with a context on a device. */
typedef struct gpemu_monitor_process {
  uint32_t pid;
  uint64_t memory_held;
  int32_t mig; /* 1: on a MIG device of these instances; else 0 */
  int32_t gpu_instance, compute_instance;
  int32_t mps; /* 1: it is a client of an MPS server; else 0 */
} gpemu_monitor_process;

/* Yields up to *count processes, and sets *count to their total number. `processes` may be NULL if
 * *count is 0. */
GPEMU_API gpemu_status gpemu_monitor_get_processes(int32_t index, gpemu_monitor_process* processes,
                                                   int32_t* count);

/* One process's part of the load of the last period. Waits like gpemu_monitor_get_load. */
typedef struct gpemu_monitor_process_load {
  uint32_t pid;
  double compute;
} gpemu_monitor_process_load;
GPEMU_API gpemu_status gpemu_monitor_get_process_loads(int32_t index,
                                                       gpemu_monitor_process_load* loads,
                                                       int32_t* count);

/* A kind of GPU instance that MIG can make of a device. Profiles are numbered from 0, in
 * nvidia-smi's order. Functions take the `id`. */
typedef struct gpemu_monitor_mig_profile {
  size_t struct_size;
  char name[32]; /* e.g. "3g.20gb" */
  int32_t id;    /* as nvidia-smi prints it */
  int32_t nvml_profile;
  int32_t compute_slices, memory_slices;
  int32_t max_count, free_count; /* of instances: on an empty GPU, and now */
  int32_t multiprocessors, copy_engines, decoders, jpegs, ofas; /* 0 if it is not known */
  int32_t media_extensions;                                     /* 0 or 1 */
  uint64_t memory_bytes;
  int32_t start_count; /* placements */
  int32_t starts[8];   /* memory slices at which an instance may begin */
} gpemu_monitor_mig_profile;
/* Errors: NOT_FOUND after the last one, UNSUPPORTED for a GPU without MIG. */
GPEMU_API gpemu_status gpemu_monitor_get_mig_profile(int32_t index, int32_t number,
                                                     gpemu_monitor_mig_profile* profile);

/* A GPU instance of a device. They are numbered from 0, by id. */
typedef struct gpemu_monitor_mig_instance {
  size_t struct_size;
  int32_t id, profile; /* a gpemu_monitor_mig_profile's id */
  int32_t start, size; /* memory slices */
} gpemu_monitor_mig_instance;
/* Error: NOT_FOUND after the last one. */
GPEMU_API gpemu_status gpemu_monitor_get_mig_instance(int32_t index, int32_t number,
                                                      gpemu_monitor_mig_instance* instance);

/* A kind of compute instance in a GPU instance. They are numbered from 0, the smallest first. */
typedef struct gpemu_monitor_mig_compute_profile {
  size_t struct_size;
  char name[40]; /* e.g. "1c.3g.20gb" */
  int32_t id;    /* nvidia-smi's, which is NVML's number too */
  int32_t slices;
  int32_t max_count, free_count;
  int32_t multiprocessors;
  int32_t start_count;
  int32_t starts[8]; /* compute slices of the GPU instance at which one may begin */
} gpemu_monitor_mig_compute_profile;
/* Error: NOT_FOUND after the last one, and for a GPU instance that does not exist. */
GPEMU_API gpemu_status
gpemu_monitor_get_mig_compute_profile(int32_t index, int32_t gpu_instance, int32_t number,
                                      gpemu_monitor_mig_compute_profile* profile);

/* A compute instance, which programs use as a device. They are numbered from 0, by the ids of the
 * GPU instance and the compute instance. */
typedef struct gpemu_monitor_mig_device {
  size_t struct_size;
  char name[40]; /* e.g. "3g.20gb" */
  char uuid[48]; /* "MIG-…" */
  int32_t gpu_instance, compute_instance;
  int32_t gpu_instance_profile, compute_profile; /* ids */
  int32_t gpu_instance_slices, compute_slices;
  int32_t start; /* the first compute slice, in its GPU instance */
  int32_t multiprocessors;
  uint64_t memory_total, memory_used; /* of its GPU instance */
} gpemu_monitor_mig_device;
/* Error: NOT_FOUND after the last one. */
GPEMU_API gpemu_status gpemu_monitor_get_mig_device(int32_t index, int32_t number,
                                                    gpemu_monitor_mig_device* device);

/* A change of a device's instances. */
#define GPEMU_MONITOR_MIG_CREATE 0          /* a GPU instance; uses profile, start */
#define GPEMU_MONITOR_MIG_DESTROY 1         /* a GPU instance; uses gpu_instance */
#define GPEMU_MONITOR_MIG_CREATE_COMPUTE 2  /* uses gpu_instance, profile, start */
#define GPEMU_MONITOR_MIG_DESTROY_COMPUTE 3 /* uses gpu_instance, compute_instance */
typedef struct gpemu_monitor_mig_change {
  size_t struct_size;
  int32_t action; /* one of those above */
  int32_t gpu_instance, compute_instance;
  int32_t profile; /* its id */
  int32_t start;   /* -1: where the driver would put it */
} gpemu_monitor_mig_change;
/* Makes a change, and yields the id of the instance. Errors: NOT_FOUND for an instance that does
 * not exist, INVALID_ARGUMENT for a profile or a start that there is not, RESOURCE_LIMIT if there
 * is no room for a new instance, NOT_READY if an instance that is to be destroyed is in use,
 * UNSUPPORTED if MIG does not divide the device. */
GPEMU_API gpemu_status gpemu_monitor_change_mig(int32_t index,
                                                const gpemu_monitor_mig_change* change,
                                                int32_t* id);
/* Switches MIG on (1) or off (0) for a device, which destroys all instances. While somebody uses
 * the device, that is only pending: gpemu_monitor_get_device tells. Errors: INVALID_ARGUMENT for
 * another number; UNSUPPORTED if the GPU has no MIG, or its node does not divide GPUs. */
GPEMU_API gpemu_status gpemu_monitor_set_mig_mode(int32_t index, int32_t mode);

#ifdef __cplusplus
}
#endif

#endif /* GPEMU_MONITOR_H_ */
