// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cusparse.hpp"
#include "handle_table.hpp"
#include "library_types.hpp"

namespace {

// cusparseMatDescr_t: the older interface's description of a matrix.
struct Description {
  int type = 0, fill = 0, diagonal = 0, base = 0;
};

// The state of an algorithm between its steps.
struct Progress {};

bool valid_indices(const Matrix& matrix) {
  const auto valid = [](int type) { return type >= kIndex16 && type <= kIndex64; };
  return matrix.index_base >= 0 && matrix.index_base <= kLastIndexBase &&
         valid(matrix.row_index_type) && valid(matrix.column_index_type);
}

int keep(void** descriptor, const Matrix& matrix) {
  if (descriptor == nullptr || matrix.rows < 0 || matrix.columns < 0 || matrix.entries < 0 ||
      type_of_cuda(matrix.value_type) == GPEMU_TYPE_UNKNOWN ||
      (matrix.sparse && !valid_indices(matrix))) {
    return kInvalidValue;
  }
  *descriptor = alive<Matrix>().add(std::make_unique<Matrix>(matrix));
  return kSuccess;
}

int drop(const void* descriptor) {
  return descriptor == nullptr || alive<Matrix>().remove(descriptor) ? kSuccess : kInvalidValue;
}

int create_progress(void** descriptor) {
  if (descriptor == nullptr) {
    return kInvalidValue;
  }
  *descriptor = alive<Progress>().add(std::make_unique<Progress>());
  return kSuccess;
}

int destroy_progress(const void* descriptor) {
  return descriptor == nullptr || alive<Progress>().remove(descriptor) ? kSuccess : kInvalidValue;
}

int set_description(const void* descriptor, int Description::* field, int value, int most) {
  Description* const description = find_object<Description>(descriptor);
  if (description == nullptr || value < 0 || value > most) {
    return kInvalidValue;
  }
  description->*field = value;
  return kSuccess;
}

int get_description(const void* descriptor, int Description::* field) {
  const Description* const description = find_object<Description>(descriptor);
  return description == nullptr ? 0 : description->*field;
}

}  // namespace

