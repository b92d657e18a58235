// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/storage_device.hpp"

namespace gpemu::data {

/// Far above any photograph and any group of them; keeps a file that is something else from taking
/// the host's memory.
inline constexpr Bytes kMostPartBytes = kGiB;

/// Errors: kIo naming the file; kCorruptData if the part is too large.
[[nodiscard]] Result<FileDescriptor> open_part(const std::filesystem::path& path, const Unit& part);

/// Returns what of a part must come from the device: from its first byte that the page cache does
/// not have, as many bytes as it does not have. Without a page cache that counts, that is all; also
/// where the kernel does not say, because the file is neither the user's nor writable for them.
[[nodiscard]] DeviceRead missing_of(const FileDescriptor& file, const Unit& part,
                                    PageCache page_cache);

/// Reads a part into a buffer of its size, as slowly as `storage` describes it if there is one, and
/// returns how many bytes there are: fewer if somebody shortened the file.
///
/// Errors: kIo naming the file.
[[nodiscard]] Result<Bytes> read_part(const std::filesystem::path& path, const Unit& part,
                                      std::span<std::byte> buffer, StorageDevice* storage);

/// The same for a part of a data set's file, or object.
[[nodiscard]] Result<Bytes> read_part(const Dataset& dataset, const Unit& part,
                                      std::span<std::byte> buffer, StorageDevice* storage);

[[nodiscard]] std::unexpected<Error> cannot_read_part(const std::filesystem::path& path,
                                                      int error_number);

}  // namespace gpemu::data
