// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_transformer_command.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/train/transformer_step.hpp"

namespace gpemu::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct TransformerOptions {
  std::string gpu, topology;
  std::string type = "bf16";
  int global_batch = 0;
  std::string attention = "separate";
  bool as_json = false;
  train::Transformer model;
  train::ParallelLayout layout;
};

constexpr std::array<std::string_view, 2> kTypes = {"bf16", "fp16"};

struct Part {
  std::string_view name, key;
  Duration train::TransformerStep::* time;
};
constexpr std::array kParts = {
    Part{"computation", "compute_ms", &train::TransformerStep::compute},
    Part{"tensor-parallel exchanges", "tensor_parallel_ms", &train::TransformerStep::tensor},
    Part{"pipeline bubble and sends", "pipeline_ms", &train::TransformerStep::bubble},
    Part{"data-parallel exchanges, exposed", "data_parallel_ms", &train::TransformerStep::data},
    Part{"optimizer", "optimizer_ms", &train::TransformerStep::optimizer},
    Part{"the slowest GPU", "slowest_ms", &train::TransformerStep::slowest},
};

Result<void> run(TransformerOptions options, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  std::optional<profile::TopologySpec> machine;
  if (!options.topology.empty()) {
    GPEMU_ASSIGN(machine, profile::find_topology(world.topologies, options.topology));
  }
  if (options.gpu.empty() && !machine) {
    return fail(ErrorCode::kInvalidArgument, "cost transformer needs --gpu or --topology");
  }
  if (!options.gpu.empty() && machine && options.gpu != machine->gpu) {
    return fail(ErrorCode::kInvalidArgument,
                "--gpu {}: {} has {}; leave out --gpu, or name a file with other GPUs", options.gpu,
                machine->name, machine->gpu);
  }
  GPEMU_ASSIGN(const profile::GpuSpec gpu,
               database.gpu(options.gpu.empty() ? machine->gpu : options.gpu));
  train::ParallelLayout& layout = options.layout;
  const int in_a_round = layout.micro_batch * layout.data;
  const int batch = options.global_batch == 0 ? in_a_round : options.global_batch;
  if (batch % in_a_round != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "--global-batch {} is no multiple of --micro-batch {} x --data-parallel {}", batch,
                layout.micro_batch, layout.data);
  }
  layout.micro_batches = batch / in_a_round;
  layout.attention =
      static_cast<train::Attention>(std::ranges::find(train::kAttentionNames, options.attention) -
                                    train::kAttentionNames.begin());
  options.model.type = options.type == "fp16" ? GPEMU_TYPE_FP16 : GPEMU_TYPE_BF16;
  GPEMU_ASSIGN(const train::TransformerStep step,
               train::transformer_step(options.model, layout, gpu, machine ? &*machine : nullptr));
  const double tokens = static_cast<double>(batch) * options.model.sequence;
  const double rate = tokens / to_seconds(step.total);
  if (options.as_json) {
    OrderedJson json = {{"gpu", gpu.name},
                        {"gpus", layout.gpus()},
                        {"parameters", options.model.parameters()},
                        {"global_batch", batch},
                        {"iteration_ms", to_milliseconds(step.total)},
                        {"relative_bar", step.relative_bar},
                        {"tokens_per_s", rate}};
    for (const Part& part : kParts) json[part.key] = to_milliseconds(step.*part.time);
    report::print_out("{}", report::json_text(json));
    return {};
  }
  report::TextTable table({"where an iteration's time goes", "ms", "%"});
  for (const Part& part : kParts) {
    table.add_row({std::string(part.name), fmt::format("{:.1f}", to_milliseconds(step.*part.time)),
                   report::percent(to_seconds(step.*part.time) / to_seconds(step.total), 1)});
  }
  report::print_out(
      "{:.2f} billion parameters on {} x {}, {} tokens an iteration\n"
      "iteration {:.1f} ms ±{} %, {:.0f} tokens/s\n\n{}",
      options.model.parameters() / 1e9, layout.gpus(), gpu.name, tokens,
      to_milliseconds(step.total), report::percent(step.relative_bar, 0), rate,
      table.str(world.terminal().output_columns));
  return {};
}

}  // namespace

void add_cost_transformer_command(Command cost, const World& world) {
  Command command = cost.subcommand(
      "transformer", "Report how long a transformer's training takes on GPUs that share it");
  auto options = std::make_shared<TransformerOptions>();
  command.option("--gpu", options->gpu, "GPU; default: the topology's");
  command.option("--topology", options->topology,
                 "Machine, of which as many are used as are needed; default: one, joined as the "
                 "kind of GPU allows");
  train::Transformer& model = options->model;
  train::ParallelLayout& layout = options->layout;
  command.option("--layers", model.layers, "Layers").required().range(1, 10'000);
  command.option("--hidden", model.hidden, "Width of a layer").required().range(1, 1 << 20);
  command.option("--heads", model.heads, "Heads of attention").required().range(1, 1024);
  command.option("--sequence", model.sequence, "Tokens of a sample").required().range(1, 1 << 20);
  command.option("--vocabulary", model.vocabulary, "Tokens that there are; default: 51200")
      .range(1, 1 << 24);
  command.option("--type", options->type, "Type of activations and products; default: bf16")
      .one_of(kTypes);
  command.option("--micro-batch", layout.micro_batch, "Samples computed together; default: 1")
      .range(1, 1024);
  command
      .option("--global-batch", options->global_batch,
              "Samples of an iteration; default: a micro-batch of each data-parallel group")
      .range(1, 1 << 24);
  command.option("--tensor-parallel", layout.tensor, "GPUs that share each product; default: 1")
      .range(1, 64);
  command.option("--pipeline-parallel", layout.pipeline, "Stages of layers; default: 1")
      .range(1, 1024);
  command.option("--data-parallel", layout.data, "Groups that share the batch; default: 1")
      .range(1, 16'384);
  command.flag("--fully-shard", layout.fully_shard,
               "Groups share the parameters, too, as with FSDP");
  command.flag("--recompute", layout.recompute, "Checkpoint activations");
  command
      .option("--attention", options->attention,
              "Attention as two products, or FlashAttention's kernel; default: separate")
      .one_of(train::kAttentionNames);
  command.flag("--json", options->as_json, "Print JSON");
  command.notes(
      "The model is a decoder with an inner width of four times --hidden, trained with Adam in\n"
      "mixed precision as by Megatron-LM: pipelines run one micro-batch forward and one backward\n"
      "by turns, and gradients are exchanged after the last. docs/design/many-gpus.md has the "
      "model.\n"
      "Example:\n"
      "  gpemu cost transformer --topology dgx-a100-80 --layers 24 --hidden 2048 --heads 16 \\\n"
      "    --sequence 1024 --global-batch 16 --tensor-parallel 2 --data-parallel 4");
  command.on_run([options, &world] { return run(*options, world); });
}

}  // namespace gpemu::tools
