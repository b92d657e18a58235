// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/tensor_lists.hpp"

#include <array>
#include <vector>

#include "gpemu/kernels/arguments.hpp"

namespace gpemu::kernels {
namespace {

constexpr std::size_t kMostLists = 5;

/// How many tensors and blocks one launch takes at most, by the number of lists; fewer if each
/// tensor also has a scalar. Source: MultiTensorApply.cuh.
constexpr std::array<Bytes, kMostLists> kTensors = {110, 64, 48, 36, 30};
constexpr std::array<Bytes, kMostLists> kTensorsWithScalars = {96, 64, 48, 36, 30};
constexpr std::array<Bytes, 2> kTensorsWithComplexScalars = {72, 60};
constexpr Bytes kComplexBytes = 16;
constexpr Bytes kBlocks = 320;

/// The factor of both for long lists, since CUDA 12.1 allows larger parameters.
constexpr Bytes kLong = 7;
constexpr Bytes kSmallParameters = 4096;

Bytes tensors_with_scalars(Bytes scalar_bytes, std::size_t lists) {
  const bool complex = scalar_bytes == kComplexBytes && lists <= kTensorsWithComplexScalars.size();
  return complex ? kTensorsWithComplexScalars.at(lists - 1) : kTensorsWithScalars.at(lists - 1);
}

}  // namespace

std::optional<TensorLists> tensor_lists(std::string_view type,
                                        const std::function<Bytes()>& find_bytes) {
  std::vector<std::string_view> arguments = template_arguments(type, "ListMetadata");
  if (arguments.empty()) return std::nullopt;
  bool is_long = arguments.back() == "true";
  if (is_long || arguments.back() == "false") {
    arguments.pop_back();
  } else if (find_bytes) {
    is_long = find_bytes() > kSmallParameters;
  }
  if (arguments.empty()) return std::nullopt;
  const int lists = number_in(arguments.back());
  if (lists < 1 || lists > static_cast<int>(kMostLists)) return std::nullopt;
  const auto count = static_cast<std::size_t>(lists);
  const Bytes times = is_long ? kLong : 1;
  TensorLists result{.lists = lists,
                     .most_tensors = times * kTensors.at(count - 1),
                     .most_blocks = times * kBlocks,
                     .number_bytes = is_long ? sizeof(std::uint16_t) : sizeof(std::uint8_t)};
  if (contains(type, "FusedOptimizer")) {
    result.tensor_bytes = sizeof(std::uint64_t);
  } else if (arguments.size() == 2) {
    result.tensor_bytes = type_bytes(arguments[0]);
    if (result.tensor_bytes == 0) return std::nullopt;
    result.most_tensors = times * tensors_with_scalars(result.tensor_bytes, count);
  }
  return result;
}

std::string_view listed_type(const KernelName& name) {
  if (name.parameters.size() < 2) return {};
  const std::string_view functor = name.parameters[1];
  const auto arguments = template_arguments(functor, functor.substr(0, functor.find('<')));
  return arguments.empty() ? std::string_view() : arguments[0];
}

std::uint64_t ListedTensors::address(int list, Bytes tensor) const {
  const Bytes place = static_cast<Bytes>(list) * layout_.most_tensors + tensor;
  return read<std::uint64_t>(start_, place * sizeof(std::uint64_t));
}

Bytes ListedTensors::elements(Bytes tensor) const {
  return read<std::uint64_t>(elements_start(), tensor * sizeof(std::int64_t));
}

Bytes ListedTensors::tensor_of(Bytes block) const {
  return layout_.number_bytes == sizeof(std::uint16_t)
             ? read<std::uint16_t>(blocks_start(), block * sizeof(std::uint16_t))
             : read<std::uint8_t>(blocks_start(), block);
}

Bytes ListedTensors::chunk_of(Bytes block) const {
  return read<std::uint32_t>(
      blocks_start(), layout_.most_blocks * layout_.number_bytes + block * sizeof(std::uint32_t));
}

}  // namespace gpemu::kernels
