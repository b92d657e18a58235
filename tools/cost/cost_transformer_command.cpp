// SPDX-License-Identifier: Apache-2.0
#include "cost/cost_transformer_command.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/profile/topology_spec.hpp"
#include "gpemu/report/json_text.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/report/text_table.hpp"
#include "gpemu/train/transformer_step.hpp"

#include "cli/command_tree.hpp"

namespace gpemu::tools {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct TransformerOptions {
  std::string gpu, topology;
  std::string type = "bf16";
  int global_batch = 0;
  std::string attention = "separate";
  bool as_json = false;
  std::filesystem::path jobs;
  // 0 where a value must be given.
  train::Transformer model{.layers = 0, .hidden = 0, .heads = 0, .sequence = 0};
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

/// A job whose options are complete, and its time.
struct Answer {
  TransformerOptions options;
  profile::GpuSpec gpu;
  train::TransformerStep step;
  int batch = 0;

  [[nodiscard]] double tokens() const {
    return static_cast<double>(batch) * options.model.sequence;
  }
  [[nodiscard]] double rate() const { return tokens() / to_seconds(step.total); }
};

Result<Answer> answer_of(TransformerOptions options, const profile::Database& database,
                         const World& world) {
  const train::Transformer& model = options.model;
  for (const auto& [name, value] : {std::pair{"--layers", model.layers},
                                    {"--hidden", model.hidden},
                                    {"--heads", model.heads},
                                    {"--sequence", model.sequence}}) {
    if (value == 0) return fail(ErrorCode::kInvalidArgument, "{} is required", name);
  }
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
  GPEMU_ASSIGN(profile::GpuSpec gpu,
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
  return Answer{std::move(options), std::move(gpu), step, batch};
}

OrderedJson json_of(const Answer& answer) {
  OrderedJson json = {{"gpu", answer.gpu.name},
                      {"gpus", answer.options.layout.gpus()},
                      {"parameters", answer.options.model.parameters()},
                      {"global_batch", answer.batch},
                      {"iteration_ms", to_milliseconds(answer.step.total)},
                      {"relative_bar", answer.step.relative_bar},
                      {"tokens_per_s", answer.rate()}};
  for (const Part& part : kParts) json[part.key] = to_milliseconds(answer.step.*part.time);
  return json;
}

void print_answer(const Answer& answer, const World& world) {
  const train::TransformerStep& step = answer.step;
  report::TextTable table({"where an iteration's time goes", "ms", "%"});
  for (const Part& part : kParts) {
    table.add_row({std::string(part.name), fmt::format("{:.1f}", to_milliseconds(step.*part.time)),
                   report::percent(to_seconds(step.*part.time) / to_seconds(step.total), 1)});
  }
  report::print_out(
      "{:.2f} billion parameters on {} x {}, {} tokens an iteration\n"
      "iteration {:.1f} ms ±{} %, {:.0f} tokens/s\n\n{}",
      answer.options.model.parameters() / 1e9, answer.options.layout.gpus(), answer.gpu.name,
      answer.tokens(), to_milliseconds(step.total), report::percent(step.relative_bar, 0),
      answer.rate(), table.str(world.terminal().output_columns));
}

void add_options(Command& command, TransformerOptions& options) {
  command.option("--gpu", options.gpu, "GPU; default: the topology's");
  command.option("--topology", options.topology,
                 "Machine, of which as many are used as are needed; default: one, joined as the "
                 "kind of GPU allows");
  train::Transformer& model = options.model;
  train::ParallelLayout& layout = options.layout;
  command.option("--layers", model.layers, "Layers").range(1, 10'000);
  command.option("--hidden", model.hidden, "Width of a layer").range(1, 1 << 20);
  command.option("--heads", model.heads, "Heads of attention").range(1, 1024);
  command.option("--sequence", model.sequence, "Tokens of a sample").range(1, 1 << 20);
  command.option("--vocabulary", model.vocabulary, "Tokens that there are; default: 51200")
      .range(1, 1 << 24);
  command.option("--type", options.type, "Type of activations and products; default: bf16")
      .one_of(kTypes);
  command.option("--micro-batch", layout.micro_batch, "Samples computed together; default: 1")
      .range(1, 1024);
  command
      .option("--global-batch", options.global_batch,
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
      .option("--attention", options.attention,
              "Attention as two products, or FlashAttention's kernel; default: separate")
      .one_of(train::kAttentionNames);
}

/// Returns the answer to a line of a file of jobs, whose options count before `defaults`.
Result<OrderedJson> answer_line(const std::string& line, TransformerOptions options,
                                const profile::Database& database, const World& world) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  CommandTree tree("", "gpemu cost transformer");
  Command command = tree.root();
  add_options(command, options);
  OrderedJson json;
  command.on_run([&]() -> Result<void> {
    GPEMU_ASSIGN(const Answer answer, answer_of(options, database, world));
    json = json_of(answer);
    return {};
  });
  GPEMU_TRY(tree.run(std::move(words)));
  if (json.is_null()) return fail(ErrorCode::kInvalidArgument, "a job has no --help");
  return json;
}

/// Prints a line for each line of a file.
Result<void> run_jobs(const std::filesystem::path& file, const TransformerOptions& defaults,
                      const profile::Database& database, const World& world) {
  GPEMU_ASSIGN(const std::string text, read_file(file));
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto json = answer_line(line, defaults, database, world);
    if (!json) {
      return fail(json.error().code, "{}:{}: {}", file.string(), number, json.error().message);
    }
    report::print_out("{}", report::one_line(*json));
  }
  return {};
}

Result<void> run(const TransformerOptions& options, const World& world) {
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open(world.profiles));
  if (!options.jobs.empty()) return run_jobs(options.jobs, options, database, world);
  GPEMU_ASSIGN(const Answer answer, answer_of(options, database, world));
  if (options.as_json) {
    report::print_out("{}", report::json_text(json_of(answer)));
  } else {
    print_answer(answer, world);
  }
  return {};
}

}  // namespace

void add_cost_transformer_command(Command cost, const World& world) {
  Command command = cost.subcommand(
      "transformer", "Report how long a transformer's training takes on GPUs that share it");
  auto options = std::make_shared<TransformerOptions>();
  add_options(command, *options);
  command.flag("--json", options->as_json, "Print JSON");
  command
      .option("--jobs", options->jobs,
              "File with the options of a job in each line; print a line of JSON for each")
      .placeholder("FILE")
      .excludes("--json");
  command.notes(
      "The model is a decoder with an inner width of four times --hidden, trained with Adam in\n"
      "mixed precision as by Megatron-LM: pipelines run one micro-batch forward and one backward\n"
      "by turns, and gradients are exchanged after the last. docs/design/many-gpus.md has the "
      "model.\n"
      "Example:\n"
      "  gpemu cost transformer --topology dgx-a100-80 --layers 24 --hidden 2048 --heads 16 \\\n"
      "    --sequence 1024 --global-batch 16 --tensor-parallel 2 --data-parallel 4\n"
      "Each way to share 8 GPUs, with what the jobs have in common before --jobs:\n"
      "  for t in 1 2 4 8; do echo --tensor-parallel $t --data-parallel $((8 / t)); done >jobs\n"
      "  gpemu cost transformer --topology dgx-a100-80 --layers 24 --hidden 2048 --heads 16 \\\n"
      "    --sequence 1024 --global-batch 16 --jobs jobs");
  command.on_run([options, &world] { return run(*options, world); });
}

}  // namespace gpemu::tools
