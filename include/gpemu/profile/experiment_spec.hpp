// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::profile {

/// The files of a data set, from a TOML file under `experiments/datasets/`.
struct DatasetSpec {
  std::string name;
  std::uint64_t files = 0;
  Bytes bytes = 0;  ///< of all files together.
  /// Pairs of a share of the files, in per cent, and the size up to which they have, in bytes.
  std::vector<std::pair<double, double>> percentiles;
  std::string source;
};

/// One run of an experiment: described hosts that train; with `policy`, jobs that it schedules on a
/// fleet; or with `placement`, a fleet that it fills. The names of the keys are those of the
/// fields.
struct ExperimentRun {
  std::string host;
  std::string loader;   ///< of the host; empty: its first.
  std::string storage;  ///< of the host; empty: its first.
  std::string dataset;
  int files = 0;  ///< so many that have the data set's sizes stand for it; 0: all.
  std::string gpu;
  std::string model;
  int gpus = 1;
  int batch = 256;  ///< samples of a node's step, over its GPUs.
  int nodes = 1;
  int workers = 1;
  int prefetch = 2;
  int group = 1;  ///< images in one file.
  std::string cache = "page";
  double cache_share = 1;  ///< of the data set's bytes that a node caches.
  std::string peers = "none";
  int superbatch = 0;
  int shared_memory_batches = 0;  ///< that fit into shared memory; 0: all.
  std::string copy = "pinned";    ///< by a thread of the loader; or "pageable".
  double step_ms = 0;             ///< 0: the GPU's, by the cost model.
  double copy_ms = -1;            ///< below 0: by the cost model.
  int cpus = 0;  ///< threads that prepare batches as tf.data's do; 0: worker processes.
  int remote_workers = 0;
  int remote_cpus = 1;           ///< of each.
  std::string offload = "none";  ///< to remote workers: "all", or what FastFlow decides.
  int epochs = 2;                ///< the last one counts.
  std::uint64_t seed = 0;
  std::string jobs;   ///< the path of a table of jobs.
  std::string fleet;  ///< that of a table of servers; empty: `servers` with `gpus` each.
  int servers = 1;
  std::string policy;    ///< as `gpemu schedule` names it; empty: nothing is scheduled.
  std::string speeds;    ///< the path of a table of speeds; empty: the same everywhere.
  std::string restarts;  ///< that of a table of restart times; empty: `restart_s`.
  double restart_s = 0;
  std::string accounting = "change";  ///< of restarts, as `gpemu schedule` names it.
  double round_s = 0;                 ///< 0: as in the policy's paper.
  int first_jobs = 0;                 ///< so many of the jobs; 0: all.
  std::string placement;              ///< as `gpemu place` names it; empty: nothing is filled.
  double load = 0;                    ///< of the fleet's GPUs that jobs ask for; 0: FGD's.
  int seeds = 1;                      ///< from `seed` on.

  bool operator==(const ExperimentRun&) const = default;
};

/// A value that rows are compared by: an expression over what the runs of a row measured.
struct ExperimentColumn {
  std::string name;   ///< in expressions.
  std::string title;  ///< for people, with its unit.
  std::string value;
};

struct ExperimentRow {
  std::string name;                                         ///< in expressions.
  std::string label;                                        ///< for people.
  double paper = std::numeric_limits<double>::quiet_NaN();  ///< of the first column, if known.
  double gpemu = std::numeric_limits<double>::quiet_NaN();  ///< the same.
  std::vector<ExperimentRun> runs;                          ///< one for each variant.
};

/// What must hold for the experiment to count as reproduced.
struct ExperimentCheck {
  std::string text;
  std::string test;    ///< a comparison of expressions over columns.
  std::string reason;  ///< why it is missed; empty if it is met.
};

/// A result of a paper, and how to get it again.
struct ExperimentSpec {
  std::string name;
  std::string title;
  std::string paper;                  ///< the citation of the paper and of GPEmu's numbers.
  std::vector<std::string> variants;  ///< of which every row has a run, e.g. "cached".
  std::vector<ExperimentColumn> columns;
  std::vector<ExperimentRow> rows;
  std::vector<ExperimentCheck> checks;
};

/// Parse files of docs/reference/experiment-file.md.
///
/// Errors: kCorruptData as "origin:line: field: what is wrong".
[[nodiscard]] Result<DatasetSpec> parse_dataset_spec(std::string_view toml,
                                                     std::string_view origin);
[[nodiscard]] Result<ExperimentSpec> parse_experiment_spec(std::string_view toml,
                                                           std::string_view origin);

/// Returns the names of the experiments in a folder, in order: those of folders with an
/// `experiment.toml`.
[[nodiscard]] std::vector<std::string> experiment_names(const std::filesystem::path& folder);

/// Return one by its name in the folder, or by the path of its file (a name with '/' or ending in
/// ".toml").
///
/// Errors: kNotFound, with similar names; those of read_file() and of parsing.
[[nodiscard]] Result<ExperimentSpec> find_experiment(const std::filesystem::path& folder,
                                                     std::string_view name_or_path);
[[nodiscard]] Result<DatasetSpec> find_dataset(const std::filesystem::path& folder,
                                               std::string_view name_or_path);

}  // namespace gpemu::profile
