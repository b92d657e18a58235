// SPDX-License-Identifier: Apache-2.0
// Each function of cuDNN's shim, on an emulated GPU: a good call, and a bad one for each argument
// that cuDNN documents to check.
#include <vector>

#include "spelled_calls.hpp"

namespace {

constexpr int kNotInitialized = 1001, kBadParam = 2000, kNullPointer = 2002,
              kSizeInsufficient = 2006, kUnsupported = 3000;
constexpr int kFloat = 0;  // cudnnDataType_t
constexpr size_t kStatesBytes = 48 * 80 * 2048, kWeightBytes = 1760;

struct Performance {
  int algorithm, status;
  float milliseconds;
  size_t memory;
  int determinism, math_type, reserved[3];
};

/// The kinds of descriptors, with a letter for each one that is made. The tensors: input and output
/// of a convolution, a value for each channel of the output, probabilities, one to be set.
constexpr std::pair<const char*, const char*> kKinds[] = {
    {"Tensor", "TYBQX"}, {"Filter", "F"},  {"Convolution", "C"}, {"Pooling", "P"},
    {"Activation", "A"}, {"Dropout", "D"}, {"CTCLoss", "L"},     {"SpatialTransformer", "S"},
    {"RNN", "R"},        {"RNNData", "V"}};

class Cudnn : public SpelledCalls {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_CUDNN, GPEMU_TEST_RUNTIME_12});
    ASSERT_EQ(call("cudaMalloc", &memory_, kStatesBytes), 0);
    ASSERT_EQ(call("cudnnCreate", &handle_), 0);
    for (const auto& [kind, letters] : kKinds) {
      for (const char letter : std::string(letters)) {
        letters_[letter] = {address_of(create(kind)), 0, kBadParam};
      }
    }
    letters_.insert({{'H', {address_of(handle_), 0, kBadParam}},
                     {'M', {address_of(memory_), 0, kBadParam}},
                     {'O', {address_of(&size_), 0, kBadParam}},
                     {'J', {address_of(&count_), 0, kBadParam}},
                     {'K', {address_of(&found_[0]), 0, kBadParam}},
                     {'I', {address_of(&number_[0]), 0, kBadParam}},
                     {'Z', {address_of(&four_[0]), 0, kBadParam}},
                     {'m', {address_of(memory_)}},
                     {'u', {letters_.at('Q').good}},
                     {'y', {kFloat, 99, kBadParam}},       // a data type
                     {'e', {1, 99, kBadParam}},            // a mode, a format, a direction
                     {'g', {1, 99, kBadParam}},            // an algorithm of convolutions
                     {'a', {1, 2, kUnsupported}},          // one of CTC losses
                     {'i', {2, 0, kBadParam}},             // a positive number
                     {'n', {2, ~uint64_t{0}, kBadParam}},  // one that may be zero
                     {'w', {0, 1, kBadParam}},             // a mode with one value
                     {'j', {0, 1, kUnsupported}},          // the same, but the other is valid
                     {'N', {4, 9, kUnsupported}},          // a number of dimensions
                     {'4', {4}}});
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
    const int sizes[] = {5, 2, 7}, strides[] = {14, 7, 1}, lengths[] = {7, 3};
    ASSERT_EQ(call("cudnnSetTensorNdDescriptor", letters_.at('Q').good, kFloat, 3, &sizes[0],
                   &strides[0]),
              0);
    ASSERT_EQ(call("cudnnSetRNNDescriptor_v8", letters_.at('R').good, 0, 2, 2, 0, 0, kFloat, kFloat,
                   0, 3, 5, 0, 2, none_, 0),
              0);
    ASSERT_EQ(call("cudnnSetRNNDataDescriptor", letters_.at('V').good, kFloat, 0, 7, 2, 3,
                   &lengths[0], none_),
              0);
    check("cudnnSetActivationDescriptor", "Ae.");
    check("cudnnSetPooling2dDescriptor", "Pe.iinnii");
    check("cudnnSetCTCLossDescriptorEx", "Ly..");
    check("cudnnSetSpatialTransformerNdDescriptor", "Swy4Z");
  }

  void TearDown() override {
    EXPECT_EQ(call("cudnnDestroy", handle_), 0);
    EXPECT_EQ(call("cudaFree", memory_), 0);
  }

  void* create(const std::string& kind) {
    void* made = nullptr;
    EXPECT_EQ(call(("cudnnCreate" + kind + "Descriptor").c_str(), &made), 0) << kind;
    return made;
  }

  size_t checked_size(const std::string& name, const std::string& spelling) {
    size_ = ~size_t{0};
    check(name, spelling);
    return size_;
  }

  void* memory_ = nullptr;
  void* handle_ = nullptr;
  size_t size_ = 0;
  int count_ = 0, number_[8] = {}, four_[4] = {2, 2, 2, 2};
  Performance found_[4] = {};
};

