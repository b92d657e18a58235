// SPDX-License-Identifier: Apache-2.0
// The shims of cuBLAS and cuBLASLt on an emulated GPU: argument checks, times, heuristics.
#include <array>
#include <cstdint>

#include "loaded_libraries.hpp"

namespace {

enum Status {
  kSuccess = 0,
  kNotInitialized = 1,
  kInvalidValue = 7,
  kMappingError = 11,
  kExecutionFailed = 13
};

class Blas : public LoadedLibraries {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_CUBLAS, GPEMU_TEST_RUNTIME_12});  // cuBLAS needs cuBLASLt
    ASSERT_EQ(call("cublasCreate_v2", &handle_), kSuccess);
  }

  void TearDown() override { EXPECT_EQ(call("cublasDestroy_v2", handle_), kSuccess); }

  int gemm(int m, int n, int k, int lda) {
    const float one = 1;
    const void* const a = nullptr;
    void* const c = nullptr;
    return call("cublasSgemm_v2", handle_, 0, 0, m, n, k, static_cast<const void*>(&one), a, lda, a,
                k, static_cast<const void*>(&one), c, lda);
  }

  /// Returns the milliseconds of a call's work on the default stream.
  template <typename Call>
  float time_of(Call make_call) {
    std::array<void*, 2> events{};
    float milliseconds = 0;
    for (void*& event : events) {
      EXPECT_EQ(call("cudaEventCreate", &event), kSuccess);
    }
    void* const stream = nullptr;
    EXPECT_EQ(call("cudaEventRecord", events[0], stream), kSuccess);
    make_call();
    EXPECT_EQ(call("cudaEventRecord", events[1], stream), kSuccess);
    EXPECT_EQ(call("cudaEventSynchronize", events[1]), kSuccess);
    EXPECT_EQ(call("cudaEventElapsedTime", &milliseconds, events[0], events[1]), kSuccess);
    return milliseconds;
  }

  float time_of_gemm(int size) {
    return time_of([=, this] { EXPECT_EQ(gemm(size, size, size, size), kSuccess); });
  }

  void* handle_ = nullptr;
};

/// What calls leave in a matrix of order 2, whose elements were 1 to 4.
class BlasContent : public Blas {
 protected:
  using Numbers = std::array<float, 4>;

  void SetUp() override {
    Blas::SetUp();
    ASSERT_EQ(call("cudaMalloc", &written_, kBytes), 0);
    ASSERT_EQ(call("cudaMalloc", &other_, kBytes), 0);
    ASSERT_EQ(call("cudaMemset", other_, 0, kBytes), 0);
  }

  void TearDown() override {
    EXPECT_EQ(call("cudaFree", written_), 0);
    EXPECT_EQ(call("cudaFree", other_), 0);
    Blas::TearDown();
  }

  template <typename... Arguments>
  Numbers after(const char* name, Arguments... arguments) {
    EXPECT_EQ(call("cudaMemcpy", written_, static_cast<const void*>(kBefore.data()), kBytes, 1), 0);
    EXPECT_EQ(call(name, handle_, arguments...), kSuccess) << name;
    Numbers numbers{};
    EXPECT_EQ(call("cudaMemcpy", static_cast<void*>(numbers.data()), written_, kBytes, 2), 0);
    return numbers;
  }

  static constexpr size_t kBytes = sizeof(Numbers);
  static constexpr Numbers kBefore = {1, 2, 3, 4};
  static constexpr Numbers kZeros = {};
  void* written_ = nullptr;
  void* other_ = nullptr;
  const float one_ = 1, zero_ = 0;
  const float *const alpha_ = &one_, *const none_of_c_ = &zero_, *const all_of_c_ = &one_;
};

TEST_F(Blas, BothLibrariesHaveOneVersionAndOneSetOfStatuses) {
  int version = 0;
  ASSERT_EQ(call("cublasGetVersion_v2", handle_, &version), kSuccess);
  EXPECT_EQ(static_cast<size_t>(version), call_as<size_t>("cublasLtGetVersion"));
  for (const char* const name : {"cublasGetProperty", "cublasLtGetProperty"}) {
    std::array<int, 3> parts{};
    for (int type = 0; type < 3; ++type) EXPECT_EQ(call(name, type, &parts[type]), kSuccess);
    EXPECT_EQ(parts[0] * 10000 + parts[1] * 100 + parts[2], version) << name;
    EXPECT_EQ(call(name, 3, parts.data()), kInvalidValue) << name;
  }
  constexpr int kArchMismatch = 8, kUndefined = 2;
  for (const char* const name : {"cublasGetStatusName", "cublasLtGetStatusName"}) {
    EXPECT_STREQ(call_as<const char*>(name, kArchMismatch), "CUBLAS_STATUS_ARCH_MISMATCH");
    EXPECT_STREQ(call_as<const char*>(name, kUndefined), "CUBLAS_STATUS_UNKNOWN");
  }
}

