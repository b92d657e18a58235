// SPDX-License-Identifier: Apache-2.0
#include "gpemu/service/data_dispatcher.hpp"

#include <utility>

#include "messages.hpp"

namespace gpemu::service {
namespace {

/// Calls that are answered at the same time; each takes microseconds.
constexpr int kDispatcherThreads = 4;

Message pack_work(const Dispatcher::Work& work) {
  Packer packer;
  packer.add(static_cast<std::uint8_t>(work.answer));
  pack(packer, work.split);
  return packer.take();
}

Message pack_progress(const Dispatcher::Progress& progress) {
  Packer packer;
  packer.add(static_cast<std::uint8_t>(progress.ended ? 1 : 0));
  packer.add(static_cast<std::uint32_t>(progress.workers.size()));
  for (const Dispatcher::Worker& worker : progress.workers) {
    packer.add(worker.id).add_text(worker.address);
  }
  return packer.take();
}

}  // namespace

DataDispatcher::DataDispatcher(const data::Dataset& dataset, std::string place,
                               const sim::Clock& clock)
    : dataset_(dataset),
      place_(std::move(place)),
      clock_(clock),
      dispatcher_([&dataset](std::uint64_t seed, std::uint64_t epoch) {
        return dataset.epoch_order(data::ReadOrder::kRandom, 1, seed, epoch);
      }) {}

Result<std::unique_ptr<DataDispatcher>> DataDispatcher::start(Rpc& rpc, const std::string& address,
                                                              const data::Dataset& dataset,
                                                              const std::string& place,
                                                              const sim::Clock& clock) {
  std::unique_ptr<DataDispatcher> started(new DataDispatcher(dataset, place, clock));
  GPEMU_ASSIGN(
      started->server_,
      rpc.serve(
          {.address = address, .threads = kDispatcherThreads, .most_request = kMostToDispatcher},
          [self = started.get()](std::string_view method, std::span<const std::byte> request) {
            return self->answer(method, request);
          }));
  return started;
}

Result<Message> DataDispatcher::answer(std::string_view method,
                                       std::span<const std::byte> request) {
  Unpacker unpacker(request);
  Packer packer;
  const Lock lock(mutex_);
  const TimePoint now = clock_.now();
  if (method == kJoin) {
    std::string address;
    unpacker.take_text(address);
    if (!unpacker.done()) return not_understood(method);
    GPEMU_ASSIGN(const std::uint64_t worker, dispatcher_.join(address, now));
    packer.add(worker);
    pack(packer, ServedData{place_, dataset_.samples().size(), dataset_.total_bytes()});
    return packer.take();
  }
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  if (method == kBeat) {
    unpacker.take(first);
    if (!unpacker.done()) return not_understood(method);
    GPEMU_ASSIGN(const auto jobs, dispatcher_.beat(first, now));
    packer.add(static_cast<std::uint32_t>(jobs.size()));
    for (const Dispatcher::OpenJob& job : jobs) {
      packer.add(job.job);
      pack(packer, job.settings);
    }
    return packer.take();
  }
  if (method == kWork) {
    unpacker.take(first);
    unpacker.take(second);
    if (!unpacker.done()) return not_understood(method);
    GPEMU_ASSIGN(const Dispatcher::Work work, dispatcher_.work(first, second, now));
    return pack_work(work);
  }
  if (method == kOpen) {
    std::string name;
    JobSettings settings;
    unpacker.take_text(name);
    unpack(unpacker, settings);
    if (!unpacker.done()) return not_understood(method);
    GPEMU_ASSIGN(const Dispatcher::Opened opened, dispatcher_.open(name, settings, now));
    packer.add(opened.job).add(opened.client);
    pack(packer, ServedData{place_, dataset_.samples().size(), dataset_.total_bytes()});
    return packer.take();
  }
  if (method == kFollow) {
    Dispatcher::Report report;
    unpacker.take(first);
    unpacker.take(second);
    unpacker.take_all(report.received);
    unpacker.take_all(report.dead_workers);
    if (!unpacker.done()) return not_understood(method);
    GPEMU_ASSIGN(const auto progress, dispatcher_.follow(first, second, report, now));
    return pack_progress(progress);
  }
  return not_understood(method);
}

}  // namespace gpemu::service
