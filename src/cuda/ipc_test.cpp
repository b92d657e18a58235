// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/base/units.hpp"
#include "gpemu/cuda.h"

#include "kernel_memory.hpp"
#include "mover.hpp"
#include "test_memory.hpp"

namespace gpemu::cuda {
namespace {

class IpcTest : public MoverTest {};

TEST_F(IpcTest, MemoryThatOthersSeeIsWrittenAtOnce) {
  copy_async(memory_, bits(from_), kSize);
  set_async(memory_, 0, kSize);
  std::thread resumer([] { mover().resume(); });
  gpemu_cuda_ipc ipc;
  ASSERT_EQ(gpemu_cuda_ipc_export_memory(memory_, &ipc), GPEMU_CUDA_SUCCESS);
  resumer.join();
  EXPECT_FALSE(mover().busy());
  const auto* const pages = reinterpret_cast<const std::uint8_t*>(memory_);
  EXPECT_TRUE(std::all_of(pages, pages + kSize, [](std::uint8_t byte) { return byte == 0; }))
      << "what others see is not what a copy from here reads";
  copy_async(memory_, bits(from_), kSize);
  EXPECT_FALSE(mover().busy());
  EXPECT_EQ(std::memcmp(pages, from_, kSize), 0);
}

TEST_F(IpcTest, ClosedImportsAreNotTouchedAnyMore) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  // A child has the same file under another process's number.
  const pid_t child = ::fork();
  if (child == 0) {
    char none = 0;
    ::close(pipe[1]);
    static_cast<void>(::read(pipe[0], &none, 1));
    ::_exit(0);
  }
  ::close(pipe[0]);
  mover().resume();
  const std::uint64_t exported = allocate(kSize);
  std::uint64_t imported = 0;
  gpemu_cuda_ipc ipc;
  ASSERT_EQ(gpemu_cuda_ipc_export_memory(exported, &ipc), GPEMU_CUDA_SUCCESS);
  std::memcpy(&ipc.bytes[12], &child, sizeof(child));
  ASSERT_EQ(gpemu_cuda_ipc_open_memory(&ipc, &imported), GPEMU_CUDA_SUCCESS);
  mover().pause();
  copy_async(memory_, bits(from_), kSize);
  copy_async(imported, memory_, kSize);
  std::thread resumer([] { mover().resume(); });
  EXPECT_EQ(gpemu_cuda_ipc_close_memory(imported), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(exported), from_, kSize), 0);
  resumer.join();
  EXPECT_EQ(gpemu_cuda_free(exported), GPEMU_CUDA_SUCCESS);
  ::close(pipe[1]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(IpcTest, MemoryThatBecomesSharedCountsWhatIsNotComputed) {
  constexpr Bytes kBytes = 4096;
  const std::uint64_t address = allocate(2 * kBytes);
  for (int round = 0; round < 2; ++round) {
    leave_uncomputed(address, kBytes, Uncomputed::kWritten, 1);
  }
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  gpemu_cuda_ipc ipc;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(gpemu_cuda_ipc_export_memory(address, &ipc), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, kBytes) << "once";
  }
  leave_uncomputed(address, kBytes, Uncomputed::kWritten, 1);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, 2 * kBytes) << "again, by the same kernel";
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
