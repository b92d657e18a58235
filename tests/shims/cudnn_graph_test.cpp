// SPDX-License-Identifier: Apache-2.0
// The functions of cuDNN's graph interface, on an emulated GPU.
#include <vector>

#include "spelled_calls.hpp"

namespace {

constexpr int kNotInitialized = 1001, kBadParam = 2000, kNullPointer = 2002, kNotFinalized = 2004,
              kAttributeType = 2010, kUnsupported = 3000;
constexpr int kHalf = 2;  // cudnnDataType_t

class CudnnGraph : public SpelledCalls {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_CUDNN, GPEMU_TEST_RUNTIME_12});
    ASSERT_EQ(call("cudaMalloc", &memory_, size_t{4096}), 0);
    ASSERT_EQ(call("cudnnCreate", &handle_), 0);
    letters_['H'] = {address_of(handle_), 0, kBadParam};
  }

  void TearDown() override {
    EXPECT_EQ(call("cudnnDestroy", handle_), 0);
    EXPECT_EQ(call("cudaFree", memory_), 0);
  }

  void* create_backend(int kind) {
    void* made = nullptr;
    EXPECT_EQ(call("cudnnBackendCreateDescriptor", kind, &made), 0) << kind;
    return made;
  }

  template <typename Value>
  int set(void* descriptor, int attribute, int type, const std::vector<Value>& values) {
    return call("cudnnBackendSetAttribute", descriptor, attribute, type, int64_t(values.size()),
                values.data());
  }

  int finalize(void* descriptor) { return call("cudnnBackendFinalize", descriptor); }

  void* tensor(int64_t id, const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
    void* const made = create_backend(kTensor);
    EXPECT_EQ(set(made, 901, kTypeType, std::vector{kHalf}), 0);
    EXPECT_EQ(set(made, 902, kInt64Type, sizes), 0);
    EXPECT_EQ(finalize(made), kBadParam) << "it has no strides";
    EXPECT_EQ(set(made, 903, kInt64Type, strides), 0);
    EXPECT_EQ(set(made, 906, kInt64Type, std::vector{id}), 0);
    EXPECT_EQ(finalize(made), 0);
    return made;
  }

  /// A graph of one convolution in half precision.
  void* graph() {
    const std::vector<int64_t> ones = {1, 1};
    void* const convolution = create_backend(1);
    EXPECT_EQ(set(convolution, 102, kInt64Type, ones), 0);
    EXPECT_EQ(set(convolution, 103, kInt64Type, ones), 0);
    void* const operation = create_backend(10);
    EXPECT_EQ(set(operation, 702, kDescriptorType, std::vector{convolution}), kNotFinalized);
    EXPECT_EQ(finalize(convolution), 0);
    EXPECT_EQ(set(operation, 702, kDescriptorType, std::vector{convolution}), 0);
    for (const auto& [attribute, made] : {std::pair{703, tensor(2, {4, 8, 3, 3}, {72, 9, 3, 1})},
                                          {704, tensor(1, {2, 8, 6, 6}, {288, 36, 6, 1})},
                                          {705, tensor(3, {2, 4, 4, 4}, {64, 16, 4, 1})}}) {
      EXPECT_EQ(set(operation, attribute, kDescriptorType, std::vector{made}), 0);
    }
    EXPECT_EQ(finalize(operation), 0);
    void* const made = create_backend(15);
    EXPECT_EQ(finalize(made), kBadParam) << "it has no operation";
    EXPECT_EQ(set(made, 801, kDescriptorType, std::vector{operation}), 0);
    EXPECT_EQ(finalize(made), 0);
    return made;
  }

  static constexpr int kTypeType = 1, kInt64Type = 3, kPointerType = 6, kDescriptorType = 15,
                       kCharType = 24, kTensor = 17;
  void* memory_ = nullptr;
  void* handle_ = nullptr;
};

