// SPDX-License-Identifier: Apache-2.0
// Drives the shims of the runtime, cuBLAS and cuDNN with calls in any order and with any
// arguments: null pointers, freed pointers, dead handles, sizes beyond memory. None may crash. Only
// faults that NVIDIA's driver could not survive either are left out: host pointers that are not the
// program's.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" {
struct Dim3 {
  uint32_t x, y, z;
};
struct Pitched {
  void* pointer;
  size_t pitch, width, height;
};
struct Extent {
  size_t width, height, depth;
};
struct Copy3D {
  void* source_array;
  size_t source_position[3];
  Pitched source;
  void* destination_array;
  size_t destination_position[3];
  Pitched destination;
  Extent extent;
  int kind;
};
struct PoolProperties {
  int type, handles, location, device;
  void* security;
  size_t max_bytes;
  char reserved[56];
};
struct LaunchConfig {
  Dim3 grid, block;
  size_t shared;
  void* stream;
  const void* attributes;
  unsigned attribute_count;
};
// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier): NVIDIA's names.
int cudaMalloc(void**, size_t);
int cudaMalloc3D(Pitched*, Extent);
int cudaMallocPitch(void**, size_t*, size_t, size_t);
int cudaMallocFromPoolAsync(void**, size_t, void*, void*);
int cudaMemset3DAsync(Pitched, int, Extent, void*);
int cudaMemcpy3D(const Copy3D*);
int cudaMemcpyPeer(void*, int, const void*, int, size_t);
int cudaMemGetInfo(size_t*, size_t*);
int cudaHostRegister(void*, size_t, unsigned);
int cudaHostUnregister(void*);
int cudaHostGetDevicePointer(void**, void*, unsigned);
int cudaHostGetFlags(unsigned*, void*);
int cudaMemPoolCreate(void**, const PoolProperties*);
int cudaMemPoolDestroy(void*);
int cudaMemPoolGetAttribute(void*, int, void*);
int cudaMemPoolSetAttribute(void*, int, void*);
int cudaMemPoolTrimTo(void*, size_t);
int cudaDeviceGetDefaultMemPool(void**, int);
int cudaDeviceSetMemPool(int, void*);
int cudaFuncGetAttributes(void*, const void*);
int cudaFuncGetName(const char**, const void*);
int cudaGetSymbolAddress(void**, const void*);
int cudaGetSymbolSize(size_t*, const void*);
int cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, int);
int cudaMemcpyFromSymbol(void*, const void*, size_t, size_t, int);
int cudaLaunchKernelExC(const LaunchConfig*, const void*, void**);
int cudaLaunchHostFunc(void*, void (*)(void*), void*);
int cudaStreamGetFlags(void*, unsigned*);
int cudaStreamGetPriority(void*, int*);
int cudaDeviceGetPCIBusId(char*, int, int);
int cudaDeviceGetByPCIBusId(int*, const char*);
int cudaGraphClone(void**, void*);
int cudaGraphGetNodes(void*, void**, size_t*);
int cudaGraphDestroyNode(void*);
int cudaGraphAddChildGraphNode(void**, void*, void* const*, size_t, void*);
int cudaGraphExecUpdate(void*, void*, void*);
int cublasCreate_v2(void**);
int cublasDestroy_v2(void*);
int cublasSetStream_v2(void*, void*);
int cublasSgemm_v2(void*, int, int, int, int, int, const float*, const float*, int, const float*,
                   int, const float*, float*, int);
