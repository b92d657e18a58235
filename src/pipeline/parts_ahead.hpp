// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "gpemu/data/dataset.hpp"
#include "gpemu/pipeline/cache.hpp"

namespace gpemu::pipeline {

/// The parts of large files that a node reads ahead of its workers in an epoch, as gpemu's loader
/// does: in the order in which its samples need them, and at most two windows of them.
class PartsAhead {
 public:
  /// The data set must outlive it.
  PartsAhead(const data::Dataset& dataset, std::size_t window, std::span<const FileId> samples);

  /// Returns the next part to read, if there is room for it.
  [[nodiscard]] std::optional<FileId> next();
  void has_read(FileId part) { parts_[part].is_read = true; }
  [[nodiscard]] bool is_read(FileId sample) const { return parts_[part_of(sample)].is_read; }
  /// Notes that a sample has been prepared.
  void done(FileId sample);

 private:
  struct Part {
    std::uint32_t uses = 0;  ///< samples that still need it.
    bool is_read = false;
  };
  [[nodiscard]] FileId part_of(FileId sample) const { return dataset_.samples()[sample].unit; }

  const data::Dataset& dataset_;
  std::size_t window_;
  std::vector<Part> parts_;  ///< of the data set.
  std::vector<FileId> order_;
  std::size_t next_ = 0;      ///< in the order.
  std::size_t finished_ = 0;  ///< parts that no sample needs any more.
};

}  // namespace gpemu::pipeline
