// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/base/mutex.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/service/dispatcher.hpp"
#include "gpemu/service/rpc.hpp"
#include "gpemu/sim/clock.hpp"

namespace gpemu::service {

/// A dispatcher that workers and clients call.
class DataDispatcher {
 public:
  /// Serves at HOST:PORT. `place` is where workers find the data set. The references must outlive
  /// the dispatcher. Errors: kUnavailable naming the address.
  [[nodiscard]] static Result<std::unique_ptr<DataDispatcher>> start(Rpc& rpc,
                                                                     const std::string& address,
                                                                     const data::Dataset& dataset,
                                                                     const std::string& place,
                                                                     const sim::Clock& clock);

  [[nodiscard]] int port() const { return server_->port(); }

 private:
  DataDispatcher(const data::Dataset& dataset, std::string place, const sim::Clock& clock);
  Result<Message> answer(std::string_view method, std::span<const std::byte> request)
      GPEMU_EXCLUDES(mutex_);

  const data::Dataset& dataset_;
  const std::string place_;
  const sim::Clock& clock_;
  Mutex mutex_;
  Dispatcher dispatcher_ GPEMU_GUARDED_BY(mutex_);
  std::unique_ptr<RpcServer> server_;
};

}  // namespace gpemu::service
