// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/pytorch/formula.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"

namespace gpemu::kernels {
namespace {

struct Named {
  std::string_view part;
  Operation operation = Operation::kCopy;
};

/// Functors that are lambdas, by the function that holds them.
constexpr std::array kLambdas = {
    Named{"direct_copy_kernel_cuda", Operation::kCopy},
    Named{"float16_copy_kernel_cuda", Operation::kCopy},
    Named{"bfloat16_copy_kernel_cuda", Operation::kCopy},
    Named{"converting_copy_kernel_cuda", Operation::kCopy},
    Named{"::neg_kernel_cuda", Operation::kNegate},
    Named{"::rsqrt_kernel_cuda", Operation::kReciprocalSqrt},
    Named{"::sqrt_kernel_cuda", Operation::kSqrt},
    Named{"::exp_kernel_cuda", Operation::kExp},
    Named{"::exp2_kernel_cuda", Operation::kExp2},
    Named{"::expm1_kernel_cuda", Operation::kExpm1},
    Named{"::log_kernel_cuda", Operation::kLog},
    Named{"::log2_kernel_cuda", Operation::kLog2},
    Named{"::log10_kernel_cuda", Operation::kLog10},
    Named{"::log1p_kernel_cuda", Operation::kLog1p},
    Named{"::sin_kernel_cuda", Operation::kSin},
    Named{"::cos_kernel_cuda", Operation::kCos},
    Named{"::tan_kernel_cuda", Operation::kTan},
    Named{"::asin_kernel_cuda", Operation::kAsin},
    Named{"::acos_kernel_cuda", Operation::kAcos},
    Named{"::atan_kernel_cuda", Operation::kAtan},
    Named{"::sinh_kernel_cuda", Operation::kSinh},
    Named{"::cosh_kernel_cuda", Operation::kCosh},
    Named{"::tanh_kernel_cuda", Operation::kTanh},
    Named{"::asinh_kernel_cuda", Operation::kAsinh},
    Named{"::acosh_kernel_cuda", Operation::kAcosh},
    Named{"::atanh_kernel_cuda", Operation::kAtanh},
    Named{"::erf_kernel_cuda", Operation::kErf},
    Named{"::erfc_kernel_cuda", Operation::kErfc},
    Named{"::sigmoid_kernel_cuda", Operation::kSigmoid},
    Named{"::silu_kernel(", Operation::kSilu},
    Named{"::floor_kernel_cuda", Operation::kFloor},
    Named{"::ceil_kernel_cuda", Operation::kCeil},
    Named{"::round_kernel_cuda", Operation::kRound},
    Named{"::trunc_kernel_cuda", Operation::kTrunc},
    Named{"::frac_kernel_cuda", Operation::kFrac},
    Named{"::sign_kernel_cuda", Operation::kSign},
    Named{"::reciprocal_kernel_cuda", Operation::kReciprocal},
    Named{"::logical_not_kernel_cuda", Operation::kLogicalNot},
    Named{"::bitwise_not_kernel_cuda", Operation::kBitwiseNot},
    Named{"::isposinf_kernel_impl", Operation::kIsPositiveInfinity},
    Named{"::isneginf_kernel_impl", Operation::kIsNegativeInfinity},
    Named{"::signbit_kernel_cuda", Operation::kSignBit},
    Named{"::launch_clamp_scalar", Operation::kClamp},
    Named{"::div_floor_kernel_cuda", Operation::kDivideFloor},
    Named{"::div_trunc_kernel_cuda", Operation::kDivideTrunc},
    Named{"::fmod_kernel_cuda", Operation::kMod},
    Named{"::remainder_kernel_cuda", Operation::kRemainder},
    Named{"::maximum_kernel_cuda", Operation::kMaximum},
    Named{"::minimum_kernel_cuda", Operation::kMinimum},
    Named{"::pow_tensor_tensor_kernel", Operation::kPower},
    Named{"::atan2_kernel_cuda", Operation::kAtan2},
    Named{"::hypot_kernel_cuda", Operation::kHypot},
    Named{"::copysign_kernel_cuda", Operation::kCopySign},
    Named{"::mse_kernel_cuda", Operation::kSquaredDifference},
    Named{"::logical_and_kernel_cuda", Operation::kLogicalAnd},
    Named{"::logical_or_kernel_cuda", Operation::kLogicalOr},
    Named{"::logical_xor_kernel_cuda", Operation::kLogicalXor},
    Named{"::where_kernel_impl", Operation::kWhere},
    Named{"::masked_fill_kernel", Operation::kMaskedFill},
};

/// Functors that are classes, as in PyTorch's wrappers.
constexpr std::array kClasses = {
    Named{"MulFunctor<", Operation::kMultiply},
    Named{"DivFunctor<", Operation::kDivide},
    Named{"BitwiseAndFunctor<", Operation::kBitwiseAnd},
    Named{"BitwiseOrFunctor<", Operation::kBitwiseOr},
    Named{"BitwiseXorFunctor<", Operation::kBitwiseXor},
    Named{"CompareEqFunctor<", Operation::kCompareEqual},
    Named{"CompareFunctor<", Operation::kCompare},
};

constexpr std::array<std::string_view, 14> kTypeNames = {"unsigned char",
                                                         "signed char",
                                                         "short",
                                                         "int",
                                                         "long",
                                                         "c10::Half",
                                                         "float",
                                                         "double",
                                                         "",
                                                         "",
                                                         "",
                                                         "bool",
                                                         "",
                                                         ""};

std::vector<std::string_view> bracketed(std::string_view text, std::size_t open) {
  const std::size_t end = skip_brackets(text, open);
  if (end == std::string_view::npos) return {};
  return split_list(text.substr(open + 1, end - open - 2));
}

bool is_truth(Operation operation) {
  return operation == Operation::kCompare || operation == Operation::kCompareEqual ||
         operation == Operation::kLogicalNot || operation == Operation::kLogicalAnd ||
         operation == Operation::kLogicalOr || operation == Operation::kLogicalXor ||
         operation == Operation::kIsPositiveInfinity ||
         operation == Operation::kIsNegativeInfinity || operation == Operation::kSignBit;
}

/// The type that PyTorch computes with. Source: ATen/OpMathType.h.
NumberType work_type(NumberType type) {
  return type == NumberType::kFloat16 || type == NumberType::kBFloat16 ? NumberType::kFloat32
                                                                       : type;
}

/// How many inputs an operation has, with the functor's own.
std::size_t inputs_of(Operation operation) {
  if (operation == Operation::kWhere) return 3;
  return operation < Operation::kAdd ? 1 : 2;
}

std::optional<Operation> find_operation(std::string_view functor) {
  // The wrapped functor's own name comes last.
  std::optional<Operation> found;
  std::size_t last = 0;
  for (const auto& named : kLambdas) {
    const std::size_t at = functor.rfind(named.part);
    if (at == std::string_view::npos || (found && at <= last)) continue;
    found = named.operation;
    last = at;
  }
  for (const auto& named : kClasses) {
    const std::size_t at = functor.rfind(named.part);
    if (at == std::string_view::npos || (found && at <= last)) continue;
    found = named.operation;
    last = at;
  }
  return found;
}

/// The type of a functor's arguments: of a lambda the first one's, of a class its template's.
NumberType own_type(std::string_view functor) {
  constexpr std::string_view kLambda = "{lambda(";
  const std::size_t lambda = functor.rfind(kLambda);
  const std::size_t open =
      lambda == std::string_view::npos ? functor.rfind('<') : lambda + kLambda.size() - 1;
  if (open == std::string_view::npos) return NumberType::kUnknown;
  const auto types = bracketed(functor, open);
  return types.empty() ? NumberType::kUnknown : number_type(types[0]);
}

/// AUnaryFunctor, BUnaryFunctor and BinaryFunctor: the types of two inputs, of the result, and what
/// is done. The first two hold one input.
std::optional<Formula> read_wrapper(std::string_view functor, std::size_t open, int scalar) {
  const auto arguments = bracketed(functor, open);
  if (arguments.size() != 4) return std::nullopt;
  const auto operation = find_operation(arguments[3]);
  if (!operation) return std::nullopt;
  const NumberType first = number_type(arguments[0]), second = number_type(arguments[1]);
  Formula formula{.operation = *operation, .tensors = scalar < 0 ? 2 : 1, .scalar = scalar};
  formula.result = number_type(arguments[2]);
  formula.types = scalar < 0 ? std::array{first, second, first}
                             : std::array{scalar == 0 ? second : first, first, first};
  // The functor's own argument, which may be wider than the tensors' type.
  formula.scalar_type = own_type(arguments[3]);
  const bool is_kind = *operation == Operation::kCompare || *operation == Operation::kCompareEqual;
  const Bytes functor_bytes = is_kind ? 4 : 1;
  const Bytes width = number_bytes(formula.scalar_type);
  formula.functor_bytes = scalar < 0 ? functor_bytes : 2 * std::max<Bytes>(width, functor_bytes);
  return formula;
}

/// The size of a lambda with captures: the captures, and after them a pointer of the compiler,
/// because these lambdas of PyTorch exist for the host too. Seen in the arguments that PyTorch 2.8
/// passes; the names of the host's functions contain `__nv_hdl_wrapper_t`.
constexpr Bytes lambda_bytes(Bytes captured) {
  return (captured + 7) / 8 * 8 + 8;
}

/// compare_scalar_kernel, pow_tensor_scalar_kernel_impl: the type, and an input of the functor.
std::optional<Formula> read_scalar_lambda(std::string_view functor, NumberType type) {
  Formula formula{.types = {type, type, type}, .result = type};
  if (contains(functor, "::compare_scalar_kernel<")) {
    formula.operation = Operation::kCompare;
    formula.result = NumberType::kBool;
    formula.scalar = 1;
    formula.scalar_type = type;
    formula.functor_bytes = lambda_bytes(2 * std::max<Bytes>(number_bytes(type), 4));
    return formula;
  }
  if (!contains(functor, "::pow_tensor_scalar_kernel_impl<")) return std::nullopt;
  formula.functor_bytes = lambda_bytes(0);
  if (functor.ends_with("#1}")) {
    formula.operation = Operation::kSquare;
  } else if (functor.ends_with("#2}")) {
    formula.operation = Operation::kCube;
  } else if (functor.ends_with("#4}")) {
    formula.operation = Operation::kPower;
    formula.scalar = 1;
    formula.scalar_type = type;
    formula.functor_bytes = lambda_bytes(number_bytes(type));
  } else {
    return std::nullopt;
  }
  return formula;
}

/// A division by a number that the host knows is a product with its reciprocal, which the lambda
/// holds in the type of the computation. Source: BinaryDivTruncKernel.cu.
Formula divide_by_scalar(NumberType type) {
  const NumberType held = work_type(type);
  return {.operation = Operation::kMultiplyTrunc,
          .types = {type, type, type},
          .result = type,
          .scalar = 1,
          .scalar_type = held,
          .functor_bytes = lambda_bytes(number_bytes(held))};
}

/// The whole number whose bits are those of an unsigned word, or the type itself.
NumberType word_type(std::string_view name) {
  if (name == "unsigned short") return NumberType::kInt16;
  if (name == "unsigned int") return NumberType::kInt32;
  if (name == "unsigned long") return NumberType::kInt64;
  return number_type(name);
}

/// A lambda: its arguments' types are the inputs'.
std::optional<Formula> read_lambda(std::string_view functor) {
  constexpr std::string_view kLambda = "{lambda(";
  const std::size_t lambda = functor.rfind(kLambda);
  if (lambda == std::string_view::npos || !functor.ends_with('}')) return std::nullopt;
  const auto arguments = bracketed(functor, lambda + kLambda.size() - 1);
  if (arguments.empty() || arguments.size() > 3) return std::nullopt;
  const NumberType type = number_type(arguments.back());
  if (auto formula = read_scalar_lambda(functor, number_type(arguments[0]))) return formula;
  const auto operation = find_operation(functor);
  if (!operation) return std::nullopt;
  if (*operation == Operation::kDivideTrunc && arguments.size() == 1 && is_real(type)) {
    return divide_by_scalar(type);
  }
  // A lambda with fewer arguments holds the others in its own way.
  if (arguments.size() != inputs_of(*operation)) return std::nullopt;
  Formula formula{.operation = *operation, .tensors = static_cast<int>(arguments.size())};
  for (std::size_t i = 0; i < arguments.size(); ++i) formula.types[i] = number_type(arguments[i]);
  if (*operation == Operation::kWhere) {
    // Since PyTorch 2.9 the choice moves words of the elements' size.
    formula.types[1] = formula.types[2] = word_type(arguments[2]);
    formula.result = formula.types[2];
  } else {
    formula.result = is_truth(*operation) ? NumberType::kBool : type;
  }
  if (*operation == Operation::kMaskedFill) {
    formula.result = formula.types[0];
    formula.scalar_type = formula.types[0];
    formula.functor_bytes = lambda_bytes(number_bytes(formula.types[0]));
  }
  if (*operation == Operation::kPower) formula.functor_bytes = lambda_bytes(0);
  if (*operation == Operation::kClamp) {
    formula.scalar_type = work_type(type);
    // Which limits there are, in 4 bytes, and both.
    const Bytes width = number_bytes(formula.scalar_type);
    formula.functor_bytes = lambda_bytes(width < 4 ? 8 : 3 * width);
  }
  const auto converted = template_arguments(functor, "converting_copy_kernel_cuda");
  if (converted.size() == 2) {
    formula.result = number_type(converted[1]);
  } else if (contains(functor, "bfloat16_copy_kernel_cuda")) {
    formula.result = NumberType::kBFloat16;
  } else if (contains(functor, "float16_copy_kernel_cuda")) {
    formula.result = NumberType::kFloat16;
  }
  return formula;
}

/// Sums with a factor: the functor holds alpha, or the other input and alpha.
std::optional<Formula> read_add(std::string_view functor) {
  const bool on_self = contains(functor, "CUDAFunctorOnSelf_add<");
  const bool on_other = contains(functor, "CUDAFunctorOnOther_add<");
  const std::size_t open = functor.find("_add<");
  if (open == std::string_view::npos) return std::nullopt;
  const auto arguments = bracketed(functor, open + 4);
  if (arguments.size() != 1) return std::nullopt;
  const NumberType type = number_type(arguments[0]);
  Formula formula{.operation = Operation::kAdd, .types = {type, type, type}, .result = type};
  formula.tensors = on_self || on_other ? 1 : 2;
  formula.scalar = on_self ? 1 : on_other ? 0 : -1;
  formula.scalar_type = work_type(type);
  formula.functor_bytes = number_bytes(formula.scalar_type) * (formula.scalar < 0 ? 1 : 2);
  return formula;
}

bool is_complete(const Formula& formula) {
  if (formula.result == NumberType::kUnknown) return false;
  for (int i = 0; i < formula.tensors; ++i) {
    if (formula.types[static_cast<std::size_t>(i)] == NumberType::kUnknown) return false;
  }
  return formula.scalar < 0 || formula.scalar_type != NumberType::kUnknown;
}

std::optional<Formula> read_any(std::string_view functor) {
  struct Wrapper {
    std::string_view name;
    int scalar = -1;
  };
  constexpr std::array kWrappers = {Wrapper{"::AUnaryFunctor<", 0}, Wrapper{"::BUnaryFunctor<", 1},
                                    Wrapper{"::BinaryFunctor<", -1}};
  for (const Wrapper& wrapper : kWrappers) {
    if (functor.substr(0, 40).find(wrapper.name) == std::string_view::npos) continue;
    return read_wrapper(functor, functor.find('<'), wrapper.scalar);
  }
  if (functor.starts_with("at::native::CUDAFunctor")) return read_add(functor);
  for (const Named& named : kClasses) {
    const std::size_t at = functor.find(named.part);
    const std::string_view before = functor.substr(0, std::min(at, functor.size()));
    if (at == std::string_view::npos || before.find('<') != std::string_view::npos) continue;
    const auto arguments = bracketed(functor, at + named.part.size() - 1);
    if (arguments.size() != 1) return std::nullopt;
    const NumberType type = number_type(arguments[0]);
    // Comparisons hold their kind.
    const bool is_comparison = is_truth(named.operation);
    return Formula{.operation = named.operation,
                   .tensors = 2,
                   .types = {type, type, type},
                   .result = is_comparison ? NumberType::kBool : type,
                   .functor_bytes = is_comparison ? Bytes{4} : Bytes{1}};
  }
  if (functor.starts_with("at::native::AbsFunctor<")) {
    const auto arguments = bracketed(functor, functor.find('<'));
    if (arguments.size() != 1) return std::nullopt;
    const NumberType type = number_type(arguments[0]);
    return Formula{.operation = Operation::kAbs, .types = {type, type, type}, .result = type};
  }
  return read_lambda(functor);
}

// ---- Evaluation

double round_half_even(double value) {
  return std::nearbyint(value);
}

[[gnu::always_inline]] inline std::optional<double> real_unary(Operation operation, double a) {
  switch (operation) {
    case Operation::kNegate:
      return -a;
    case Operation::kAbs:
      return std::abs(a);
    case Operation::kSqrt:
      return std::sqrt(a);
    case Operation::kReciprocalSqrt:
      return 1 / std::sqrt(a);
    case Operation::kExp:
      return std::exp(a);
    case Operation::kExp2:
      return std::exp2(a);
    case Operation::kExpm1:
      return std::expm1(a);
    case Operation::kLog:
      return std::log(a);
    case Operation::kLog2:
      return std::log2(a);
    case Operation::kLog10:
      return std::log10(a);
    case Operation::kLog1p:
      return std::log1p(a);
    case Operation::kSin:
      return std::sin(a);
    case Operation::kCos:
      return std::cos(a);
    case Operation::kTan:
      return std::tan(a);
    case Operation::kAsin:
      return std::asin(a);
    case Operation::kAcos:
      return std::acos(a);
    case Operation::kAtan:
      return std::atan(a);
    case Operation::kSinh:
      return std::sinh(a);
    case Operation::kCosh:
      return std::cosh(a);
    case Operation::kTanh:
      return std::tanh(a);
    case Operation::kAsinh:
      return std::asinh(a);
    case Operation::kAcosh:
      return std::acosh(a);
    case Operation::kAtanh:
      return std::atanh(a);
    case Operation::kErf:
      return std::erf(a);
    case Operation::kErfc:
      return std::erfc(a);
    default:
      return std::nullopt;
  }
}

/// Rounds a number as arithmetic of a type does.
double rounded(double value, NumberType type) {
  std::array<std::byte, 8> bytes{};
  store_number({.real = value}, type, bytes.data());
  return load_number(bytes.data(), type).real;
}

/// Returns 1 + e^value with each step rounded to a type: in FP32, the power may become infinite.
double one_and_exp(double value, NumberType type) {
  return rounded(1 + rounded(std::exp(value), type), type);
}

[[gnu::always_inline]] inline std::optional<double> more_real_unary(Operation operation, double a,
                                                                    NumberType type) {
  switch (operation) {
    case Operation::kSigmoid:
      return 1 / one_and_exp(-a, work_type(type));
    case Operation::kSilu:
      return a / one_and_exp(-a, work_type(type));
    case Operation::kFloor:
      return std::floor(a);
    case Operation::kCeil:
      return std::ceil(a);
    case Operation::kRound:
      return round_half_even(a);
    case Operation::kTrunc:
      return std::trunc(a);
    case Operation::kFrac:
      return a - std::trunc(a);
    case Operation::kSign:
      return std::isnan(a) ? 0.0 : static_cast<double>((a > 0) - (a < 0));
    case Operation::kReciprocal:
      return 1 / a;
    case Operation::kSquare:
      return a * a;
    case Operation::kCube:
      return rounded(a * a, type) * a;
    default:
      return std::nullopt;
  }
}

[[gnu::always_inline]] inline std::optional<double> real_binary(Operation operation, double a,
                                                                double b, NumberType type) {
  switch (operation) {
    case Operation::kMultiply:
      return a * b;
    case Operation::kMultiplyTrunc:
      return std::trunc(rounded(a * b, work_type(type)));
    case Operation::kDivide:
      return a / b;
    case Operation::kDivideTrunc:
      return std::trunc(rounded(a / b, type));
    case Operation::kMod:
      return std::fmod(a, b);
    case Operation::kRemainder: {
      const double mod = std::fmod(a, b);
      return mod != 0 && ((b < 0) != (mod < 0)) ? mod + b : mod;
    }
    case Operation::kMaximum:
      return std::isnan(a) ? a : std::isnan(b) ? b : std::max(a, b);
    case Operation::kMinimum:
      return std::isnan(a) ? a : std::isnan(b) ? b : std::min(a, b);
    case Operation::kPower:
      return std::pow(a, b);
    case Operation::kAtan2:
      return std::atan2(a, b);
    case Operation::kHypot:
      // The version for double would need glibc 2.35 at run time; the rest needs 2.34.
      return static_cast<double>(std::hypot(static_cast<long double>(a), b));
    case Operation::kCopySign:
      return std::copysign(a, b);
    case Operation::kSquaredDifference:
      a = rounded(a - b, type);
      return a * a;
    default:
      return std::nullopt;
  }
}

[[gnu::always_inline]] inline std::optional<std::int64_t> whole_unary(Operation operation,
                                                                      std::int64_t a) {
  const auto bits = static_cast<std::uint64_t>(a);
  switch (operation) {
    case Operation::kFloor:
    case Operation::kCeil:
    case Operation::kRound:
    case Operation::kTrunc:
      return a;
    case Operation::kNegate:
      return static_cast<std::int64_t>(0 - bits);
    case Operation::kAbs:
      return a < 0 ? static_cast<std::int64_t>(0 - bits) : a;
    case Operation::kSign:
      return (a > 0) - (a < 0);
    case Operation::kSquare:
      return static_cast<std::int64_t>(bits * bits);
    case Operation::kCube:
      return static_cast<std::int64_t>(bits * bits * bits);
    case Operation::kBitwiseNot:
      return ~a;
    default:
      return std::nullopt;
  }
}

[[gnu::always_inline]] inline std::optional<std::int64_t> whole_binary(Operation operation,
                                                                       std::int64_t a,
                                                                       std::int64_t b) {
  const bool divides = b != 0 && b != -1;
  switch (operation) {
    case Operation::kMultiply:
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) *
                                       static_cast<std::uint64_t>(b));
    case Operation::kDivideTrunc:
      if (!divides) return std::nullopt;
      return a / b;
    case Operation::kDivideFloor:
      if (!divides) return std::nullopt;
      return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
    case Operation::kMod:
      if (!divides) return std::nullopt;
      return a % b;
    case Operation::kRemainder:
      if (!divides) return std::nullopt;
      return a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b : a % b;
    case Operation::kMaximum:
      return std::max(a, b);
    case Operation::kMinimum:
      return std::min(a, b);
    case Operation::kBitwiseAnd:
      return a & b;
    case Operation::kBitwiseOr:
      return a | b;
    case Operation::kBitwiseXor:
      return a ^ b;
    default:
      return std::nullopt;
  }
}