TEST_F(Blas, ProductTakesNoLessThanThePeakAllows) {
  // 2 * 4096^3 operations at the 14 TFLOPS that the V100's datasheet gives for FP32.
  const double least_ms = 2.0 * 4096 * 4096 * 4096 / 14e12 * 1e3;
  const float measured_ms = time_of_gemm(4096);
  EXPECT_GE(measured_ms, least_ms * (1 - 1e-6));  // Events report whole nanoseconds, as a float.
  EXPECT_LT(measured_ms, 2 * least_ms);
}

TEST_F(Blas, TimeGrowsWithTheWork) {
  // Eight times the work; the smaller product fills the last wave of the GPU less well.
  const float ratio = time_of_gemm(4096) / time_of_gemm(2048);
  EXPECT_GT(ratio, 4);
  EXPECT_LE(ratio, 8.5F);
}

TEST_F(Blas, AMatrixThatABatchSharesIsReadOnce) {
  constexpr int kSide = 1024, kBatch = 1000;
  const float one = 1;
  const float* const number = &one;
  const void* const operand = nullptr;
  void* const result = nullptr;
  const auto time = [&](int m, int n, long long stride_a, long long stride_b) {
    return time_of([&, this] {
      EXPECT_EQ(
          call("cublasSgemmStridedBatched", handle_, 0, 0, m, n, kSide,
               static_cast<const void*>(number), operand, m, stride_a, operand, kSide, stride_b,
               static_cast<const void*>(number), result, m, static_cast<long long>(m) * n, kBatch),
          kSuccess);
    });
  };
  constexpr long long kMatrix = static_cast<long long>(kSide) * kSide;
  EXPECT_GT(time(kSide, 1, kMatrix, kSide), 5 * time(kSide, 1, 0, kSide));
  EXPECT_GT(time(1, kSide, kSide, kMatrix), 5 * time(1, kSide, kSide, 0));
}

TEST_F(Blas, RefusesLeadingDimensionsThatDoNotHoldTheMatrix) {
  EXPECT_EQ(gemm(64, 32, 16, 63), kInvalidValue);
  EXPECT_EQ(gemm(-1, 32, 16, 64), kInvalidValue);
  EXPECT_EQ(gemm(64, 32, 16, 64), kSuccess);
}

TEST_F(Blas, WorkBeyond64BitsIsNotFree) {
  const float one = 1, *const number = &one;
  const int64_t side = int64_t{1} << 40, quarter = int64_t{1} << 62, step = 1, none = 0;
  const auto expect = [&](const char* name, int status, auto... arguments) {
    const float milliseconds =
        time_of([&] { EXPECT_EQ(call(name, handle_, arguments...), status) << name; });
    EXPECT_GE(milliseconds, 3.6e6F) << name << " takes the longest time that a call can";
  };
  int* written = nullptr;
  ASSERT_EQ(call("cudaMalloc", &written, sizeof(*written)), 0);
  // 64 bits do not hold the bytes of the results.
  expect("cublasSgemm_v2_64", kExecutionFailed, 0, 0, side, side, none, number, none_, side, none_,
         step, number, written, side);
  expect("cublasSger_v2_64", kExecutionFailed, side, side, number, none_, step, none_, step,
         written, side);
  expect("cublasSsyr_v2_64", kExecutionFailed, 0, side, number, none_, step, written, side);
  expect("cublasSgeam_64", kExecutionFailed, 0, 0, side, side, number, none_, side, number, none_,
         side, written, side);
  expect("cublasSdgmm_64", kExecutionFailed, 0, side, side, none_, side, none_, step, written,
         side);
  expect("cublasStrsm_v2_64", kExecutionFailed, 0, 0, 0, 0, side, side, number, none_, side,
         written, side);
  expect("cublasStrsv_v2_64", 0, 0, 0, 0, side, none_, side, none_, step);
  expect("cublasSaxpy_v2_64", kExecutionFailed, quarter, number, none_, step, written, step);
  float sum = 1;
  expect("cublasSdot_v2_64", 0, quarter, none_, step, none_, step, &sum);
  // 2 / 3 n^3 operations on a matrix of 49 TB.
  const int order = 3'500'000;
  expect("cublasSgetrfBatched", 0, order, written, order, none_, written, 1);
  EXPECT_EQ(call("cudaFree", written), 0);
}

