// SPDX-License-Identifier: Apache-2.0
// Each function of cuBLAS's shim, on an emulated GPU: a good call, and a bad one for each argument
// that cuBLAS documents to check.
#include <array>
#include <vector>

#include "spelled_calls.hpp"

namespace {

constexpr int kNotInitialized = 1, kInvalidValue = 7, kMappingError = 11, kNotSupported = 15;
constexpr uint64_t kMinusOne = ~uint64_t{0};
constexpr uint64_t kOrder = 4;  // of the matrices; also the number of matrices in a batch

/// One function of each type: % is S, D, C or Z, $ is S or D, @ is C or Z, and ? is s, d, c or z;
/// * is nothing or _64.
struct Family {
  const char* name;
  const char* spelling;
};

constexpr Family kHandle[] = {
    {"SetStream_v2", "H."},     {"GetStream_v2", "HR"},      {"SetMathMode", "Ho"},
    {"GetMathMode", "HR"},      {"SetPointerMode_v2", "Hf"}, {"GetPointerMode_v2", "HR"},
    {"SetAtomicsMode", "Hf"},   {"GetAtomicsMode", "HR"},    {"SetSmCountTarget", "Hn"},
    {"GetSmCountTarget", "HR"}, {"SetWorkspace_v2", "HWk"},  {"GetVersion_v2", ".R"},
};

constexpr Family kCopies[] = {
    {"SetVector*", "neBiMi"},  {"SetVectorAsync*", "neBiMi."},
    {"GetVector*", "neMiBi"},  {"GetVectorAsync*", "neMiBi."},
    {"SetMatrix*", "nneBlMl"}, {"SetMatrixAsync*", "nneBlMl."},
    {"GetMatrix*", "nneMlBl"}, {"GetMatrixAsync*", "nneMlBl."},
};

constexpr Family kVectors[] = {
    {"%axpy_v2*", "HkaMkMk"},   {"%scal_v2*", "HkaMk"},    {"Csscal_v2*", "HkaMk"},
    {"Zdscal_v2*", "HkaMk"},    {"%copy_v2*", "HkMkMk"},   {"%swap_v2*", "HkMkMk"},
    {"%rot_v2*", "HkMkMkaa"},   {"Csrot_v2*", "HkMkMkaa"}, {"Zdrot_v2*", "HkMkMkaa"},
    {"$rotm_v2*", "HkMkMka"},   {"%rotg_v2", "HRRRR"},     {"$rotmg_v2", "HRRRRR"},
    {"$dot_v2*", "HkMkMkR"},    {"@dotu_v2*", "HkMkMkR"},  {"@dotc_v2*", "HkMkMkR"},
    {"$nrm2_v2*", "HkMkR"},     {"Scnrm2_v2*", "HkMkR"},   {"Dznrm2_v2*", "HkMkR"},
    {"$asum_v2*", "HkMkR"},     {"Scasum_v2*", "HkMkR"},   {"Dzasum_v2*", "HkMkR"},
    {"I?amax_v2*", "HkMkR"},    {"I?amin_v2*", "HkMkR"},   {"DotEx*", "HkMdkMdkRdd"},
    {"DotcEx*", "HkMdkMdkRdd"},
};

constexpr Family kMatrices[] = {
    {"%gemv_v2*", "HtnnAMlMiAMi"},      {"%symv_v2*", "HfnAMlMiAMi"},
    {"@hemv_v2*", "HfnAMlMiAMi"},       {"$ger_v2*", "HnnAMiMiMl"},
    {"@geru_v2*", "HnnAMiMiMl"},        {"@gerc_v2*", "HnnAMiMiMl"},
    {"%syr_v2*", "HfnAMiMl"},           {"@her_v2*", "HfnAMiMl"},
    {"%syr2_v2*", "HfnAMiMiMl"},        {"@her2_v2*", "HfnAMiMiMl"},
    {"%trmv_v2*", "HftfnMlMi"},         {"%trsv_v2*", "HftfnMlMi"},
    {"%symm_v2*", "HffnnAMlMlAMl"},     {"@hemm_v2*", "HffnnAMlMlAMl"},
    {"%syrk_v2*", "HftnnAMlAMl"},       {"@herk_v2*", "HftnnAMlAMl"},
    {"%syr2k_v2*", "HftnnAMlMlAMl"},    {"@her2k_v2*", "HftnnAMlMlAMl"},
    {"%trmm_v2*", "HfftfnnAMlMlMl"},    {"%trsm_v2*", "HfftfnnAMlMl"},
    {"%trsmBatched*", "HfftfnnaPlPln"}, {"%geam*", "HttnnAMlAMlMl"},
    {"%dgmm*", "HfnnMlMkMl"},
};

constexpr Family kProducts[] = {
    {"%gemm_v2*", "HttnnnAMlMlAMl"},
    {"Hgemm*", "HttnnnAMlMlAMl"},
    {"@gemm3m*", "HttnnnAMlMlAMl"},
    {"%gemmBatched*", "HttnnnAPlPlAPln"},
    {"HgemmBatched*", "HttnnnAPlPlAPln"},
    {"%gemmStridedBatched*", "HttnnnAMlsMlsAMlsn"},
    {"HgemmStridedBatched*", "HttnnnAMlsMlsAMlsn"},
    {"SgemmEx*", "HttnnnAMdlMdlAMdl"},
    {"CgemmEx*", "HttnnnAMdlMdlAMdl"},
    {"GemmEx*", "HttnnnAMdlMdlAMdlc."},
    {"GemmBatchedEx*", "HttnnnAPdlPdlAPdlnc."},
    {"GemmStridedBatchedEx*", "HttnnnAMdlsMdlsAMdlsnc."},
};

constexpr Family kBatches[] = {
    {"%getrfBatched", "HnPl.In"},     {"%getriBatched", "HnPl.PlIn"},
    {"%getrsBatched", "HtnnPl.PlRn"}, {"%geqrfBatched", "HnnPlPRn"},
    {"%gelsBatched", "HunnnPlPlR.n"}, {"%matinvBatched", "HnPlPlIn"},
};

class Cublas : public SpelledCalls {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_CUBLAS, GPEMU_TEST_RUNTIME_12});
    ASSERT_EQ(call("cudaMalloc", &memory_, size_t{8192}), 0);
    ASSERT_EQ(call("cublasCreate_v2", &handle_), 0);
    const uint64_t matrix = address_of(memory_), info = matrix + 4096, batch = matrix + 6144;
    const uint64_t matrices[kOrder] = {matrix, matrix + 256, matrix + 512, matrix + 768};
    constexpr int kToDevice = 1;
    ASSERT_EQ(call("cudaMemcpy", batch, &matrices[0], sizeof(matrices), kToDevice), 0);
    letters_.insert({{'H', {address_of(handle_), 0, kNotInitialized}},
                     {'M', {matrix}},
                     {'W', {matrix, matrix + 1, kInvalidValue}},  // a workspace
                     {'P', {batch}},                              // an array of matrices
                     {'I', {info, 0, kInvalidValue}},
                     {'A', {address_of(&host_[0]), 0, kInvalidValue}},
                     {'a', {address_of(&host_[0])}},
                     {'B', {address_of(&host_[0]), 0, kMappingError}},
                     {'R', {address_of(&host_[16]), 0, kInvalidValue}},
                     {'n', {kOrder, kMinusOne, kInvalidValue}},
                     {'k', {kOrder}},
                     {'s', {kOrder * kOrder}},                    // from matrix to matrix
                     {'l', {kOrder, kOrder - 1, kInvalidValue}},  // a leading dimension
                     {'i', {1, 0, kInvalidValue}},                // from element to element
                     {'e', {1, 0, kInvalidValue}},                // bytes of an element
                     {'f', {0, 2, kInvalidValue}},                // upper or lower, left or right
                     {'t', {0, 3, kInvalidValue}},                // transposed or not
                     {'u', {0, 1, kNotSupported}},                // not transposed
                     {'o', {0, 9, kInvalidValue}},                // a mode
                     {'c', {68}},                                 // FP32
                     {'d', {0, 99, kNotSupported}}});             // a type
  }

  void TearDown() override {
    EXPECT_EQ(call("cublasDestroy_v2", handle_), 0);
    EXPECT_EQ(call("cublasDestroy_v2", handle_), kNotInitialized);
    EXPECT_EQ(call("cudaFree", memory_), 0);
  }

  /// Returns the names for each value of one letter of a pattern.
  static std::vector<std::string> expanded(const std::string& pattern) {
    const std::map<char, std::vector<std::string>> values = {{'%', {"S", "D", "C", "Z"}},
                                                             {'?', {"s", "d", "c", "z"}},
                                                             {'$', {"S", "D"}},
                                                             {'@', {"C", "Z"}},
                                                             {'*', {"", "_64"}}};
    const size_t at = pattern.find_first_of("%?$@*");
    if (at == std::string::npos) return {"cublas" + pattern};
    std::vector<std::string> names;
    for (const std::string& value : values.at(pattern[at])) {
      const auto some = expanded(std::string(pattern).replace(at, 1, value));
      names.insert(names.end(), some.begin(), some.end());
    }
    return names;
  }

  template <size_t Count>
  void check_all(const Family (&families)[Count]) {
    for (const Family& family : families) {
      for (const std::string& name : expanded(family.name)) check(name, family.spelling);
    }
  }

  void* memory_ = nullptr;
  void* handle_ = nullptr;
  alignas(16) char host_[128] = {};
};

