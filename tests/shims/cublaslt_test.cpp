// SPDX-License-Identifier: Apache-2.0
// Each function of cuBLASLt's shim, on an emulated GPU: a good call, and a bad one for each
// argument that cuBLASLt documents to check.
#include "spelled_calls.hpp"

namespace {

constexpr int kNotInitialized = 1, kInvalidValue = 7, kNotSupported = 15;
constexpr uint64_t kMinusOne = ~uint64_t{0};
constexpr uint64_t kOrder = 4;
constexpr int kFp32 = 0, kCompute32F = 68;

struct Function {
  const char* name;
  const char* spelling;
};

constexpr Function kFunctions[] = {
    {"HeuristicsCacheGetCapacity", "R"},      {"MatmulAlgoGetIds", "Hc.dd..1RR"},
    {"MatmulAlgoInit", "Hc.....iR"},          {"MatmulAlgoCheck", "HMLLLLGR"},
    {"MatmulAlgoConfigSetAttribute", "GaR4"}, {"MatmulAlgoConfigGetAttribute", "GbR4r"},
    {"MatmulAlgoGetHeuristic", "HMLLLLP1RR"}, {"Matmul", "HMAmLmLAmLOLG..."},
    {"MatrixTransform", "HTAmL.m.OL."},
};

/// A kind of descriptor: how to spell its creation, and an attribute of so many bytes.
struct Kind {
  const char* name;
  const char* creation;
  int attribute, bytes;
};

constexpr Kind kKinds[] = {{"MatrixLayout", "R....", 2, 8},
                           {"MatmulDesc", "Rc.", 3, 4},
                           {"MatmulPreference", "R", 1, 8},
                           {"MatrixTransformDesc", "R.", 0, 4}};

class CublasLt : public SpelledCalls {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_CUBLAS, GPEMU_TEST_RUNTIME_12});  // cuBLAS needs cuBLASLt
    ASSERT_EQ(call("cublasLtCreate", &handle_), 0);
    ASSERT_EQ(call("cudaMalloc", &memory_, size_t{4096}), 0);
    ASSERT_EQ(call("cublasLtMatmulDescCreate", &matmul_, kCompute32F, kFp32), 0);
    ASSERT_EQ(call("cublasLtMatmulPreferenceCreate", &preference_), 0);
    ASSERT_EQ(call("cublasLtMatrixTransformDescCreate", &transform_, kFp32), 0);
    ASSERT_EQ(call("cublasLtMatrixLayoutCreate", &layout_, kFp32, kOrder, kOrder, kOrder), 0);
    ASSERT_EQ(call("cublasLtMatmulAlgoInit", handle_, kCompute32F, 0, 0, 0, 0, 0, 0, algorithm_),
              0);
    letters_.insert({{'H', {address_of(handle_), 0, kNotInitialized}},
                     {'M', {address_of(matmul_), 0, kInvalidValue}},
                     {'P', {address_of(preference_), 0, kInvalidValue}},
                     {'T', {address_of(transform_), 0, kInvalidValue}},
                     {'L', {address_of(layout_), 0, kInvalidValue}},
                     {'G', {address_of(algorithm_), address_of(host_), kInvalidValue}},
                     {'A', {address_of(host_), 0, kInvalidValue}},
                     {'R', {address_of(result_), 0, kInvalidValue}},
                     {'r', {address_of(&written_)}},
                     {'O', {address_of(memory_), 0, kInvalidValue}},
                     {'m', {address_of(memory_)}},
                     {'1', {1, 0, kInvalidValue}},          // how many are asked for
                     {'4', {4, 3, kInvalidValue}},          // bytes
                     {'a', {2, 0, kInvalidValue}},          // an attribute that can be set
                     {'b', {2, 99, kInvalidValue}},         // an attribute
                     {'i', {0, kMinusOne, kInvalidValue}},  // an algorithm
                     {'c', {kCompute32F}},
                     {'d', {kFp32, 99, kNotSupported}}});
  }

  void TearDown() override {
    EXPECT_EQ(call("cublasLtMatrixLayoutDestroy", layout_), 0);
    EXPECT_EQ(call("cublasLtMatrixTransformDescDestroy", transform_), 0);
    EXPECT_EQ(call("cublasLtMatmulPreferenceDestroy", preference_), 0);
    EXPECT_EQ(call("cublasLtMatmulDescDestroy", matmul_), 0);
    EXPECT_EQ(call("cudaFree", memory_), 0);
    EXPECT_EQ(call("cublasLtDestroy", handle_), 0);
    EXPECT_EQ(call("cublasLtDestroy", handle_), kNotInitialized);
  }

  void* handle_ = nullptr;
  void* memory_ = nullptr;
  void* matmul_ = nullptr;
  void* preference_ = nullptr;
  void* transform_ = nullptr;
  void* layout_ = nullptr;
  uint64_t algorithm_[8] = {}, host_[8] = {}, result_[12] = {};
  size_t written_ = 0;
};

