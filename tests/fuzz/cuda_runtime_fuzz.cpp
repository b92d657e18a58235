// SPDX-License-Identifier: Apache-2.0
// Drives the runtime stand-in with calls in any order and with any arguments: null pointers, freed
// pointers, dead handles, sizes beyond memory. None may crash. Only what a GPU's driver could not
// survive either is left out: host pointers that are not the program's.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

extern "C" {
struct Dim3 {
  uint32_t x, y, z;
};
int cudaMalloc(void**, size_t);
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
}

namespace {

constexpr size_t kHostBytes = size_t{64} << 10;
constexpr size_t kSlots = 4;

/// What the calls so far have made, dead or alive.
struct State {
  void* memory[kSlots] = {};
  void* pinned[kSlots] = {};
  void* streams[kSlots] = {};
  void* events[kSlots] = {};
  void* graphs[kSlots] = {};
  void* executables[kSlots] = {};
  void* nodes[kSlots] = {};
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
  switch (input.byte() % 8) {
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

/// Gives back what is left, so that inputs do not add up.
void clean_up(State& state) {
  for (void* stream : state.streams) {
    void* graph = nullptr;
    cudaStreamEndCapture(stream, &graph);
    cudaGraphDestroy(graph);
  }
  cudaDeviceSynchronize();
  for (size_t slot = 0; slot < kSlots; ++slot) {
    cudaFree(state.memory[slot]);
    cudaFreeHost(state.pinned[slot]);
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
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool prepared = prepare();
  (void)prepared;
  State state;
  Input input(data, size);
  while (!input.empty()) {
    switch (input.byte() % 5) {
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
