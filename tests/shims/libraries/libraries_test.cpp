// SPDX-License-Identifier: Apache-2.0
// The calls of the shims to libgpemu.so, recorded by a fake of it.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <climits>
#include <gtest/gtest.h>

#include "gpemu/cuda.h"

namespace {

struct Recorded {
  std::vector<std::pair<std::string, gpemu_operation>> operations;
  std::vector<std::pair<gpemu_cuda_mark_kind, std::string>> marks;
  std::vector<uint64_t> copied_bytes;
  std::vector<uint64_t> poked_bytes;
  std::vector<uint64_t> uncomputed;  ///< addresses.
  std::vector<std::string> not_supported;
  std::vector<size_t> made_together;  ///< ranks.
  std::vector<std::vector<gpemu_cuda_comm_call>> run_together;
  gpemu_cuda_status comm_status = GPEMU_CUDA_SUCCESS;
  std::vector<int32_t> excluded;  ///< of the last start.
};
Recorded recorded;

/// Whether starts of ranks wait until the flag is cleared, or until they are cancelled.
std::atomic<bool> starts_wait{false};

char memory[64];

}  // namespace

extern "C" {

gpemu_cuda_status gpemu_cuda_submit(const gpemu_operation* operation, gpemu_cuda_stream_handle) {
  recorded.operations.emplace_back(operation->name, *operation);
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_memcpy(uint64_t, uint64_t, uint64_t bytes, gpemu_cuda_copy_kind,
                                    gpemu_cuda_stream_handle, int32_t) {
  recorded.copied_bytes.push_back(bytes);
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_leave_uncomputed(const gpemu_cuda_result* result, const char*,
                                              gpemu_cuda_stream_handle) {
  recorded.uncomputed.push_back(result->address);
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_poke(uint64_t, const void*, uint64_t bytes) {
  recorded.poked_bytes.push_back(bytes);
  return GPEMU_CUDA_SUCCESS;
}
const char* gpemu_cuda_comm_warning() {
  return "two ranks are one GPU";
}
void gpemu_cuda_mark(gpemu_cuda_mark_kind kind, const char* text) {
  recorded.marks.emplace_back(kind, text == nullptr ? "" : text);
}
void gpemu_cuda_not_supported(const char*, const char* function) {
  recorded.not_supported.emplace_back(function);
}
gpemu_cuda_status gpemu_cuda_malloc(uint64_t, uint64_t* address) {
  *address = 4096;
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_free(uint64_t) {
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_ensure_context() {
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_device_count(int32_t* count) {
  *count = 1;
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_current_device(int32_t* device) {
  *device = 0;
  return GPEMU_CUDA_SUCCESS;
}

gpemu_cuda_status gpemu_cuda_peek(uint64_t, void*, uint64_t) {
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_comm_unique_id(gpemu_cuda_comm_id*) {
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_comm_start_all(const gpemu_cuda_comm_start* starts, size_t count,
                                            gpemu_cuda_comm_handle* comms) {
  recorded.excluded.assign(starts->excluded, starts->excluded + starts->excluded_count);
  while (starts_wait) {
    if (starts->cancelled != nullptr && __atomic_load_n(starts->cancelled, __ATOMIC_ACQUIRE) != 0) {
      return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
    }
    std::this_thread::yield();
  }
  recorded.made_together.push_back(count);
  for (size_t i = 0; i < count; ++i) comms[i] = reinterpret_cast<gpemu_cuda_comm_handle>(memory);
  return recorded.comm_status;
}
gpemu_cuda_status gpemu_cuda_comm_get_info(gpemu_cuda_comm_handle, gpemu_cuda_comm_info* info) {
  *info = {.ranks = 2, .rank = 1, .device = 0};
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_comm_run(const gpemu_cuda_comm_call* calls, size_t count) {
  recorded.run_together.emplace_back(calls, calls + count);
  return recorded.comm_status;
}
gpemu_cuda_status gpemu_cuda_comm_expected_time(const gpemu_cuda_comm_call*, size_t count,
                                                double* microseconds) {
  *microseconds = 10.0 * static_cast<double>(count);
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_comm_error(gpemu_cuda_comm_handle, gpemu_cuda_status* error) {
  *error = recorded.comm_status;
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_comm_finalize(gpemu_cuda_comm_handle) {
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_comm_destroy(gpemu_cuda_comm_handle) {
  return GPEMU_CUDA_SUCCESS;
}
gpemu_cuda_status gpemu_cuda_comm_abort(gpemu_cuda_comm_handle) {
  return GPEMU_CUDA_SUCCESS;
}

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names.
int cufftCreate(int* plan);
int cufftDestroy(int plan);
int cufftMakePlanMany(int plan, int rank, int* n, int*, int, int, int*, int, int, int type,
                      int batch, size_t* work);
int cufftExecC2C(int plan, void* in, void* out, int direction);
int cufftExecR2C(int plan, void* in, void* out);
int cusolverDnCreate(void** handle);
int cusolverDnDestroy(void* handle);
int cusolverDnSpotrf(void* handle, int fill, int n, void* a, int lda, void* work, int size,
                     int* info);
int cusolverDnSgesvd_bufferSize(void* handle, int m, int n, int* size);
int cusolverDnXsyevBatched_bufferSize(void* handle, void*, int vectors, int fill, int64_t n,
                                      int type, const void* a, int64_t lda, int, const void* w, int,
                                      size_t* device, size_t* host, int64_t batch);
int cusolverDnCpotrf(void* handle, int fill, int n, void* a, int lda, void* work, int size,
                     int* info);
int cusolverDnDpotrfBatched(void* handle, int fill, int n, void* a, int lda, int* info, int batch);
struct UniqueId {
  char bytes[128];
};
int ncclCommInitRank(void** comm, int ranks, UniqueId id, int rank);
int ncclCommDestroy(void* comm);
int ncclAllReduce(const void* in, void* out, size_t count, int type, int op, void* comm,
                  gpemu_cuda_stream_handle stream);
int ncclSend(const void* buffer, size_t count, int type, int peer, void* comm,
             gpemu_cuda_stream_handle stream);
int ncclRecv(void* buffer, size_t count, int type, int peer, void* comm,
             gpemu_cuda_stream_handle stream);
int ncclCommInitRankConfig(void** comm, int ranks, UniqueId id, int rank, const void* config);
int ncclCommSplit(void* comm, int color, int key, void** split, const void* config);
int ncclCommShrink(void* comm, int* excluded, int count, void** shrunk, const void* config,
                   int flags);
int ncclCommFinalize(void* comm);
int ncclCommAbort(void* comm);
int ncclCommGetAsyncError(void* comm, int* error);
int ncclCommCount(void* comm, int* count);
int ncclGroupSimulateEnd(void* info);
int ncclGroupStart();
int ncclGroupEnd();
int nvtxRangePushA(const char* text);
int nvtxRangePop();
uint64_t nvtxRangeStartA(const char* text);
void nvtxRangeEnd(uint64_t id);
int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t));
// NOLINTEND(readability-identifier-naming)

}  // extern "C"

namespace {

class Shims : public testing::Test {
 protected:
  void SetUp() override { recorded = {}; }
};

TEST_F(Shims, CufftPricesTheTransformOfItsPlan) {
  int plan = 0;
  int sizes[] = {64, 32};
  size_t work = 0;
  ASSERT_EQ(cufftCreate(&plan), 0);
  EXPECT_EQ(cufftExecC2C(plan, memory, memory, -1), 1) << "a plan that is not made is invalid";
  ASSERT_EQ(cufftMakePlanMany(plan, 2, sizes, nullptr, 1, 0, nullptr, 1, 0, 0x29, 5, &work), 0);
  EXPECT_EQ(work, size_t{5} * 64 * 32 * 8);
  EXPECT_EQ(cufftExecR2C(plan, memory, memory), 1) << "a plan of another type";
  EXPECT_EQ(cufftExecC2C(plan, memory, memory, 0), 4) << "no direction";
  ASSERT_EQ(cufftExecC2C(plan, memory, memory, -1), 0);
  ASSERT_EQ(recorded.operations.size(), 1u);
  const gpemu_operation& operation = recorded.operations[0].second;
  EXPECT_EQ(operation.kind, GPEMU_OPERATION_FFT);
  EXPECT_EQ(operation.type, GPEMU_TYPE_COMPLEX64);
  EXPECT_EQ(operation.shape[0], 5);
  EXPECT_EQ(operation.shape[1], 64);
  EXPECT_EQ(operation.shape[2], 32);
  EXPECT_EQ(operation.shape[3], 1);
  EXPECT_EQ(cufftDestroy(plan), 0);
  EXPECT_EQ(cufftDestroy(plan), 1) << "a plan dies once";
}

TEST_F(Shims, CufftRefusesSizesBeyondMemory) {
  int plan = 0;
  int sizes[] = {2'000'000'000, 2'000'000'000, 2'000'000'000};
  ASSERT_EQ(cufftCreate(&plan), 0);
  EXPECT_EQ(cufftMakePlanMany(plan, 3, sizes, nullptr, 1, 0, nullptr, 1, 0, 0x29, 1, nullptr), 8);
  EXPECT_EQ(cufftMakePlanMany(plan, 4, sizes, nullptr, 1, 0, nullptr, 1, 0, 0x29, 1, nullptr), 4);
  EXPECT_EQ(cufftMakePlanMany(plan, 1, sizes, nullptr, 1, 0, nullptr, 1, 0, 0x00, 1, nullptr), 3);
  EXPECT_EQ(cufftDestroy(plan), 0);
}

TEST_F(Shims, CusolverPricesComplexMatricesAtFourTimesTheArithmetic) {
  void* handle = nullptr;
  int info = 7;
  ASSERT_EQ(cusolverDnCreate(&handle), 0);
  ASSERT_EQ(cusolverDnSpotrf(handle, 0, 300, memory, 300, memory, 0, &info), 0);
  ASSERT_EQ(cusolverDnCpotrf(handle, 0, 300, memory, 300, memory, 0, &info), 0);
  ASSERT_EQ(recorded.operations.size(), 2u);
  EXPECT_EQ(recorded.operations[0].first, "cusolverDnSpotrf");
  EXPECT_EQ(recorded.operations[0].second.shape[0], 9'000'000);
  EXPECT_EQ(recorded.operations[0].second.shape[1], 300 * 300 * 4);
  EXPECT_EQ(recorded.operations[1].second.shape[0], 36'000'000);
  EXPECT_EQ(recorded.poked_bytes, (std::vector<uint64_t>{4, 4}));
  EXPECT_EQ(recorded.uncomputed.front(), reinterpret_cast<uint64_t>(memory));
  EXPECT_EQ(cusolverDnDestroy(handle), 0);
  EXPECT_EQ(cusolverDnSpotrf(handle, 0, 300, memory, 300, memory, 0, &info), 1);
}

TEST_F(Shims, CusolverRefusesWhatCannotBeAMatrix) {
  void* handle = nullptr;
  int info = 0;
  ASSERT_EQ(cusolverDnCreate(&handle), 0);
  EXPECT_EQ(cusolverDnSpotrf(handle, 2, 8, memory, 8, memory, 0, &info), 3);
  EXPECT_EQ(cusolverDnSpotrf(handle, 0, -1, memory, 8, memory, 0, &info), 3);
  EXPECT_EQ(cusolverDnSpotrf(handle, 0, 8, memory, 7, memory, 0, &info), 3);
  EXPECT_EQ(cusolverDnSpotrf(handle, 0, 8, nullptr, 8, memory, 0, &info), 3);
  EXPECT_EQ(cusolverDnSpotrf(handle, 0, 8, memory, 8, memory, 0, nullptr), 3);
  EXPECT_TRUE(recorded.operations.empty());
  EXPECT_EQ(cusolverDnDestroy(handle), 0);
}

TEST_F(Shims, CusolverCountsWorkBeyond64Bits) {
  void* handle = nullptr;
  int info = 0, size = 0;
  size_t device = 0, host = 0;
  constexpr int kMost = 2'147'483'647;
  constexpr int64_t kSide = int64_t{1} << 31, kMostWork = int64_t{1} << 62;
  ASSERT_EQ(cusolverDnCreate(&handle), 0);
  EXPECT_EQ(cusolverDnSpotrf(handle, 0, kMost, memory, kMost, memory, 0, &info), 0);
  ASSERT_EQ(recorded.operations.size(), 1u);
  EXPECT_EQ(recorded.operations[0].second.shape[0], kMostWork);
  EXPECT_EQ(cusolverDnSgesvd_bufferSize(handle, kMost, kMost, &size), 3);
  const auto query = [&](int64_t n, int64_t batch) {
    return cusolverDnXsyevBatched_bufferSize(handle, nullptr, 1, 0, n, 0, nullptr, n, 0, nullptr, 0,
                                             &device, &host, batch);
  };
  EXPECT_EQ(query(kSide, 1), 3) << "32 EiB";
  EXPECT_EQ(query(kSide, kSide), 3);
  EXPECT_EQ(query(8, 2), 0);
  EXPECT_EQ(device, size_t{4} * 2 * (2 * 8 * 8 + 64 * 8));
  EXPECT_EQ(cusolverDnDestroy(handle), 0);
}

TEST_F(Shims, CusolverClearsDevInfoOfEachMatrixOfABatch) {
  void* handle = nullptr;
  int info[6];
  ASSERT_EQ(cusolverDnCreate(&handle), 0);
  ASSERT_EQ(cusolverDnDpotrfBatched(handle, 1, 8, memory, 8, info, 6), 0);
  EXPECT_EQ(recorded.poked_bytes, (std::vector<uint64_t>{24}));
  EXPECT_EQ(cusolverDnDestroy(handle), 0);
}

TEST_F(Shims, NcclCopiesWhatOneRankReduces) {
  void* comm = nullptr;
  char out[64];
  ASSERT_EQ(ncclCommInitRank(&comm, 1, UniqueId{}, 0), 0);
  EXPECT_EQ(ncclAllReduce(memory, out, 8, 7, 0, comm, nullptr), 0);
  EXPECT_EQ(ncclAllReduce(out, out, 8, 7, 0, comm, nullptr), 0) << "in place: nothing moves";
  EXPECT_EQ(recorded.copied_bytes, (std::vector<uint64_t>{32}));
  EXPECT_EQ(ncclAllReduce(memory, out, 8, 12, 0, comm, nullptr), 4) << "no such type";
  EXPECT_EQ(ncclAllReduce(memory, out, 8, 7, 5, comm, nullptr), 4) << "no such reduction";
  EXPECT_EQ(ncclAllReduce(memory, nullptr, 8, 7, 0, comm, nullptr), 4);
  EXPECT_EQ(ncclCommDestroy(comm), 0);
  EXPECT_EQ(ncclAllReduce(memory, out, 8, 7, 0, comm, nullptr), 4) << "a dead communicator";
}

TEST_F(Shims, NcclMakesTheRanksOfAGroupTogether) {
  void *one = nullptr, *other = nullptr;
  ASSERT_EQ(ncclGroupStart(), 0);
  EXPECT_EQ(ncclCommInitRank(&one, 2, UniqueId{}, 0), 0);
  EXPECT_EQ(ncclCommInitRank(&other, 2, UniqueId{}, 1), 0);
  EXPECT_TRUE(recorded.made_together.empty());
  ASSERT_EQ(ncclGroupEnd(), 0);
  EXPECT_EQ(recorded.made_together, std::vector<size_t>{2});
  EXPECT_NE(one, nullptr);
  EXPECT_EQ(ncclCommDestroy(one), 0);
  EXPECT_EQ(ncclCommDestroy(other), 0);
  recorded.comm_status = GPEMU_CUDA_ERROR_NOT_FOUND;
  EXPECT_EQ(ncclCommInitRank(&one, 2, UniqueId{}, 0), 6) << "another rank has ended";
}

/// ncclConfig_t, up to the field that says whether calls block.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 23007;
  int blocking = 0;
};

/// Waits until a communicator's last call has ended; returns its status.
int nccl_status_of(void* comm) {
  int status = 7;
  while (status == 7) EXPECT_EQ(ncclCommGetAsyncError(comm, &status), 0);
  return status;
}

TEST_F(Shims, NcclDoesNotWaitInNonblockingCommunicators) {
  const NcclConfig config;
  void *comm = nullptr, *part = memory;
  int status = -1;
  starts_wait = true;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, UniqueId{}, 1, &config), 7);
  EXPECT_EQ(ncclCommGetAsyncError(comm, &status), 0);
  EXPECT_EQ(status, 7);
  EXPECT_EQ(ncclAllReduce(memory, memory, 8, 7, 0, comm, nullptr), 4);
  EXPECT_EQ(ncclCommCount(comm, &status), 4);
  EXPECT_EQ(ncclCommDestroy(comm), 4) << "only an abort ends it now";
  starts_wait = false;
  EXPECT_EQ(nccl_status_of(comm), 0);
  EXPECT_EQ(ncclAllReduce(memory, memory, 8, 7, 0, comm, nullptr), 0);
  EXPECT_EQ(ncclSend(memory, 4, 4, 0, comm, nullptr), 7) << "it may have to connect";
  EXPECT_EQ(nccl_status_of(comm), 0);
  EXPECT_EQ(recorded.run_together.size(), 2u);
  starts_wait = true;
  EXPECT_EQ(ncclCommSplit(comm, 0, 0, &part, nullptr), 7);
  EXPECT_EQ(part, nullptr) << "until it is made";
  starts_wait = false;
  EXPECT_EQ(nccl_status_of(comm), 0);
  EXPECT_EQ(nccl_status_of(part), 0);
  EXPECT_EQ(ncclSend(memory, 4, 4, 0, part, nullptr), 7) << "a part is like its parent";
  EXPECT_EQ(nccl_status_of(part), 0);
  EXPECT_EQ(ncclCommFinalize(part), 7);
  EXPECT_EQ(nccl_status_of(part), 0);
  EXPECT_EQ(ncclCommFinalize(part), 4) << "it is finalized";
  EXPECT_EQ(ncclCommDestroy(part), 0);
  EXPECT_EQ(ncclCommDestroy(comm), 0);
}

TEST_F(Shims, NcclEndsWhatIsInProgressByAnAbort) {
  const NcclConfig config;
  void *one = nullptr, *other = nullptr;
  starts_wait = true;
  ASSERT_EQ(ncclGroupStart(), 0);
  EXPECT_EQ(ncclCommInitRankConfig(&one, 2, UniqueId{}, 0, &config), 0);
  EXPECT_EQ(ncclCommInitRankConfig(&other, 2, UniqueId{}, 1, &config), 0);
  ASSERT_EQ(ncclGroupEnd(), 7);
  EXPECT_EQ(ncclCommAbort(one), 0);
  EXPECT_EQ(nccl_status_of(other), 5) << "the group was one";
  EXPECT_EQ(ncclCommAbort(other), 0);
  EXPECT_EQ(ncclCommAbort(other), 4);
  starts_wait = false;
  recorded.comm_status = GPEMU_CUDA_ERROR_NOT_FOUND;
  ASSERT_EQ(ncclCommInitRankConfig(&one, 2, UniqueId{}, 0, &config), 7);
  EXPECT_EQ(nccl_status_of(one), 6) << "another rank has ended";
  EXPECT_EQ(ncclAllReduce(memory, memory, 8, 7, 0, one, nullptr), 6);
  EXPECT_EQ(ncclCommAbort(one), 0);
}

TEST_F(Shims, NcclReadsConfigurations) {
  NcclConfig wrong;
  void *comm = nullptr, *other = nullptr;
  wrong.blocking = 2;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, UniqueId{}, 0, &wrong), 4);
  wrong = {.magic = 1};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, UniqueId{}, 0, &wrong), 4);
  const NcclConfig undefined{.blocking = INT_MIN}, old{.size = 16};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 2, UniqueId{}, 0, &undefined), 0) << "it blocks";
  EXPECT_EQ(ncclCommInitRankConfig(&other, 2, UniqueId{}, 0, &old), 0) << "the field is missing";
  EXPECT_EQ(ncclCommDestroy(other), 0);
  const NcclConfig config;
  ASSERT_EQ(ncclCommInitRankConfig(&other, 2, UniqueId{}, 0, &config), 7);
  EXPECT_EQ(nccl_status_of(other), 0);
  ASSERT_EQ(ncclGroupStart(), 0);
  EXPECT_EQ(ncclAllReduce(memory, memory, 8, 7, 0, comm, nullptr), 0);
  EXPECT_EQ(ncclAllReduce(memory, memory, 8, 7, 0, other, nullptr), 4) << "it does not block";
  EXPECT_EQ(ncclGroupEnd(), 4);
  EXPECT_TRUE(recorded.run_together.empty());
  EXPECT_EQ(ncclCommDestroy(comm), 0);
  EXPECT_EQ(ncclCommDestroy(other), 0);
}

TEST_F(Shims, NcclLeavesRanksOut) {
  void *comm = nullptr, *shrunk = nullptr;
  int excluded[] = {0, 1, 2};
  ASSERT_EQ(ncclCommInitRank(&comm, 2, UniqueId{}, 1), 0);
  EXPECT_EQ(ncclCommShrink(comm, excluded, 1, &shrunk, nullptr, 1), 0);
  EXPECT_EQ(recorded.excluded, std::vector<int32_t>{0});
  EXPECT_EQ(ncclCommDestroy(shrunk), 0);
  EXPECT_EQ(ncclCommShrink(comm, excluded, 2, &shrunk, nullptr, 0), 4) << "rank 1 is the caller";
  EXPECT_EQ(ncclCommShrink(comm, excluded + 2, 1, &shrunk, nullptr, 0), 4) << "no such rank";
  EXPECT_EQ(ncclCommShrink(comm, excluded, 0, &shrunk, nullptr, 0), 4);
  EXPECT_EQ(ncclCommShrink(comm, excluded, 1, &shrunk, nullptr, 2), 4) << "no such flag";
  EXPECT_EQ(ncclCommDestroy(comm), 0);
}

TEST_F(Shims, NcclSimulatesGroups) {
  struct {
    size_t size = 24;
    unsigned magic = 0x74685283, version = 23007;
    float time = -1;
  } info;
  void* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 2, UniqueId{}, 1), 0);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), 5) << "no group is open";
  ASSERT_EQ(ncclGroupStart(), 0);
  EXPECT_EQ(ncclAllReduce(memory, memory, 8, 7, 0, comm, nullptr), 0);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), 0);
  EXPECT_EQ(info.time, 10.0F);
  EXPECT_TRUE(recorded.run_together.empty());
  EXPECT_EQ(ncclCommDestroy(comm), 0);
}

