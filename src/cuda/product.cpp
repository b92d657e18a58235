// SPDX-License-Identifier: Apache-2.0
#include "product.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "graph.hpp"
#include "memory.hpp"
#include "number.hpp"
#include "stream.hpp"

namespace gpemu::cuda {
namespace {

std::optional<NumberType> number_type(gpemu_data_type type) {
  switch (type) {
    case GPEMU_TYPE_FP64:
      return NumberType::kFloat64;
    case GPEMU_TYPE_FP32:
    case GPEMU_TYPE_TF32:
      return NumberType::kFloat32;
    case GPEMU_TYPE_FP16:
      return NumberType::kFloat16;
    case GPEMU_TYPE_BF16:
      return NumberType::kBFloat16;
    default:
      return std::nullopt;
  }
}

/// A matrix by columns, as doubles, which hold the values and their products of the other types.
struct Matrix {
  std::vector<double> values;
  std::int64_t leading = 0;
  bool transposed = false;

  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const {
    const std::int64_t place = transposed ? row * leading + column : column * leading + row;
    return values[static_cast<std::size_t>(place)];
  }
};

/// Elements from the first to the last of a matrix of so many rows and columns in memory.
std::int64_t elements_of(std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  return (columns - 1) * leading + rows;
}

bool load(std::uint64_t address, NumberType type, std::int64_t elements, Matrix* matrix) {
  const Bytes width = number_bytes(type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * width);
  if (!load_for_kernel(address, bytes.data(), bytes.size())) return false;
  matrix->values.resize(static_cast<std::size_t>(elements));
  for (std::size_t i = 0; i < matrix->values.size(); ++i) {
    matrix->values[i] = load_number(&bytes[i * width], type).real;
  }
  return true;
}

bool compute_one(const gpemu_cuda_product& p, std::int64_t batch, NumberType type,
                 NumberType type_c) {
  Matrix a{.values = {}, .leading = p.leading_a, .transposed = p.transpose_a != 0};
  Matrix b{.values = {}, .leading = p.leading_b, .transposed = p.transpose_b != 0};
  const auto offset = [batch](std::int64_t stride, NumberType of) {
    return static_cast<Bytes>(batch * stride) * number_bytes(of);
  };
  const std::int64_t of_a =
      a.transposed ? elements_of(p.k, p.m, p.leading_a) : elements_of(p.m, p.k, p.leading_a);
  const std::int64_t of_b =
      b.transposed ? elements_of(p.n, p.k, p.leading_b) : elements_of(p.k, p.n, p.leading_b);
  Matrix c{.values = {}, .leading = p.leading_c};
  const std::uint64_t to = p.c + offset(p.stride_c, type_c);
  if (!load(p.a + offset(p.stride_a, type), type, of_a, &a) ||
      !load(p.b + offset(p.stride_b, type), type, of_b, &b) ||
      (p.beta != 0 && !load(to, type_c, elements_of(p.m, p.n, p.leading_c), &c))) {
    return false;
  }
  const Bytes width = number_bytes(type_c);
  std::vector<std::byte> column(static_cast<std::size_t>(p.m) * width);
  for (std::int64_t j = 0; j < p.n; ++j) {
    for (std::int64_t i = 0; i < p.m; ++i) {
      double sum = 0;
      for (std::int64_t l = 0; l < p.k; ++l) sum += a.at(i, l) * b.at(l, j);
      const double value = p.alpha * sum + (p.beta != 0 ? p.beta * c.at(i, j) : 0);
      store_number({.real = value}, type_c, &column[static_cast<std::size_t>(i) * width]);
    }
    store_by_kernel(to + static_cast<Bytes>(j * p.leading_c) * width, column.data(), column.size());
  }
  return true;
}

}  // namespace

bool compute_product(const gpemu_cuda_product& p) {
  const auto type = number_type(p.type), type_c = number_type(p.type_c);
  if (p.known == 0 || !type || !type_c) return false;
  // Each factor first, so that none of the products is beyond 64 bits.
  for (const std::int64_t size : {p.m, p.n, p.k, p.batch, p.leading_a, p.leading_b, p.leading_c}) {
    if (size < 1 || size > kMostElements) return false;
  }
  if (p.m * p.n > kMostElements || p.m * p.n * p.k > kMostMultiplications ||
      p.m * p.n * p.k * p.batch > kMostMultiplications ||
      p.leading_a * (p.transpose_a != 0 ? p.m : p.k) > kMostElements ||
      p.leading_b * (p.transpose_b != 0 ? p.k : p.n) > kMostElements ||
      p.leading_c * p.n > kMostElements) {
    return false;
  }
  for (std::int64_t i = 0; i < p.batch; ++i) {
    if (!compute_one(p, i, *type, *type_c)) return false;
  }
  return true;
}

}  // namespace gpemu::cuda

