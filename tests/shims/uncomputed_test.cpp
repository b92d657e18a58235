// SPDX-License-Identifier: Apache-2.0
// What the shims of libraries leave in the memory that their functions write: the program reads
// zeros and is told so, and never what lay there before.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "spelled_calls.hpp"

namespace {

constexpr int kToHost = 2;
constexpr int kFloat = 0;                // cudaDataType, cudnnDataType_t
constexpr size_t kRegion = 4096;         // of each output
constexpr unsigned char kBefore = 0x5A;  // what lies there
constexpr size_t kPiece = 16;            // of a region, for a read

/// The bytes of a region that a call writes: `count` times `rows` of `bytes`.
struct Extent {
  size_t bytes;
  size_t rows = 1, pitch = 0;
  size_t count = 1, stride = 0;
  bool updates = false;  ///< they keep their content
};

/// A call, in whose spelling the digits are the regions that it writes.
struct Case {
  const char* function;
  const char* spelling;
  std::vector<Extent> written;
};

class Uncomputed : public SpelledCalls {
 protected:
  void set_up(std::initializer_list<const char*> libraries) {
    load({GPEMU_TEST_RUNTIME_12});
    load(libraries);
    ASSERT_EQ(call("cudaMalloc", &memory_, kRegion), 0);
    letters_['m'] = {address_of(memory_)};
    for (char digit = '1'; digit <= '6'; ++digit) {
      void* region = nullptr;
      ASSERT_EQ(call("cudaMalloc", &region, kRegion), 0);
      letters_[digit] = {address_of(region)};
      fill(digit);
    }
  }

  void* region(char digit) const { return reinterpret_cast<void*>(letters_.at(digit).good); }

  void fill(char digit) { EXPECT_EQ(call("cudaMemset", region(digit), int{kBefore}, kRegion), 0); }

  uint64_t counted() { return call_as<uint64_t>("gpemu_cuda_not_computed_bytes"); }

  /// Checks a region in small pieces, the last first: a read from its start would say little about
  /// its end. Then fills it again.
  void expect_written(const std::string& what, char digit, const Extent& extent) {
    std::vector<unsigned char> expected(kRegion, kBefore), found(kRegion);
    for (size_t i = 0; i < extent.count * extent.rows; ++i) {
      const size_t start = i / extent.rows * extent.stride + i % extent.rows * extent.pitch;
      for (size_t byte = start; byte < start + extent.bytes && !extent.updates; ++byte) {
        expected[byte] = 0;
      }
    }
    const uint64_t before = counted();
    for (size_t at = kRegion; at > 0; at -= kPiece) {
      EXPECT_EQ(call("cudaMemcpy", static_cast<void*>(&found[at - kPiece]),
                     static_cast<const void*>(static_cast<char*>(region(digit)) + at - kPiece),
                     kPiece, kToHost),
                0);
    }
    EXPECT_EQ(counted() - before, extent.bytes * extent.rows * extent.count) << what << digit;
    EXPECT_EQ(found, expected) << what << digit;
    fill(digit);
  }

  void check_case(const Case& each, double real = 0) {
    EXPECT_EQ(call_with(each.function, spelled(each.spelling), real), 0) << each.function;
    for (size_t i = 0; i < each.written.size(); ++i) {
      expect_written(each.function + std::string(", output "), static_cast<char>('1' + i),
                     each.written[i]);
    }
  }