TEST_F(CudnnGraph, AConvolutionIsPlannedAndRun) {
  void* const heuristics = create_backend(4);
  ASSERT_EQ(set(heuristics, 201, kDescriptorType, std::vector{graph()}), 0);
  ASSERT_EQ(finalize(heuristics), 0);
  void* config = create_backend(3);
  int64_t count = 0;
  const auto get = [&](void* from, int attribute, int type, int64_t requested, void* array) {
    return call("cudnnBackendGetAttribute", from, attribute, type, requested, &count, array);
  };
  EXPECT_EQ(get(heuristics, 202, kDescriptorType, 0, none_), 0);
  EXPECT_EQ(count, 2) << "a V100 has tensor cores for half precision";
  ASSERT_EQ(get(heuristics, 202, kDescriptorType, 1, &config), 0);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(get(heuristics, 202, kInt64Type, 1, &config), kAttributeType);
  EXPECT_EQ(get(heuristics, 999, kInt64Type, 1, &config), kUnsupported);
  EXPECT_EQ(get(none_, 202, kDescriptorType, 1, &config), kBadParam);

  void* const plan = create_backend(5);
  int64_t bytes = -1;
  EXPECT_EQ(get(plan, 402, kInt64Type, 1, &bytes), kNotInitialized) << "it is not finalized";
  EXPECT_EQ(finalize(plan), kBadParam);
  ASSERT_EQ(set(plan, 401, kDescriptorType, std::vector{config}), 0);
  ASSERT_EQ(finalize(plan), 0);
  EXPECT_EQ(get(plan, 402, kInt64Type, 1, &bytes), 0);
  EXPECT_EQ(bytes, 0);
  char json[32] = {};
  EXPECT_EQ(get(plan, 405, kCharType, sizeof(json), &json[0]), 0);
  EXPECT_STREQ(json, R"({"engine":0})");

  void* const pack = create_backend(16);
  EXPECT_EQ(set(pack, 1000, kInt64Type, std::vector<int64_t>{1, 2, 3}), 0);
  EXPECT_EQ(set(pack, 1001, kPointerType, std::vector{memory_, memory_, memory_}), 0);
  EXPECT_EQ(call("cudnnBackendExecute", handle_, plan, pack), kNotFinalized);
  ASSERT_EQ(finalize(pack), 0);
  letters_['G'] = {address_of(plan), 0, kBadParam};
  letters_['U'] = {address_of(pack), 0, kBadParam};
  check("cudnnBackendExecute", "HGU");
  EXPECT_EQ(call("cudnnBackendExecute", handle_, pack, plan), kBadParam);
}

TEST_F(CudnnGraph, SizesMayExceed64Bits) {
  const int64_t side = int64_t{1} << 32;
  void* const square = tensor(1, {side, side}, {side, 1});
  void* const product = create_backend(19);
  for (const int attribute : {1520, 1521, 1522}) {
    EXPECT_EQ(set(product, attribute, kDescriptorType, std::vector{square}), 0);
  }
  // A backward pooling without its result.
  void* const pooling = create_backend(26);
  EXPECT_EQ(set(pooling, 1720, kDescriptorType, std::vector{square}), 0);
  for (void* const operation : {product, pooling}) {
    EXPECT_EQ(finalize(operation), 0);
    void* const graph = create_backend(15);
    EXPECT_EQ(set(graph, 801, kDescriptorType, std::vector{operation}), 0);
    EXPECT_EQ(finalize(graph), 0);
    void* const engine = create_backend(2);
    EXPECT_EQ(set(engine, 1300, kDescriptorType, std::vector{graph}), 0);
    EXPECT_EQ(set(engine, 1301, kInt64Type, std::vector<int64_t>{1}), 0);
    EXPECT_EQ(finalize(engine), 0);
    void* const config = create_backend(3);
    EXPECT_EQ(set(config, 300, kDescriptorType, std::vector{engine}), 0);
    EXPECT_EQ(finalize(config), 0);
    void* const plan = create_backend(5);
    EXPECT_EQ(set(plan, 401, kDescriptorType, std::vector{config}), 0);
    EXPECT_EQ(finalize(plan), 0);
  }
}

TEST_F(CudnnGraph, DescriptorsAreSetUntilTheyAreFinal) {
  EXPECT_EQ(call("cudnnBackendCreateDescriptor", kTensor, none_), kNullPointer);
  void* made = nullptr;
  EXPECT_EQ(call("cudnnBackendCreateDescriptor", 51, &made), kUnsupported);
  made = tensor(1, {2, 2}, {2, 1});
  const int64_t one = 1;
  letters_['G'] = {address_of(made), 0, kBadParam};
  check("cudnnBackendInitialize", "G");
  check("cudnnBackendFinalize", "G");
  EXPECT_EQ(call("cudnnBackendSetAttribute", made, 906, kInt64Type, one, &one), kNotInitialized);
  void* const open = create_backend(kTensor);
  EXPECT_EQ(call("cudnnBackendSetAttribute", open, 906, kInt64Type, one, none_), kNullPointer);
  EXPECT_EQ(call("cudnnBackendSetAttribute", open, 906, 33, one, &one), kBadParam);
  EXPECT_EQ(call("cudnnBackendSetAttribute", open, 906, kInt64Type, -one, &one), kBadParam);
  for (const int expected : {0, kBadParam}) {
    EXPECT_EQ(call("cudnnBackendDestroyDescriptor", open), expected);
  }
  EXPECT_EQ(call("cudnnBackendDestroyDescriptor", none_), 0);
}

}  // namespace
