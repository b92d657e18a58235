// SPDX-License-Identifier: Apache-2.0
#include "gpemu/service/rpc.hpp"

#include <dlfcn.h>

namespace gpemu::service {

Result<Rpc*> load_rpc(const std::filesystem::path& library) {
  // As its own functions are bound when it is loaded, what is missing is found here.
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = handle != nullptr ? ::dlsym(handle, "gpemu_grpc") : nullptr;
  if (function == nullptr) {
    const char* reason = ::dlerror();
    return fail(ErrorCode::kUnsupported,
                "remote preprocessing needs gRPC, which this build of gpemu lacks: {}",
                reason != nullptr ? reason : "no reason is known");
  }
  return reinterpret_cast<Rpc* (*)()>(function)();
}

}  // namespace gpemu::service