TEST_F(Cublas, SettingsOfHandles) {
  check_all(kHandle);
  EXPECT_EQ(call("cublasCreate_v2", none_), kInvalidValue);
}

TEST_F(Cublas, Copies) {
  check_all(kCopies);
}

TEST_F(Cublas, Vectors) {
  check_all(kVectors);
}

TEST_F(Cublas, Matrices) {
  check_all(kMatrices);
}

TEST_F(Cublas, Products) {
  check_all(kProducts);
}

TEST_F(Cublas, BatchesOfSmallMatrices) {
  check_all(kBatches);
}

/// They return values, not statuses; nothing is computed.
TEST_F(Cublas, LegacyFunctionsReturnZero) {
  using Float2 = std::array<float, 2>;
  using Double2 = std::array<double, 2>;
  for (const char* name : {"Sdot", "Snrm2", "Scnrm2", "Sasum", "Scasum"}) {
    EXPECT_EQ(call_as<float>(("cublas" + std::string(name)).c_str()), 0) << name;
  }
  for (const char* name : {"Ddot", "Dnrm2", "Dznrm2", "Dasum", "Dzasum"}) {
    EXPECT_EQ(call_as<double>(("cublas" + std::string(name)).c_str()), 0) << name;
  }
  for (const char* name : {"cublasCdotu", "cublasCdotc"}) {
    EXPECT_EQ(call_as<Float2>(name), Float2{}) << name;
  }
  for (const char* name : {"cublasZdotu", "cublasZdotc"}) {
    EXPECT_EQ(call_as<Double2>(name), Double2{}) << name;
  }
}

}  // namespace