  void* memory_ = nullptr;
};

// ---- cuSPARSE ----

class UncomputedSparse : public Uncomputed {
 protected:
  void SetUp() override {
    set_up({GPEMU_TEST_SPARSE});
    ASSERT_EQ(call("cusparseCreate", &handle_), 0);
    letters_.insert({{'H', {address_of(handle_)}},
                     {'n', {3}},     // an order, blocks, columns
                     {'i', {2}},     // the side of a block
                     {'l', {10}}});  // a leading dimension
    const int64_t n = 4, entries = 6;
    for (const char name : {'A', 'S'}) {
      void* const values = name == 'A' ? memory_ : region('1');
      EXPECT_EQ(call("cusparseCreateCsr", &made_, n, n, entries, memory_, memory_, values, 2, 2, 0,
                     kFloat),
                0);
      letters_[name] = {address_of(made_)};
    }
    // Columns of 4 elements, 6 apart, in two matrices; the same by rows without gaps; a vector.
    const int64_t leading = 6, stride = 32;
    EXPECT_EQ(call("cusparseCreateDnMat", &made_, n, n, leading, region('1'), kFloat, 1), 0);
    letters_['B'] = {address_of(made_)};
    EXPECT_EQ(call("cusparseDnMatSetStridedBatch", made_, 2, stride), 0);
    EXPECT_EQ(
        call("cusparseCreateDnMat", &made_, n, int64_t{3}, int64_t{3}, region('1'), kFloat, 2), 0);
    letters_['R'] = {address_of(made_)};
    EXPECT_EQ(call("cusparseCreateDnVec", &made_, n, region('1'), kFloat), 0);
    letters_['X'] = {address_of(made_)};
  }

  void* handle_ = nullptr;
  void* made_ = nullptr;
};

TEST_F(UncomputedSparse, Products) {
  for (const Case& each : {Case{"cusparseSpMV", "H.mAXmX...", {{16}}},
                           {"cusparseSpMM", "H..mABmB...", {{16, 4, 24, 2, 128}}},
                           {"cusparseSpMM", "H..mABmR...", {{48}}},
                           {"cusparseSDDMM", "H..mBBmS...", {{24}}},
                           {"cusparseSpSV_analysis", "H.mAXX....", {{0}}},
                           {"cusparseSpSV_solve", "H.mAXX...", {{16}}},
                           {"cusparseSpSM_analysis", "H..mABB....", {{0}}},
                           {"cusparseSpSM_solve", "H..mABB...", {{16, 4, 24, 2, 128}}}}) {
    check_case(each);
  }
  EXPECT_EQ(call("cusparseCsrSetStridedBatch", letters_.at('S').good, 2, int64_t{5}, int64_t{8}),
            0);
  check_case({"cusparseSDDMM", "H..mBBmS...", {{24, 1, 0, 2, 32}}});
  // Of more matrices than can be looked at one by one, all memory counts.
  const auto dense = letters_.at('B').good;
  EXPECT_EQ(call("cusparseDnMatSetStridedBatch", dense, 5000, int64_t{0}), 0);
  check_case({"cusparseSpMM", "H..mABmB...", {{.bytes = 88, .updates = true}}});
  EXPECT_EQ(call("cusparseDnMatSetStridedBatch", dense, 2, INT64_MAX), 0);
  EXPECT_EQ(call_with("cusparseSpMM", spelled("H..mABmB...")), 3) << "no memory holds them";
}

TEST_F(UncomputedSparse, ProductsOfBlocks) {
  for (const auto& [type, width] : {std::pair{"S", 4U}, {"D", 8U}, {"C", 8U}, {"Z", 16U}}) {
    const auto check_blocks = [&](const char* name, const char* spelling, const Extent& extent) {
      const std::string function = std::string("cusparse") + type + name;
      check_case({function.c_str(), spelling, {extent}});
    };
    const size_t length = 6 * width, pitch = 10 * width;  // three blocks of two rows
    check_blocks("bsrmv", "H..nnn.....i..1", {length});
    check_blocks("bsrmm", "H...nnnn.....i...1l", {length, 3, pitch});
    check_blocks("bsrsv2_analysis", "H..nn....i...", {0});
    check_blocks("bsrsv2_solve", "H..nn.....i..1..", {length});
    check_blocks("bsrsm2_analysis", "H...nnn....i...", {0});
    check_blocks("bsrsm2_solve", "H...nnn.....i...1l..", {length, 3, pitch});
    check_blocks("bsrsm2_solve", "H..innn.....i...1l..", {3 * width, 6, pitch});
  }
}

}  // namespace
