// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <mutex>
#include <unordered_map>

#include "cusolver.hpp"

namespace {

// Never destroyed: programs end with handles alive and use them until the last destructor.
std::mutex& mutex = *new std::mutex;
auto& solvers = *new std::unordered_map<const void*, std::unique_ptr<Solver>>;

// cusolverDnParams, gesvdjInfo and syevjInfo: settings of algorithms, which do not change the cost.
auto& settings = *new std::unordered_map<const void*, std::unique_ptr<char>>;

int create_settings(void** handle) {
  if (handle == nullptr) {
    return kInvalidValue;
  }
  auto created = std::make_unique<char>();
  const std::lock_guard lock(mutex);
  *handle = created.get();
  settings.emplace(*handle, std::move(created));
  return kSuccess;
}

int destroy_settings(const void* handle) {
  const std::lock_guard lock(mutex);
  return settings.erase(handle) == 1 ? kSuccess : kInvalidValue;
}

int accept_setting(const void* handle) {
  const std::lock_guard lock(mutex);
  return settings.contains(handle) ? kSuccess : kInvalidValue;
}

}  // namespace

Solver* find_solver(const void* handle) {
  const std::lock_guard lock(mutex);
  const auto found = solvers.find(handle);
  return found == solvers.end() ? nullptr : found->second.get();
}

GPEMU_SHIM_EXPORT int cusolverDnCreate(void** handle) {
  if (handle == nullptr) {
    return kInvalidValue;
  }
  if (gpemu_cuda_ensure_context() != GPEMU_CUDA_SUCCESS) {
    return kNotInitialized;
  }
  auto created = std::make_unique<Solver>();
  const std::lock_guard lock(mutex);
  *handle = created.get();
  solvers.emplace(*handle, std::move(created));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cusolverDnDestroy(const void* handle) {
  const std::lock_guard lock(mutex);
  return solvers.erase(handle) == 1 ? kSuccess : kNotInitialized;
}

GPEMU_SHIM_EXPORT int cusolverDnSetStream(const void* handle, gpemu_cuda_stream_handle stream) {
  Solver* const solver = find_solver(handle);
  if (solver == nullptr) {
    return kNotInitialized;
  }
  solver->stream = stream;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cusolverDnGetStream(const void* handle, gpemu_cuda_stream_handle* stream) {
  const Solver* const solver = find_solver(handle);
  if (solver == nullptr) {
    return kNotInitialized;
  }
  if (stream == nullptr) {
    return kInvalidValue;
  }
  *stream = solver->stream;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cusolverDnCreateParams(void** params) {
  return create_settings(params);
}
GPEMU_SHIM_EXPORT int cusolverDnDestroyParams(void* params) {
  return destroy_settings(params);
}
GPEMU_SHIM_EXPORT int cusolverDnCreateGesvdjInfo(void** info) {
  return create_settings(info);
}
GPEMU_SHIM_EXPORT int cusolverDnDestroyGesvdjInfo(void* info) {
  return destroy_settings(info);
}
GPEMU_SHIM_EXPORT int cusolverDnCreateSyevjInfo(void** info) {
  return create_settings(info);
}
GPEMU_SHIM_EXPORT int cusolverDnDestroySyevjInfo(void* info) {
  return destroy_settings(info);
}
GPEMU_SHIM_EXPORT int cusolverDnXgesvdjSetTolerance(void* info, double) {
  return accept_setting(info);
}
GPEMU_SHIM_EXPORT int cusolverDnXgesvdjSetMaxSweeps(void* info, int sweeps) {
  return sweeps < 0 ? kInvalidValue : accept_setting(info);
}
GPEMU_SHIM_EXPORT int cusolverDnXgesvdjSetSortEig(void* info, int) {
  return accept_setting(info);
}
GPEMU_SHIM_EXPORT int cusolverDnXsyevjSetTolerance(void* info, double) {
  return accept_setting(info);
}
GPEMU_SHIM_EXPORT int cusolverDnXsyevjSetMaxSweeps(void* info, int sweeps) {
  return sweeps < 0 ? kInvalidValue : accept_setting(info);
}
GPEMU_SHIM_EXPORT int cusolverDnXsyevjSetSortEig(void* info, int) {
  return accept_setting(info);
}
