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
#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/streams/mover.hpp"

#include "test_memory.hpp"

namespace gpemu::cuda {
namespace {

/// A process that has the files of this one under another process's number.
class OtherProcess {
 public:
  OtherProcess() {
    EXPECT_EQ(::pipe(pipe_.data()), 0);
    child_ = ::fork();
    if (child_ == 0) {
      char none = 0;
      ::close(pipe_[1]);
      static_cast<void>(::read(pipe_[0], &none, 1));
      ::_exit(0);
    }
    ::close(pipe_[0]);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;
  ~OtherProcess() {
    ::close(pipe_[1]);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
  }
  /// Makes a handle of this process one of the other.
  void take_over(gpemu_cuda_ipc& ipc) const {
    std::memcpy(&ipc.bytes[12], &child_, sizeof(child_));
  }

 private:
  std::array<int, 2> pipe_{};
  pid_t child_ = -1;
};

class IpcTest : public MoverTest {};

TEST_F(IpcTest, MemoryThatOthersSeeIsWrittenAtOnce) {
  copy_async(memory_, bits(from_), kSize);
  set_async(memory_, 0, kSize);
  std::thread resumer([] { streams::mover().resume(); });
  gpemu_cuda_ipc ipc;
  ASSERT_EQ(gpemu_cuda_ipc_export_memory(memory_, &ipc), GPEMU_CUDA_SUCCESS);
  resumer.join();
  EXPECT_FALSE(streams::mover().busy());
  const auto* const pages = reinterpret_cast<const std::uint8_t*>(memory_);
  EXPECT_TRUE(std::all_of(pages, pages + kSize, [](std::uint8_t byte) { return byte == 0; }))
      << "what others see is not what a copy from here reads";
  copy_async(memory_, bits(from_), kSize);
  EXPECT_FALSE(streams::mover().busy());
  EXPECT_EQ(std::memcmp(pages, from_, kSize), 0);
}

TEST_F(IpcTest, ClosedImportsAreNotTouchedAnyMore) {
  const OtherProcess other;
  streams::mover().resume();
  const std::uint64_t exported = allocate(kSize);
  std::uint64_t imported = 0;
  gpemu_cuda_ipc ipc;
  ASSERT_EQ(gpemu_cuda_ipc_export_memory(exported, &ipc), GPEMU_CUDA_SUCCESS);
  other.take_over(ipc);
  ASSERT_EQ(gpemu_cuda_ipc_open_memory(&ipc, &imported), GPEMU_CUDA_SUCCESS);
  streams::mover().pause();
  copy_async(memory_, bits(from_), kSize);
  copy_async(imported, memory_, kSize);
  std::thread resumer([] { streams::mover().resume(); });
  EXPECT_EQ(gpemu_cuda_ipc_close_memory(imported), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(reinterpret_cast<const void*>(exported), from_, kSize), 0);
  resumer.join();
  EXPECT_EQ(gpemu_cuda_free(exported), GPEMU_CUDA_SUCCESS);
}

TEST_F(IpcTest, MemoryThatBecomesSharedCountsWhatIsNotComputed) {
  constexpr Bytes kBytes = 4096;
  const std::uint64_t address = allocate(2 * kBytes);
  for (int round = 0; round < 2; ++round) {
    memory::leave_uncomputed(address, kBytes, kernels::Uncomputed::kWritten, 1);
  }
  const std::uint64_t before = gpemu_cuda_not_computed_bytes();
  gpemu_cuda_ipc ipc;
  for (int round = 0; round < 2; ++round) {
    ASSERT_EQ(gpemu_cuda_ipc_export_memory(address, &ipc), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, kBytes) << "once";
  }
  memory::leave_uncomputed(address, kBytes, kernels::Uncomputed::kWritten, 1);
  EXPECT_EQ(gpemu_cuda_not_computed_bytes() - before, 2 * kBytes) << "again, by the same kernel";
  ASSERT_EQ(gpemu_cuda_free(address), GPEMU_CUDA_SUCCESS);
}

TEST_F(IpcTest, AnImportedEventStandsForWhatTheOtherProcessRecorded) {
  constexpr std::uint32_t kShared = 2 | 4;
  streams::mover().resume();
  gpemu_cuda_event_handle exported = nullptr, imported = nullptr, twice = nullptr;
  gpemu_cuda_ipc ipc{};
  ASSERT_EQ(gpemu_cuda_event_create(kShared, &exported), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_ipc_export_event(exported, &ipc), GPEMU_CUDA_SUCCESS);
  const OtherProcess other;
  other.take_over(ipc);
  ASSERT_EQ(gpemu_cuda_ipc_open_event(&ipc, &imported), GPEMU_CUDA_SUCCESS);
  EXPECT_NE(imported, exported);
  EXPECT_EQ(gpemu_cuda_event_query(imported), GPEMU_CUDA_SUCCESS) << "not recorded yet";
  copy_async(memory_, bits(from_), kSize);
  ASSERT_EQ(gpemu_cuda_event_record(exported, stream_, 0), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_query(imported), GPEMU_CUDA_ERROR_NOT_READY);
  ASSERT_EQ(gpemu_cuda_ipc_open_event(&ipc, &twice), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_query(twice), GPEMU_CUDA_ERROR_NOT_READY);
  ASSERT_EQ(gpemu_cuda_event_synchronize(imported), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_query(stream_), GPEMU_CUDA_SUCCESS) << "as late as its work";
  EXPECT_EQ(gpemu_cuda_ipc_export_event(imported, &ipc), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  for (const gpemu_cuda_event_handle each : {imported, twice, exported}) {
    EXPECT_EQ(gpemu_cuda_event_destroy(each), GPEMU_CUDA_SUCCESS);
  }
}

TEST_F(IpcTest, AnEventMayBeRecordedBeforeItIsShared) {
  streams::mover().resume();
  gpemu_cuda_event_handle exported = nullptr, imported = nullptr;
  gpemu_cuda_ipc ipc{};
  ASSERT_EQ(gpemu_cuda_event_create(2 | 4, &exported), GPEMU_CUDA_SUCCESS);
  copy_async(memory_, bits(from_), kSize);
  ASSERT_EQ(gpemu_cuda_event_record(exported, stream_, 0), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_ipc_export_event(exported, &ipc), GPEMU_CUDA_SUCCESS);
  const OtherProcess other;
  other.take_over(ipc);
  ASSERT_EQ(gpemu_cuda_ipc_open_event(&ipc, &imported), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_query(imported), GPEMU_CUDA_ERROR_NOT_READY);
  ASSERT_EQ(gpemu_cuda_event_synchronize(imported), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_event_query(exported), GPEMU_CUDA_SUCCESS);
  for (const gpemu_cuda_event_handle each : {imported, exported}) {
    EXPECT_EQ(gpemu_cuda_event_destroy(each), GPEMU_CUDA_SUCCESS);
  }
}

TEST_F(IpcTest, OnlyInterprocessEventsOfOtherProcessesAreShared) {
  gpemu_cuda_event_handle plain = nullptr, shared = nullptr, opened = nullptr;
  gpemu_cuda_ipc ipc{}, none{};
  ASSERT_EQ(gpemu_cuda_event_create(2, &plain), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_event_create(2 | 4, &shared), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_ipc_export_event(plain, &ipc), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(gpemu_cuda_ipc_export_event(shared, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(std::memcmp(&ipc, &none, sizeof(ipc)), 0) << "a failure changes nothing";
  EXPECT_EQ(gpemu_cuda_ipc_open_event(&none, &opened), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(gpemu_cuda_ipc_export_event(shared, &ipc), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_ipc_open_event(&ipc, &opened), GPEMU_CUDA_ERROR_INVALID_CONTEXT)
      << "its own process";
  EXPECT_EQ(gpemu_cuda_ipc_open_event(&ipc, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_ipc_open_event(nullptr, &opened), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_ipc_export_memory(memory_, &ipc), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_ipc_open_event(&ipc, &opened), GPEMU_CUDA_ERROR_INVALID_HANDLE)
      << "a handle of memory";
  EXPECT_EQ(opened, nullptr);
  ASSERT_EQ(gpemu_cuda_event_destroy(shared), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_ipc_export_event(shared, &ipc), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(gpemu_cuda_event_destroy(plain), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
