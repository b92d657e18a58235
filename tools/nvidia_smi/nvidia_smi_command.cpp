// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/text.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/device/memory_limits.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/device/node_view.hpp"
#include "gpemu/device/part.hpp"
#include "gpemu/report/terminal.hpp"

#include "cli/command_line.hpp"
#include "cli/command_tree.hpp"
#include "mig/mig_command.hpp"
#include "mig/mig_gpus.hpp"
#include "node/topology_text.hpp"
#include "nvidia_smi/nvidia_smi_log.hpp"
#include "nvidia_smi/nvidia_smi_monitor.hpp"
#include "nvidia_smi/nvidia_smi_settings.hpp"
#include "nvidia_smi/nvidia_smi_words.hpp"
#include "smi/smi_query.hpp"
#include "smi/smi_table.hpp"
#include "smi/smi_watch.hpp"

namespace gpemu::tools {
namespace {

constexpr std::string_view kHelp =
    R"(nvidia-smi of gpemu: what NVIDIA's program prints and changes, for emulated GPUs

Usage: nvidia-smi [options]
       nvidia-smi topo|mig|dmon|pmon|compute-policy [options]

It shows the GPUs of the node that GPEMU_NODE names, or of the only node. What is not
emulated reads N/A; options of NVIDIA's program that are missing here are not supported.

  -h, --help               Print this help
  --version                Print the versions
  -L, --list-gpus          List the GPUs and their MIG devices
  -i, --id IDS             Only these GPUs, by index, UUID or PCI address
  -f, --filename FILE      Write to a file
  -l, --loop SECONDS       Repeat until Ctrl-C; -lms, --loop-ms in milliseconds
  -q, --query              Print all that is known; -d, --display chooses sections,
                           e.g. MEMORY,UTILIZATION; -x, --xml-format prints XML
  --query-gpu FIELDS       Print fields of each GPU; --help-query-gpu lists them
  --query-compute-apps FIELDS
                           Print fields of each process; --help-query-compute-apps
  --format csv[,noheader][,nounits]
                           The format of both
  -c, --compute-mode MODE  0/DEFAULT, 2/PROHIBITED or 3/EXCLUSIVE_PROCESS
  -mig, --multi-instance-gpu 0|1
                           Switch MIG off or on

