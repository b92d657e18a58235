// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"
#include "gpemu/memory/kernel_memory.hpp"

#include "test_memory.hpp"

namespace gpemu::cuda {
namespace {

class VmmTest : public MemoryTest {};

TEST_F(VmmTest, MappedContentFollowsItsHandle) {
  constexpr Bytes kSize = 2 * kMiB;
  const Bytes before = free_bytes();
  std::uint64_t a = 0, b = 0, range = 0;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, 1, &a), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, 1, &b), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), 2 * kSize);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(64 * kSize, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  std::vector<std::uint8_t> data(1000), read(1000);
  std::iota(data.begin(), data.end(), std::uint8_t{1});
  const std::uint64_t seam = range + kSize - 500;
  EXPECT_EQ(copy(seam, bits(data.data()), 1000), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_map(range, kSize, 0, a), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_vmm_map(range, kSize, 0, b), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_map(range + kSize, kSize, 0, b), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(copy(seam, bits(data.data()), 1000), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range, 2 * kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(seam, bits(data.data()), 1000), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(copy(range + 2 * kSize - 500, bits(data.data()), 1000), GPEMU_CUDA_ERROR_INVALID_VALUE);
  // The handles swap places, and so do the halves.
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, 2 * kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range + kSize, kSize, 0, a), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range + kSize, kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(bits(read.data()), range + 2 * kSize - 500, 500), GPEMU_CUDA_SUCCESS);
  EXPECT_TRUE(std::equal(read.begin(), read.begin() + 500, data.begin()));
  ASSERT_EQ(gpemu_cuda_set_memory(range + kSize, 0, 0, 1, kSize, 1, nullptr), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(copy(bits(read.data()), range + 2 * kSize - 500, 500), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::accumulate(read.begin(), read.begin() + 500, 0), 0);
  // Released memory stays while it is mapped.
  ASSERT_EQ(gpemu_cuda_vmm_release(a), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_release(b), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), kSize);
  EXPECT_EQ(gpemu_cuda_vmm_unreserve(range, 64 * kSize), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range + kSize, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 64 * kSize), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(VmmTest, ImportsExportedMemory) {
  constexpr Bytes kSize = 2 * kMiB;
  std::uint64_t first = 0, handle = 0, imported = 0, range = 0;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, 1, &first), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, 1, &handle), GPEMU_CUDA_SUCCESS);
  std::int32_t descriptor = -1;
  ASSERT_EQ(gpemu_cuda_vmm_export(handle, &descriptor), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_import(descriptor, &imported), GPEMU_CUDA_SUCCESS);
  ::close(descriptor);
  EXPECT_EQ(gpemu_cuda_vmm_import(descriptor, &imported), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(2 * kSize, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range, kSize, 0, handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range + kSize, kSize, 0, imported), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range, 2 * kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  const std::uint64_t value = 0x1234;
  std::uint64_t read = 0;
  ASSERT_EQ(gpemu_cuda_poke(range + 64, &value, 8), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_peek(range + kSize + 64, &read, 8), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, value);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, 2 * kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 2 * kSize), GPEMU_CUDA_SUCCESS);
  for (const std::uint64_t each : {first, handle, imported}) {
    EXPECT_EQ(gpemu_cuda_vmm_release(each), GPEMU_CUDA_SUCCESS);
  }
  EXPECT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VmmTest, PhysicalMemoryKnowsWhatIsNotComputedWhereverItIsMapped) {
  constexpr Bytes kSize = 2 * kMiB, kBytes = 4096;
  std::uint64_t handle = 0, range = 0, read = 1;
  std::int32_t descriptor = -1;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, 1, &handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(3 * kSize, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  const auto map = [&](std::uint64_t address) {
    EXPECT_EQ(gpemu_cuda_vmm_map(address, kSize, 0, handle), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_vmm_set_access(address, kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  };
  map(range);
  memory::leave_uncomputed(range, kBytes, kernels::Uncomputed::kWritten, 1);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, kSize), GPEMU_CUDA_SUCCESS);
  map(range + kSize);
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  ASSERT_EQ(gpemu_cuda_peek(range + kSize, &read, sizeof(read)), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, 0U);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, sizeof(read));
  map(range);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, sizeof(read) + kBytes) << "mapped twice";
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range + kSize, kSize), GPEMU_CUDA_SUCCESS);
  map(range);
  memory::leave_uncomputed(range, kBytes, kernels::Uncomputed::kWritten, 1);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_export(handle, &descriptor), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, sizeof(read) + 2 * kBytes) << "exported";
  ::close(descriptor);
  ASSERT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 3 * kSize), GPEMU_CUDA_SUCCESS);
}

