// SPDX-License-Identifier: Apache-2.0
// The graph interface: descriptors, heuristics, plans, execution.
#include "backend.hpp"

#include <algorithm>
#include <string>

namespace {

/// The object behind a cudnnBackendDescriptor_t.
struct BackendHandle {
  std::shared_ptr<BackendDescriptor> descriptor;
};

BackendDescriptor* find_descriptor(const void* handle) {
  const BackendHandle* const found = find_object<BackendHandle>(handle);
  return found == nullptr ? nullptr : found->descriptor.get();
}

/// Bytes of one element of a cudnnBackendAttributeType_t.
size_t element_bytes(int type) {
  switch (type) {
    case kBooleanType:
    case kCharType:
      return 1;
    case kHandleType:
    case kInt64Type:
    case kDoubleType:
    case kVoidPointerType:
    case kDescriptorType:
      return 8;
    case kFractionType:
      return 16;
    default:
      return 4;  // enumerations, float, int32
  }
}

void set_int64(BackendDescriptor& descriptor, int attribute, int64_t value) {
  BackendValue stored{kInt64Type, 1, std::vector<std::byte>(sizeof(value)), {}};
  std::memcpy(stored.bytes.data(), &value, sizeof(value));
  descriptor.values[attribute] = std::move(stored);
}

void set_child(BackendDescriptor& descriptor, int attribute,
               std::shared_ptr<const BackendDescriptor> child) {
  descriptor.values[attribute] = {kDescriptorType, 1, {}, {std::move(child)}};
}

void set_notes(BackendDescriptor& engine, int attribute, int type,
               const std::vector<int32_t>& notes) {
  BackendValue stored{type, static_cast<int64_t>(notes.size()), {}, {}};
  stored.bytes.resize(notes.size() * sizeof(int32_t));
  if (!notes.empty()) {
    std::memcpy(stored.bytes.data(), notes.data(), stored.bytes.size());
  }
  engine.values[attribute] = std::move(stored);
}

bool contains(const std::vector<int64_t>& values, int64_t value) {
  return std::ranges::find(values, value) != values.end();
}

/// Fills in what an engine reports about itself.
void complete_engine(BackendDescriptor& engine) {
  const bool tensor_cores = engine.get<int64_t>(kEngineIndex, kPlain) == kTensorCores;
  set_notes(engine, kEngineNumericalNotes, kNumericalNoteType,
            tensor_cores ? std::vector<int32_t>{kTensorCoreNote} : std::vector<int32_t>{});
  set_notes(engine, kEngineBehaviourNotes, kBehaviourNoteType, {});
  engine.values[kEngineKnobs] = {kDescriptorType, 0, {}, {}};
  engine.values[kEngineLayouts] = {kDescriptorType, 0, {}, {}};
  engine.finalized = true;
}

int finalize_engine(BackendDescriptor& engine) {
  const BackendDescriptor* const graph = engine.child(kEngineGraph);
  if (graph == nullptr) {
    return kBadParam;
  }
  if (!contains(engines_of(*graph), engine.get<int64_t>(kEngineIndex, -1))) {
    return kUnsupported;
  }
  complete_engine(engine);
  return kSuccess;
}

int finalize_config(BackendDescriptor& config) {
  if (config.child(kConfigEngine) == nullptr) {
    return kBadParam;
  }
  // emplace keeps knobs that the caller chose, although no engine has one
  config.values.emplace(kConfigIntermediates, BackendValue{kDescriptorType, 0, {}, {}});
  config.values.emplace(kConfigKnobs, BackendValue{kDescriptorType, 0, {}, {}});
  set_int64(config, kConfigWorkspace, static_cast<int64_t>(kConvolutionWorkspaceBytes));
  return kSuccess;
}

int finalize_heuristics(BackendDescriptor& heuristics) {
  const auto found = heuristics.values.find(kHeuristicsGraph);
  if (found == heuristics.values.end() || found->second.descriptors.empty()) {
    return kBadParam;
  }
  const auto graph = found->second.descriptors.front();
  BackendValue results{kDescriptorType, 0, {}, {}};
  for (const int64_t index : engines_of(*graph)) {
    auto engine = std::make_shared<BackendDescriptor>();
    engine->kind = kEngineKind;
    set_child(*engine, kEngineGraph, graph);
    set_int64(*engine, kEngineIndex, index);
    complete_engine(*engine);
    auto config = std::make_shared<BackendDescriptor>();
    config->kind = kEngineConfigKind;
    set_child(*config, kConfigEngine, engine);
    (void)finalize_config(*config);
    config->finalized = true;
    results.descriptors.push_back(std::move(config));
  }
  results.count = static_cast<int64_t>(results.descriptors.size());
  heuristics.values[kHeuristicsResults] = std::move(results);
  return kSuccess;
}

/// Returns the graph that a plan executes, or null.
const BackendDescriptor* graph_of(const BackendDescriptor& plan) {
  const BackendDescriptor* const config = plan.child(kPlanConfig);
  const BackendDescriptor* const engine =
      config == nullptr ? nullptr : config->child(kConfigEngine);
  return engine == nullptr ? nullptr : engine->child(kEngineGraph);
}

int finalize_plan(BackendDescriptor& plan) {
  const BackendDescriptor* const graph = graph_of(plan);
  if (graph == nullptr) {
    return kBadParam;
  }
  const int64_t index =
      plan.child(kPlanConfig)->child(kConfigEngine)->get<int64_t>(kEngineIndex, kPlain);
  plan.operations = operations_of(*graph, index);
  if (plan.operations.empty()) {
    gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "cudnnBackendFinalize of an unknown graph");
    return kUnsupported;
  }
  set_int64(plan, kPlanWorkspace, static_cast<int64_t>(kConvolutionWorkspaceBytes));
  const std::string json = R"({"engine":)" + std::to_string(index) + "}";
  BackendValue text{kCharType, static_cast<int64_t>(json.size()) + 1, {}, {}};
  text.bytes.resize(json.size() + 1);
  std::memcpy(text.bytes.data(), json.c_str(), json.size() + 1);
  plan.values[kPlanJson] = std::move(text);
  return kSuccess;
}