TEST_F(Shims, NcclRunsTheCallsOfAGroupTogether) {
  void* comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 2, UniqueId{}, 1), 0);
  EXPECT_EQ(ncclAllReduce(memory, memory, 8, 7, 2, comm, nullptr), 0);
  ASSERT_EQ(ncclGroupStart(), 0);
  EXPECT_EQ(ncclSend(memory, 4, 4, 0, comm, nullptr), 0);
  EXPECT_EQ(ncclRecv(memory, 4, 4, 0, comm, nullptr), 0);
  EXPECT_EQ(ncclSend(memory, 4, 4, 2, comm, nullptr), 4) << "no such rank";
  ASSERT_EQ(recorded.run_together.size(), 1u);
  ASSERT_EQ(ncclGroupEnd(), 0);
  ASSERT_EQ(recorded.run_together.size(), 2u);
  EXPECT_EQ(recorded.run_together[0].at(0).reduction, GPEMU_CUDA_COMM_MAX);
  ASSERT_EQ(recorded.run_together[1].size(), 2u);
  EXPECT_EQ(recorded.run_together[1][1].collective, GPEMU_CUDA_RECEIVE);
  EXPECT_TRUE(recorded.copied_bytes.empty());
  EXPECT_EQ(ncclCommDestroy(comm), 0);
}

