// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "abi.hpp"
#include "handle_table.hpp"
#include "library_types.hpp"
#include "library_work.hpp"
#include "shim.hpp"

/// A descriptor: attributes by number, each the bytes that the caller set.
///
/// The library checks an attribute's number and size against a table; its readers know its meaning.
class Descriptor {
 public:
  /// Keeps an attribute.
  void set(int attribute, const void* bytes, size_t size) {
    const auto* const first = static_cast<const std::byte*>(bytes);
    attributes_[attribute].assign(first, first + size);
  }

  template <typename Value>
  void set(int attribute, Value value) {
    set(attribute, &value, sizeof(value));
  }

  /// Returns the bytes of an attribute, or null if it was never set.
  [[nodiscard]] const std::vector<std::byte>* find(int attribute) const {
    const auto found = attributes_.find(attribute);
    return found == attributes_.end() ? nullptr : &found->second;
  }

  /// Returns an attribute, or `otherwise` if it was never set.
  template <typename Value>
  [[nodiscard]] Value get(int attribute, Value otherwise) const;

 private:
  std::map<int, std::vector<std::byte>> attributes_;
};

template <typename Value>
Value Descriptor::get(int attribute, Value otherwise) const {
  const auto* const bytes = find(attribute);
  if (bytes == nullptr || bytes->size() != sizeof(Value)) {
    return otherwise;
  }
  Value value{};
  __builtin_memcpy(&value, bytes->data(), sizeof(Value));
  return value;
}

/// What a cublasLtHandle_t holds.
struct Handle {};

struct Layout : Descriptor {};
struct Matmul : Descriptor {};
struct Preference : Descriptor {};
struct Transform : Descriptor {};

/// Returns the cublasStatus_t for a status of libgpemu.
int status_of(gpemu_cuda_status status);
