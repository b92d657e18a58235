// SPDX-License-Identifier: Apache-2.0
#include "data/service_command.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "gpemu/base/text.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/report/host_facts.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/service/data_dispatcher.hpp"
#include "gpemu/service/data_worker.hpp"

#include "cli/interrupt.hpp"
#include "cli/read_options.hpp"
#include "cli/remote_calls.hpp"

namespace gpemu::tools {
namespace {

using namespace std::chrono_literals;

struct DispatchOptions {
  std::filesystem::path folder;
  std::string listen = "127.0.0.1:5050";
  Patience patience;
};

struct WorkOptions {
  service::DataWorker::Options work;
  std::filesystem::path folder;
  std::string storage;
  Patience patience;
};

Result<void> dispatch(const DispatchOptions& options, const World& world) {
  GPEMU_TRY(check_address("--listen", options.listen, true));
  const InterruptGuard interrupt;
  GPEMU_ASSIGN(const data::Dataset dataset,
               open_dataset(options.folder, world, options.patience, &interrupt.flag()));
  GPEMU_ASSIGN(service::Rpc * rpc, remote_calls(world));
  std::error_code error;
  const std::filesystem::path place = data::is_object_path(options.folder.string())
                                          ? options.folder
                                          : std::filesystem::absolute(options.folder, error);
  GPEMU_ASSIGN(const auto dispatcher,
               service::DataDispatcher::start(*rpc, options.listen, dataset, place, world.clock));
  report::print_out("dispatching {} images of {} at {}:{}; Ctrl-C ends it\n",
                    dataset.samples().size(), printable(options.folder.string()),
                    options.listen.substr(0, options.listen.rfind(':')), dispatcher->port());
  GPEMU_TRY(report::finish_output());  // Whoever started it waits for this line.
  while (!interrupt.flag()) world.clock.wait_until(world.clock.now() + 50ms);
  return {};
}

Result<void> work(WorkOptions options, const World& world) {
  options.work.patience = options.patience.time();
  GPEMU_TRY(check_address("dispatcher", options.work.dispatcher, false));
  GPEMU_TRY(check_address("--listen", options.work.listen, true));
  const InterruptGuard interrupt;
  GPEMU_ASSIGN(const auto storage, make_storage({.storage = options.storage}, world));
  GPEMU_ASSIGN(service::Rpc * rpc, remote_calls(world));
  const auto open = [&](const std::string& place) -> Result<std::unique_ptr<data::Dataset>> {
    GPEMU_ASSIGN(
        data::Dataset dataset,
        open_dataset(options.folder.empty() ? std::filesystem::path(place) : options.folder, world,
                     options.patience, &interrupt.flag()));
    return std::make_unique<data::Dataset>(std::move(dataset));
  };
  GPEMU_ASSIGN(const auto totals,
               service::DataWorker::run(*rpc, options.work, open, storage.get(), world.clock,
                                        interrupt.flag(), [&](const std::string& address) {
                                          report::print_out(
                                              "working for {} at {}; Ctrl-C ends it\n",
                                              printable(options.work.dispatcher), address);
                                          static_cast<void>(report::finish_output());
                                        }));
  report::print_out("prepared {} images, sent {} batches\n", totals.samples, totals.batches);
  return {};
}

}  // namespace

void add_data_service_commands(Command data, const World& world) {
  auto dispatching = std::make_shared<DispatchOptions>();
  Command dispatcher = data.subcommand(
      "dispatch", "Divide a data set among workers that prepare batches for `gpemu train`");
  dispatcher
      .option("folder", dispatching->folder,
              "Folder with one folder of images per class, or files of another format")
      .required();
  dispatcher.option("--listen", dispatching->listen, "HOST:PORT of this host")
      .placeholder("ADDRESS")
      .show_default();
  add_patience_option(dispatcher, dispatching->patience);
  dispatcher.notes(
      "Workers are started with `gpemu data work`; `gpemu train service` takes "
      "their batches. Whoever reaches the address can use it: keep it in a network that you "
      "trust.\n\n"
      "Example:\n  gpemu data dispatch photos --listen 127.0.0.1:5050");
  dispatcher.on_run([dispatching, &world] { return dispatch(*dispatching, world); });

  auto working = std::make_shared<WorkOptions>();
  working->work.threads = report::usable_cores();
  working->work.listen = "127.0.0.1:0";
  Command worker = data.subcommand("work", "Prepare batches for the jobs of a dispatcher");
  worker.option("dispatcher", working->work.dispatcher, "HOST:PORT of `gpemu data dispatch`")
      .required();
  worker
      .option("--listen", working->work.listen,
              "HOST:PORT at which training reaches this worker; port 0: any that is free")
      .placeholder("ADDRESS")
      .show_default();
  worker.option("--workers", working->work.threads, "Threads that read and decode; default: cores")
      .range(1, 1024);
  worker.option("--data", working->folder,
                "Where the data set is on this host; default: where the dispatcher has it");
  worker.option("--storage", working->storage,
                "Read what the page cache does not have as slowly as this device, e.g. hdd");
  add_patience_option(worker, working->patience);
  worker.notes(
      "A worker may come and go at any time. When one dies, others prepare what it held.\n\n"
      "Examples:\n"
      "  gpemu data work 127.0.0.1:5050\n"
      "  taskset -c 1 gpemu data work 10.77.0.1:5050 --listen 10.77.0.2:0 --workers 1");
  worker.on_run([working, &world] { return work(*working, world); });
}

}  // namespace gpemu::tools
