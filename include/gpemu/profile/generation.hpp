// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::profile {

/// The rows of the tables by which NCCL chooses algorithms. GPUs before Volta count as Volta.
enum class NcclTuning : std::uint8_t { kVolta, kAmpere, kHopper, kBlackwell };
inline constexpr std::array<std::string_view, 4> kNcclTuningNames = {"volta", "ampere", "hopper",
                                                                     "blackwell"};

/// What all GPUs of a compute capability have in common, and what differs between capabilities.
/// Each member is a key of catalog/generations.toml and of the table `generation` of a GPU's file,
/// in the unit at the end of its name. Code asks for these facts; it never compares capabilities.
///
/// The values below are those of a specification that no file gave, as in tests: they cost nothing
/// and limit nothing.
struct GenerationFacts {
  // What CUDA reports.
  int threads_per_multiprocessor = 0;      ///< that it can hold at once.
  int blocks_per_multiprocessor = 0;       ///< likewise.
  int shared_kib_per_multiprocessor = 0;   ///< shared memory.
  int shared_kib_per_block = 0;            ///< the most that a block can opt in to.
  int reserved_shared_kib_per_block = 0;   ///< which the driver takes of each block's.
  int registers_per_multiprocessor = 0;    ///< of 32 bits.
  int copy_engines = 0;                    ///< cudaDeviceProp::asyncEngineCount.
  bool cooperative_launch = false;         ///< all blocks of a grid can wait for each other.
  bool concurrent_managed_access = false;  ///< host and GPU share managed memory, page by page.
  bool cluster_launch = false;             ///< blocks can form clusters.
  bool synchronize_depth = false;          ///< CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH is supported.
  int fetch_granularity_bytes = 0;         ///< the default of CU_LIMIT_MAX_L2_FETCH_GRANULARITY.
  /// The default of CU_LIMIT_PRINTF_FIFO_SIZE for each multiprocessor; 0: 1 MiB in all.
  int printf_kib_per_multiprocessor = 0;

  // What the driver does.
  int context_mib = 0;                     ///< device memory that a context takes with a kernel,
  int context_kib_per_multiprocessor = 0;  ///< and what else for each multiprocessor.
  int time_slice_us = 0;                   ///< the length of a process's turn, by default.
  int context_switch_us = 0;        ///< for which the GPU idles between two processes' turns.
  bool interrupts_kernels = false;  ///< a turn can end within a kernel.
  int mps_clients = 0;              ///< of one GPU that an MPS server admits.

  // What NVML reports.
  int nvml_architecture = 0;  ///< NVML_DEVICE_ARCH_...; 0: not known.

  // How long work takes.
  int graph_kernel_saving_ns = 0;  ///< that a kernel saves in a graph, compared with a stream.
  int copy_latency_ns = 0;         ///< from the start of a copy from or to the host to its bytes.
  double pageable_share = 1;       ///< rate of a pageable copy as a share of a pinned one's.
  /// What kernels of attention in 16 bits reach of cuDNN's rate: FlashAttention 2,
  double flash_attention_share = 1;
  double efficient_attention_share = 1;  ///< and PyTorch's memory-efficient ones.
  /// cuDNN's convolutions with groups and the channels last all run on tensor cores in 16 bits.
  bool grouped_tensor_cores = false;
  /// Convolutions with windows of one element are products whichever place the channels have.
  bool pointwise_in_place = false;
  /// What products in FP32 whose sums lie along both operands' rows reach of the rate of others,
  double along_sum_share = 1;
  /// and the least share of that which is left if blocks read rows that span much memory.
  double along_sum_least_share = 1;
  /// What caches and registers feed to a multiprocessor's tensor cores in 16 bits, in operations
  /// per clock: in products, and in convolutions, whose operands are gathered.
  double operand_rate = std::numeric_limits<double>::infinity();
  double convolution_operand_rate = std::numeric_limits<double>::infinity();

  // How sure prices are.
  /// Error bars of work in 16 bits that parameters of other GPUs price, as shares: convolutions,
  /// those with groups on tensor cores, and those with groups that have none.
  double half_convolution_bar = 0;
  double half_grouped_bar = 0;
  double half_direct_bar = 0;
  bool informs_other_gpus = false;  ///< its errors count in the bars of GPUs without measurements.
  /// The GPU with whose parameters a fit of another GPU begins; empty: it depends on TF32.
  std::string fit_start;

  // How GPUs are joined.
  NcclTuning nccl_tuning = NcclTuning::kVolta;
  // 0 and false without NVLink:
  double nvlink_version = 0;        ///< 2.2 for NVLink 2.2.
  double nvlink_link_gb_per_s = 0;  ///< rate of one link in one direction.
  double nvlink_copy_share = 0;     ///< of the links' rate that a large copy reaches.
  bool nvlink_switches = false;     ///< NVSwitches join more than two GPUs, without a topology.

  bool operator==(const GenerationFacts&) const = default;
};

/// A fact as its file gives it.
struct FactText {
  std::string_view key;
  std::string value;
};

/// Returns all facts that have a value, in the order of their structure.
[[nodiscard]] std::vector<FactText> fact_texts(const GenerationFacts& facts);

/// Returns what catalog/generations.toml, which is compiled into this library, says of a
/// capability.
///
/// Errors: kCorruptData, with the missing keys, if it does not give all facts of a GPU without
/// NVLink.
[[nodiscard]] Result<GenerationFacts> generation_facts(int major, int minor);

}  // namespace gpemu::profile
