// SPDX-License-Identifier: Apache-2.0
#include "gpemu/train/nodes_source.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/base/log.hpp"
#include "gpemu/pipeline/locality.hpp"

namespace gpemu::train {

NodesSource::NodesSource(data::Loader& loader, const data::Dataset& dataset,
                         peers::SharedCache* cache, peers::NodeGroup& group, Options options)
    : loader_(loader),
      dataset_(dataset),
      cache_(cache),
      group_(group),
      options_(std::move(options)),
      steps_left_(options_.max_steps.value_or(std::numeric_limits<std::int64_t>::max())),
      members_(group.members()) {}

Result<std::optional<SourceBatch>> NodesSource::next() {
  while (true) {
    if (steps_left_ <= 0 ||
        (taken_ == order_.size() && std::ssize(epochs_) == std::ptrdiff_t{options_.epochs})) {
      group_.finish();
      return std::nullopt;
    }
    if (taken_ == order_.size()) begin_epoch();
    if (!divided_) divide();
    Result<std::optional<data::Batch>> prepared = prepare();
    if (!prepared && prepared.error().code == ErrorCode::kInterrupted) return std::nullopt;
    GPEMU_ASSIGN(std::optional<data::Batch> batch, std::move(prepared));
    auto agreed =
        group_.agree(cache_ != nullptr ? cache_->take_news() : std::vector<pipeline::FileId>{});
    if (!agreed && agreed.error().code == ErrorCode::kInterrupted) return std::nullopt;
    if (!agreed) return std::unexpected(std::move(agreed).error());
    if (cache_ != nullptr) cache_->note(agreed->files, agreed->changed);
    if (agreed->done) GPEMU_TRY(count_step());
    if (agreed->changed) note_members();
    if (!agreed->done || !batch) continue;
    epochs_.back().samples += static_cast<std::uint64_t>(batch->size());
    SourceBatch result;
    result.epoch = static_cast<int>(epochs_.size()) - 1;
    result.samples = batch->size();
    result.work = batch->work();
    result.buffer = std::make_shared<data::Batch>(*std::move(batch));
    return result;
  }
}

/// Returns this node's part of the next step; nothing if it has none.
Result<std::optional<data::Batch>> NodesSource::prepare() {
  std::optional<data::Batch> batch;
  if (own_batches_ == 0) return batch;
  --own_batches_;
  GPEMU_ASSIGN(batch, loader_.next());
  if (batch && options_.log) {
    // Before the other nodes hear of it, so that nothing is done that no node has noted.
    GPEMU_TRY(options_.log(fmt::format(
        R"({{"event":"prepared","epoch":{},"step":{},"view":{},"node":{},"samples":[{}]}})",
        epochs_.size() - 1, steps_done_, view_, group_.rank(), fmt::join(batch->samples(), ","))));
  }
  return batch;
}

void NodesSource::begin_epoch() {
  order_ = dataset_.epoch_order(data::ReadOrder::kRandom, 1, options_.seed, epochs_.size());
  taken_ = 0;
  divided_ = false;
  epochs_.emplace_back();
  if (cache_ != nullptr) reads_before_ = cache_->reads();
}

/// Divides what is left of the epoch among the members.
void NodesSource::divide() {
  members_ = group_.members();
  view_ = group_.view();
  std::vector<pipeline::Owner> owners;
  if (options_.by_locality && cache_ != nullptr) {
    // Members have numbers without gaps.
    owners = cache_->owners();
    for (pipeline::Owner& owner : owners) {
      const auto member = std::ranges::find(members_, owner);
      owner = member == members_.end() ? pipeline::kNobody
                                       : static_cast<pipeline::Owner>(member - members_.begin());
    }
  }
  const auto batch = static_cast<std::size_t>(options_.batch);
  auto parts = pipeline::divide_among_nodes(std::span(order_).subspan(taken_), owners,
                                            static_cast<int>(members_.size()), batch);
  const auto self = std::ranges::find(members_, group_.rank()) - members_.begin();
  std::vector<std::uint32_t>& own = parts[static_cast<std::size_t>(self)];
  own_batches_ = (own.size() + batch - 1) / batch;
  loader_.start_part(epochs_.size() - 1, std::move(own));
  divided_ = true;
}

/// Counts a step that all members had their part of.
Result<void> NodesSource::count_step() {
  if (options_.log) {
    GPEMU_TRY(options_.log(
        fmt::format(R"({{"event":"trained","epoch":{},"step":{},"view":{},"members":[{}]}})",
                    epochs_.size() - 1, steps_done_, view_, fmt::join(members_, ","))));
  }
  const std::size_t together = static_cast<std::size_t>(options_.batch) * members_.size();
  taken_ += std::min(together, order_.size() - taken_);
  ++steps_done_;
  --steps_left_;
  if (cache_ != nullptr) {
    const peers::SharedCache::Reads reads = cache_->reads();
    epochs_.back().reads = {.here = reads.here - reads_before_.here,
                            .peers = reads.peers - reads_before_.peers,
                            .storage = reads.storage - reads_before_.storage};
  }
  return {};
}

void NodesSource::note_members() {
  divided_ = false;
  const std::vector<int> now = group_.members();
  std::vector<int> left;
  std::ranges::set_difference(members_, now, std::back_inserter(left));
  if (left.empty()) return;
  log(LogLevel::kWarning, "node {} has left: node {} goes on with {} samples of the epoch",
      fmt::join(left, ", "), fmt::join(now, ", "), order_.size() - taken_);
}

}  // namespace gpemu::train
