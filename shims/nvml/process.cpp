// SPDX-License-Identifier: Apache-2.0
//
// The processes on a device.
#include <vector>

#include "nvml.hpp"

using nvml::Handle;

namespace nvml {
namespace {

/// Returns all elements of one of the lists of gpemu/monitor.h, which may grow between two calls.
template <typename Element>
int get_all(int32_t index, gpemu_status (*get)(int32_t, Element*, int32_t*),
            std::vector<Element>& elements) {
  for (;;) {
    auto count = static_cast<int32_t>(elements.size());
    const int status = status_of(get(index, elements.data(), &count));
    if (status != kSuccess) return status;
    const bool complete = static_cast<size_t>(count) <= elements.size();
    elements.resize(static_cast<size_t>(count));
    if (complete) return kSuccess;
  }
}

template <typename Element>
int get_all(const Handle* device, gpemu_status (*get)(int32_t, Element*, int32_t*),
            std::vector<Element>& elements) {
  const auto [index, status] = index_of(device);
  return status == kSuccess ? get_all(index, get, elements) : status;
}

unsigned gpu_instance_of(const gpemu_monitor_process& process) {
  return process.mig != 0 ? static_cast<unsigned>(process.gpu_instance) : kNoInstance;
}
unsigned compute_instance_of(const gpemu_monitor_process& process) {
  return process.mig != 0 ? static_cast<unsigned>(process.compute_instance) : kNoInstance;
}

/// Reads the processes of a GPU, or of a MIG device.
int get_processes(const Handle* device, std::vector<gpemu_monitor_process>& processes) {
  if (!is_mig_handle(device)) return get_all(device, gpemu_monitor_get_processes, processes);
  gpemu_monitor_mig_device known{};
  int status = mig_device_of(device, known);
  if (status != kSuccess) return status;
  status = get_all(gpu_of(device), gpemu_monitor_get_processes, processes);
  std::erase_if(processes, [&known](const gpemu_monitor_process& process) {
    return process.mig == 0 || process.gpu_instance != known.gpu_instance ||
           process.compute_instance != known.compute_instance;
  });
  return status;
}

void convert(const gpemu_monitor_process& process, ProcessInfoV1& info) {
  info = {process.pid, process.memory_held};
}
void convert(const gpemu_monitor_process& process, ProcessInfo& info) {
  info = {process.pid, process.memory_held, gpu_instance_of(process), compute_instance_of(process)};
}
void convert(const gpemu_monitor_process& process, ProcessDetail& info) {
  info = {process.pid, process.memory_held, gpu_instance_of(process), compute_instance_of(process),
          0};
}

/// Yields the processes to a caller with room for *count of them, or their number. `mps`: those
/// that are clients of an MPS server, instead of the others.
template <typename Info>
int put_processes(const Handle* device, unsigned* count, Info* infos, bool mps) {
  if (count == nullptr || (*count > 0 && infos == nullptr)) return kInvalidArgument;
  std::vector<gpemu_monitor_process> processes;
  const int status = get_processes(device, processes);
  if (status != kSuccess) return status;
  std::erase_if(processes,
                [mps](const gpemu_monitor_process& process) { return (process.mps != 0) != mps; });
  const bool fits = *count >= processes.size();
  *count = static_cast<unsigned>(processes.size());
  if (!fits) return kInsufficientSize;
  for (size_t i = 0; i < processes.size(); ++i) convert(processes[i], infos[i]);
  return kSuccess;
}

/// There are no graphics processes.
int put_no_processes(const Handle* device, unsigned* count) {
  return put_constant(device, count, 0U);
}

void convert(const gpemu_monitor_process_load& load, uint64_t time_us, ProcessSample& sample) {
  sample = {};
  sample.pid = load.pid;
  sample.time_us = time_us;
  sample.sm = percent(load.compute);
}
void convert(const gpemu_monitor_process_load& load, uint64_t time_us, ProcessUtilization& sample) {
  sample = {};
  sample.time_us = time_us;
  sample.pid = load.pid;
  sample.sm = percent(load.compute);
}

/// Yields each process's part in the last period if that is newer than `last_seen_us`. A caller
/// without enough room gets the number needed.
template <typename Sample>
int put_samples(const Handle* device, uint64_t last_seen_us, unsigned* count, Sample* samples) {
  uint64_t time_us = 0;
  std::vector<gpemu_monitor_process_load> loads;
  const int loaded = with_load(device, [&time_us](const gpemu_monitor_load& load) {
    time_us = epoch_us(load.end_ns);
    return static_cast<int>(kSuccess);
  });
  if (loaded != kSuccess) return loaded;
  const int status = get_all(device, gpemu_monitor_get_process_loads, loads);
  if (status != kSuccess) return status;
  if (loads.empty() || time_us <= last_seen_us) {
    *count = 0;
    return kNotFound;
  }
  const bool fits = samples != nullptr && *count >= loads.size();
  *count = static_cast<unsigned>(loads.size());
  if (!fits) return kInsufficientSize;
  for (size_t i = 0; i < loads.size(); ++i) convert(loads[i], time_us, samples[i]);
  return kSuccess;
}

}  // namespace
}  // namespace nvml

