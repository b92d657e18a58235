// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "cublaslt.hpp"

namespace {

constexpr uint32_t kMark = 0x67656d6d;

struct Matrices {
  const void* a;
  const void* b;
  const void* c;
  const void* d;
};

struct Product {
  int64_t batch, m, n, k;
  gpemu_data_type type, compute_type;
  bool along_sum;  ///< In both operands, the numbers of a sum lie next to each other.
};

struct Size {
  int64_t rows, columns;
};

Size size_of(const Layout& layout, int32_t transpose) {
  const auto rows = static_cast<int64_t>(layout.get<uint64_t>(kLayoutRows, 0));
  const auto columns = static_cast<int64_t>(layout.get<uint64_t>(kLayoutColumns, 0));
  return transpose == kNone ? Size{rows, columns} : Size{columns, rows};
}

/// Returns whether a matrix or a batch of them can have this size, and the leading dimension is
/// large enough for it. Tiled orders (beyond 1) have their own rules, which depend on the tile.
bool fits(const Layout& layout) {
  const auto order = layout.get<int32_t>(kLayoutOrder, kByColumns);
  const Size size = size_of(layout, kNone);
  const auto leading = layout.get<int64_t>(kLayoutLeading, 0);
  return size.rows >= 0 && size.columns >= 0 && layout.get<int32_t>(kLayoutBatch, 1) >= 0 &&
         (order > kByRows || leading >= (order == kByColumns ? size.rows : size.columns));
}

/// Returns whether the rows of all matrices begin at multiples of 16 bytes.
bool is_aligned(std::initializer_list<const void*> layouts, gpemu_data_type type) {
  constexpr int64_t kWidest = 16;
  return std::ranges::all_of(layouts, [type](const void* layout) {
    const Layout* const found = find_object<Layout>(layout);
    return found == nullptr ||
           found->get<int64_t>(kLayoutLeading, 0) * gpemu_data_type_bytes(type) % kWidest == 0;
  });
}

/// Whether the columns of a matrix, as the product takes it, lie in memory one after the other.
bool lies_by_columns(const Layout& layout, int32_t transpose) {
  return (layout.get<int32_t>(kLayoutOrder, kByColumns) == kByColumns) == (transpose == kNone);
}

/// Reads the description of a matmul.
int describe(const void* descriptor, const Matrices& matrices, Product* product) {
  const Matmul* const matmul = find_object<Matmul>(descriptor);
  const Layout* const a = find_object<Layout>(matrices.a);
  const Layout* const b = find_object<Layout>(matrices.b);
  const Layout* const c = find_object<Layout>(matrices.c);
  const Layout* const d = find_object<Layout>(matrices.d);
  if (matmul == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr) {
    return kInvalidValue;
  }
  const auto transpose_a = matmul->get<int32_t>(kMatmulTransposeA, kNone);
  const auto transpose_b = matmul->get<int32_t>(kMatmulTransposeB, kNone);
  const Size left = size_of(*a, transpose_a);
  const Size right = size_of(*b, transpose_b);
  const Size result = size_of(*d, kNone);
  if (left.columns != right.rows || result.rows != left.rows || result.columns != right.columns ||
      !fits(*a) || !fits(*b) || !fits(*d)) {
    return kInvalidValue;
  }
  const auto type = type_of_cuda(static_cast<int>(a->get<uint32_t>(kLayoutType, 0)));
  if (type == GPEMU_TYPE_UNKNOWN) {
    return kNotSupported;
  }
  const auto compute = matmul->get<int32_t>(kMatmulComputeType, 0);
  *product = {d->get<int32_t>(kLayoutBatch, 1),
              left.rows,
              right.columns,
              left.columns,
              type,
              compute_type_of_cublas(compute, type, false),
              !lies_by_columns(*a, transpose_a) && lies_by_columns(*b, transpose_b)};
  return kSuccess;
}

/// Returns the only algorithm, which needs no workspace.
HeuristicResult answer() {
  HeuristicResult result{};
  result.algorithm.configuration[kConfigurationSplitK] = 1;
  result.algorithm.mark = kMark;
  result.waves = 1.0F;
  return result;
}

bool is_algorithm(const Algorithm* algorithm) {
  return algorithm != nullptr && algorithm->mark == kMark;
}

/// Declares that the matrices of a layout are written. The end of tiles, of very many matrices, and
/// of matrices that no memory holds, is open.
int leave_matrices(const Layout& to, uint64_t address, const char* name,
                   gpemu_cuda_stream_handle stream) {
  const int64_t width =
      gpemu_data_type_bytes(type_of_cuda(static_cast<int>(to.get<uint32_t>(kLayoutType, 0))));
  const Size size = size_of(to, kNone);
  const auto order = to.get<int32_t>(kLayoutOrder, kByColumns);
  const auto batch = to.get<int32_t>(kLayoutBatch, 1);
  if (batch == 0 || size.rows == 0 || size.columns == 0) {
    return kSuccess;
  }
  gpemu_cuda_result written{};
  written.address = address;
  const auto leading = to.get<int64_t>(kLayoutLeading, 0);
  const int64_t rows = order == kByRows ? size.rows : size.columns;
  constexpr int32_t kMostCalls = 4096;
  if (order > kByRows || batch > kMostCalls ||
      times(rows, leading, width) >= static_cast<double>(kMostWork)) {
    written.bytes = static_cast<uint64_t>(entry_of(times(size.rows, size.columns, batch, width)));
    return status_of(gpemu_cuda_leave_uncomputed(&written, name, stream));
  }
  uint64_t stride = 0;
  if (!count_bytes(order == kByRows ? size.columns : size.rows, width, &written.bytes) ||
      !count_bytes(leading, width, &written.pitch) ||
      !count_bytes(to.get<int64_t>(kLayoutBatchStride, 0), width, &stride)) {
    return kInvalidValue;
  }
  written.rows = static_cast<uint64_t>(rows);
  for (int32_t i = 0; i < batch; ++i, written.address += stride) {
    if (const int status = status_of(gpemu_cuda_leave_uncomputed(&written, name, stream));
        status != kSuccess || stride == 0) {
      return status;
    }
  }
  return kSuccess;
}

/// Declares what the call writes to D; small plain products by columns are computed.
int write_product(const Matmul& matmul, const Product& p, const gpemu_cuda_product& places,
                  const Matrices& layouts, gpemu_cuda_stream_handle stream) {
  const Layout& a = *find_object<Layout>(layouts.a);
  const Layout& b = *find_object<Layout>(layouts.b);
  const Layout& d = *find_object<Layout>(layouts.d);
  gpemu_cuda_product product = places;
  product.m = p.m;
  product.n = p.n;
  product.k = p.k;
  product.batch = p.batch;
  product.leading_a = a.get<int64_t>(kLayoutLeading, 0);
  product.leading_b = b.get<int64_t>(kLayoutLeading, 0);
  product.leading_c = d.get<int64_t>(kLayoutLeading, 0);
  product.stride_a = a.get<int64_t>(kLayoutBatchStride, 0);
  product.stride_b = b.get<int64_t>(kLayoutBatchStride, 0);
  product.stride_c = d.get<int64_t>(kLayoutBatchStride, 0);
  product.transpose_a = matmul.get<int32_t>(kMatmulTransposeA, kNone);
  product.transpose_b = matmul.get<int32_t>(kMatmulTransposeB, kNone);
  product.type = p.type;
  product.type_c = type_of_cuda(static_cast<int>(d.get<uint32_t>(kLayoutType, 0)));
  const bool by_columns = a.get<int32_t>(kLayoutOrder, kByColumns) == kByColumns &&
                          b.get<int32_t>(kLayoutOrder, kByColumns) == kByColumns &&
                          d.get<int32_t>(kLayoutOrder, kByColumns) == kByColumns;
  if (!by_columns) {
    return leave_matrices(d, places.c, "cublasLtMatmul", stream);
  }
  product.known = product.beta == 0 &&
                          matmul.get<uint32_t>(kMatmulEpilogue, kNoEpilogue) == kNoEpilogue &&
                          matmul.get<int32_t>(kMatmulScaleType, kR32F) == kR32F &&
                          matmul.get<int32_t>(kMatmulPointerMode, kHostPointer) == kHostPointer
                      ? 1
                      : 0;
  return status_of(gpemu_cuda_multiply(&product, "cublasLtMatmul", stream));
}

int elementwise(const char* name, gpemu_data_type type, double elements,
                gpemu_cuda_stream_handle stream) {
  gpemu_operation operation{};
  operation.struct_size = sizeof(operation);
  operation.kind = GPEMU_OPERATION_ELEMENTWISE;
  operation.type = type;
  operation.name = name;
  operation.shape[0] = entry_of(elements);
  operation.shape[1] = entry_of(elements);
  operation.shape[2] = 1;
  return status_of(gpemu_cuda_submit(&operation, stream));
}

}  // namespace

