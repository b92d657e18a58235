// SPDX-License-Identifier: Apache-2.0
// Each function of cuSPARSE's shim, on an emulated GPU: a good call, and a bad one for each
// argument that cuSPARSE documents to check.
#include <cstring>
#include <vector>

#include "spelled_calls.hpp"

namespace {

constexpr int kNotInitialized = 1, kInvalidValue = 3;
constexpr int kOrder = 4;  // of the matrices

struct Function {
  const char* name;
  const char* spelling;
  size_t size = 0;  ///< of the buffer that it yields, in bytes
};

constexpr size_t kRowBytes = 16 * kOrder + 256;
constexpr Function kProducts[] = {
    {"SpMV_bufferSize", "HomAXmX..O", kRowBytes},
    {"SpMV", "HoMAXMX..."},
    {"SpMM_bufferSize", "HoomABmB..O", kRowBytes},
    {"SpMM", "HooMABMB..."},
    {"SDDMM_bufferSize", "HoomBBmA..O", kRowBytes},
    {"SDDMM_preprocess", "HoomBBmA..."},
    {"SDDMM", "HooMBBMA..."},
    {"SpSV_bufferSize", "HomAXX...O", kRowBytes},
    {"SpSV_analysis", "HomAXX...."},
    {"SpSV_solve", "HoMAXX..."},
    {"SpSM_bufferSize", "HoomABB...O", kRowBytes},
    {"SpSM_analysis", "HoomABB...."},
    {"SpSM_solve", "HooMABB..."},
};

/// Each is there for S, D, C and Z.
constexpr Function kBlocks[] = {
    {"bsrmv", "H..nnn.....i..."},
    {"bsrmm", "H...nnnn.....i....."},
    {"bsrsv2_bufferSize", "H..nn....i.O", kRowBytes},
    {"bsrsv2_analysis", "H..nn....i..."},
    {"bsrsv2_solve", "H..nn.....i....."},
    {"bsrsm2_bufferSize", "H...nnn....i.O", kRowBytes},
    {"bsrsm2_analysis", "H...nnn....i..."},
    {"bsrsm2_solve", "H...nnn.....i......."},
};

constexpr Function kIndices[] = {
    {"Xcoo2csr", "HMnnMb"},
    {"CreateIdentityPermutation", "HnM"},
    {"Xcoosort_bufferSizeExt", "Hnnn..O", kRowBytes},
    {"XcoosortByRow", "HnnnMMm."},
    {"Xcsrsort_bufferSizeExt", "Hnnn..O", kRowBytes},
    {"Xcsrsort", "Hnnn.MMm."},
};

class Cusparse : public SpelledCalls {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_SPARSE, GPEMU_TEST_RUNTIME_12});
    ASSERT_EQ(call("cudaMalloc", &memory_, size_t{4096}), 0);
    ASSERT_EQ(call("cusparseCreate", &handle_), 0);
    letters_.insert({{'H', {address_of(handle_), 0, kNotInitialized}},
                     {'M', {address_of(memory_), 0, kInvalidValue}},
                     {'m', {address_of(memory_)}},
                     {'O', {address_of(&size_), 0, kInvalidValue}},
                     {'W', {address_of(&made_), 0, kInvalidValue}},
                     {'n', {kOrder, ~uint64_t{0}, kInvalidValue}},
                     {'l', {kOrder, kOrder - 1, kInvalidValue}},  // a leading dimension
                     {'i', {2, 0, kInvalidValue}},                // a positive number
                     {'o', {2, 3, kInvalidValue}},                // transposed or not
                     {'x', {2, 9, kInvalidValue}},                // a type of indices
                     {'b', {1, 2, kInvalidValue}},                // an index base, a mode
                     {'e', {1, 99, kInvalidValue}},               // a type of matrices, an order
                     {'t', {0, 99, kInvalidValue}}});             // a type of values
    letters_['A'] = {address_of(create("CreateCsr", "Wnnnmmmxxbt")), 0, kInvalidValue};
    letters_['B'] = {address_of(create("CreateDnMat", "Wnnlmte")), 0, kInvalidValue};
    letters_['X'] = {address_of(create("CreateDnVec", "Wnmt")), 0, kInvalidValue};
  }

  void TearDown() override {
    for (const auto& [letter, kind] : {std::pair{'A', "Sp"}, {'B', "Dn"}, {'X', "Dn"}}) {
      const std::string destroy =
          std::string("cusparseDestroy") + kind + (letter == 'X' ? "Vec" : "Mat");
      for (const int expected : {0, kInvalidValue}) {
        EXPECT_EQ(call(destroy.c_str(), letters_.at(letter).good), expected) << destroy;
      }
      EXPECT_EQ(call(destroy.c_str(), none_), 0) << destroy;
    }
    for (const int expected : {0, kNotInitialized}) {
      EXPECT_EQ(call("cusparseDestroy", handle_), expected);
    }
    EXPECT_EQ(call("cudaFree", memory_), 0);
  }

  void* create(const std::string& name, const std::string& spelling) {
    check("cusparse" + name, spelling);
    return made_;
  }

  void check_function(const std::string& name, const Function& function) {
    size_ = 0;
    check(name, function.spelling);
    EXPECT_EQ(size_, function.size) << name;
  }

  void* memory_ = nullptr;
  void* handle_ = nullptr;
  void* made_ = nullptr;
  size_t size_ = 0;
};

