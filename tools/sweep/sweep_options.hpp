// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace gpemu::tools {

/// The options of `gpemu sweep`.
struct SweepOptions {
  std::filesystem::path file;
  std::filesystem::path folder;  ///< empty: beside the file.
  std::string cells;             ///< e.g. "3,7-9"; empty: all.
  std::string part;              ///< e.g. "0/16"; empty: all.
  std::string engine;            ///< "slurm", "kubernetes"; empty: this machine.
  int jobs = 0;                  ///< at the same time; 0: by default.
  int tasks = 0;                 ///< of an engine; 0: by default.
  bool retry = false;
  bool collect = false;
  bool print = false;
  bool detach = false;
  bool quiet = false;
};

}  // namespace gpemu::tools
