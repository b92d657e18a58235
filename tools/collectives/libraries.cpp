// SPDX-License-Identifier: Apache-2.0
#include "collectives/libraries.hpp"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>

#include <fmt/core.h>

namespace gpemu::collectives {
namespace {

void* open_any(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* const library = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return library;
  }
  stop(
      fmt::format("cannot load {}: {}; run this program on a machine with CUDA and NCCL, or as "
                  "`gpemu run --gpu A100-SXM4-80GB:8 -- gpemu-collectives`",
                  *names.begin(), ::dlerror()));
}

template <typename Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) stop(fmt::format("the library has no {}", name));
}

Libraries load_libraries() {
  Libraries all;
  void* const cuda = open_any({"libcudart.so.12", "libcudart.so.13", "libcudart.so"});
  load(cuda, "cudaSetDevice", all.set_device);
  load(cuda, "cudaGetDeviceCount", all.device_count);
  load(cuda, "cudaMalloc", all.allocate);
  load(cuda, "cudaFree", all.free);
  load(cuda, "cudaMemcpy", all.copy);
  load(cuda, "cudaMemset", all.set);
  load(cuda, "cudaStreamCreate", all.create_stream);
  load(cuda, "cudaStreamSynchronize", all.synchronize);
  load(cuda, "cudaGetErrorString", all.cuda_error);
  void* const nccl = open_any({"libnccl.so.2"});
  load(nccl, "ncclGetUniqueId", all.unique_id);
  load(nccl, "ncclCommInitRank", all.init_rank);
  load(nccl, "ncclCommDestroy", all.destroy);
  load(nccl, "ncclGroupStart", all.group_start);
  load(nccl, "ncclGroupEnd", all.group_end);
  load(nccl, "ncclAllReduce", all.all_reduce);
  load(nccl, "ncclReduce", all.reduce);
  load(nccl, "ncclBroadcast", all.broadcast);
  load(nccl, "ncclAllGather", all.all_gather);
  load(nccl, "ncclReduceScatter", all.reduce_scatter);
  load(nccl, "ncclSend", all.send);
  load(nccl, "ncclRecv", all.receive);
  load(nccl, "ncclGetErrorString", all.nccl_error);
  return all;
}

}  // namespace

const Libraries& libraries() {
  static const Libraries all = load_libraries();
  return all;
}

void check_cuda(int status, const char* call) {
  if (status != 0) stop(fmt::format("{} failed: {}", call, libraries().cuda_error(status)));
}

void check_nccl(int status, const char* call) {
  if (status != 0) stop(fmt::format("{} failed: {}", call, libraries().nccl_error(status)));
}

void stop(const std::string& message) {
  std::fflush(stdout);
  fmt::print(stderr, "gpemu-collectives: {}\n", message);
  std::_Exit(1);
}

}  // namespace gpemu::collectives
