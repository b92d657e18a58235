// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <memory>

#include "cublaslt.hpp"

namespace {

template <typename Kind>
int create(void** descriptor, Kind** made) {
  if (descriptor == nullptr) {
    return kInvalidValue;
  }
  *made = alive<Kind>().add(std::make_unique<Kind>());
  *descriptor = *made;
  return kSuccess;
}

// Destroying a null descriptor is not an error, as with free.
template <typename Kind>
int destroy(const void* descriptor) {
  return descriptor == nullptr || alive<Kind>().remove(descriptor) ? kSuccess : kInvalidValue;
}

constexpr size_t kLargestAttribute = 64;

template <typename Kind>
int set(const void* descriptor, int attribute, int last, const void* bytes, size_t size) {
  Kind* const found = find_object<Kind>(descriptor);
  if (found == nullptr || bytes == nullptr || attribute < 0 || attribute > last || size == 0 ||
      size > kLargestAttribute) {
    return kInvalidValue;
  }
  // An attribute with a default can only be replaced by one of the same size.
  if (const auto* const former = found->find(attribute);
      former != nullptr && former->size() != size) {
    return kInvalidValue;
  }
  found->set(attribute, bytes, size);
  return kSuccess;
}

template <typename Kind>
int get(const void* descriptor, int attribute, void* bytes, size_t size, size_t* written) {
  const Kind* const found = find_object<Kind>(descriptor);
  const auto* const value = found == nullptr ? nullptr : found->find(attribute);
  if (value == nullptr || (size == 0 && written == nullptr)) {
    return kInvalidValue;
  }
  if (written != nullptr) {
    *written = value->size();
  }
  if (size == 0) {
    return kSuccess;
  }
  if (bytes == nullptr || size != value->size()) {
    return kInvalidValue;
  }
  std::memcpy(bytes, value->data(), size);
  return kSuccess;
}

}  // namespace

GPEMU_SHIM_EXPORT int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows,
                                                 uint64_t columns, int64_t leading) {
  Layout* made = nullptr;
  if (const int status = create<Layout>(layout, &made); status != kSuccess) {
    return status;
  }
  made->set(kLayoutType, static_cast<uint32_t>(type));
  made->set(kLayoutOrder, int32_t{kByColumns});
  made->set(kLayoutRows, rows);
  made->set(kLayoutColumns, columns);
  made->set(kLayoutLeading, leading);
  made->set(kLayoutBatch, int32_t{1});
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasLtMatrixLayoutDestroy(void* layout) {
  return destroy<Layout>(layout);
}

GPEMU_SHIM_EXPORT int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute,
                                                       const void* bytes, size_t size) {
  return set<Layout>(layout, attribute, kLayoutLast, bytes, size);
}

GPEMU_SHIM_EXPORT int cublasLtMatrixLayoutGetAttribute(void* layout, int attribute, void* bytes,
                                                       size_t size, size_t* written) {
  return get<Layout>(layout, attribute, bytes, size, written);
}

GPEMU_SHIM_EXPORT int cublasLtMatmulDescCreate(void** descriptor, int compute_type,
                                               int scale_type) {
  Matmul* made = nullptr;
  if (const int status = create<Matmul>(descriptor, &made); status != kSuccess) {
    return status;
  }
  made->set(kMatmulComputeType, static_cast<int32_t>(compute_type));
  made->set(kMatmulScaleType, static_cast<int32_t>(scale_type));
  made->set(kMatmulTransposeA, int32_t{kNone});
  made->set(kMatmulTransposeB, int32_t{kNone});
  made->set(kMatmulEpilogue, kNoEpilogue);
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasLtMatmulDescDestroy(void* descriptor) {
  return destroy<Matmul>(descriptor);
}

GPEMU_SHIM_EXPORT int cublasLtMatmulDescSetAttribute(void* descriptor, int attribute,
                                                     const void* bytes, size_t size) {
  return set<Matmul>(descriptor, attribute, kMatmulLast, bytes, size);
}

GPEMU_SHIM_EXPORT int cublasLtMatmulDescGetAttribute(void* descriptor, int attribute, void* bytes,
                                                     size_t size, size_t* written) {
  return get<Matmul>(descriptor, attribute, bytes, size, written);
}

GPEMU_SHIM_EXPORT int cublasLtMatmulPreferenceCreate(void** preference) {
  Preference* made = nullptr;
  return create<Preference>(preference, &made);
}

GPEMU_SHIM_EXPORT int cublasLtMatmulPreferenceDestroy(void* preference) {
  return destroy<Preference>(preference);
}

GPEMU_SHIM_EXPORT int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute,
                                                           const void* bytes, size_t size) {
  return set<Preference>(preference, attribute, kPreferenceLast, bytes, size);
}

GPEMU_SHIM_EXPORT int cublasLtMatmulPreferenceGetAttribute(void* preference, int attribute,
                                                           void* bytes, size_t size,
                                                           size_t* written) {
  return get<Preference>(preference, attribute, bytes, size, written);
}

GPEMU_SHIM_EXPORT int cublasLtMatrixTransformDescCreate(void** descriptor, int scale_type) {
  Transform* made = nullptr;
  if (const int status = create<Transform>(descriptor, &made); status != kSuccess) {
    return status;
  }
  made->set(kTransformScaleType, static_cast<int32_t>(scale_type));
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasLtMatrixTransformDescDestroy(void* descriptor) {
  return destroy<Transform>(descriptor);
}

GPEMU_SHIM_EXPORT int cublasLtMatrixTransformDescSetAttribute(void* descriptor, int attribute,
                                                              const void* bytes, size_t size) {
  return set<Transform>(descriptor, attribute, kTransformLast, bytes, size);
}

GPEMU_SHIM_EXPORT int cublasLtMatrixTransformDescGetAttribute(void* descriptor, int attribute,
                                                              void* bytes, size_t size,
                                                              size_t* written) {
  return get<Transform>(descriptor, attribute, bytes, size, written);
}
