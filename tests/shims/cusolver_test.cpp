// SPDX-License-Identifier: Apache-2.0
// Each function of cuSOLVER's shim, on an emulated GPU: a good call, and a bad one for each
// argument that cuSOLVER documents to check.
#include <cstring>
#include <vector>

#include "spelled_calls.hpp"

namespace {

constexpr int kNotInitialized = 1, kInvalidValue = 3;
constexpr uint64_t kMinusOne = ~uint64_t{0};
constexpr uint64_t kOrder = 4;  // of the matrices; also the number of matrices in a batch

/// One function of each type of matrix: % is S, D, C or Z, @ is sy or he, and # is or or un.
struct Family {
  const char* name;
  const char* spelling;
  int size = 0;  ///< of the work area that it yields, in elements
};

constexpr int kColumns = 32 * 4, kSvd = 2 * 4 * 4 + 64 * (4 + 4), kEigen = 2 * 4 * 4 + 64 * 4;
constexpr Family kFamilies[] = {
    {"%potrf_bufferSize", "Hfn.lO", kColumns},
    {"%potrf", "HfnMl..I"},
    {"%potrs", "HfnnMlMlI"},
    {"%potrfBatched", "HfnPlIn"},
    {"%potrsBatched", "HfnnPlPlIn"},
    {"%getrf_bufferSize", "Hnn.lO", kColumns},
    {"%getrf", "HnnMl.mI"},
    {"%getrs", "HtnnMlmMlI"},
    {"%geqrf_bufferSize", "Hnn.lO", kColumns},
    {"%geqrf", "HnnMlM..I"},
    {"%sytrf_bufferSize", "Hn.lO", kColumns},
    {"%sytrf", "HfnMlm..I"},
    {"%#gqr_bufferSize", "Hnnk.l.O", kColumns},
    {"%#gqr", "HnnkMlM..I"},
    {"%#mqr_bufferSize", "Hstnnk.l..lO", kColumns},
    {"%#mqr", "HstnnkMlMMl..I"},
    {"%gesvd_bufferSize", "HnnO", kSvd},
    {"%gesvd", "H..nnMlMm.m....I"},
    {"%gesvdj_bufferSize", "Hv.nn.l.....O.", kSvd},
    {"%gesvdj", "Hv.nnMlMm.m...I."},
    {"%gesvdjBatched_bufferSize", "Hvnn.l.....O.n", kSvd * 4},
    {"%gesvdjBatched", "HvnnMlMm.m...I.n"},
    {"%gesvdaStridedBatched_bufferSize", "Hvknn.l.........On", kSvd * 4},
    {"%gesvdaStridedBatched", "HvknnMl.M.m..m....Ihn"},
    {"%@evd_bufferSize", "Hvfn.l.O", kEigen},
    {"%@evd", "HvfnMlM..I"},
    {"%@evj_bufferSize", "Hvfn.l.O.", kEigen},
    {"%@evj", "HvfnMlM..I."},
    {"%@evjBatched_bufferSize", "Hvfn.l.O.n", kEigen * 4},
    {"%@evjBatched", "HvfnMlM..I.n"},
};

/// The 64-bit interface, whose matrices have any type; sizes are in bytes.
constexpr Family kAnyType[] = {
    {"Xpotrf_bufferSize", "H.fnd.l.QO", kColumns * 4},
    {"Xpotrf", "H.fndMl.....I"},
    {"Xpotrs", "H.fnndMl.MlI"},
    {"Xsytrs_bufferSize", "Hfnnd.l...lQO", kColumns * 4},
    {"Xsytrs", "HfnndMl..Ml....I"},
    {"Xgeqrf_bufferSize", "H.nnd.l...QO", kColumns * 4},
    {"Xgeqrf", "H.nndMl.M.....I"},
    {"Xsyevd_bufferSize", "H.vfnd.l...QO", kEigen * 4},
    {"Xsyevd", "H.vfndMl.M.....I"},
    {"XsyevBatched_bufferSize", "H.vfnd.l...QOn", kEigen * 4 * 4},
    {"XsyevBatched", "H.vfndMl.M.....In"},
    {"Xgeev_bufferSize", "H.wvnd.l.........QO", kEigen * 4},
    {"Xgeev", "H.wvndMl.M...........I"},
};

class Cusolver : public SpelledCalls {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_SOLVER, GPEMU_TEST_RUNTIME_12});
    ASSERT_EQ(call("cudaMalloc", &memory_, size_t{8192}), 0);
    ASSERT_EQ(call("cusolverDnCreate", &handle_), 0);
    const uint64_t matrix = address_of(memory_), info = matrix + 4096, batch = matrix + 6144;
    info_ = reinterpret_cast<void*>(info);
    const uint64_t matrices[kOrder] = {matrix, matrix + 256, matrix + 512, matrix + 768};
    ASSERT_EQ(call("cudaMemcpy", batch, &matrices[0], sizeof(matrices), kToDevice), 0);
    letters_.insert({{'H', {address_of(handle_), 0, kNotInitialized}},
                     {'M', {matrix, 0, kInvalidValue}},
                     {'m', {matrix}},
                     {'P', {batch, 0, kInvalidValue}},  // an array of matrices
                     {'I', {info, 0, kInvalidValue}},
                     {'O', {address_of(&size_), 0, kInvalidValue}},
                     {'Q', {address_of(&device_size_), 0, kInvalidValue}},
                     {'h', {address_of(&norms_[0])}},
                     {'n', {kOrder, kMinusOne, kInvalidValue}},
                     {'l', {kOrder, kOrder - 1, kInvalidValue}},  // a leading dimension
                     {'k', {2, kMinusOne, kInvalidValue}},        // a rank
                     {'f', {1, 2, kInvalidValue}},                // upper or lower
                     {'v', {1, 2, kInvalidValue}},                // with vectors or without
                     {'w', {0, 1, kInvalidValue}},                // without
                     {'s', {1, 2, kInvalidValue}},                // left or right
                     {'t', {2, 3, kInvalidValue}},                // transposed or not
                     {'d', {0, 99, kInvalidValue}}});             // a type
  }

  void TearDown() override {
    EXPECT_EQ(call("cusolverDnDestroy", handle_), 0);
    EXPECT_EQ(call("cusolverDnDestroy", handle_), kNotInitialized);
    EXPECT_EQ(call("cudaFree", memory_), 0);
  }

  /// Checks a function that reports in `info_` that it succeeded, or yields a size.
  void check_family(const std::string& name, const Family& family) {
    int info = 7;
    ASSERT_EQ(call("cudaMemcpy", info_, &info, sizeof(info), kToDevice), 0);
    size_ = device_size_ = 99;
    check("cusolverDn" + name, family.spelling);
    ASSERT_EQ(call("cudaMemcpy", &info, info_, sizeof(info), kToHost), 0);
    EXPECT_EQ(info, family.size == 0 ? 0 : 7) << name;
  }

  static constexpr int kToDevice = 1, kToHost = 2;
  void* memory_ = nullptr;
  void* handle_ = nullptr;
  void* info_ = nullptr;
  size_t size_ = 0, device_size_ = 0;
  double norms_[kOrder] = {1, 1, 1, 1};
};