GPEMU_SHIM_EXPORT int nvmlDeviceGetComputeRunningProcesses(Handle* device, unsigned* count,
                                                           nvml::ProcessInfoV1* infos) {
  return nvml::put_processes(device, count, infos, false);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(Handle* device, unsigned* count,
                                                              nvml::ProcessInfo* infos) {
  return nvml::put_processes(device, count, infos, false);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Handle* device, unsigned* count,
                                                              nvml::ProcessInfo* infos) {
  return nvml::put_processes(device, count, infos, false);
}

#define GPEMU_NO_PROCESSES(function)                                                    \
  GPEMU_SHIM_EXPORT int function(Handle* device, unsigned* count, nvml::ProcessInfo*) { \
    return nvml::put_no_processes(device, count);                                       \
  }
GPEMU_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses)
GPEMU_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2)
GPEMU_NO_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3)
#undef GPEMU_NO_PROCESSES

GPEMU_SHIM_EXPORT int nvmlDeviceGetMPSComputeRunningProcesses(Handle* device, unsigned* count,
                                                              nvml::ProcessInfoV1* infos) {
  return nvml::put_processes(device, count, infos, true);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v2(Handle* device, unsigned* count,
                                                                 nvml::ProcessInfo* infos) {
  return nvml::put_processes(device, count, infos, true);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle* device, unsigned* count,
                                                                 nvml::ProcessInfo* infos) {
  return nvml::put_processes(device, count, infos, true);
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetRunningProcessDetailList(Handle* device,
                                                            nvml::ProcessDetailList* list) {
  // Documented so; other functions have a status of their own for a wrong version.
  if (list == nullptr || !nvml::is_version(*list, 1) || list->mode > nvml::kMpsProcesses) {
    return nvml::kInvalidArgument;
  }
  const bool mps = list->mode == nvml::kMpsProcesses;
  if (!mps && list->mode != nvml::kComputeProcesses) {
    return nvml::put_no_processes(device, &list->count);
  }
  return nvml::put_processes(device, &list->count, list->processes, mps);
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetProcessUtilization(Handle* device, nvml::ProcessSample* samples,
                                                      unsigned* count, uint64_t last_seen_us) {
  if (count == nullptr) return nvml::kInvalidArgument;
  if (nvml::is_divided(device)) return nvml::kNotSupported;
  return nvml::put_samples(device, last_seen_us, count, samples);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetProcessesUtilizationInfo(Handle* device,
                                                            nvml::ProcessUtilizationList* list) {
  if (list == nullptr) return nvml::kInvalidArgument;
  if (!nvml::is_version(*list, 1)) return nvml::kArgumentVersionMismatch;
  if (nvml::is_divided(device)) return nvml::kNotSupported;
  return nvml::put_samples(device, list->last_seen_us, &list->count, list->processes);
}
