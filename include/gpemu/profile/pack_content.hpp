// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/profile/profile.hpp"

namespace gpemu::profile {

/// The value of a PackInfo field that was not filled in; check_pack() reports it.
inline constexpr std::string_view kNotStated = "not stated";

/// Where a pack's numbers come from, from its `pack.toml`.
struct PackInfo {
  std::string name;  ///< the folder's name, e.g. "gpemu-vldb25".
  std::string title;
  std::string citation;  ///< whom to cite for the measurements.
  std::string url;
  std::string licence;    ///< licence of the numbers, or a statement that there is none.
  std::string method;     ///< how it was measured, in a few sentences.
  std::string framework;  ///< e.g. "PyTorch", with versions as far as they are known.
  std::string host;       ///< hosts the GPUs were in.
  int samples = 0;        ///< measurements behind each number; 0 when not stated.
  bool emulated = false;  ///< measured on emulated GPUs: says nothing about real ones.
  /// Notes on what is special about one GPU's measurements, by GpuSpec::name.
  std::map<std::string, std::string> gpu_notes;
};

/// A model's recorded operations; docs/reference/recording-format.md.
struct ModelRecording {
  std::string model;
  std::string text;
};

/// Measured profiles as they are reviewed: a folder with `pack.toml` and CSV tables.
/// The format is in docs/reference/pack-format.md.
struct Pack {
  PackInfo info;
  std::vector<Curve> curves;
  std::vector<MemoryLimit> limits;
  std::vector<ModelInfo> models;
  std::vector<ModelRecording> recordings;
};

/// A fault in a pack, as a compiler would report it.
struct PackFault {
  std::filesystem::path file;
  int line = 0;  ///< from 1; 0 if the fault concerns the whole file.
  std::string message;
};

}  // namespace gpemu::profile
