// SPDX-License-Identifier: Apache-2.0
// Calls the shims from the destructor of a static, as PyTorch does when it ends: after the
// variables of the thread and the globals of the libraries would have ended.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace {

constexpr int kPushes = 3;

void require(bool condition, const char* what) {
  if (condition) {
    return;
  }
  std::fprintf(stderr, "%s\n", what);
  std::_Exit(1);
}

void* open(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, path);
  return library;
}

template <typename... Arguments>
int call(void* library, const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
  require(function != nullptr, name);
  return function(arguments...);
}

// Libraries whose handles are pointers.
struct Library {
  const char* path;
  const char* create;
  const char* destroy;
  void* library = nullptr;
  void* handle = nullptr;
};

class LateCaller {
 public:
  void start() {
    driver_ = open(GPEMU_TEST_DRIVER);
    require(call(driver_, "cuInit", 0U) == 0, "cuInit");
    require(call(driver_, "cuDevicePrimaryCtxRetain", &context_, 0) == 0, "retain");
    for (int i = 0; i < kPushes; ++i) {
      require(call(driver_, "cuCtxPushCurrent_v2", context_) == 0, "push");
    }
    for (Library& each : libraries_) {
      each.library = open(each.path);
      require(call(each.library, each.create, &each.handle) == 0, each.create);
    }
    cufft_ = open(GPEMU_TEST_CUFFT);
    require(call(cufft_, "cufftCreate", &plan_) == 0, "cufftCreate");
  }

  ~LateCaller() {
    unsigned flags = 0;
    int active = 0;
    require(call(driver_, "cuDevicePrimaryCtxGetState", 0, &flags, &active) == 0 && active == 1,
            "the primary context stays until the process has ended");
    for (int i = 0; i < kPushes; ++i) {
      void* popped = nullptr;
      require(call(driver_, "cuCtxPopCurrent_v2", &popped) == 0 && popped == context_,
              "the stack of contexts stays until the thread has ended");
    }
    for (Library& each : libraries_) {
      require(call(each.library, each.destroy, each.handle) == 0, each.destroy);
    }
    require(call(cufft_, "cufftDestroy", plan_) == 0, "cufftDestroy");
    std::puts("late calls answered");
  }

 private:
  void* driver_ = nullptr;
  void* context_ = nullptr;
  void* cufft_ = nullptr;
  int plan_ = 0;
  Library libraries_[3] = {
      {.path = GPEMU_TEST_CUSPARSE, .create = "cusparseCreate", .destroy = "cusparseDestroy"},
      {.path = GPEMU_TEST_CUSOLVER, .create = "cusolverDnCreate", .destroy = "cusolverDnDestroy"},
      {.path = GPEMU_TEST_CUBLAS, .create = "cublasCreate_v2", .destroy = "cublasDestroy_v2"}};
};

LateCaller late_caller;

}  // namespace

int main() {
  setenv("GPEMU_GPU", "V100-PCIE-32GB", 1);
  setenv("GPEMU_CLOCK", "virtual", 1);
  late_caller.start();
  return 0;
}