  topo -m                  What joins the GPUs
  mig                      Divide GPUs, as `gpemu mig`
  dmon, pmon               GPUs or processes, a line for each period: -i IDS, -s METRICS,
                           -d SECONDS, -c COUNT, -o DT, -f FILE
  compute-policy -l        The length of time slices; --set-timeslice 0 to 3 changes it:
                           DEFAULT, SHORT, MEDIUM or LONG

Examples:
  nvidia-smi
  nvidia-smi --query-gpu=index,utilization.gpu --format=csv,noheader -l 1
  nvidia-smi -i 0 -c EXCLUSIVE_PROCESS
  nvidia-smi -q -x -i 0
)";

/// Why a call ended before its end, as nvidia-smi says it.
struct SmiFault {
  std::string text;
  int code = kSmiOther;
};

/// Where the output goes: to the terminal, or to the file of -f.
class SmiOutput {
 public:
  [[nodiscard]] static Result<SmiOutput> open(const std::optional<std::string>& path) {
    SmiOutput output;
    if (!path) return output;
    output.file_.reset(std::fopen(path->c_str(), "we"));
    if (output.file_) return output;
    return fail(ErrorCode::kIo, "-f {}: the file cannot be written", printable(*path));
  }
  /// Errors: kIo, kResourceLimit.
  [[nodiscard]] Result<void> write(std::string_view text) const {
    if (!file_) {
      report::write_output(text);
      return report::finish_output();
    }
    const std::string shown = printable_lines(text);
    if (std::fwrite(shown.data(), 1, shown.size(), file_.get()) == shown.size() &&
        std::fflush(file_.get()) == 0) {
      return {};
    }
    return fail(ErrorCode::kIo, "the file of -f cannot be written");
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

/// The GPUs that a call shows.
class SmiGpus {
 public:
  SmiGpus(std::string node, const World& world)
      : node_(std::move(node)),
        world_(world),
        watch_({.folder = world.nodes,
                .node = node_,
                .period = device::Monitor::kMinPeriod,
                .clock = world.clock_of_nodes,
                .mig_profiles =
                    [&world](const std::string& gpu) -> Result<std::vector<profile::MigProfile>> {
                  GPEMU_ASSIGN(profile::GpuSpec spec, find_gpu_spec(gpu, world));
                  return std::move(spec.mig_profiles);
                }}) {}

  [[nodiscard]] const std::string& node() const { return node_; }
  /// How many there are, after the first sample.
  [[nodiscard]] std::size_t count() const { return count_; }

  /// Returns those that `ids` names, or all; numbered as NVML numbers them. `places` gets their
  /// numbers in the node. Errors: those of SmiWatch; kNotFound for an id without a GPU.
  [[nodiscard]] Result<SmiSample> sample(std::span<const std::string> ids) {
    GPEMU_ASSIGN(std::vector<SmiDevice> all, watch_.sample());
    GPEMU_ASSIGN(const std::vector<int> part,
                 device::part_of_node(world_.variable(variable::kDevices).value_or(""),
                                      static_cast<int>(all.size())));
    GPEMU_ASSIGN(const device::MemoryLimits limits, world_.memory_limits());
    count_ = part.size();
    SmiSample sample = sample_at(world_.time_of_day());
    sample.all = count_;
    std::vector<std::string> wanted(ids.begin(), ids.end());
    places_.clear();
    for (std::size_t i = 0; i < part.size(); ++i) {
      SmiDevice& device = all[static_cast<std::size_t>(part[i])];
      const std::string bus = bus_id_text(device.now);
      const auto named = std::erase_if(wanted, [&](std::string id) {
        if (id == fmt::to_string(i) || id == device.now.uuid) return true;
        std::ranges::transform(id, id.begin(),
                               [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
        return bus == id || (id.size() < bus.size() && id.size() >= 7 && bus.ends_with(id));
      });
      if (!ids.empty() && named == 0) continue;
      places_.push_back(device.now.index);
      device.now.index = static_cast<int>(i);
      // As NVML shows it to this process.
      limits.apply(device.now.index, device.now);
      sample.devices.push_back(std::move(device));
    }
    if (!wanted.empty()) return fail(ErrorCode::kNotFound, "No devices were found");
    return sample;
  }

  /// Returns the devices of the last sample with their numbers in the node.
  [[nodiscard]] std::vector<SmiDevice> in_node(const SmiSample& sample) const {
    std::vector<SmiDevice> devices = sample.devices;
    for (std::size_t i = 0; i < devices.size(); ++i) devices[i].now.index = places_[i];
    return devices;
  }

 private:
  std::string node_;
  const World& world_;
  SmiWatch watch_;
  std::vector<int> places_;
  std::size_t count_ = 0;
};

/// A call of nvidia-smi.
class NvidiaSmi {
 public:
  explicit NvidiaSmi(const World& world) : world_(world) {}

  Result<int> run(std::span<const std::string> words) {
    GPEMU_ASSIGN(const NvidiaSmiWords read, read_nvidia_smi_words(words));
    if (read.help) return print(kHelp);
    if (read.version) return print(versions());
    if (!read.help_of.empty()) return print(fields_help(read.help_of));
    if (!read.command.empty()) return run_command(read);
    if (!read.settings.empty()) return change_settings(read);
    return show(read);
  }

 private:
  static Result<int> print(std::string_view text) {
    report::write_output(text);
    return kSmiSuccess;
  }

  static std::string versions() {
    const std::string driver = device::kDriverVersion;
    return fmt::format(
        "NVIDIA-SMI version  : {0}\nNVML version        : {1}\nDRIVER version      : {0}\n"
        "CUDA Version        : {2}\n",
        driver, driver.substr(0, driver.rfind('.')), device::kCudaVersion);
  }

  static std::string fields_help(std::string_view option) {
    const bool of_devices = option == "--help-query-gpu";
    return fmt::format(
        "List of valid properties to query for the switch \"--{}\":\n\n{}",
        option.substr(std::string_view("--help-").size()),
        SmiQuery::names(of_devices ? SmiQuery::Subject::kDevices : SmiQuery::Subject::kProcesses));
  }

  [[nodiscard]] Result<SmiGpus> gpus() const {
    GPEMU_ASSIGN(
        std::string node,
        device::default_node_name(world_.variable(variable::kNode).value_or(""), world_.nodes));
    GPEMU_TRY(device::NodeView::open(node, world_.nodes));
    return SmiGpus(std::move(node), world_);
  }

  /// Prints what `text_of` says of a sample, again after each period if there is one.
  Result<int> repeat(const NvidiaSmiWords& words, std::int64_t most,
                     const std::function<std::string(const SmiSample&, std::size_t)>& text_of) {
    GPEMU_ASSIGN(SmiGpus shown, gpus());
    GPEMU_ASSIGN(const SmiOutput output, SmiOutput::open(words.file));
    const TimePoint start = world_.clock.now();
    for (std::int64_t round = 1;; ++round) {
      GPEMU_ASSIGN(const SmiSample sample, shown.sample(words.ids));
      GPEMU_TRY(output.write(text_of(sample, shown.count())));
      if (words.loop_s <= 0 || round == most) return kSmiSuccess;
      world_.clock.wait_until(sample_time(start, words.loop_s, round));
    }
  }

  Result<int> show(const NvidiaSmiWords& words) {
    const bool queries = words.query_gpu || words.query_apps;
    if (queries || words.format) return show_query(words);
    if (words.list) {
      return repeat(words, 0,
                    [](const SmiSample& sample, std::size_t) { return smi_list(sample); });
    }
    if (words.query || words.xml) {
      GPEMU_TRY(check_log_displays(words.displays));
      return repeat(words, 0, [&words](const SmiSample& sample, std::size_t count) {
        return words.xml ? nvidia_smi_log_xml(sample, count)
                         : nvidia_smi_log(sample, count, words.displays);
      });
    }
    if (!words.displays.empty()) {
      return fail(ErrorCode::kInvalidArgument, "-d needs -q");
    }
    return repeat(words, 0, [](const SmiSample& sample, std::size_t) {
      return smi_table(sample, SmiProgram::kNvidiaSmi);
    });
  }

  Result<int> show_query(const NvidiaSmiWords& words) {
    if (!words.format || (!words.query_gpu && !words.query_apps)) {
      return fail(ErrorCode::kInvalidArgument, "--format=csv and a query need each other");
    }
    if (words.query_gpu && words.query_apps) {
      return fail(ErrorCode::kInvalidArgument, "give one query");
    }
    GPEMU_ASSIGN(const CsvFormat format, read_csv_format(*words.format));
    GPEMU_ASSIGN(const SmiQuery query,
                 SmiQuery::read(
                     words.query_gpu ? SmiQuery::Subject::kDevices : SmiQuery::Subject::kProcesses,
                     words.query_gpu ? *words.query_gpu : *words.query_apps, format));
    bool is_first = true;
    return repeat(words, 0, [&](const SmiSample& sample, std::size_t) {
      return (std::exchange(is_first, false) ? query.header() : "") + query.lines(sample);
    });
  }

  Result<int> change_settings(const NvidiaSmiWords& words) {
    GPEMU_ASSIGN(SmiGpus shown, gpus());
    GPEMU_ASSIGN(const auto node, device::Node::open(shown.node(), world_.nodes));
    int code = kSmiSuccess;
    for (const SmiSetting& setting : words.settings) {
      GPEMU_ASSIGN(const SmiSample sample, shown.sample(words.ids));
      GPEMU_ASSIGN(const SmiChange change, change_setting(*node, shown.in_node(sample), setting,
                                                          words.error_on_warning, world_));
      report::write_output(change.text);
      if (change.code != kSmiSuccess) code = change.code;
    }
    return code;
  }

  Result<int> run_command(NvidiaSmiWords words) {
    // -i may come before the command, too.
    std::string ids;
    for (const std::string& id : words.ids) ids += (ids.empty() ? "" : ",") + id;
    if (!ids.empty()) words.rest.insert(words.rest.begin(), {"-i", ids});
    if (words.command == "topo") return topo(words.rest);
    if (words.command == "mig") return mig(std::move(words.rest));
    if (words.command == "dmon") return monitor(NvidiaSmiMonitor::Subject::kDevices, words.rest);
    if (words.command == "pmon") return monitor(NvidiaSmiMonitor::Subject::kProcesses, words.rest);
    if (words.command == "compute-policy") return compute_policy(words.rest);
    // Source: nvidia-smi -h, 595.80.
    constexpr std::array<std::string_view, 19> kOthers = {"daemon",
                                                          "replay",
                                                          "drain",
                                                          "nvlink",
                                                          "c2c",
                                                          "clocks",
                                                          "vgpu",
                                                          "encodersessions",
                                                          "fbcsessions",
                                                          "boost-slider",
                                                          "power-hint",
                                                          "base-clocks",
                                                          "conf-compute",
                                                          "gpm",
                                                          "pci",
                                                          "power-smoothing",
                                                          "power-profiles",
                                                          "nvlink-telemetry",
                                                          "prm"};
    if (std::ranges::find(kOthers, words.command) != kOthers.end()) {
      return fail(ErrorCode::kUnsupported, "{} is not supported", words.command);
    }
    return fail(ErrorCode::kInvalidArgument, "there is no command '{}'", printable(words.command));
  }

  Result<int> mig(std::vector<std::string> words) {
    CommandTree commands("nvidia-smi of gpemu", "nvidia-smi", world_.terminal().columns);
    add_mig_command_of_nvidia_smi(
        commands.root(), {.not_found = kSmiNotFound, .no_room = kSmiNoRoom, .in_use = kSmiInUse},
        world_);
    words.insert(words.begin(), "mig");
    Result<int> code = commands.run(std::move(words));
    if (code || code.error().code != ErrorCode::kUnsupported) return code;
    report::print_error("gpemu: {}\n", printable_message(code.error().message));
    report::write_output("No MIG-enabled devices found.\n");
    return kSmiNotFound;
  }

  Result<int> topo(std::span<const std::string> words) {
    constexpr SmiOption kKnown[] = {{"-m", "--matrix", false}, {"-i", "--id", true}};
    GPEMU_ASSIGN(const SmiOptionValues values, read_smi_options(kKnown, words));
    if (!value_of(values, "-m")) return fail(ErrorCode::kUnsupported, "only topo -m is supported");
    GPEMU_ASSIGN(const SmiGpus shown, gpus());
    GPEMU_ASSIGN(const auto node, device::NodeView::open(shown.node(), world_.nodes));
    Result<profile::TopologySpec> machine = topology_of(*node);
    if (!machine) {
      return fail(ErrorCode::kUnsupported, "{}", machine.error().message);
    }
    return print(topology_tabs(*machine, static_cast<int>(::sysconf(_SC_NPROCESSORS_CONF))));
  }

  Result<int> monitor(NvidiaSmiMonitor::Subject subject, std::span<const std::string> words) {
    constexpr SmiOption kKnown[] = {
        {"-i", "--id"},      {"-d", "--delay"},    {"-c", "--count"},      {"-s", "--select"},
        {"-o", "--options"}, {"-f", "--filename"}, {"-h", "--help", false}};
    GPEMU_ASSIGN(const SmiOptionValues values, read_smi_options(kKnown, words));
    if (value_of(values, "-h")) return print(kHelp);
    GPEMU_ASSIGN(const NvidiaSmiMonitor columns,
                 NvidiaSmiMonitor::create(subject, value_of(values, "-s").value_or(""),
                                          value_of(values, "-o").value_or("")));
    NvidiaSmiWords asked;
    if (const auto ids = value_of(values, "-i")) asked.ids = between_commas(*ids);
    asked.file = value_of(values, "-f");
    GPEMU_ASSIGN(asked.loop_s, read_positive("-d", value_of(values, "-d").value_or("1")));
    std::int64_t most = 0;
    if (const auto count = value_of(values, "-c")) {
      GPEMU_ASSIGN(const double number, read_positive("-c", *count));
      most = static_cast<std::int64_t>(std::max(number, 1.0));
    }
    bool is_first = true;
    return repeat(asked, most, [&](const SmiSample& sample, std::size_t) {
      return (std::exchange(is_first, false) ? columns.header() : "") + columns.lines(sample);
    });
  }

  Result<int> compute_policy(std::span<const std::string> words) {
    constexpr SmiOption kKnown[] = {{"-i", "--id"},
                                    {"-l", "--list", false},
                                    {"--set-timeslice", "--set-timeslice"},
                                    {"-h", "--help", false}};
    GPEMU_ASSIGN(const SmiOptionValues values, read_smi_options(kKnown, words));
    if (value_of(values, "-h")) return print(kHelp);
    const auto length = value_of(values, "--set-timeslice");
    if (!length && !value_of(values, "-l")) {
      return fail(ErrorCode::kInvalidArgument, "give -l or --set-timeslice");
    }
    std::vector<std::string> ids;
    if (const auto named = value_of(values, "-i")) ids = between_commas(*named);
    GPEMU_ASSIGN(SmiGpus shown, gpus());
    GPEMU_ASSIGN(const SmiSample sample, shown.sample(ids));
    if (!length) return print(compute_policies_text(sample.devices));
    GPEMU_ASSIGN(const auto node, device::Node::open(shown.node(), world_.nodes));
    GPEMU_ASSIGN(const SmiChange change, change_time_slice(*node, shown.in_node(sample), *length));
    report::write_output(change.text);
    return change.code;
  }

  const World& world_;
};

/// Returns what nvidia-smi prints and returns for an error; the reason goes to standard error.
SmiFault fault_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      // A wrong field has a message of its own.
      if (error.message.starts_with("Field \"")) {
        return {error.message.substr(0, error.message.find('\n')) + "\n\n", kSmiInvalidArgument};
      }
      // So has an unknown option. Source: that of driver 580.159.
      if (constexpr std::string_view kNone = "there is no option '";
          error.message.starts_with(kNone)) {
        const std::string option =
            error.message.substr(kNone.size(), error.message.rfind('\'') - kNone.size());
        return {fmt::format("ERROR: Option {} is not recognized. Please run 'nvidia-smi -h'.\n\n",
                            option),
                kSmiOther};
      }
      return {"Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n",
              kSmiInvalidArgument};
    case ErrorCode::kUnsupported:
      return {"Not Supported\n", kSmiNotSupported};
    case ErrorCode::kIncompatible:
      return {"Failed to initialize NVML: Driver/library version mismatch\n", kSmiVersionMismatch};
    case ErrorCode::kNotFound:
      if (error.message == "No devices were found") return {error.message + "\n", kSmiNotFound};
      return {
          "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
          "that the latest NVIDIA driver is installed and running.\n\n",
          kSmiNoDriver};
    default:
      return {"Unknown Error\n", kSmiOther};
  }
}

}  // namespace

void add_nvidia_smi_command(Command app, const World& /*world*/) {
  Command smi = app.subcommand(
      "nvidia-smi", "Do what NVIDIA's nvidia-smi does, for emulated GPUs; see nvidia-smi -h");
  smi.notes(
      "Inside `gpemu run`, the program nvidia-smi is this command. GPEMU_NODE names the node; "
      "without it, the only node counts.\n\n"
      "Examples:\n"
      "  gpemu nvidia-smi -h\n"
      "  gpemu nvidia-smi -q -d MEMORY,UTILIZATION\n"
      "  gpemu run --gpu T4 -- nvidia-smi -L");
}

int run_nvidia_smi(std::span<const std::string> words, const World& world) {
  const Result<int> code = NvidiaSmi(world).run(words);
  if (code) return *code;
  const SmiFault fault = fault_of(code.error());
  report::write_output(fault.text);
  if (!fault.text.starts_with("Field") && code.error().message + "\n" != fault.text) {
    report::print_error("gpemu: {}\n", printable_message(code.error().message));
  }
  return fault.code;
}

}  // namespace gpemu::tools
