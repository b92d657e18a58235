// SPDX-License-Identifier: Apache-2.0
#include "smi/smi_table.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fmt/core.h>

#include "gpemu/base/text.hpp"

#include "mig/mig_text.hpp"

namespace gpemu::tools {
namespace {

// 91 columns, as nvidia-smi's since driver 535.
constexpr std::string_view kRule =
    "+-----------------------------------------+------------------------+----------------------+\n";
constexpr std::string_view kHead =
    "+-----------------------------------------+------------------------+----------------------+\n"
    "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
    "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
    "|                                         |                        |               MIG M. |\n"
    "|=========================================+========================+======================|\n";
constexpr std::string_view kPlainRule =
    "+-----------------------------------------------------------------------------------------+\n";
constexpr std::string_view kProcessHead =
    "| Processes:                                                                              |\n"
    "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
    "|        ID   ID                                                               Usage      |\n"
    "|=========================================================================================|\n";
constexpr std::string_view kMigHead =
    "| MIG devices:                                                                            |\n"
    "+------------------+----------------------------------+-----------+-----------------------+\n"
    "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        Shared         |\n"
    "|      ID  ID  Dev |                Shared BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |\n"
    "|                  |                                  |        ECC|                       |\n"
    "|==================+==================================+===========+=======================|\n";
constexpr std::string_view kMigRule =
    "+------------------+----------------------------------+-----------+-----------------------+\n";
constexpr std::string_view kNoMigDevices =
    "|  No MIG devices found                                                                   |\n";
constexpr std::string_view kNoProcesses =
    "|  No running processes found                                                             |\n";

/// Makes a text printable and truncates it visibly to at most `width` characters.
std::string cut(std::string_view text, std::size_t width) {
  std::string shown = printable(text);
  const auto is_first_byte = [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80;
  };
  if (static_cast<std::size_t>(std::ranges::count_if(shown, is_first_byte)) <= width) return shown;
  std::size_t end = 0;
  for (std::size_t left = width - 3; left > 0; --left) {
    do {
      ++end;
    } while (!is_first_byte(shown[end]));
  }
  return shown.substr(0, end) + "...";
}

std::string head_of(const std::string& node, SmiProgram program) {
  const std::string left = program == SmiProgram::kNvidiaSmi
                               ? fmt::format("NVIDIA-SMI {}", device::kDriverVersion)
                               : fmt::format("gpemu {}  node {}", GPEMU_VERSION, node);
  return fmt::format("| {:<33} Driver Version: {:<14} CUDA Version: {:<8} |\n", cut(left, 33),
                     device::kDriverVersion, device::kCudaVersion);
}

/// Says what faults do to a device; "" if nothing.
std::string health_text(const device::DeviceHealth& health) {
  if (health.lost) return "lost: fell off the bus (Xid 79)";
  if (health.clock < 1) return fmt::format("slow: {:.3g} % of its clock", 100 * health.clock);
  return "";
}

/// As nvidia-smi, shows ERR! for what cannot be read.
std::string rows_of_lost(const SmiDevice& device, const std::string& first) {
  return first +
         fmt::format("| {:<4} {:>4}   {:>4} {:>22} | {:>22} | {:>7} {:>12} |\n", "ERR!", "ERR!",
                     "ERR!", "ERR! /  ERR!", "ERR! /  ERR!", "ERR!", "ERR!") +
         fmt::format("| {:<39} | {:>22} | {:>20} |\n", health_text(device.now.health), "", "ERR!");
}

/// The column is too narrow for all words. Source: nvidia-smi's table.
std::string_view compute_mode_text(device::ComputeMode mode) {
  switch (mode) {
    case device::ComputeMode::kProhibited:
      return "Prohibited";
    case device::ComputeMode::kExclusiveProcess:
      return "E. Process";
    case device::ComputeMode::kDefault:
      break;
  }
  return "Default";
}

std::string rows_of(const SmiDevice& device) {
  const device::DeviceSnapshot& now = device.now;
  const device::DeviceLoad& load = device.load;
  const std::string power = fmt::format("{:.0f}W / {:>4.0f}W", load.power_w, now.power.limit_w);
  const std::string memory =
      fmt::format("{}MiB / {:>6}MiB", mib_text(now.memory_used), mib_text(board_memory(now)));
  std::string text = fmt::format("| {:>3}  {:<27}    On  | {:>18} Off | {:>20} |\n", now.index,
                                 cut(name_of(now), 27), cut(bus_id_text(now), 18), "N/A");
  if (now.health.lost) return rows_of_lost(device, text);
  text += fmt::format("| N/A {:>4.0f}C    P{} {:>23} | {:>22} | {:>7} {:>12} |\n",
                      load.temperature_c, load.performance_state, power, memory,
                      device.divided ? "N/A" : fmt::format("{:.0f}%", 100 * load.compute),
                      compute_mode_text(now.compute_mode));
  text += fmt::format("| {:<39} | {:>22} | {:>20} |\n", health_text(now.health), "",
                      mig_mode_text(device));
  return text;
}

/// Returns a number of MIG's as nvidia-smi shows it; "N/A" if it is not known.
std::string engines_text(const std::optional<int>& count) {
  return count ? fmt::to_string(*count) : "N/A";
}

std::string mig_rows_of(const SmiDevice& device) {
  std::string text;
  for (std::size_t i = 0; i < device.mig.size(); ++i) {
    const SmiMigDevice& mig = device.mig[i];
    text += fmt::format(
        "| {:>2}{:>5}{:>4}{:>4}  | {:>15}MiB / {:>5}MiB    | {:<3}{:>6} | "
        "{:>2}{:>4}{:>5}{:>5}{:>5} "
        "|\n",
        device.now.index, mig.device.gpu_instance, mig.device.compute_instance, i,
        mib_text(mig.memory_used), mib_text(mig.device.memory_bytes), mig.device.multiprocessors,
        "N/A", mig.profile.copy_engines, 0, engines_text(mig.profile.decoders), mig.profile.ofas,
        engines_text(mig.profile.jpegs));
    // The size of the window into its memory is not emulated.
    text += fmt::format("|{:18}| {:>18} / {:>8}    |{:11}|{:23}|\n", "", "N/A", "N/A", "", "");
    text += kMigRule;
  }
  return text;
}

/// Returns the box of the MIG devices, and an empty line; nothing if MIG divides no device.
std::string mig_box_of(const SmiSample& sample) {
  if (std::ranges::none_of(sample.devices, &SmiDevice::divided)) return "";
  std::string rows;
  for (const SmiDevice& device : sample.devices) rows += mig_rows_of(device);
  std::string text = std::string(kPlainRule) + std::string(kMigHead);
  text += rows.empty() ? std::string(kNoMigDevices) + std::string(kPlainRule) : rows;
  return text + "\n";
}

std::string processes_of(const SmiSample& sample) {
  std::string text;
  for (const SmiDevice& device : sample.devices) {
    for (const device::ProcessSnapshot& process : device.now.processes) {
      const SmiMigDevice* const mig = device.mig_of(process);
      const auto id = [mig](int number) {
        return mig == nullptr ? std::string("N/A") : fmt::format("{:>2} ", number);
      };
      text += fmt::format("| {:>4}   {}  {} {:>15} {:>6}   {:<32} {:>10}MiB |\n", device.now.index,
                          id(mig == nullptr ? 0 : mig->device.gpu_instance),
                          id(mig == nullptr ? 0 : mig->device.compute_instance), pid_text(process),
                          type_text(process), cut(printable(process.name), 32),
                          mib_text(process.memory_held));
    }
  }
  return text.empty() ? std::string(kNoProcesses) : text;
}

}  // namespace

std::string smi_table(const SmiSample& sample, SmiProgram program) {
  std::string text =
      program == SmiProgram::kNvidiaSmi ? sample.date + "       \n" : sample.time + "\n";
  const std::string* node = nullptr;
  for (const SmiDevice& device : sample.devices) {
    if (node == nullptr || *node != device.node) {
      node = &device.node;
      text += kPlainRule;
      text += head_of(*node, program);
      text += kHead;
    }
    text += rows_of(device);
    text += kRule;
  }
  text += "\n";
  text += mig_box_of(sample);
  text += kPlainRule;
  text += kProcessHead;
  text += processes_of(sample);
  text += kPlainRule;
  return text;
}

std::string smi_list(const SmiSample& sample) {
  const auto of_first = [&sample](const SmiDevice& device) {
    return device.node == sample.devices.front().node;
  };
  const bool one_node = std::ranges::all_of(sample.devices, of_first);
  std::string text;
  for (const SmiDevice& device : sample.devices) {
    text += fmt::format("GPU {}: {} (UUID: {}){}\n", device.now.index,
                        printable(name_of(device.now)), printable(device.now.uuid),
                        one_node ? "" : fmt::format(" (node: {})", printable(device.node)));
    for (std::size_t i = 0; i < device.mig.size(); ++i) {
      text += mig_device_line(device.mig[i].device, static_cast<int>(i));
    }
  }
  return text;
}

}  // namespace gpemu::tools
