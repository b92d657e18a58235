// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"
#include "gpemu/run/environment.hpp"

#include "slurm/job_usage.hpp"
#include "slurm/machine_gpus.hpp"
#include "slurm/slurm_settings.hpp"

namespace gpemu::tools {

/// What Slurm allocated to a step on a machine.
struct StepRequest {
  std::string job;    ///< its number.
  std::string step;   ///< its number or name.
  pid_t process = 0;  ///< that lives as long as the step.
  uid_t user = 0;     ///< who may use it.
  gid_t group = 0;
  std::vector<int> gpus;           ///< Slurm's numbers of them; not if `own_gpus`.
  int shards = 0;                  ///< of the one GPU; 0: it is whole.
  bool mps = false;                ///< the step has a percentage of the one GPU.
  std::string own_gpus;            ///< "NAME[:COUNT]" of GPUs that Slurm knows nothing of.
  std::vector<std::string> hosts;  ///< all machines of the job, in Slurm's order; may be empty.
  /// The job says what joins them, not the settings. If neither does, its ranks on different
  /// machines do not reach each other.
  bool network_is_set = false;
};

/// What a step's tasks need.
struct StepGpus {
  run::Environment environment;
  /// For each of StepRequest::gpus, or of the own ones, what CUDA_VISIBLE_DEVICES calls it.
  std::vector<std::string> visible;
};

/// The emulated GPUs of the jobs on one machine of a Slurm cluster. All state is in the folder of
/// the machine. While an object exists, no other process has one of the same machine.
///
/// Whole GPUs are in a node that the job has for itself, with all GPUs of the machine, or of all of
/// the job's machines if its ranks are to reach each other; parts of a GPU are in a node that the
/// jobs with parts of it share. Thread safety: none.
class JobNodes {
 public:
  /// Errors: kNotFound for a machine that the settings do not name; kIo.
  [[nodiscard]] static Result<JobNodes> open(const SlurmSettings& settings,
                                             const std::string& machine);

  /// Makes what a step needs, or finds it if its job has it already. `shims`: their folder.
  ///
  /// Errors: kNotFound for GPUs that the machine does not have; kInvalidArgument for parts of
  /// several GPUs; kResourceLimit for more steps than can share a GPU; those of machine_gpus()
  /// and Node::create().
  [[nodiscard]] Result<StepGpus> give(const StepRequest& request, const GpuSources& sources,
                                      const std::filesystem::path& shims);

  /// Removes what a job has, and notes what it used of it. What fails does not keep the rest from
  /// being removed. Errors: the first one.
  [[nodiscard]] Result<void> take_back(const std::string& job);

  /// Takes back what jobs have of which no step lives. Errors: as take_back().
  [[nodiscard]] Result<void> clean();

  /// Makes the device files that gres.conf names, and a node with all GPUs of the machine for
  /// Slurm's NVML plug-in. Returns the variables with which slurmd finds it. Errors: kIo, e.g.
  /// without the right to make device files; as give().
  [[nodiscard]] Result<run::Environment> prepare(const GpuSources& sources,
                                                 const std::filesystem::path& shims);

 private:
  /// A node in the folder, and how it is found.
  struct NodePlace {
    std::string folder;  ///< in that of the machine.
    bool shared = false;
    bool own = false;       ///< its GPUs are not the machine's.
    int first = 0;          ///< the number in it of the machine's first GPU.
    FileDescriptor lock{};  ///< of nodes that several machines use.
  };
  /// What a job, or a step, has: a file "HOLDER@FOLDER.json" in the folder of the machine.
  struct Holding {
    std::filesystem::path file;
    std::string holder;               ///< "JOB", or "JOB.STEP" of parts.
    std::string folder;               ///< of its node.
    JobUsage usage;                   ///< as far as it is known.
    int first = 0;                    ///< see NodePlace.
    int tenant = 0;                   ///< of a shared node.
    std::int64_t busy_before_ns = 0;  ///< of the tenant's number, for those that had it before.
    /// The processes of steps, with when they were started: a number may be given again.
    std::map<pid_t, std::uint64_t> steps;

    [[nodiscard]] bool lives() const;
  };

  JobNodes(const SlurmSettings& settings, const SlurmNodes& nodes, std::string machine,
           FileDescriptor lock)
      : settings_(&settings),
        nodes_(&nodes),
        machine_(std::move(machine)),
        lock_(std::move(lock)) {}

  [[nodiscard]] std::filesystem::path folder() const { return settings_->state / machine_; }
  [[nodiscard]] std::filesystem::path path_of(const std::string& node_folder) const;
  /// Returns whether any holding is of that node.
  [[nodiscard]] bool is_used(const std::string& node_folder) const;
  /// Returns the node of a job with several machines, and its GPUs.
  ///
  /// Errors: kUnsupported if these are not one computer; those of machine_gpus().
  [[nodiscard]] Result<NodePlace> place_of_hosts(const StepRequest& request,
                                                 const GpuSources& sources,
                                                 std::vector<device::DeviceConfig>& gpus) const;
  [[nodiscard]] std::vector<Holding> holdings() const;
  [[nodiscard]] Result<Holding> hold(const StepRequest& request, const NodePlace& place,
                                     const std::vector<int>& gpus) const;
  [[nodiscard]] Result<int> free_tenant(const std::string& folder) const;
  /// Returns the machine's GPUs that Slurm's numbers mean.
  [[nodiscard]] Result<std::vector<int>> gpus_of(const std::vector<int>& devices,
                                                 const MachineGpus& machine) const;
  [[nodiscard]] Result<void> check_part(const StepRequest& request,
                                        const std::vector<int>& gpus) const;
  [[nodiscard]] run::Environment environment_in(const NodePlace& place,
                                                const std::filesystem::path& shims,
                                                const std::filesystem::path& records) const;
  /// `of_hosts`: the GPUs of all machines, if several use the node.
  [[nodiscard]] Result<void> make_node(const NodePlace& place, const StepRequest& request,
                                       const MachineGpus& machine,
                                       std::vector<device::DeviceConfig> of_hosts = {}) const;
  [[nodiscard]] Result<void> take_back(const Holding& holding) const;
  /// Removes what a give() has made that was killed before it noted what it gave. Errors: kIo.
  [[nodiscard]] Result<void> sweep() const;
  /// Takes back all of which `ended` says so. Errors: the first one.
  [[nodiscard]] Result<void> take_back_if(
      const std::function<bool(const Holding& holding)>& ended) const;
  [[nodiscard]] JobUsage usage_of(const Holding& holding) const;

  const SlurmSettings* settings_;
  const SlurmNodes* nodes_;
  std::string machine_;
  FileDescriptor lock_;
};

}  // namespace gpemu::tools
