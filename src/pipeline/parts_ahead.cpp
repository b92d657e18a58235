// SPDX-License-Identifier: Apache-2.0
#include "parts_ahead.hpp"

namespace gpemu::pipeline {

PartsAhead::PartsAhead(const data::Dataset& dataset, std::size_t window,
                       std::span<const FileId> samples)
    : dataset_(dataset), window_(window), parts_(dataset.units().size()) {
  for (const FileId sample : samples) {
    if (parts_[part_of(sample)].uses++ == 0) order_.push_back(part_of(sample));
  }
}

std::optional<FileId> PartsAhead::next() {
  if (next_ == order_.size() || next_ - finished_ >= 2 * window_) return std::nullopt;
  return order_[next_++];
}

void PartsAhead::done(FileId sample) {
  if (--parts_[part_of(sample)].uses == 0) ++finished_;
}

}  // namespace gpemu::pipeline
