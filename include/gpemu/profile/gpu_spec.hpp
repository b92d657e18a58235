// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/profile/calibration.hpp"
#include "gpemu/profile/generation.hpp"
#include "gpemu/profile/mig_profile.hpp"

namespace gpemu::profile {

/// The specification of one kind of GPU, from a TOML file under `catalog/gpus/`. Rates are the
/// datasheet's dense peaks. A number that the datasheet does not give is absent, never guessed. The
/// GPU whose steps in 16 bits were published, so that its calibration is for them.
inline constexpr std::string_view kHalfGpu = "RTX-3090";

struct GpuSpec {
  std::string name;                  ///< gpemu's name, e.g. "V100-PCIE-32GB"; the file's name too.
  std::string product_name;          ///< as NVML reports it, e.g. "Tesla V100-PCIE-32GB".
  std::vector<std::string> aliases;  ///< other spellings, e.g. GPEmu's folder names.
  std::string architecture;          ///< e.g. "Volta".
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  GenerationFacts generation;  ///< what follows from the compute capability.

  int multiprocessors = 0;
  int cuda_cores = 0;                    ///< FP32 lanes of all multiprocessors together.
  std::optional<double> base_clock_mhz;  ///< without boost; the default of old boards.
  double boost_clock_mhz = 0;
  /// The clock that products of matrices sustain within the board's power limit, if that is below
  /// the boost clock.
  std::optional<double> sustained_clock_mhz;

  /// The memory that programs share: the total that CUDA reports. NVML and nvidia-smi count what
  /// the driver keeps for itself, too.
  Bytes memory_bytes = 0;
  Bytes reserved_memory_bytes = 0;  ///< which the driver keeps; 0 if that is not known.
  /// The memory that an allocator could really use in measured runs; the rest is context, workspace
  /// and fragmentation. Absent if it was not measured.
  std::optional<Bytes> usable_memory_bytes;
  double memory_bandwidth_bytes_per_s = 0;
  int memory_bus_bits = 0;
  std::optional<double> memory_clock_mhz;  ///< as NVML shows it, if it was measured.
  Bytes l2_cache_bytes = 0;

  double fp32_flops = 0;             ///< FP32 without tensor cores, per second.
  std::optional<double> fp64_flops;  ///< per second, without tensor cores.
  /// What large products of matrices in FP32 reach, per second, if that is less than at the
  /// sustained clock; in 16 bits on tensor cores.
  std::optional<double> fp32_product_flops, fp16_product_flops;
  std::optional<double> fp64_tensor_flops;  ///< per second, dense; only products use them.
  std::optional<double> tf32_tensor_flops;  ///< per second, dense.
  std::optional<double> fp16_tensor_flops;  ///< per second, dense, accumulating in FP32.
  std::optional<double> bf16_tensor_flops;  ///< per second, dense.
  std::optional<double> fp8_tensor_flops;   ///< per second, dense, accumulating in FP32.

  double max_power_w = 0;
  std::optional<double> idle_power_w;

  int pcie_generation = 0;
  int pcie_lanes = 0;
  /// Rate of a large copy from pinned host memory, per direction: the rate achieved, not the link's
  /// raw rate.
  double pinned_copy_bytes_per_s = 0;
  /// NVLink bandwidth to all peers together, per direction; absent on GPUs without NVLink.
  std::optional<double> nvlink_bytes_per_s;
  /// How many GPUs of one node NVLink joins: 2 with a bridge, 8 on a baseboard; 1 without NVLink.
  int nvlink_gpus = 1;

  /// The GPU instances that MIG can make of this GPU, in nvidia-smi's order; none if it has no MIG.
  std::vector<MigProfile> mig_profiles;

  /// The calibration that prices operations: this GPU's own or, after Database::gpu(), that of the
  /// GPU named by `calibrated_like`. Absent if the file has neither.
  std::optional<Calibration> calibration;
  /// The calibration that prices convolutions and products in the arithmetic (with or without
  /// tensor cores) that `calibration` was not measured with; only set by Database::gpu().
  std::optional<Calibration> other_arithmetic;
  /// The calibration that prices convolutions and products in 16 bits, if `calibration` does not:
  /// that of kHalfGpu; only set by Database::gpu().
  std::optional<Calibration> half;
  std::string host_like;              ///< the GPU whose host this one's is like, or empty.
  std::string calibrated_like;        ///< the GPU whose calibration this one uses, or empty.
  std::string other_arithmetic_like;  ///< the GPU of `other_arithmetic`, or empty.

  /// The source of each number: TOML path (e.g. "memory.bandwidth_gb_per_s") to citation.
  std::map<std::string, std::string> sources;
};

/// Returns what a multiprocessor's tensor cores do in 16 bits, in operations per clock; 0 without
/// tensor cores.
[[nodiscard]] double tensor_rate(const GpuSpec& spec);

/// Returns the compute capability as one number: 75 for 7.5.
[[nodiscard]] inline int compute_capability(const GpuSpec& spec) {
  return 10 * spec.compute_capability_major + spec.compute_capability_minor;
}

/// Returns how far the compute capabilities of two GPUs are apart: above 0 if `other` is newer.
[[nodiscard]] inline int capability_distance(const GpuSpec& spec, const GpuSpec& other) {
  return compute_capability(other) - compute_capability(spec);
}

/// Returns whether a calibration is that of a GPU of the same compute capability.
[[nodiscard]] inline bool has_same_capability(const GpuSpec& spec, const Calibration& calibration) {
  return calibration.compute_capability == compute_capability(spec);
}

/// Returns the bytes of memory bandwidth per clock of a multiprocessor.
[[nodiscard]] double bytes_per_clock(const GpuSpec& spec);

/// Returns the memory clock that NVML shows: the measured one, or that of two transfers per cycle;
/// 0 if the bus has no width.
[[nodiscard]] double memory_clock_mhz(const GpuSpec& spec);

/// Reads a GPU specification. `origin` names the text in messages, e.g. the file's path.
///
/// Strict: unknown keys, numbers without a source and unused sources are faults too.
///
/// Errors: kCorruptData for the first fault, as "origin:line: field: what is wrong".
[[nodiscard]] Result<GpuSpec> parse_gpu_spec(std::string_view toml, std::string_view origin);

/// Errors: those of read_file and parse_gpu_spec.
[[nodiscard]] Result<GpuSpec> load_gpu_spec(const std::filesystem::path& path);

}  // namespace gpemu::profile