TEST_F(Cudnn, VersionsAndStatusesHaveNames) {
  const size_t version = call_as<size_t>("cudnnGetVersion");
  int major = 0, minor = 0;
  EXPECT_EQ(call("cudnnGetProperty", 0, &major), 0);
  EXPECT_EQ(call("cudnnGetProperty", 1, &minor), 0);
  EXPECT_EQ(version / 100, static_cast<size_t>(major * 100 + minor));
  EXPECT_EQ(call("cudnnGetProperty", 3, &major), kBadParam);
  EXPECT_EQ(call("cudnnGetProperty", 0, none_), kBadParam);
  EXPECT_EQ(call_as<size_t>("cudnnGetMaxDeviceVersion"), 1210U);
  EXPECT_EQ(call_as<size_t>("cudnnGetCudartVersion"), 13020U);
  for (const auto& [status, name] : {std::pair{0, "CUDNN_STATUS_SUCCESS"},
                                     {kNotInitialized, "CUDNN_STATUS_NOT_INITIALIZED"},
                                     {kBadParam, "CUDNN_STATUS_BAD_PARAM"},
                                     {kNullPointer, "CUDNN_STATUS_BAD_PARAM_NULL_POINTER"},
                                     {kUnsupported, "CUDNN_STATUS_NOT_SUPPORTED"},
                                     {5000, "CUDNN_STATUS_EXECUTION_FAILED"},
                                     {-1, "CUDNN_STATUS_UNKNOWN"}}) {
    EXPECT_STREQ(call_as<const char*>("cudnnGetErrorString", status), name);
  }
  char message[] = "text";
  call_as<void>("cudnnGetLastErrorString", &message[0], sizeof(message));
  EXPECT_STREQ(message, "");
}

TEST_F(Cudnn, ObjectsLiveOnce) {
  for (const auto& [name, letters] : kKinds) {
    const std::string kind = name;
    const std::string destroy = "cudnnDestroy" + kind + "Descriptor";
    void* const made = create(kind);
    EXPECT_EQ(call(("cudnnCreate" + kind + "Descriptor").c_str(), none_), kNullPointer) << kind;
    EXPECT_EQ(call(destroy.c_str(), made), 0) << kind;
    EXPECT_EQ(call(destroy.c_str(), made), kBadParam) << kind;
    EXPECT_EQ(call(destroy.c_str(), none_), 0) << kind;
  }
  EXPECT_EQ(call("cudnnCreate", none_), kNullPointer);
  EXPECT_EQ(call("cudnnDestroy", none_), kBadParam);
  void* stream = nullptr;
  ASSERT_EQ(call("cudaStreamCreate", &stream), 0);
  letters_['s'] = {address_of(stream)};
  letters_['U'] = {address_of(&size_), 0, kBadParam};
  check("cudnnSetStream", "Hs");
  check("cudnnGetStream", "HU");
  EXPECT_EQ(size_, address_of(stream));
}

