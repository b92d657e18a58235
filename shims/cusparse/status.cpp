// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "cusparse.hpp"
#include "library_status.hpp"

namespace {

struct StatusName {
  const char* name;
  const char* meaning;
};

// Source: cusparse.h, cusparseStatus_t, in the order of its numbers.
constexpr StatusName kStatuses[] = {
    {"CUSPARSE_STATUS_SUCCESS", "success"},
    {"CUSPARSE_STATUS_NOT_INITIALIZED", "initialization error"},
    {"CUSPARSE_STATUS_ALLOC_FAILED", "out of memory"},
    {"CUSPARSE_STATUS_INVALID_VALUE", "invalid value"},
    {"CUSPARSE_STATUS_ARCH_MISMATCH", "architecture mismatch"},
    {"CUSPARSE_STATUS_MAPPING_ERROR", "mapping error"},
    {"CUSPARSE_STATUS_EXECUTION_FAILED", "execution failed"},
    {"CUSPARSE_STATUS_INTERNAL_ERROR", "internal error"},
    {"CUSPARSE_STATUS_MATRIX_TYPE_NOT_SUPPORTED", "matrix type not supported"},
    {"CUSPARSE_STATUS_ZERO_PIVOT", "zero pivot"},
    {"CUSPARSE_STATUS_NOT_SUPPORTED", "operation not supported"},
    {"CUSPARSE_STATUS_INSUFFICIENT_RESOURCES", "insufficient resources"},
};

const StatusName* find_status(int status) {
  return status >= 0 && status < static_cast<int>(std::size(kStatuses)) ? &kStatuses[status]
                                                                        : nullptr;
}

}  // namespace

GPEMU_SHIM_EXPORT int cusparseGetVersion(const void* handle, int* version) {
  if (find_object<Sparse>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (version == nullptr) {
    return kInvalidValue;
  }
  *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseGetProperty(int type, int* value) {
  return put_property(kVersion, type, value, kInvalidValue);
}
GPEMU_SHIM_EXPORT const char* cusparseGetErrorName(int status) {
  const StatusName* entry = find_status(status);
  return entry == nullptr ? "unrecognized error code" : entry->name;
}
GPEMU_SHIM_EXPORT const char* cusparseGetErrorString(int status) {
  const StatusName* entry = find_status(status);
  return entry == nullptr ? "unrecognized error code" : entry->meaning;
}
