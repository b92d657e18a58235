// SPDX-License-Identifier: Apache-2.0
// Collectives of jobs of which only this process, rank 0, runs (docs/design/collectives.md).
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"
#include "gpemu/process/process.hpp"
#include "gpemu/ranks/communicator.hpp"
#include "gpemu/topology/collective.hpp"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

class PhantomsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
  void TearDown() override {
    for (const gpemu_cuda_comm_handle comm : made_) {
      EXPECT_EQ(gpemu_cuda_comm_destroy(comm), GPEMU_CUDA_SUCCESS);
    }
    process::process().settings->job.reset();
  }

  /// Makes rank 0 of a job whose other ranks are phantoms.
  gpemu_cuda_comm_handle make(int ranks) {
    process::process().settings->job = process::Job {
      .ranks = ranks,
      .ranks_per_host = ranks,
      .real_ranks = 1
    };
    gpemu_cuda_comm_handle comm = nullptr;
    EXPECT_EQ(start(ranks, 0, &comm), GPEMU_CUDA_SUCCESS);
    made_.push_back(comm);
    return comm;
  }
  static gpemu_cuda_status start(int ranks, int rank, gpemu_cuda_comm_handle* comm) {
    gpemu_cuda_comm_id id{};
    EXPECT_EQ(gpemu_cuda_comm_unique_id(&id), GPEMU_CUDA_SUCCESS);
    const gpemu_cuda_comm_start wanted{.id = &id, .ranks = ranks, .rank = rank, .device = 0};
    return gpemu_cuda_comm_start_all(&wanted, 1, comm);
  }

  using Values = std::vector<std::int32_t>;
  static std::uint64_t on_device(const Values& values) {
    std::uint64_t address = 0;
    EXPECT_EQ(gpemu_cuda_malloc(4 * values.size(), &address), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_memcpy(address, reinterpret_cast<std::uint64_t>(values.data()),
                                4 * values.size(), GPEMU_CUDA_COPY_HOST_TO_DEVICE, nullptr, 0),
              GPEMU_CUDA_SUCCESS);
    return address;
  }
  static Values from_device(std::uint64_t address, std::size_t count) {
    Values values(count);
    EXPECT_EQ(gpemu_cuda_memcpy(reinterpret_cast<std::uint64_t>(values.data()), address, 4 * count,
                                GPEMU_CUDA_COPY_DEVICE_TO_HOST, nullptr, 0),
              GPEMU_CUDA_SUCCESS);
    return values;
  }

  /// Returns what a collective of the first `count` whole numbers makes of zeros.
  Values result(gpemu_cuda_comm_call call, const Values& source, std::size_t size) {
    call.type = GPEMU_CUDA_COMM_INT32;
    call.source = on_device(source);
    call.destination = on_device(Values(size));
    EXPECT_EQ(gpemu_cuda_comm_run(&call, 1), GPEMU_CUDA_SUCCESS);
    return from_device(call.destination, size);
  }

 private:
  std::vector<gpemu_cuda_comm_handle> made_;
};

TEST_F(PhantomsTest, HaveWhatTheirModelHas) {
  const gpemu_cuda_comm_handle comm = make(64);
  gpemu_cuda_comm_call call{.comm = comm, .collective = GPEMU_CUDA_ALL_REDUCE, .count = 2};
  EXPECT_EQ(result(call, {1, -5}, 2), (Values{64, -320}));
  call.reduction = GPEMU_CUDA_COMM_AVG;
  EXPECT_EQ(result(call, {3, -5}, 2), (Values{3, -5}));
  call.reduction = GPEMU_CUDA_COMM_MAX;
  EXPECT_EQ(result(call, {3, -5}, 2), (Values{3, -5}));
}

TEST_F(PhantomsTest, PassTheirPartsOn) {
  const gpemu_cuda_comm_handle comm = make(3);
  gpemu_cuda_comm_call call{.comm = comm, .collective = GPEMU_CUDA_ALL_GATHER, .count = 2};
  EXPECT_EQ(result(call, {7, 8}, 6), (Values{7, 8, 7, 8, 7, 8}));
  call.collective = GPEMU_CUDA_REDUCE_SCATTER;
  EXPECT_EQ(result(call, {1, 2, 3, 4, 5, 6}, 2), (Values{3, 6})) << "of the first part";
  call.collective = GPEMU_CUDA_ALL_TO_ALL;
  call.count = 1;
  EXPECT_EQ(result(call, {4, 5, 6}, 3), (Values{4, 4, 4})) << "all send their first part to rank 0";
}