TEST_F(Cusparse, ProductsCheckTheirMatrices) {
  for (const Function& function : kProducts) {
    check_function(std::string("cusparse") + function.name, function);
  }
}

TEST_F(Cusparse, SizesMayExceed64Bits) {
  void* matrix = nullptr;
  const int64_t most = INT64_MAX;
  ASSERT_EQ(call("cusparseCreateDnMat", &matrix, most, most, most, none_, 0, 1), 0);
  EXPECT_EQ(call("cusparseSpMM_bufferSize", handle_, 0, 0, none_, letters_.at('A').good, matrix,
                 none_, matrix, 0, 0, &size_),
            0);
  EXPECT_EQ(size_, kRowBytes);
  EXPECT_EQ(call("cusparseSpMM_bufferSize", handle_, 0, 0, none_, matrix, matrix, none_, matrix, 0,
                 0, &size_),
            0);
  EXPECT_EQ(size_, size_t{1} << 62);
  EXPECT_EQ(
      call("cusparseSpMM", handle_, 0, 0, memory_, matrix, matrix, memory_, matrix, 0, 0, none_),
      0);
  EXPECT_EQ(call("cusparseDestroyDnMat", matrix), 0);
}

TEST_F(Cusparse, ProductsOfBlocksCheckTheirSizes) {
  for (const char type : {'S', 'D', 'C', 'Z'}) {
    for (const Function& function : kBlocks) {
      check_function(std::string("cusparse") + type + function.name, function);
    }
  }
  for (const char* function : {"cusparseXbsrsv2_zeroPivot", "cusparseXbsrsm2_zeroPivot"}) {
    check(function, "H.O");
    int position = 0;
    std::memcpy(&position, &size_, sizeof(position));
    EXPECT_EQ(position, -1) << "there is none";
  }
}

TEST_F(Cusparse, IndicesAreConverted) {
  const int zeros[kOrder + 1] = {};
  constexpr int kToDevice = 1;
  ASSERT_EQ(call("cudaMemcpy", memory_, &zeros[0], sizeof(zeros), kToDevice), 0);
  for (const Function& function : kIndices) {
    check_function(std::string("cusparse") + function.name, function);
  }
}

