// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/tensor_lists.hpp"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

/// Returns the size of the argument: CUDA allows 4 KB, and since 12.1 nearly 32 KB.
Bytes argument_bytes(const TensorLists& layout) {
  return layout.most_tensors * (static_cast<Bytes>(layout.lists) * 8 + 8 + layout.tensor_bytes) +
         layout.most_blocks * (layout.number_bytes + 4);
}

TEST(TensorLists, FitIntoKernelParameters) {
  constexpr std::array kTypes = {"TensorListMetadata<", "FusedOptimizerTensorListMetadata<",
                                 "TensorListScalarListMetadata<float, ",
                                 "TensorListScalarListMetadata<c10::complex<double>, "};
  for (const std::string type : kTypes) {
    const int most = type.find("complex") == std::string::npos ? 5 : 2;
    // PyTorch has no fused optimizer with one list.
    for (int lists = type.starts_with("Fused") ? 2 : 1; lists <= most; ++lists) {
      const auto layout = tensor_lists(type + std::to_string(lists) + ">");
      ASSERT_TRUE(layout.has_value()) << type << lists;
      EXPECT_EQ(layout->lists, lists);
      EXPECT_LE(argument_bytes(*layout), 4096U) << type << lists;
      const auto wide = tensor_lists(type + std::to_string(lists) + ", true>");
      ASSERT_TRUE(wide.has_value());
      EXPECT_EQ(wide->most_tensors, 7 * layout->most_tensors);
      EXPECT_GT(argument_bytes(*wide), 4096U);
    }
  }
}

TEST(TensorLists, HaveWhatTheTypeSays) {
  EXPECT_EQ(tensor_lists("a::TensorListScalarListMetadata<double, 2>"),
            (TensorLists{.lists = 2, .most_tensors = 64, .most_blocks = 320, .tensor_bytes = 8}));
  EXPECT_EQ(tensor_lists("TensorListScalarListMetadata<c10::complex<double>, 1>"),
            (TensorLists{.lists = 1, .most_tensors = 72, .most_blocks = 320, .tensor_bytes = 16}));
  EXPECT_EQ(tensor_lists("FusedOptimizerTensorListMetadata<4>")->tensor_bytes, 8U);
  EXPECT_EQ(tensor_lists("TensorListMetadata<1>", [] { return Bytes{31000}; })->number_bytes, 2U);
  EXPECT_EQ(tensor_lists("TensorListMetadata<1, false>", [] { return Bytes{31000}; })->number_bytes,
            1U);
  for (const char* const other :
       {"", "TensorListMetadata", "TensorListMetadata<6>", "TensorListMetadata<0>",
        "TensorListMetadata<true>", "TensorListScalarListMetadata<Thing, 1>"}) {
    EXPECT_FALSE(tensor_lists(other).has_value()) << other;
  }
}

TEST(TensorLists, AreReadFromAnArgument) {
  struct Argument {  // TensorListScalarListMetadata<double, 2>.
    std::uint64_t addresses[2][64];
    std::int64_t elements[64];
    double scalars[64];
    std::uint8_t block_tensors[320];
    std::int32_t block_chunks[320];
  } argument{};
  argument.addresses[1][3] = 0x7000;
  argument.elements[3] = 100'000;
  argument.block_tensors[5] = 3;
  argument.block_chunks[5] = 1;
  const ListedTensors listed(*tensor_lists("TensorListScalarListMetadata<double, 2>"), &argument);
  EXPECT_EQ(listed.address(1, 3), 0x7000U);
  EXPECT_EQ(listed.elements(3), 100'000U);
  EXPECT_EQ(listed.tensor_of(5), 3U);
  EXPECT_EQ(listed.chunk_of(5), 1U);
}

TEST(TensorLists, TellTheTypeOfElements) {
  const KernelName name{.function = {},
                        .parameters = {"TensorListMetadata<2>",
                                       "at::native::(anonymous namespace)::"
                                       "BinaryOpListAlphaFunctor<c10::Half, 2, 2, 0>"}};
  EXPECT_EQ(listed_type(name), "c10::Half");
  EXPECT_EQ(listed_type({}), "");
}

}  // namespace
}  // namespace gpemu::kernels
