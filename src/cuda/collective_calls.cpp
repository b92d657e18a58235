// SPDX-License-Identifier: Apache-2.0
#include "collective_calls.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "gpemu/process/attach.hpp"
#include "gpemu/process/faults.hpp"
#include "gpemu/process/recorder.hpp"
#include "gpemu/ranks/communicator_start.hpp"
#include "gpemu/ranks/exchange.hpp"
#include "gpemu/ranks/link_traffic.hpp"
#include "gpemu/streams/host_functions.hpp"

#include "capture.hpp"
#include "stream.hpp"

namespace gpemu::cuda {
namespace {

/// A call whose arguments are valid.
struct CheckedCall {
  std::shared_ptr<ranks::Communicator> communicator;
  ranks::CollectiveCall call;
  gpemu_cuda_stream* stream = nullptr;
  int other = 0;  ///< of a transfer: the other rank.

  [[nodiscard]] bool is_transfer() const {
    return call.kind == GPEMU_CUDA_SEND || call.kind == GPEMU_CUDA_RECEIVE;
  }
  [[nodiscard]] std::pair<int, int> ranks() const {
    const int own = communicator->place().rank;
    return call.kind == GPEMU_CUDA_SEND ? std::pair(own, other) : std::pair(other, own);
  }
};

bool has_root(gpemu_cuda_collective kind) {
  return kind == GPEMU_CUDA_REDUCE || kind == GPEMU_CUDA_BROADCAST || kind == GPEMU_CUDA_GATHER ||
         kind == GPEMU_CUDA_SCATTER;
}

/// Finds a call's stream. NULL and 1 are the default stream of the communicator's device. Errors:
/// INVALID_HANDLE, INVALID_VALUE for a stream of another device.
process::Status find_stream(const gpemu_cuda_comm_call& from, CheckedCall& checked) {
  process::DeviceState& device = checked.communicator->device();
  if (reinterpret_cast<std::uintptr_t>(from.stream) <= 1) {
    checked.stream = device.default_stream;
    GPEMU_CUDA_TRY(check_legacy_stream(*checked.stream, true));
  } else {
    GPEMU_CUDA_TRY(resolve_for_work(from.stream, &checked.stream));
  }
  return checked.stream->device == &device ? GPEMU_CUDA_SUCCESS : GPEMU_CUDA_ERROR_INVALID_VALUE;
}

/// Returns whether a call's source and destination are memory of this process.
bool has_memory(const CheckedCall& checked) {
  // The sender of a pair is its rank 0.
  return ranks::is_in_memory(checked.call,
                             checked.is_transfer()
                                 ? ranks::Place{checked.call.kind == GPEMU_CUDA_SEND ? 0 : 1, 2}
                                 : checked.communicator->place());
}

process::Status check_call(const gpemu_cuda_comm_call& from, CheckedCall* checked) {
  const gpemu_cuda_comm* const found = ranks::communicators().find(from.comm);
  if (found == nullptr) return GPEMU_CUDA_ERROR_INVALID_HANDLE;
  checked->communicator = found->communicator;
  const ranks::Place place = checked->communicator->place();
  ranks::CollectiveCall& call = checked->call;
  call = {.kind = from.collective,
          .type = from.type,
          .reduction = ranks::reduces(from.collective) ? from.reduction : GPEMU_CUDA_COMM_SUM,
          .root = has_root(from.collective) ? from.root : 0,
          .count = from.count,
          .source = from.source,
          .destination = from.destination};
  std::memcpy(call.scale.data(), from.scale, sizeof(from.scale));
  checked->other = from.root;
  const auto is_in = [](auto value, auto last) {
    return static_cast<unsigned>(value) <= static_cast<unsigned>(last);
  };
  if (!is_in(call.kind, GPEMU_CUDA_RECEIVE) || ranks::element_bytes(call.type) == 0 ||
      !is_in(call.reduction, GPEMU_CUDA_COMM_SCALED_SUM) || call.root < 0 ||
      call.root >= place.ranks || !ranks::call_fits(call, place.ranks)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (checked->is_transfer() &&
      (checked->other < 0 || checked->other >= place.ranks || checked->other == place.rank)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  // Ranks that pass data on, as in a pipeline, do not do the same.
  if (checked->communicator->has_phantoms() && checked->is_transfer() &&
      checked->other >= checked->communicator->real_ranks()) {
    process::record_not_supported(
        "libnccl.so.2", "a send to or receive from a rank that does not run (--ranks-for-real)");
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  if (call.kind == GPEMU_CUDA_SCATTER && call.root >= checked->communicator->real_ranks()) {
    process::record_not_supported("libnccl.so.2",
                                  "a scatter from a rank that does not run (--ranks-for-real)");
    return GPEMU_CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!has_memory(*checked)) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  return find_stream(from, *checked);
}

/// Records a collective, and returns what records its end.
std::function<void(const device::RoundTimes&)> record_round(const ranks::Communicator& communicator,
                                                            const CheckedCall& checked,
                                                            std::uint64_t number) {
  const ranks::Place place = checked.communicator->place();
  const process::RecordedCollective work{
      .device = &communicator.device(),
      .stream_id = checked.stream->id,
      .name = ranks::collective_name(checked.call.kind),
      .type = ranks::comm_type_name(checked.call.type),
      .bytes = ranks::collective_bytes(checked.call, place.ranks),
      .bus_factor = ranks::bus_factor_of(checked.call.kind, place.ranks),
      .rank = place.rank,
      .ranks = place.ranks,
      .peer = checked.is_transfer() ? checked.other : -1,
      .communicator = communicator.tag(),
      .number = number,
      .asked = process::process().clock->now()};
  const std::uint64_t recorded = process::record_collective(work);
  // The communicator outlives its rounds.
  return [work, recorded, &communicator, call = checked.call](const device::RoundTimes& times) {
    ranks::count_collective(communicator, call, {work.rank, work.ranks});
    if (recorded == 0) return;
    process::record_collective_end(work, recorded, times,
                                   communicator.members()[times.last].device);
  };
}

/// Tells of the first rank that has announced another call. Of two ranks at least one sees the call
/// of the other.
void find_mismatch(const ranks::Exchange& exchange) {
  ranks::Communicator& communicator = *exchange.communicator;
  const ranks::CollectiveCall& own = exchange.call;
  for (int rank = 0; rank < communicator.real_ranks(); ++rank) {
    if (rank == communicator.place().rank ||
        !communicator.mailbox().has_announced(rank, exchange.number)) {
      continue;
    }
    const ranks::CollectiveCall other = communicator.mailbox().call(rank, exchange.number);
    if (!own.matches(other)) return communicator.tell_mismatch(own, rank, other);
  }
}

/// Queues one collective, or a transfer of a pair's communicator.
process::Status run_round(const std::shared_ptr<ranks::Communicator>& communicator,
                          const CheckedCall& checked, device::Stream& stream,
                          const ranks::CollectiveCost& cost, device::Moment* end) {
  process::count_for_faults(communicator->device());
  GPEMU_CUDA_TRY(process::check_device(communicator->device()));
  GPEMU_CUDA_TRY(ranks::check_links(*communicator));
  ranks::Exchange exchange{
      .communicator = communicator, .call = checked.call, .stream = checked.stream};
  GPEMU_CUDA_TRY(communicator->begin(&exchange.number));
  streams::follow(*checked.stream);
  communicator->mailbox().announce(exchange.number, exchange.call);
  const std::vector<ranks::Communicator::Awaiting> awaiting = ranks::post_source(exchange);
  find_mismatch(exchange);
  const process::Status arrived = communicator->arrive(
      stream, cost, record_round(*communicator, checked, exchange.number), end);
  ranks::Communicator::ring_soon(awaiting);
  if (arrived != GPEMU_CUDA_SUCCESS) return arrived;
  ranks::take_result(exchange, *end);
  return GPEMU_CUDA_SUCCESS;
}

process::Status run_collective(const CheckedCall& checked) {
  // A collective of nothing takes no part in NCCL either.
  if (checked.call.count == 0) return GPEMU_CUDA_SUCCESS;
  device::Moment end;
  return run_round(checked.communicator, checked, *checked.stream->stream,
                   ranks::cost_of(*checked.communicator, checked.call, 0), &end);
}

/// Makes the communicators of pairs that have none.
process::Status make_pairs(std::span<const CheckedCall> transfers) {
  std::vector<ranks::CommunicatorStart> starts;
  std::vector<const CheckedCall*> first;
  for (const CheckedCall& transfer : transfers) {
    const auto [sender, receiver] = transfer.ranks();
    const bool is_first = std::ranges::none_of(first, [&](const CheckedCall* other) {
      return other->communicator == transfer.communicator && other->ranks() == transfer.ranks();
    });
    if (transfer.communicator->pair(sender, receiver) != nullptr || !is_first) continue;
    first.push_back(&transfer);
    starts.push_back(ranks::start_of_pair(*transfer.communicator, sender, receiver));
  }
  if (starts.empty()) return GPEMU_CUDA_SUCCESS;
  std::vector<std::shared_ptr<ranks::Communicator>> made;
  GPEMU_CUDA_TRY(ranks::start_communicators(starts, &made, [&first] {
    return std::ranges::any_of(
        first, [](const CheckedCall* call) { return call->communicator->is_aborted(); });
  }));
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto [sender, receiver] = first[i]->ranks();
    first[i]->communicator->keep_pair(sender, receiver, made[i]);
  }
  return GPEMU_CUDA_SUCCESS;
}

/// Queues transfers, which run side by side: in streams of their own, which begin where the
/// program's streams are and for which these wait.
process::Status run_transfers(std::span<const CheckedCall> transfers) {
  GPEMU_CUDA_TRY(make_pairs(transfers));
  struct Load {
    Bytes sent = 0, received = 0;
  };
  std::map<const ranks::Communicator*, Load> loads;
  std::vector<device::Moment> begins;
  for (const CheckedCall& transfer : transfers) {
    Load& load = loads[transfer.communicator.get()];
    const Bytes bytes = transfer.call.count * ranks::element_bytes(transfer.call.type);
    (transfer.call.kind == GPEMU_CUDA_SEND ? load.sent : load.received) += bytes;
    begins.push_back(transfer.stream->stream->tail());
  }
  std::vector<device::Moment> ends(transfers.size());
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const CheckedCall& transfer = transfers[i];
    const auto [sender, receiver] = transfer.ranks();
    const auto pair = transfer.communicator->pair(sender, receiver);
    if (pair == nullptr) return GPEMU_CUDA_ERROR_ILLEGAL_STATE;
    const Load& load = loads[transfer.communicator.get()];
    const bool is_alone = transfers.size() == 1;
    device::Stream& stream = is_alone ? *transfer.stream->stream : pair->own_stream();
    if (!is_alone) stream.wait(begins[i]);
    GPEMU_CUDA_TRY(run_round(
        pair, transfer, stream,
        ranks::cost_of(*pair, transfer.call, std::max(load.sent, load.received)), &ends[i]));
  }
  if (transfers.size() == 1) return GPEMU_CUDA_SUCCESS;
  for (std::size_t i = 0; i < transfers.size(); ++i) transfers[i].stream->stream->wait(ends[i]);
  return GPEMU_CUDA_SUCCESS;
}

/// Queues a call, or has a graph do so at each launch.
process::Status queue_collective(const CheckedCall& checked) {
  if (!capturing(*checked.stream)) return run_collective(checked);
  return capture_call(*checked.stream, [checked](gpemu_cuda_stream& stream) -> process::Status {
    CheckedCall launched = checked;
    launched.stream = &stream;
    if (!has_memory(launched)) return GPEMU_CUDA_ERROR_INVALID_VALUE;
    const process::Status status = run_collective(launched);
    return status == GPEMU_CUDA_SUCCESS ? status : launched.communicator->note(status);
  });
}

/// The same for the transfers of a group. A graph has one node for all of them. Errors:
/// STREAM_CAPTURE_UNSUPPORTED.
process::Status queue_transfers(std::span<const CheckedCall> transfers) {
  gpemu_cuda_stream& stream = *transfers.front().stream;
  const auto is_captured = [](const CheckedCall& call) { return capturing(*call.stream); };
  if (std::ranges::none_of(transfers, is_captured)) return run_transfers(transfers);
  if (std::ranges::any_of(transfers,
                          [&stream](const CheckedCall& call) { return call.stream != &stream; })) {
    process::record_not_supported("libnccl.so.2",
                                  "one group's transfers in several streams in a graph");
    return GPEMU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  // Ranks connect when they first call, captured or not: a launch must not wait for another host.
  GPEMU_CUDA_TRY(make_pairs(transfers));
  std::vector<CheckedCall> captured(transfers.begin(), transfers.end());
  return capture_call(
      stream, [captured = std::move(captured)](gpemu_cuda_stream& launching) -> process::Status {
        std::vector<CheckedCall> launched = captured;
        for (CheckedCall& call : launched) {
          call.stream = &launching;
          if (!has_memory(call)) return GPEMU_CUDA_ERROR_INVALID_VALUE;
        }
        return run_transfers(launched);
      });
}

/// Phantoms that are roots of broadcasts have what their models have. If the model is a root in the
/// same group, as where parts of different sizes are gathered, that is its source there, else what
/// is where the broadcast goes to, as in the broadcasts in place of DDP.
void broadcast_from_models(std::vector<CheckedCall>& calls) {
  const auto is_broadcast = [](const CheckedCall& checked) {
    return checked.call.kind == GPEMU_CUDA_BROADCAST;
  };
  for (CheckedCall& phantom : calls) {
    const ranks::Communicator& communicator = *phantom.communicator;
    const int rank = communicator.place().rank;
    const int model = communicator.model_of(phantom.call.root);
    if (!is_broadcast(phantom) || phantom.call.root == model) continue;
    phantom.call.root = model;
    if (rank != model) continue;
    const auto own = std::ranges::find_if(calls, [&](const CheckedCall& other) {
      return is_broadcast(other) && other.communicator == phantom.communicator &&
             other.other == rank && other.call.type == phantom.call.type &&
             other.call.count == phantom.call.count;
    });
    phantom.call.source = own == calls.end() ? phantom.call.destination : own->call.source;
  }
}

}  // namespace

process::Status find_expected_time(std::span<const gpemu_cuda_comm_call> calls,
                                   double* microseconds) {
  GPEMU_CUDA_TRY(process::attach());
  double expected = -1;
  for (const gpemu_cuda_comm_call& call : calls) {
    CheckedCall checked;
    GPEMU_CUDA_TRY(check_call(call, &checked));
    // NCCL makes the others of sends and receives, for which its tuner expects nothing.
    if (call.collective > GPEMU_CUDA_ALL_GATHER || checked.communicator->place().ranks == 1) {
      continue;
    }
    expected = ranks::tuner_seconds(*checked.communicator, checked.call) * 1e6;
  }
  *microseconds = expected;
  return GPEMU_CUDA_SUCCESS;
}

process::Status run_collectives(std::span<const gpemu_cuda_comm_call> calls) {
  GPEMU_CUDA_TRY(process::attach());
  std::vector<CheckedCall> collectives, transfers;
  for (const gpemu_cuda_comm_call& call : calls) {
    CheckedCall checked;
    GPEMU_CUDA_TRY(check_call(call, &checked));
    if (!checked.is_transfer()) {
      collectives.push_back(std::move(checked));
    } else if (checked.call.count != 0) {
      transfers.push_back(std::move(checked));
    }
  }
  broadcast_from_models(collectives);
  for (const CheckedCall& call : collectives) {
    const process::Status status = queue_collective(call);
    if (status != GPEMU_CUDA_SUCCESS) return call.communicator->note(status);
  }
  if (transfers.empty()) return GPEMU_CUDA_SUCCESS;
  const process::Status status = queue_transfers(transfers);
  if (status == GPEMU_CUDA_SUCCESS) return status;
  for (const CheckedCall& call : transfers) static_cast<void>(call.communicator->note(status));
  return status;
}

}  // namespace gpemu::cuda