TEST_F(Blas, RefusesSizesOfWhichNoMemoryHoldsTheBytes) {
  const float one = 1, *const number = &one;
  const int64_t most = INT64_MAX, least = INT64_MIN, step = 1;
  EXPECT_EQ(call("cublasSetVector_64", step, most, &one, step, none_, step), kMappingError);
  EXPECT_EQ(call("cublasSetMatrix_64", most, step, int64_t{4}, &one, most, none_, most),
            kInvalidValue);
  EXPECT_EQ(call("cublasGetVector_64", step, int64_t{4}, none_, most, none_, step), kInvalidValue);
  EXPECT_EQ(call("cublasScopy_v2_64", handle_, step, none_, step, none_, least), kInvalidValue);
  EXPECT_EQ(call("cublasSsyrk_v2_64", handle_, 0, 0, most, step, number, none_, most, number, none_,
                 most),
            kInvalidValue);
}

TEST_F(Blas, NothingToDoIsNoError) {
  EXPECT_EQ(gemm(0, 32, 16, 1), kSuccess);
}

TEST_F(Blas, UpdatesOfRankZeroScaleTheMatrix) {
  const float one = 1, *const number = &one;
  const int order = 1024, rank = 0;
  float* c = nullptr;
  ASSERT_EQ(call("cudaMalloc", &c, sizeof(*c) * order * order), 0);
  EXPECT_GT(time_of([&] {
              EXPECT_EQ(call("cublasSsyrk_v2", handle_, 0, 0, order, rank, number, none_, order,
                             number, c, order),
                        kSuccess);
            }),
            0);
  EXPECT_GT(time_of([&] {
              EXPECT_EQ(call("cublasSsyr2k_v2", handle_, 0, 0, order, rank, number, none_, order,
                             none_, order, number, c, order),
                        kSuccess);
            }),
            0);
  EXPECT_EQ(call("cudaFree", c), 0);
}

TEST_F(BlasContent, MatricesAndVectorsThatAreUpdatedKeepTheirContent) {
  const int step = 2;  // With steps, products are not computed.
  EXPECT_EQ(
      after("cublasSgemv_v2", 0, 2, 2, alpha_, other_, 2, other_, 1, all_of_c_, written_, step),
      kBefore);
  EXPECT_EQ(after("cublasSsymv_v2", 0, 2, alpha_, other_, 2, other_, 1, all_of_c_, written_, 1),
            kBefore);
  EXPECT_EQ(
      after("cublasSsymm_v2", 0, 0, 2, 2, alpha_, other_, 2, other_, 2, all_of_c_, written_, 2),
      kBefore);
  EXPECT_EQ(after("cublasSger_v2", 2, 2, alpha_, other_, 1, other_, 1, written_, 2), kBefore);
  EXPECT_EQ(after("cublasStrsv_v2", 0, 0, 0, 2, other_, 2, written_, 1), kBefore);
  EXPECT_EQ(after("cublasStrsm_v2", 0, 0, 0, 0, 2, 2, alpha_, other_, 2, written_, 2), kBefore);
  EXPECT_EQ(after("cublasStrmm_v2", 0, 0, 0, 0, 2, 2, alpha_, other_, 2, written_, 2, written_, 2),
            kBefore);
  EXPECT_EQ(after("cublasSgeam", 0, 0, 2, 2, alpha_, other_, 2, alpha_, written_, 2, written_, 2),
            kBefore);
  EXPECT_EQ(after("cublasSdgmm", 0, 2, 2, written_, 2, other_, 1, written_, 2), kBefore);
  EXPECT_EQ(after("cublasSaxpy_v2", 4, alpha_, other_, 1, written_, 1), kBefore);
  EXPECT_EQ(after("cublasSscal_v2", 4, alpha_, written_, 1), kBefore);
}