int finalize_tensor(const BackendDescriptor& tensor) {
  const auto sizes = tensor.get_all<int64_t>(kTensorSizes);
  const auto strides = tensor.get_all<int64_t>(kTensorStrides);
  const bool valid = !sizes.empty() && sizes.size() == strides.size() &&
                     std::ranges::all_of(sizes, [](int64_t size) { return size > 0; }) &&
                     tensor.values.contains(kTensorType);
  return valid ? kSuccess : kBadParam;
}

int finalize(BackendDescriptor& descriptor) {
  switch (descriptor.kind) {
    case kTensorKind:
      return finalize_tensor(descriptor);
    case kGraphKind:
      if (descriptor.child(kGraphOperations) == nullptr) {
        return kBadParam;
      }
      set_int64(descriptor, kGraphEngineCount, 2);
      return kSuccess;
    case kHeuristicsKind:
      return finalize_heuristics(descriptor);
    case kEngineKind:
      return finalize_engine(descriptor);
    case kEngineConfigKind:
      return finalize_config(descriptor);
    case kPlanKind:
      return finalize_plan(descriptor);
    default:
      return kSuccess;
  }
}

/// Reads the descriptors that an attribute is set to.
int read_descriptors(const void* array, int64_t count, BackendValue* value) {
  const auto* const handles = static_cast<void* const*>(array);
  for (int64_t i = 0; i < count; ++i) {
    const BackendHandle* const found = find_object<BackendHandle>(handles[i]);
    if (found == nullptr) {
      return kBadParam;
    }
    if (!found->descriptor->finalized) {
      return kNotFinalized;
    }
    value->descriptors.push_back(found->descriptor);
  }
  return kSuccess;
}

/// Fills the caller's descriptors with the answer to a query.
int write_descriptors(const BackendValue& value, int64_t count, void* array) {
  const auto* const handles = static_cast<void* const*>(array);
  for (int64_t i = 0; i < count; ++i) {
    BackendDescriptor* const target = find_descriptor(handles[i]);
    const auto& source = value.descriptors[static_cast<size_t>(i)];
    if (target == nullptr || target->kind != source->kind) {
      return kBadParam;
    }
    *target = *source;
  }
  return kSuccess;
}

constexpr int64_t kMaxElements = 1 << 20;  // more than any attribute has

}  // namespace

GPEMU_SHIM_EXPORT int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
  if (descriptor == nullptr) {
    return kNullPointer;
  }
  if (kind < 0 || kind > kLastKind) {
    gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "cudnnBackendCreateDescriptor of an unknown type");
    return kUnsupported;
  }
  auto handle = std::make_unique<BackendHandle>(std::make_shared<BackendDescriptor>());
  handle->descriptor->kind = kind;
  *descriptor = alive<BackendHandle>().add(std::move(handle));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnBackendDestroyDescriptor(void* descriptor) {
  return descriptor == nullptr || alive<BackendHandle>().remove(descriptor) ? kSuccess : kBadParam;
}

