// SPDX-License-Identifier: Apache-2.0
// Each function of cuFFT: one good call and one bad one.
#include <array>
#include <cstdint>

#include "loaded_libraries.hpp"

namespace {

enum Status : int {
  kSuccess = 0,
  kInvalidPlan = 1,
  kInvalidType = 3,
  kInvalidValue = 4,
  kInvalidSize = 8
};
constexpr int kR2C = 0x2a, kC2R = 0x2c, kC2C = 0x29, kD2Z = 0x6a, kZ2D = 0x6c, kZ2Z = 0x69;
constexpr int kNoType = 1, kNoPlan = 0, kForward = -1, kC32F = 4;
constexpr size_t kElement = 8;  // of complex numbers of FP32

class Cufft : public LoadedLibraries {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_CUFFT, GPEMU_TEST_RUNTIME_12});
    ASSERT_EQ(call("cudaMalloc", &memory_, size_t{1} << 20), kSuccess);
  }
  void TearDown() override { EXPECT_EQ(call("cudaFree", memory_), kSuccess); }

  int create() {
    int plan = 0;
    EXPECT_EQ(call("cufftCreate", &plan), kSuccess);
    return plan;
  }

  /// Ends a plan, whose work area holds so many elements.
  void end(int plan, size_t elements) {
    size_t work = 0;
    EXPECT_EQ(call("cufftGetSize", plan, &work), kSuccess);
    EXPECT_EQ(work, elements * kElement);
    EXPECT_EQ(call("cufftDestroy", plan), kSuccess);
  }

  void* memory_ = nullptr;
};

TEST_F(Cufft, PlansAreMade) {
  int sizes[] = {16, 8};
  long long sizes_64[] = {16, 8}, none_64 = 0;
  int plan = 0;
  EXPECT_EQ(call("cufftPlan1d", &plan, 16, kC2C, 3), kSuccess);
  end(plan, 48);
  EXPECT_EQ(call("cufftPlan2d", &plan, 16, 8, kR2C), kSuccess);
  end(plan, 128);
  EXPECT_EQ(call("cufftPlan3d", &plan, 16, 8, 2, kC2R), kSuccess);
  end(plan, 256);
  EXPECT_EQ(call("cufftPlanMany", &plan, 2, sizes, none_, 1, 1, none_, 1, 1, kC2C, 3), kSuccess);
  end(plan, 384);
  EXPECT_EQ(call("cufftPlan1d", &plan, 0, kC2C, 3), kInvalidSize);
  EXPECT_EQ(call("cufftPlan1d", none_, 16, kC2C, 3), kInvalidValue);
  EXPECT_EQ(call("cufftPlan2d", &plan, 16, 8, kNoType), kInvalidType);
  EXPECT_EQ(call("cufftPlan3d", &plan, 16, 8, 0, kC2R), kInvalidSize);
  EXPECT_EQ(call("cufftPlanMany", &plan, 4, sizes, none_, 1, 1, none_, 1, 1, kC2C, 3),
            kInvalidValue);
  const auto make = [&](size_t elements, int bad, const char* function, auto... arguments) {
    size_t work = 0;
    plan = create();
    EXPECT_EQ(call(function, plan, arguments..., &work), kSuccess) << function;
    EXPECT_EQ(work, elements * kElement) << function;
    EXPECT_EQ(call(function, plan, arguments..., &work), kInvalidPlan) << function << ": made";
    EXPECT_EQ(call(function, bad, arguments..., &work), kInvalidPlan) << function;
    end(plan, elements);
  };
  make(48, kNoPlan, "cufftMakePlan1d", 16, kC2C, 3);
  make(128, kNoPlan, "cufftMakePlan2d", 16, 8, kC2C);
  make(256, kNoPlan, "cufftMakePlan3d", 16, 8, 2, kC2C);
  make(384, kNoPlan, "cufftMakePlanMany", 2, sizes, none_, 1, 1, none_, 1, 1, kC2C, 3);
  make(384, kNoPlan, "cufftMakePlanMany64", 2, sizes_64, none_, none_64, none_64, none_, none_64,
       none_64, kC2C, 3LL);
  size_t work = 0;
  plan = create();
  const auto make_any = [&](int type) {
    return call("cufftXtMakePlanMany", plan, 2, sizes_64, none_, none_64, none_64, kC32F, none_,
                none_64, none_64, kC32F, 3LL, &work, type);
  };
  EXPECT_EQ(make_any(99), kInvalidType);
  EXPECT_EQ(make_any(kC32F), kSuccess);
  EXPECT_EQ(call("cufftXtExec", plan, memory_, memory_, kForward), kSuccess);
  EXPECT_EQ(call("cufftXtExec", plan, memory_, memory_, 0), kInvalidValue);
  end(plan, 384);
}

