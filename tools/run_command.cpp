// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "gpemu/base/file.hpp"
#include "gpemu/device/node.hpp"
#include "gpemu/profile/database.hpp"

#include "child_process.hpp"
#include "command.hpp"
#include "device_list.hpp"
#include "output_file.hpp"
#include "run_summary.hpp"

namespace gpemu::tools {
namespace {

struct RunProgramOptions {
  std::vector<std::string> gpus;
  std::string node;
  std::string clock = "real";
  std::string trace;
  std::string json;
  bool strict = false;
  bool keep_data = false;
  bool quiet = false;
  std::vector<std::string> words;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

/// A folder for what the processes of the run record, removed at the end.
class RecordFolder {
 public:
  [[nodiscard]] static Result<RecordFolder> create() {
    std::error_code ignored;
    std::string pattern = std::filesystem::temp_directory_path(ignored).string() + "/gpemu-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      return fail(ErrorCode::kIo, "{}: {}", pattern, errno_message(errno));
    }
    return RecordFolder(pattern);
  }
  RecordFolder(RecordFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  RecordFolder& operator=(RecordFolder&&) = delete;
  RecordFolder(const RecordFolder&) = delete;
  RecordFolder& operator=(const RecordFolder&) = delete;
  ~RecordFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit RecordFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

/// Finds the folder of the stand-ins beside the command: in a build tree, or installed.
Result<std::filesystem::path> find_shims() {
  std::error_code error;
  const auto command = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path root = command.parent_path().parent_path();
  for (const auto& folder : {root / "shims", root / GPEMU_INSTALL_LIBDIR / "gpemu" / "shims"}) {
    if (std::filesystem::exists(folder / "libgpemu_audit.so", error)) return folder;
  }
  return fail(ErrorCode::kNotFound,
              "no stand-ins for NVIDIA's libraries beside {}: install gpemu, "
              "or build all of it",
              command.string());
}

Result<std::shared_ptr<device::Node>> open_node(const RunProgramOptions& options) {
  if (!options.node.empty()) return device::Node::open(options.node);
  if (options.gpus.empty()) return device::Node::open_default();
  GPEMU_ASSIGN(const profile::Database database, profile::Database::open());
  device::NodeConfig config{.name = fmt::format("run-{}", ::getpid()), .temporary = true};
  GPEMU_ASSIGN(config.devices, read_device_list(database, options.gpus));
  return device::Node::create(config);
}

Result<void> check(const RunProgramOptions& options) {
  if (!options.gpus.empty() && !options.node.empty()) {
    return fail(ErrorCode::kInvalidArgument, "give either --gpu or --node");
  }
  if (options.clock == "virtual" && (options.gpus.size() != 1 || !options.node.empty())) {
    return fail(ErrorCode::kInvalidArgument,
                "--clock virtual needs one --gpu: each process has its own time");
  }
  GPEMU_TRY(check_writable(options.trace));
  return check_writable(options.json);
}

Result<void> write_outputs(const RunProgramOptions& options, const std::filesystem::path& records,
                           int exit_code) {
  GPEMU_ASSIGN(const auto summary, read_summary(records));
  const int signal = exit_code - 128;
  if (summary["processes"] == 0 && signal > 0) {
    // Records are written when a process exits.
    fmt::print(stderr, "\ngpemu: signal {} ended the program, and with it went its records\n",
               signal);
  } else if (!options.quiet) {
    fmt::print(stderr, "\n{}", summary_text(summary));
  }
  if (!options.json.empty()) {
    GPEMU_TRY(write_file_atomically(options.json, summary.dump(2) + "\n"));
  }
  if (!options.trace.empty()) {
    GPEMU_ASSIGN(const std::string trace, read_trace(records));
    GPEMU_TRY(write_file_atomically(options.trace, trace));
  }
  return {};
}

Result<void> run_on_gpus(const RunProgramOptions& options) {
  GPEMU_TRY(check(options));
  GPEMU_ASSIGN(const auto shims, find_shims());
  GPEMU_ASSIGN(const RecordFolder records, RecordFolder::create());
  Environment environment = {
      {"LD_AUDIT", (shims / "libgpemu_audit.so").string()},
      {"GPEMU_SHIMS", shims.string()},
      {"GPEMU_RECORD_DIR", records.path().string()},
      // What programs with the headers of NVTX 3 load their functions from.
      {"NVTX_INJECTION64_PATH", (shims / "common" / "libnvToolsExt.so.1").string()},
      // Where Triton looks for the driver's library when it links.
      {"TRITON_LIBCUDA_PATH", (shims / "common").string()}};
  std::shared_ptr<device::Node> node;
  if (options.clock == "virtual") {
    environment.insert(environment.end(),
                       {{"GPEMU_GPU", options.gpus.front()}, {"GPEMU_CLOCK", "virtual"}});
  } else {
    GPEMU_ASSIGN(node, open_node(options));
    environment.emplace_back("GPEMU_NODE", node->name());
  }
  if (options.keep_data) environment.emplace_back("GPEMU_KEEP_DATA", "1");
  if (options.strict) environment.emplace_back("GPEMU_STRICT", "1");
  if (!options.trace.empty()) environment.emplace_back("GPEMU_RECORD_WORK", "1");
  GPEMU_ASSIGN(const int code, run_program(options.words, environment));
  GPEMU_TRY(write_outputs(options, records.path(), code));
  // The program's own exit code is the command's; folders and the node go by themselves.
  if (code != 0) throw CLI::RuntimeError(code);
  return {};
}

}  // namespace

void add_run_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "Run an unmodified CUDA program on emulated GPUs");
  command->footer(
      "Examples:\n"
      "  gpemu run --gpu V100-PCIE-32GB -- python train.py\n"
      "  gpemu run --gpu A100-SXM4-40GB:2 --trace run.json -- ./program --its-option\n"
      "  gpemu run -- nvtop      # in another terminal: watches the first\n");
  auto options = std::make_shared<RunProgramOptions>();
  command->add_option("--gpu", options->gpus, "NAME or NAME:COUNT; may be given several times");
  command->add_option("--node", options->node,
                      "Use this existing node instead; without --gpu and --node, the one that "
                      "GPEMU_NODE names, else the only one");
  command
      ->add_option("--clock", options->clock, "real, or virtual: waiting for the GPU takes no time")
      ->check(CLI::IsMember({"real", "virtual"}))
      ->capture_default_str();
  command->add_option("--trace", options->trace, "Write a trace that opens in Perfetto");
  command->add_option("--json", options->json, "Write the summary as JSON");
  command->add_flag("--keep-data", options->keep_data,
                    "Keep the content of large copies from pinned memory, too");
  command->add_flag("--strict", options->strict, "End the program at a call not supported");
  command->add_flag("--quiet", options->quiet, "No summary");
  command->add_option("program", options->words, "The program and its arguments, after --")
      ->required();
  command->positionals_at_end();
  set_action(*command, [options] { return run_on_gpus(*options); });
}

}  // namespace gpemu::tools