TEST_F(PhantomsTest, SendTheirModelsContentAsRootOfABroadcast) {
  gpemu_cuda_comm_call call{.comm = make(8),
                            .collective = GPEMU_CUDA_BROADCAST,
                            .type = GPEMU_CUDA_COMM_INT32,
                            .root = 5,
                            .count = 2};
  call.destination = on_device({6, 7});
  ASSERT_EQ(gpemu_cuda_comm_run(&call, 1), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(from_device(call.destination, 2), (Values{6, 7}));
}

/// PyTorch gathers parts that may have different sizes by a group of broadcasts.
TEST_F(PhantomsTest, SendTheirModelsSourceAsRootsOfAGroup) {
  const gpemu_cuda_comm_handle comm = make(3);
  const std::uint64_t source = on_device({6, 7}), gathered = on_device(Values(6));
  std::vector<gpemu_cuda_comm_call> calls;
  for (const std::int32_t root : {2, 0, 1}) {
    calls.push_back({.comm = comm,
                     .collective = GPEMU_CUDA_BROADCAST,
                     .type = GPEMU_CUDA_COMM_INT32,
                     .root = root,
                     .source = root == 0 ? source : 0,
                     .destination = gathered + 8 * static_cast<std::uint64_t>(root),
                     .count = 2});
  }
  ASSERT_EQ(gpemu_cuda_comm_run(calls.data(), calls.size()), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(from_device(gathered, 6), (Values{6, 7, 6, 7, 6, 7}));
}

/// The ranks arrive together, so a collective takes what the topology says of all ranks.
TEST_F(PhantomsTest, TakeTheTimeOfAllRanks) {
  for (const int ranks : {2, 8, 64}) {
    const gpemu_cuda_comm_handle comm = make(ranks);
    const auto& communicator = *ranks::communicators().find(comm)->communicator;
    EXPECT_EQ(communicator.fabric().ranks, ranks);
    constexpr std::uint64_t kCount = 1 << 20;
    std::uint64_t memory = 0;
    ASSERT_EQ(gpemu_cuda_malloc(4 * kCount, &memory), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_stream_synchronize(nullptr), GPEMU_CUDA_SUCCESS);
    const TimePoint before = process::process().clock->now();
    const gpemu_cuda_comm_call call{.comm = comm,
                                    .collective = GPEMU_CUDA_ALL_REDUCE,
                                    .type = GPEMU_CUDA_COMM_FP32,
                                    .source = memory,
                                    .destination = memory,
                                    .count = kCount};
    ASSERT_EQ(gpemu_cuda_comm_run(&call, 1), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_stream_synchronize(nullptr), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(process::process().clock->now() - before,
              topology::time_of(communicator.fabric(), topology::Collective::kAllReduce, 4 * kCount)
                  .time);
  }
}

TEST_F(PhantomsTest, RefusesCommunicatorsWhoseMembersNobodyKnows) {
  const gpemu_cuda_comm_handle comm = make(8);
  gpemu_cuda_comm_handle other = nullptr;
  EXPECT_EQ(start(4, 0, &other), GPEMU_CUDA_ERROR_NOT_SUPPORTED) << "four of the eight";
  EXPECT_EQ(start(8, 1, &other), GPEMU_CUDA_ERROR_NOT_SUPPORTED) << "this is rank 0 of the job";
  gpemu_cuda_comm_start part{.parent = comm, .color = 1};
  EXPECT_EQ(gpemu_cuda_comm_start_all(&part, 1, &other), GPEMU_CUDA_ERROR_NOT_SUPPORTED);
  part.color = -1;
  EXPECT_EQ(gpemu_cuda_comm_start_all(&part, 1, &other), GPEMU_CUDA_SUCCESS) << "takes no part";
  EXPECT_EQ(other, nullptr);
}

TEST_F(PhantomsTest, RefusesTransfersWithPhantoms) {
  gpemu_cuda_comm_call call{.comm = make(8),
                            .collective = GPEMU_CUDA_SEND,
                            .type = GPEMU_CUDA_COMM_INT32,
                            .root = 1,
                            .count = 1};
  call.source = call.destination = on_device({1});
  EXPECT_EQ(gpemu_cuda_comm_run(&call, 1), GPEMU_CUDA_ERROR_NOT_SUPPORTED);
  call.collective = GPEMU_CUDA_RECEIVE;
  EXPECT_EQ(gpemu_cuda_comm_run(&call, 1), GPEMU_CUDA_ERROR_NOT_SUPPORTED);
  call.collective = GPEMU_CUDA_SCATTER;
  EXPECT_EQ(gpemu_cuda_comm_run(&call, 1), GPEMU_CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace gpemu::cuda