using gpemu::Bytes;
using gpemu::cuda::KernelWork;
using gpemu::cuda::resolve_for_work;
using gpemu::cuda::Uncomputed;
using gpemu::cuda::WriterId;

namespace {

/// Returns the addresses in an array of a device; none where they are not known, for then nobody
/// knows which memory they are of.
std::vector<std::uint64_t> addresses_at(std::uint64_t array, Bytes count) {
  constexpr Bytes kAddressBytes = 8;
  if (gpemu::cuda::device_bytes_at(array, count * kAddressBytes) < count * kAddressBytes) return {};
  std::vector<std::uint64_t> addresses(count);
  if (!gpemu::cuda::load_for_kernel(array, addresses.data(), count * kAddressBytes)) return {};
  return addresses;
}

/// More rows of one call are one range, with what lies between them.
constexpr Bytes kMostRows = Bytes{1} << 16;

/// Adds rows, as one range where nothing lies between them. Errors: INVALID_VALUE.
gpemu_cuda_status add_rows(const gpemu_cuda_result& result, KernelWork* work) {
  const Uncomputed how = result.updates != 0 ? Uncomputed::kUpdated : Uncomputed::kWritten;
  Bytes extent = 0;
  if (result.bytes == 0 || result.address == 0) return GPEMU_CUDA_SUCCESS;
  if (result.rows == 0) {
    work->ranges.push_back({result.address, result.bytes, Uncomputed::kOpen});
    return GPEMU_CUDA_SUCCESS;
  }
  if (__builtin_mul_overflow(result.rows - 1, result.pitch, &extent) ||
      __builtin_add_overflow(extent, result.bytes, &extent)) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  if (result.rows == 1 || result.pitch <= result.bytes) {
    work->ranges.push_back({result.address, extent, how});
    return GPEMU_CUDA_SUCCESS;
  }
  if (work->ranges.size() + result.rows > kMostRows) {
    // What lies between them is not theirs, so it stays.
    work->ranges.push_back({result.address, extent, Uncomputed::kUpdated});
    return GPEMU_CUDA_SUCCESS;
  }
  for (Bytes row = 0; row < result.rows; ++row) {
    work->ranges.push_back({result.address + row * result.pitch, result.bytes, how});
  }
  return GPEMU_CUDA_SUCCESS;
}

}  // namespace

