// SPDX-License-Identifier: Apache-2.0
// Copies from page-locked memory run at the speed of the link; what is copied from the program's
// own memory comes back.
#include <vector>

#include "sample.cuh"

int main() {
  print_device();
  constexpr size_t kBytes = size_t{256} << 20;
  char* pinned;
  char* device;
  CHECK(cudaMallocHost(&pinned, kBytes));
  CHECK(cudaMalloc(&device, kBytes));
  // The first use of memory is the host's page faults, not the link.
  CHECK(cudaMemcpy(device, pinned, kBytes, cudaMemcpyHostToDevice));
  const double to_device =
      milliseconds([&] { CHECK(cudaMemcpyAsync(device, pinned, kBytes, cudaMemcpyHostToDevice)); });
  std::vector<char> pageable(kBytes);
  for (size_t index = 0; index < kBytes; index += 4096) {
    pageable[index] = static_cast<char>(index >> 12);
  }
  CHECK(cudaMemcpy(device, pageable.data(), kBytes, cudaMemcpyHostToDevice));
  pageable.assign(kBytes, 0);
  const double to_host = milliseconds(
      [&] { CHECK(cudaMemcpy(pageable.data(), device, kBytes, cudaMemcpyDeviceToHost)); });
  // From PCIe 3.0 x16, of which about 12 GB/s arrive, to NVLink-C2C.
  expect("pinned, host to device", kBytes / to_device / 1e6, 8, 450, "GB/s");
  expect("pageable, device to host", kBytes / to_host / 1e6, 1, kBytes / to_device / 1e6, "GB/s");
  for (size_t index = 0; index < kBytes; index += 4096) {
    if (pageable[index] != static_cast<char>(index >> 12)) {
      std::printf("byte %zu differs\n", index);
      return 1;
    }
  }
  CHECK(cudaFreeHost(pinned));
}
