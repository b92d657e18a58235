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

// ---- cuDNN ----

constexpr uint64_t kReserve = 100;  // bytes

class UncomputedDnn : public Uncomputed {
 protected:
  void SetUp() override {
    set_up({GPEMU_TEST_CUDNN});
    ASSERT_EQ(call("cudnnCreate", &handle_), 0);
    for (const auto& [kind, letters] : {std::pair<const char*, std::string>{"Tensor", "TYBQX"},
                                        {"Filter", "F"},
                                        {"Convolution", "C"},
                                        {"Pooling", "P"},
                                        {"Activation", "A"},
                                        {"Dropout", "D"},
                                        {"CTCLoss", "L"},
                                        {"SpatialTransformer", "S"},
                                        {"RNN", "R"},
                                        {"RNNData", "V"},
                                        {"RNNData", "W"}}) {
      for (const char letter : letters) {
        void* made = nullptr;
        EXPECT_EQ(call(("cudnnCreate" + std::string(kind) + "Descriptor").c_str(), &made), 0);
        letters_[letter] = {address_of(made)};
      }
    }
    letters_.insert({{'H', {address_of(handle_)}},
                     {'J', {address_of(&count_)}},
                     {'K', {address_of(&found_[0])}},
                     {'e', {1}},           // a mode, an algorithm
                     {'i', {2}},           // a number
                     {'b', {kReserve}}});  // bytes of a reserve
    const auto size = [&](char name, int n, int c, int h, int w) {
      return call("cudnnSetTensor4dDescriptor", letters_.at(name).good, 0, kFloat, n, c, h, w);
    };
    ASSERT_EQ(size('T', 2, 8, 6, 6), 0);
    ASSERT_EQ(size('Y', 2, 4, 4, 4), 0);
    ASSERT_EQ(size('B', 1, 4, 1, 1), 0);
    ASSERT_EQ(call("cudnnSetFilter4dDescriptor", letters_.at('F').good, kFloat, 0, 4, 8, 3, 3), 0);
    ASSERT_EQ(
        call("cudnnSetConvolution2dDescriptor", letters_.at('C').good, 0, 0, 1, 1, 1, 1, 1, kFloat),
        0);
    const int sizes[] = {5, 2, 7}, strides[] = {14, 7, 1}, lengths[] = {7, 3},
              four[] = {2, 2, 2, 2};
    ASSERT_EQ(call("cudnnSetTensorNdDescriptor", letters_.at('Q').good, kFloat, 3, &sizes[0],
                   &strides[0]),
              0);
    ASSERT_EQ(call("cudnnSetRNNDescriptor_v8", letters_.at('R').good, 0, 2, 2, 0, 0, kFloat, kFloat,
                   0, 3, 5, 0, 2, none_, 0),
              0);
    for (const auto& [name, layout] : {std::pair{'V', 0}, {'W', 1}}) {
      ASSERT_EQ(call("cudnnSetRNNDataDescriptor", letters_.at(name).good, kFloat, layout, 7, 2, 3,
                     &lengths[0], none_),
                0);
    }
    ASSERT_EQ(call("cudnnSetActivationDescriptor", letters_.at('A').good, 1, 0, 0.0), 0);
    ASSERT_EQ(call("cudnnSetPooling2dDescriptor", letters_.at('P').good, 0, 0, 2, 2, 0, 0, 2, 2),
              0);
    ASSERT_EQ(call("cudnnSetCTCLossDescriptorEx", letters_.at('L').good, kFloat, 0, 0), 0);
    ASSERT_EQ(call("cudnnSetSpatialTransformerNdDescriptor", letters_.at('S').good, 0, kFloat, 4,
                   &four[0]),
              0);
  }

  static constexpr size_t kInput = 2304, kOutput = 512, kFilter = 1152, kChannels = 16;
  void* handle_ = nullptr;
  int count_ = 0;
  alignas(8) char found_[4 * 48] = {};  // of Performance
};

