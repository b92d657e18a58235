// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "gpemu/pipeline/input_pipeline.hpp"

namespace gpemu::pipeline {

/// Training whose batches are prepared by threads of the training host, by workers elsewhere, as
/// tf.data service has them, or by both.
struct ServiceSetup {
  std::uint64_t steps = 1;
  int batch = 1;      ///< samples of a step.
  double step_s = 0;  ///< of the GPUs.
  int cpus = 1;       ///< processors of the training host that prepare and receive batches.
  int remote_workers = 0;
  int remote_cpus = 1;     ///< processors of each remote worker.
  double image_s = 0;      ///< of processor time, to prepare a sample.
  double send_s = 0;       ///< to send one, on the worker,
  double receive_s = 0;    ///< and to receive it.
  int prefetch = 2;        ///< batches that each worker, and the training host, prepare ahead.
  double local_share = 1;  ///< of the steps that the training host prepares.
};

/// Simulates an epoch: `cache_reads` are samples prepared here, and `peer_reads` those received.
/// Deterministic. Complexity: linear in the steps, but for logarithms.
///
/// Requires: counts above zero; remote workers, or a local share of 1.
[[nodiscard]] EpochResult simulate_service(const ServiceSetup& setup);

}  // namespace gpemu::pipeline
