// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "gpemu/base/units.hpp"
#include "gpemu/cost/launch_facts.hpp"

namespace gpemu::cuda {

/// Where a kernel's parameter lies among them, and how large it is.
struct ParameterPlace {
  Bytes offset = 0;
  Bytes bytes = 0;
};

/// What the compiler wrote down of a kernel.
struct KernelCode {
  std::int32_t registers = 0;              ///< of a thread; 0 where it is not told.
  std::int32_t max_threads_per_block = 0;  ///< of __launch_bounds__; 0 without.
  Bytes static_shared = 0;
  Bytes local = 0;  ///< of a thread.
  std::vector<ParameterPlace> parameters;
  cost::LaunchFacts::Arithmetic arithmetic = cost::LaunchFacts::Arithmetic::kUnknown;
};

/// A __device__ or __constant__ variable.
struct DeviceVariable {
  Bytes bytes = 0;
  std::vector<std::byte> initial;  ///< empty: zeros.
};

/// What machine code for a GPU holds.
struct Image {
  int architecture = 0;  ///< 10 * major + minor.
  Bytes constant = 0;    ///< of __constant__ variables.
  std::unordered_map<std::string, KernelCode> kernels;
  std::unordered_map<std::string, DeviceVariable> variables;
  /// What it was made of, where the compiler was asked for lines, as Triton does.
  std::string ptx;
};

/// Reads machine code, an ELF file of the compiler's ("cubin"), or nothing when it is malformed.
[[nodiscard]] std::optional<Image> read_cubin(std::span<const std::byte> elf);

/// The limit of what lies in memory, of which nobody told the size.
inline constexpr Bytes kUnknownSize = std::numeric_limits<Bytes>::max();

/// Returns how many bytes an ELF file at an address takes, by its header and its tables, or nothing
/// when that is more than `limit` or it is malformed.
[[nodiscard]] std::optional<Bytes> cubin_size(const std::byte* elf, Bytes limit);

/// Returns whether a fat binary ends, by its header, within `limit` bytes from its start, or
/// `start` is what the compiler wraps one in. Requires: 4 bytes are there.
[[nodiscard]] bool holds_fat_binary(const std::byte* start, Bytes limit);

/// Reads the machine code in a fat binary, or in what the compiler wraps one in, that a device
/// would run: the newest that is not newer than `architecture`, else the oldest. Nothing when all
/// of it is compressed, for another compiler to finish (PTX), or no fat binary.
[[nodiscard]] std::optional<Image> read_fat_binary(const std::byte* start, int architecture);

/// Returns the parameters of a kernel in a fat binary, or in what the compiler wraps one in, or
/// none where nothing is known: all is for another compiler to finish, or compressed by Zstandard,
/// of which the system has no library. They are the same for all architectures.
[[nodiscard]] std::vector<ParameterPlace> kernel_parameters(const std::byte* fat_binary,
                                                            std::string_view kernel);

/// Decompresses a block of the LZ4 format, or nothing when it is malformed or is not of the size.
[[nodiscard]] std::optional<std::vector<std::byte>> decompress_lz4(std::span<const std::byte> block,
                                                                   Bytes bytes);

// Source: the ELF specification; fatbinary.h of the toolkit for the container and its wrapper.
inline constexpr std::uint32_t kElfMagic = 0x464c457f;
inline constexpr std::uint32_t kFatBinaryMagic = 0xba55ed50;
inline constexpr std::uint32_t kFatBinaryWrapperMagic = 0x466243b1;

}  // namespace gpemu::cuda