TEST_F(Shims, NcclMatchesSendsToItselfAtTheEndOfTheGroup) {
  void* comm = nullptr;
  char out[64];
  ASSERT_EQ(ncclCommInitRank(&comm, 1, UniqueId{}, 0), 0);
  EXPECT_EQ(ncclSend(memory, 4, 0, 0, comm, nullptr), 5) << "it would wait for ever";
  ASSERT_EQ(ncclGroupStart(), 0);
  ASSERT_EQ(ncclSend(memory, 4, 4, 0, comm, nullptr), 0);
  ASSERT_EQ(ncclRecv(out, 4, 4, 0, comm, nullptr), 0);
  EXPECT_TRUE(recorded.copied_bytes.empty());
  EXPECT_EQ(ncclGroupEnd(), 0);
  EXPECT_EQ(recorded.copied_bytes, (std::vector<uint64_t>{32}));
  EXPECT_EQ(ncclGroupEnd(), 5) << "no group is open";
  EXPECT_EQ(ncclCommDestroy(comm), 0);
}

TEST_F(Shims, NvtxCountsTheRangesOfAThread) {
  EXPECT_EQ(nvtxRangePop(), -2) << "nothing is pushed";
  EXPECT_EQ(nvtxRangePushA("step"), 0);
  EXPECT_EQ(nvtxRangePushA("forward"), 1);
  EXPECT_EQ(nvtxRangePop(), 1);
  EXPECT_EQ(nvtxRangePop(), 0);
  ASSERT_EQ(recorded.marks.size(), 4u);
  EXPECT_EQ(recorded.marks[1].second, "forward");
  EXPECT_EQ(recorded.marks[3].first, GPEMU_CUDA_MARK_POP);
}

