// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/formula.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace gpemu::kernels {
namespace {

using enum NumberType;

std::string lambda_of(const std::string& function, const std::string& arguments,
                      const std::string& number = "1") {
  return "at::native::" + function +
         "(at::TensorIteratorBase&)::{lambda()#1}::operator()() const::{lambda(" + arguments +
         ")#" + number + "}";
}

/// What a functor makes of one real number.
double result_of(const Formula& formula, const std::byte* functor, double a) {
  const std::vector<Number> tensor{{.real = a}};
  std::vector<Number> results(1);
  EXPECT_TRUE(evaluate(formula, read_functor(formula, functor), {&tensor, 1}, results));
  return results[0].real;
}

TEST(Formula, DivisionsByANumberMultiplyByItsReciprocal) {
  const auto formula = read_formula(lambda_of("binary_internal::div_trunc_kernel_cuda", "float"));
  ASSERT_TRUE(formula);
  EXPECT_EQ(formula->functor_bytes, 16U);
  const float half = 0.5F;
  const auto* const functor = reinterpret_cast<const std::byte*>(&half);
  EXPECT_EQ(result_of(*formula, functor, 7), 3);
  EXPECT_EQ(result_of(*formula, functor, -7), -3);
  // Of half numbers the reciprocal has 32 bits.
  const auto halves =
      read_formula(lambda_of("binary_internal::div_trunc_kernel_cuda", "c10::Half"));
  ASSERT_TRUE(halves);
  EXPECT_EQ(result_of(*halves, functor, 9), 4);
}

TEST(Formula, LambdasWithOtherArgumentsAreNotKnown) {
  EXPECT_FALSE(read_formula(lambda_of("binary_internal::div_trunc_kernel_cuda", "int")));
  EXPECT_FALSE(read_formula(lambda_of("div_floor_kernel_cuda", "float")));
  EXPECT_FALSE(read_formula(lambda_of("maximum_kernel_cuda", "float")));
  EXPECT_FALSE(read_formula(lambda_of("sqrt_kernel_cuda", "float, float")));
  EXPECT_FALSE(read_formula(lambda_of("where_kernel_impl", "bool, float")));
  EXPECT_TRUE(read_formula(lambda_of("where_kernel_impl", "bool, float, float")));
}

TEST(Formula, OnlyKnownLambdasOfPowersAre) {
  const auto power = [](const std::string& number) {
    return read_formula(
        "void at::native::(anonymous namespace)::pow_tensor_scalar_kernel_impl<"
        "float, float>(at::TensorIteratorBase&, float)::{lambda(float)#" +
        number + "}");
  };
  ASSERT_TRUE(power("1"));
  EXPECT_EQ(power("1")->operation, Operation::kSquare);
  EXPECT_EQ(power("4")->operation, Operation::kPower);
  EXPECT_FALSE(power("3"));
  EXPECT_FALSE(power("5"));
}

Bytes functor_bytes(const std::string& functor) {
  const auto formula = read_formula(functor);
  return formula ? formula->functor_bytes : 0;
}

// The types of what is converted lie behind.
TEST(Formula, LambdasWithCapturesEndInAPointer) {
  const auto clamp = [](const char* type) {
    return functor_bytes(lambda_of("launch_clamp_scalar", type));
  };
  EXPECT_EQ(clamp("unsigned char"), 16U);
  EXPECT_EQ(clamp("c10::Half"), 24U);
  EXPECT_EQ(clamp("double"), 32U);
  const auto compare = [](const std::string& type) {
    return functor_bytes("void at::native::(anonymous namespace)::compare_scalar_kernel<" + type +
                         ">(at::TensorIteratorBase&, at::native::(anonymous namespace)::OpType, " +
                         type + ")::{lambda(" + type + ")#1}");
  };
  EXPECT_EQ(compare("short"), 16U);
  EXPECT_EQ(compare("double"), 24U);
  EXPECT_EQ(functor_bytes(lambda_of("pow_tensor_tensor_kernel", "float, float")), 8U);
  EXPECT_EQ(functor_bytes(lambda_of("sin_kernel_cuda", "float")), 1U);
}

TEST(Formula, ComparisonsHoldTheirKind) {
  EXPECT_EQ(functor_bytes("at::native::(anonymous namespace)::CompareFunctor<float>"), 4U);
  EXPECT_EQ(functor_bytes("at::native::(anonymous namespace)::CompareEqFunctor<float>"), 4U);
  EXPECT_EQ(functor_bytes("at::native::binary_internal::MulFunctor<float>"), 1U);
}

TEST(Formula, StepsOfSigmoidAreRounded) {
  const Formula sigmoid{.operation = Operation::kSigmoid, .types = {kFloat32}, .result = kFloat32};
  const std::byte none{};
  EXPECT_EQ(result_of(sigmoid, &none, -100), 0);
}

TEST(Formula, ArithmeticMakesOneNan) {
  const auto bits = [](double real) {
    const auto single = static_cast<float>(real);
    std::uint32_t word = 0;
    std::memcpy(&word, &single, sizeof(word));
    return word;
  };
  const Formula sine{.operation = Operation::kSin, .types = {kFloat32}, .result = kFloat32};
  const std::byte none{};
  EXPECT_EQ(bits(result_of(sine, &none, std::numeric_limits<double>::infinity())), 0x7fffffffU);
  const Formula negate{.operation = Operation::kNegate, .types = {kFloat32}, .result = kFloat32};
  EXPECT_TRUE(std::signbit(result_of(negate, &none, kNan)));
}

TEST(Formula, CopiesAreOfTheirResultsType) {
  const auto copied = [](NumberType from, NumberType to, Number number) {
    const Formula formula{.operation = Operation::kCopy, .types = {from}, .result = to};
    const std::vector<Number> tensor{number};
    std::vector<Number> results(1);
    EXPECT_TRUE(evaluate(formula, {}, {&tensor, 1}, results));
    return results[0];
  };
  EXPECT_EQ(copied(NumberType::kBool, NumberType::kFloat64, {.whole = 1}).real, 1);
  EXPECT_EQ(copied(NumberType::kInt64, NumberType::kFloat32, {.whole = -3}).real, -3);
  EXPECT_EQ(copied(NumberType::kFloat32, NumberType::kInt32, {.real = -1.5}).whole, -1);
  EXPECT_EQ(copied(NumberType::kFloat32, NumberType::kBool, {.real = 0.5}).whole, 1);
}

}  // namespace
}  // namespace gpemu::kernels
