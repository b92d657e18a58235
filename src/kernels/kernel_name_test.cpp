// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/kernel_name.hpp"

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

TEST(KernelName, TellsIntegersFromPointers) {
  const KernelName name = read_kernel_name("_Z4copyPKfPfliydN3foo3BarIiPfEE");
  EXPECT_TRUE(name.is_cpp);
  EXPECT_EQ(name.function, "copy");
  ASSERT_EQ(name.parameters.size(), 7U);
  EXPECT_EQ(parameter_kind(name.parameters[0]), ParameterKind::kConstPointer);
  EXPECT_EQ(parameter_kind(name.parameters[1]), ParameterKind::kPointer);
  EXPECT_EQ(parameter_kind(name.parameters[2]), ParameterKind::kInteger64);
  EXPECT_EQ(parameter_kind(name.parameters[3]), ParameterKind::kInteger32);
  EXPECT_EQ(parameter_kind(name.parameters[4]), ParameterKind::kInteger64);
  EXPECT_EQ(parameter_kind(name.parameters[5]), ParameterKind::kOther);
  EXPECT_EQ(parameter_kind(name.parameters[6]), ParameterKind::kOther);
  EXPECT_EQ(name.parameters[6], "foo::Bar<int, float*>");
}

TEST(KernelName, LeavesOtherNamesAlone) {
  EXPECT_FALSE(read_kernel_name("add_kernel").is_cpp);
  EXPECT_FALSE(read_kernel_name("").is_cpp);
  EXPECT_FALSE(read_kernel_name("_ZN2at6native").is_cpp);
  EXPECT_TRUE(read_kernel_name("_Z3addv").parameters.empty());
}

TEST(KernelName, SplitsTemplatesAndLists) {
  EXPECT_EQ(split_list("a, b<c, d>, (e->f, g)"),
            (std::vector<std::string_view>{"a", "b<c, d>", "(e->f, g)"}));
  EXPECT_EQ(template_arguments("x::Lists<c10::complex<float>, 2>", "Lists"),
            (std::vector<std::string_view>{"c10::complex<float>", "2"}));
  EXPECT_TRUE(template_arguments("x::Lists", "Lists").empty());
  EXPECT_EQ(type_bytes("c10::Half"), 2U);
  EXPECT_EQ(type_bytes("Thing"), 0U);
}

}  // namespace
}  // namespace gpemu::kernels