template <typename T>
bool compare(Operation operation, std::int32_t kind, T a, T b) {
  if (operation == Operation::kCompareEqual) return kind == 0 ? a == b : a != b;
  switch (kind) {
    case 0:
      return a >= b;
    case 1:
      return a > b;
    case 2:
      return a <= b;
    default:
      return a < b;
  }
}

bool is_true(const Number& number, NumberType type) {
  return is_real(type) ? number.real != 0 : number.whole != 0;
}

/// Whether a result is an input but for its sign: then a NaN keeps its payload.
constexpr bool keeps_nan(Operation operation) {
  return operation == Operation::kNegate || operation == Operation::kAbs ||
         operation == Operation::kMaximum || operation == Operation::kMinimum ||
         operation == Operation::kCopySign;
}

/// Converts a result as arithmetic of a type does.
[[gnu::always_inline]] inline Number arithmetic_result(double real, NumberType type) {
  return {.real = std::isnan(real) && type != NumberType::kFloat64 ? kNan : real};
}

/// Operations with truth values as results.
[[gnu::always_inline]] inline bool evaluate_truth(Operation operation, const Formula& formula,
                                                  const FunctorState& state, const Number& a,
                                                  const Number& b) {
  const NumberType type = formula.types[0];
  switch (operation) {
    case Operation::kLogicalNot:
      return !is_true(a, type);
    case Operation::kLogicalAnd:
      return is_true(a, type) && is_true(b, type);
    case Operation::kLogicalOr:
      return is_true(a, type) || is_true(b, type);
    case Operation::kLogicalXor:
      return is_true(a, type) != is_true(b, type);
    case Operation::kIsPositiveInfinity:
      return std::isinf(a.real) && a.real > 0;
    case Operation::kIsNegativeInfinity:
      return std::isinf(a.real) && a.real < 0;
    case Operation::kSignBit:
      return is_real(type) ? std::signbit(a.real) : a.whole < 0;
    default:
      return is_real(type) ? compare(operation, state.kind, a.real, b.real)
                           : compare(operation, state.kind, a.whole, b.whole);
  }
}