TEST_F(Cudnn, DescriptorsAreReadBack) {
  const auto expect_strides = [&](const std::vector<int>& expected) {
    int type = -1, count = 0, sizes[4] = {}, strides[4] = {};
    EXPECT_EQ(call("cudnnGetTensorNdDescriptor", letters_.at('X').good, 4, &type, &count, &sizes[0],
                   &strides[0]),
              0);
    EXPECT_EQ(type, kFloat);
    EXPECT_EQ(count, 4);
    EXPECT_EQ(sizes[3], 2);
    EXPECT_EQ(std::vector<int>(strides, strides + 4), expected);
  };
  check("cudnnSetTensorNdDescriptor", "XyNZZ");
  expect_strides({2, 2, 2, 2});
  check("cudnnSetTensor4dDescriptorEx", "Xyiiiinnnn");
  expect_strides({2, 2, 2, 2});
  check("cudnnSetTensor4dDescriptor", "Xeyiiii");
  expect_strides({8, 1, 4, 2});
  check("cudnnGetTensorNdDescriptor", "XnIIII");
  constexpr int kHuge = 1 << 30;
  EXPECT_EQ(call("cudnnSetTensor4dDescriptor", letters_.at('X').good, 0, kFloat, 2, 1, 1, kHuge),
            kUnsupported);
  EXPECT_EQ(call("cudnnSetTensor4dDescriptorEx", letters_.at('X').good, kFloat, 3, 1, 1, 1, kHuge,
                 1, 1, 1),
            kUnsupported);

  check("cudnnSetFilter4dDescriptor", "Fyeiiii");
  check("cudnnSetFilterNdDescriptor", "FyeNZ");
  int type = -1, format = -1, sizes[4] = {};
  EXPECT_EQ(call("cudnnGetFilterNdDescriptor", letters_.at('F').good, 4, &type, &format, &count_,
                 &sizes[0]),
            0);
  EXPECT_EQ(format, 1);
  EXPECT_EQ(count_, 4);
  EXPECT_EQ(sizes[0], 2);
  check("cudnnGetFilterNdDescriptor", "FnIIII");

  check("cudnnSetConvolution2dDescriptor", "Cnniiiiey");
  check("cudnnSetConvolutionNdDescriptor", "CNZZZey");
  check("cudnnSetConvolutionGroupCount", "Ci");
  check("cudnnGetConvolutionGroupCount", "CI");
  EXPECT_EQ(number_[0], 2);
  check("cudnnSetConvolutionMathType", "Ce");
  check("cudnnGetConvolutionMathType", "CI");
  EXPECT_EQ(number_[0], 1);
  check("cudnnSetCTCLossDescriptor_v9", "Ly..n");
  check("cudnnSetRNNDescriptor_v8", "R.eeejy..iini..");
  EXPECT_EQ(call("cudnnSetRNNDescriptor_v8", letters_.at('R').good, 0, 3, 2, 0, 0, kFloat, kFloat,
                 0, 3, 5, 4, 2, none_, 0),
            kUnsupported)
      << "only an LSTM has a projection";
  check("cudnnSetRNNDataDescriptor",
        "Vyeiii"
        "Z.");
}

TEST_F(Cudnn, ConvolutionsCheckWhatTheyRead) {
  for (const auto& [kind, name, shapes, data] :
       {std::array{"Forward", "cudnnConvolutionForward", "TFCY", "MTMFMCg..MYM"},
        {"BackwardData", "cudnnConvolutionBackwardData", "FYCT", "MFMYMCg..MTM"},
        {"BackwardFilter", "cudnnConvolutionBackwardFilter", "TYCF", "MTMYMCg..MFM"}}) {
    const std::string get = std::string("cudnnGetConvolution") + kind;
    const std::string find = std::string("cudnnFindConvolution") + kind;
    const std::string s = shapes;
    const std::string measured = {s[0], 'M', s[1], 'M', s[2], s[3], 'M'};
    check(name, std::string("H") + data);
    EXPECT_EQ(checked_size(get + "WorkspaceSize", "H" + s + "gO"), 0U);
    check(get + "Algorithm_v7", "H" + s + "iJK");
    EXPECT_EQ(count_, 2);
    EXPECT_EQ(found_[0].algorithm, 1);
    EXPECT_EQ(found_[0].milliseconds, -1.0F);
    check(find + "AlgorithmEx", "H" + measured + "iJK..");
    EXPECT_EQ(found_[1].algorithm, 0);
    EXPECT_EQ(found_[1].status, 0);
    EXPECT_EQ(found_[1].memory, 0U);
    EXPECT_GT(found_[1].milliseconds, 0.0F);
  }
  check("cudnnConvolutionBiasActivationForward", "HMTMFMCg..MYMBMAYM");
  ASSERT_EQ(call("cudnnSetActivationDescriptor", letters_.at('A').good, 2, 0, 0.0), 0);
  EXPECT_EQ(call_with("cudnnConvolutionBiasActivationForward", spelled("HMTMFMCg..MYMBMAYM")),
            kUnsupported);
}