// A descriptor is ready for use after its creation.
GPEMU_SHIM_EXPORT int cudnnBackendInitialize(void* descriptor) {
  return find_descriptor(descriptor) == nullptr ? kBadParam : kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnBackendSetAttribute(void* descriptor, int attribute, int type,
                                               int64_t count, const void* array) {
  BackendDescriptor* const found = find_descriptor(descriptor);
  if (found == nullptr || count < 0 || count > kMaxElements || type < 0 || type > kLastType) {
    return kBadParam;
  }
  if (array == nullptr && count > 0) {
    return kNullPointer;
  }
  if (found->finalized) {
    return kNotInitialized;  // as documented
  }
  if (found->kind == kPlanKind && attribute == kPlanJson) {
    gpemu_cuda_not_supported(GPEMU_SHIM_SONAME, "cudnnBackendSetAttribute of a serialised plan");
    return kUnsupported;
  }
  BackendValue value{type, count, {}, {}};
  if (type == kDescriptorType) {
    if (const int status = read_descriptors(array, count, &value); status != kSuccess) {
      return status;
    }
  } else if (count > 0) {
    value.bytes.resize(static_cast<size_t>(count) * element_bytes(type));
    std::memcpy(value.bytes.data(), array, value.bytes.size());
  }
  found->values[attribute] = std::move(value);
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnBackendGetAttribute(void* descriptor, int attribute, int type,
                                               int64_t requested, int64_t* count, void* array) {
  const BackendDescriptor* const found = find_descriptor(descriptor);
  if (found == nullptr || requested < 0) {
    return kBadParam;
  }
  if (!found->finalized) {
    return kNotInitialized;  // as documented
  }
  const auto value = found->values.find(attribute);
  if (value == found->values.end()) {
    return kUnsupported;
  }
  if (value->second.type != type) {
    return kAttributeType;
  }
  const int64_t have = value->second.count;
  if (count != nullptr) {
    *count = have;
  }
  const int64_t given = std::min(requested, have);
  if (array == nullptr || given == 0) {
    return kSuccess;
  }
  if (count != nullptr) {
    *count = given;
  }
  if (type == kDescriptorType) {
    return write_descriptors(value->second, given, array);
  }
  std::memcpy(array, value->second.bytes.data(), static_cast<size_t>(given) * element_bytes(type));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cudnnBackendFinalize(void* descriptor) {
  BackendDescriptor* const found = find_descriptor(descriptor);
  if (found == nullptr) {
    return kBadParam;
  }
  const int status = found->finalized ? static_cast<int>(kSuccess) : finalize(*found);
  found->finalized = status == kSuccess;
  return status;
}

namespace {

/// Returns the address of a tensor in a variant pack, or 0.
uint64_t address_in(const BackendDescriptor& pack, const BackendDescriptor& tensor) {
  const auto wanted = tensor.get<int64_t>(kTensorUniqueId, 0);
  const auto ids = pack.get_all<int64_t>(kPackUniqueIds);
  const auto pointers = pack.get_all<uint64_t>(kPackPointers);
  for (size_t i = 0; i < std::min(ids.size(), pointers.size()); ++i) {
    if (ids[i] == wanted) {
      return pointers[i];
    }
  }
  return 0;
}

/// Declares that a tensor is not computed, unless it stays within a graph.
int leave_tensor(const Context& context, const BackendDescriptor& tensor,
                 const BackendDescriptor& pack) {
  if (!is_in_memory(tensor)) {
    return kSuccess;
  }
  Written written{pointer_to(address_in(pack, tensor)), tensor.get<int32_t>(kTensorType, -1),
                  tensor.get_all<int64_t>(kTensorSizes)};
  if (tensor.get<int64_t>(kTensorVectorCount, 1) == 1) {
    written.strides = tensor.get_all<int64_t>(kTensorStrides);
  }
  written.ragged = tensor.child(kTensorRaggedOffset) != nullptr;
  return leave_uncomputed(kSuccess, context, "a graph of cuDNN", {written});
}

/// As above, for all tensors that are written by a descriptor's operations, or by the operations
/// that those contain, such as the softmax of an attention.
int leave_all_uncomputed(const Context& context, const BackendDescriptor& descriptor,
                         const BackendDescriptor& pack) {
  for (const auto& [attribute, value] : descriptor.values) {
    const bool is_output = std::ranges::find(kOutputs, attribute) != std::end(kOutputs);
    for (const auto& child : value.descriptors) {
      int status = kSuccess;
      if (child->kind != kTensorKind) {
        status = leave_all_uncomputed(context, *child, pack);
      } else if (is_output) {
        status = leave_tensor(context, *child, pack);
      }
      if (status != kSuccess) {
        return status;
      }
    }
  }
  return kSuccess;
}

}  // namespace

GPEMU_SHIM_EXPORT int cudnnBackendExecute(void* handle, void* plan, void* pack) {
  const Context* const context = find_object<Context>(handle);
  const BackendDescriptor* const executed = find_descriptor(plan);
  const BackendDescriptor* const variant = find_descriptor(pack);
  if (context == nullptr || executed == nullptr || variant == nullptr ||
      executed->kind != kPlanKind || variant->kind != kVariantPackKind) {
    return kBadParam;
  }
  if (!executed->finalized || !variant->finalized) {
    return kNotFinalized;
  }
  for (const gpemu_operation& operation : executed->operations) {
    if (const int status = submit(*context, operation); status != kSuccess) {
      return status;
    }
  }
  const BackendDescriptor* const graph = graph_of(*executed);
  return graph == nullptr ? static_cast<int>(kSuccess)
                          : leave_all_uncomputed(*context, *graph, *variant);
}