int cublasSnrm2_v2(void*, int, const float*, int, float*);
int cudnnCreate(void**);
int cudnnDestroy(void*);
int cudnnSetStream(void*, void*);
int cudnnCreateTensorDescriptor(void**);
int cudnnDestroyTensorDescriptor(void*);
int cudnnSetTensor4dDescriptor(void*, int, int, int, int, int, int);
int cudnnGetConvolutionForwardWorkspaceSize(void*, void*, void*, void*, void*, int, size_t*);
int cudaMallocManaged(void**, size_t, unsigned);
int cudaMallocAsync(void**, size_t, void*);
int cudaFree(void*);
int cudaFreeAsync(void*, void*);
int cudaHostAlloc(void**, size_t, unsigned);
int cudaFreeHost(void*);
int cudaMemcpy(void*, const void*, size_t, int);
int cudaMemcpyAsync(void*, const void*, size_t, int, void*);
int cudaMemcpy2DAsync(void*, size_t, const void*, size_t, size_t, size_t, int, void*);
int cudaMemsetAsync(void*, int, size_t, void*);
int cudaMemset2D(void*, size_t, int, size_t, size_t);
int cudaPointerGetAttributes(void*, const void*);
int cudaStreamCreateWithPriority(void**, unsigned, int);
int cudaStreamDestroy(void*);
int cudaStreamSynchronize(void*);
int cudaStreamQuery(void*);
int cudaStreamWaitEvent(void*, void*, unsigned);
int cudaStreamBeginCapture(void*, int);
int cudaStreamEndCapture(void*, void**);
int cudaStreamIsCapturing(void*, int*);
int cudaEventCreateWithFlags(void**, unsigned);
int cudaEventDestroy(void*);
int cudaEventRecordWithFlags(void*, void*, unsigned);
int cudaEventQuery(void*);
int cudaEventSynchronize(void*);
int cudaEventElapsedTime(float*, void*, void*);
int cudaLaunchKernel(const void*, Dim3, Dim3, void**, size_t, void*);
int cudaFuncSetAttribute(const void*, int, int);
int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int*, const void*, int, size_t);
int cudaGraphCreate(void**, unsigned);
int cudaGraphDestroy(void*);
int cudaGraphAddEmptyNode(void**, void*, void* const*, size_t);
int cudaGraphInstantiate(void**, void*, unsigned long long);
int cudaGraphLaunch(void*, void*);
int cudaGraphExecDestroy(void*);
int cudaSetDevice(int);
int cudaDeviceGetAttribute(int*, int, int);
int cudaDeviceSynchronize();
int cudaGetLastError();
const char* cudaGetErrorString(int);
void __cudaRegisterFunction(void**, const char*, char*, const char*, int, void*, void*, void*,
                            void*, int*);
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int);
// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier)
}

namespace {

constexpr size_t kHostBytes = size_t{64} << 10;
constexpr size_t kSlots = 4;

/// The objects made by the calls so far, dead or alive.
struct State {
  void* memory[kSlots] = {};
  void* pinned[kSlots] = {};
  void* streams[kSlots] = {};
  void* events[kSlots] = {};
  void* graphs[kSlots] = {};
  void* executables[kSlots] = {};
  void* nodes[kSlots] = {};
  void* pools[kSlots] = {};
  void* blas[kSlots] = {};
  void* dnn[kSlots] = {};
  void* tensors[kSlots] = {};
};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}

  [[nodiscard]] bool empty() const { return data_ == end_; }
  uint8_t byte() { return empty() ? uint8_t{0} : *data_++; }
  uint32_t word() {
    uint32_t value = 0;
    for (int index = 0; index < 4; ++index) {
      value = value << 8 | byte();
    }
    return value;
  }
  /// A size: small, odd, or beyond any memory.
  size_t size() {
    const uint8_t kind = byte();
    return kind < 200 ? word() % (kHostBytes + 1) : kind < 250 ? size_t{word()} << 20 : SIZE_MAX;
  }
  /// A size that a buffer of kHostBytes holds, or one that no allocation does.
  size_t copy_size() { return byte() < 240 ? word() % (kHostBytes + 1) : size_t{1} << 60; }
  /// One of the slots, now and then null or a number that was never a handle.
  void* any(void* const (&slots)[kSlots]) {
    const uint8_t kind = byte();
    return kind < 240   ? slots[kind % kSlots]
           : kind < 248 ? nullptr
                        : reinterpret_cast<void*>(uintptr_t{kind} * 8191);
  }
  void* any_stream(const State& state) {
    const uint8_t kind = byte();
    return kind < 16 ? reinterpret_cast<void*>(uintptr_t{kind} % 3) : any(state.streams);
  }
  /// Device memory, dead or alive, with an offset.
  void* device(const State& state) {
    auto* const memory = static_cast<char*>(state.memory[byte() % kSlots]);
    return memory == nullptr ? nullptr : memory + byte() % 64;
  }

 private:
  const uint8_t* data_;
  const uint8_t* end_;
};

char kernel_stub;
char variable_stub;
constexpr size_t kVariableBytes = 64;
std::vector<char> host_memory(kHostBytes);