gpemu_cuda_status gpemu_cuda_leave_uncomputed(const gpemu_cuda_result* result, const char* function,
                                              gpemu_cuda_stream_handle stream) {
  if (result == nullptr || function == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  KernelWork work;
  work.writer = gpemu::cuda::writer_id(function);
  GPEMU_CUDA_TRY(add_rows(*result, &work));
  if (result->matrices == 0) return gpemu::cuda::perform_on(*found, std::move(work));
  KernelWork later = gpemu::cuda::work_on_anything(work.writer);
  later.compute = [matrix = *result, writer = work.writer] {
    for (const std::uint64_t address : addresses_at(matrix.address, matrix.matrices)) {
      gpemu_cuda_result one = matrix;
      one.address = address;
      one.matrices = 0;
      KernelWork each;
      each.writer = writer;
      if (add_rows(one, &each) == GPEMU_CUDA_SUCCESS) gpemu::cuda::perform_now(each);
    }
    return true;
  };
  return gpemu::cuda::perform_on(*found, std::move(later));
}

namespace {

/// Describes what a product writes and reads. Errors: INVALID_VALUE.
gpemu_cuda_status add_product(const gpemu_cuda_product& p, KernelWork* work) {
  const auto width = static_cast<Bytes>(gpemu_data_type_bytes(p.type_c));
  gpemu_cuda_result result{.address = p.c,
                           .bytes = static_cast<Bytes>(p.m) * width,
                           .pitch = static_cast<Bytes>(p.leading_c) * width,
                           .rows = static_cast<Bytes>(p.n),
                           .updates = p.known != 0 && p.beta != 0 ? 1 : 0};
  // As rows of each matrix, or as matrices without what lies between their rows.
  if (p.batch > static_cast<std::int64_t>(kMostRows)) {
    result.bytes += static_cast<Bytes>(p.n - 1) * result.pitch;
    result.pitch = static_cast<Bytes>(p.stride_c) * width;
    result.rows = static_cast<Bytes>(p.batch);
    GPEMU_CUDA_TRY(add_rows(result, work));
  } else {
    for (std::int64_t i = 0; i < p.batch; ++i) {
      result.address = p.c + static_cast<Bytes>(i * p.stride_c) * width;
      GPEMU_CUDA_TRY(add_rows(result, work));
    }
  }
  const auto read = [work](std::uint64_t address, std::int64_t elements, gpemu_data_type type) {
    work->reads.push_back({.start = address,
                           .bytes = static_cast<Bytes>(elements * gpemu_data_type_bytes(type)),
                           .writes = false});
  };
  read(p.a, p.leading_a * (p.transpose_a != 0 ? p.m : p.k) + (p.batch - 1) * p.stride_a, p.type);
  read(p.b, p.leading_b * (p.transpose_b != 0 ? p.k : p.n) + (p.batch - 1) * p.stride_b, p.type);
  return GPEMU_CUDA_SUCCESS;
}

/// Describes a product of operands whose addresses are known. Errors: INVALID_VALUE.
gpemu_cuda_status describe_product(const gpemu_cuda_product& p, WriterId writer, KernelWork* work) {
  work->writer = writer;
  GPEMU_CUDA_TRY(add_product(p, work));
  work->compute = [p] { return gpemu::cuda::compute_product(p); };
  return GPEMU_CUDA_SUCCESS;
}

/// Multiplies operands whose addresses lie in arrays of a device now; not where those are not
/// known.
void multiply_in_arrays(const gpemu_cuda_product& p, WriterId writer) {
  const auto count = static_cast<Bytes>(p.batch);
  const auto a = addresses_at(p.a, count), b = addresses_at(p.b, count),
             c = addresses_at(p.c, count);
  gpemu_cuda_product one = p;
  one.batch = 1;
  one.arrays = 0;
  for (std::size_t i = 0; i < std::min({a.size(), b.size(), c.size()}); ++i) {
    one.a = a[i];
    one.b = b[i];
    one.c = c[i];
    KernelWork work;
    if (describe_product(one, writer, &work) == GPEMU_CUDA_SUCCESS) gpemu::cuda::perform_now(work);
  }
}

}  // namespace

gpemu_cuda_status gpemu_cuda_multiply(const gpemu_cuda_product* product, const char* function,
                                      gpemu_cuda_stream_handle stream) {
  constexpr std::int64_t kMostProducts = std::int64_t{1} << 20;
  if (product == nullptr || function == nullptr) return GPEMU_CUDA_ERROR_INVALID_VALUE;
  if (product->m == 0 || product->n == 0) return GPEMU_CUDA_SUCCESS;
  if (product->m < 0 || product->n < 0 || product->k < 0 || product->batch < 0 ||
      product->batch > kMostProducts) {
    return GPEMU_CUDA_ERROR_INVALID_VALUE;
  }
  gpemu_cuda_stream* found = nullptr;
  GPEMU_CUDA_TRY(resolve_for_work(stream, &found));
  const WriterId writer = gpemu::cuda::writer_id(function);
  KernelWork work;
  if (product->arrays == 0) {
    GPEMU_CUDA_TRY(describe_product(*product, writer, &work));
  } else {
    work = gpemu::cuda::work_on_anything(writer);
    work.compute = [arrays = *product, writer] {
      multiply_in_arrays(arrays, writer);
      return true;
    };
  }
  return gpemu::cuda::perform_on(*found, std::move(work));
}
