// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <gpemu/profile/database.hpp>
#include <gpemu/record/process_records.hpp>
#include <gpemu/run/settings.hpp>
#include <gpemu/topology/collective.hpp>
#include <gpemu/topology/fabric.hpp>
#include <gpemu/train/trainer.hpp>

// Looks up a GPU in the installed database, which GPEMU_PROFILES names, asks for a cost on it and
// for the settings of a program on it, and reads the records of a run that does not exist.
int main() {
  const auto database = gpemu::profile::Database::open(gpemu::profile::Database::default_paths());
  if (!database) {
    std::fprintf(stderr, "%s\n", database.error().message.c_str());
    return 1;
  }
  const auto gpu = database->gpu("V100-SXM2-32GB");
  if (!gpu) {
    std::fprintf(stderr, "%s\n", gpu.error().message.c_str());
    return 1;
  }
  const auto estimate = gpemu::topology::time_of(
      gpemu::topology::fabric_of(*gpu, 4), gpemu::topology::Collective::kAllReduce, gpemu::kGiB);
  const auto told = gpemu::run::environment_of({.gpu = gpu->name}, "shims", "records");
  const auto records = gpemu::record::read_processes("no-such-folder");
  return estimate.time > gpemu::Duration::zero() && !told.set.empty() && !records ? 0 : 1;
}