void use_memory(State& state, Input& input) {
  void** const slot = &state.memory[input.byte() % kSlots];
  switch (input.byte() % 8) {
    case 0:
      cudaMalloc(input.byte() < 8 ? nullptr : slot, input.size());
      break;
    case 1:
      cudaMallocAsync(slot, input.size(), input.any_stream(state));
      break;
    case 2:
      cudaMallocManaged(slot, input.copy_size(), input.byte() % 4);
      break;
    case 3:
      cudaFree(input.any(state.memory));
      break;
    case 4:
      cudaFreeAsync(input.any(state.memory), input.any_stream(state));
      break;
    case 5:
      cudaHostAlloc(&state.pinned[input.byte() % kSlots], input.copy_size(), 0);
      break;
    case 6:
      cudaFreeHost(input.any(state.pinned));
      break;
    default: {
      char attributes[88];
      cudaPointerGetAttributes(input.byte() < 8 ? nullptr : attributes, input.any(state.memory));
    }
  }
}

void copy(State& state, Input& input) {
  void* const device = input.device(state);
  void* const stream = input.any_stream(state);
  switch (input.byte() % 7) {
    case 0:
      cudaMemcpy(device, host_memory.data(), input.copy_size(), 1);
      break;
    case 1:
      cudaMemcpy(host_memory.data(), device, input.copy_size(), 2);
      break;
    case 2:
      cudaMemcpyAsync(device, input.device(state), input.size(), 3, stream);
      break;
    case 3:
      cudaMemcpyAsync(device, host_memory.data(), input.copy_size(), 1, stream);
      break;
    case 4:
      cudaMemcpy2DAsync(device, input.word(), host_memory.data(), input.byte(), input.byte(),
                        input.byte(), 1, stream);
      break;
    case 5:
      cudaMemsetAsync(device, input.byte(), input.size(), stream);
      break;
    default:
      cudaMemset2D(device, input.size(), input.byte(), input.size(), input.word() % 64);
  }
}

void use_streams(State& state, Input& input) {
  void* const stream = input.any_stream(state);
  void* const event = input.any(state.events);
  float elapsed = 0;
  int capturing = 0;
  const uint8_t slot = input.byte() % kSlots;
  switch (input.byte() % 13) {
    case 0:
      cudaStreamCreateWithPriority(&state.streams[slot], input.byte(), input.byte());
      break;
    case 1:
      cudaStreamDestroy(stream);
      break;
    case 2:
      cudaStreamSynchronize(stream);
      break;
    case 3:
      cudaStreamQuery(stream);
      break;
    case 4:
      cudaStreamWaitEvent(stream, event, input.byte() % 3);
      break;
    case 5:
      cudaEventCreateWithFlags(&state.events[slot], input.byte() % 16);
      break;
    case 6:
      cudaEventDestroy(event);
      break;
    case 7:
      cudaEventRecordWithFlags(event, stream, input.byte() % 3);
      break;
    case 8:
      cudaEventQuery(event);
      break;
    case 9:
      cudaEventSynchronize(event);
      break;
    case 10:
      cudaEventElapsedTime(&elapsed, event, input.any(state.events));
      break;
    case 11:
      cudaStreamIsCapturing(stream, &capturing);
      break;
    default:
      cudaDeviceSynchronize();
  }
}

void use_graphs(State& state, Input& input) {
  void* const stream = input.any_stream(state);
  void* const graph = input.any(state.graphs);
  const uint8_t slot = input.byte() % kSlots;
  size_t count = kSlots;
  char result[24];
  switch (input.byte() % 13) {
    case 8:
      cudaGraphClone(&state.graphs[slot], graph);
      break;
    case 9:
      cudaGraphGetNodes(graph, state.nodes, &count);
      break;
    case 10:
      cudaGraphDestroyNode(input.any(state.nodes));
      break;
    case 11:
      cudaGraphAddChildGraphNode(&state.nodes[slot], graph, state.nodes, input.byte() % kSlots,
                                 input.any(state.graphs));
      break;
    case 12:
      cudaGraphExecUpdate(input.any(state.executables), graph, input.byte() < 8 ? nullptr : result);
      break;
    case 0:
      cudaStreamBeginCapture(stream, input.byte() % 5 - 1);
      break;
    case 1:
      cudaStreamEndCapture(stream, &state.graphs[slot]);
      break;
    case 2:
      cudaGraphCreate(&state.graphs[slot], input.byte() % 2);
      break;
    case 3:
      cudaGraphDestroy(graph);
      break;
    case 4:
      cudaGraphAddEmptyNode(&state.nodes[slot], graph, state.nodes, input.byte() % kSlots);
      break;
    case 5:
      cudaGraphInstantiate(&state.executables[slot], graph, input.byte() % 20);
      break;
    case 6:
      cudaGraphLaunch(input.any(state.executables), stream);
      break;
    default:
      cudaGraphExecDestroy(input.any(state.executables));
  }
}