TEST_F(Cudnn, LayersCheckWhatTheyRead) {
  letters_['p'] = {0, 3, kBadParam};
  check("cudnnBatchNormalizationForwardTrainingEx",
        "HepMMTM..TMBMMmm"
        "mm.....");
  check("cudnnBatchNormalizationForwardInference", "HeMMTMTMBMMMM");
  check("cudnnBatchNormalizationBackwardEx", "HepMMMMTM..TM..TMBMmMMmm.....");
  for (const auto& [name, spelling] :
       {std::pair{"cudnnBatchNormalizationForwardTrainingEx", "HepMMTM..TMBMMmmmm"},
        {"cudnnBatchNormalizationForwardInference", "HeMMTMTMBMMMM"},
        {"cudnnBatchNormalizationBackwardEx", "HepMMMMTM..TM..TMBMmMM"}}) {
    EXPECT_EQ(call_with(name, spelled(spelling), -1.0), kBadParam) << "a negative epsilon";
  }
  EXPECT_EQ(call_with("cudnnBatchNormalizationForwardTrainingEx", spelled("HepMMTM..TMBMMmm.m")),
            kBadParam)
      << "only one of the saved statistics";
  const std::string normalization = "cudnnGetBatchNormalization";
  EXPECT_EQ(checked_size(normalization + "ForwardTrainingExWorkspaceSize", "HepT....O"), 0U);
  EXPECT_EQ(checked_size(normalization + "BackwardExWorkspaceSize", "HepT......O"), 0U);
  EXPECT_EQ(checked_size(normalization + "TrainingExReserveSpaceSize", "Hep.TO"), 0U);
  letters_['p'].good = 1;
  EXPECT_EQ(checked_size(normalization + "TrainingExReserveSpaceSize", "Hep.TO"), 2 * 8 * 36 / 8);

  check("cudnnPoolingForward", "HPmTmmTm");
  check("cudnnCTCLoss", "HQm....umaL..");
  check("cudnnCTCLoss_v8", "HaLQm....um..");
  constexpr size_t kCtcBytes = 2 * 5 * 2 * 7 * sizeof(float);
  EXPECT_EQ(checked_size("cudnnGetCTCLossWorkspaceSize", "HQu....LO"), kCtcBytes);
  EXPECT_EQ(checked_size("cudnnGetCTCLossWorkspaceSize_v8", "H.LQuO"), kCtcBytes);
  check("cudnnSpatialTfGridGeneratorForward", "HSMM");
  check("cudnnSpatialTfGridGeneratorBackward", "HSMM");
  check("cudnnSpatialTfSamplerForward", "HSmTMMmTM");
  check("cudnnSpatialTfSamplerBackward", "HSmTMmTMmTMMmM");
}

TEST_F(Cudnn, DropoutNeedsItsStatesAndAProbability) {
  letters_['b'] = {kStatesBytes, kStatesBytes - 1, kSizeInsufficient};
  EXPECT_EQ(checked_size("cudnnDropoutGetStatesSize", "HO"), kStatesBytes);
  for (const char* function : {"cudnnSetDropoutDescriptor", "cudnnRestoreDropoutDescriptor"}) {
    check(function, "DHmb.");
    EXPECT_EQ(call(function, letters_.at('D').good, handle_, 2.0F, memory_, kStatesBytes, 0ULL),
              kBadParam);
  }
}

