// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/data/loader.hpp"
#include "gpemu/service/dispatcher.hpp"
#include "gpemu/service/rpc.hpp"
#include "gpemu/sim/patience.hpp"

namespace gpemu::service {

/// Batches that the workers of a dispatcher prepare. It asks all of them at the same time, and
/// hands out what comes, whoever sent it.
///
/// Thread safety: one thread calls next().
class DataClient {
 public:
  struct Options {
    std::string dispatcher;  ///< HOST:PORT.
    std::string job;         ///< clients that name the same job share it; empty: one's own.
    JobSettings settings;
    int prefetch_batches = 2;            ///< received ahead of the training loop.
    Duration patience = sim::kPatience;  ///< for an answer of the dispatcher, and for a batch.
  };
  /// A batch of another process.
  struct Batch {
    Message pixels;  ///< of float32, as of data::Batch.
    std::uint64_t epoch = 0;
    std::vector<std::uint32_t> samples;
    data::BatchWork work;
  };

  /// `rpc` and `clock` must outlive the client. Errors: those of Dispatcher::open(); kUnavailable
  /// if the dispatcher does not answer; kInterrupted after `stop`.
  [[nodiscard]] static Result<std::unique_ptr<DataClient>> open(Rpc& rpc, const Options& options,
                                                                sim::Clock& clock,
                                                                const std::atomic<bool>& stop);
  DataClient(const DataClient&) = delete;
  DataClient& operator=(const DataClient&) = delete;
  ~DataClient();

  /// Returns the next batch, or nothing when all epochs have been received, or after `stop`.
  ///
  /// Errors: kUnavailable if the dispatcher does not answer any more, or no worker sends a batch,
  /// for the patience; kCorruptData if the dispatcher says what none says.
  [[nodiscard]] Result<std::optional<Batch>> next(const std::atomic<bool>& stop);

  /// Of the data set.
  [[nodiscard]] std::uint64_t images() const;
  [[nodiscard]] std::uint64_t bytes() const;
  /// Returns how many workers have sent batches, and how many stopped to answer.
  [[nodiscard]] std::size_t workers_seen() const;
  [[nodiscard]] std::size_t workers_lost() const;

 private:
  struct State;
  explicit DataClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace gpemu::service