void use_kernels(State& state, Input& input) {
  const void* const function = input.byte() < 8 ? nullptr : &kernel_stub;
  int value = 0;
  switch (input.byte() % 4) {
    case 0: {
      const Dim3 grid{input.word(), input.byte(), input.byte()};
      const Dim3 block{input.word() % 2048, input.byte() % 4U, input.byte() % 4U};
      cudaLaunchKernel(function, grid, block, nullptr, input.size(), input.any_stream(state));
      break;
    }
    case 1:
      cudaFuncSetAttribute(function, input.byte() % 20, static_cast<int>(input.word()));
      break;
    case 2:
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&value, function,
                                                    static_cast<int>(input.word()), input.size());
      break;
    default:
      cudaDeviceGetAttribute(&value, input.byte(), input.byte() % 4 - 1);
      cudaSetDevice(input.byte() % 4 - 1);
      (void)cudaGetErrorString(cudaGetLastError());
  }
}

void use_pitched(State& state, Input& input) {
  void** const slot = &state.memory[input.byte() % kSlots];
  Pitched pitched{input.device(state), input.word(), input.byte(), input.byte()};
  size_t pitch = 0;
  switch (input.byte() % 5) {
    case 0:
      if (cudaMalloc3D(input.byte() < 8 ? nullptr : &pitched,
                       {input.word() % 4096, input.byte(), input.byte()}) == 0) {
        *slot = pitched.pointer;
      }
      break;
    case 1:
      cudaMallocPitch(slot, input.byte() < 8 ? nullptr : &pitch, input.size(), input.word() % 64);
      break;
    case 2:
      cudaMemset3DAsync(pitched, input.byte(), {input.size(), input.byte(), input.byte()},
                        input.any_stream(state));
      break;
    case 3: {
      // Rows of at most 255 bytes in 15 planes of 15 rows fit the host's memory.
      const Pitched host{host_memory.data(), 255, 255, 15};
      const bool up = input.byte() % 2 == 0;
      const Copy3D copy{.source_array = input.byte() < 4 ? &pitch : nullptr,
                        .source_position = {},
                        .source = up ? host : pitched,
                        .destination_array = nullptr,
                        .destination_position = {},
                        .destination = up ? pitched : host,
                        .extent = {input.byte(), input.byte() % 16U, input.byte() % 16U},
                        .kind = up ? 1 : 2};
      cudaMemcpy3D(input.byte() < 8 ? nullptr : &copy);
      break;
    }
    default:
      cudaMemcpyPeer(input.device(state), input.byte() % 3 - 1, pitched.pointer,
                     input.byte() % 3 - 1, input.size());
  }
}

void use_pools(State& state, Input& input) {
  void** const slot = &state.pools[input.byte() % kSlots];
  uint64_t value = input.size();
  switch (input.byte() % 8) {
    case 0: {
      const PoolProperties properties{.type = input.byte() % 3,
                                      .handles = input.byte() % 3,
                                      .location = input.byte() % 3,
                                      .device = input.byte() % 3 - 1,
                                      .security = nullptr,
                                      .max_bytes = input.size(),
                                      .reserved = {}};
      cudaMemPoolCreate(slot, input.byte() < 8 ? nullptr : &properties);
      break;
    }
    case 1:
      cudaMemPoolDestroy(input.any(state.pools));
      break;
    case 2:
      cudaMallocFromPoolAsync(&state.memory[input.byte() % kSlots], input.size(),
                              input.any(state.pools), input.any_stream(state));
      break;
    case 3:
      cudaMemPoolSetAttribute(input.any(state.pools), input.byte() % 12,
                              input.byte() < 8 ? nullptr : &value);
      break;
    case 4:
      cudaMemPoolGetAttribute(input.any(state.pools), input.byte() % 12,
                              input.byte() < 8 ? nullptr : &value);
      break;
    case 5:
      cudaMemPoolTrimTo(input.any(state.pools), value);
      break;
    case 6:
      cudaDeviceGetDefaultMemPool(slot, input.byte() % 3 - 1);
      break;
    default:
      cudaDeviceSetMemPool(input.byte() % 3 - 1, input.any(state.pools));
  }
}

