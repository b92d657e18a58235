// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::data {

/// How a data set is stored; docs/reference/data-formats.md describes each.
enum class DataFormat : std::uint8_t {
  kFolder,      ///< one image per file, in one folder per class.
  kWebDataset,  ///< tar files.
  kTfRecord,    ///< TFRecord files of tf.train.Example.
  kGroups,      ///< file groups as GPEmu writes them.
  kPages,       ///< one file of pages.
};
inline constexpr std::array<std::string_view, 5> kDataFormatNames = {"folder", "webdataset",
                                                                     "tfrecord", "groups", "pages"};

/// One image and its class. The image is `bytes` bytes at `offset` of the file of its unit.
struct Sample {
  std::uint32_t unit = 0;
  std::int32_t label = 0;
  Bytes offset = 0;
  Bytes bytes = 0;
};

/// A part of a file that is read as a whole: the samples that point to it follow each other.
struct Unit {
  std::uint32_t file = 0;
  Bytes offset = 0;
  Bytes bytes = 0;
};

/// What a sample's bytes in the file must have as their CRC-32C.
struct Checksum {
  Bytes offset = 0;
  Bytes bytes = 0;
  std::uint32_t crc = 0;
  bool masked = false;  ///< as TFRecord files store it.
};

/// What a data set consists of, as the reader of its format finds it.
struct DataIndex {
  DataFormat format = DataFormat::kFolder;
  std::vector<std::string> classes;
  std::vector<std::filesystem::path> files;
  std::vector<Unit> units;          ///< in the order of files, and within one in that of offsets.
  std::vector<Sample> samples;      ///< in the order of units.
  std::vector<Checksum> checksums;  ///< one per sample, or none at all.
  /// What was left out and why, for people: a link back, a file that cannot be read.
  std::vector<std::string> skipped;
  std::size_t skipped_count = 0;  ///< `skipped` has the first few.

  /// Notes that something is left out.
  void skip(std::string what);
};

}  // namespace gpemu::data
