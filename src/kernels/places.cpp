// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/places.hpp"

#include <cstddef>
#include <cstdint>
#include <numeric>

namespace gpemu::kernels {
namespace {

constexpr bool is_negative(Bytes stride) {
  return static_cast<std::int64_t>(stride) < 0;
}

}  // namespace

Bytes Places::count() const {
  Bytes product = 1;
  for (int i = 0; i < dimensions; ++i) {
    if (__builtin_mul_overflow(product, sizes[static_cast<std::size_t>(i)], &product)) return 0;
  }
  return product;
}

Bytes Places::extent() const {
  Bytes sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
    if (sizes[i] > 0 && !is_negative(strides[i])) sum += (sizes[i] - 1) * strides[i];
  }
  return sum;
}

Bytes Places::before() const {
  Bytes sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
    if (sizes[i] > 0 && is_negative(strides[i])) sum += (sizes[i] - 1) * (0 - strides[i]);
  }
  return sum;
}

void Places::add(Bytes size, Bytes stride) {
  sizes[static_cast<std::size_t>(dimensions)] = size;
  strides[static_cast<std::size_t>(dimensions)] = stride;
  ++dimensions;
}

Bytes Places::offset(Bytes index) const {
  Bytes sum = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
    if (sizes[i] == 0) return 0;
    sum += index % sizes[i] * strides[i];
    index /= sizes[i];
  }
  return sum;
}

Places Places::in_order() const {
  std::array<std::size_t, kMostDimensions> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto magnitude = [this](std::size_t i) {
    return is_negative(strides[i]) ? 0 - strides[i] : strides[i];
  };
  std::ranges::stable_sort(order.begin(), order.begin() + dimensions, {}, magnitude);
  Places sorted{.dimensions = 0};
  for (int i = 0; i < dimensions; ++i) {
    const std::size_t at = order[static_cast<std::size_t>(i)];
    if (sizes[at] != 1 && strides[at] != 0) sorted.add(sizes[at], magnitude(at));
  }
  return sorted.dimensions > 0 ? sorted : in_a_row(1, 0);
}

Bytes Places::closest() const {
  const Bytes stride = in_order().strides[0];
  return stride > 0 ? stride : ~Bytes{0};
}

Places in_a_row(Bytes count, Bytes element_bytes) {
  Places places;
  places.sizes[0] = count;
  places.strides[0] = element_bytes;
  return places;
}

Walk::Walk(const Places& places, Bytes element_bytes) : places_(places), piece_(element_bytes) {
  for (; adjacent_ < places.dimensions; ++adjacent_) {
    const auto at = static_cast<std::size_t>(adjacent_);
    if (places.sizes[at] != 1 && places.strides[at] != piece_) break;
    piece_ *= places.sizes[at];
    elements_ *= places.sizes[at];
  }
}

void Walk::advance(Bytes bytes) {
  within_ += bytes;
  if (within_ < piece_) return;
  within_ = 0;
  start_ = places_.offset(++number_ * elements_);
}

}  // namespace gpemu::kernels