[[gnu::always_inline]] inline Number clamp(const FunctorState& state, const Number& a,
                                           NumberType type) {
  constexpr std::int32_t kMin = 0, kMax = 1;
  if (is_real(type) && std::isnan(a.real)) return a;
  const auto limited = [&state](auto value, auto lower, auto upper) {
    if (state.kind == kMin) return std::max(value, lower);
    if (state.kind == kMax) return std::min(value, lower);
    return std::min(std::max(value, lower), upper);
  };
  return {.real = limited(a.real, state.lower.real, state.upper.real),
          .whole = limited(a.whole, state.lower.whole, state.upper.whole)};
}

[[gnu::always_inline]] inline Number add(const Formula& formula, const Number& a, const Number& b,
                                         const Number& alpha) {
  const NumberType type = formula.types[0];
  if (type == NumberType::kBool) return {.whole = (a.whole != 0) || (alpha.whole * b.whole != 0)};
  if (!is_real(type)) {
    const auto sum = static_cast<std::uint64_t>(a.whole) +
                     static_cast<std::uint64_t>(alpha.whole) * static_cast<std::uint64_t>(b.whole);
    return {.whole = static_cast<std::int64_t>(sum)};
  }
  if (type == NumberType::kFloat64) return {.real = std::fma(alpha.real, b.real, a.real)};
  const auto first = static_cast<float>(a.real), second = static_cast<float>(b.real);
  // The same, and ten times as fast.
  if (alpha.real == 1) return arithmetic_result(second + first, type);
  return arithmetic_result(std::fma(static_cast<float>(alpha.real), second, first), type);
}

}  // namespace

