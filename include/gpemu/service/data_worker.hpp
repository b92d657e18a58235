// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/storage_device.hpp"
#include "gpemu/service/rpc.hpp"
#include "gpemu/sim/patience.hpp"

namespace gpemu::service {

/// Prepares batches for the jobs of a dispatcher, each on one of its threads.
class DataWorker {
 public:
  struct Options {
    std::string dispatcher;  ///< HOST:PORT.
    std::string listen;      ///< HOST:PORT, at which clients reach it; the port may be 0.
    int threads = 1;
    Duration patience = sim::kPatience;  ///< for an answer of the dispatcher.
  };
  /// Opens the data set at the place that the dispatcher names.
  using Open = std::function<Result<std::unique_ptr<data::Dataset>>(const std::string& place)>;

  /// What it has done.
  struct Totals {
    std::uint64_t batches = 0;
    std::uint64_t samples = 0;
  };

  /// Joins a dispatcher and works until `stop`. `storage` may be null. Calls `joined` with its
  /// address once it has.
  ///
  /// Errors: kUnavailable if the dispatcher does not answer for the patience; kCorruptData if it
  /// says what none says; kInvalidArgument if the data
  /// set here is another one; those of `open`.
  [[nodiscard]] static Result<Totals> run(Rpc& rpc, const Options& options, const Open& open,
                                          data::StorageDevice* storage, sim::Clock& clock,
                                          const std::atomic<bool>& stop,
                                          const std::function<void(const std::string&)>& joined);
};

}  // namespace gpemu::service
