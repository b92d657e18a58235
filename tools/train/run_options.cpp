// SPDX-License-Identifier: Apache-2.0
#include "train/run_options.hpp"

#include <CLI/CLI.hpp>

#include "gpemu/report/host_facts.hpp"

namespace gpemu::tools {

void set_option_defaults(CLI::App& command) {
  // So that a script can append options to common ones.
  command.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void add_gpu_options(CLI::App& command, GpuOptions& options) {
  command.add_option("--gpu", options.gpu,
                     "Kind of GPU, e.g. V100-PCIE-32GB, or a TOML file that describes one");
  command.add_option("--model", options.model, "Model to train, e.g. resnet50")->required();
  command.add_option("--precision", options.precision,
                     "Precision, e.g. fp32; default: as measured");
  command.add_option("--batch", options.batch, "Samples per step, over all GPUs")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--gpus", options.gpus, "GPUs to train on, data-parallel, on one node")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  auto* pageable =
      command.add_flag("--no-pin-memory", options.pageable,
                       "Keep batches in pageable memory: copies are slower and block the host");
  command
      .add_flag("--overlap-copy", options.overlap_copy,
                "Copy the next batch on a separate stream while the GPU computes")
      ->excludes(pageable);
}

void add_data_options(CLI::App& command, DataOptions& options) {
  options.workers = report::usable_cores();
  command.add_option("--data", options.folder, "Folder of JPEG files, one sub-folder per class");
  command.add_option("--workers", options.workers, "Threads that read and decode; default: cores")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--prefetch", options.prefetch_batches, "Batches to prepare ahead")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Seed of order and augmentation")
      ->capture_default_str();
  command.add_flag("--strict-images", options.strict_images,
                   "End the run at the first corrupt image instead of counting it");
}

void add_node_options(CLI::App& command, GpuOptions& options) {
  auto* node =
      command.add_option("--node", options.node,
                         "Attach to this node, NAME or USER/NAME for another user's, instead of "
                         "creating one for the run");
  command.add_option("--device", options.device, "First device to use on the node")
      ->check(CLI::NonNegativeNumber)
      ->needs(node);
}

}  // namespace gpemu::tools
