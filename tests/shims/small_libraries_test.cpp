// SPDX-License-Identifier: Apache-2.0
// Each function of the smaller shims, on an emulated GPU: one good call and one bad one.
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <utility>

#include <gtest/gtest.h>

#include "loaded_libraries.hpp"

namespace {

class SmallLibraries : public LoadedLibraries {
 protected:
  void SetUp() override {
    load({GPEMU_TEST_CUFILE, GPEMU_TEST_CUPTI, GPEMU_TEST_CURAND, GPEMU_TEST_CUSPARSELT,
          GPEMU_TEST_NVJITLINK, GPEMU_TEST_NVRTC, GPEMU_TEST_NVSHMEM, GPEMU_TEST_RUNTIME_13});
  }
};

TEST_F(SmallLibraries, VersionsAreYieldedAndNullIsRefused) {
  const struct {
    const char* function;
    int version, refused;
  } functions[] = {{"cuptiGetVersion", 130202, 1},
                   {"curandGetVersion", 10309, 104},
                   {"nvrtcVersion", 13, 3},
                   {"nvJitLinkVersion", 13, 10}};
  for (const auto& function : functions) {
    int first = 0, second = 0;
    EXPECT_EQ(call(function.function, &first, &second), 0) << function.function;
    EXPECT_EQ(first, function.version) << function.function;
    EXPECT_EQ(call(function.function, none_, none_), function.refused) << function.function;
  }
  int version = 0;
  EXPECT_EQ(call("cusparseLtGetVersion", none_, &version), 0);
  EXPECT_EQ(version, 801);
  EXPECT_EQ(call("cusparseLtGetVersion", none_, none_), 3);
}

TEST_F(SmallLibraries, CuptiNamesItsStatusesAndHasAClock) {
  const char* text = nullptr;
  for (const auto& [status, name] : {std::pair{0, "CUPTI_SUCCESS"},
                                     {1, "CUPTI_ERROR_INVALID_PARAMETER"},
                                     {15, "CUPTI_ERROR_NOT_INITIALIZED"},
                                     {27, "CUPTI_ERROR_NOT_SUPPORTED"},
                                     {999, "CUPTI_ERROR_UNKNOWN"}}) {
    EXPECT_EQ(call("cuptiGetResultString", status, &text), 0);
    EXPECT_STREQ(text, name);
  }
  EXPECT_EQ(call("cuptiGetResultString", 1000, &text), 1);
  EXPECT_EQ(call("cuptiGetResultString", 0, none_), 1);
  uint64_t first = 0;
  EXPECT_EQ(call("cuptiGetTimestamp", &first), 0);
  EXPECT_GT(first, 0U);
  EXPECT_EQ(call("cuptiGetTimestamp", none_), 1);
}

TEST_F(SmallLibraries, CurandFillsWhatALiveGeneratorIsAskedFor) {
  constexpr int kNotInitialized = 101, kTypeError = 103, kOutOfRange = 104, kOddLength = 105;
  void* memory = nullptr;
  void* generator = nullptr;
  ASSERT_EQ(call("cudaMalloc", &memory, size_t{4096}), 0);
  ASSERT_EQ(call("curandCreateGenerator", &generator, 100), 0);
  const auto all = [&](void* handle, void* output, size_t count, int expected) {
    for (const char* function : {"curandGenerate", "curandGenerateLongLong",
                                 "curandGenerateUniform", "curandGenerateUniformDouble"}) {
      EXPECT_EQ(call(function, handle, output, count), expected) << function;
    }
    for (const char* function : {"curandGenerateNormal", "curandGenerateLogNormal"}) {
      EXPECT_EQ(call(function, handle, output, count, 0.0F, 1.0F), expected) << function;
    }
    for (const char* function : {"curandGenerateNormalDouble", "curandGenerateLogNormalDouble"}) {
      EXPECT_EQ(call(function, handle, output, count, 0.0, 1.0), expected) << function;
    }
    EXPECT_EQ(call("curandGeneratePoisson", handle, output, count, 2.0), expected);
  };
  all(generator, memory, 64, 0);
  all(generator, none_, 64, kOutOfRange);
  all(none_, memory, 64, kNotInitialized);
  EXPECT_EQ(call("curandGenerateNormal", generator, memory, size_t{3}, 0.0F, 1.0F), kOddLength);
  EXPECT_EQ(call("curandGeneratePoisson", generator, memory, size_t{4}, 0.0), kOutOfRange);
  EXPECT_EQ(call("curandCreateGenerator", &generator, 99), kTypeError);
  EXPECT_EQ(call("curandDestroyGenerator", generator), 0);
  EXPECT_EQ(call("curandDestroyGenerator", generator), kNotInitialized);
  EXPECT_EQ(call("cudaFree", memory), 0);
}

TEST_F(SmallLibraries, CurandKnowsWhichSettingsAKindOfGeneratorHas) {
  constexpr int kNotInitialized = 101, kTypeError = 103, kOutOfRange = 104;
  void* pseudo = nullptr;
  void* quasi = nullptr;
  ASSERT_EQ(call("curandCreateGenerator", &pseudo, 161), 0);
  ASSERT_EQ(call("curandCreateGenerator", &quasi, 201), 0);
  const struct {
    const char* function;
    uint64_t value;
    int pseudo, quasi;
  } settings[] = {
      {"curandSetPseudoRandomGeneratorSeed", 7, 0, kTypeError},
      {"curandSetQuasiRandomGeneratorDimensions", 7, kTypeError, 0},
      {"curandSetQuasiRandomGeneratorDimensions", 0, kOutOfRange, kOutOfRange},
      {"curandSetQuasiRandomGeneratorDimensions", 20001, kOutOfRange, kOutOfRange},
      {"curandSetGeneratorOffset", 7, 0, 0},
      {"curandSetGeneratorOrdering", 100, 0, 0},
      {"curandSetGeneratorOrdering", 202, kOutOfRange, kOutOfRange},
      {"curandGenerateSeeds", 0, 0, 0},
      {"curandSetStream", 0, 0, 0},
  };
  for (const auto& [function, value, of_pseudo, of_quasi] : settings) {
    EXPECT_EQ(call(function, pseudo, value), of_pseudo) << function << ' ' << value;
    EXPECT_EQ(call(function, quasi, value), of_quasi) << function << ' ' << value;
    if (of_pseudo == 0 || of_quasi == 0) {
      EXPECT_EQ(call(function, none_, value), kNotInitialized) << function;
    }
  }
  EXPECT_EQ(call("curandDestroyGenerator", pseudo), 0);
  EXPECT_EQ(call("curandDestroyGenerator", quasi), 0);
}

TEST_F(SmallLibraries, NvrtcKeepsProgramsAndNamesTheCompilerToInstall) {
  constexpr int kInvalidInput = 3, kInvalidProgram = 4, kCompilation = 6;
  void* program = nullptr;
  const char* const source = "__global__ void f() {}";
  EXPECT_EQ(call("nvrtcCreateProgram", &program, none_, none_, 0, none_, none_), kInvalidInput);
  EXPECT_EQ(call("nvrtcCreateProgram", &program, source, none_, 1, none_, none_), kInvalidInput);
  ASSERT_EQ(call("nvrtcCreateProgram", &program, source, none_, 0, none_, none_), 0);
  EXPECT_EQ(call("nvrtcAddNameExpression", program, "f"), 0);
  EXPECT_EQ(call("nvrtcAddNameExpression", program, none_), kInvalidInput);
  EXPECT_EQ(call("nvrtcCompileProgram", program, 0, none_), kCompilation);
  EXPECT_EQ(call("nvrtcCompileProgram", program, 1, none_), kInvalidInput);
  size_t size = 0;
  EXPECT_EQ(call("nvrtcGetProgramLogSize", program, &size), 0);
  std::string log(size, '\0');
  EXPECT_EQ(call("nvrtcGetProgramLog", program, log.data()), 0);
  EXPECT_NE(log.find("nvidia-cuda-nvrtc"), std::string::npos);
  EXPECT_EQ(log.find('\0'), size - 1) << "the size includes the NUL";
  for (const char* function : {"nvrtcGetProgramLogSize", "nvrtcGetProgramLog"}) {
    EXPECT_EQ(call(function, program, none_), kInvalidInput) << function;
  }
  void* dead = program;
  EXPECT_EQ(call("nvrtcDestroyProgram", &program), 0);
  EXPECT_EQ(program, nullptr);
  EXPECT_EQ(call("nvrtcDestroyProgram", &dead), kInvalidProgram);
  for (const char* function :
       {"nvrtcAddNameExpression", "nvrtcGetProgramLogSize", "nvrtcGetProgramLog"}) {
    EXPECT_EQ(call(function, dead, &size), kInvalidProgram) << function;
  }
  EXPECT_EQ(call("nvrtcCompileProgram", dead, 0, none_), kInvalidProgram);
  EXPECT_STREQ(call_as<const char*>("nvrtcGetErrorString", 6), "NVRTC_ERROR_COMPILATION");
  for (const int status : {-1, 12}) {
    EXPECT_STREQ(call_as<const char*>("nvrtcGetErrorString", status), "NVRTC_ERROR unknown");
  }
}

TEST_F(SmallLibraries, CufileRefusesTransfersAndHasNoUsers) {
  constexpr ssize_t kPlatformNotSupported = -5007;
  for (const char* function : {"cuFileRead", "cuFileWrite"}) {
    EXPECT_EQ(call_as<ssize_t>(function, none_, none_, size_t{1}, off_t{0}, off_t{0}),
              kPlatformNotSupported)
        << function;
  }
  EXPECT_EQ(call_as<long>("cuFileUseCount"), 0);
  call_as<void>("cuFileHandleDeregister", none_);
  call_as<void>("cuFileBatchIODestroy", none_);
}

TEST_F(SmallLibraries, NvshmemHasAVersionAndNeverStarts) {
  int major = 0, minor = 0;
  call_as<void>("nvshmem_info_get_version", &major, &minor);
  EXPECT_EQ(major, 1);
  EXPECT_EQ(minor, 3);
  call_as<void>("nvshmem_info_get_version", none_, none_);
  for (const char* function : {"nvshmemx_init_status", "nvshmemid_init_status"}) {
    EXPECT_EQ(call(function), 0) << function;
  }
  constexpr size_t kBytes = 64;
  char memory[kBytes];
  for (const char* function : {"nvshmem_malloc", "nvshmem_calloc", "nvshmem_align"}) {
    EXPECT_EQ(call_as<void*>(function, kBytes, kBytes), nullptr) << function;
  }
  call_as<void>("nvshmem_free", none_);
  EXPECT_EQ(call_as<void*>("nvshmem_ptr", &memory[0], 0), nullptr);
  EXPECT_EQ(call_as<void*>("nvshmemx_mc_ptr", 0, &memory[0]), nullptr);
  EXPECT_EQ(call_as<void*>("nvshmemx_buffer_register_symmetric", &memory[0], kBytes, 0), nullptr);
}

}  // namespace
