// SPDX-License-Identifier: Apache-2.0
// The memory of tensors whose values are not computed.
#include <algorithm>

#include "cudnn.hpp"

namespace {

struct Dimension {
  int64_t size, stride;  // in bytes
};

/// Elements in a byte, for types of which several share one.
int64_t elements_in_byte(int data_type) {
  if (data_type == kBooleanData) {
    return 8;
  }
  return data_type == kFp4E2m1Data ? 2 : 1;
}

/// Bytes of packed elements.
uint64_t bytes_of(const Written& written) {
  const int64_t shared = elements_in_byte(written.data_type);
  const int64_t elements = entry_of(elements_of(written.sizes));
  return shared > 1 ? static_cast<uint64_t>((elements - 1) / shared + 1)
                    : static_cast<uint64_t>(entry_of(
                          times(elements, gpemu_data_type_bytes(type_of(written.data_type)))));
}

/// Returns whether elements are in memory by themselves, so that strides count them.
bool has_strides(const Written& written) {
  const int type = written.data_type;
  const bool grouped = type == kInt8x4Data || type == kUint8x4Data || type == kInt8x32Data;
  return !grouped && elements_in_byte(type) == 1 && written.strides.size() == written.sizes.size();
}

/// Returns the dimensions along which a tensor extends, the closest elements first.
std::vector<Dimension> dimensions_of(const Written& written, int64_t width) {
  std::vector<Dimension> dimensions;
  for (size_t i = 0; i < written.sizes.size(); ++i) {
    if (written.sizes[i] > 1 && written.strides[i] != 0) {
      dimensions.push_back({written.sizes[i], written.strides[i] * width});
    }
  }
  std::ranges::sort(dimensions, {}, &Dimension::stride);
  return dimensions;
}

/// Bytes from the first element to the end of the last.
double span_of(const Written& written, int64_t width) {
  double bytes = times(width);
  for (size_t i = 0; i < written.sizes.size(); ++i) {
    bytes += times(written.sizes[i] - 1, written.strides[i], width);
  }
  return bytes;
}

int leave(const Context& context, const char* name, const gpemu_cuda_result& result) {
  return status_of(gpemu_cuda_leave_uncomputed(&result, name, context.stream));
}

/// Leaves a tensor with strides: rows of bytes, and such rows along the outer dimensions.
int leave_strided(const Context& context, const char* name, const Written& written,
                  gpemu_cuda_result result) {
  constexpr double kMostPieces = 4096;
  const int64_t width = gpemu_data_type_bytes(type_of(written.data_type));
  const double span = span_of(written, width);
  result.bytes = static_cast<uint64_t>(entry_of(span));
  if (span >= static_cast<double>(kMostWork)) {
    return leave(context, name, result);  // no memory holds it
  }
  const auto dimensions = dimensions_of(written, width);
  auto next = dimensions.begin();
  int64_t bytes = width;
  for (; next != dimensions.end() && next->stride <= bytes; ++next) {
    bytes += (next->size - 1) * next->stride;
  }
  int64_t rows = 1, pitch = bytes;
  for (; next != dimensions.end() && (rows == 1 || next->stride == rows * pitch); ++next) {
    pitch = rows == 1 ? next->stride : pitch;
    rows *= next->size;
  }
  double pieces = 1;
  for (auto outer = next; outer != dimensions.end(); ++outer) {
    pieces *= times(outer->size);
  }
  if (pieces > kMostPieces) {
    result.updates = 1;  // The gaps do not belong to the tensor, so they stay.
    return leave(context, name, result);
  }
  result.bytes = static_cast<uint64_t>(bytes);
  result.pitch = static_cast<uint64_t>(pitch);
  result.rows = static_cast<uint64_t>(rows);
  const uint64_t first = result.address;
  for (int64_t piece = 0; piece < static_cast<int64_t>(pieces); ++piece) {
    int64_t offset = 0, rest = piece;
    for (auto outer = next; outer != dimensions.end(); ++outer) {
      offset += rest % outer->size * outer->stride;
      rest /= outer->size;
    }
    result.address = first + static_cast<uint64_t>(offset);
    if (const int status = leave(context, name, result); status != kSuccess) {
      return status;
    }
  }
  return kSuccess;
}

int leave_tensor(const Context& context, const char* name, const Written& written) {
  gpemu_cuda_result result{};
  result.address = address_of(written.elements);
  result.updates = written.updates ? 1 : 0;
  const bool backwards =
      std::ranges::any_of(written.strides, [](int64_t step) { return step < 0; });
  const gpemu_data_type type = type_of(written.data_type);
  if (written.ragged || backwards || type == GPEMU_TYPE_UNKNOWN) {  // from its start on
    result.bytes =
        type == GPEMU_TYPE_UNKNOWN ? 1 : static_cast<uint64_t>(gpemu_data_type_bytes(type));
    return leave(context, name, result);
  }
  result.rows = 1;
  if (has_strides(written)) {
    return leave_strided(context, name, written, result);
  }
  result.bytes = bytes_of(written);
  return leave(context, name, result);
}

}  // namespace

Written written_tensor(const void* descriptor, const void* elements, bool updates) {
  const Tensor* const tensor = find_object<Tensor>(descriptor);
  if (tensor == nullptr) {
    return {nullptr, kFloatData, {}};
  }
  return {elements,
          tensor->data_type,
          {tensor->sizes.begin(), tensor->sizes.end()},
          {tensor->strides.begin(), tensor->strides.end()},
          updates};
}

int leave_uncomputed(int status, const Context& context, const char* name,
                     std::initializer_list<Written> results) {
  for (const Written& written : results) {
    const bool is_empty = written.elements == nullptr || written.sizes.empty() ||
                          std::ranges::any_of(written.sizes, [](int64_t size) { return size < 1; });
    if (status != kSuccess || is_empty) {
      continue;
    }
    status = leave_tensor(context, name, written);
  }
  return status;
}