NumberType number_type(std::string_view name) {
  if (name == "c10::BFloat16") return NumberType::kBFloat16;
  if (name == "char") return NumberType::kInt8;
  if (name == "long long") return NumberType::kInt64;
  for (std::size_t i = 0; i < kTypeNames.size(); ++i) {
    if (!name.empty() && kTypeNames[i] == name) return static_cast<NumberType>(i);
  }
  return NumberType::kUnknown;
}

std::optional<Formula> read_formula(std::string_view functor) {
  auto formula = read_any(functor);
  return formula && is_complete(*formula) ? formula : std::nullopt;
}

FunctorState read_functor(const Formula& formula, const std::byte* functor) {
  FunctorState state;
  const Bytes width = number_bytes(formula.scalar_type);
  const auto number_at = [&](Bytes offset) {
    return load_number(functor + offset, formula.scalar_type);
  };
  switch (formula.operation) {
    case Operation::kCompare:
    case Operation::kCompareEqual:
      std::memcpy(&state.kind, functor, sizeof(state.kind));
      if (formula.scalar >= 0) state.scalar = number_at(std::max<Bytes>(width, 4));
      break;
    case Operation::kClamp:
      std::memcpy(&state.kind, functor, sizeof(state.kind));
      state.lower = number_at(std::max<Bytes>(width, 4));
      state.upper = number_at(std::max<Bytes>(width, 4) + width);
      break;
    case Operation::kAdd:
      if (formula.scalar >= 0) state.scalar = number_at(0);
      // The factor, in the place of a limit.
      state.upper = number_at(formula.scalar >= 0 ? width : 0);
      break;
    case Operation::kMaskedFill:
    case Operation::kMultiplyTrunc:
    case Operation::kPower:
      // Of powers with a tensor as exponent nothing is held.
      if (formula.functor_bytes >= width && width > 0) state.scalar = number_at(0);
      break;
    default:
      // A class without members takes a byte; what follows is aligned.
      if (formula.scalar >= 0) state.scalar = number_at(width);
      break;
  }
  return state;
}

