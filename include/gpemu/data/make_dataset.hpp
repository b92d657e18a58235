// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::data {

/// A point of a distribution of file sizes: `percent` of the files have at most `kilobytes`.
struct SizePercentile {
  double percent = 0;
  double kilobytes = 0;  ///< of 1000 bytes.
};

/// Returns the file sizes of the data set that GPEmu's experiments used, made from imagenette2:
/// 10/25/50/75/90/95/99 % of the files have at most 23/61/108/148/187/215/375 KB. Source: GPEmu
/// (VLDB 2025) artifact, plots/new/sff/size/filesizes.txt.
[[nodiscard]] std::vector<SizePercentile> default_size_percentiles();

struct MakeDatasetOptions {
  int images = 1000;
  int classes = 10;
  std::uint64_t seed = 0;
  int threads = 1;
  /// In ascending order, at least one. Sizes in between are interpolated in logarithmic space;
  /// sizes beyond the first and last follow the nearest slope.
  std::vector<SizePercentile> sizes = default_size_percentiles();
  /// Called with the number of finished images, from the threads, one call at a time.
  std::function<void(int done)> progress;
  /// Set from outside, e.g. by a signal handler, to stop early.
  const std::atomic<bool>* stop = nullptr;
};

/// Writes a folder data set of JPEG images that load like photographs: noise over all scales,
/// shapes with edges, dimensions that grow with the file size, 4:2:0 subsampling, quality 75 to 95.
///
/// File sizes follow the distribution to a few percent, whatever the number of images. The same
/// options give the same files. The folder appears as a whole at the end; until then the images are
/// in a temporary folder beside it, which is removed after an error.
///
/// Errors: kInvalidArgument naming the option, or if the folder exists and is not empty;
/// kResourceLimit if the disk is full; kIo; kInterrupted after `stop`.
[[nodiscard]] Result<void> make_dataset(const std::filesystem::path& folder,
                                        const MakeDatasetOptions& options);

}  // namespace gpemu::data
