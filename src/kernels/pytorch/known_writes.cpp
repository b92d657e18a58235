// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/known_writes.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <string>

namespace gpemu::kernels {
namespace {

/// A kernel by the last part of its name and by the number of its parameters; 0: any number. It
/// writes through each parameter of the list, which are separated by spaces:
///
///     5:gx*6     the pointer 5, to as many elements as the formula says (see ElementCount)
///     5          the tensor that the parameter 5 describes
///     5[2:3]     the same, along a further dimension of argument 2 elements, argument 3 apart
///     5~:6       changed in place, or at some places only: known content stays
///     5?         changed at places in a tensor whose end the arguments do not show
///     !3:6<8     no result: the pointer 3 leads to as many indices as the formula says, and the
///                kernel asserts that they are less than argument 8
///     !3:6<8-9   the same, or equal to argument 9
///     !3<8.1     the indices are the tensor that the parameter 3 describes; they are less than the
///                size of dimension 1 of the tensor of parameter 8
///
/// Buffers that only the next kernels read are left out.
struct KnownKernel {
  std::string_view name;
  std::size_t parameters = 0;
  std::string_view writes;
};

// Sources: the kernels of these names, and the calls that launch them, in PyTorch's
// aten/src/ATen/native/cuda, aten/src/ATen/cuda and in CUB.
constexpr std::array kNative = {
    KnownKernel{"_embedding_bag_per_sample_weights_backward_kernel", 12, "10:8"},
    KnownKernel{"_embedding_bag_per_sample_weights_backward_kernel", 14, "12:8"},
    KnownKernel{"adaptive_average_gradinput", 6, "0:gx*2*3"},
    KnownKernel{"adaptive_average_gradinput_nhwc", 14, "0:2*3*4*5"},
    KnownKernel{"adaptive_average_pool", 9, "1:gx*4*5"},
    KnownKernel{"adaptive_average_pool_nhwc", 14, "1:2*3*6*7"},
    KnownKernel{"adaptiveaveragegradinput", 9, "0:gx+8*3*4"},
    KnownKernel{"adaptiveaveragepool", 13, "1:gx+12*6*7"},
    KnownKernel{"adaptiveaveragepool", 15, "1:gx+14*6*7"},
    KnownKernel{"adaptivemaxgradinput", 7, "0~:gx*3*4"},
    KnownKernel{"adaptivemaxgradinput", 10, "0~:gx+9*3*4*5/6"},
    KnownKernel{"adaptivemaxpool", 10, "1:gx*5*6 2:gx*5*6"},
    KnownKernel{"adaptivemaxpool", 14, "1:gx+13*7*8 2:gx+13*7*8"},
    KnownKernel{"add_padding_1", 8, "1:6*7"},
    KnownKernel{"add_padding_2", 9, "1:6*7*8"},
    KnownKernel{"add_padding_3", 10, "1:6*7*8*9"},
    KnownKernel{"adjacent_difference_kernel", 3, "2:0"},
    KnownKernel{"amp_update_scale_cuda_kernel", 6, "0~:#1 1~:#1"},
    KnownKernel{"atomic_adaptive_average_gradinput", 6, "0:gx*2*3"},
    KnownKernel{"atomicadaptiveaveragegradinput", 9, "0:gx+8*2*3*4/5"},
    KnownKernel{"atomicadaptivemaxgradinput", 7, "0~:gx*3*4"},
    KnownKernel{"atomicadaptivemaxgradinput", 10, "0~:gx+9*3*4*5/6"},
    KnownKernel{"avg_pool2d_backward_nonoverlap_frame", 13, "9?"},
    KnownKernel{"avg_pool2d_backward_out_cuda_frame", 0, "13:0"},
    KnownKernel{"avg_pool2d_backward_out_cuda_frame_nhwc", 0, "13:0"},
    KnownKernel{"avg_pool2d_out_cuda_frame", 17, "13:0"},
    KnownKernel{"avg_pool2d_out_cuda_frame_nhwc", 17, "13:0"},
    KnownKernel{"batch_norm_backward_elemt_channels_last_kernel", 11, "7:9*10"},
    KnownKernel{"batch_norm_backward_elemt_channels_last_kernel", 12, "8:10*11"},
    KnownKernel{"batch_norm_backward_elemt_kernel", 0, "7"},
    KnownKernel{"batch_norm_backward_kernel", 0, "2 3 4"},
    KnownKernel{"batch_norm_backward_reduce_channels_last_kernel", 12, "4:11 5:11 6:11 7:11"},
    KnownKernel{"batch_norm_backward_reduce_kernel", 8, "4 5 6 7"},
    KnownKernel{"batch_norm_collect_statistics_channels_last_kernel", 8, "1:6 2:6"},
    KnownKernel{"batch_norm_collect_statistics_kernel", 5, "3 4"},
    KnownKernel{"batch_norm_reduce_statistics_kernel", 9, "2 3 4~ 5~"},
    KnownKernel{"batch_norm_transform_input_channels_last_kernel", 10, "6:7*8"},
    KnownKernel{"batch_norm_transform_input_kernel", 0, "1"},
    KnownKernel{"bitonicSortKVInPlace", 7, "0~[2:3] 4~[2:5]"},
    KnownKernel{"cdist_backward_kernel_cuda_impl", 13, "0:9*8"},
    KnownKernel{"cdist_kernel_cuda_impl", 0, "0:gx"},
    KnownKernel{"ChooseQuantizationParamsKernelImpl", 9, "7:5 8:5"},
    KnownKernel{"coalesceValuesKernel", 7, "3:5*6"},
    KnownKernel{"col2im_batched_kernel", 18, "16:3*17"},
    KnownKernel{"col2im_batched_kernel", 19, "17:3*18"},
    KnownKernel{"col2im_kernel", 15, "14:0"},
    KnownKernel{"col2im_kernel", 16, "15:0"},
    KnownKernel{"Compute1dBackwardFusedParamsCUDAKernel", 9, "7:gx*gy 8:gx*gy"},
    KnownKernel{"compute_agg", 3, "0~:2 1~:2"},
    KnownKernel{"compute_grad_weight", 9, ""},
    KnownKernel{"compute_grad_weight_bags", 14, ""},
    KnownKernel{"compute_mode", 5, "1 2"},
    KnownKernel{"compute_num_of_partial_segments", 4, "3:#1"},
    KnownKernel{"ComputeBackwardFusedParamsCUDAKernel", 10, "8:gx*gy 9:gx*gy"},
    KnownKernel{"computeBlockwiseKthCounts", 5, ""},
    KnownKernel{"computeBlockwiseWithinKCounts", 0, ""},
    KnownKernel{"ComputeFusedParamsCUDAKernel", 9, "7:0*1 8:0*1"},
    KnownKernel{"ComputeInternalGradientsChannelsLastCUDAKernel", 6, "4? 5?"},
    KnownKernel{"ComputeInternalGradientsChannelsLastFallbackCUDAKernel", 6, "4:gx 5:gx"},
    KnownKernel{"ComputeInternalGradientsContiguousCUDAKernel", 5, "3:gx 4:gx"},
    KnownKernel{"ComputeInternalGradientsCUDAKernel", 5, "3:gx 4:gx"},
    KnownKernel{"convert_indices_from_coo_to_csr_cuda_kernel", 4, "0:2+#1"},
    KnownKernel{"convert_indices_from_csr_to_coo_cuda_kernel", 5, "0:3"},
    KnownKernel{"ctc_loss_backward_collect_gpu_kernel", 0, "0:7*15"},
    KnownKernel{"ctc_loss_backward_collect_nonblank_gpu_kernel", 0, "0?"},
    KnownKernel{"ctc_loss_backward_log_beta_gpu_kernel", 17, "0:10*15"},
    KnownKernel{"ctc_loss_log_alpha_gpu_kernel", 18, "0:11*16 7:16"},
    KnownKernel{"ctc_loss_zero_padded_gradients", 8, "0~:2*5"},
    KnownKernel{"cunn_SoftMaxBackward", 4, "0:gx*3"},
    KnownKernel{"cunn_SoftMaxBackwardSmem", 4, "0:gx*3"},
    KnownKernel{"cunn_SoftMaxForward", 3, "0:gx*2"},
    KnownKernel{"cunn_SoftMaxForwardReg", 3, "0:gx*2"},
    KnownKernel{"cunn_SoftMaxForwardSmem", 3, "0:gx*2"},
    KnownKernel{"cunn_SpatialSoftMaxBackward", 6, "0:3*4*5"},
    KnownKernel{"cunn_SpatialSoftMaxForward", 5, "0:2*3*4"},
    KnownKernel{"embedding_backward_feature_kernel", 6, "2?"},
    KnownKernel{"EmbeddingBag_accGradParametersKernel_max", 7, "2~:3*6"},
    KnownKernel{"EmbeddingBag_updateOutputKernel_max", 14, "3:6*7 4:5 10:6 11:6*7 !0:5<13"},
    KnownKernel{"EmbeddingBag_updateOutputKernel_sum_mean", 16, "3:6*7 4:5 11:6 !0:5<15"},
    KnownKernel{"fill", 3, "0:2"},
    KnownKernel{"fill_index_and_segment_kernel", 3, "0:1"},
    KnownKernel{"fill_reverse_indices_kernel", 3, "0:1"},
    KnownKernel{"flag_kernel", 6, "1:4"},
    KnownKernel{"GammaBeta1dBackwardCUDAKernel1", 9, "7:1 8:1"},
    KnownKernel{"GammaBeta1dBackwardCUDAKernel2", 9, "7:1 8:1"},
    KnownKernel{"GammaBetaBackwardCUDAKernel1", 9, "7:1 8:1"},
    KnownKernel{"GammaBetaBackwardCUDAKernel2", 9, "7:1 8:1"},
    KnownKernel{"gatherTopK", 0, "6[2:7] 8[2:9]"},
    KnownKernel{"GroupNormBackwardChannelsLastCUDAKernel", 12, "11:0"},
    KnownKernel{"gru_cell_backward", 7, "0 1 2 3 4"},
    KnownKernel{"gru_cell_forward", 9, "5 6"},
    KnownKernel{"im2col_kernel", 15, "14:0*4*5"},
    KnownKernel{"krn_partial_segment_offset", 5, ""},
    KnownKernel{"krn_partials_per_segment", 4, "0:3"},
    KnownKernel{"layer_norm_grad_input_kernel", 7, "5:gx*6"},
    KnownKernel{"layer_norm_grad_input_kernel_vectorized", 7, "5:gx*6"},
    KnownKernel{"LayerNormForwardCUDAKernel", 7, "6:gx*0"},
    KnownKernel{"LayerNormForwardCUDAKernel", 8, "7:0*1"},
    KnownKernel{"lstm_cell_backward", 9, "1 6"},
    KnownKernel{"lstm_cell_forward", 10, "5 6 7"},
    KnownKernel{"masked_scatter_size_check", 3, ""},
    KnownKernel{"max_pool3d_with_indices_backward_single_out_frame", 13, "0?"},
    KnownKernel{"max_pool3d_with_indices_single_out_frame", 25, "1:gz+23*9*10 2:gz+23*9*10"},
    KnownKernel{"max_pool_backward_nchw", 17, "16:2*3*4*5"},
    KnownKernel{"max_pool_backward_nhwc", 22, "21:2*3*4*5"},
    KnownKernel{"max_pool_forward_nchw", 17, "15:0 16:0"},
    KnownKernel{"max_pool_forward_nhwc", 23, "21:1*2*5*6 22:1*2*5*6"},
    KnownKernel{"max_unpooling2d_backward_kernel", 9, "8:0"},
    KnownKernel{"max_unpooling2d_forward_kernel", 9, "8~:0*6*7/4/5"},
    KnownKernel{"max_unpooling3d_backward_kernel", 7, "5"},
    KnownKernel{"max_unpooling3d_forward_kernel", 7, "2?"},
    KnownKernel{"MovingAverageMinMax", 7, "3~:6 4~:6"},
    KnownKernel{"multilabel_margin_loss_backward_kernel", 9, "0:gx*6"},
    KnownKernel{"multilabel_margin_loss_forward_kernel", 7, "0:gx 3:4*5"},
    KnownKernel{"MultiMarginLoss_backward_kernel", 10, "0:gx*6"},
    KnownKernel{"MultiMarginLoss_forward_kernel", 8, "0:gx !2:4<5"},
    KnownKernel{"nll_loss2d_backward_kernel", 10, "0?"},
    KnownKernel{"nll_loss2d_backward_no_reduce_kernel", 6, "3"},
    KnownKernel{"nll_loss2d_forward_kernel", 9, "0~:#1 1~:#1 !3:6*gx/7<5-8"},
    KnownKernel{"nll_loss2d_forward_no_reduce_kernel", 6, "3 !2<1.1-5"},
    KnownKernel{"nll_loss2d_forward_size_average_kernel", 2, "0~:#1"},
    KnownKernel{"nll_loss_backward_reduce_cuda_kernel_1d", 8, "0~:6"},
    KnownKernel{"nll_loss_backward_reduce_cuda_kernel_2d", 10, "0~:6*7"},
    KnownKernel{"nll_loss_forward_no_reduce_cuda_kernel", 7, "3:0 !2:0<5-6"},
    KnownKernel{"nll_loss_forward_reduce_cuda_kernel_1d", 8, "0:#1 1:#1 !3:#1<6-7"},
    KnownKernel{"nll_loss_forward_reduce_cuda_kernel_2d", 10, "0:#1 1:#1 !3:6<8-9"},
    KnownKernel{"op_dense_esuhm", 0, "2?"},
    KnownKernel{"pdist_backward_kernel_cuda_impl", 11, "0:7*6*#2"},
    KnownKernel{"pdist_kernel_cuda_impl", 0, "0:gx"},
    KnownKernel{"post_sum_div_kernel", 5, "0~:2"},
    KnownKernel{"radixFindKthValues", 0, ""},
    KnownKernel{"radixSortKVInPlace", 7, "0~[2:3] 4~[2:5]"},
    KnownKernel{"reduce_crow_indices_dim1_cuda_kernel", 4, "0:3+#1 1:3"},
    KnownKernel{"reduce_sparse_csr_dim0_cuda_kernel", 7, "0:2"},
    KnownKernel{"reduce_sparse_csr_dim1_cuda_kernel", 6, "0?"},
    KnownKernel{"reflection_pad1d_backward_flat", 6, "0:2*5"},
    KnownKernel{"reflection_pad1d_backward_out_kernel", 5, "0:2*gy*gz"},
    KnownKernel{"reflection_pad1d_flat", 7, "1:5*6"},
    KnownKernel{"reflection_pad1d_out_kernel", 5, "1:2+3+4*gy*gz"},
    KnownKernel{"reflection_pad2d_backward_det_out_kernel", 11, "0:2*3*10*gz+9"},
    KnownKernel{"reflection_pad2d_backward_out_kernel", 11, "0:2*3*10*gz+9"},
    KnownKernel{"reflection_pad2d_out_kernel", 11, "1:2+6+7*3+4+5*10*gz+9"},
    KnownKernel{"remove_padding", 7, "1?"},
    KnownKernel{"remove_padding_2", 7, "1?"},
    KnownKernel{"remove_padding_transform0213_2", 7, "1?"},
    KnownKernel{"renorm_kernel", 0, "0?"},
    KnownKernel{"renormRowsL1", 3, "0~:1*2"},
    KnownKernel{"roll_cuda_kernel", 8, "1:2"},
    KnownKernel{"RowwiseMomentsChannelsLastCUDAKernel", 10, "6:gx 7:gx 8:gx 9:gx"},
    KnownKernel{"RowwiseMomentsChannelsLastSmallDCUDAKernel", 10, "6? 7? 8? 9?"},
    KnownKernel{"RowwiseMomentsContiguousCUDAKernel", 7, "3:gx 4:gx 5:gx 6:gx"},
    KnownKernel{"RowwiseMomentsCUDAKernel", 5, "3:gx 4:gx"},
    KnownKernel{"RowwiseMomentsCUDAKernel", 6, "4:gx 5:gx"},
    KnownKernel{"rrelu_with_noise_cuda_kernel", 8, "2:0 4:0"},
    KnownKernel{"sampleMultinomialOnce", 7, "0:1"},
    KnownKernel{"sampleMultinomialWithReplacement", 7, "2:1*3"},
    KnownKernel{"scatter_kernel", 4, "3:0"},
    KnownKernel{"search_end_matrix_indices_cuda_kernel", 4, "0:1"},
    KnownKernel{"searchsorted_cuda_kernel", 9, "0:6"},
    KnownKernel{"segment_reduce_backward_kernel", 17, "1:10*11*13"},
    KnownKernel{"segment_reduce_forward_kernel", 16, "1:9*5*10"},
    KnownKernel{"sort_postprocess_kernel", 6, "1:4*5 2:4*5"},
    KnownKernel{"sum_and_scatter", 10, "1?"},
    KnownKernel{"tensor_kernel_scan_innermost_dim", 7, "0:2*3"},
    KnownKernel{"tensor_kernel_scan_innermost_dim_with_indices", 9, "1:3*4 2:3*4"},
    KnownKernel{"tensor_kernel_scan_outer_dim", 7, "0:2*3*4"},
    KnownKernel{"tensor_kernel_scan_outer_dim_with_indices", 8, "1:3*4*5 2:3*4*5"},
    KnownKernel{"tma_scatter_kernel", 10, "0? !2:3<5"},
    KnownKernel{"transform_bias_rescale_qkv_add_padding_kernel", 6, "4"},
    KnownKernel{"transform_bias_rescale_qkv_kernel", 4, "2"},
    KnownKernel{"tril_indices_kernel", 6, "0:5*#2"},
    KnownKernel{"triu_indices_kernel", 6, "0:5*#2"},
    KnownKernel{"unique_bool_write_inverse_indices", 4, "3:0"},
    KnownKernel{"upsample_bilinear2d_backward_nhwc_out_frame", 12, "7:11"},
    KnownKernel{"upsample_bilinear2d_backward_out_frame", 10, "8:0*1*2"},
    KnownKernel{"upsample_bilinear2d_nhwc_out_frame", 11, "9:10"},
    KnownKernel{"upsample_nearest1d_backward_out_frame", 7, "5:1*2*4"},
    KnownKernel{"upsample_nearest1d_out_frame", 7, "5:1*2*4"},
    KnownKernel{"upsample_nearest2d_backward_nhwc_out_frame", 10, "1:9"},
    KnownKernel{"upsample_nearest2d_backward_out_frame", 10, "7:1*2*5*6"},
    KnownKernel{"upsample_nearest2d_nhwc_out_frame", 10, "1:9"},
    KnownKernel{"upsample_nearest2d_out_frame", 9, "1:2*5*6"},
    KnownKernel{"upsample_nearest3d_backward_out_frame", 13, "9:1*2*6*7*8"},
    KnownKernel{"upsample_nearest3d_out_frame", 13, "9:1*2*6*7*8"},
    KnownKernel{"upsample_trilinear3d_backward_out_frame", 8, "5"},
    KnownKernel{"vectorized_layer_norm_kernel", 8, "5:gx 6:gx 7:gx*0"},
    KnownKernel{"vectorized_scatter_kernel", 10, "0? !2:3<5"},
    KnownKernel{"vol2col_kernel", 21, "20:0*5*6*7"},
    KnownKernel{"vol2im_kernel", 22, "21:0"},
    KnownKernel{"weight_norm_bwd_first_dim_kernel", 7, "0:gx*6 1:gx"},
    KnownKernel{"weight_norm_bwd_last_dim_kernel", 8, "0:6*7 1:6"},
    KnownKernel{"weight_norm_fwd_first_dim_kernel", 5, "0:gx*4 1:gx"},
    KnownKernel{"weight_norm_fwd_last_dim_kernel", 6, "0:4*5 1:4"},
    KnownKernel{"write_fill_value", 4, "0~:3"},
    KnownKernel{"write_indices", 0, "0:2*3"},
};

/// Of at::cuda.
constexpr std::array kAtCuda = {
    KnownKernel{"calc_block_sums", 4, "1:gx"},   KnownKernel{"final_scan_kernel", 5, "1:3"},
    KnownKernel{"kernelHistogram1D", 0, "0"},    KnownKernel{"transform_vals", 4, "2:#1"},
    KnownKernel{"unpack_cudnn", 3, "1:#1 2:#1"},
};

/// Outside of any named namespace.
constexpr std::array kGlobal = {
    KnownKernel{"elementwise_kernel_with_index", 3, "2:0"},
    KnownKernel{"indexing_backward_kernel", 9, "3?"},
    KnownKernel{"indexing_backward_kernel_small_stride", 9, "3?"},
    KnownKernel{"indexing_backward_kernel_stride_1", 9, "3?"},
    KnownKernel{"randperm_handle_duplicate_keys_kernel", 5, "0~:3 1~:3"},
    KnownKernel{"softmax_warp_backward", 0, "0:3*4"},
    KnownKernel{"softmax_warp_forward", 0, "0:2*3"},
};

constexpr std::array kCub = {
    KnownKernel{"DeviceAdjacentDifferenceDifferenceKernel", 5, "2:4"},
    KnownKernel{"DeviceAdjacentDifferenceInitKernel", 4, ""},
    KnownKernel{"DeviceCompactInitKernel", 3, "2~:#1"},
    KnownKernel{"DeviceMergeSortBlockSortKernel", 10, "3~:5 4~:5 6:5 7:5"},
    KnownKernel{"DeviceMergeSortMergeKernel", 10, "1~:3 2~:3 4:3 5:3"},
    KnownKernel{"DeviceMergeSortPartitionKernel", 9, ""},
    KnownKernel{"DeviceRadixSortDownsweepKernel", 10, "1:5 3:5"},
    KnownKernel{"DeviceRadixSortExclusiveSumKernel", 1, ""},
    KnownKernel{"DeviceRadixSortHistogramKernel", 6, ""},
    KnownKernel{"DeviceRadixSortOnesweepKernel", 12, "4:8 6:8"},
    KnownKernel{"DeviceRadixSortSingleTileKernel", 8, "1:4 3:4"},
    KnownKernel{"DeviceRadixSortUpsweepKernel", 7, ""},
    KnownKernel{"DeviceReduceByKeyKernel", 0, "1~:9 3~:9 4:#1"},
    KnownKernel{"DeviceReduceKernel", 0, "1:gx"},
    KnownKernel{"DeviceReduceSingleTileKernel", 0, "1:#1"},
    KnownKernel{"DeviceScanByKeyInitKernel", 5, ""},
    KnownKernel{"DeviceScanByKeyKernel", 10, "3:9"},
    KnownKernel{"DeviceScanInitKernel", 2, ""},
    KnownKernel{"DeviceScanKernel", 7, "1:6"},
    KnownKernel{"DeviceSegmentedRadixSortKernel", 9, "1:4*gx 3:4*gx"},
    KnownKernel{"DeviceSegmentedRadixSortKernel", 10, "1:4*6 3:4*6"},
    KnownKernel{"DeviceSegmentedReduceKernel", 6, "1:gx"},
    KnownKernel{"DeviceSegmentedReduceKernel", 7, "1:4"},
    KnownKernel{"DeviceSelectSweepKernel", 0, "2~:7 3:#1"},
    KnownKernel{"DeviceUniqueByKeySweepKernel", 0, "2~:7 3~:7 4:#1"},
    KnownKernel{"RadixSortScanBinsKernel", 2, ""},
};

/// MAGMA's, without the letter of their type. A list of matrices has as many elements in each.
constexpr std::array kMagma = {
    KnownKernel{"getf2_fused_batched_kernel", 8, "1~:4*t0 5:t0 6:7"},
    KnownKernel{"laswp_rowparallel_kernel_batched", 12, "3~:6*0 7~:10*0"},
};
constexpr std::array kMagmaOfAnyType = {
    KnownKernel{"adjust_ipiv_kernel_batched", 4, "0~:1"},
    KnownKernel{"setup_pivinfo_kernel_batched", 5, "0:3"},
    KnownKernel{"trsm_template_batched_lNL_kernel", 12, "6~:7*2"},
};

/// Removes all parts of a qualified name before its last one.
std::string_view last_part(std::string_view qualified) {
  const std::size_t colon = qualified.rfind(':');
  return colon == std::string_view::npos ? qualified : qualified.substr(colon + 1);
}

template <std::size_t Size>
const KnownKernel* find(const std::array<KnownKernel, Size>& table, std::string_view name,
                        std::size_t parameters) {
  const auto found = std::ranges::find_if(table, [&](const KnownKernel& kernel) {
    return kernel.name == name && (kernel.parameters == 0 || kernel.parameters == parameters);
  });
  return found == table.end() ? nullptr : &*found;
}

/// Partial sums of blocks, if the sixth argument of the template says so.
constexpr std::array kGammaBeta = {KnownKernel{"", 8, "6:1 7:1"},
                                   KnownKernel{"", 8, "6:1*gy*by 7:1*gy*by"}};

const KnownKernel* find_kernel(const KernelName& name) {
  const std::string_view qualified =
      std::string_view(name.function).substr(0, name.function.find('<'));
  const std::string_view last = last_part(qualified);
  const std::size_t count = name.parameters.size();
  if (last == "GammaBetaBackwardCUDAKernelTemplate") {
    const auto arguments = template_arguments(name.function, last);
    constexpr std::size_t kPartial = 5;
    return &kGammaBeta[arguments.size() > kPartial && arguments[kPartial] == "true" ? 1 : 0];
  }
  if (qualified.starts_with("at::native::")) return find(kNative, last, count);
  if (qualified.starts_with("at::cuda::")) return find(kAtCuda, last, count);
  if (qualified.find("cub::") != std::string_view::npos) return find(kCub, last, count);
  if (qualified == last || qualified == "(anonymous namespace)::" + std::string(last)) {
    for (const KnownKernel* const found :
         {find(kGlobal, last, count), find(kMagmaOfAnyType, last, count),
          find(kMagma, last.substr(std::min<std::size_t>(1, last.size())), count)}) {
      if (found != nullptr) return found;
    }
  }
  return nullptr;
}

/// Reads a number at the start of a text, and removes it.
std::optional<std::size_t> take_number(std::string_view& text) {
  std::size_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return number;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

std::optional<KnownWrite> read_write(std::string_view text, const KernelName& name) {
  const auto argument = take_number(text);
  if (!argument || *argument >= name.parameters.size()) return std::nullopt;
  KnownWrite write{.argument = *argument, .count = {}, .size = {}, .stride = {}};
  if (take(text, '~')) write.how = Uncomputed::kUpdated;
  if (take(text, '?')) write.how = Uncomputed::kSomewhere;
  if (take(text, ':')) {
    write.count = ElementCount::read(text, name);
    return write.count ? std::optional(write) : std::nullopt;
  }
  if (take(text, '[') && text.ends_with(']')) {
    text.remove_suffix(1);
    const std::size_t colon = std::min(text.find(':'), text.size());
    write.size = ElementCount::read(text.substr(0, colon), name);
    write.stride = ElementCount::read(text.substr(std::min(colon + 1, text.size())), name);
    return write.size && write.stride ? std::optional(write) : std::nullopt;
  }
  return text.empty() ? std::optional(write) : std::nullopt;
}

/// Reads a check after its "!".
std::optional<KnownCheck> read_check(std::string_view text, const KernelName& name) {
  const auto argument = take_number(text);
  if (!argument || *argument >= name.parameters.size()) return std::nullopt;
  KnownCheck check{.argument = *argument, .count = {}, .dimension = {}, .ignored = {}};
  const std::string_view before = text.substr(0, text.find('<'));
  if (!before.empty()) {
    check.count = ElementCount::read(before.substr(1), name);
    if (!before.starts_with(':') || !check.count) return std::nullopt;
  }
  text.remove_prefix(before.size());
  if (!take(text, '<')) return std::nullopt;
  const auto size = take_number(text);
  const auto is_integer = [&name](std::size_t of) {
    return of < name.parameters.size() && integer_bytes(name.parameters[of]) > 0;
  };
  if (!size || *size >= name.parameters.size()) return std::nullopt;
  check.size = *size;
  if (take(text, '.')) check.dimension = take_number(text);
  if (!check.dimension && !is_integer(*size)) return std::nullopt;
  if (text.empty()) return check;
  if (!take(text, '-')) return std::nullopt;
  check.ignored = take_number(text);
  return check.ignored && is_integer(*check.ignored) ? std::optional(check) : std::nullopt;
}

}  // namespace

std::optional<KnownWrites> known_writes(const KernelName& name) {
  const KnownKernel* const kernel = find_kernel(name);
  if (kernel == nullptr) return std::nullopt;
  KnownWrites known;
  for (std::string_view left = kernel->writes; !left.empty();) {
    std::string_view text = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(text.size() + 1, left.size()));
    if (take(text, '!')) {
      const auto check = read_check(text, name);
      if (!check) return std::nullopt;
      known.checks.push_back(*check);
      continue;
    }
    const auto write = read_write(text, name);
    if (!write) return std::nullopt;
    known.writes.push_back(*write);
  }
  return known;
}

}  // namespace gpemu::kernels