TEST_F(Cusolver, FunctionsOfEachTypeCheckTheirArguments) {
  for (const char type : {'S', 'D', 'C', 'Z'}) {
    const bool real = type == 'S' || type == 'D';
    for (const Family& family : kFamilies) {
      std::string name;
      for (const char letter : std::string(family.name)) {
        name += letter == '%'   ? std::string(1, type)
                : letter == '@' ? (real ? "sy" : "he")
                : letter == '#' ? (real ? "or" : "un")
                                : std::string(1, letter);
      }
      check_family(name, family);
      if (family.size != 0) {
        int elements = 0;
        std::memcpy(&elements, &size_, sizeof(elements));
        EXPECT_EQ(elements, family.size) << name;
      }
    }
  }
  EXPECT_EQ(norms_[0], 0.0) << "of the batched singular values";
}

TEST_F(Cusolver, FunctionsOfAnyTypeCheckTheirArguments) {
  for (const Family& family : kAnyType) {
    check_family(family.name, family);
    if (family.size != 0) {
      EXPECT_EQ(device_size_, static_cast<size_t>(family.size)) << family.name;
      EXPECT_EQ(size_, 0U) << family.name << " needs nothing on the host";
    }
  }
}

TEST_F(Cusolver, SmallMatricesAloneAreBatched) {
  Arguments arguments = spelled("Hvnn.l.....O.n");
  arguments[2] = arguments[5] = 33;
  EXPECT_EQ(call_with("cusolverDnSgesvdjBatched_bufferSize", arguments), kInvalidValue);
  arguments = spelled("HnnO");
  arguments[1] = kOrder - 1;
  EXPECT_EQ(call_with("cusolverDnSgesvd_bufferSize", arguments), kInvalidValue)
      << "fewer rows than columns";
}

TEST_F(Cusolver, HandlesAndSettingsAreChecked) {
  EXPECT_EQ(call("cusolverDnCreate", none_), kInvalidValue);
  void* stream = nullptr;
  void* found = nullptr;
  ASSERT_EQ(call("cudaStreamCreate", &stream), 0);
  EXPECT_EQ(call("cusolverDnSetStream", none_, stream), kNotInitialized);
  EXPECT_EQ(call("cusolverDnSetStream", handle_, stream), 0);
  EXPECT_EQ(call("cusolverDnGetStream", handle_, &found), 0);
  EXPECT_EQ(found, stream);
  EXPECT_EQ(call("cusolverDnGetStream", handle_, none_), kInvalidValue);
  EXPECT_EQ(call("cusolverDnGetStream", none_, &found), kNotInitialized);
  for (const std::string kind : {"Params", "GesvdjInfo", "SyevjInfo"}) {
    void* made = nullptr;
    EXPECT_EQ(call(("cusolverDnCreate" + kind).c_str(), none_), kInvalidValue);
    ASSERT_EQ(call(("cusolverDnCreate" + kind).c_str(), &made), 0);
    if (kind != "Params") {
      letters_['G'] = {address_of(made), 0, kInvalidValue};
      const std::string set = kind == "GesvdjInfo" ? "cusolverDnXgesvdjSet" : "cusolverDnXsyevjSet";
      check(set + "Tolerance", "G");
      check(set + "MaxSweeps", "Gn");
      check(set + "SortEig", "G.");
    }
    for (const int expected : {0, kInvalidValue}) {
      EXPECT_EQ(call(("cusolverDnDestroy" + kind).c_str(), made), expected) << kind;
    }
  }
}

TEST_F(Cusolver, TheVersionHasThreeParts) {
  int version = 0;
  EXPECT_EQ(call("cusolverGetVersion", &version), 0);
  EXPECT_EQ(call("cusolverGetVersion", none_), kInvalidValue);
  int parts[3] = {};
  for (int part = 0; part < 3; ++part) {
    EXPECT_EQ(call("cusolverGetProperty", part, &parts[part]), 0);
  }
  EXPECT_EQ(parts[0] * 1000 + parts[1] * 100 + parts[2], version);
  EXPECT_EQ(call("cusolverGetProperty", 3, &version), kInvalidValue);
  EXPECT_EQ(call("cusolverGetProperty", 0, none_), kInvalidValue);
}

}  // namespace
