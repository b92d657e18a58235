// SPDX-License-Identifier: Apache-2.0
#include "train/run_options.hpp"

#include "gpemu/pipeline/cache.hpp"
#include "gpemu/report/host_facts.hpp"
#include "gpemu/train/step_plan.hpp"

namespace gpemu::tools {

void add_gpu_options(Command command, GpuOptions& options) {
  command.option("--gpu", options.gpu,
                 "Kind of GPU, e.g. V100-PCIE-32GB, or a TOML file that describes one");
  command.option("--model", options.model, "Model to train, e.g. resnet50").required();
  command.option("--precision", options.precision, "Precision, e.g. fp32; default: as measured");
  command.option("--batch", options.batch, "Samples per step, over all GPUs")
      .range(1, 1 << 20)
      .show_default();
  command.option("--gpus", options.gpus, "GPUs to train on, data-parallel")
      .range(1, 4096)
      .show_default();
  command
      .option("--parallel", options.parallel,
              "ddp: gradients are exchanged during the backward pass; data-parallel: PyTorch's "
              "DataParallel, one process for all GPUs")
      .one_of(train::kParallelNames)
      .show_default();
  command.option("--topology", options.topology,
                 "Machine that the GPUs are in, e.g. dgx-a100 (`gpemu node topo` lists them), or "
                 "its file; default: what joins GPUs of that kind");
  command.option("--nodes", options.nodes, "Such machines that share the GPUs equally")
      .range(1, 4096)
      .needs("--topology");
  command
      .option(
          "--network", options.network,
          "How the machines' adapters reach each other: rdma (InfiniBand, RoCE) or socket (TCP)")
      .one_of({"rdma", "socket"})
      .needs("--nodes");
  command.flag("--no-pin-memory", options.pageable,
               "Keep batches in pageable memory: copies are slower and block the host");
  command
      .flag("--overlap-copy", options.overlap_copy,
            "Copy the next batch on a separate stream while the GPU computes")
      .excludes("--no-pin-memory");
}

Option add_data_options(Command command, DataOptions& options) {
  options.workers = report::usable_cores();
  const Option data =
      command.option("--data", options.folder,
                     "Data set: a folder with one folder of images per class, or files of another "
                     "format (docs/reference/data-formats.md)");
  command.option("--workers", options.workers, "Threads that read and decode; default: cores")
      .range(1, 1024)
      .show_default();
  command.option("--prefetch", options.prefetch_batches, "Batches to prepare ahead")
      .range(1, 1024)
      .show_default();
  command.option("--seed", options.seed, "Seed for order and augmentation").show_default();
  command.flag("--strict-images", options.strict_images,
               "End the run at the first corrupt image instead of counting it");
  add_read_options(command, options.read);
  add_patience_option(command, options.patience);
  return data;
}

void add_cache_options(Command command, DataOptions& options) {
  command
      .option("--cache", options.cache,
              "What stays in memory on each node: page: what was used last; random: any files; "
              "minio: the first files that are read; small-first: the smallest. For --data, page "
              "is the kernel's page cache, and all else, or page with --cache-share, a cache of "
              "the process in its place")
      .one_of(pipeline::kCachePolicyNames)
      .show_default();
  command
      .option("--cache-share", options.cache_share,
              "The part of the data set's bytes that can stay; default: what memory holds")
      .real_range(0, 100);
}

void add_node_options(Command command, GpuOptions& options) {
  command.option("--node", options.node,
                 "Attach to this node, NAME or USER/NAME for another user's, instead of "
                 "creating one for the run");
  command.option("--device", options.device, "First device to use on the node")
      .non_negative()
      .needs("--node");
  command
      .option("--faults", options.faults,
              "What goes wrong with the run's GPUs, and when: a TOML file "
              "(docs/reference/faults-file.md)")
      .excludes("--node");
}

}  // namespace gpemu::tools