TEST_F(UncomputedDnn, Convolutions) {
  for (const Case& each :
       {Case{"cudnnConvolutionForward", "HmTmFmCe..mY1", {{kOutput}}},
        {"cudnnConvolutionBiasActivationForward", "HmTmFmCe..mYmBmAY1", {{kOutput}}},
        {"cudnnConvolutionBackwardData", "HmFmYmCe..mT1", {{kInput}}},
        {"cudnnConvolutionBackwardFilter", "HmTmYmCe..mF1", {{kFilter}}},
        {"cudnnFindConvolutionForwardAlgorithmEx", "HTmFmCY1iJK..", {{kOutput}}},
        {"cudnnFindConvolutionBackwardDataAlgorithmEx", "HFmYmCT1iJK..", {{kInput}}},
        {"cudnnFindConvolutionBackwardFilterAlgorithmEx", "HTmYmCF1iJK..", {{kFilter}}}}) {
    check_case(each);
  }
}

TEST_F(UncomputedDnn, Layers) {
  for (const Case& each :
       {Case{"cudnnBatchNormalizationForwardInference", "HemmTmT1Bmmmm", {{kInput}}},
        {"cudnnBatchNormalizationBackwardEx",
         "HeemmmmTm..TmY2T1Bmm34mm.....",
         {{kInput}, {kOutput}, {kChannels}, {kChannels}}},
        {"cudnnPoolingForward", "HPmTmmY1", {{kOutput}}},
        {"cudnnCTCLoss", "HQm...1Q2eL..", {{8}, {280}}},
        {"cudnnCTCLoss_v8", "HeLQm...1Q2..", {{8}, {280}}},
        {"cudnnSpatialTfGridGeneratorForward", "HSm1", {{64}}},
        {"cudnnSpatialTfGridGeneratorBackward", "HSm1", {{48}}},
        {"cudnnSpatialTfSamplerForward", "HSmTmmmY1", {{kOutput}}},
        {"cudnnSpatialTfSamplerBackward", "HSmTmmT1mTmmm2", {{kInput}, {64}}}}) {
    check_case(each);
  }
  // Running averages are updated; with a factor of 1, they become those of this batch.
  for (const bool updates : {true, false}) {
    const Extent average{.bytes = kChannels, .updates = updates};
    check_case({"cudnnBatchNormalizationForwardTrainingEx",
                "HeemmTm..T1Bmm2345...6b",
                {{kInput}, average, average, {kChannels}, {kChannels}, {kReserve}}},
               updates ? 0 : 1);
  }
}

TEST_F(UncomputedDnn, RecurrentNetworks) {
  for (const Case& each :
       {Case{"cudnnRNNForward", "HRe.VmV1..2..3.m..b4", {{168}, {80}, {80}, {kReserve}}},
        {"cudnnRNNForward", "HR..WmW1..2..3.m..b4", {{120}, {80}, {80}, {0}}},
        {"cudnnRNNBackwardData_v8", "HR.VmmV1...2...3.m...m", {{168}, {80}, {80}}},
        {"cudnnRNNBackwardWeights_v8", "HR..Vm..Vm.1...m", {{.bytes = 1760, .updates = true}}}}) {
    check_case(each);
  }
}

TEST_F(UncomputedDnn, GapsOfTensorsStay) {
  const auto pool = [&](const std::vector<int>& sizes, const std::vector<int>& strides,
                        const Extent& extent) {
    ASSERT_EQ(call("cudnnSetTensorNdDescriptor", letters_.at('X').good, kFloat, 4, sizes.data(),
                   strides.data()),
              0);
    check_case({"cudnnPoolingForward", "HPmTmmX1", {extent}});
  };
  pool({2, 2, 2, 2}, {8, 1, 4, 2}, {64});                 // channels last
  pool({2, 3, 2, 2}, {32, 4, 2, 1}, {48, 2, 128});        // channels of a larger tensor
  pool({2, 2, 2, 2}, {64, 8, 4, 1}, {8, 4, 16, 2, 256});  // and columns of one
  pool({1, 2, 2, 2}, {0, 0, 2, 1}, {16});
}

