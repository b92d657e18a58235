// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/topology_spec.hpp"

namespace gpemu::train {

/// A decoder like GPT: layers of attention and of two products with four times the width between
/// them, and an embedding that the output shares.
struct Transformer {
  int layers = 24;
  int hidden = 2048;
  int heads = 16;
  int sequence = 1024;      ///< tokens per sample.
  int vocabulary = 51'200;  ///< Megatron's, padded; for GPT-2's tokens.
  gpemu_data_type type = GPEMU_TYPE_FP16;

  /// Returns the number of parameters.
  [[nodiscard]] double parameters() const;
};

/// How attention is computed.
enum class Attention : std::uint8_t {
  kSeparate,  ///< two products with the softmax between them, whose scores are in memory.
  kFlash,     ///< FlashAttention,
  kFlash2,    ///< and FlashAttention-2: one kernel, causal.
};
inline constexpr std::array<std::string_view, 3> kAttentionNames = {"separate", "flash", "flash-2"};

/// How GPUs divide the work: tensor x pipeline x data of them.
struct ParallelLayout {
  int tensor = 1;            ///< GPUs that share each product.
  int pipeline = 1;          ///< stages, each with a part of the layers.
  int data = 1;              ///< groups with a part of the batch.
  int micro_batch = 1;       ///< samples that go through the stages together.
  int micro_batches = 1;     ///< of each data-parallel group in an iteration.
  bool fully_shard = false;  ///< FSDP: data-parallel groups divide the parameters, too.
  bool recompute = false;    ///< activation checkpointing: the forward pass is run twice.
  Attention attention = Attention::kSeparate;

  [[nodiscard]] int gpus() const { return tensor * pipeline * data; }
};

/// How long an iteration of a transformer's training takes. The parts, without `total`, sum to it.
struct TransformerStep {
  Duration total{};
  Duration compute{};  ///< of the slowest stage: kernels, or the host that launches them.
  Duration tensor{};   ///< exchanges within products, which nothing hides.
  Duration bubble{};   ///< the slowest stage waits for others, with sends and receives.
  Duration data{};     ///< exchanges of gradients and parameters that nothing hides.
  Duration optimizer{};
  Duration slowest{};       ///< what the slowest GPU, and kernels beside exchanges, take longer.
  double relative_bar = 0;  ///< as in cost::Estimate, of the whole.
};

/// Returns the time of an iteration on the GPUs of as many machines as the layout needs, or of one
/// machine as the kind of GPU allows. GPUs that share products are next to each other, then those
/// that share gradients, then stages, as in Megatron-LM.
///
/// Pipelines run one micro-batch forward and one backward by turns (1F1B). Gradients are exchanged
/// after the last micro-batch; with `fully_shard`, each layer's parameters are gathered, and its
/// gradients scattered, beside the computation of the layers next to it, in each micro-batch.
///
/// Errors: kInvalidArgument for sizes below 1, for heads, layers or machines that cannot be divided
/// equally, and for iterations of more than an hour; kUnsupported for several machines without
/// adapters.
[[nodiscard]] Result<TransformerStep> transformer_step(const Transformer& model,
                                                       const ParallelLayout& layout,
                                                       const profile::GpuSpec& gpu,
                                                       const profile::TopologySpec* machine);

}  // namespace gpemu::train
