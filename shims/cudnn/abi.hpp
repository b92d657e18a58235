// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// CUDNN_MAJOR, CUDNN_MINOR and CUDNN_PATCHLEVEL: the newest cuDNN, because PyTorch refuses one
/// that is older than the one that it was built with. Source: cudnn_version.h.
constexpr int kVersion[] = {9, 26, 0};

// Source: cudnn_graph.h.

/// cudnnStatus_t.
enum Status : int {
  kSuccess = 0,
  kNotInitialized = 1001,
  kBadParam = 2000,
  kNullPointer = 2002,
  kNotFinalized = 2004,
  kSizeInsufficient = 2006,
  kAttributeType = 2010,
  kUnsupported = 3000,
  kDeviceAllocationFailed = 4004,
  kExecutionFailed = 5000,
};

/// cudnnBackendDescriptorType_t: those with a meaning here.
enum BackendKind : int {
  kConvolutionKind = 1,
  kEngineKind = 2,
  kEngineConfigKind = 3,
  kHeuristicsKind = 4,
  kPlanKind = 5,
  kConvolutionForwardKind = 10,
  kConvolutionBackwardFilterKind = 11,
  kConvolutionBackwardDataKind = 12,
  kGraphKind = 15,
  kVariantPackKind = 16,
  kTensorKind = 17,
  kMatmulKind = 19,
  kReductionKind = 22,
  kResampleForwardKind = 25,
  kResampleBackwardKind = 26,
  kNormForwardKind = 29,
  kNormBackwardKind = 30,
  kAttentionForwardKind = 41,
  kAttentionBackwardKind = 43,
  kLastKind = 50,
};

/// cudnnBackendAttributeName_t: those that are read here.
enum BackendAttribute : int {
  kConvolutionComputeType = 100,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kConfigEngine = 300,
  kConfigIntermediates = 301,
  kConfigKnobs = 302,
  kConfigWorkspace = 303,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanJson = 405,
  kForwardConvolution = 702,
  kForwardW = 703,
  kForwardX = 704,
  kForwardY = 705,
  kBackwardDataConvolution = 708,
  kBackwardDataW = 709,
  kBackwardDataDx = 710,
  kBackwardDataDy = 711,
  kBackwardFilterConvolution = 714,
  kBackwardFilterDw = 715,
  kBackwardFilterX = 716,
  kBackwardFilterDy = 717,
  kGraphOperations = 801,
  kGraphEngineCount = 802,
  kTensorType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kTensorVectorCount = 904,
  kTensorUniqueId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kTensorRaggedOffset = 913,
  kPackUniqueIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineKnobs = 1302,
  kEngineNumericalNotes = 1303,
  kEngineLayouts = 1304,
  kEngineBehaviourNotes = 1305,
  kMatmulA = 1520,
  kPointwiseMode = 0,
  kPointwiseDescriptor = 750,
  kMatmulB = 1521,
  kReductionX = 1610,
  kReductionY = 1611,
  kResampleForwardX = 1710,
  kResampleForwardY = 1711,
  kResampleBackwardDx = 1720,
  kResampleBackwardDy = 1721,
  kNormForwardX = 2002,
  kNormBackwardX = 2101,
  kAttentionForwardQ = 2800,
  kAttentionForwardK = 2801,
  kAttentionBackwardQ = 2851,
  kAttentionBackwardK = 2852,
};

/// cudnnBackendAttributeName_t: the attributes with the tensors that an operation writes, by their
/// names after CUDNN_ATTR_OPERATION_.
// clang-format off
constexpr int kOutputs[] = {
    kForwardY,                // CONVOLUTION_FORWARD_Y
    kBackwardDataDx,          // CONVOLUTION_BWD_DATA_DX
    kBackwardFilterDw,        // CONVOLUTION_BWD_FILTER_DW
    753, 756,                 // POINTWISE: YDESC, DXDESC
    773, 774,                 // GENSTATS: SUMDESC, SQSUMDESC
    788, 789,                 // BN_FINALIZE_UPDATED_RUNNING: MEAN_DESC, VAR_DESC
    790, 791,                 // BN_FINALIZE_SAVED: MEAN_DESC, INV_STD_DESC
    792, 793,                 // BN_FINALIZE_EQ: SCALE_DESC, BIAS_DESC
    1522,                     // MATMUL_CDESC
    kReductionY,              // REDUCTION_YDESC
    1626, 1627,               // BN_BWD_WEIGHTS: DBN_SCALE_DESC, DBN_BIAS_DESC
    1628, 1629, 1630,         // BN_BWD_WEIGHTS_EQ: DY_SCALE_DESC, X_SCALE_DESC, BIAS
    kResampleForwardY, 1712,  // RESAMPLE_FWD: YDESC, IDXDESC
    kResampleBackwardDx,      // RESAMPLE_BWD_DXDESC
    1803,                     // CONCAT_OUTPUT_DESC
    1904,                     // SIGNAL_YDESC
    1951,                     // PAGED_CACHE_LOAD_YDESC
    2003, 2004, 2013,         // NORM_FWD: MEAN_DESC, INV_VARIANCE_DESC, YDESC
    2011, 2012,               // NORM_FWD_OUTPUT_RUNNING: MEAN_DESC, VAR_DESC
    2107, 2108, 2109,         // NORM_BWD: DSCALE_DESC, DBIAS_DESC, DXDESC
    2201,                     // RESHAPE_YDESC
    2251,                     // EXPAND_BAND_MATRIX_YDESC
    2271, 2276,               // CONTRACT_BAND: MATRIX_YDESC, MAX_TOKEN_VALUE
    2310,                     // RNG_YDESC
    2501, 2502,               // BLOCK_SCALE_QUANTIZE: YDESC, SCALE_DESC
    2602,                     // BLOCK_SCALE_DEQUANTIZE_YDESC
    2803, 2804, 2817,         // SDPA_FWD: ODESC, STATSDESC, DROPOUT_RNG_DUMP_DESC
    2859, 2860, 2861, 2864,   // SDPA_BWD: DQDESC, DKDESC, DVDESC, DSINK_DESC
    2905,                     // MOE_GROUPED_MATMUL_OUTPUT_DESC
    2953,                     // MOE_GROUPED_MATMUL_BWD_DWEIGHT_DESC
    3006,                     // DIAGONAL_BAND_MASK_YDESC
    3101, 3102, 3103, 3104,   // SOFTMAX: YDESC, STATS_DESC, MAX_DESC, SUM_EXP_DESC
    3201,                     // TRANSPOSE_YDESC
    3301,                     // SLICE_YDESC
    3401,                     // ROPE_FWD_YDESC
    3411,                     // ROPE_BWD_DXDESC
};
// clang-format on