TEST_F(UncomputedDnn, StatesOfDropout) {
  size_t bytes = 0;
  ASSERT_EQ(call("cudnnDropoutGetStatesSize", handle_, &bytes), 0);
  void* states = nullptr;
  ASSERT_EQ(call("cudaMalloc", &states, bytes), 0);
  ASSERT_EQ(call("cudaMemset", states, int{kBefore}, bytes), 0);
  ASSERT_EQ(
      call("cudnnSetDropoutDescriptor", letters_.at('D').good, handle_, 0.5F, states, bytes, 0ULL),
      0);
  const uint64_t before = counted();
  std::vector<char> found(bytes);
  ASSERT_EQ(call("cudaMemcpy", static_cast<void*>(found.data()), static_cast<const void*>(states),
                 bytes, kToHost),
            0);
  EXPECT_EQ(counted() - before, bytes);
  EXPECT_EQ(found, std::vector<char>(bytes));
  EXPECT_EQ(call("cudaFree", states), 0);
}

// ---- cuDNN's graphs ----

constexpr int kHalf = 2;  // cudnnDataType_t

class UncomputedGraph : public Uncomputed {
 protected:
  static constexpr int kTypeType = 1, kBooleanType = 2, kInt64Type = 3, kPointerType = 6,
                       kDescriptorType = 15;
  using Sizes = std::vector<int64_t>;

  void SetUp() override {
    set_up({GPEMU_TEST_CUDNN});
    ASSERT_EQ(call("cudnnCreate", &handle_), 0);
  }

  void* create(int kind) {
    void* made = nullptr;
    EXPECT_EQ(call("cudnnBackendCreateDescriptor", kind, &made), 0) << kind;
    return made;
  }

  template <typename Value>
  void set(void* descriptor, int attribute, int type, const std::vector<Value>& values) {
    EXPECT_EQ(call("cudnnBackendSetAttribute", descriptor, attribute, type, int64_t(values.size()),
                   values.data()),
              0)
        << attribute;
  }

  void* finalized(void* descriptor) {
    EXPECT_EQ(call("cudnnBackendFinalize", descriptor), 0);
    return descriptor;
  }

