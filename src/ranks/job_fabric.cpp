// SPDX-License-Identifier: Apache-2.0
#include "job_fabric.hpp"

#include <algorithm>
#include <span>

#include "gpemu/base/variables.hpp"

namespace gpemu::ranks {
namespace {

/// Describes what joins the first `ranks` GPUs of a machine.
Result<topology::Fabric> fabric_in_machine(const JobMachine& machine, int ranks) {
  if (machine.topology == nullptr || ranks < 2) return topology::fabric_of(machine.gpu, ranks);
  return topology::fabric_of(*machine.topology, machine.gpu,
                             std::span(machine.gpus).first(static_cast<std::size_t>(ranks)));
}

}  // namespace

Result<topology::Fabric> fabric_of_job(const process::Job& job, const JobMachine& machine) {
  const int gpus = static_cast<int>(machine.gpus.size());
  const int ranks = gpus == 0 ? job.ranks_per_host : std::min(job.ranks_per_host, gpus);
  if (job.ranks % ranks != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "the {} ranks of the job cannot be divided equally over machines of {} GPUs",
                job.ranks, ranks);
  }
  const int machines = job.ranks / ranks;
  if (machines == 1) return fabric_in_machine(machine, ranks);
  if (machine.network) {
    GPEMU_ASSIGN(const topology::Fabric inside, fabric_in_machine(machine, ranks));
    return topology::across(inside, machines, *machine.network);
  }
  if (machine.topology != nullptr && !machine.topology->adapters.empty()) {
    return topology::fabric_of_nodes(*machine.topology, machine.gpu, job.ranks, machines,
                                     topology::LinkClass::kRdma);
  }
  return fail(ErrorCode::kInvalidArgument,
              "the {} ranks of the job need {} machines of {} GPUs, and nothing says what joins "
              "them: set {} to the network, e.g. rdma:200gbit, or choose a --topology with network "
              "adapters",
              job.ranks, machines, ranks, variable::kNetwork);
}

}  // namespace gpemu::ranks
