// SPDX-License-Identifier: Apache-2.0
#include "copy_rule.hpp"

#include <string>

#include <gtest/gtest.h>

namespace gpemu::cuda {
namespace {

constexpr auto kPageableMemory = GPEMU_CUDA_MEMORY_UNREGISTERED;
constexpr auto kPinnedMemory = GPEMU_CUDA_MEMORY_HOST;
constexpr auto kDeviceMemory = GPEMU_CUDA_MEMORY_DEVICE;
constexpr auto kManagedMemory = GPEMU_CUDA_MEMORY_MANAGED;

/// What the host does before a copy's call returns.
std::string host_does(gpemu_cuda_memory_kind to, gpemu_cuda_memory_kind from, Bytes bytes,
                      CopyCall call) {
  const CopyRule rule = copy_rule(copy_route(to, from, bytes), call);
  const std::string staged = rule.staged ? "stages" : "";
  switch (rule.wait) {
    case CopyWait::kNothing:
      return staged.empty() ? "nothing" : staged;
    case CopyWait::kEarlierWork:
      return "waits for the stream" + (staged.empty() ? "" : ", " + staged);
    case CopyWait::kEnd:
      return "waits for the end" + staged;
  }
  return "";
}

TEST(CopyRule, SaysWhatTheHostDoesBeforeACallReturns) {
  struct Row {
    gpemu_cuda_memory_kind to, from;
    std::string blocking, asynchronous, large_blocking, large_asynchronous;
  };
  const std::string none = "nothing", end = "waits for the end", stream = "waits for the stream";
  const Row rows[] = {
      {kPageableMemory, kPageableMemory, stream, stream, stream, stream},
      {kPageableMemory, kPinnedMemory, stream, stream, stream, stream},
      {kPageableMemory, kDeviceMemory, end, end, end, end},
      {kPageableMemory, kManagedMemory, end, end, end, end},
      {kPinnedMemory, kPageableMemory, stream, stream, stream, stream},
      {kPinnedMemory, kPinnedMemory, stream, stream, stream, stream},
      {kPinnedMemory, kDeviceMemory, end, none, end, none},
      {kPinnedMemory, kManagedMemory, end, none, end, none},
      {kDeviceMemory, kPageableMemory, stream + ", stages", "stages", end, end},
      {kDeviceMemory, kPinnedMemory, end, none, end, none},
      {kDeviceMemory, kDeviceMemory, none, none, none, none},
      {kDeviceMemory, kManagedMemory, end, none, end, none},
      {kManagedMemory, kPageableMemory, end, end, end, end},
      {kManagedMemory, kPinnedMemory, end, none, end, none},
      {kManagedMemory, kDeviceMemory, end, none, end, none},
      {kManagedMemory, kManagedMemory, end, none, end, none},
  };
  for (const auto& [to, from, blocking, asynchronous, large_blocking, large_asynchronous] : rows) {
    SCOPED_TRACE(testing::Message() << "from " << from << " to " << to);
    for (const Bytes bytes : {Bytes{1}, 64 * kKiB}) {
      EXPECT_EQ(host_does(to, from, bytes, CopyCall::kBlocking), blocking);
      EXPECT_EQ(host_does(to, from, bytes, CopyCall::kAsynchronous), asynchronous);
      EXPECT_EQ(host_does(to, from, bytes, CopyCall::kGraph), none);
    }
    for (const Bytes bytes : {64 * kKiB + 1, kGiB}) {
      EXPECT_EQ(host_does(to, from, bytes, CopyCall::kBlocking), large_blocking);
      EXPECT_EQ(host_does(to, from, bytes, CopyCall::kAsynchronous), large_asynchronous);
      EXPECT_EQ(host_does(to, from, bytes, CopyCall::kGraph), none);
    }
  }
}

}  // namespace
}  // namespace gpemu::cuda
