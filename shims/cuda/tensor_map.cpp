// SPDX-License-Identifier: Apache-2.0
// Tensor maps, which a kernel passes to the copy engine of a multiprocessor. Kernels do not run, so
// no map is ever read; its arguments are checked as documented and stored in it.
#include <cstring>

#include "cuda.hpp"

namespace {

constexpr uint32_t kMaxRank = 5;

/// The content of a CUtensorMap, which is opaque to programs. Source of its size: cuda.h of CUDA
/// 12.8 and 13.2, CU_TENSOR_MAP_NUM_QWORDS.
struct TensorMap {
  uint64_t address;
  uint64_t dimensions[kMaxRank];
  uint32_t strides[kMaxRank];  // in units of 16 bytes
  uint16_t box[kMaxRank];
  uint8_t element_strides[kMaxRank];
  uint8_t type, rank, interleave, swizzle, promotion, fill;
  uint8_t reserved[36];
};
static_assert(sizeof(TensorMap) == 128);

// cuTensorMapEncodeTiled documents these limits.
constexpr uint64_t kAlignment = 16;
constexpr uint64_t kMaxDimension = uint64_t{1} << 32;
constexpr uint64_t kMaxStride = uint64_t{1} << 40;
constexpr uint32_t kMaxBox = 256;
constexpr uint32_t kMaxElementStride = 8;
constexpr uint64_t kAlignmentOfInterleave32 = 32;
constexpr uint32_t kMinRankOfInterleaved = 3;

// Returns the bytes of an element, 0 for types packed below a byte.
uint32_t bytes_of(int type) {
  switch (type) {
    case kTensorUint8:
      return 1;
    case kTensorUint16:
    case kTensorFloat16:
    case kTensorBfloat16:
      return 2;
    case kTensorUint32:
    case kTensorInt32:
    case kTensorFloat32:
    case kTensorFloat32Ftz:
    case kTensorTfloat32:
    case kTensorTfloat32Ftz:
      return 4;
    case kTensorUint64:
    case kTensorInt64:
    case kTensorFloat64:
      return 8;
    default:
      return 0;
  }
}

bool is_float(int type) {
  return type >= kTensorFloat16 && type <= kTensorTfloat32Ftz;
}

// Returns the bytes of a box's row that are swizzled; a row is no longer.
uint64_t swizzled_bytes(int swizzle) {
  switch (swizzle) {
    case kNoSwizzle:
      return UINT64_MAX;
    case kSwizzle32:
      return 32;
    case kSwizzle64:
      return 64;
    default:
      return 128;
  }
}

// Returns what addresses and strides are multiples of.
uint64_t alignment_of(int interleave) {
  return interleave == kInterleave32 ? kAlignmentOfInterleave32 : kAlignment;
}

bool are_sizes_valid(const TensorMap& map, const uint64_t* dimensions, const uint64_t* strides,
                     const uint32_t* box, const uint32_t* element_strides) {
  for (uint32_t index = 0; index < map.rank; ++index) {
    if (dimensions[index] == 0 || dimensions[index] > kMaxDimension || box[index] == 0 ||
        box[index] > kMaxBox || element_strides[index] == 0 ||
        element_strides[index] > kMaxElementStride) {
      return false;
    }
    if (index + 1 < map.rank &&
        (strides[index] % alignment_of(map.interleave) != 0 || strides[index] >= kMaxStride)) {
      return false;
    }
  }
  const uint64_t row_bytes = uint64_t{box[0]} * bytes_of(map.type);
  return map.interleave != kNoInterleave ||
         (row_bytes % kAlignment == 0 && row_bytes <= swizzled_bytes(map.swizzle));
}

}  // namespace

GPEMU_SHIM_EXPORT int cuTensorMapEncodeTiled(void* out, int type, uint32_t rank, void* address,
                                             const uint64_t* dimensions, const uint64_t* strides,
                                             const uint32_t* box, const uint32_t* element_strides,
                                             int interleave, int swizzle, int promotion, int fill) {
  const bool known = type >= 0 && type <= kTensorLast && interleave >= 0 &&
                     interleave <= kInterleave32 && swizzle >= 0 && swizzle <= kSwizzleLast &&
                     promotion >= 0 && promotion <= kPromotionLast &&
                     (fill == kFillZeros || (fill == kFillNan && is_float(type)));
  const uint32_t least_rank = interleave == kNoInterleave ? 1 : kMinRankOfInterleaved;
  if (out == nullptr || !known || rank < least_rank || rank > kMaxRank ||
      address_of(address) % alignment_of(interleave) != 0 || dimensions == nullptr ||
      box == nullptr || element_strides == nullptr || (rank > 1 && strides == nullptr)) {
    return kInvalidValue;
  }
  TensorMap map{};
  map.address = address_of(address);
  map.type = static_cast<uint8_t>(type);
  map.rank = static_cast<uint8_t>(rank);
  map.interleave = static_cast<uint8_t>(interleave);
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.promotion = static_cast<uint8_t>(promotion);
  map.fill = static_cast<uint8_t>(fill);
  if (!are_sizes_valid(map, dimensions, strides, box, element_strides)) {
    return kInvalidValue;
  }
  for (uint32_t index = 0; index < rank; ++index) {
    map.dimensions[index] = dimensions[index];
    map.box[index] = static_cast<uint16_t>(box[index]);
    map.element_strides[index] = static_cast<uint8_t>(element_strides[index]);
    if (index + 1 < rank) {
      map.strides[index] = static_cast<uint32_t>(strides[index] / kAlignment);
    }
  }
  std::memcpy(out, &map, sizeof(map));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cuTensorMapReplaceAddress(void* map, void* address) {
  if (map == nullptr || address_of(address) % kAlignment != 0) {
    return kInvalidValue;
  }
  const uint64_t value = address_of(address);
  std::memcpy(static_cast<char*>(map) + offsetof(TensorMap, address), &value, sizeof(value));
  return kSuccess;
}
