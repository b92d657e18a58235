// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <gpemu/cost/collective.hpp>
#include <gpemu/profile/database.hpp>
#include <gpemu/train/trainer.hpp>

// Looks a GPU up in the installed database, which GPEMU_PROFILES names, and asks for a cost on it.
int main() {
  const auto database = gpemu::profile::Database::open();
  if (!database) {
    std::fprintf(stderr, "%s\n", database.error().message.c_str());
    return 1;
  }
  const auto gpu = database->gpu("V100-SXM2-32GB");
  if (!gpu) {
    std::fprintf(stderr, "%s\n", gpu.error().message.c_str());
    return 1;
  }
  const gpemu::cost::Estimate estimate = gpemu::cost::all_reduce_time(*gpu, gpemu::kGiB, 4);
  return estimate.time > gpemu::Duration::zero() ? 0 : 1;
}
