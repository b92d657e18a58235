// SPDX-License-Identifier: Apache-2.0
//
// What is read of the kernels in PyTorch's wheels, by their names.
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "gpemu/kernels/kernel_name.hpp"
#include "gpemu/kernels/kernel_traits.hpp"

namespace gpemu::kernels {
namespace {

/// Returns the kinds of a kernel's parameters: a letter each, i(nteger), p(ointer) or o(ther).
std::string kinds_of(std::string_view name) {
  std::string kinds;
  for (const std::string& type : read_kernel_name(name).parameters) {
    const ParameterKind kind = parameter_kind(type);
    kinds += is_integer(kind) ? 'i' : kind == ParameterKind::kOther ? 'o' : 'p';
  }
  return kinds;
}

struct NamedKernel {
  std::string part, kinds, name;
};

/// The kernels of PyTorch 2.8 and 2.15 that the table recognises, one for each list of parameters.
std::vector<NamedKernel> kernels_of_wheels() {
  std::ifstream file(GPEMU_KERNEL_NAMES);
  std::vector<NamedKernel> kernels;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    NamedKernel& kernel = kernels.emplace_back();
    words >> kernel.part >> kernel.kinds >> kernel.name;
  }
  return kernels;
}

TEST(KernelNames, ReadsTheParametersOfPyTorchsKernels) {
  const std::vector<NamedKernel> kernels = kernels_of_wheels();
  ASSERT_GT(kernels.size(), 90U);
  for (const NamedKernel& kernel : kernels) EXPECT_EQ(kinds_of(kernel.name), kernel.kinds);
}

/// Marks the parameters that a launch's description reads as sizes.
std::string read_as_sizes(const KernelTraits& traits, std::size_t count) {
  std::string read(count, '-');
  const auto mark = [&](int first, int some) { read.replace(first, some, some, 'i'); };
  const bool adaptive = traits.second_argument == 0;
  switch (traits.elements) {
    case ElementsFrom::kArgument:
    case ElementsFrom::kOffsets:
    case ElementsFrom::kRows:
    case ElementsFrom::kCycles:
      mark(traits.argument, 1);
      break;
    case ElementsFrom::kProduct:
      mark(traits.argument, 1);
      mark(traits.second_argument, 1);
      break;
    case ElementsFrom::kPooling:
      mark(traits.argument, adaptive ? 4 : 6);
      if (traits.images_first) mark(traits.argument - 2, 2);
      if (!adaptive && !traits.images_first) mark(0, 1);
      break;
    case ElementsFrom::kDepthwise:
      mark(traits.argument, traits.kind == GPEMU_OPERATION_CONVOLUTION_FORWARD ? 15 : 16);
      break;
    default:
      break;
  }
  return read;
}

TEST(KernelNames, EachSizeThatIsReadIsAnInteger) {
  for (const NamedKernel& kernel : kernels_of_wheels()) {
    const KernelTraits traits = kernel_traits(kernel.name);
    const std::string read = read_as_sizes(traits, kernel.kinds.size());
    ASSERT_EQ(read.size(), kernel.kinds.size()) << kernel.name;
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i] == 'i') {
        EXPECT_EQ(kernel.kinds[i], 'i') << kernel.name;
      }
    }
  }
}

TEST(KernelNames, EachEntryThatReadsArgumentsDoesSoForAKernelOfTheWheels) {
  std::map<std::string, int> read;
  for (const NamedKernel& kernel : kernels_of_wheels()) {
    const bool reads = kernel_traits(kernel.name).elements != ElementsFrom::kThreads;
    read[kernel.part] += reads ? 1 : 0;
  }
  for (const auto& [part, count] : read) EXPECT_GT(count, 0) << part;
}

/// LayerNormForwardCUDAKernel has the length of a row and then pointers in PyTorch 2.8, the rows
/// and their length in 2.15.
TEST(KernelNames, DoesNotTakeAPointerForASize) {
  for (const NamedKernel& kernel : kernels_of_wheels()) {
    if (kernel.part != "LayerNormForwardCUDAKernel") continue;
    std::int64_t rows = 1000, length = 4096;
    std::uint64_t pointer = 0x7f5a'0818'2000;
    std::vector<void*> arguments = {&length};
    if (kernel.kinds.starts_with("ii")) arguments.insert(arguments.begin(), &rows);
    arguments.resize(kernel.kinds.size(), &pointer);
    const DescribedOperation described =
        describe_kernel(kernel_traits(kernel.name), {.struct_size = sizeof(gpemu_operation),
                                                     .kind = GPEMU_OPERATION_KERNEL,
                                                     .shape = {1000, 1, 1, 512, 1, 1},
                                                     .name = kernel.name.c_str(),
                                                     .arguments = arguments.data()});
    EXPECT_EQ(described.operation.kind, GPEMU_OPERATION_NORMALIZATION_FORWARD) << kernel.name;
    EXPECT_EQ(described.operation.shape[0], 4'096'000) << kernel.name;
  }
}

}  // namespace
}  // namespace gpemu::kernels