void use_host_memory(State& state, Input& input) {
  void* const memory = input.byte() < 128 ? host_memory.data() : input.any(state.pinned);
  void* address = nullptr;
  unsigned flags = 0;
  size_t free_bytes = 0;
  switch (input.byte() % 5) {
    case 0:
      cudaHostRegister(host_memory.data() + input.byte(), 1 + input.word() % 4096,
                       input.byte() % 16);
      break;
    case 1:
      cudaHostUnregister(input.byte() < 64 ? nullptr : host_memory.data() + input.byte());
      break;
    case 2:
      cudaHostGetDevicePointer(input.byte() < 8 ? nullptr : &address, memory, input.byte() % 2);
      break;
    case 3:
      cudaHostGetFlags(input.byte() < 8 ? nullptr : &flags, memory);
      break;
    default:
      cudaMemGetInfo(input.byte() < 8 ? nullptr : &free_bytes, &free_bytes);
  }
}

void use_symbols(State& state, Input& input) {
  const void* const symbol = input.byte() < 8 ? nullptr : &variable_stub;
  const void* const function = input.byte() < 8 ? &variable_stub : &kernel_stub;
  void* address = nullptr;
  const char* name = nullptr;
  size_t bytes = 0;
  char attributes[144];
  switch (input.byte() % 7) {
    case 0:
      cudaGetSymbolAddress(input.byte() < 8 ? nullptr : &address, symbol);
      break;
    case 1:
      cudaGetSymbolSize(input.byte() < 8 ? nullptr : &bytes, symbol);
      break;
    case 2:
      cudaMemcpyToSymbol(symbol, host_memory.data(), input.copy_size(), input.size(),
                         input.byte() % 6);
      break;
    case 3:
      cudaMemcpyFromSymbol(host_memory.data(), symbol, input.copy_size(), input.size(),
                           input.byte() % 6);
      break;
    case 4:
      cudaFuncGetAttributes(input.byte() < 8 ? nullptr : attributes, function);
      break;
    case 5:
      cudaFuncGetName(input.byte() < 8 ? nullptr : &name, function);
      break;
    default: {
      const LaunchConfig config{{input.word(), input.byte(), input.byte()},
                                {input.word() % 2048, input.byte(), input.byte()},
                                input.size(),
                                input.any_stream(state),
                                nullptr,
                                input.byte() % 2U};
      cudaLaunchKernelExC(input.byte() < 8 ? nullptr : &config, function, nullptr);
    }
  }
}

void use_libraries(State& state, Input& input) {
  const uint8_t slot = input.byte() % kSlots;
  void* const blas = input.any(state.blas);
  void* const dnn = input.any(state.dnn);
  void* const tensor = input.any(state.tensors);
  const auto* const device = static_cast<const float*>(input.device(state));
  const auto small = [&input] { return input.byte() - 8; };
  const float one = 1;
  float result = 0;
  size_t bytes = 0;
  switch (input.byte() % 12) {
    case 0:
      cublasCreate_v2(input.byte() < 8 ? nullptr : &state.blas[slot]);
      break;
    case 1:
      cublasDestroy_v2(blas);
      break;
    case 2:
      cublasSetStream_v2(blas, input.any_stream(state));
      break;
    case 3:
      cublasSgemm_v2(blas, small(), small(), small(), small(), small(), &one, device, small(),
                     device, small(), input.byte() < 8 ? nullptr : &one, nullptr, small());
      break;
    case 4:
      cublasSnrm2_v2(blas, small(), device, small(), input.byte() < 8 ? nullptr : &result);
      break;
    case 5:
      cudnnCreate(input.byte() < 8 ? nullptr : &state.dnn[slot]);
      break;
    case 6:
      cudnnDestroy(dnn);
      break;
    case 7:
      cudnnSetStream(dnn, input.any_stream(state));
      break;
    case 8:
      cudnnCreateTensorDescriptor(input.byte() < 8 ? nullptr : &state.tensors[slot]);
      break;
    case 9:
      cudnnDestroyTensorDescriptor(tensor);
      break;
    case 10:
      cudnnSetTensor4dDescriptor(tensor, small(), small(), static_cast<int>(input.word()), small(),
                                 small(), static_cast<int>(input.word()));
      break;
    default:
      cudnnGetConvolutionForwardWorkspaceSize(dnn, tensor, tensor, tensor, tensor, small(),
                                              input.byte() < 8 ? nullptr : &bytes);
  }
}

void do_nothing(void* /*data*/) {}

