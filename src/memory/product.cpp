// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/product.hpp"

#include <cstring>
#include <optional>
#include <vector>

#include "gpemu/kernels/number.hpp"
#include "gpemu/kernels/pytorch/tensor_work.hpp"
#include "gpemu/memory/kernel_memory.hpp"

namespace gpemu::memory {

using kernels::kMostElements, kernels::store_number;
using kernels::Number, kernels::NumberType, kernels::load_number, kernels::number_bytes;

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

/// A matrix by columns, as doubles, which can represent the values and products of the other types.
struct Matrix {
  std::vector<double> values;
  std::int64_t leading = 0;
  bool transposed = false;

  [[nodiscard]] double at(std::int64_t row, std::int64_t column) const {
    const std::int64_t place = transposed ? row * leading + column : column * leading + row;
    return values[static_cast<std::size_t>(place)];
  }
};

/// Returns the number of elements from the first to the last of a matrix in memory.
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
  // Each factor is checked first, so that no product exceeds 64 bits.
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

}  // namespace gpemu::memory
