// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/offsets.hpp"

#include <algorithm>
#include <cstdint>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"

namespace gpemu::kernels {

Places read_places(const std::byte* calculator, Bytes tensors, Bytes tensor) {
  Places places;
  places.dimensions = std::clamp(read<std::int32_t>(calculator), 0, kMostDimensions);
  const std::byte* const sizes = calculator + 4;
  const std::byte* const strides = sizes + kMostDimensions * kDividerBytes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(places.dimensions); ++i) {
    places.sizes[i] = read<std::uint32_t>(sizes, i * kDividerBytes);
    // Those of flipped dimensions are negative; PyTorch's calculators reach no further than 2 GiB.
    places.strides[i] =
        static_cast<Bytes>(std::int64_t{read<std::int32_t>(strides, (i * tensors + tensor) * 4)});
  }
  return places;
}

Places TensorInfo::places(Bytes width) const {
  Places places{.dimensions = 0};
  for (int i = std::clamp(dimensions, 0, kMostDimensions) - 1; i >= 0; --i) {
    places.add(sizes[static_cast<std::size_t>(i)], strides[static_cast<std::size_t>(i)] * width);
  }
  return places;
}

TensorInfo read_tensor_info(const void* argument) {
  return read<TensorInfo>(argument);
}

}  // namespace gpemu::kernels