TEST_F(Cusparse, DescriptorsAreReadBack) {
  letters_.insert({{'a', {1, 2, kInvalidValue}},
                   {'z', {sizeof(int), 8, kInvalidValue}}});  // the size of an attribute
  check("cusparseCreateCoo", "Wnnnmmmxbt");
  EXPECT_EQ(call("cusparseDestroySpMat", made_), 0);
  check("cusparseSpMatGetSize", "AOOO");
  int64_t rows = 0, columns = 0, entries = 0;
  EXPECT_EQ(call("cusparseSpMatGetSize", letters_.at('A').good, &rows, &columns, &entries), 0);
  EXPECT_EQ(rows * 100 + columns * 10 + entries, kOrder * 111);
  check("cusparseCsrSetPointers", "Ammm");
  EXPECT_EQ(call("cusparseCsrSetPointers", letters_.at('B').good, memory_, memory_, memory_),
            kInvalidValue)
      << "a dense matrix";
  check("cusparseCsrSetStridedBatch", "Ai..");
  check("cusparseDnMatSetStridedBatch", "Bi.");
  check("cusparseSpMatSetAttribute", "AaMz");

  check("cusparseCreateMatDescr", "W");
  letters_['D'] = {address_of(made_), 0, kInvalidValue};
  for (const std::string field : {"Type", "FillMode", "DiagType", "IndexBase"}) {
    const std::string get = "cusparseGetMat" + field;
    EXPECT_EQ(call(get.c_str(), made_), 0) << get;
    check("cusparseSetMat" + field, "De");
    EXPECT_EQ(call(get.c_str(), made_), 1) << get;
    EXPECT_EQ(call(get.c_str(), none_), 0) << get;
  }
  for (const int expected : {0, kInvalidValue}) {
    EXPECT_EQ(call("cusparseDestroyMatDescr", made_), expected);
  }
}

TEST_F(Cusparse, TheStateOfAlgorithmsLivesOnce) {
  for (const auto& [create, destroy] : {std::pair{"SpSV_createDescr", "SpSV_destroyDescr"},
                                        {"SpSM_createDescr", "SpSM_destroyDescr"},
                                        {"SpGEMM_createDescr", "SpGEMM_destroyDescr"},
                                        {"CreateBsrsv2Info", "DestroyBsrsv2Info"},
                                        {"CreateBsrsm2Info", "DestroyBsrsm2Info"}}) {
    check(std::string("cusparse") + create, "W");
    for (const int expected : {0, kInvalidValue}) {
      EXPECT_EQ(call((std::string("cusparse") + destroy).c_str(), made_), expected) << destroy;
    }
  }
}

TEST_F(Cusparse, TheHandleKeepsItsSettings) {
  EXPECT_EQ(call("cusparseCreate", none_), kInvalidValue);
  void* stream = nullptr;
  ASSERT_EQ(call("cudaStreamCreate", &stream), 0);
  letters_['s'] = {address_of(stream)};
  check("cusparseSetStream", "Hs");
  check("cusparseGetStream", "HW");
  EXPECT_EQ(made_, stream);
  check("cusparseSetPointerMode", "Hb");
  check("cusparseGetPointerMode", "HO");
  EXPECT_EQ(size_, 1U);
}

TEST_F(Cusparse, TheVersionAndStatusesHaveNames) {
  check("cusparseGetVersion", "HO");
  const size_t version = size_;
  int parts[3] = {};
  for (int part = 0; part < 3; ++part) {
    EXPECT_EQ(call("cusparseGetProperty", part, &parts[part]), 0);
  }
  EXPECT_EQ(static_cast<size_t>(parts[0] * 1000 + parts[1] * 100 + parts[2]), version);
  EXPECT_EQ(call("cusparseGetProperty", 3, &size_), kInvalidValue);
  EXPECT_EQ(call("cusparseGetProperty", 0, none_), kInvalidValue);
  const auto text = [&](const char* function, int status) {
    return call_as<const char*>(function, status);
  };
  EXPECT_STREQ(text("cusparseGetErrorName", 0), "CUSPARSE_STATUS_SUCCESS");
  EXPECT_STREQ(text("cusparseGetErrorName", 11), "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES");
  EXPECT_STREQ(text("cusparseGetErrorString", kInvalidValue), "invalid value");
  for (const char* function : {"cusparseGetErrorName", "cusparseGetErrorString"}) {
    for (const int status : {-1, 12}) {
      EXPECT_STREQ(text(function, status), "unrecognized error code");
    }
  }
}

}  // namespace
