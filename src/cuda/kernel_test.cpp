// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/kernel.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/mutex.hpp"
#include "gpemu/cuda.h"
#include "gpemu/launch/image.hpp"
#include "gpemu/launch/kernel_state.hpp"
#include "gpemu/process/attach.hpp"

#include "graph.hpp"
#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

class KernelTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_test_gpu(); }
};

TEST_F(KernelTest, UnregistersWhatAFatBinaryRegisteredAndNoMore) {
  static constexpr std::array<int, 2> kBinaries{};
  static constexpr std::array<int, 4> kNames{};
  for (const std::size_t i : {0, 1}) {
    gpemu_cuda_register_kernel(&kNames[2 * i], "kernel", &kBinaries[i]);
    gpemu_cuda_register_variable(&kNames[2 * i + 1], "variable", 16, &kBinaries[i]);
  }
  gpemu_cuda_unregister(&kBinaries[0]);
  gpemu_cuda_kernel_handle kernel = nullptr;
  std::uint64_t bytes = 0;
  EXPECT_EQ(gpemu_cuda_registered_kernel(&kNames[0], &kernel),
            GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION);
  EXPECT_EQ(gpemu_cuda_registered_variable(&kNames[1], nullptr, &bytes),
            GPEMU_CUDA_ERROR_INVALID_SYMBOL);
  EXPECT_EQ(gpemu_cuda_registered_kernel(&kNames[2], &kernel), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_registered_variable(&kNames[3], nullptr, &bytes), GPEMU_CUDA_SUCCESS);
  const gpemu_cuda_kernel_handle before = kernel;
  gpemu_cuda_register_kernel(&kNames[2], "other", &kBinaries[1]);
  EXPECT_EQ(gpemu_cuda_registered_kernel(&kNames[2], &kernel), GPEMU_CUDA_SUCCESS);
  EXPECT_NE(kernel, before);
  gpemu_cuda_unregister(&kBinaries[1]);
  EXPECT_EQ(gpemu_cuda_registered_kernel(&kNames[2], &kernel),
            GPEMU_CUDA_ERROR_INVALID_DEVICE_FUNCTION);
}

