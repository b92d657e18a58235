// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/report/host_facts.hpp"

#include "cli/command.hpp"
#include "cli/read_options.hpp"

namespace gpemu::tools {

/// The model to train and the emulated GPUs.
struct GpuOptions {
  std::string gpu;
  std::string model;
  std::string precision;  ///< empty: the one that was measured.
  int batch = 64;         ///< samples per step, over all GPUs.
  int gpus = 1;
  int nodes = 1;                 ///< that the GPUs are in, with equally many in each.
  std::string network = "rdma";  ///< that joins the nodes.
  std::string topology;  ///< the machine that a node is; empty: what the kind of GPU suggests.
  std::string parallel = "ddp";
  std::string node;    ///< an existing node to attach to; empty: a node of the run's own.
  int device = 0;      ///< first device on that node.
  std::string faults;  ///< the file of what goes wrong with the GPUs; empty: nothing.
  bool pageable = false;
  bool overlap_copy = false;
};

/// Where the batches come from.
struct DataOptions {
  std::filesystem::path folder;
  int workers = report::usable_cores();
  int prefetch_batches = 2;
  std::uint64_t seed = 0;
  bool strict_images = false;
  ReadOptions read;
  Patience patience;
  std::string cache = "page";         ///< what stays in memory: one of kCachePolicyNames.
  std::optional<double> cache_share;  ///< of the bytes; nothing: as much as memory holds.
};

/// Returns whether real files are cached in the process, not by the kernel.
[[nodiscard]] inline bool has_own_cache(const DataOptions& options) {
  return options.cache != DataOptions{}.cache || options.cache_share;
}

/// The described hosts that load the data.
struct HostOptions {
  std::string name;
  std::string dataset = "imagenette-87k";
  std::string loader;          ///< empty: the one of the data's format, or its first.
  std::string peers = "none";  ///< also of real nodes.
};

/// The workers elsewhere that prepare batches.
struct ServiceOptions {
  std::string dispatcher;  ///< HOST:PORT.
  std::string job;         ///< that clients share; empty: the run's own.
};

/// The other processes that train together with this one, on real files.
struct JoinOptions {
  std::string place;          ///< RANK/NODES@HOST:PORT, or "cluster"; empty: none.
  std::filesystem::path log;  ///< of samples; empty: none.
};

/// Where the batches of a run come from: the form of its command.
enum class BatchOrigin : std::uint8_t {
  kFiles,
  kHost,       ///< described hosts, in virtual time.
  kService,    ///< a dispatcher's workers.
  kSynthetic,  ///< they are on the GPUs already.
};

/// Where the results go besides the terminal. Empty paths are not written.
struct OutputOptions {
  std::filesystem::path json;
  std::filesystem::path trace;
  std::filesystem::path report;
  bool quiet = false;
};

/// All options of a run.
struct RunOptions {
  BatchOrigin origin = BatchOrigin::kFiles;
  GpuOptions gpu;
  DataOptions data;
  HostOptions host;
  JoinOptions join;
  ServiceOptions service;
  OutputOptions output;
  int epochs = 1;
  std::optional<std::int64_t> steps;  ///< the maximum, if given.
  std::string clock = "real";         ///< or "virtual".
  bool cold = false;
};

/// The first and the last options that all forms of `train` and `analyze` have. What is added
/// between them belongs to these in the help; what is added later, to the form.
void add_gpu_options(Command command, GpuOptions& options);
void add_output_options(Command command, OutputOptions& options);

/// Add options of forms that load batches, or that read real files.
void add_loading_options(Command command, RunOptions& options);
void add_files_options(Command command, DataOptions& options);

}  // namespace gpemu::tools