namespace {

/// Computes one element. With a constant for the operation, only that operation's code remains.
[[gnu::always_inline]] inline std::optional<Number> evaluate_one(Operation operation,
                                                                 const Formula& formula,
                                                                 const FunctorState& state,
                                                                 const Number& a, const Number& b,
                                                                 const Number& c) {
  const NumberType type = formula.types[0];
  if (is_truth(operation)) {
    return Number{.whole = evaluate_truth(operation, formula, state, a, b)};
  }
  switch (operation) {
    case Operation::kCopy:
      return convert_number(a, type, formula.result);
    case Operation::kAdd:
      return add(formula, a, b, state.upper);
    case Operation::kWhere:
      return a.whole != 0 ? b : c;
    case Operation::kMaskedFill:
      return b.whole != 0 ? state.scalar : a;
    case Operation::kClamp:
      return clamp(state, a, type);
    default:
      break;
  }
  if (is_real(type)) {
    auto real = real_unary(operation, a.real);
    if (!real) real = more_real_unary(operation, a.real, type);
    if (!real) real = real_binary(operation, a.real, b.real, type);
    if (!real) return std::nullopt;
    return keeps_nan(operation) ? Number{.real = *real} : arithmetic_result(*real, type);
  }
  if (operation == Operation::kBitwiseNot && type == NumberType::kBool) {
    return Number{.whole = a.whole == 0};
  }
  auto whole = whole_unary(operation, a.whole);
  if (!whole) whole = whole_binary(operation, a.whole, b.whole);
  return whole ? std::optional(Number{.whole = *whole}) : std::nullopt;
}

/// Where an input's elements lie: one for all where the step is 0.
struct Input {
  const Number* first = nullptr;
  std::size_t step = 0;

