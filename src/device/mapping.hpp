// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "gpemu/base/error.hpp"
#include "gpemu/base/file.hpp"

namespace gpemu::device {

/// The memory of a segment: shared with the file, or this process's own.
class Mapping {
 public:
  Mapping() = default;
  /// Maps a file through a separate open file, so that no lock lives on with the mapping.
  /// Errors: kResourceLimit.
  [[nodiscard]] static Result<Mapping> of_file(int descriptor, std::size_t size);
  /// Errors: kResourceLimit.
  [[nodiscard]] static Result<Mapping> anonymous(std::size_t size);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  Mapping(void* data, std::size_t size) : data_(static_cast<std::byte*>(data)), size_(size) {}
  void forget();

  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  /// Its entry in the table that the SIGBUS handler reads; null without one.
  struct Guarded* guarded_ = nullptr;
};

}  // namespace gpemu::device
