// SPDX-License-Identifier: Apache-2.0
// Capture records without running; each launch of the graph costs what was recorded.
#include "sample.cuh"

__global__ void scale(int count, float* values) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) {
    values[index] *= 2;
  }
}

int main() {
  print_device();
  constexpr int kCount = 16 << 20;
  constexpr int kKernels = 20;
  float* values;
  CHECK(cudaMalloc(&values, kCount * sizeof(float)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const auto kernels = [&] {
    for (int repeat = 0; repeat < kKernels; ++repeat) {
      scale<<<(kCount + 255) / 256, 256, 0, stream>>>(kCount, values);
    }
  };
  const auto timed = [&](auto&& work) {
    cudaEvent_t start;
    cudaEvent_t end;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaEventRecord(start, stream));
    work();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    float elapsed = 0;
    CHECK(cudaEventElapsedTime(&elapsed, start, end));
    return static_cast<double>(elapsed);
  };
  const double plain = timed(kernels);

  cudaGraph_t graph;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  kernels();
  CHECK(cudaStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  expect("nodes", static_cast<double>(nodes), kKernels, kKernels, "");
  cudaGraphExec_t executable;
  CHECK(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  const double replayed = timed([&] { CHECK(cudaGraphLaunch(executable, stream)); });
  const double twice = timed([&] {
    CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaGraphLaunch(executable, stream));
  });
  expect("one launch", replayed, 0.5 * plain, 1.05 * plain, "ms");
  expect("two launches", twice, 1.9 * replayed, 2.1 * replayed, "ms");
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
}
