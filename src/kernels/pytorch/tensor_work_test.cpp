// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/tensor_work.hpp"

#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

/// Memory that is known, from address 0 on.
class KnownMemory final : public Memory {
 public:
  explicit KnownMemory(std::vector<std::int64_t> words) : words_(std::move(words)) {}

  [[nodiscard]] bool load(std::uint64_t address, void* data, Bytes bytes) const override {
    if (!is_known(address, bytes)) return false;
    std::memcpy(data, start() + address, bytes);
    return true;
  }
  [[nodiscard]] bool is_known(std::uint64_t address, Bytes bytes) const override {
    return device_bytes_at(address, bytes) == bytes;
  }
  [[nodiscard]] Bytes device_bytes_at(std::uint64_t address, Bytes bytes) const override {
    const Bytes all = words_.size() * sizeof(std::int64_t);
    return address < all ? std::min(bytes, all - address) : 0;
  }
  void store(std::uint64_t address, const void* data, Bytes bytes) override {
    if (!is_known(address, bytes)) return;
    std::memcpy(const_cast<std::byte*>(start()) + address, data, bytes);
  }

  [[nodiscard]] const std::vector<std::int64_t>& words() const { return words_; }

 private:
  [[nodiscard]] const std::byte* start() const {
    return reinterpret_cast<const std::byte*>(words_.data());
  }

  std::vector<std::int64_t> words_;
};

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSmallest = std::numeric_limits<std::int64_t>::min();

TEST(TensorWork, SequencesAreModulo2To64) {
  KnownMemory memory({0, 0, 0, 0});
  const Sequence sequence{.count = 3,
                          .type = NumberType::kInt64,
                          .work_type = NumberType::kInt64,
                          .first = {.whole = 1},
                          .step = {.whole = kLargest}};
  EXPECT_TRUE(compute_sequence(sequence, memory));
  EXPECT_EQ(memory.words(), (std::vector<std::int64_t>{1, kSmallest, -1, 0}));
}

/// Moves two elements, which indices choose, to the second half.
ElementMove chosen(Bytes step) {
  return {.element_bytes = 8,
          .to = 32,
          .from = 16,
          .to_places = in_a_row(2, 8),
          .from_places = {.dimensions = 1, .sizes = {2}},
          .value = {},
          .indices = {{.places = in_a_row(2, 8), .size = kLargest, .step = step}}};
}

TEST(TensorWork, IndicesChooseElements) {
  KnownMemory memory({1, 0, 5, 6, 0, 0});
  EXPECT_TRUE(compute_move(chosen(8), memory));
  EXPECT_EQ(memory.words(), (std::vector<std::int64_t>{1, 0, 5, 6, 6, 5}));
}

TEST(TensorWork, ElementsThatAreTooFarApartAreNotMoved) {
  for (const Bytes step : {Bytes{1}, Bytes{2}, Bytes{8}, ~Bytes{0}}) {
    KnownMemory memory({0, kLargest / 8, 5, 6, 0, 0});
    EXPECT_FALSE(compute_move(chosen(step), memory)) << step;
    EXPECT_EQ(memory.words()[4], 0);
  }
}

TEST(TensorWork, WhatIsNotKnownIsNotComputed) {
  KnownMemory memory({1, 0, 5});
  EXPECT_FALSE(compute_move(chosen(8), memory));
}

}  // namespace
}  // namespace gpemu::kernels
