// SPDX-License-Identifier: Apache-2.0
#include "mig/mig_text.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gpemu::tools {
namespace {

using device::MigComputeInstance;
using device::MigComputeProfile;
using device::MigInstance;
using device::MigLayout;
using profile::MigProfile;

std::string count_text(const std::optional<int>& count) {
  return count ? fmt::to_string(*count) : "N/A";
}

/// Returns a memory size as nvidia-smi prints it, in GiB.
std::string gib_text(const std::optional<Bytes>& bytes) {
  if (!bytes) return "N/A";
  return fmt::format("{:.2f}", static_cast<double>(*bytes) / static_cast<double>(kGiB));
}

std::string line_of(char character, std::size_t width) {
  return fmt::format("+{}+\n", std::string(width, character));
}

/// Returns an instance's profiles in NVML's order, in which nvidia-smi lists instances.
std::vector<const MigInstance*> in_order(const MigGpu& gpu) {
  std::vector<const MigInstance*> instances;
  for (const MigInstance& instance : gpu.layout.instances()) instances.push_back(&instance);
  std::ranges::sort(instances, {}, [&gpu](const MigInstance* instance) {
    return std::pair(gpu.layout.profile(instance->profile)->nvml_profile, instance->id);
  });
  return instances;
}

std::string profile_rows(const MigGpu& gpu, const MigProfile& profile) {
  return fmt::format(
      "| {:>3}  MIG {:<14}{:>4}     {:<11}{:<11}No     {:<7}{:<6}0   |\n"
      "|                                                              {:>2}{:>6}{:>6}   |\n",
      gpu.index, profile.name, profile.id,
      fmt::format("{}/{}", gpu.layout.free_count(profile), profile.max_instances()),
      gib_text(profile.memory_bytes), count_text(profile.multiprocessors),
      count_text(profile.decoders), profile.copy_engines, count_text(profile.jpegs), profile.ofas);
}

/// Returns the two rows of a compute instance profile, and the line below.
std::string compute_profile_rows(const MigGpu& gpu, const MigInstance& instance,
                                 const MigComputeProfile& kind) {
  const MigProfile& profile = *gpu.layout.profile(instance.profile);
  const bool is_whole = kind.slices == profile.compute_slices;
  const int most = static_cast<int>(kind.starts.size());
  return fmt::format(
      "| {:>3}{:>7}       MIG {:<17}{}{}     {:<14}{:<10}{:>1}{:>6}{:>6}   |\n"
      "|                                                                     {:>2}{:>6}         "
      "|\n",
      gpu.index, instance.id, MigLayout::name_of(profile, kind), kind.id, is_whole ? '*' : ' ',
      fmt::format("{}/{}", MigLayout::free_count(instance, kind), most),
      count_text(gpu.layout.multiprocessors_of(profile, kind)), count_text(profile.decoders), 0,
      profile.ofas, profile.copy_engines, count_text(profile.jpegs));
}

const MigComputeProfile& kind_of(const MigProfile& profile, const MigComputeInstance& compute) {
  const auto kinds = device::mig_compute_profiles(profile.compute_slices);
  return *std::ranges::find(kinds, compute.profile, &MigComputeProfile::id);
}

bool is_listed(const MigInstance& instance, const MigFilter& filter) {
  return !filter.gpu_instance || *filter.gpu_instance == instance.id;
}

}  // namespace

std::string mig_profiles_text(std::span<const MigGpu> gpus) {
  constexpr std::size_t kWidth = 79;
  std::string text = line_of('-', kWidth);
  text +=
      "| GPU instance profiles:                                                        |\n"
      "| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
      "|                                Free/Total   GiB              CE    JPEG  OFA  |\n"
      "|===============================================================================|\n";
  for (const MigGpu& gpu : gpus) {
    for (const MigProfile& profile : gpu.profiles) {
      text += profile_rows(gpu, profile) + line_of('-', kWidth);
    }
  }
  return text;
}