TEST_F(Cudnn, SizesMayExceed64Bits) {
  constexpr int kMost = 2147483647;
  constexpr size_t kMostWork = size_t{1} << 62;
  // Without strides, a tensor of any size takes one element.
  const int sizes[] = {kMost, kMost, kMost}, strides[] = {0, 0, 0};
  ASSERT_EQ(
      call("cudnnSetTensorNdDescriptor", letters_.at('Q').good, kFloat, 3, &sizes[0], &strides[0]),
      0);
  EXPECT_EQ(call("cudnnGetCTCLossWorkspaceSize_v8", handle_, 0, letters_.at('L').good,
                 letters_.at('Q').good, none_, &size_),
            0);
  EXPECT_EQ(size_, kMostWork);
  EXPECT_EQ(call("cudnnCTCLoss_v8", handle_, 0, letters_.at('L').good, letters_.at('Q').good, none_,
                 none_, none_, none_, none_, none_, none_, size_t{0}, none_),
            0);
  ASSERT_EQ(call("cudnnSetSpatialTransformerNdDescriptor", letters_.at('S').good, 0, kFloat, 3,
                 &sizes[0]),
            0);
  EXPECT_EQ(
      call("cudnnSpatialTfGridGeneratorForward", handle_, letters_.at('S').good, memory_, memory_),
      0);

  const auto set_network = [&](int input, int hidden, int layers) {
    ASSERT_EQ(call("cudnnSetRNNDescriptor_v8", letters_.at('R').good, 0, 2, 2, 0, 0, kFloat, kFloat,
                   0, input, hidden, 0, layers, none_, 0),
              0);
  };
  size_t reserve = 0;
  set_network(kMost, kMost, kMost);
  EXPECT_EQ(call("cudnnGetRNNWeightSpaceSize", handle_, letters_.at('R').good, &size_), 0);
  EXPECT_EQ(size_, kMostWork);
  EXPECT_EQ(call("cudnnGetRNNTempSpaceSizes", handle_, letters_.at('R').good, 1,
                 letters_.at('V').good, &size_, &reserve),
            0);
  EXPECT_EQ(reserve, kMostWork);
  // The first stride of a matrix of 2^32 elements exceeds an int.
  set_network(65536, 65536, 1);
  void *matrix = nullptr, *bias = nullptr;
  EXPECT_EQ(call("cudnnGetRNNWeightParams", handle_, letters_.at('R').good, 0, kMostWork, memory_,
                 0, letters_.at('X').good, &matrix, letters_.at('B').good, &bias),
            0);
  int type = -1, found[3] = {}, steps[3] = {};
  EXPECT_EQ(call("cudnnGetTensorNdDescriptor", letters_.at('X').good, 3, &type, &count_, &found[0],
                 &steps[0]),
            0);
  EXPECT_EQ(found[1], 65536);
  EXPECT_EQ(steps[0], kMost);
}

TEST_F(Cudnn, RecurrentNetworksKeepTheirWeightsInOneSpace) {
  void* matrix = nullptr;
  void* bias = nullptr;
  size_t reserve = 0;
  letters_.insert({{'l', {1, 2, kBadParam}},
                   {'k', {5, 8, kBadParam}},
                   {'b', {kWeightBytes, kWeightBytes - 1, kSizeInsufficient}},
                   {'t', {1, 2, kBadParam}},
                   {'G', {address_of(&matrix), 0, kBadParam}},
                   {'E', {address_of(&bias), 0, kBadParam}},
                   {'r', {address_of(&reserve)}},
                   {'o', {address_of(&size_)}}});
  EXPECT_EQ(checked_size("cudnnGetRNNWeightSpaceSize", "HRO"), kWeightBytes);
  check("cudnnGetRNNWeightParams", "HRlbmkXGBE");
  // One layer of 4 gates with 5 x 3 inputs and 5 x 5 recurrences, then four gates and the second's.
  EXPECT_EQ(address_of(matrix) - address_of(memory_),
            (4 * 5 * (3 + 5) + 5 * 5 * 5) * sizeof(float));
  EXPECT_EQ(address_of(bias) - address_of(memory_), (360 + 8 * 5 + 5 * 5) * sizeof(float));
  int type = -1, sizes[3] = {}, strides[3] = {};
  EXPECT_EQ(call("cudnnGetTensorNdDescriptor", letters_.at('X').good, 3, &type, &count_, &sizes[0],
                 &strides[0]),
            0);
  EXPECT_EQ(sizes[1] * 100 + sizes[2], 505);
  check("cudnnGetRNNTempSpaceSizes", "HRtVor");
  EXPECT_EQ(size_, 7 * 2 * 4 * 5 * sizeof(float));
  EXPECT_EQ(reserve, 7 * 2 * 2 * 5 * (4 + 2) * sizeof(float));
  check("cudnnRNNForward", "HRt.VMVM.......M...M");
  check("cudnnRNNBackwardData_v8", "HR.VmMVM.........M...M");
  check("cudnnRNNBackwardWeights_v8", "HRw.VM..VM.M...M");
}

}  // namespace
