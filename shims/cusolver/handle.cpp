// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cusolver.hpp"
#include "handle_table.hpp"

namespace {

// cusolverDnParams, gesvdjInfo and syevjInfo: settings of algorithms, which do not change the cost.
struct Settings {};

int create_settings(void** handle) {
  if (handle == nullptr) {
    return kInvalidValue;
  }
  *handle = alive<Settings>().add(std::make_unique<Settings>());
  return kSuccess;
}

int destroy_settings(const void* handle) {
  return alive<Settings>().remove(handle) ? kSuccess : kInvalidValue;
}

int accept_setting(const void* handle) {
  return find_object<Settings>(handle) != nullptr ? kSuccess : kInvalidValue;
}

}  // namespace

GPEMU_SHIM_EXPORT int cusolverDnCreate(void** handle) {
  if (handle == nullptr) {
    return kInvalidValue;
  }
  if (gpemu_cuda_ensure_context() != GPEMU_CUDA_SUCCESS) {
    return kNotInitialized;
  }
  *handle = alive<Solver>().add(std::make_unique<Solver>());
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cusolverDnDestroy(const void* handle) {
  return alive<Solver>().remove(handle) ? kSuccess : kNotInitialized;
}

GPEMU_SHIM_EXPORT int cusolverDnSetStream(const void* handle, gpemu_cuda_stream_handle stream) {
  Solver* const solver = find_object<Solver>(handle);
  if (solver == nullptr) {
    return kNotInitialized;
  }
  solver->stream = stream;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cusolverDnGetStream(const void* handle, gpemu_cuda_stream_handle* stream) {
  const Solver* const solver = find_object<Solver>(handle);
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
