// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/profile/profile.hpp"
#include "gpemu/service/data_client.hpp"
#include "gpemu/train/service_source.hpp"

#include "cli/world.hpp"
#include "train/run_options.hpp"

namespace gpemu::tools {

/// The batches of remote workers.
struct ServicePath {
  // Declared in dependency order.
  std::unique_ptr<service::DataClient> client;  ///< null without a service.
  std::shared_ptr<std::atomic<Bytes>> not_locked;
  std::unique_ptr<train::ServiceSource> source;
  std::int64_t batches = 0;  ///< of all epochs and clients.
};

/// Errors: those of DataClient::open(); kUnsupported without gRPC, or if the model's input is not a
/// square image.
[[nodiscard]] Result<ServicePath> open_service(const RunOptions& options,
                                               const profile::ModelInfo& model, const World& world,
                                               const std::atomic<bool>& stop);

/// What a run had of its workers.
struct ServiceFacts {
  std::string dispatcher;
  std::size_t workers_seen = 0;
  std::size_t workers_lost = 0;
};
[[nodiscard]] std::string service_text(const ServiceFacts& facts);
[[nodiscard]] nlohmann::ordered_json service_json(const ServiceFacts& facts);

}  // namespace gpemu::tools
