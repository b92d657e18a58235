// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "cudnn.hpp"

/// cudnnBackendDescriptorType_t: those with a meaning here.
enum BackendKind : int {
  kConvolutionKind = 1,
  kEngineKind = 2,
  kEngineConfigKind = 3,
  kHeuristicsKind = 4,
  kPlanKind = 5,
  kConvolutionForwardKind = 10,
  kConvolutionBackwardFilterKind = 11,
  kConvolutionBackwardDataKind = 12,
  kGraphKind = 15,
  kVariantPackKind = 16,
  kTensorKind = 17,
  kMatmulKind = 19,
  kReductionKind = 22,
  kResampleForwardKind = 25,
  kResampleBackwardKind = 26,
  kNormForwardKind = 29,
  kNormBackwardKind = 30,
  kAttentionForwardKind = 41,
  kAttentionBackwardKind = 43,
  kLastKind = 50,
};

/// cudnnBackendAttributeName_t: those that are read here.
enum BackendAttribute : int {
  kConvolutionComputeType = 100,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kConfigEngine = 300,
  kConfigIntermediates = 301,
  kConfigKnobs = 302,
  kConfigWorkspace = 303,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanJson = 405,
  kGraphOperations = 801,
  kGraphEngineCount = 802,
  kTensorType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackWorkspace = 1003,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineKnobs = 1302,
  kEngineNumericalNotes = 1303,
  kEngineLayouts = 1304,
  kEngineBehaviourNotes = 1305,
};

/// cudnnBackendAttributeType_t: those that are used here.
enum BackendType : int {
  kInt64Type = 3,
  kNumericalNoteType = 11,
  kDescriptorType = 15,
  kBehaviourNoteType = 19,
  kCharType = 24,
  kLastType = 32,
};

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

/// Which engine runs a graph: on tensor cores or not.
enum Engine : int64_t { kTensorCores = 0, kPlain = 1 };

/// Returns the engines that can run a graph on the current device, the fastest first.
std::vector<int64_t> engines_of(const BackendDescriptor& graph);

/// Returns the operations that one run of a graph by an engine puts on a stream; empty if a part of
/// the graph is unknown.
std::vector<gpemu_operation> operations_of(const BackendDescriptor& graph, int64_t engine);
