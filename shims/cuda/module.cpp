// SPDX-License-Identifier: Apache-2.0
// Modules and libraries: CUmodule and CUlibrary are the same here.
#include "cuda.hpp"

namespace {

int load(Module* module, const void* image) {
  return module == nullptr || image == nullptr ? kInvalidValue
                                               : gpemu_cuda_module_load(image, module);
}

int load_file(Module* module, const char* path) {
  return module == nullptr || path == nullptr ? kInvalidValue
                                              : gpemu_cuda_module_load_file(path, module);
}

int get_kernel(Kernel* kernel, Module module, const char* name) {
  return kernel == nullptr || name == nullptr ? kInvalidValue
                                              : gpemu_cuda_module_kernel(module, name, kernel);
}

int get_kernels(Kernel* kernels, unsigned count, Module module) {
  return kernels == nullptr || count == 0 ? kInvalidValue
                                          : gpemu_cuda_module_kernels(module, kernels, count);
}

int get_count(unsigned* count, Module module) {
  return count == nullptr ? kInvalidValue : gpemu_cuda_module_kernel_count(module, count);
}

int get_variable(Address* address, size_t* bytes, Module module, const char* name) {
  return in_context([=] {
    uint64_t found = 0;
    uint64_t size = 0;
    const int status =
        name == nullptr ? kInvalidValue : gpemu_cuda_module_variable(module, name, &found, &size);
    if (status == kSuccess && address != nullptr) {
      *address = found;
    }
    if (status == kSuccess && bytes != nullptr) {
      *bytes = size;
    }
    return status;
  });
}

}  // namespace

GPEMU_SHIM_EXPORT int cuModuleLoad(Module* module, const char* path) {
  return in_context([=] { return load_file(module, path); });
}

GPEMU_SHIM_EXPORT int cuModuleLoadData(Module* module, const void* image) {
  return in_context([=] { return load(module, image); });
}

// Nothing is compiled, so the compiler's options have no effect.
GPEMU_SHIM_EXPORT int cuModuleLoadDataEx(Module* module, const void* image, unsigned count,
                                         const int* options, void** values) {
  return in_context([=] {
    return count > 0 && (options == nullptr || values == nullptr) ? kInvalidValue
                                                                  : load(module, image);
  });
}

GPEMU_SHIM_EXPORT int cuModuleLoadFatBinary(Module* module, const void* image) {
  return in_context([=] { return load(module, image); });
}

GPEMU_SHIM_EXPORT int cuModuleUnload(Module module) {
  return in_context([=] { return gpemu_cuda_module_unload(module); });
}

GPEMU_SHIM_EXPORT int cuModuleGetFunction(Kernel* kernel, Module module, const char* name) {
  return in_context([=] { return get_kernel(kernel, module, name); });
}

GPEMU_SHIM_EXPORT int cuModuleGetFunctionCount(unsigned* count, Module module) {
  return get_count(count, module);
}

GPEMU_SHIM_EXPORT int cuModuleEnumerateFunctions(Kernel* kernels, unsigned count, Module module) {
  return get_kernels(kernels, count, module);
}

GPEMU_SHIM_EXPORT int cuModuleGetGlobal_v2(Address* address, size_t* bytes, Module module,
                                           const char* name) {
  return get_variable(address, bytes, module, name);
}

// The default since CUDA 12.2.
GPEMU_SHIM_EXPORT int cuModuleGetLoadingMode(int* mode) {
  return put_result(kSuccess, mode, kLazyLoading);
}

GPEMU_SHIM_EXPORT int cuLibraryLoadData(Module* library, const void* image,
                                        const int* /*jit_options*/, void** /*jit_values*/,
                                        unsigned /*jit_count*/, const int* /*options*/,
                                        void** /*values*/, unsigned /*count*/) {
  return load(library, image);
}

GPEMU_SHIM_EXPORT int cuLibraryLoadFromFile(Module* library, const char* path,
                                            const int* /*jit_options*/, void** /*jit_values*/,
                                            unsigned /*jit_count*/, const int* /*options*/,
                                            void** /*values*/, unsigned /*count*/) {
  return load_file(library, path);
}

GPEMU_SHIM_EXPORT int cuLibraryUnload(Module library) {
  return gpemu_cuda_module_unload(library);
}

GPEMU_SHIM_EXPORT int cuLibraryGetKernel(Kernel* kernel, Module library, const char* name) {
  return get_kernel(kernel, library, name);
}

GPEMU_SHIM_EXPORT int cuLibraryGetKernelCount(unsigned* count, Module library) {
  return get_count(count, library);
}

GPEMU_SHIM_EXPORT int cuLibraryEnumerateKernels(Kernel* kernels, unsigned count, Module library) {
  return get_kernels(kernels, count, library);
}

GPEMU_SHIM_EXPORT int cuLibraryGetModule(Module* module, Module library) {
  unsigned count = 0;
  return put_result(gpemu_cuda_module_kernel_count(library, &count), module, library);
}

GPEMU_SHIM_EXPORT int cuLibraryGetGlobal(Address* address, size_t* bytes, Module library,
                                         const char* name) {
  return get_variable(address, bytes, library, name);
}
