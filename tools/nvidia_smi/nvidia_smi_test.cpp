// SPDX-License-Identifier: Apache-2.0
//
// The form of what nvidia-smi prints. Source: printouts of nvidia-smi 590.48.01 and 595.80 in
// public repositories.
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "nvidia_smi/nvidia_smi_log.hpp"
#include "nvidia_smi/nvidia_smi_monitor.hpp"
#include "nvidia_smi/nvidia_smi_words.hpp"
#include "smi/smi_table.hpp"

namespace gpemu::tools {
namespace {

using Words = std::vector<std::string>;

/// An H200 that MIG divides, and a V100.
SmiSample divided_sample() {
  SmiDevice h200{.node = "n", .divided = true};
  h200.now.mig = {.divided = true, .pending = true};
  h200.now.gpu = "H200";
  h200.now.uuid = "GPU-1";
  h200.now.pci_bus_id = "00000000:8a:00.0";
  h200.now.memory_total = 150109880320;  // of a board, with driver 580.159; likewise:
  h200.now.facts.reserved_memory_bytes = 644939776;
  h200.now.memory_used = 16'959 * kMiB;
  h200.now.max_power_w = h200.now.power.limit_w = 700;
  h200.now.power.min_limit_w = 200;
  h200.now.facts.compute_capability_major = 9;
  h200.now.facts.has_mig = 1;
  std::string_view("NVIDIA H200").copy(h200.now.facts.product_name, 95);
  std::string_view("Hopper").copy(h200.now.facts.architecture, 31);
  h200.load.power_w = 295;
  h200.load.temperature_c = 36;
  h200.load.compute = 0.5;
  SmiMigDevice mig;
  mig.device = {.gpu_instance = 2,
                .compute_instance = 1,
                .name = "2c.3g.71gb",
                .uuid = "MIG-1",
                .multiprocessors = 32,
                .memory_bytes = 71'424 * kMiB,
                .compute_place = 5};
  mig.profile.copy_engines = 3;
  mig.profile.decoders = 3;
  mig.profile.jpegs = 3;
  mig.memory_used = 16'925 * kMiB;
  h200.mig = {mig};
  h200.now.processes = {
      {.pid = 12'249, .name = "/opt/aa<b", .memory_held = 2194 * kMiB, .mig_place = 5}};
  SmiDevice v100{.node = "n"};
  v100.now.index = 1;
  v100.now.uuid = "GPU-2";
  v100.now.gpu = "V100-PCIE-32GB";
  v100.now.pci_bus_id = "00000000:01:00.0";
  v100.now.memory_total = 32'510 * kMiB;
  v100.now.facts.compute_capability_major = 7;
  v100.load.compute = 0.806;
  v100.load.h2d_bytes_per_s = 2.5e9;
  return {.time = "2026/07/03 22:22:26.123",
          .date = "Fri Jul  3 22:22:26 2026",
          .devices = {h200, v100}};
}

bool has_line(std::string_view text, std::string_view line) {
  return text.find(fmt::format("\n{}\n", line)) != std::string_view::npos;
}

// ---- The table

TEST(NvidiaSmiTableTest, BeginsWithTheDateAndTheVersions) {
  const std::string table = smi_table(divided_sample(), SmiProgram::kNvidiaSmi);
  EXPECT_TRUE(table.starts_with("Fri Jul  3 22:22:26 2026       \n+---")) << table;
  EXPECT_TRUE(has_line(table,
                       "| NVIDIA-SMI 595.45.04              Driver Version: 595.45.04      CUDA "
                       "Version: 13.2     |"))
      << table;
}

TEST(NvidiaSmiTableTest, HasABoxOfMigDevices) {
  const std::string table = smi_table(divided_sample(), SmiProgram::kNvidiaSmi);
  EXPECT_TRUE(has_line(table,
                       "|   0  NVIDIA H200                    On  |   00000000:8A:00.0 Off |      "
                       "            N/A |"))
      << table;
  EXPECT_TRUE(has_line(table,
                       "| N/A   36C    P0            295W /  700W |   16959MiB / 143771MiB |     "
                       "N/A      Default |"))
      << table;
  EXPECT_TRUE(has_line(table,
                       "|                                         |                        |       "
                       "       Enabled |"))
      << table;
  EXPECT_TRUE(has_line(table,
                       "| GPU  GI  CI  MIG |              Shared Memory-Usage |        Vol|        "
                       "Shared         |"))
      << table;
  EXPECT_TRUE(has_line(table,
                       "|  0    2   1   0  |           16925MiB / 71424MiB    | 32    N/A |  3   0 "
                       "   3    0    3 |"))
      << table;
  EXPECT_TRUE(has_line(table,
                       "|    0    2    1            12249      C   /opt/aa<b                       "
                       "       2194MiB |"))
      << table;
}

TEST(NvidiaSmiTableTest, SaysThatThereAreNoMigDevices) {
  SmiSample sample = divided_sample();
  sample.devices[0].mig.clear();
  EXPECT_TRUE(smi_table(sample, SmiProgram::kNvidiaSmi).contains("|  No MIG devices found  "));
  sample.devices[0].divided = false;
  EXPECT_FALSE(smi_table(sample, SmiProgram::kNvidiaSmi).contains("MIG devices"));
}

TEST(NvidiaSmiTableTest, ListsMigDevices) {
  EXPECT_EQ(smi_list(divided_sample()),
            "GPU 0: NVIDIA H200 (UUID: GPU-1)\n"
            "  MIG 2c.3g.71gb  Device  0: (UUID: MIG-1)\n"
            "GPU 1: V100-PCIE-32GB (UUID: GPU-2)\n");
}

// ---- -q

TEST(NvidiaSmiLogTest, HasNvidiaSmisLines) {
  const std::string log = nvidia_smi_log(divided_sample(), 2, {});
  EXPECT_TRUE(log.starts_with("\n==============NVSMI LOG==============\n\nTimestamp  ")) << log;
  for (const char* line :
       {"Driver Version                                         : 595.45.04",
        "Attached GPUs                                          : 2",
        "GPU 00000000:8A:00.0",
        "    Product Name                                       : NVIDIA H200",
        "    Product Architecture                               : Hopper",
        "    MIG Mode\n        Current                                        : Enabled",
        "    MIG Device\n        Index                                          : 0",
        "                Multiprocessor count                   : 32",
        "        Bus                                            : 0x8A",
        "        Domain                                         : 0x0000",
        "            HW Thermal Slowdown                        : N/A",
        "    FB Memory Usage\n        Total                                          : 143771 MiB",
        "        Reserved                                       : 616 MiB",
        "    Compute Mode                                       : Default",
        "        GPU                                            : N/A",
        "        GPU                                            : 81 %",
        "        Process ID                        : 12249",
        "            Used GPU Memory               : 2194 MiB",
        "    Processes                                          : None",
        "        Rx Throughput                                  : 2500000 KB/s",
        "    Serial Number                                      : N/A"}) {
    EXPECT_TRUE(has_line(log, line)) << line << "\n" << log;
  }
  EXPECT_FALSE(log.contains("Supported Clocks")) << "only on request";
}

TEST(NvidiaSmiLogTest, ShowsTheChosenSections) {
  SmiSample sample = divided_sample();
  sample.devices.erase(sample.devices.begin());
  const Words displays = {"COMPUTE", "PIDS"};
  const std::string log = nvidia_smi_log(sample, 2, displays);
  EXPECT_TRUE(
      log.ends_with("GPU 00000000:01:00.0\n"
                    "    Compute Mode                                       : Default\n"
                    "    Processes                                          : None\n\n"))
      << log;
  EXPECT_TRUE(check_log_displays(displays));
  EXPECT_FALSE(check_log_displays(Words{"MEMORIES"}));
}

TEST(NvidiaSmiLogTest, IsXml) {
  const std::string xml = nvidia_smi_log_xml(divided_sample(), 2);
  EXPECT_TRUE(
      xml.starts_with("<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_"
                      "device_v13.dtd\">\n<nvidia_smi_log>\n\t<timestamp>Fri Jul  3 "))
      << xml;
  EXPECT_TRUE(xml.ends_with("\t</gpu>\n</nvidia_smi_log>\n")) << xml;
  for (const char* line :
       {"\t<gpu id=\"00000000:8A:00.0\">",
        "\t\t<mig_devices>\n\t\t<mig_device>\n\t\t\t<index>0</index>",
        "\t\t<mig_devices>\n\t\t\tNone\n\t\t</mig_devices>", "\t\t\t<pci_bus>8A</pci_bus>",
        "\t\t\t<clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>",
        "\t\t\t<clocks_event_reason_hw_thermal_slowdown>N/A</"
        "clocks_event_reason_hw_thermal_slowdown>",
        "\t\t\t\t<process_name>/opt/aa&lt;b</process_name>",
        "\t\t\t\t<used_memory>2194 MiB</used_memory>", "\t\t<processes>\n\t\t</processes>",
        "\t\t\t<gpu_util>81 %</gpu_util>", "\t\t<compute_mode>Default</compute_mode>"}) {
    EXPECT_TRUE(has_line(xml, line)) << line << "\n" << xml;
  }
}

TEST(NvidiaSmiLogTest, SaysThatAGpuIsLost) {
  SmiSample sample = divided_sample();
  sample.devices[1].now.health.lost = true;
  EXPECT_TRUE(nvidia_smi_log(sample, 2, {}).contains("GPU 00000000:01:00.0\n    GPU is lost\n"));
  EXPECT_TRUE(nvidia_smi_log_xml(sample, 2).contains("<product_name>GPU is lost</product_name>"));
}

// ---- dmon and pmon

std::string columns(NvidiaSmiMonitor::Subject subject, std::string_view metrics,
                    std::string_view stamps = "") {
  const auto monitor = NvidiaSmiMonitor::create(subject, metrics, stamps);
  return monitor ? monitor->header() + monitor->lines(divided_sample()) : monitor.error().message;
}

TEST(NvidiaSmiMonitorTest, ShowsDevices) {
  EXPECT_EQ(
      columns(NvidiaSmiMonitor::Subject::kDevices, ""),
      "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n"
      "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz \n"
      "    0    295     36      -      -      -      -      -      -      -      -      - \n"
      "    1      -      -      -     81      0      0      0      0      0      -      - \n");
  EXPECT_EQ(columns(NvidiaSmiMonitor::Subject::kDevices, "tm"),
            "# gpu     fb   bar1   ccpm  rxpci  txpci \n"
            "# Idx     MB     MB     MB   MB/s   MB/s \n"
            "    0  16959      -      -      0      0 \n"
            "    1      0      -      -   2500      0 \n");
  EXPECT_EQ(columns(NvidiaSmiMonitor::Subject::kDevices, "m", "DT"),
            "#Date       Time        gpu     fb   bar1   ccpm \n"
            "#YYYYMMDD   HH:MM:SS    Idx     MB     MB     MB \n"
            " 20260703   22:22:26      0  16959      -      - \n"
            " 20260703   22:22:26      1      0      -      - \n");
  EXPECT_TRUE(columns(NvidiaSmiMonitor::Subject::kDevices, "px").starts_with("-s px: 'x' is no"));
}

TEST(NvidiaSmiMonitorTest, ShowsProcesses) {
  EXPECT_EQ(
      columns(NvidiaSmiMonitor::Subject::kProcesses, ""),
      "# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command \n"
      "# Idx           #    C/G      %      %      %      %      %      %    name \n"
      "    0      12249     C      -      -      -      -      -      -    aa<b           \n"
      "    1          -     -      -      -      -      -      -      -    -              \n");
}

// ---- Words

TEST(NvidiaSmiWordsTest, AreReadAsNvidiaSmiDoes) {
  const auto words = read_nvidia_smi_words(
      Words{"-i", "0,GPU-1", "--query-gpu=name,uuid", "--format", "csv,noheader", "-l", "-f=x"});
  ASSERT_TRUE(words) << words.error().message;
  EXPECT_EQ(words->ids, (Words{"0", "GPU-1"}));
  EXPECT_EQ(words->query_gpu, "name,uuid");
  EXPECT_EQ(words->format, "csv,noheader");
  EXPECT_EQ(words->loop_s, 5);
  EXPECT_EQ(words->file, "x");
  EXPECT_EQ(read_nvidia_smi_words(Words{"-lms", "50"})->loop_s, 0.05);
  const auto settings = read_nvidia_smi_words(Words{"-mig", "1", "--compute-mode=0"});
  ASSERT_EQ(settings->settings.size(), 2U);
  EXPECT_EQ(settings->settings[1].option, "-c");
  const auto command = read_nvidia_smi_words(Words{"-i", "1", "dmon", "-c", "2"});
  EXPECT_EQ(command->command, "dmon");
  EXPECT_EQ(command->rest, (Words{"-c", "2"}));
}

TEST(NvidiaSmiWordsTest, WrongOnesAreRefused) {
  const auto code = [](const Words& words) { return read_nvidia_smi_words(words).error().code; };
  EXPECT_EQ(code({"--no-such"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"-i"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"-q=1"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"-l", "0"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"-l", "nan"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"-lms", "x"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code({"--query-accounted-apps=pid"}), ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace gpemu::tools
