// SPDX-License-Identifier: Apache-2.0
// The functions that do not return a CUfileError_t.
#include <sys/types.h>

#include "abi.hpp"
#include "shim.hpp"

namespace {

ssize_t refuse(const char* function) {
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, function);
  return -kPlatformNotSupported;
}

}  // namespace

GPEMU_SHIM_EXPORT ssize_t cuFileRead(void*, void*, size_t, off_t, off_t) {
  return refuse("cuFileRead");
}
GPEMU_SHIM_EXPORT ssize_t cuFileWrite(void*, const void*, size_t, off_t, off_t) {
  return refuse("cuFileWrite");
}
GPEMU_SHIM_EXPORT void cuFileHandleDeregister(void*) {}  // no handle was ever given out
GPEMU_SHIM_EXPORT void cuFileBatchIODestroy(void*) {}
GPEMU_SHIM_EXPORT long cuFileUseCount() {
  return 0;
}