std::string mig_placements_text(std::span<const MigGpu> gpus) {
  std::string text;
  for (const MigGpu& gpu : gpus) {
    for (const MigProfile& profile : gpu.profiles) {
      text += fmt::format("GPU {:>2} Profile ID {:>2} Placement{}: {{{}}}:{}\n", gpu.index,
                          profile.id, profile.starts.size() == 1 ? " " : "s",
                          fmt::join(profile.starts, ","), profile.memory_slices);
    }
  }
  return text;
}

std::string mig_instances_text(std::span<const MigGpu> gpus) {
  constexpr std::size_t kWidth = 55;
  std::string rows;
  for (const MigGpu& gpu : gpus) {
    for (const MigInstance* instance : in_order(gpu)) {
      const MigProfile& profile = *gpu.layout.profile(instance->profile);
      rows += fmt::format("| {:>3}  MIG {:<14}{:>4}{:>9}          {}:{}     |\n{}", gpu.index,
                          profile.name, profile.id, instance->id, instance->start,
                          profile.memory_slices, line_of('-', kWidth));
    }
  }
  if (rows.empty()) return "No GPU instances found: Not Found\n";
  return line_of('-', kWidth) +
         "| GPU instances:                                        |\n"
         "| GPU   Name             Profile  Instance   Placement  |\n"
         "|                          ID       ID       Start:Size |\n"
         "|=======================================================|\n" +
         rows;
}

std::string mig_compute_profiles_text(std::span<const MigGpu> gpus, const MigFilter& filter) {
  constexpr std::size_t kWidth = 86;
  std::string rows;
  for (const MigGpu& gpu : gpus) {
    for (const MigInstance* instance : in_order(gpu)) {
      if (!is_listed(*instance, filter)) continue;
      const int slices = gpu.layout.profile(instance->profile)->compute_slices;
      for (const MigComputeProfile& kind : device::mig_compute_profiles(slices)) {
        rows += compute_profile_rows(gpu, *instance, kind) + line_of('-', kWidth);
      }
    }
  }
  if (rows.empty()) return "No GPU instances found: Not Found\n";
  return line_of('-', kWidth) +
         "| Compute instance profiles:                                                           "
         "|\n"
         "| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       "
         "|\n"
         "|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  "
         "|\n"
         "|         ID                                                          CE    JPEG       "
         "|\n"
         "|======================================================================================|"
         "\n" +
         rows;
}

std::string mig_compute_instances_text(std::span<const MigGpu> gpus, const MigFilter& filter) {
  constexpr std::size_t kWidth = 55;
  std::string rows;
  for (const MigGpu& gpu : gpus) {
    for (const MigInstance* instance : in_order(gpu)) {
      if (!is_listed(*instance, filter)) continue;
      const MigProfile& profile = *gpu.layout.profile(instance->profile);
      for (const MigComputeInstance& compute : instance->compute) {
        const MigComputeProfile& kind = kind_of(profile, compute);
        rows += fmt::format("| {:>3}{:>7}       MIG {:<17}{}{:>10}     |\n{}", gpu.index,
                            instance->id, MigLayout::name_of(profile, kind), kind.id, compute.id,
                            line_of('-', kWidth));
      }
    }
  }
  if (rows.empty()) return "No compute instances found: Not Found\n";
  return line_of('-', kWidth) +
         "| Compute instances:                                    |\n"
         "| GPU     GPU       Name             Profile   Instance |\n"
         "|       Instance                       ID        ID     |\n"
         "|         ID                                            |\n"
         "|=======================================================|\n" +
         rows;
}

std::string mig_device_line(const device::MigDevice& device, int number) {
  return fmt::format("  MIG {:<11} Device {:>2}: (UUID: {})\n", device.name, number, device.uuid);
}

std::string mig_devices_text(std::span<const MigGpu> gpus) {
  std::string text;
  for (const MigGpu& gpu : gpus) {
    text += fmt::format("GPU {}: {} (UUID: {})\n", gpu.index, gpu.product_name, gpu.uuid);
    int index = 0;
    for (const device::MigDevice& device : gpu.layout.devices(gpu.index, gpu.uuid)) {
      text += mig_device_line(device, index++);
    }
  }
  return text;
}

}  // namespace gpemu::tools