TEST_F(Shims, NvtxNamesARangeAtBothOfItsEnds) {
  const uint64_t outer = nvtxRangeStartA("epoch");
  const uint64_t inner = nvtxRangeStartA("load");
  nvtxRangeEnd(outer);
  nvtxRangeEnd(outer);  // has ended
  nvtxRangeEnd(inner);
  const std::vector<std::pair<gpemu_cuda_mark_kind, std::string>> expected = {
      {GPEMU_CUDA_MARK_START, "epoch"},
      {GPEMU_CUDA_MARK_START, "load"},
      {GPEMU_CUDA_MARK_END, "epoch"},
      {GPEMU_CUDA_MARK_END, "load"}};
  EXPECT_EQ(recorded.marks, expected);
}

// The function slots of a program built with the headers of NVTX 3, core module.
void* slots[16];
void** slot_pointers[17];

int get_module(int, void**** table, unsigned* size) {
  for (size_t i = 0; i < 16; ++i) {
    slot_pointers[i] = &slots[i];
  }
  slot_pointers[16] = nullptr;
  *table = slot_pointers;
  *size = 16;
  return 1;
}

const void* export_table(uint32_t id) {
  static constexpr struct {
    size_t size;
    int (*get)(int, void****, unsigned*);
  } kCallbacks = {sizeof(kCallbacks), get_module};
  return id == 1 ? &kCallbacks : nullptr;
}

TEST_F(Shims, NvtxInjectsItselfIntoProgramsOfVersion3) {
  EXPECT_EQ(InitializeInjectionNvtx2(nullptr), 0);
  ASSERT_EQ(InitializeInjectionNvtx2(export_table), 1);
  EXPECT_EQ(slots[9], reinterpret_cast<void*>(nvtxRangePushA));
}

}  // namespace
