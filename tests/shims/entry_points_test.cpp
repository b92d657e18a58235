// SPDX-License-Identifier: Apache-2.0
// The shims as a program finds them: loaded by file, looked up by name and version.
#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <link.h>
#include <string_view>

#include "runtime_calls.hpp"

namespace {

constexpr uint64_t kPerThread = 2;

class DriverEntryPoints : public LoadedLibraries {
 protected:
  void SetUp() override { load({GPEMU_TEST_DRIVER}); }

  int get(const char* name, void** function, int version, uint64_t flags, int* found) {
    return call("cuGetProcAddress_v2", name, function, version, flags, found);
  }

  void* asked(const char* name, int version, uint64_t flags = 0) {
    void* function = nullptr;
    status_ = get(name, &function, version, flags, &found_);
    return function;
  }

  int status_ = -1;
  int found_ = -1;
};

TEST_F(DriverEntryPoints, AnswerByTheVersionAskedFor) {
  EXPECT_EQ(asked("cuStreamGetCaptureInfo", 10010), find("cuStreamGetCaptureInfo"));
  EXPECT_EQ(asked("cuStreamGetCaptureInfo", 11020), find("cuStreamGetCaptureInfo"));
  EXPECT_EQ(asked("cuStreamGetCaptureInfo", 11030), find("cuStreamGetCaptureInfo_v2"));
  EXPECT_EQ(asked("cuStreamGetCaptureInfo", 12030), find("cuStreamGetCaptureInfo_v3"));
  EXPECT_EQ(asked("cuMemAlloc", 12080), find("cuMemAlloc_v2"));
  EXPECT_EQ(asked("cuCtxCreate", 12040), find("cuCtxCreate_v3"));
  EXPECT_EQ(asked("cuCtxCreate", 13000), find("cuCtxCreate_v4"));
  EXPECT_EQ(status_, 0);
  EXPECT_EQ(found_, 0);
}

TEST_F(DriverEntryPoints, AnswerWithPerThreadStreams) {
  EXPECT_EQ(asked("cuLaunchKernel", 12000), find("cuLaunchKernel"));
  EXPECT_EQ(asked("cuLaunchKernel", 12000, kPerThread), find("cuLaunchKernel_ptsz"));
  EXPECT_EQ(asked("cuMemcpyHtoD", 12000, kPerThread), find("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(asked("cuMemAlloc", 12000, kPerThread), find("cuMemAlloc_v2"));
}

TEST_F(DriverEntryPoints, TellAnUnknownNameFromAVersionTooOld) {
  EXPECT_EQ(asked("cuNoSuchFunction", 12000), nullptr);
  EXPECT_EQ(status_, kSuccess);
  EXPECT_EQ(found_, 1);
  EXPECT_EQ(asked("cuGraphAddNode", 11000), nullptr);
  EXPECT_EQ(status_, kSuccess);
  EXPECT_EQ(found_, 2);
}

TEST_F(DriverEntryPoints, RefuseNullPointersAndUnknownFlags) {
  void* function = nullptr;
  EXPECT_EQ(get(nullptr, &function, 12000, 0, &found_), 1);
  EXPECT_EQ(get("cuInit", nullptr, 12000, 0, &found_), 1);
  EXPECT_EQ(get("cuInit", &function, 12000, 8, &found_), 1);
  EXPECT_EQ(get("cuInit", &function, 12000, 0, nullptr), 0);
}

TEST_F(DriverEntryPoints, EveryStatusHasItsNameAndAnUnknownOneHasNone) {
  const char* text = nullptr;
  EXPECT_EQ(call("cuGetErrorName", 2, &text), 0);
  EXPECT_STREQ(text, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_EQ(call("cuGetErrorString", 2, &text), 0);
  EXPECT_STREQ(text, "out of memory");
  EXPECT_EQ(call("cuGetErrorName", 9, &text), 1) << "a status of the runtime only";
  EXPECT_EQ(text, nullptr);
  EXPECT_EQ(call("cuGetErrorName", 2, none_), 1);
}

class RuntimeStatus : public RuntimeCalls {};

TEST_P(RuntimeStatus, NamesAreTheRuntimes) {
  const auto name = [this](int status) { return call_as<const char*>("cudaGetErrorName", status); };
  EXPECT_STREQ(name(9), "cudaErrorInvalidConfiguration");
  EXPECT_STREQ(name(916), "unrecognized error code") << "a status of the driver only";
  EXPECT_STREQ(name(123456), "unrecognized error code");
}

GPEMU_FOR_ALL_RUNTIMES(RuntimeStatus);

/// Returns the size of the variables that each thread has of libgpemu, which is loaded; 0 if it is
/// not found.
std::size_t thread_storage() {
  std::size_t found = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        if (std::string_view(info->dlpi_name).find("/libgpemu.so") == std::string_view::npos) {
          return 0;
        }
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
          *static_cast<std::size_t*>(result) = info->dlpi_phdr[i].p_memsz;
        }
        return 1;
      },
      &found);
  return found;
}

// All of it must fit into the loader's reserve for libraries that are loaded late. Source: The GNU
// C Library Reference Manual, "Dynamic Linking Tunables": glibc.rtld.optional_static_tls is 512
// bytes.
TEST(Library, LeavesRoomForThreadsOfOthers) {
  ASSERT_NE(dlopen(GPEMU_TEST_RUNTIME_12, RTLD_LAZY | RTLD_LOCAL), nullptr) << dlerror();
  EXPECT_GT(thread_storage(), 0U);
  EXPECT_LE(thread_storage(), 512U);
}

}  // namespace
