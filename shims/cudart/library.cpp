// SPDX-License-Identifier: Apache-2.0
// Code that programs load themselves, and functions that they look up in the driver.
#include <dlfcn.h>

#include "cuda_version_abi.hpp"
#include "cudart.hpp"

namespace {

using Library = gpemu_cuda_module_handle;

int get_variable(void** memory, size_t* bytes, Library library, const char* name) {
  return in_context([=] {
    uint64_t address = 0;
    uint64_t size = 0;
    const int status = name == nullptr || (memory == nullptr && bytes == nullptr)
                           ? kInvalidValue
                           : gpemu_cuda_module_variable(library, name, &address, &size);
    if (status == kSuccess && memory != nullptr) {
      *memory = pointer_to(address);
    }
    if (status == kSuccess && bytes != nullptr) {
      *bytes = size;
    }
    return status;
  });
}

using GetProcAddress = int (*)(const char* symbol, void** function, int version, uint64_t flags,
                               int* found);

int get_entry_point(const char* symbol, void** function, unsigned version, unsigned long long flags,
                    int* found) {
  if (symbol == nullptr || function == nullptr || flags > kPerThread) {
    return kInvalidValue;
  }
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  void* get = driver == nullptr ? nullptr : dlsym(driver, "cuGetProcAddress_v2");
  if (get == nullptr) {
    return kInsufficientDriver;
  }
  int answer = 0;
  const int status = reinterpret_cast<GetProcAddress>(get)(
      symbol, function, static_cast<int>(version), flags, &answer);
  if (status != kSuccess) {
    *function = nullptr;
  }
  if (found == nullptr) {
    return status;
  }
  // This output, and not the status, shows that a function is not known.
  *found = answer;
  return status == GPEMU_CUDA_ERROR_NOT_FOUND ? kSuccess : status;
}

}  // namespace

GPEMU_SHIM_EXPORT int cudaLibraryLoadData(Library* library, const void* image,
                                          const int* /*jit_options*/, void** /*jit_values*/,
                                          unsigned /*jit_count*/, const int* /*options*/,
                                          void** /*values*/, unsigned /*count*/) {
  return in_context([=] {
    return library == nullptr || image == nullptr ? kInvalidValue
                                                  : gpemu_cuda_module_load(image, library);
  });
}

GPEMU_SHIM_EXPORT int cudaLibraryLoadFromFile(Library* library, const char* path,
                                              const int* /*jit_options*/, void** /*jit_values*/,
                                              unsigned /*jit_count*/, const int* /*options*/,
                                              void** /*values*/, unsigned /*count*/) {
  return in_context([=] {
    return library == nullptr || path == nullptr ? kInvalidValue
                                                 : gpemu_cuda_module_load_file(path, library);
  });
}

GPEMU_SHIM_EXPORT int cudaLibraryUnload(Library library) {
  return in_context([=] { return gpemu_cuda_module_unload(library); });
}

GPEMU_SHIM_EXPORT int cudaLibraryGetKernel(Kernel* kernel, Library library, const char* name) {
  return in_context([=] {
    return kernel == nullptr || name == nullptr ? kInvalidValue
                                                : gpemu_cuda_module_kernel(library, name, kernel);
  });
}

GPEMU_SHIM_EXPORT int cudaLibraryGetKernelCount(unsigned* count, Library library) {
  return in_context([=] {
    return count == nullptr ? kInvalidValue : gpemu_cuda_module_kernel_count(library, count);
  });
}

GPEMU_SHIM_EXPORT int cudaLibraryEnumerateKernels(Kernel* kernels, unsigned count,
                                                  Library library) {
  return in_context([=] {
    return kernels == nullptr || count == 0 ? kInvalidValue
                                            : gpemu_cuda_module_kernels(library, kernels, count);
  });
}

GPEMU_SHIM_EXPORT int cudaLibraryGetGlobal(void** memory, size_t* bytes, Library library,
                                           const char* name) {
  return get_variable(memory, bytes, library, name);
}

#if GPEMU_CUDA_MAJOR < 12
GPEMU_SHIM_EXPORT int cudaGetDriverEntryPoint(const char* symbol, void** function,
                                              unsigned long long flags) {
  return record(get_entry_point(symbol, function, kCudartVersion, flags, nullptr));
}

GPEMU_SHIM_EXPORT int cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function,
                                                   unsigned long long flags) {
  return cudaGetDriverEntryPoint(symbol, function, flags == 0 ? kPerThread : flags);
}
#else
GPEMU_SHIM_EXPORT int cudaGetDriverEntryPoint(const char* symbol, void** function,
                                              unsigned long long flags, int* found) {
  return record(get_entry_point(symbol, function, kCudartVersion, flags, found));
}

// Programs compiled for per-thread default streams get functions that use them.
GPEMU_SHIM_EXPORT int cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function,
                                                   unsigned long long flags, int* found) {
  return cudaGetDriverEntryPoint(symbol, function, flags == 0 ? kPerThread : flags, found);
}
#endif

GPEMU_SHIM_EXPORT int cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                       unsigned version, unsigned long long flags,
                                                       int* found) {
  return record(get_entry_point(symbol, function, version, flags, found));
}

GPEMU_SHIM_EXPORT int cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function,
                                                            unsigned version,
                                                            unsigned long long flags, int* found) {
  return cudaGetDriverEntryPointByVersion(symbol, function, version,
                                          flags == 0 ? kPerThread : flags, found);
}

#if GPEMU_CUDA_MAJOR == 13
GPEMU_SHIM_EXPORT void* __cudaGetProcAddress(const char* /*symbol*/) {
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "__cudaGetProcAddress");
  return nullptr;
}
#endif

// Undocumented tables of functions are not offered: programs that link the runtime statically ask
// for them.
GPEMU_SHIM_EXPORT int cudaGetExportTable(const void** table, const void* id) {
  if (table == nullptr || id == nullptr) {
    return record(kInvalidValue);
  }
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "cudaGetExportTable");
  *table = nullptr;
  return record(GPEMU_CUDA_ERROR_NOT_FOUND);
}
