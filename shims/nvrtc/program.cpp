// SPDX-License-Identifier: Apache-2.0
// Keeps programs and refuses to compile them: NVIDIA's own library needs no GPU and compiles.
#include <cstring>
#include <memory>

#include "abi.hpp"
#include "handle_table.hpp"
#include "shim.hpp"

namespace {

constexpr char kLog[] =
    "gpemu does not compile CUDA C++ at run time. Install NVIDIA's compiler, which needs no GPU: "
    "pip install nvidia-cuda-nvrtc (for CUDA 12: nvidia-cuda-nvrtc-cu12)\n";

struct Program {};

}  // namespace

GPEMU_SHIM_EXPORT int nvrtcCreateProgram(void** program, const char* source, const char*,
                                         int headers, const char* const* header_sources,
                                         const char* const* header_names) {
  if (program == nullptr || source == nullptr || headers < 0 ||
      (headers > 0 && (header_sources == nullptr || header_names == nullptr))) {
    return kInvalidInput;
  }
  *program = alive<Program>().add(std::make_unique<Program>());
  return kSuccess;
}

GPEMU_SHIM_EXPORT int nvrtcDestroyProgram(void** program) {
  if (program == nullptr) {
    return kInvalidProgram;
  }
  if (!alive<Program>().remove(*program)) {
    return kInvalidProgram;
  }
  *program = nullptr;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int nvrtcAddNameExpression(const void* program, const char* name) {
  if (find_object<Program>(program) == nullptr) {
    return kInvalidProgram;
  }
  return name == nullptr ? kInvalidInput : kSuccess;
}

GPEMU_SHIM_EXPORT int nvrtcCompileProgram(const void* program, int options,
                                          const char* const* texts) {
  if (find_object<Program>(program) == nullptr) {
    return kInvalidProgram;
  }
  if (options < 0 || (options > 0 && texts == nullptr)) {
    return kInvalidInput;
  }
  gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "nvrtcCompileProgram");
  return kCompilation;
}

GPEMU_SHIM_EXPORT int nvrtcGetProgramLogSize(const void* program, size_t* size) {
  if (find_object<Program>(program) == nullptr) {
    return kInvalidProgram;
  }
  if (size == nullptr) {
    return kInvalidInput;
  }
  *size = sizeof(kLog);
  return kSuccess;
}

GPEMU_SHIM_EXPORT int nvrtcGetProgramLog(const void* program, char* log) {
  if (find_object<Program>(program) == nullptr) {
    return kInvalidProgram;
  }
  if (log == nullptr) {
    return kInvalidInput;
  }
  std::memcpy(log, kLog, sizeof(kLog));
  return kSuccess;
}
