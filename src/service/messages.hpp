// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/packing.hpp"
#include "gpemu/service/dispatcher.hpp"
#include "gpemu/service/rpc.hpp"

namespace gpemu::service {

// The calls, by their names in gRPC. The dispatcher answers all but the last, which workers answer.
inline constexpr std::string_view kJoin = "/gpemu.DataService/Join";
inline constexpr std::string_view kBeat = "/gpemu.DataService/Beat";
inline constexpr std::string_view kWork = "/gpemu.DataService/Work";
inline constexpr std::string_view kOpen = "/gpemu.DataService/Open";
inline constexpr std::string_view kFollow = "/gpemu.DataService/Follow";
inline constexpr std::string_view kNext = "/gpemu.DataService/Next";

/// The most bytes of a request to a dispatcher: what a client may have received while the
/// dispatcher did not answer; of one to a worker; and of an answer of a dispatcher: a split of 2^20
/// samples.
inline constexpr Bytes kMostToDispatcher = kMiB;
inline constexpr Bytes kMostToWorker = 4 * kKiB;
inline constexpr Bytes kMostFromDispatcher = 5 * kMiB;

/// The data set of a dispatcher.
struct ServedData {
  std::string place;  ///< for workers, which must find it there.
  std::uint64_t images = 0;
  std::uint64_t bytes = 0;
};

inline void pack(Packer& packer, const JobSettings& settings) {
  packer.add(settings.batch).add(settings.epochs).add(settings.crop).add(settings.seed);
}
inline void unpack(Unpacker& unpacker, JobSettings& settings) {
  unpacker.take(settings.batch);
  unpacker.take(settings.epochs);
  unpacker.take(settings.crop);
  unpacker.take(settings.seed);
}
inline void pack(Packer& packer, const ServedData& data) {
  packer.add_text(data.place).add(data.images).add(data.bytes);
}
inline void unpack(Unpacker& unpacker, ServedData& data) {
  unpacker.take_text(data.place);
  unpacker.take(data.images);
  unpacker.take(data.bytes);
}
inline void pack(Packer& packer, const Split& split) {
  packer.add(split.number).add(split.epoch);
  packer.add_all(std::span<const std::uint32_t>(split.samples));
}
inline void unpack(Unpacker& unpacker, Split& split) {
  unpacker.take(split.number);
  unpacker.take(split.epoch);
  unpacker.take_all(split.samples);
}

[[nodiscard]] inline std::unexpected<Error> not_understood(std::string_view method) {
  return fail(ErrorCode::kCorruptData, "{}: not the message of this version of gpemu", method);
}

}  // namespace gpemu::service
