// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "gpemu/base/mutex.hpp"
#include "gpemu/gpemu.h"

#include "guard.hpp"
#include "handles.hpp"

using gpemu::guard;
using gpemu::require;
using gpemu::Result;

gpemu_status gpemu_rendezvous_create_group(gpemu_node* node, int32_t parties,
                                           char id[GPEMU_GROUP_ID_BYTES]) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_create_group", node, id));
    GPEMU_ASSIGN(const gpemu::device::GroupId group,
                 gpemu::device::Rendezvous::create_group(*node->node, parties));
    const std::string text = group.to_string();
    GPEMU_CHECK(text.size() < GPEMU_GROUP_ID_BYTES, "a group's id fits its buffer");
    std::ranges::fill(id, id + GPEMU_GROUP_ID_BYTES, '\0');
    text.copy(id, text.size());
    return {};
  });
}

gpemu_status gpemu_rendezvous_join(gpemu_node* node, const char* id, int32_t seat,
                                   gpemu_rendezvous** rendezvous) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_join", node, id, rendezvous));
    GPEMU_ASSIGN(const gpemu::device::GroupId group, gpemu::device::GroupId::parse(id));
    GPEMU_ASSIGN(auto party,
                 gpemu::device::Rendezvous::join(node->node, group, seat, *node->clock));
    *rendezvous = new gpemu_rendezvous{node->clock, std::move(party)};
    return {};
  });
}

void gpemu_rendezvous_leave(gpemu_rendezvous* rendezvous) {
  delete rendezvous;
}

gpemu_status gpemu_rendezvous_arrive(gpemu_rendezvous* rendezvous, gpemu_stream* stream,
                                     int64_t cost_ns, gpemu_event* end) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_arrive", rendezvous, stream));
    GPEMU_TRY(gpemu::check_duration(cost_ns, "gpemu_rendezvous_arrive"));
    GPEMU_ASSIGN(gpemu::device::Moment moment,
                 rendezvous->party->arrive(*stream->stream, gpemu::Duration(cost_ns)));
    if (end == nullptr) return {};
    const gpemu::Lock lock(end->mutex);
    end->event = gpemu::device::Event(std::move(moment));
    end->clock = stream->device.clock;
    return {};
  });
}

gpemu_status gpemu_rendezvous_check(gpemu_rendezvous* rendezvous) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_check", rendezvous));
    return rendezvous->party->check();
  });
}

gpemu_status gpemu_rendezvous_synchronize(gpemu_rendezvous* rendezvous, gpemu_stream* stream,
                                          int64_t timeout_ns) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_synchronize", rendezvous, stream));
    GPEMU_TRY(stream->device.device->check_owner());
    return rendezvous->party->wait(
        stream->stream->tail(),
        timeout_ns < 0 ? std::nullopt : std::optional(gpemu::Duration(timeout_ns)));
  });
}

gpemu_status gpemu_rendezvous_statistics(gpemu_rendezvous* rendezvous,
                                         gpemu_round_statistics* statistics) {
  return guard([=]() -> Result<void> {
    GPEMU_TRY(require("gpemu_rendezvous_statistics", rendezvous, statistics));
    GPEMU_ASSIGN(const gpemu::device::RoundStatistics rounds, rendezvous->party->statistics());
    const gpemu_round_statistics filled{.struct_size = 0,
                                        .rounds = rounds.rounds,
                                        .median_late_ns = rounds.median_late.count(),
                                        .latest_ns = rounds.latest.count(),
                                        .settling_cpu_ns = rounds.settling.count()};
    return gpemu::fill(statistics, filled, "gpemu_rendezvous_statistics");
  });
}