TEST_F(CublasLt, FunctionsOfAHandle) {
  EXPECT_EQ(call("cublasLtCreate", none_), kInvalidValue);
  for (const Function& function : kFunctions) {
    check(std::string("cublasLt") + function.name, function.spelling);
  }
}

TEST_F(CublasLt, SizesMayExceed64Bits) {
  const auto layout = [&](uint64_t rows, uint64_t columns) {
    void* made = nullptr;
    EXPECT_EQ(call("cublasLtMatrixLayoutCreate", &made, kFp32, rows, columns, rows), 0);
    return made;
  };
  const uint64_t side = uint64_t{1} << 40;
  void* const no_columns = layout(side, 0);
  void* const no_rows = layout(0, side);
  void* const result = layout(side, side);
  constexpr int kExecutionFailed = 13;
  EXPECT_EQ(
      call("cublasLtMatmul", handle_, matmul_, &host_[0], memory_, no_columns, memory_, no_rows,
           &host_[0], memory_, result, memory_, result, none_, none_, size_t{0}, none_),
      kExecutionFailed)
      << "the bytes of the result exceed 64 bits";
  const auto transform = [&](void* from) {
    return call("cublasLtMatrixTransform", handle_, transform_, &host_[0], memory_, from, none_,
                none_, none_, memory_, from, none_);
  };
  EXPECT_EQ(transform(result), 0) << "the end of the memory is not checked";
  void* const negative = layout(kMinusOne, 1);
  EXPECT_EQ(transform(negative), kInvalidValue);
  for (void* const made : {no_columns, no_rows, result, negative}) {
    EXPECT_EQ(call("cublasLtMatrixLayoutDestroy", made), 0);
  }
}

TEST_F(CublasLt, AttributesOfDescriptors) {
  for (const Kind& kind : kKinds) {
    const std::string name = std::string("cublasLt") + kind.name;
    check(name + "Create", kind.creation);
    void* const made = reinterpret_cast<void*>(result_[0]);
    letters_['D'] = {address_of(made), address_of(host_), kInvalidValue};
    letters_['a'] = {static_cast<uint64_t>(kind.attribute), 99, kInvalidValue};
    letters_['s'] = {static_cast<uint64_t>(kind.bytes), 1, kInvalidValue};
    host_[0] = 2;
    check(name + "SetAttribute", "DaAs");
    check(name + "GetAttribute", "DaRsr");
    EXPECT_EQ(result_[0] & 0xff, 2U) << name;
    EXPECT_EQ(written_, static_cast<size_t>(kind.bytes)) << name;
    EXPECT_EQ(call((name + "Destroy").c_str(), made), 0);
    EXPECT_EQ(call((name + "Destroy").c_str(), made), kInvalidValue);
  }
}

TEST_F(CublasLt, VersionsAndTexts) {
  EXPECT_EQ(call_as<size_t>("cublasLtGetCudartVersion"), 12080U);
  EXPECT_EQ(call_as<size_t>("cublasGetCudartVersion"), 12080U);
  for (const char* name : {"cublasLtGetStatusString", "cublasGetStatusString"}) {
    EXPECT_STREQ(call_as<const char*>(name, kNotInitialized), "the library was not initialized");
    EXPECT_STREQ(call_as<const char*>(name, 2), "unknown status");
  }
}

}  // namespace