TEST_F(BlasContent, MatricesThatAreOverwrittenReadAsZeros) {
  EXPECT_EQ(after("cublasSsymv_v2", 0, 4, alpha_, none_, 4, none_, 1, none_of_c_, written_, 1),
            kZeros);
  EXPECT_EQ(
      after("cublasSsymm_v2", 0, 0, 2, 2, alpha_, other_, 2, other_, 2, none_of_c_, written_, 2),
      kZeros);
  EXPECT_EQ(after("cublasStrmm_v2", 0, 0, 0, 0, 2, 2, alpha_, other_, 2, other_, 2, written_, 2),
            kZeros);
  EXPECT_EQ(after("cublasSgeam", 0, 0, 2, 2, alpha_, other_, 2, alpha_, other_, 2, written_, 2),
            kZeros);
  EXPECT_EQ(after("cublasSdgmm", 0, 2, 2, other_, 2, other_, 1, written_, 2), kZeros);
}

TEST_F(BlasContent, ATriangleThatIsWrittenLeavesTheOther) {
  for (const float* const beta : {none_of_c_, all_of_c_}) {
    EXPECT_EQ(after("cublasSsyrk_v2", 0, 0, 2, 2, alpha_, other_, 2, beta, written_, 2), kBefore);
    EXPECT_EQ(after("cublasSsyr2k_v2", 0, 0, 2, 2, alpha_, other_, 2, other_, 2, beta, written_, 2),
              kBefore);
  }
  EXPECT_EQ(after("cublasSsyr_v2", 0, 2, alpha_, other_, 1, written_, 2), kBefore);
  EXPECT_EQ(after("cublasSsyr2_v2", 0, 2, alpha_, other_, 1, other_, 1, written_, 2), kBefore);
}

TEST_F(Blas, RefusesHandlesThatAreNotAlive) {
  int mode = 0;
  EXPECT_EQ(call("cublasGetMathMode", none_, &mode), kNotInitialized);
  void* other = nullptr;
  ASSERT_EQ(call("cublasCreate_v2", &other), kSuccess);
  ASSERT_EQ(call("cublasDestroy_v2", other), kSuccess);
  EXPECT_EQ(call("cublasDestroy_v2", other), kNotInitialized);
}

TEST_F(Blas, AHandleServesCublasLtAndHeuristicsGiveAnAlgorithmWithoutWorkspace) {
  constexpr int kFp32 = 0;
  constexpr int kCompute32F = 68;
  void* matmul = nullptr;
  void* preference = nullptr;
  std::array<void*, 3> layouts{};
  ASSERT_EQ(call("cublasLtMatmulDescCreate", &matmul, kCompute32F, kFp32), kSuccess);
  ASSERT_EQ(call("cublasLtMatmulPreferenceCreate", &preference), kSuccess);
  const std::array<std::array<uint64_t, 2>, 3> sizes = {{{64, 16}, {16, 32}, {64, 32}}};
  for (size_t i = 0; i < layouts.size(); ++i) {
    ASSERT_EQ(call("cublasLtMatrixLayoutCreate", &layouts[i], kFp32, sizes[i][0], sizes[i][1],
                   static_cast<int64_t>(sizes[i][0])),
              kSuccess);
  }
  std::array<uint64_t, 12> result{};  // cublasLtMatmulHeuristicResult_t; the ninth is the workspace
  result[8] = 1;
  int returned = 0;
  void* const answer = result.data();
  EXPECT_EQ(call("cublasLtMatmulAlgoGetHeuristic", handle_, matmul, layouts[0], layouts[1],
                 layouts[2], layouts[2], preference, 1, answer, &returned),
            kSuccess);
  EXPECT_EQ(returned, 1);
  EXPECT_EQ(result[8], 0U);
  // 64 x 16 by 64 x 32 does not fit.
  EXPECT_EQ(call("cublasLtMatmulAlgoGetHeuristic", handle_, matmul, layouts[0], layouts[2],
                 layouts[2], layouts[2], preference, 1, answer, &returned),
            kInvalidValue);
  for (void* const layout : layouts) {
    EXPECT_EQ(call("cublasLtMatrixLayoutDestroy", layout), kSuccess);
  }
  EXPECT_EQ(call("cublasLtMatmulPreferenceDestroy", preference), kSuccess);
  EXPECT_EQ(call("cublasLtMatmulDescDestroy", matmul), kSuccess);
}

}  // namespace