TEST_F(KernelTest, AForkedChildEndsThoughAThreadHeldTheRegistry) {
  static constexpr int kBinary = 0, kVariable = 0;
  std::atomic<bool> ended{false};
  std::thread busy([&ended] {
    while (!ended) {
      gpemu_cuda_register_variable(&kVariable, "variable", 16, &kBinary);
      gpemu_cuda_unregister(&kBinary);
    }
  });
  for (int i = 0; i < 32; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(10);  // Ends a child that waits for a lock that no thread can release.
      gpemu_cuda_unregister(&kBinary);
      gpemu_cuda_register_variable(&kVariable, "variable", 16, &kBinary);
      gpemu_cuda_kernel_handle kernel = nullptr;
      const auto status = gpemu_cuda_registered_kernel(&kVariable, &kernel);
      ::_exit(status == GPEMU_CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    if (status != 0) break;
  }
  ended = true;
  busy.join();
}

/// Waits until a thread sleeps, as it does for a lock that the caller holds.
void wait_for_sleep(pid_t thread) {
  std::string number, name, state;
  while (state != "S") {
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    ASSERT_TRUE(stat >> number >> name >> state);
  }
}

TEST_F(KernelTest, TheRegistryIsOpenWhileAVariableIsMade) {
  static constexpr int kBinary = 0, kVariable = 0;
  gpemu_cuda_register_variable(&kVariable, "variable", 16, &kBinary);
  gpemu_cuda_stream_handle stream = nullptr;
  gpemu_cuda_graph_handle graph = nullptr;
  ASSERT_EQ(gpemu_cuda_stream_create(1, 0, &stream), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_begin_capture(stream, 2, nullptr), GPEMU_CUDA_SUCCESS);
  std::atomic<pid_t> number{0};
  std::thread maker;
  {
    const Lock lock(graph_mutex());
    maker = std::thread([&number] {
      std::int32_t thread_local_mode = 1;  // Allocations look at captures.
      EXPECT_EQ(gpemu_cuda_exchange_capture_mode(&thread_local_mode), GPEMU_CUDA_SUCCESS);
      number = ::gettid();
      EXPECT_EQ(gpemu_cuda_registered_variable(&kVariable, nullptr, nullptr), GPEMU_CUDA_SUCCESS);
    });
    while (number == 0) {
    }
    wait_for_sleep(number);
    const std::unique_lock registered(launch::registry().mutex, std::try_to_lock);
    EXPECT_TRUE(registered.owns_lock()) << "who builds a graph looks for kernels";
  }
  maker.join();
  gpemu_cuda_unregister(&kBinary);
  EXPECT_EQ(gpemu_cuda_end_capture(stream, &graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_destroy(stream), GPEMU_CUDA_SUCCESS);
}

TEST_F(KernelTest, ModulesGiveTheirVariablesBackWhateverIsCaptured) {
  const auto free_bytes = [] {
    std::uint64_t free = 0, total = 0;
    EXPECT_EQ(gpemu_cuda_mem_info(&free, &total), GPEMU_CUDA_SUCCESS);
    return free;
  };
  const std::uint64_t before = free_bytes();
  gpemu_cuda_module* const module = launch::modules().create();
  module->image.emplace().variables["variable"].bytes = 4 * kMiB;
  std::uint64_t address = 0;
  ASSERT_EQ(gpemu_cuda_module_variable(module, "variable", &address, nullptr), GPEMU_CUDA_SUCCESS);
  EXPECT_LT(free_bytes(), before);
  gpemu_cuda_stream_handle stream = nullptr;
  gpemu_cuda_graph_handle graph = nullptr;
  ASSERT_EQ(gpemu_cuda_stream_create(1, 0, &stream), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_begin_capture(stream, 0, nullptr), GPEMU_CUDA_SUCCESS);
  std::int32_t mode = 2;
  ASSERT_EQ(gpemu_cuda_exchange_capture_mode(&mode), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_module_unload(module), GPEMU_CUDA_SUCCESS);
  ASSERT_EQ(gpemu_cuda_exchange_capture_mode(&mode), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(gpemu_cuda_end_capture(stream, &graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_graph_destroy(graph), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_stream_destroy(stream), GPEMU_CUDA_SUCCESS);
}

TEST_F(KernelTest, ListsWhoseSizeSaysThatTheyAreWideArePricedSo) {
  const char* const name =
      "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEENS1_"
      "14UnaryOpFunctorIdLi2ELi1ELi1EEEJNS0_3ExpIdEEEEEvT_T0_DpT1_";
  const gpemu_cuda_launch launch{.grid = {1, 1, 1}, .block = {512, 1, 1}};
  for (const Bytes bytes : {4000, 5000}) {
    gpemu_cuda_module* const module = launch::modules().create();
    module->image.emplace().kernels[name].parameters = {{.offset = 0, .bytes = bytes}};
    gpemu_cuda_kernel_handle kernel = nullptr;
    ASSERT_EQ(gpemu_cuda_module_kernel(module, name, &kernel), GPEMU_CUDA_SUCCESS);
    ASSERT_EQ(gpemu_cuda_launch_kernel(kernel, &launch, nullptr), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(kernel->traits.tensor_lists.value().number_bytes, bytes == 5000 ? 2U : 1U);
    EXPECT_EQ(gpemu_cuda_module_unload(module), GPEMU_CUDA_SUCCESS);
  }
}

TEST_F(KernelTest, BlocksSayHowMuchOfTheGpuALaunchFills) {
  gpemu_cuda_module* const module = launch::modules().create();
  module->image.emplace().kernels["kernel"].registers = 32;
  gpemu_cuda_kernel_handle kernel = nullptr;
  ASSERT_EQ(gpemu_cuda_module_kernel(module, "kernel", &kernel), GPEMU_CUDA_SUCCESS);
  const auto shape = [&](std::uint32_t blocks, Duration time) {
    cost::OperationCost cost{.estimate = {.time = time}};
    launch::set_shape(*kernel, {.grid = {blocks, 1, 1}, .block = {512, 1, 1}},
                      process::device_at(0), cost);
    return std::pair(cost.width, cost.waves);
  };
  constexpr Duration kLong = std::chrono::milliseconds(1);
  EXPECT_EQ(shape(20, kLong), std::pair(0.25, 1)) << "of 80 multiprocessors";
  EXPECT_EQ(shape(80, kLong), std::pair(1.0, 1));
  EXPECT_EQ(shape(3200, kLong), std::pair(1.0, 1)) << "nothing is more urgent";
  gpemu_cuda_stream_handle stream = nullptr;
  ASSERT_EQ(gpemu_cuda_stream_create(1, -1, &stream), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(shape(3200, kLong), std::pair(1.0, 10)) << "four blocks on a multiprocessor";
  EXPECT_EQ(shape(3201, kLong), std::pair(1.0, 11));
  EXPECT_EQ(shape(3200, kLong / 20), std::pair(1.0, 5)) << "no wave is shorter than 10 us";
  EXPECT_EQ(shape(1 << 30, 100 * kLong), std::pair(1.0, 128));
  EXPECT_EQ(shape(3200, Duration()), std::pair(1.0, 1));
  EXPECT_EQ(gpemu_cuda_stream_destroy(stream), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_module_unload(module), GPEMU_CUDA_SUCCESS);
}

TEST_F(KernelTest, SmallKernelsOfTwoStreamsRunSideBySide) {
  gpemu_cuda_module* const module = launch::modules().create();
  module->image.emplace().kernels["kernel"].registers = 32;
  gpemu_cuda_kernel_handle kernel = nullptr;
  ASSERT_EQ(gpemu_cuda_module_kernel(module, "kernel", &kernel), GPEMU_CUDA_SUCCESS);
  const auto took = [&](std::uint32_t blocks, int streams) {
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
    const TimePoint start = process::process().clock->now();
    const gpemu_cuda_launch launch{.grid = {blocks, 1, 1}, .block = {32, 1, 1}};
    std::vector<gpemu_cuda_stream_handle> made(static_cast<std::size_t>(streams));
    for (gpemu_cuda_stream_handle& stream : made) {
      EXPECT_EQ(gpemu_cuda_stream_create(1, 0, &stream), GPEMU_CUDA_SUCCESS);
      EXPECT_EQ(gpemu_cuda_launch_kernel(kernel, &launch, stream), GPEMU_CUDA_SUCCESS);
    }
    EXPECT_EQ(gpemu_cuda_device_synchronize(), GPEMU_CUDA_SUCCESS);
    const Duration time = process::process().clock->now() - start;
    for (const gpemu_cuda_stream_handle stream : made) {
      EXPECT_EQ(gpemu_cuda_stream_destroy(stream), GPEMU_CUDA_SUCCESS);
    }
    return time;
  };
  EXPECT_GT(took(40, 1), Duration());
  EXPECT_EQ(took(40, 2), took(40, 1)) << "a half of the GPU each";
  EXPECT_EQ(took(41, 2), 2 * took(41, 1));
  EXPECT_EQ(took(40, 4), 2 * took(40, 1));
  EXPECT_EQ(gpemu_cuda_module_unload(module), GPEMU_CUDA_SUCCESS);
}

TEST_F(KernelTest, LaunchesAreRefusedThatTheCodeCannotBeLaunchedWith) {
  gpemu_cuda_module* const module = launch::modules().create();
  launch::Image& image = module->image.emplace();
  image.kernels["bound"].max_threads_per_block = 64;
  image.kernels["registers"].registers = 255;
  image.kernels["shared"].static_shared = 8 * kKiB;
  const auto launch = [module](const char* name, const gpemu_cuda_launch& how) {
    gpemu_cuda_kernel_handle kernel = nullptr;
    EXPECT_EQ(gpemu_cuda_module_kernel(module, name, &kernel), GPEMU_CUDA_SUCCESS);
    return gpemu_cuda_launch_kernel(kernel, &how, nullptr);
  };
  EXPECT_EQ(launch("bound", {.grid = {1, 1, 1}, .block = {64, 1, 1}}), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(launch("bound", {.grid = {1, 1, 1}, .block = {65, 1, 1}}),
            GPEMU_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(launch("registers", {.grid = {1, 1, 1}, .block = {256, 1, 1}}), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(launch("registers", {.grid = {1, 1, 1}, .block = {512, 1, 1}}),
            GPEMU_CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  gpemu_cuda_launch with{.grid = {1, 1, 1}, .block = {32, 1, 1}};
  with.dynamic_shared_bytes = 40 * kKiB;
  EXPECT_EQ(launch("shared", with), GPEMU_CUDA_SUCCESS);
  with.dynamic_shared_bytes += 1;
  EXPECT_EQ(launch("shared", with), GPEMU_CUDA_ERROR_INVALID_VALUE);
  // A V100 holds 80 * 2 blocks of 1024 threads.
  gpemu_cuda_launch together{.grid = {40, 2, 2}, .block = {1024, 1, 1}, .cooperative = 1};
  EXPECT_EQ(launch("shared", together), GPEMU_CUDA_SUCCESS);
  together.grid[1] = 3;
  EXPECT_EQ(launch("shared", together), GPEMU_CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
  together.cooperative = 0;
  EXPECT_EQ(launch("shared", together), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_module_unload(module), GPEMU_CUDA_SUCCESS);
}

TEST_F(KernelTest, RefusesFilesOfModulesThatAreCutOff) {
  const std::string path = testing::TempDir() + "gpemu_module." + std::to_string(::getpid());
  const auto load = [&path](const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    gpemu_cuda_module_handle module = nullptr;
    return gpemu_cuda_module_load_file(path.c_str(), &module);
  };
  const auto bytes_of = [](const auto& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, &launch::kElfMagic, sizeof(launch::kElfMagic));
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 2;
  header.e_shstrndx = 1;
  header.e_shoff = std::uint64_t{1} << 40;  // Nothing is mapped there.
  EXPECT_EQ(load(bytes_of(header)), GPEMU_CUDA_ERROR_INVALID_IMAGE) << "its table is missing";
  EXPECT_EQ(load(bytes_of(header).substr(0, 40)), GPEMU_CUDA_ERROR_INVALID_IMAGE);
  header.e_shoff = ~std::uint64_t{0} - 63;
  EXPECT_EQ(load(bytes_of(header)), GPEMU_CUDA_ERROR_INVALID_IMAGE) << "offsets that wrap";
  struct {
    std::uint32_t magic = launch::kFatBinaryMagic;
    std::uint16_t version = 1, header_bytes = 16;
    std::uint64_t bytes = std::uint64_t{1} << 40;
  } fat;
  EXPECT_EQ(load(bytes_of(fat)), GPEMU_CUDA_ERROR_INVALID_IMAGE);
  fat.bytes = 0;
  EXPECT_EQ(load(bytes_of(fat)), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(load(bytes_of(fat).substr(0, 12)), GPEMU_CUDA_ERROR_INVALID_IMAGE);
  fat.magic = launch::kFatBinaryWrapperMagic;  // The other fields are an address.
  EXPECT_EQ(load(bytes_of(fat)), GPEMU_CUDA_ERROR_INVALID_IMAGE);
  for (const char* const content : {"", ".v", "//\n"}) {
    EXPECT_EQ(load(content), GPEMU_CUDA_ERROR_INVALID_IMAGE);
  }
  EXPECT_EQ(load(".version 8.0\n"), GPEMU_CUDA_SUCCESS);
  ::unlink(path.c_str());
}

TEST_F(KernelTest, ModulesListTheirKernels) {
  gpemu_cuda_module* const module = launch::modules().create();
  launch::Image& image = module->image.emplace();
  for (const char* const name : {"a", "b", "c"}) image.kernels[name];
  std::uint32_t number = 0;
  ASSERT_EQ(gpemu_cuda_module_kernel_count(module, &number), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(number, 3U);
  std::array<gpemu_cuda_kernel_handle, 4> some{}, all{};
  ASSERT_EQ(gpemu_cuda_module_kernels(module, some.data(), 2), GPEMU_CUDA_SUCCESS);
  EXPECT_NE(some[1], nullptr);
  EXPECT_EQ(some[2], nullptr) << "no more than asked for";
  ASSERT_EQ(gpemu_cuda_module_kernels(module, all.data(), 4), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(all[3], nullptr) << "no more than there are";
  std::set<gpemu_cuda_kernel_handle> named;
  for (const char* const name : {"a", "b", "c"}) {
    gpemu_cuda_kernel_handle kernel = nullptr;
    ASSERT_EQ(gpemu_cuda_module_kernel(module, name, &kernel), GPEMU_CUDA_SUCCESS);
    named.insert(kernel);
  }
  EXPECT_EQ(std::set(all.begin(), all.begin() + 3), named);
  EXPECT_EQ(gpemu_cuda_module_kernel_count(module, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_module_kernels(module, nullptr, 1), GPEMU_CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(gpemu_cuda_module_unload(module), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_module_kernel_count(module, &number), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(gpemu_cuda_module_kernels(module, all.data(), 1), GPEMU_CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(KernelTest, KernelsOfPtxCannotBeListed) {
  gpemu_cuda_module_handle module = nullptr;
  gpemu_cuda_kernel_handle kernel = nullptr;
  std::uint32_t number = 42;
  ASSERT_EQ(gpemu_cuda_module_load(".version 8.0\n", &module), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_module_kernel_count(module, &number), GPEMU_CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(gpemu_cuda_module_kernels(module, &kernel, 1), GPEMU_CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(number, 42U);
  EXPECT_EQ(kernel, nullptr);
  EXPECT_EQ(gpemu_cuda_module_unload(module), GPEMU_CUDA_SUCCESS);
}

/// A kernel of a module with machine code for compute capability 7.0.
class CodeTest : public KernelTest {
 protected:
  void SetUp() override {
    launch::Image& image = module_->image.emplace();
    image.architecture = 70;
    image.constant = 256;
    code_ = &image.kernels["kernel"];
    code_->registers = 64;
    ASSERT_EQ(gpemu_cuda_module_kernel(module_, "kernel", &kernel_), GPEMU_CUDA_SUCCESS);
  }
  void TearDown() override {
    if (kernel_ != nullptr) unload();
  }
  /// Afterwards, the handle of the kernel is not alive.
  gpemu_cuda_kernel_handle unload() {
    EXPECT_EQ(gpemu_cuda_module_unload(module_), GPEMU_CUDA_SUCCESS);
    return std::exchange(kernel_, nullptr);
  }
  [[nodiscard]] gpemu_cuda_kernel_info info() const {
    gpemu_cuda_kernel_info info{};
    EXPECT_EQ(gpemu_cuda_kernel_get_info(kernel_, &info), GPEMU_CUDA_SUCCESS);
    return info;
  }
  [[nodiscard]] int occupancy(int threads, Bytes shared) const {
    int blocks = -1;
    EXPECT_EQ(gpemu_cuda_occupancy(kernel_, threads, shared, &blocks), GPEMU_CUDA_SUCCESS);
    return blocks;
  }
  gpemu_cuda_module* module_ = launch::modules().create();
  launch::KernelCode* code_ = nullptr;
  gpemu_cuda_kernel_handle kernel_ = nullptr;
};

TEST_F(CodeTest, InfoIsWhatTheCompilerRecorded) {
  code_->static_shared = 8 * kKiB;
  code_->local = 16;
  code_->max_threads_per_block = 128;
  const gpemu_cuda_kernel_info found = info();
  EXPECT_STREQ(found.name, "kernel");
  EXPECT_EQ(found.module, module_);
  EXPECT_EQ(found.registers, 64);
  EXPECT_EQ(found.max_threads_per_block, 128);
  EXPECT_EQ(found.binary_version, 70);
  EXPECT_EQ(found.ptx_version, 70);
  EXPECT_EQ(found.static_shared_bytes, 8 * kKiB);
  EXPECT_EQ(found.constant_bytes, 256U);
  EXPECT_EQ(found.local_bytes, 16U);
  EXPECT_EQ(found.max_dynamic_shared_bytes, 40 * kKiB) << "its own counts";
  EXPECT_EQ(found.shared_carveout, -1);
  EXPECT_EQ(gpemu_cuda_kernel_get_info(kernel_, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  const gpemu_cuda_kernel_handle ended = unload();
  gpemu_cuda_kernel_info none{};
  EXPECT_EQ(gpemu_cuda_kernel_get_info(ended, &none), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(none.name, nullptr);
}

TEST_F(CodeTest, RegistersLimitTheThreadsOfABlock) {
  code_->registers = 255;
  EXPECT_EQ(info().max_threads_per_block, 256);
}

TEST_F(CodeTest, RegisteredKernelsHaveNoModule) {
  static constexpr int kHostFunction = 0;
  gpemu_cuda_kernel_handle kernel = nullptr;
  gpemu_cuda_register_kernel(&kHostFunction, "registered", &kHostFunction);
  ASSERT_EQ(gpemu_cuda_registered_kernel(&kHostFunction, &kernel), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_kernel_info found{.module = module_};
  EXPECT_EQ(gpemu_cuda_kernel_get_info(kernel, &found), GPEMU_CUDA_SUCCESS);
  EXPECT_STREQ(found.name, "registered");
  EXPECT_EQ(found.module, nullptr);
  EXPECT_EQ(found.binary_version, 70) << "the device's";
  gpemu_cuda_unregister(&kHostFunction);
}

TEST_F(CodeTest, LaunchesMayTakeTheSharedMemoryThatTheProgramOptedInTo) {
  const auto launch = [this](Bytes shared) {
    const gpemu_cuda_launch how{
        .grid = {1, 1, 1}, .block = {32, 1, 1}, .dynamic_shared_bytes = shared};
    return gpemu_cuda_launch_kernel(kernel_, &how, nullptr);
  };
  EXPECT_EQ(launch(48 * kKiB + 1), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_kernel_set_max_dynamic_shared(kernel_, 96 * kKiB + 1),
            GPEMU_CUDA_ERROR_INVALID_VALUE)
      << "more than a V100 has for a block";
  EXPECT_EQ(info().max_dynamic_shared_bytes, 48 * kKiB);
  ASSERT_EQ(gpemu_cuda_kernel_set_max_dynamic_shared(kernel_, 96 * kKiB), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(info().max_dynamic_shared_bytes, 96 * kKiB);
  EXPECT_EQ(launch(96 * kKiB), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(launch(96 * kKiB + 1), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_kernel_set_max_dynamic_shared(unload(), 0), GPEMU_CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CodeTest, TheCarveoutIsAPercentage) {
  for (const std::int32_t percent : {0, 100, -1, 50}) {
    ASSERT_EQ(gpemu_cuda_kernel_set_carveout(kernel_, percent), GPEMU_CUDA_SUCCESS);
    EXPECT_EQ(info().shared_carveout, percent);
  }
  for (const std::int32_t percent : {-2, 101}) {
    EXPECT_EQ(gpemu_cuda_kernel_set_carveout(kernel_, percent), GPEMU_CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(info().shared_carveout, 50);
  EXPECT_EQ(gpemu_cuda_kernel_set_carveout(unload(), 0), GPEMU_CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(CodeTest, TheScarcestResourceLimitsTheOccupancy) {
  // A multiprocessor of a V100 has 64 warps, 32 blocks, 65536 registers and 96 KiB.
  EXPECT_EQ(occupancy(256, 0), 4) << "registers";
  code_->registers = 16;
  EXPECT_EQ(occupancy(1024, 0), 2) << "threads";
  EXPECT_EQ(occupancy(513, 0), 3) << "whole warps";
  EXPECT_EQ(occupancy(32, 0), 32) << "blocks";
  EXPECT_EQ(occupancy(32, 24 * kKiB), 4) << "shared memory";
  code_->static_shared = 8 * kKiB;
  EXPECT_EQ(occupancy(32, 24 * kKiB), 3) << "its own, too";
  EXPECT_EQ(occupancy(32, 40 * kKiB), 2);
  EXPECT_EQ(occupancy(32, 40 * kKiB + 1), 0) << "more than 48 KiB in all need a choice";
  ASSERT_EQ(gpemu_cuda_kernel_set_max_dynamic_shared(kernel_, 80 * kKiB), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(occupancy(32, 80 * kKiB), 1);
  EXPECT_EQ(occupancy(32, 80 * kKiB + 1), 0);
  code_->max_threads_per_block = 64;
  EXPECT_EQ(occupancy(64, 0), 12);
  EXPECT_EQ(occupancy(65, 0), 0) << "launch bounds";
}

TEST_F(CodeTest, OccupancyNeedsAKernelAndABlock) {
  int blocks = 42;
  EXPECT_EQ(gpemu_cuda_occupancy(kernel_, 32, 0, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_occupancy(kernel_, 0, 0, &blocks), GPEMU_CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(gpemu_cuda_occupancy(unload(), 32, 0, &blocks), GPEMU_CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(blocks, 42);
}

}  // namespace
}  // namespace gpemu::cuda