TEST_F(Cufft, WorkIsEstimated) {
  int sizes[] = {16, 8};
  size_t work = 0;
  EXPECT_EQ(call("cufftEstimate1d", 16, kC2C, 3, &work), kSuccess);
  EXPECT_EQ(work, 48 * kElement);
  EXPECT_EQ(call("cufftEstimate2d", 16, 8, kZ2Z, &work), kSuccess);
  EXPECT_EQ(work, 128 * 2 * kElement);
  EXPECT_EQ(call("cufftEstimate3d", 16, 8, 2, kC2C, &work), kSuccess);
  EXPECT_EQ(work, 256 * kElement);
  const auto many = [&](int rank) {
    return call("cufftEstimateMany", rank, sizes, none_, 1, 1, none_, 1, 1, kC2C, 3, &work);
  };
  EXPECT_EQ(many(2), kSuccess);
  EXPECT_EQ(work, 384 * kElement);
  EXPECT_EQ(many(0), kInvalidValue);
  EXPECT_EQ(call("cufftEstimate1d", 16, kNoType, 3, &work), kInvalidType);
  EXPECT_EQ(call("cufftEstimate2d", 16, 0, kC2C, &work), kInvalidSize);
  EXPECT_EQ(call("cufftEstimate3d", 16, 8, 2, kC2C, none_), kInvalidValue);
}

TEST_F(Cufft, PlansRunTheirTypeAndHaveSettings) {
  const std::pair<const char*, int> transforms[] = {{"cufftExecC2C", kC2C}, {"cufftExecZ2Z", kZ2Z},
                                                    {"cufftExecR2C", kR2C}, {"cufftExecC2R", kC2R},
                                                    {"cufftExecD2Z", kD2Z}, {"cufftExecZ2D", kZ2D}};
  for (const auto& [execute, type] : transforms) {
    int plan = 0, other = 0;
    EXPECT_EQ(call("cufftPlan1d", &plan, 16, type, 1), kSuccess);
    EXPECT_EQ(call("cufftPlan1d", &other, 16, type == kC2C ? kZ2Z : kC2C, 1), kSuccess);
    EXPECT_EQ(call(execute, plan, memory_, memory_, kForward), kSuccess) << execute;
    EXPECT_EQ(call(execute, plan, none_, memory_, kForward), kInvalidValue) << execute;
    EXPECT_EQ(call(execute, other, memory_, memory_, kForward), kInvalidPlan) << execute;
    EXPECT_EQ(call("cufftDestroy", other), kSuccess);
    EXPECT_EQ(call("cufftDestroy", plan), kSuccess);
    EXPECT_EQ(call("cufftDestroy", plan), kInvalidPlan);
  }
  int plan = create(), version = 0;
  size_t work = 0;
  EXPECT_EQ(call("cufftSetAutoAllocation", plan, 0), kSuccess);
  EXPECT_EQ(call("cufftSetAutoAllocation", kNoPlan, 0), kInvalidPlan);
  EXPECT_EQ(call("cufftSetStream", plan, none_), kSuccess);
  EXPECT_EQ(call("cufftSetStream", kNoPlan, none_), kInvalidPlan);
  EXPECT_EQ(call("cufftGetSize", plan, &work), kInvalidPlan) << "it is not made";
  EXPECT_EQ(call("cufftMakePlan1d", plan, 16, kC2C, 1, &work), kSuccess);
  EXPECT_EQ(call("cufftGetSize", plan, none_), kInvalidValue);
  EXPECT_EQ(call("cufftSetWorkArea", plan, memory_), kSuccess);
  EXPECT_EQ(call("cufftSetWorkArea", plan, none_), kInvalidValue);
  EXPECT_EQ(call("cufftDestroy", plan), kSuccess);
  EXPECT_EQ(call("cufftCreate", none_), kInvalidValue);
  std::array<int, 3> parts{};
  for (int type = 0; type < 3; ++type) {
    EXPECT_EQ(call("cufftGetProperty", type, &parts[type]), kSuccess);
  }
  EXPECT_EQ(call("cufftGetProperty", 3, &version), kInvalidValue);
  EXPECT_EQ(call("cufftGetVersion", &version), kSuccess);
  EXPECT_EQ(version, parts[0] * 1000 + parts[1] * 100 + parts[2]);
  EXPECT_EQ(call("cufftGetVersion", none_), kInvalidValue);
}

}  // namespace