  const Number& operator[](std::size_t i) const { return first[i * step]; }
};

template <Operation kOperation>
bool evaluate_each(const Formula& formula, const FunctorState& state,
                   const std::array<Input, 3>& inputs, std::span<Number> results) {
  const auto [a, b, c] = inputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto value = evaluate_one(kOperation, formula, state, a[i], b[i], c[i]);
    if (!value) return false;
    // Member by member: a copy of the whole would have to go through memory first.
    results[i].real = value->real;
    results[i].whole = value->whole;
  }
  return true;
}

using EvaluateEach = bool (*)(const Formula&, const FunctorState&, const std::array<Input, 3>&,
                              std::span<Number>);
constexpr auto kEvaluateEach = []<std::size_t... kOperations>(std::index_sequence<kOperations...>) {
  return std::array<EvaluateEach, sizeof...(kOperations)>{
      &evaluate_each<static_cast<Operation>(kOperations)>...};
}(std::make_index_sequence<static_cast<std::size_t>(Operation::kMaskedFill) + 1>());

}  // namespace

bool evaluate(const Formula& formula, const FunctorState& state,
              std::span<const std::vector<Number>> tensors, std::span<Number> results) {
  static constexpr Number kNone;
  std::array<Input, 3> inputs{Input{&kNone}, Input{&kNone}, Input{&kNone}};
  std::size_t next = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (static_cast<int>(i) == formula.scalar) {
      inputs[i] = {&state.scalar};
    } else if (next < tensors.size()) {
      inputs[i] = {tensors[next++].data(), 1};
    }
  }
  return kEvaluateEach[static_cast<std::size_t>(formula.operation)](formula, state, inputs,
                                                                    results);
}

}  // namespace gpemu::kernels