  /// A tensor in half precision. In the pack, the digits 1 to 6 are outputs; 0 is every input.
  void* tensor(int64_t id, const Sizes& sizes, bool is_virtual = false) {
    void* const made = create(17);
    Sizes strides(sizes.size(), 1);
    for (size_t i = sizes.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
    set(made, 901, kTypeType, std::vector{kHalf});
    set(made, 902, kInt64Type, sizes);
    set(made, 903, kInt64Type, strides);
    set(made, 906, kInt64Type, Sizes{id});
    set(made, 907, kBooleanType, std::vector<char>{static_cast<char>(is_virtual ? 1 : 0)});
    return finalized(made);
  }

  void* operation(int kind, const std::vector<std::pair<int, void*>>& parts) {
    void* const made = create(kind);
    for (const auto& [attribute, part] : parts) {
      set(made, attribute, kDescriptorType, std::vector{part});
    }
    return finalized(made);
  }

  /// Runs a graph and checks the outputs.
  void run(const char* name, const std::vector<void*>& operations,
           const std::vector<size_t>& written, bool updates = false) {
    void* const graph = create(15);
    set(graph, 801, kDescriptorType, operations);
    void* const engine = create(2);
    set(engine, 1300, kDescriptorType, std::vector{finalized(graph)});
    set(engine, 1301, kInt64Type, Sizes{1});
    void* const config = operation(3, {{300, finalized(engine)}});
    void* const plan = operation(5, {{401, config}});
    void* const pack = create(16);
    set(pack, 1000, kInt64Type, Sizes{0, 1, 2, 3});
    set(pack, 1001, kPointerType, std::vector{memory_, region('1'), region('2'), region('3')});
    EXPECT_EQ(call("cudnnBackendExecute", handle_, plan, finalized(pack)), 0) << name;
    for (size_t i = 0; i < 3; ++i) {
      expect_written(name + std::string(", output "), static_cast<char>('1' + i),
                     {.bytes = i < written.size() ? written[i] : 0, .updates = updates});
    }
  }

  void* handle_ = nullptr;
};

TEST_F(UncomputedGraph, AFusedConvolutionWritesItsLastResult) {
  const Sizes sizes = {2, 4, 4, 4};
  void* const settings = create(1);
  set(settings, 102, kInt64Type, Sizes{1, 1});
  set(settings, 103, kInt64Type, Sizes{1, 1});
  void* const parts[] = {finalized(settings), tensor(0, {4, 8, 3, 3}), tensor(0, {2, 8, 6, 6})};
  void* const between = tensor(9, sizes, true);
  const auto convolve = [&](void* output) {
    return operation(10, {{702, parts[0]}, {703, parts[1]}, {704, parts[2]}, {705, output}});
  };
  run("convolution", {convolve(tensor(1, sizes))}, {256});
  run("fused convolution",
      {convolve(between), operation(13, {{751, between}, {753, tensor(1, sizes)}})}, {256});
}

TEST_F(UncomputedGraph, EveryOperation) {
  const Sizes images = {2, 4, 4, 4}, channels = {1, 4, 1, 1}, pooled = {2, 4, 2, 2};
  void* const x = tensor(0, images);
  const auto out = [&](int64_t id, const Sizes& sizes) { return tensor(id, sizes); };
  run("pointwise", {operation(13, {{751, x}, {753, out(1, images)}})}, {256});
  run("matmul",
      {operation(
          19,
          {{1520, tensor(0, {3, 4, 5})}, {1521, tensor(0, {3, 5, 6})}, {1522, out(1, {3, 4, 6})}})},
      {144});
  run("reduction", {operation(22, {{1610, x}, {1611, out(1, channels)}})}, {8});
  run("resample forward",
      {operation(25, {{1710, x}, {1711, out(1, pooled)}, {1712, out(2, pooled)}})}, {64, 64});
  run("resample backward", {operation(26, {{1720, out(1, images)}, {1721, tensor(0, pooled)}})},
      {256});
  run("norm forward",
      {operation(
          29,
          {{2002, x}, {2003, out(2, channels)}, {2004, out(3, channels)}, {2013, out(1, images)}})},
      {256, 8, 8});
  run("norm backward",
      {operation(
          30,
          {{2101, x}, {2107, out(2, channels)}, {2108, out(3, channels)}, {2109, out(1, images)}})},
      {256, 8, 8});
  const Sizes heads = {2, 3, 4, 8}, statistics = {2, 3, 4, 1};
  void* const part = tensor(0, heads);
  run("attention forward",
      {operation(41, {{2800, part},
                      {2801, part},
                      {2802, part},
                      {2803, out(1, heads)},
                      {2804, out(2, statistics)}})},
      {384, 48});
  run("attention backward",
      {operation(43, {{2851, part},
                      {2852, part},
                      {2859, out(1, heads)},
                      {2860, out(2, heads)},
                      {2861, out(3, heads)}})},
      {384, 384, 384});
}

TEST_F(UncomputedGraph, BitsShareBytes) {
  constexpr int kBits = 11, kFp4 = 16;  // cudnnDataType_t
  for (const auto& [type, bytes] : {std::pair{kBits, 16U}, {kFp4, 64U}}) {
    void* const made = create(17);
    set(made, 901, kTypeType, std::vector{type});
    set(made, 902, kInt64Type, Sizes{2, 64});
    set(made, 903, kInt64Type, Sizes{64, 1});
    set(made, 906, kInt64Type, Sizes{1});
    run("bits", {operation(13, {{751, tensor(0, {2, 64})}, {753, finalized(made)}})}, {bytes});
  }
}

TEST_F(UncomputedGraph, OfARaggedTensorOnlyTheStartIsKnown) {
  void* const made = create(17);
  set(made, 901, kTypeType, std::vector{kHalf});
  set(made, 902, kInt64Type, Sizes{2, 64});
  set(made, 903, kInt64Type, Sizes{64, 1});
  set(made, 906, kInt64Type, Sizes{1});
  set(made, 913, kDescriptorType, std::vector{tensor(0, {3, 1})});
  // Where the next sequence begins is in the memory of the device: known values stay, and count as
  // not updated.
  run("ragged", {operation(13, {{751, tensor(0, {2, 64})}, {753, finalized(made)}})}, {kRegion},
      true);
}

// ---- cuSOLVER ----

class UncomputedSolver : public Uncomputed {
 protected:
  void SetUp() override {
    set_up({GPEMU_TEST_SOLVER});
    ASSERT_EQ(call("cusolverDnCreate", &handle_), 0);
    letters_.insert({{'H', {address_of(handle_)}},
                     {'n', {3}},
                     {'l', {4}},   // a leading dimension
                     {'b', {2}},   // a batch
                     {'v', {1}},   // with vectors
                     {'s', {12}},  // from a matrix to the next
                     {'A', {'A'}},
                     {'S', {'S'}},
                     {'N', {'N'}},
                     {'I', {address_of(memory_)}}});
  }