GPEMU_SHIM_EXPORT int cusparseCreateMatDescr(void** descriptor) {
  if (descriptor == nullptr) {
    return kInvalidValue;
  }
  *descriptor = alive<Description>().add(std::make_unique<Description>());
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseDestroyMatDescr(const void* descriptor) {
  return descriptor == nullptr || alive<Description>().remove(descriptor) ? kSuccess
                                                                          : kInvalidValue;
}
GPEMU_SHIM_EXPORT int cusparseSetMatType(const void* descriptor, int value) {
  return set_description(descriptor, &Description::type, value, kLastMatrixType);
}
GPEMU_SHIM_EXPORT int cusparseSetMatFillMode(const void* descriptor, int value) {
  return set_description(descriptor, &Description::fill, value, kLastFillMode);
}
GPEMU_SHIM_EXPORT int cusparseSetMatDiagType(const void* descriptor, int value) {
  return set_description(descriptor, &Description::diagonal, value, kLastDiagonalType);
}
GPEMU_SHIM_EXPORT int cusparseSetMatIndexBase(const void* descriptor, int value) {
  return set_description(descriptor, &Description::base, value, kLastIndexBase);
}
GPEMU_SHIM_EXPORT int cusparseGetMatType(const void* descriptor) {
  return get_description(descriptor, &Description::type);
}
GPEMU_SHIM_EXPORT int cusparseGetMatFillMode(const void* descriptor) {
  return get_description(descriptor, &Description::fill);
}
GPEMU_SHIM_EXPORT int cusparseGetMatDiagType(const void* descriptor) {
  return get_description(descriptor, &Description::diagonal);
}
GPEMU_SHIM_EXPORT int cusparseGetMatIndexBase(const void* descriptor) {
  return get_description(descriptor, &Description::base);
}

GPEMU_SHIM_EXPORT int cusparseCreateCsr(void** descriptor, int64_t rows, int64_t columns,
                                        int64_t entries, void* offsets, void* indices, void* values,
                                        int offset_type, int index_type, int base, int type) {
  return keep(descriptor, {.sparse = true,
                           .rows = rows,
                           .columns = columns,
                           .entries = entries,
                           .format = kCsr,
                           .index_base = base,
                           .row_index_type = offset_type,
                           .column_index_type = index_type,
                           .value_type = type,
                           .row_indices = offsets,
                           .column_indices = indices,
                           .values = values});
}
GPEMU_SHIM_EXPORT int cusparseCreateCoo(void** descriptor, int64_t rows, int64_t columns,
                                        int64_t entries, void* row_indices, void* column_indices,
                                        void* values, int index_type, int base, int type) {
  return keep(descriptor, {.sparse = true,
                           .rows = rows,
                           .columns = columns,
                           .entries = entries,
                           .format = kCoo,
                           .index_base = base,
                           .row_index_type = index_type,
                           .column_index_type = index_type,
                           .value_type = type,
                           .row_indices = row_indices,
                           .column_indices = column_indices,
                           .values = values});
}
GPEMU_SHIM_EXPORT int cusparseCreateDnMat(void** descriptor, int64_t rows, int64_t columns,
                                          int64_t leading, void* values, int type, int order) {
  if ((order != kColumnMajor && order != kRowMajor) ||
      leading < (order == kColumnMajor ? rows : columns)) {
    return kInvalidValue;
  }
  return keep(descriptor, {.rows = rows,
                           .columns = columns,
                           .leading = leading,
                           .value_type = type,
                           .order = order,
                           .values = values});
}
GPEMU_SHIM_EXPORT int cusparseCreateDnVec(void** descriptor, int64_t size, void* values, int type) {
  return keep(descriptor,
              {.rows = size, .columns = 1, .leading = size, .value_type = type, .values = values});
}
GPEMU_SHIM_EXPORT int cusparseDestroySpMat(const void* descriptor) {
  return drop(descriptor);
}
GPEMU_SHIM_EXPORT int cusparseDestroyDnMat(const void* descriptor) {
  return drop(descriptor);
}
GPEMU_SHIM_EXPORT int cusparseDestroyDnVec(const void* descriptor) {
  return drop(descriptor);
}

GPEMU_SHIM_EXPORT int cusparseSpMatGetSize(const void* descriptor, int64_t* rows, int64_t* columns,
                                           int64_t* entries) {
  const Matrix* const matrix = find_object<Matrix>(descriptor);
  if (matrix == nullptr || rows == nullptr || columns == nullptr || entries == nullptr) {
    return kInvalidValue;
  }
  *rows = matrix->rows;
  *columns = matrix->columns;
  *entries = matrix->entries;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseCsrSetPointers(const void* descriptor, void* offsets, void* indices,
                                             void* values) {
  Matrix* const matrix = find_object<Matrix>(descriptor);
  if (matrix == nullptr || !matrix->sparse) {
    return kInvalidValue;
  }
  matrix->row_indices = offsets;
  matrix->column_indices = indices;
  matrix->values = values;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseCsrSetStridedBatch(const void* descriptor, int batch,
                                                 int64_t /*offsets*/, int64_t stride) {
  Matrix* const matrix = find_object<Matrix>(descriptor);
  if (matrix == nullptr || batch < 1 || stride < 0) {
    return kInvalidValue;
  }
  matrix->batch = batch;
  matrix->batch_stride = stride;
  return kSuccess;
}
GPEMU_SHIM_EXPORT int cusparseDnMatSetStridedBatch(const void* descriptor, int batch,
                                                   int64_t stride) {
  Matrix* const matrix = find_object<Matrix>(descriptor);
  if (matrix == nullptr || batch < 1 || stride < 0) {
    return kInvalidValue;
  }
  matrix->batch = batch;
  matrix->batch_stride = stride;
  return kSuccess;
}
/// Fill mode and diagonal type do not change the cost.
GPEMU_SHIM_EXPORT int cusparseSpMatSetAttribute(const void* descriptor, int attribute,
                                                const void* data, size_t bytes) {
  const Matrix* const matrix = find_object<Matrix>(descriptor);
  return matrix == nullptr || attribute < 0 || attribute > kLastAttribute || data == nullptr ||
                 bytes != sizeof(int)
             ? kInvalidValue
             : kSuccess;
}

GPEMU_SHIM_EXPORT int cusparseSpSV_createDescr(void** p) {
  return create_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseSpSV_destroyDescr(const void* p) {
  return destroy_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseSpSM_createDescr(void** p) {
  return create_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseSpSM_destroyDescr(const void* p) {
  return destroy_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseSpGEMM_createDescr(void** p) {
  return create_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseSpGEMM_destroyDescr(const void* p) {
  return destroy_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseCreateBsrsv2Info(void** p) {
  return create_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseDestroyBsrsv2Info(const void* p) {
  return destroy_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseCreateBsrsm2Info(void** p) {
  return create_progress(p);
}
GPEMU_SHIM_EXPORT int cusparseDestroyBsrsm2Info(const void* p) {
  return destroy_progress(p);
}
