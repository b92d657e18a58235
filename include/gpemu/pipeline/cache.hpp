// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::pipeline {

/// A file of a data set, by its number.
using FileId = std::uint32_t;

/// How a cache chooses the files that it keeps.
enum class CachePolicy : std::uint8_t {
  kPage,        ///< the page cache: whole files, in pages; the least recently used leave first.
  kRandom,      ///< the same, but any file may leave.
  kMinio,       ///< CoorDL's MinIO: the first files that are read stay, until it is full.
  kSmallFirst,  ///< MinIO, but only for files up to the size at which those of it just fit.
};
inline constexpr std::array<std::string_view, 4> kCachePolicyNames = {"page", "random", "minio",
                                                                      "small-first"};

/// The cache of one node. A policy of your own is a class that implements this: simulate() takes it
/// as NodeCaches::Options::make; a line in make_cache() gives it a name. Deterministic. Thread
/// safety: none.
class Cache {
 public:
  Cache() = default;
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;
  virtual ~Cache() = default;

  /// Reads a file: returns whether the cache held it. If it did not, it now may.
  virtual bool read(FileId file) = 0;
  [[nodiscard]] virtual bool holds(FileId file) const = 0;
  /// Returns the bytes that it holds, at most its capacity.
  [[nodiscard]] virtual Bytes used() const = 0;
  /// Says that the file may be read soon. It changes nothing, but a large cache may have the
  /// processor fetch what it knows of the file.
  virtual void prefetch(FileId /*file*/) const {}
};

/// Makes an empty cache. `sizes`, the bytes of each file, must outlive it. The seed matters for
/// kRandom.
[[nodiscard]] std::unique_ptr<Cache> make_cache(CachePolicy policy, Bytes capacity,
                                                std::span<const std::uint32_t> sizes,
                                                std::uint64_t seed = 0);

/// Returns the largest size such that all files up to it fit into the capacity together; 0 if none
/// fit.
[[nodiscard]] std::uint32_t largest_cached_size(std::span<const std::uint32_t> sizes,
                                                Bytes capacity);

inline constexpr Bytes kPageBytes = 4096;

/// Returns what a file takes of a page cache.
[[nodiscard]] constexpr Bytes page_bytes(Bytes bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

}  // namespace gpemu::pipeline
