// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "gpemu/data/loader.hpp"

#include "messages.hpp"

namespace gpemu::service {

/// What a worker answers a client.
enum class NextAnswer : std::uint8_t {
  kBatch,
  kNone,   ///< not now.
  kEnded,  ///< the job needs no more.
};

/// What is behind the pixels of a batch, which begin the message: so they are aligned.
struct BatchHeader {
  NextAnswer answer = NextAnswer::kNone;
  Split split;
  data::BatchWork work;
};

/// Appends a header to the pixels.
inline void add_header(Message& message, const BatchHeader& header) {
  Packer packer;
  packer.add(header.answer);
  pack(packer, header.split);
  packer.add(header.work.fetch.count()).add(header.work.prep.count());
  packer.add(header.work.bytes_read).add(header.work.corrupt);
  packer.add(static_cast<std::uint32_t>(packer.bytes().size()));
  message.insert(message.end(), packer.bytes().begin(), packer.bytes().end());
}

/// Takes the header off a message, which then has the pixels; false if there is none.
inline bool take_header(Message& message, BatchHeader& header) {
  std::uint32_t size = 0;
  if (message.size() < sizeof size) return false;
  std::memcpy(&size, message.data() + message.size() - sizeof size, sizeof size);
  if (message.size() - sizeof size < size) return false;
  const std::size_t pixels = message.size() - sizeof size - size;
  Unpacker unpacker(std::span<const std::byte>(message).subspan(pixels, size));
  std::int64_t fetch = 0;
  std::int64_t prep = 0;
  unpacker.take(header.answer);
  unpack(unpacker, header.split);
  unpacker.take(fetch);
  unpacker.take(prep);
  unpacker.take(header.work.bytes_read);
  unpacker.take(header.work.corrupt);
  header.work.fetch = Duration(fetch);
  header.work.prep = Duration(prep);
  message.resize(pixels);
  return unpacker.done();
}

}  // namespace gpemu::service
