// SPDX-License-Identifier: Apache-2.0
#include "train/run_options.hpp"

#include "gpemu/train/step_plan.hpp"

namespace gpemu::tools {

void add_gpu_options(Command command, GpuOptions& options) {
  command.group("Options of all forms");
  command.option("--gpu", options.gpu, "Kind of GPU, e.g. V100-PCIE-32GB, or its TOML file");
  command.option("--model", options.model, "Model to train, e.g. resnet50").required();
  command.option("--precision", options.precision, "E.g. fp32; default: as measured");
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
      .option("--network", options.network,
              "What joins the machines: rdma (InfiniBand, RoCE) or socket (TCP)")
      .one_of({"rdma", "socket"})
      .needs("--nodes");
  command.flag("--overlap-copy", options.overlap_copy,
               "Copy the next batch on a separate stream while the GPU computes");
}

void add_output_options(Command command, OutputOptions& options) {
  command.option("--json", options.json, "Write the result as JSON; -: print it, no table");
  command.option("--report", options.report, "Write an HTML page with plots");
  command.flag("--quiet", options.quiet, "No progress, no table");
  command.group("Options");
}

void add_loading_options(Command command, RunOptions& options) {
  command.option("--prefetch", options.data.prefetch_batches, "Batches to prepare ahead")
      .range(1, 1024)
      .show_default();
  command.option("--seed", options.data.seed, "Seed for order and augmentation").show_default();
  command
      .flag("--no-pin-memory", options.gpu.pageable,
            "Keep batches in pageable memory: copies are slower and block the host")
      .excludes("--overlap-copy");
  add_patience_option(command, options.data.patience);
}

void add_files_options(Command command, DataOptions& options) {
  command
      .option("data", options.folder,
              "Data set: a folder with one folder of images per class, or files of another format "
              "(docs/reference/data-formats.md)")
      .required();
  command.option("--workers", options.workers, "Threads that read and decode; default: cores")
      .range(1, 1024);
  command.flag("--strict-images", options.strict_images,
               "End the run at the first corrupt image instead of counting it");
  add_read_options(command, options.read);
}

}  // namespace gpemu::tools
