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
#include "gpemu/kernels/code_facts.hpp"
#include "gpemu/kernels/launch_facts.hpp"

namespace gpemu::launch {

using kernels::MemoryAccess, kernels::ParameterPlace;

/// What the compiler recorded about a kernel.
struct KernelCode {
  std::int32_t registers = 0;              ///< of a thread; 0 if it is not known.
  std::int32_t max_threads_per_block = 0;  ///< of __launch_bounds__; 0 without.
  Bytes static_shared = 0;
  Bytes local = 0;  ///< of a thread.
  std::vector<ParameterPlace> parameters;
  kernels::LaunchFacts::Arithmetic arithmetic = kernels::LaunchFacts::Arithmetic::kUnknown;
  MemoryAccess access;
};

/// A __device__ or __constant__ variable.
struct DeviceVariable {
  Bytes bytes = 0;
  std::vector<std::byte> initial;  ///< empty: zeros.
};

/// The content of machine code for a GPU.
struct Image {
  int architecture = 0;  ///< 10 * major + minor.
  Bytes constant = 0;    ///< of __constant__ variables.
  std::unordered_map<std::string, KernelCode> kernels;
  std::unordered_map<std::string, DeviceVariable> variables;
  /// Its PTX, if the compiler was asked for line information, as Triton does.
  std::string ptx;
};

/// Reads machine code, an ELF file of the compiler ("cubin"); returns nothing if it is malformed.
[[nodiscard]] std::optional<Image> read_cubin(std::span<const std::byte> elf);

/// The limit for an image in memory whose size is not known.
inline constexpr Bytes kUnknownSize = std::numeric_limits<Bytes>::max();

/// Returns the size of an ELF file at an address, by its header and its tables, or nothing if that
/// is more than `limit` or the file is malformed.
[[nodiscard]] std::optional<Bytes> cubin_size(const std::byte* elf, Bytes limit);

/// Returns whether a fat binary ends, by its header, within `limit` bytes from its start, or
/// `start` is what the compiler wraps one in. Requires: 4 bytes are there.
[[nodiscard]] bool holds_fat_binary(const std::byte* start, Bytes limit);

/// Reads the machine code in a fat binary, or in the compiler's wrapper of one, that a device would
/// run: the newest that is not newer than `architecture`, else the oldest. Returns nothing if all
/// of it is compressed or PTX, or if it is not a fat binary.
[[nodiscard]] std::optional<Image> read_fat_binary(const std::byte* start, int architecture);

/// Returns what the compiler recorded about a kernel in a fat binary, or in the compiler's wrapper
/// of one, for the architecture with the least code: the parameters are the same for all. Returns
/// nothing if all code is PTX, or compressed with Zstandard and the system has no library for it.
[[nodiscard]] std::optional<KernelCode> kernel_code(const std::byte* fat_binary,
                                                    std::string_view kernel);

/// Decompresses a block of the LZ4 format; returns nothing if it is malformed or has another size.
[[nodiscard]] std::optional<std::vector<std::byte>> decompress_lz4(std::span<const std::byte> block,
                                                                   Bytes bytes);

// Source: the ELF specification; fatbinary.h of the toolkit for the container and its wrapper.
inline constexpr std::uint32_t kElfMagic = 0x464c457f;
inline constexpr std::uint32_t kFatBinaryMagic = 0xba55ed50;
inline constexpr std::uint32_t kFatBinaryWrapperMagic = 0x466243b1;

}  // namespace gpemu::launch