TEST_F(VmmTest, MemoryComesInUnitsOfTheGranularity) {
  std::uint64_t unit = 0, handle = 0;
  ASSERT_EQ(gpemu_cuda_vmm_granularity(0, &unit), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(unit, 2 * kMiB);
  EXPECT_EQ(gpemu_cuda_vmm_create(0, unit / 2, 1, &handle), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_create(0, unit, 1, &handle), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_SUCCESS);
  unit = 42;
  for (const std::int32_t none : {-1, 1}) {
    EXPECT_EQ(gpemu_cuda_vmm_granularity(none, &unit), GPEMU_CUDA_ERROR_INVALID_DEVICE);
  }
  EXPECT_EQ(unit, 42U);
  EXPECT_EQ(gpemu_cuda_vmm_granularity(0, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VmmTest, RetainedMemoryStaysUntilEachReferenceIsReleased) {
  constexpr Bytes kSize = 2 * kMiB;
  const Bytes before = free_bytes();
  std::uint64_t handle = 0, range = 0, retained = 42;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, kSize, 1, &handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(2 * kSize, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_map(range, kSize, 0, handle), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_vmm_retain(range + kSize, &retained), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_vmm_retain(range, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(retained, 42U);
  ASSERT_EQ(gpemu_cuda_vmm_retain(range + kSize - 1, &retained), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(retained, handle);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(before - free_bytes(), kSize);
  ASSERT_EQ(gpemu_cuda_vmm_release(retained), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(gpemu_cuda_vmm_release(retained), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 2 * kSize), GPEMU_CUDA_SUCCESS);
  const std::uint64_t plain = allocate(kSize);
  EXPECT_EQ(gpemu_cuda_vmm_retain(plain, &retained), GPEMU_CUDA_ERROR_INVALID_VALUE)
      << "memory without a handle";
  ASSERT_EQ(gpemu_cuda_free(plain), GPEMU_CUDA_SUCCESS);
}

TEST_F(VmmTest, HandlesKnowTheirDeviceAndWhetherTheyAreExported) {
  for (const std::int32_t wanted : {0, 1}) {
    std::uint64_t handle = 0;
    std::int32_t device = -1, exportable = -1;
    int descriptor = -1;
    ASSERT_EQ(gpemu_cuda_vmm_create(0, 2 * kMiB, wanted, &handle), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_vmm_properties(handle, &device, &exportable), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(device, 0);
    EXPECT_EQ(exportable, wanted);
    EXPECT_EQ(gpemu_cuda_vmm_export(handle, &descriptor),
              wanted == 1 ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_INVALID_VALUE);
    if (descriptor >= 0) {
      EXPECT_EQ(::close(descriptor), 0);
    }
    EXPECT_EQ(gpemu_cuda_vmm_properties(handle, nullptr, &exportable),
              GPEMU_CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_SUCCESS);
    device = -1;
    EXPECT_EQ(gpemu_cuda_vmm_properties(handle, &device, &exportable),
              GPEMU_CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(device, -1);
  }
}

TEST_F(VmmTest, EachMappingHasItsAccess) {
  constexpr Bytes kSize = 2 * kMiB;
  std::uint64_t handle = 0, range = 0;
  ASSERT_EQ(gpemu_cuda_vmm_create(0, 2 * kSize, 1, &handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_reserve(3 * kSize, 0, 0, &range), GPEMU_CUDA_SUCCESS);
  for (const Bytes offset : {Bytes{0}, kSize}) {
    ASSERT_EQ(gpemu_cuda_vmm_map(range + offset, kSize, offset, handle), GPEMU_CUDA_SUCCESS);
  }
  const auto access_of = [range](Bytes offset) {
    std::uint32_t access = 42;
    EXPECT_EQ(gpemu_cuda_vmm_get_access(range + offset, 0, &access), GPEMU_CUDA_SUCCESS);
    return access;
  };
  EXPECT_EQ(access_of(0), 0U);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range, 2 * kSize, 0, 3), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_set_access(range + kSize, kSize, 0, 1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_vmm_set_access(range, kSize, 0, 2), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(access_of(kSize - 1), 3U);
  EXPECT_EQ(access_of(kSize), 1U);
  std::uint32_t access = 42;
  EXPECT_EQ(gpemu_cuda_vmm_get_access(range + 2 * kSize, 0, &access),
            GPEMU_CUDA_ERROR_INVALID_VALUE);
  for (const std::int32_t none : {-1, 1}) {
    EXPECT_EQ(gpemu_cuda_vmm_get_access(range, none, &access), GPEMU_CUDA_ERROR_INVALID_DEVICE);
  }
  EXPECT_EQ(access, 42U);
  EXPECT_EQ(gpemu_cuda_vmm_get_access(range, 0, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_vmm_unmap(range, 2 * kSize), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_release(handle), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_vmm_unreserve(range, 3 * kSize), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