GPEMU_SHIM_EXPORT int cublasLtMatmulAlgoGetHeuristic(void* handle, void* descriptor, void* a,
                                                     void* b, void* c, void* d, void* preference,
                                                     int requested, HeuristicResult* results,
                                                     int* returned) {
  if (find_object<Handle>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (find_object<Preference>(preference) == nullptr || requested <= 0 || results == nullptr ||
      returned == nullptr) {
    return kInvalidValue;
  }
  Product product{};
  if (const int status = describe(descriptor, {a, b, c, d}, &product); status != kSuccess) {
    *returned = 0;
    return status;
  }
  results[0] = answer();
  *returned = 1;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasLtMatmulAlgoCheck(void* handle, void* descriptor, void* a, void* b,
                                              void* c, void* d, const Algorithm* algorithm,
                                              HeuristicResult* result) {
  if (find_object<Handle>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (!is_algorithm(algorithm) || result == nullptr) {
    return kInvalidValue;
  }
  Product product{};
  if (const int status = describe(descriptor, {a, b, c, d}, &product); status != kSuccess) {
    return status;
  }
  const Algorithm checked = *algorithm;
  *result = answer();
  result->algorithm = checked;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasLtMatmulAlgoGetIds(void* handle, int /*compute*/, int /*scale_type*/,
                                               int a_type, int b_type, int /*c_type*/,
                                               int /*d_type*/, int requested, int* ids,
                                               int* returned) {
  if (find_object<Handle>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (requested <= 0 || ids == nullptr || returned == nullptr) {
    return kInvalidValue;
  }
  if (type_of_cuda(a_type) == GPEMU_TYPE_UNKNOWN || type_of_cuda(b_type) == GPEMU_TYPE_UNKNOWN) {
    return kNotSupported;
  }
  ids[0] = 0;
  *returned = 1;
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasLtMatmulAlgoInit(void* handle, int /*compute*/, int /*scale_type*/,
                                             int /*a_type*/, int /*b_type*/, int /*c_type*/,
                                             int /*d_type*/, int id, Algorithm* algorithm) {
  if (find_object<Handle>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (id < 0 || algorithm == nullptr) {
    return kInvalidValue;
  }
  *algorithm = answer().algorithm;
  algorithm->configuration[kConfigurationId] = static_cast<uint32_t>(id);
  return kSuccess;
}

// An attribute is 4 bytes, or 2 for the last two.
GPEMU_SHIM_EXPORT int cublasLtMatmulAlgoConfigSetAttribute(Algorithm* algorithm, int attribute,
                                                           const void* bytes, size_t size) {
  if (!is_algorithm(algorithm) || attribute <= kConfigurationId || attribute > kConfigurationLast ||
      bytes == nullptr || (size != 2 && size != 4)) {
    return kInvalidValue;
  }
  algorithm->configuration[attribute] = 0;
  std::memcpy(&algorithm->configuration[attribute], bytes, size);
  return kSuccess;
}

GPEMU_SHIM_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const Algorithm* algorithm,
                                                           int attribute, void* bytes, size_t size,
                                                           size_t* written) {
  if (!is_algorithm(algorithm) || attribute < 0 || attribute > kConfigurationLast) {
    return kInvalidValue;
  }
  const size_t have = attribute < kConfigurationFirstShort ? 4 : 2;
  if (written != nullptr) {
    *written = have;
  }
  if (size == 0) {
    return written == nullptr ? kInvalidValue : kSuccess;
  }
  if (bytes == nullptr || size != have) {
    return kInvalidValue;
  }
  std::memcpy(bytes, &algorithm->configuration[attribute], size);
  return kSuccess;
}

// An epilogue is fused: it adds no pass over the memory.
GPEMU_SHIM_EXPORT int cublasLtMatmul(void* handle, void* descriptor, const void* alpha,
                                     const void* a, void* a_layout, const void* b, void* b_layout,
                                     const void* beta, const void* /*c*/, void* c_layout, void* d,
                                     void* d_layout, const Algorithm* algorithm,
                                     void* /*workspace*/, size_t /*workspace_bytes*/,
                                     gpemu_cuda_stream_handle stream) {
  if (find_object<Handle>(handle) == nullptr) {
    return kNotInitialized;
  }
  if (alpha == nullptr || beta == nullptr || d == nullptr ||
      (algorithm != nullptr && !is_algorithm(algorithm))) {
    return kInvalidValue;
  }
  Product product{};
  if (const int status = describe(descriptor, {a_layout, b_layout, c_layout, d_layout}, &product);
      status != kSuccess) {
    return status;
  }
  if (product.m == 0 || product.n == 0 || product.batch == 0) {
    return kSuccess;
  }
  gpemu_operation operation{};
  operation.struct_size = sizeof(operation);
  operation.kind = GPEMU_OPERATION_MATMUL;
  operation.type = product.type;
  operation.compute_type = product.compute_type;
  operation.name = "cublasLtMatmul";
  operation.shape[0] = product.batch;
  operation.shape[1] = product.m;
  operation.shape[2] = product.n;
  operation.shape[3] = product.k;
  operation.shape[6] = product.along_sum ? 1 : 0;
  operation.access = is_aligned({a_layout, b_layout, d_layout}, product.type)
                         ? GPEMU_ACCESS_CONTIGUOUS
                         : GPEMU_ACCESS_STRIDED;
  // Without a sum, the result is only scaled.
  const int status = product.k == 0
                         ? elementwise("cublasLtMatmul", product.type,
                                       times(product.batch, product.m, product.n), stream)
                         : status_of(gpemu_cuda_submit(&operation, stream));
  if (status != kSuccess) {
    return status;
  }
  const Matmul& matmul = *find_object<Matmul>(descriptor);
  gpemu_cuda_product places{};
  places.a = address_of(a);
  places.b = address_of(b);
  places.c = address_of(d);
  if (matmul.get<int32_t>(kMatmulPointerMode, kHostPointer) == kHostPointer &&
      matmul.get<int32_t>(kMatmulScaleType, kR32F) == kR32F) {
    places.alpha = *static_cast<const float*>(alpha);
    places.beta = *static_cast<const float*>(beta);
  }
  return write_product(matmul, product, places, {a_layout, b_layout, c_layout, d_layout}, stream);
}

GPEMU_SHIM_EXPORT int cublasLtMatrixTransform(void* handle, void* descriptor, const void* alpha,
                                              const void* /*a*/, void* a_layout,
                                              const void* /*beta*/, const void* /*b*/,
                                              void* /*b_layout*/, void* c, void* c_layout,
                                              gpemu_cuda_stream_handle stream) {
  if (find_object<Handle>(handle) == nullptr) {
    return kNotInitialized;
  }
  const Layout* const from = find_object<Layout>(a_layout);
  const Layout* const to = find_object<Layout>(c_layout);
  if (find_object<Transform>(descriptor) == nullptr || from == nullptr || to == nullptr ||
      alpha == nullptr || c == nullptr || !fits(*from) || !fits(*to)) {
    return kInvalidValue;
  }
  const Size size = size_of(*to, kNone);
  const gpemu_data_type type = type_of_cuda(static_cast<int>(to->get<uint32_t>(kLayoutType, 0)));
  const double elements = times(size.rows, size.columns, to->get<int32_t>(kLayoutBatch, 1));
  const int status = elementwise("cublasLtMatrixTransform", type, elements, stream);
  if (status != kSuccess) {
    return status;
  }
  return leave_matrices(*to, address_of(c), "cublasLtMatrixTransform", stream);
}

// Nothing is cached: an answer takes no time worth saving.
GPEMU_SHIM_EXPORT int cublasLtHeuristicsCacheGetCapacity(size_t* capacity) {
  if (capacity == nullptr) {
    return kInvalidValue;
  }
  *capacity = 0;
  return kSuccess;
}