  void* handle_ = nullptr;
};

TEST_F(UncomputedSolver, EveryTypeOfMatrix) {
  struct Width {
    std::string letter, symmetric, orthogonal;
    size_t element, real;
  };
  for (const Width& w : {Width{"S", "sy", "or", 4, 4},
                         {"D", "sy", "or", 8, 8},
                         {"C", "he", "un", 8, 4},
                         {"Z", "he", "un", 16, 8}}) {
    const Extent square{3 * w.element, 3, 4 * w.element}, row{3 * w.element}, real{3 * w.real};
    const Extent squares{3 * w.element, 6, 4 * w.element}, reals{6 * w.real};
    const Extent none{0};
    const auto check_dense = [&](const std::string& name, const char* spelling,
                                 const std::vector<Extent>& written) {
      const std::string function = "cusolverDn" + w.letter + name;
      check_case({function.c_str(), spelling, written});
    };
    check_dense("potrf", "H.n1l..I", {square});
    check_dense("potrs", "H.nnml1lI", {square});
    check_dense("getrf", "Hnn1l..I", {square});
    check_dense("getrs", "H.nnml.1lI", {square});
    check_dense("geqrf", "Hnn1l2..I", {square, row});
    check_dense("sytrf", "H.n1l...I", {square});
    check_dense(w.orthogonal + "gqr", "Hnnn1lm..I", {square});
    check_dense(w.orthogonal + "mqr", "H..nnnmlm1l..I", {square});
    check_dense("gesvd", "HASnn1l23l4l...I", {square, real, square, square});
    check_dense("gesvd", "HNNnn1l23l4l...I", {square, real, none, none});
    check_dense("gesvdj", "Hv.nn1l23l4l..I.", {square, real, square, square});
    check_dense("gesvdj", "H..nn1l23l4l..I.", {square, real, none, none});
    check_dense("gesvdjBatched", "Hvnn1l23l4l..I.b", {squares, reals, squares, squares});
    check_dense("gesvdaStridedBatched", "Hvnnnmls1n2ls3ls..I.b", {reals, squares, squares});
    check_dense(w.symmetric + "evd", "Hv.n1l2..I", {square, real});
    check_dense(w.symmetric + "evj", "Hv.n1l2..I.", {square, real});
    check_dense(w.symmetric + "evjBatched", "Hv.n1l2..I.b", {squares, reals});
  }
}

TEST_F(UncomputedSolver, AnyTypeOfMatrix) {
  const Extent square{12, 3, 16}, row{12};
  for (const Case& each : {Case{"cusolverDnXpotrf", "H..n.1l.....I", {square}},
                           {"cusolverDnXpotrs", "H..nn.ml.1lI", {square}},
                           {"cusolverDnXsytrs", "H.nn.ml..1l....I", {square}},
                           {"cusolverDnXgeqrf", "H.nn.1l.2.....I", {square, row}},
                           {"cusolverDnXsyevd", "H.v.n.1l.2.....I", {square, row}},
                           {"cusolverDnXsyevBatched", "H.v.n.1l.2.....Ib", {{12, 6, 16}, {24}}},
                           {"cusolverDnXgeev", "H..vn.1l.2....3l.....I", {square, {24}, square}}}) {
    check_case(each);
  }
}

// ---- cuBLASLt ----

class UncomputedLt : public Uncomputed {
 protected:
  void SetUp() override { set_up({GPEMU_TEST_CUBLAS}); }
};

TEST_F(UncomputedLt, MatricesByColumnsAndByRows) {
  constexpr int kOrder = 1, kBatch = 5, kBatchStride = 6, kByRows = 1;
  void *handle = nullptr, *transform = nullptr, *from = nullptr, *to = nullptr;
  const int batch = 2;
  const int64_t stride = 32;
  ASSERT_EQ(call("cublasLtCreate", &handle), 0);
  ASSERT_EQ(call("cublasLtMatrixTransformDescCreate", &transform, kFloat), 0);
  const uint64_t rows = 3, columns = 5, leading = 6;
  ASSERT_EQ(call("cublasLtMatrixLayoutCreate", &from, kFloat, rows, columns, leading), 0);
  ASSERT_EQ(call("cublasLtMatrixLayoutCreate", &to, kFloat, rows, columns, leading), 0);
  letters_.insert({{'H', {address_of(handle)}},
                   {'T', {address_of(transform)}},
                   {'F', {address_of(from)}},
                   {'L', {address_of(to)}}});
  const Case transforms{"cublasLtMatrixTransform", "HTmmFmmF1L.", {{12, 5, 24}}};
  check_case(transforms);
  for (const auto& [attribute, value] : {std::pair{kOrder, kByRows}, {kBatch, batch}}) {
    ASSERT_EQ(call("cublasLtMatrixLayoutSetAttribute", to, attribute, &value, sizeof(value)), 0);
  }
  ASSERT_EQ(call("cublasLtMatrixLayoutSetAttribute", to, kBatchStride, &stride, sizeof(stride)), 0);
  check_case({transforms.function, transforms.spelling, {{20, 3, 24, 2, 128}}});
  // A product of such matrices: 3 by 3, times 3 by 5.
  constexpr int kCompute32F = 68;
  void *product = nullptr, *square = nullptr, *right = nullptr;
  const uint64_t order = 3;
  const float zero = 0;
  ASSERT_EQ(call("cublasLtMatmulDescCreate", &product, kCompute32F, kFloat), 0);
  ASSERT_EQ(call("cublasLtMatrixLayoutCreate", &square, kFloat, order, order, leading), 0);
  ASSERT_EQ(call("cublasLtMatrixLayoutCreate", &right, kFloat, rows, columns, leading), 0);
  letters_.insert({{'P', {address_of(product)}},
                   {'Q', {address_of(square)}},
                   {'R', {address_of(right)}},
                   {'z', {address_of(&zero)}}});
  check_case({"cublasLtMatmul", "HPzmQmRz1L1L....", {{20, 3, 24, 2, 128}}});
  EXPECT_EQ(call("cublasLtDestroy", handle), 0);
}

// ---- cuFFT ----

class UncomputedFft : public Uncomputed {
 protected:
  static constexpr int kR2C = 0x2a, kC2R = 0x2c, kC2C = 0x29, kForward = -1;
  void SetUp() override { set_up({GPEMU_TEST_CUFFT}); }