/// cudnnBackendAttributeType_t: those that are used here.
enum BackendType : int {
  kHandleType = 0,
  kBooleanType = 2,
  kInt64Type = 3,
  kDoubleType = 5,
  kVoidPointerType = 6,
  kNumericalNoteType = 11,
  kDescriptorType = 15,
  kBehaviourNoteType = 19,
  kCharType = 24,
  kFractionType = 26,
  kLastType = 32,
};

/// cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TENSOR_CORE.
constexpr int32_t kTensorCoreNote = 0;

/// cudnnMathType_t.
enum MathType : int { kFmaMath = 3, kLastMathType = 3 };

/// cudnnDeterminism_t.
enum Determinism : int { kNonDeterministic = 0, kDeterministic = 1 };

/// cudnnDataType_t, except accumulators for FP8 and integers of 4 bits.
enum DataType : int {
  kFloatData = 0,
  kDoubleData = 1,
  kHalfData = 2,
  kInt8Data = 3,
  kInt32Data = 4,
  kInt8x4Data = 5,
  kUint8Data = 6,
  kUint8x4Data = 7,
  kInt8x32Data = 8,
  kBfloat16Data = 9,
  kInt64Data = 10,
  kBooleanData = 11,
  kFp8E4m3Data = 12,
  kFp8E5m2Data = 13,
  kFp8E8m0Data = 15,
  kFp4E2m1Data = 16,
  kUint32Data = 19,
  kComplexFp32Data = 20,
  kComplexFp64Data = 21,
  kByteBooleanData = 22,
  kFp8E5m3Data = 23,
};

/// cudnnTensorFormat_t.
enum TensorFormat : int { kNchw = 0, kNhwc = 1, kLastFormat = 2 };

/// cudnnActivationMode_t: those that a convolution can fuse, and the last.
enum ActivationMode : int { kRelu = 1, kIdentity = 5, kLastActivation = 6 };

/// cudnnConvolutionMode_t: the last.
constexpr int kLastConvolutionMode = 1;

/// CUDNN_DIM_MAX.
constexpr int kMaxDimensions = 8;

// Source: cudnn_ops.h.

/// cudnnBatchNormOps_t: the first, which keeps no activation, and the last.
enum NormalizationOps : int { kPlainNormalization = 0, kLastNormalizationOps = 2 };

/// cudnnBatchNormMode_t: the last.
constexpr int kLastNormalizationMode = 2;

/// cudnnPoolingMode_t: the last.
constexpr int kLastPoolingMode = 3;

/// The bytes of a curandStatePhilox4_32_10, of which a dropout has many.
constexpr uint64_t kPhiloxStateBytes = 48;

// Source: cudnn_adv.h.

/// cudnnRNNMode_t.
enum RnnMode : int { kLstm = 2, kGru = 3, kLastRnnMode = 3 };

/// cudnnDirectionMode_t.
enum Direction : int { kUnidirectional = 0, kBidirectional = 1 };

/// cudnnRNNInputMode_t.
enum RnnInput : int { kLinearInput = 0 };

/// cudnnForwardMode_t.
enum ForwardMode : int { kInference = 0, kTraining = 1 };

/// cudnnWgradMode_t.
enum WeightGradients : int { kAddGradients = 0 };

/// cudnnRNNDataLayout_t: the one without padding, and the last.
constexpr int kPackedLayout = 1, kLastRnnLayout = 2;

/// cudnnCTCLossAlgo_t: the last.
constexpr int kLastCtcAlgorithm = 1;

/// cudnnRNNBiasMode_t.
enum BiasMode : int { kNoBias = 0, kInputBias = 1, kDoubleBias = 2, kLastBias = 3 };

// Source: cudnn_cnn.h.

/// cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t, which have the same layout.
struct Performance {
  int algorithm;
  int status;
  float milliseconds;
  size_t memory;
  int determinism;
  int math_type;
  int reserved[3];
};
static_assert(sizeof(Performance) == 48);
