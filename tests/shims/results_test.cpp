// SPDX-License-Identifier: Apache-2.0
// The results that the shims of cuSPARSE, cuSOLVER and cuBLAS write for programs to read: indices,
// pivots and positions.
#include <cstdint>
#include <cstring>
#include <vector>

#include "loaded_libraries.hpp"

namespace {

using Numbers = std::vector<int>;

class Results : public LoadedLibraries {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_RUNTIME_12, GPEMU_TEST_SPARSE, GPEMU_TEST_SOLVER, GPEMU_TEST_CUBLAS});
    ASSERT_EQ(call("cusparseCreate", &sparse_), 0);
  }

  void TearDown() override {
    EXPECT_EQ(call("cusparseDestroy", sparse_), 0);
    for (int* const numbers : made_) EXPECT_EQ(call("cudaFree", static_cast<void*>(numbers)), 0);
  }

  int* on_device(const Numbers& numbers) {
    void* memory = nullptr;
    const size_t bytes = numbers.size() * sizeof(int);
    EXPECT_EQ(call("cudaMalloc", &memory, bytes), 0);
    EXPECT_EQ(call("cudaMemcpy", memory, static_cast<const void*>(numbers.data()), bytes, 1), 0);
    made_.push_back(static_cast<int*>(memory));
    return made_.back();
  }

  Numbers read(const int* memory, size_t count) {
    Numbers numbers(count);
    EXPECT_EQ(call("cudaMemcpy", static_cast<void*>(numbers.data()),
                   static_cast<const void*>(memory), count * sizeof(int), 2),
              0);
    return numbers;
  }

  std::vector<int*> made_;
  void* sparse_ = nullptr;
};

/// JAX asks for them before it uses the GPU.
TEST_F(Results, PropertiesAreThePartsOfTheVersion) {
  const auto composed = [this](const char* function) {
    int parts[3] = {};
    for (int type = 0; type < 3; ++type) EXPECT_EQ(call(function, type, &parts[type]), 0);
    EXPECT_NE(call(function, 3, parts), 0);
    return parts[0] * 1000 + parts[1] * 100 + parts[2];
  };
  int sparse = 0, solver = 0;
  ASSERT_EQ(call("cusparseGetVersion", static_cast<const void*>(sparse_), &sparse), 0);
  ASSERT_EQ(call("cusolverGetVersion", &solver), 0);
  EXPECT_EQ(composed("cusparseGetProperty"), sparse);
  EXPECT_EQ(composed("cusolverGetProperty"), solver);
}

TEST_F(Results, SparseRowsAreCompressed) {
  const int* const rows = on_device({0, 0, 2, 2, 2, 3});
  int* const offsets = on_device({9, 9, 9, 9, 9, 9});
  ASSERT_EQ(call("cusparseXcoo2csr", sparse_, rows, 6, 5, offsets, 0), 0);
  EXPECT_EQ(read(offsets, 6), (Numbers{0, 2, 2, 5, 6, 6}));
  const int* const from_one = on_device({1, 3});
  ASSERT_EQ(call("cusparseXcoo2csr", sparse_, from_one, 2, 3, offsets, 1), 0);
  EXPECT_EQ(read(offsets, 4), (Numbers{1, 2, 2, 3}));
}

TEST_F(Results, SparseRowsBeyondTheMatrixAreKeptWithin) {
  const int* const rows = on_device({-7, 2000000000});
  int* const offsets = on_device({9, 9, 9, 9});
  ASSERT_EQ(call("cusparseXcoo2csr", sparse_, rows, 2, 2, offsets, 0), 0);
  EXPECT_EQ(read(offsets, 4), (Numbers{1, 1, 2, 9}));
  const void* const stray = &sparse_;
  EXPECT_EQ(call("cusparseXcoo2csr", sparse_, stray, 2, 2, offsets, 0), 3) << "the host's memory";
}

TEST_F(Results, SortByRowIsStableAndMovesThePermutation) {
  int* const rows = on_device({2, 0, 2, 1});
  int* const columns = on_device({5, 6, 4, 7});
  int* const permutation = on_device({9, 9, 9, 9});
  ASSERT_EQ(call("cusparseCreateIdentityPermutation", sparse_, 4, permutation), 0);
  EXPECT_EQ(read(permutation, 4), (Numbers{0, 1, 2, 3}));
  ASSERT_EQ(call("cusparseXcoosortByRow", sparse_, 3, 8, 4, rows, columns, permutation, none_), 0);
  EXPECT_EQ(read(rows, 4), (Numbers{0, 1, 2, 2}));
  EXPECT_EQ(read(columns, 4), (Numbers{6, 7, 5, 4}));
  EXPECT_EQ(read(permutation, 4), (Numbers{1, 3, 0, 2}));
}