  /// Transforms 2 times 4 by 6 elements.
  void transform(int type, bool in_place, int* embedded, int step, int distance,
                 const Extent& extent) {
    int plan = 0, sizes[] = {4, 6};
    const void* const input = in_place ? region('1') : memory_;
    ASSERT_EQ(call("cufftPlanMany", &plan, 2, &sizes[0], embedded, step, distance, embedded, step,
                   distance, type, 2),
              0);
    const char* const function =
        type == kC2C ? "cufftExecC2C" : (type == kR2C ? "cufftExecR2C" : "cufftExecC2R");
    EXPECT_EQ(call(function, plan, input, region('1'), kForward), 0);
    EXPECT_EQ(call("cufftDestroy", plan), 0);
    expect_written(function, '1', extent);
  }
};

TEST_F(UncomputedFft, Transforms) {
  transform(kC2C, false, nullptr, 0, 0, {size_t{2} * 4 * 6 * 8});
  transform(kR2C, false, nullptr, 0, 0, {size_t{2} * 4 * 4 * 8});
  transform(kC2R, false, nullptr, 0, 0, {size_t{2} * 4 * 6 * 4});
  transform(kC2R, true, nullptr, 0, 0, {size_t{2} * 4 * 4 * 8});
  int exact[] = {4, 6}, wide[] = {4, 8};
  transform(kC2C, false, &exact[0], 1, 30, {24 * 8, 2, 30 * 8});
  transform(kC2C, false, &wide[0], 1, 32,
            {.bytes = 30 * 8, .rows = 2, .pitch = 256, .updates = true});
}

}  // namespace
