// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>

#include "gpemu/cuda.h"

/// A library's statuses for failed calls of libgpemu.
struct FailureStatuses {
  int not_initialized;
  int out_of_memory;
  int other;
};

/// Returns a library's status for a status of libgpemu. Success is 0 in every library.
constexpr int library_status(gpemu_cuda_status status, const FailureStatuses& failures) {
  switch (status) {
    case GPEMU_CUDA_SUCCESS:
      return 0;
    case GPEMU_CUDA_ERROR_NOT_INITIALIZED:
    case GPEMU_CUDA_ERROR_DEVICE_UNAVAILABLE:
    case GPEMU_CUDA_ERROR_NO_DEVICE:
      return failures.not_initialized;
    case GPEMU_CUDA_ERROR_OUT_OF_MEMORY:
      return failures.out_of_memory;
    default:
      return failures.other;
  }
}

/// Yields the part of a version that a cudaLibraryPropertyType names: major, minor or patch.
/// Returns 0, or `invalid` if there is no such part.
constexpr int put_property(const int (&version)[3], int type, int* value, int invalid) {
  if (type < 0 || type >= static_cast<int>(std::size(version)) || value == nullptr) {
    return invalid;
  }
  *value = version[type];
  return 0;
}