TEST_F(Results, SortOfCompressedRowsStaysWithinThem) {
  const int* const offsets = on_device({1, 4, 4, 6});
  int* const columns = on_device({3, 1, 2, 9, 8});
  int* const permutation = on_device({0, 1, 2, 3, 4});
  ASSERT_EQ(call("cusparseXcsrsort", sparse_, 3, 9, 5, none_, offsets, columns, permutation, none_),
            0);
  EXPECT_EQ(read(columns, 5), (Numbers{1, 2, 3, 8, 9}));
  EXPECT_EQ(read(permutation, 5), (Numbers{1, 2, 0, 4, 3}));
}

TEST_F(Results, CountsBeyondTheArraysAreRefused) {
  constexpr int kMany = 2147483647;
  constexpr int kInvalidValue = 3;
  int* const array = on_device({0, 1});
  EXPECT_EQ(call("cusparseCreateIdentityPermutation", sparse_, kMany, array), kInvalidValue);
  EXPECT_EQ(call("cusparseXcoo2csr", sparse_, array, kMany, 1, array, 0), kInvalidValue);
  EXPECT_EQ(call("cusparseXcoo2csr", sparse_, array, 1, kMany, array, 0), kInvalidValue);
  EXPECT_EQ(call("cusparseXcoosortByRow", sparse_, 1, 1, kMany, array, array, none_, none_),
            kInvalidValue);
  EXPECT_EQ(call("cusparseXcsrsort", sparse_, kMany, 1, 1, none_, array, array, none_, none_),
            kInvalidValue);
  EXPECT_EQ(call("cusparseXcsrsort", sparse_, 1, 1, kMany, none_, array, array, none_, none_),
            kInvalidValue);
  void* solver = nullptr;
  ASSERT_EQ(call("cusolverDnCreate", &solver), 0);
  EXPECT_NE(call("cusolverDnSpotrfBatched", solver, 0, 1, array, 1, array, kMany), 0);
  EXPECT_EQ(call("cusolverDnDestroy", solver), 0);
  void* blas = nullptr;
  ASSERT_EQ(call("cublasCreate_v2", &blas), 0);
  EXPECT_NE(call("cublasSgetrfBatched", blas, 1, array, 1, array, array, kMany), 0);
  EXPECT_EQ(call("cublasDestroy_v2", blas), 0);
}

TEST_F(Results, BatchesReportToTheDeviceOnly) {
  void* const matrix = on_device(Numbers(4));
  Numbers address(sizeof(matrix) / sizeof(int));
  std::memcpy(address.data(), &matrix, sizeof(matrix));
  int* const matrices = on_device(address);
  int* const pivots = on_device({0, 0, 7});
  int* const info = on_device({7, 7});
  int on_host = 7;
  void* blas = nullptr;
  ASSERT_EQ(call("cublasCreate_v2", &blas), 0);
  EXPECT_EQ(call("cublasSgetrfBatched", blas, 2, matrices, 2, pivots, info, 1), 0);
  EXPECT_EQ(read(pivots, 3), (Numbers{1, 2, 7}));
  EXPECT_EQ(read(info, 2), (Numbers{0, 7}));
  EXPECT_NE(call("cublasSgetrfBatched", blas, 2, matrices, 2, pivots, &on_host, 1), 0);
  EXPECT_EQ(on_host, 7);
  EXPECT_EQ(call("cublasDestroy_v2", blas), 0);
}

TEST_F(Results, FactorisationsSwapNoRows) {
  int* const pivots = on_device({0, 0, 0, 7});
  int* const info = on_device({7});
  void* const matrix = on_device(Numbers(16));
  void* solver = nullptr;
  ASSERT_EQ(call("cusolverDnCreate", &solver), 0);
  ASSERT_EQ(call("cusolverDnSgetrf", solver, 4, 3, matrix, 4, none_, pivots, info), 0);
  EXPECT_EQ(read(pivots, 4), (Numbers{1, 2, 3, 7}));
  EXPECT_EQ(read(info, 1), Numbers{0});
  EXPECT_EQ(call("cusolverDnDestroy", solver), 0);
}

TEST_F(Results, PositionsOfVectorsBeginAtOne) {
  void* blas = nullptr;
  int position = 7;
  const void* const vector = on_device(Numbers(8));
  ASSERT_EQ(call("cublasCreate_v2", &blas), 0);
  ASSERT_EQ(call("cublasIsamax_v2", blas, 8, vector, 1, &position), 0);
  EXPECT_EQ(position, 1);
  ASSERT_EQ(call("cublasIsamax_v2", blas, 0, vector, 1, &position), 0);
  EXPECT_EQ(position, 0) << "of no elements there is none";
  EXPECT_EQ(call("cublasDestroy_v2", blas), 0);
}

}  // namespace
