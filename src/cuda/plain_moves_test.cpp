// SPDX-License-Identifier: Apache-2.0
#include "gpemu/memory/plain_moves.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"
#include "gpemu/kernels/kernel_effect.hpp"
#include "gpemu/launch/kernel_execution.hpp"
#include "gpemu/memory/kernel_memory.hpp"
#include "gpemu/memory/memory_content.hpp"
#include "gpemu/process/writers.hpp"

#include "test_memory.hpp"

namespace gpemu::cuda {

using kernels::Places, kernels::in_a_row;

namespace {

kernels::KernelEffect moving_effect(const char* name) {
  return kernels::kernel_effect(name, nullptr, process::writer_id(name));
}

// Names of kernels of PyTorch 2.8.
constexpr const char* kCat =
    "_ZN2at6native40_GLOBAL__N__0f1a8107_8_Shape_cu_49f7391c26CatArrayBatchedCopy_contigINS1_"
    "10OpaqueTypeILj4EEEjLi1ELi128ELi1EEEvPT_NS1_25CatArrInputTensorMetadataIS5_T0_XT2_EXT3_EEENS1_"
    "16TensorSizeStrideIS8_Lj4EEEiS8_";
constexpr const char* kStridedCopy =
    "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_22gpu_kernel_impl_nocastIZZZNS0_23direct_"
    "copy_"
    "kernel_cudaERNS_18TensorIteratorBaseEENKUlvE1_clEvENKUlvE5_clEvEUlfE_EEvS4_RKT_EUliE_EEviT1_";
constexpr const char* kCopyLists =
    "_ZN2at6native55_GLOBAL__N__d25d856e_22_ForeachBinaryOpList_cu_a911ec4325multi_tensor_apply_"
    "kernelINS1_18TensorListMetadataILi2EEENS1_14UnaryOpFunctorIfLi2ELi1ELi1EEEJNS0_"
    "4CopyIffEEEEEvT_"
    "T0_DpT1_";
constexpr const char* kSplitCopy =
    "_ZN2at6native6detail51split_with_sizes_copy_out_contiguous_no_cast_kernelEPPcS3_PlS4_S4_ll";
constexpr const char* kChunkCat =
    "_ZN2at6native6detail21chunk_cat_cuda_kernelIccEEvPPT0_PT_PlS8_S8_S8_S8_S8_lll";

constexpr kernels::WriterId kWriter = 1;

/// Moves of numbers of four bytes in memory that holds 0, 1, 2 and so on.
class PlainMoveTest : public MemoryTest {
 protected:
  static constexpr Bytes kNumbers = 300'000;  // More than kernels compute.

