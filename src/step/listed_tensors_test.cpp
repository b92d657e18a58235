// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/listed_tensors.hpp"

#include <string>

#include <gtest/gtest.h>

#include "gpemu/kernels/described_operation.hpp"

namespace gpemu::step {
namespace {

RecordedOperation kernel(const std::string& name, std::int64_t tensors, int lists_read = 2) {
  RecordedOperation operation;
  operation.kind = GPEMU_OPERATION_ELEMENTWISE;
  operation.name = name;
  operation.operation_class = kernels::OperationClass::kOptimizer;
  operation.type = GPEMU_TYPE_FP32;
  operation.shape[0].constant = lists_read * 1000 * tensors;
  operation.shape[1].constant = 1000 * tensors;
  operation.shape[kernels::kListedTensors].constant = tensors;
  return operation;
}

TEST(ListedTensors, AreThoseOfASinglePass) {
  ListedTensors listed;
  EXPECT_EQ(listed.tensors(), 0);
  listed.add(kernel("add", 60), 3);  // Three passes in two launches each.
  listed.add(kernel("add", 40), 3);
  listed.add(kernel("multiply", 100, 1));
  EXPECT_EQ(listed.tensors(), 100);
  EXPECT_EQ(listed.launches(), 7);
}

TEST(ListedTensors, AreFoundWithoutNames) {
  ListedTensors listed;
  listed.add(kernel("", 60), 3);
  listed.add(kernel("", 40), 3);
  listed.add(kernel("", 100, 1));
  EXPECT_EQ(listed.tensors(), 100);
}

TEST(ListedTensors, OfSeveralTypesAreDifferentTensors) {
  ListedTensors listed;
  listed.add(kernel("add<float>", 60));
  RecordedOperation half = kernel("add<half>", 40);
  half.type = GPEMU_TYPE_FP16;
  listed.add(half);
  EXPECT_EQ(listed.tensors(), 100);
}

TEST(ListedTensors, OtherWorkDoesNotCount) {
  ListedTensors listed;
  RecordedOperation other = kernel("add", 60);
  other.operation_class = kernels::OperationClass::kElementwise;
  listed.add(other);
  EXPECT_EQ(listed.launches(), 0);
  listed.add(kernel("lists of another layout", 0));
  EXPECT_EQ(listed.launches(), 1);
  EXPECT_EQ(listed.tensors(), 0);
}

}  // namespace
}  // namespace gpemu::step