void ask(State& state, Input& input) {
  unsigned flags = 0;
  int value = 0;
  char text[16];
  switch (input.byte() % 5) {
    case 0:
      cudaStreamGetFlags(input.any_stream(state), input.byte() < 8 ? nullptr : &flags);
      break;
    case 1:
      cudaStreamGetPriority(input.any_stream(state), input.byte() < 8 ? nullptr : &value);
      break;
    case 2:
      cudaDeviceGetPCIBusId(text, input.byte() % 20 - 2, input.byte() % 3 - 1);
      break;
    case 3:
      cudaDeviceGetByPCIBusId(&value, input.byte() < 128 ? "0000:01:00.0" : "x");
      break;
    default:
      cudaLaunchHostFunc(input.any_stream(state), input.byte() < 8 ? nullptr : do_nothing, nullptr);
  }
}

/// Copies that are moved in parallel with the program, and calls that race with them.
void copy_beside(State& state, Input& input) {
  static void* pinned = nullptr;
  constexpr size_t kLarge = size_t{1} << 20;
  if (pinned == nullptr) cudaHostAlloc(&pinned, 2 * kLarge, 0);
  if (pinned == nullptr) return;
  void** const slot = &state.memory[input.byte() % kSlots];
  void* const stream = input.any_stream(state);
  const size_t size = kLarge + input.word() % kLarge;
  switch (input.byte() % 6) {
    case 0:
      cudaMalloc(slot, 2 * kLarge);
      break;
    case 1:
      cudaMemcpyAsync(*slot, pinned, size, 1, stream);
      break;
    case 2:
      cudaMemcpyAsync(pinned, *slot, size, 2, stream);
      break;
    case 3:
      cudaMemcpyAsync(*slot, input.device(state), size, 3, stream);
      break;
    case 4:
      cudaFree(*slot);
      break;
    default:
      cudaStreamQuery(stream);
  }
}

/// Frees everything, so that inputs do not add up.
void clean_up(State& state) {
  for (void* stream : state.streams) {
    void* graph = nullptr;
    cudaStreamEndCapture(stream, &graph);
    cudaGraphDestroy(graph);
  }
  cudaDeviceSynchronize();
  cudaDeviceSetMemPool(0, nullptr);
  // Where a registration may begin.
  for (size_t offset = 0; offset < 256; ++offset) cudaHostUnregister(host_memory.data() + offset);
  for (size_t slot = 0; slot < kSlots; ++slot) {
    cublasDestroy_v2(state.blas[slot]);
    cudnnDestroy(state.dnn[slot]);
    cudnnDestroyTensorDescriptor(state.tensors[slot]);
    cudaFree(state.memory[slot]);
    cudaFreeHost(state.pinned[slot]);
    cudaMemPoolDestroy(state.pools[slot]);
    cudaEventDestroy(state.events[slot]);
    cudaGraphExecDestroy(state.executables[slot]);
    cudaGraphDestroy(state.graphs[slot]);
    if (state.streams[slot] != nullptr) {
      cudaStreamDestroy(state.streams[slot]);
    }
  }
}

bool prepare() {
  setenv("GPEMU_GPU", "V100-PCIE-32GB", 1);
  setenv("GPEMU_CLOCK", "virtual", 1);
  __cudaRegisterFunction(nullptr, &kernel_stub, nullptr, "_Z4stubPfi", -1, nullptr, nullptr,
                         nullptr, nullptr, nullptr);
  __cudaRegisterVar(nullptr, &variable_stub, nullptr, "variable", 0, kVariableBytes, 0, 0);
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool prepared = prepare();
  (void)prepared;
  State state;
  Input input(data, size);
  while (!input.empty()) {
    const uint8_t kind = input.byte();
    switch (kind < 250 ? kind % 11 : 11) {
      case 5:
        use_pitched(state, input);
        break;
      case 6:
        use_pools(state, input);
        break;
      case 7:
        use_host_memory(state, input);
        break;
      case 8:
        use_symbols(state, input);
        break;
      case 9:
        use_libraries(state, input);
        break;
      case 10:
        ask(state, input);
        break;
      case 11:
        copy_beside(state, input);
        break;
      case 0:
        use_memory(state, input);
        break;
      case 1:
        copy(state, input);
        break;
      case 2:
        use_streams(state, input);
        break;
      case 3:
        use_graphs(state, input);
        break;
      default:
        use_kernels(state, input);
    }
  }
  clean_up(state);
  return 0;
}
