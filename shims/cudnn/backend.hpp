// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "cudnn.hpp"

struct BackendDescriptor;

/// The value of an attribute: bytes, or other descriptors as they were when it was set.
struct BackendValue {
  int type = 0;
  int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<std::shared_ptr<const BackendDescriptor>> descriptors;
};

/// One descriptor of the graph interface. A descriptor to which another one refers is shared, so
/// its handle may be destroyed before the other is used.
struct BackendDescriptor {
  int kind = 0;
  bool finalized = false;
  std::map<int, BackendValue> values;
  std::vector<gpemu_operation> operations;  // of a plan: the work of executing it

  /// Returns the descriptor that an attribute refers to, or null.
  [[nodiscard]] const BackendDescriptor* child(int attribute) const {
    const auto found = values.find(attribute);
    return found == values.end() || found->second.descriptors.empty()
               ? nullptr
               : found->second.descriptors.front().get();
  }

  /// Returns the values of an attribute; none if it was not set with this type.
  template <typename Value>
  [[nodiscard]] std::vector<Value> get_all(int attribute) const {
    const auto found = values.find(attribute);
    if (found == values.end()) {
      return {};
    }
    std::vector<Value> all(found->second.bytes.size() / sizeof(Value));
    if (!all.empty()) {
      std::memcpy(all.data(), found->second.bytes.data(), all.size() * sizeof(Value));
    }
    return all;
  }

  /// Returns the first value of an attribute.
  template <typename Value>
  [[nodiscard]] Value get(int attribute, Value otherwise) const {
    const auto all = get_all<Value>(attribute);
    return all.empty() ? otherwise : all.front();
  }
};

/// Returns whether a tensor has an address, unlike those within a graph and those given by value.
inline bool is_in_memory(const BackendDescriptor& tensor) {
  return tensor.get<uint8_t>(kTensorIsVirtual, 0) == 0 &&
         tensor.get<uint8_t>(kTensorIsByValue, 0) == 0;
}

/// Which engine runs a graph: on tensor cores or not.
constexpr int64_t kTensorCores = 0, kPlain = 1;

/// Returns the engines that can run a graph on the current device, the fastest first.
std::vector<int64_t> engines_of(const BackendDescriptor& graph);

/// Returns the operations that one run of a graph by an engine puts on a stream; empty if a part of
/// the graph is unknown.
std::vector<gpemu_operation> operations_of(const BackendDescriptor& graph, int64_t engine);
