// SPDX-License-Identifier: Apache-2.0
#include "train/service_data.hpp"

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/text.hpp"
#include "gpemu/report/number_text.hpp"

#include "cli/remote_calls.hpp"
#include "train/node_data.hpp"
#include "train/training_session.hpp"

namespace gpemu::tools {

Result<ServicePath> open_service(const RunOptions& options, const profile::ModelInfo& model,
                                 const World& world, const std::atomic<bool>& stop) {
  GPEMU_TRY(check_input(model));
  GPEMU_TRY(check_address("dispatcher", options.service.dispatcher, false));
  GPEMU_ASSIGN(service::Rpc * rpc, remote_calls(world));
  GPEMU_ASSIGN(train::SampleLog log, open_sample_log(options.join.log));
  ServicePath path;
  GPEMU_ASSIGN(path.client,
               service::DataClient::open(*rpc,
                                         {.dispatcher = options.service.dispatcher,
                                          .job = options.service.job,
                                          .settings = {.batch = options.gpu.batch,
                                                       .epochs = options.epochs,
                                                       .crop = model.input_shape[1],
                                                       .seed = options.data.seed},
                                          .prefetch_batches = options.data.prefetch_batches,
                                          .patience = options.data.patience.time()},
                                         world.clock, stop));
  path.not_locked = std::make_shared<std::atomic<Bytes>>(0);
  path.source = std::make_unique<train::ServiceSource>(
      *path.client, batch_allocator(options.gpu.pageable, path.not_locked), options.steps, stop,
      std::move(log));
  const auto batch = static_cast<std::uint64_t>(options.gpu.batch);
  path.batches = std::int64_t{options.epochs} *
                 static_cast<std::int64_t>((path.client->images() + batch - 1) / batch);
  return path;
}

std::string service_text(const ServiceFacts& facts) {
  return fmt::format(
      "service     {}: {} worker{}{}\n", printable(facts.dispatcher), facts.workers_seen,
      report::plural(static_cast<std::int64_t>(facts.workers_seen)),
      facts.workers_lost > 0 ? fmt::format(", {} of which died", facts.workers_lost) : "");
}

nlohmann::ordered_json service_json(const ServiceFacts& facts) {
  return {{"dispatcher", facts.dispatcher},
          {"workers_seen", facts.workers_seen},
          {"workers_lost", facts.workers_lost}};
}

}  // namespace gpemu::tools