  void SetUp() override {
    MemoryTest::SetUp();
    std::vector<std::uint32_t> numbers(kNumbers);
    std::iota(numbers.begin(), numbers.end(), 0U);
    from_ = allocate(kNumbers * 4);
    to_ = allocate(kNumbers * 4);
    ASSERT_EQ(copy(from_, bits(numbers.data()), kNumbers * 4), GPEMU_CUDA_SUCCESS);
  }
  void TearDown() override {
    streams::mover().wait_for_all();
    EXPECT_EQ(gpemu_cuda_free(from_), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(gpemu_cuda_free(to_), GPEMU_CUDA_SUCCESS);
  }
  static void move(std::vector<kernels::PlainMove> moves) {
    kernels::KernelWork work;
    work.writer = kWriter;
    ASSERT_TRUE(add_plain_moves(std::move(moves), &work));
    launch::perform(work, nullptr);
    streams::mover().wait_for_all();
  }
  static void launch(const char* name, void* const* arguments, std::uint32_t grid_x = 1,
                     std::uint32_t grid_y = 1) {
    gpemu_cuda_launch launch{};
    launch.grid[0] = grid_x;
    launch.grid[1] = grid_y;
    launch.grid[2] = 1;
    launch.block[0] = 128;
    launch.block[1] = launch.block[2] = 1;
    launch.arguments = arguments;
    launch::perform_launch(moving_effect(name), launch, nullptr);
    streams::mover().wait_for_all();
  }
  static void make_unknown(std::uint64_t address, Bytes bytes) {
    memory::leave_uncomputed(address, bytes, kernels::Uncomputed::kWritten, kWriter);
  }
  static void put(std::uint64_t address, const void* data, Bytes bytes) {
    ASSERT_EQ(gpemu_cuda_poke(address, data, bytes), GPEMU_CUDA_SUCCESS);
  }
  /// Returns the numbers at the target.
  [[nodiscard]] std::vector<std::uint32_t> read(Bytes count) const {
    std::vector<std::uint32_t> numbers(count);
    EXPECT_EQ(gpemu_cuda_peek(to_, numbers.data(), count * 4), GPEMU_CUDA_SUCCESS);
    return numbers;
  }
  [[nodiscard]] memory::Content content_at(Bytes number) const {
    return memory::memory().contents.part(to_ + number * 4, 4).content;
  }

  std::uint64_t from_ = 0, to_ = 0;
};

Places rows(Bytes columns, Bytes count, Bytes step) {
  Places places = in_a_row(columns, 4);
  places.add(count, step * 4);
  return places;
}

TEST_F(PlainMoveTest, MoveContentOfAnySize) {
  move({{.element_bytes = 4,
         .to = to_,
         .from = from_,
         .to_places = in_a_row(kNumbers, 4),
         .from_places = in_a_row(kNumbers, 4)}});
  const auto numbers = read(kNumbers);
  EXPECT_EQ(numbers[1], 1U);
  EXPECT_EQ(numbers[kNumbers - 1], kNumbers - 1);
  EXPECT_EQ(content_at(kNumbers - 1), memory::Content::kKept);
}

TEST_F(PlainMoveTest, MoveBlocksOfOneShapeToAnother) {
  // 1000 rows of 200 out of 300 to rows of 100 with gaps of 1.
  move({{.element_bytes = 4,
         .to = to_,
         .from = from_,
         .to_places = rows(100, 2000, 101),
         .from_places = rows(200, 1000, 300)}});
  const auto numbers = read(2000 * 101);
  for (const Bytes i : {Bytes{0}, Bytes{99}, Bytes{100}, Bytes{199'999}}) {
    EXPECT_EQ(numbers[i / 100 * 101 + i % 100], i / 200 * 300 + i % 200) << i;
  }
  EXPECT_EQ(numbers[100], 0U);  // A gap.
  EXPECT_EQ(content_at(100), memory::Content::kZeros);
}

TEST_F(PlainMoveTest, KeepWhatIsKnownNextToWhatIsNot) {
  make_unknown(from_ + 400, 400);
  move({{.element_bytes = 4,
         .to = to_,
         .from = from_,
         .to_places = in_a_row(kNumbers, 4),
         .from_places = in_a_row(kNumbers, 4)}});
  EXPECT_EQ(content_at(99), memory::Content::kKept);
  EXPECT_EQ(content_at(100), memory::Content::kNotComputed);
  EXPECT_EQ(content_at(199), memory::Content::kNotComputed);
  EXPECT_EQ(content_at(200), memory::Content::kKept);
  EXPECT_EQ(read(100)[99], 99U);
}

TEST_F(PlainMoveTest, LeaveTheTargetUncomputedIfNothingIsKnown) {
  put(to_, "old", 4);
  make_unknown(from_, kNumbers * 4);
  move({{.element_bytes = 4,
         .to = to_,
         .from = from_,
         .to_places = in_a_row(kNumbers, 4),
         .from_places = in_a_row(kNumbers, 4)}});
  EXPECT_EQ(content_at(0), memory::Content::kNotComputed);
  EXPECT_EQ(memory::memory().contents.part(to_, 4).writer, kWriter);
}

TEST_F(PlainMoveTest, MoveLittleThatWasNotUpdated) {
  const Bytes few = 1000, many = 290'000;  // 1 MiB has 262,144 numbers.
  memory::leave_uncomputed(from_, few * 4, kernels::Uncomputed::kUpdated, kWriter);
  const auto all = [this] {
    return kernels::PlainMove{.element_bytes = 4,
                              .to = to_,
                              .from = from_,
                              .to_places = in_a_row(kNumbers, 4),
                              .from_places = in_a_row(kNumbers, 4)};
  };
  move({all()});
  EXPECT_EQ(content_at(1), memory::Content::kNotUpdated);
  EXPECT_EQ(read(2)[1], 1U);
  memory::leave_uncomputed(from_, many * 4, kernels::Uncomputed::kUpdated, kWriter);
  move({all()});
  EXPECT_EQ(content_at(1), memory::Content::kNotComputed);
  EXPECT_EQ(read(2)[1], 0U);
  EXPECT_EQ(content_at(many), memory::Content::kKept);
}

TEST_F(PlainMoveTest, DoNotMoveTooManyPieces) {
  const auto column = [this](Bytes count) {
    return kernels::PlainMove{.element_bytes = 4,
                              .to = to_,
                              .from = from_,
                              .to_places = in_a_row(count, 4),
                              .from_places = in_a_row(count, 8)};
  };
  move({column(1000)});
  EXPECT_EQ(read(1000)[999], 1998U);
  move({column(60'000)});  // One by one.
  EXPECT_EQ(read(60'000)[59'999], 119'998U);
  move({column(100'000)});
  EXPECT_EQ(content_at(0), memory::Content::kNotComputed);
}

TEST_F(PlainMoveTest, WriteZeros) {
  put(to_, "old", 4);
  move({{.to = to_, .to_places = in_a_row(4, 1)},
        {.element_bytes = 4,
         .to = to_ + 4,
         .from = from_ + 4,
         .to_places = in_a_row(1, 4),
         .from_places = in_a_row(1, 4)}});
  EXPECT_EQ(read(2), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(content_at(0), memory::Content::kZeros);
}

TEST_F(PlainMoveTest, RefuseStridesThatGoBackOrTooFar) {
  for (const Bytes stride : {Bytes{0} - 4, ~Bytes{0} / 4}) {
    kernels::KernelWork work;
    EXPECT_FALSE(add_plain_moves({{.element_bytes = 4,
                                   .to = to_,
                                   .from = from_,
                                   .to_places = in_a_row(9, 4),
                                   .from_places = in_a_row(9, stride)}},
                                 &work));
    EXPECT_TRUE(work.ranges.empty());
  }
}

TEST_F(PlainMoveTest, StayInTheirMemory) {
  move({{.element_bytes = 4,
         .to = to_,
         .from = from_ + kNumbers * 4 - 400,
         .to_places = in_a_row(kNumbers, 4),
         .from_places = in_a_row(kNumbers, 4)}});
  EXPECT_EQ(content_at(0), memory::Content::kNotComputed);
}

TEST_F(PlainMoveTest, ManyBytesAreMovedBesideTheProgram) {
  streams::mover().pause();
  kernels::KernelWork work;
  work.writer = kWriter;
  ASSERT_TRUE(add_plain_moves({{.element_bytes = 4,
                                .to = to_,
                                .from = from_,
                                .to_places = in_a_row(kNumbers, 4),
                                .from_places = in_a_row(kNumbers, 4)}},
                              &work));
  launch::perform(work, nullptr);
  EXPECT_TRUE(streams::mover().busy());
  // Later work on the target comes later.
  kernels::KernelWork fives;
  fives.fill_address = to_;
  fives.fill_count = 4;
  fives.fill_value = {std::byte{5}};
  launch::perform(fives, nullptr);
  streams::mover().resume();
  streams::mover().wait_for_all();
  EXPECT_EQ(read(2), (std::vector<std::uint32_t>{0x05050505, 1}));
  // Without content there is nothing to move.
  make_unknown(from_, kNumbers * 4);
  streams::mover().pause();
  launch::perform(work, nullptr);
  EXPECT_FALSE(streams::mover().busy());
  streams::mover().resume();
}

TEST_F(PlainMoveTest, ConcatenationsAreOfAnySize) {
  constexpr int kMost = 128;
  struct {
    std::uint64_t addresses[kMost];
    std::uint32_t offsets[kMost], sizes[kMost], counts[kMost];
    std::uint8_t contiguous[kMost];
  } sources{};
  const std::array<std::uint32_t, 2> counts = {200'000, 90'000};
  for (int i = 0; i < 2; ++i) {
    sources.addresses[i] = i == 0 ? from_ + 4 : from_;
    sources.offsets[i] = i == 0 ? 0 : counts[0];
    sources.sizes[i] = sources.counts[i] = counts[static_cast<std::size_t>(i)];
  }
  std::array<std::uint32_t, 8> shape = {290'000, 0, 0, 0, 1};
  std::int32_t along = 0;
  std::uint32_t stride = 1;
  std::array<void*, 5> arguments = {&to_, &sources, shape.data(), &along, &stride};
  launch(kCat, arguments.data(), 1, 2);
  const auto numbers = read(290'000);
  EXPECT_EQ(numbers[0], 1U);
  EXPECT_EQ(numbers[199'999], 200'000U);
  EXPECT_EQ(numbers[200'000], 0U);
  EXPECT_EQ(numbers[289'999], 89'999U);
}

/// What copies tensors of two dimensions: a calculator of offsets, then the addresses.
struct StridedCopy {
  std::int32_t dimensions = 2;
  std::uint32_t sizes[25][3] = {};
  std::uint32_t strides[25][2] = {};
  std::uint64_t to = 0, from = 0;
};

TEST_F(PlainMoveTest, StridedCopiesAreOfAnySize) {
  StridedCopy copied;
  copied.sizes[0][0] = 250;
  copied.sizes[1][0] = 900;
  copied.strides[0][0] = copied.strides[0][1] = 4;
  copied.strides[1][0] = 250 * 4;
  copied.strides[1][1] = 300 * 4;
  copied.to = to_;
  copied.from = from_ + 50 * 4;
  std::int32_t count = 250 * 900;
  std::array<void*, 2> arguments = {&count, &copied};
  launch(kStridedCopy, arguments.data());
  const auto numbers = read(250 * 900);
  EXPECT_EQ(numbers[0], 50U);
  EXPECT_EQ(numbers[250], 350U);
  EXPECT_EQ(numbers[250 * 900 - 1], 300U * 899 + 299);
}

TEST_F(PlainMoveTest, CopiesOfListsAreOfAnySize) {
  struct {
    std::uint64_t addresses[2][64];
    std::int64_t counts[64];
    std::uint8_t tensor_of_block[320];
    std::int32_t chunk_of_block[320];
    std::int32_t start;
  } lists{};
  const std::array<std::int64_t, 2> counts = {70'000, 65'536 * 3};
  lists.addresses[0][0] = from_;
  lists.addresses[1][0] = to_;
  lists.addresses[0][1] = from_;
  lists.addresses[1][1] = to_ + 70'000 * 4;
  // Both chunks of the first tensor, and the second one of the other.
  const std::array<int, 3> tensors = {0, 0, 1}, chunks = {0, 1, 1};
  for (std::size_t i = 0; i < 3; ++i) {
    lists.tensor_of_block[i] = static_cast<std::uint8_t>(tensors[i]);
    lists.chunk_of_block[i] = chunks[i];
  }
  std::ranges::copy(counts, lists.counts);
  char functor = 0;
  std::array<void*, 3> arguments = {&lists, &functor, &functor};
  launch(kCopyLists, arguments.data(), 3);
  const auto numbers = read(70'000 + 65'536 * 3);
  EXPECT_EQ(numbers[69'999], 69'999U);
  EXPECT_EQ(content_at(70'000), memory::Content::kZeros);  // Another launch has the first chunk.
  EXPECT_EQ(numbers[70'000 + 65'536], 65'536U);
  EXPECT_EQ(numbers[70'000 + 2 * 65'536 - 1], 2 * 65'536U - 1);
  EXPECT_EQ(content_at(70'000 + 2 * 65'536), memory::Content::kZeros);
}

TEST_F(PlainMoveTest, GatheredTensorsAreUnpacked) {
  // Three ranks sent 100,000 numbers each: 60,000 and 40,000 of two tensors.
  const std::array<std::uint64_t, 6> content = {
      to_, to_ + 180'000 * 4, from_, from_ + 60'000 * 4, 60'000 * 4, 40'000 * 4};
  const std::uint64_t lists = allocate(sizeof(content));
  put(lists, content.data(), sizeof(content));
  std::array<std::uint64_t, 7> values = {lists, lists + 16,     lists + 32, lists + 48,
                                         lists, 100'000ULL * 4, 3};
  std::array<void*, 7> arguments{};
  for (std::size_t i = 0; i < 7; ++i) arguments[i] = &values[i];
  launch(kSplitCopy, arguments.data());
  const auto numbers = read(kNumbers);
  EXPECT_EQ(numbers[59'999], 59'999U);
  EXPECT_EQ(numbers[60'000], 100'000U);
  EXPECT_EQ(numbers[180'000], 60'000U);
  EXPECT_EQ(numbers[kNumbers - 1], kNumbers - 1);
  EXPECT_EQ(gpemu_cuda_free(lists), GPEMU_CUDA_SUCCESS);
}

TEST_F(PlainMoveTest, GradientsArePackedWithZerosBehindThem) {
  // 5 and 1 numbers for three ranks: 2 and 1 each. The list of the blocks has two entries.
  constexpr std::uint64_t kStarts = 4, kBytes = 7, kChunkBytes = 9;
  std::array<std::uint64_t, 13> content{from_, from_ + 40};
  content[kStarts + 1] = 8;
  content[kBytes] = 20;
  content[kBytes + 1] = 4;
  content[kChunkBytes] = 8;
  content[kChunkBytes + 1] = 4;
  const std::uint64_t lists = allocate(sizeof(content));
  put(lists, content.data(), sizeof(content));
  const auto list = [lists](std::uint64_t at) { return lists + at * 8; };
  std::array<std::uint64_t, 11> values = {
      lists, to_, list(2), list(kStarts), list(2), list(kBytes), list(kChunkBytes), list(11),
      36,    12,  1};
  std::array<void*, 11> arguments{};
  for (std::size_t i = 0; i < 11; ++i) arguments[i] = &values[i];
  std::vector<std::uint32_t> old(9, 77);
  put(to_, old.data(), 36);
  launch(kChunkCat, arguments.data(), 2, 3);
  EXPECT_EQ(read(9), (std::vector<std::uint32_t>{0, 1, 10, 2, 3, 0, 4, 0, 0}));
  // If it converts, the results are not computed.
  values[10] = 2;
  launch(kChunkCat, arguments.data(), 2, 3);
  EXPECT_EQ(content_at(0), memory::Content::kNotComputed);
  EXPECT_EQ(content_at(8), memory::Content::kNotComputed);
  EXPECT_EQ(gpemu_cuda_free(lists), GPEMU_CUDA_SUCCESS);
}

TEST_F(PlainMoveTest, ListsThatAreNotThereYetAreReadLater) {
  const std::uint64_t lists = allocate(24);
  const std::array<std::uint64_t, 3> content = {to_, from_ + 4, 8};
  std::array<std::uint64_t, 7> values = {lists, lists + 8, lists + 16, lists, lists, 8, 1};
  std::array<void*, 7> arguments{};
  for (std::size_t i = 0; i < 7; ++i) arguments[i] = &values[i];
  gpemu_cuda_launch launch{.grid = {1, 1, 1}, .block = {128, 1, 1}, .arguments = arguments.data()};
  kernels::KernelWork work;  // As in a graph.
  launch::describe_for_later(moving_effect(kSplitCopy), launch, &work);
  put(lists, content.data(), sizeof(content));
  launch::perform(work, nullptr);
  EXPECT_EQ(read(2), (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(gpemu_cuda_free(lists), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
