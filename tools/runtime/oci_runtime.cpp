// SPDX-License-Identifier: Apache-2.0
#include "runtime/oci_runtime.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "gpemu/base/file.hpp"
#include "gpemu/base/variables.hpp"
#include "gpemu/containers/gpu_pool.hpp"
#include "gpemu/profile/database.hpp"
#include "gpemu/report/terminal.hpp"
#include "gpemu/run/child_process.hpp"

#include "cli/device_list.hpp"
#include "runtime/bundle.hpp"
#include "runtime/runtime_call.hpp"
#include "runtime/runtime_settings.hpp"

namespace gpemu::tools {
namespace {

constexpr const char* kVisible = "NVIDIA_VISIBLE_DEVICES";

/// Returns whether a value of NVIDIA_VISIBLE_DEVICES names GPUs. Source: NVIDIA Container Toolkit,
/// "Specialized Configurations with Docker": empty, void and none name none.
bool names_gpus(const std::string& value) {
  return !value.empty() && value != "void" && value != "none";
}

/// Returns a container's id as the name of a holder of GPUs, which has no '.' and no '@'.
std::string holder_of(const std::string& container) {
  std::string holder;
  for (const char letter : container) {
    const bool stays = letter != '.' && letter != '@' && letter != '/' && letter != '%';
    holder += stays ? std::string(1, letter) : fmt::format("%{:02x}", letter);
  }
  return holder;
}

/// Returns the GPUs that a value of NVIDIA_VISIBLE_DEVICES names, by index or UUID.
Result<std::vector<containers::GpuPart>> gpus_named(const std::string& value,
                                                    const containers::GpuPool& pool) {
  std::vector<containers::GpuPart> parts;
  for (std::size_t begin = 0; begin <= value.size();) {
    const std::size_t end = std::min(value.find(',', begin), value.size());
    const std::string word = value.substr(begin, end - begin);
    begin = end + 1;
    std::size_t known = parts.size();
    for (const containers::PoolDevice& device : pool.devices()) {
      const bool is_it = value == "all" || word == device.id || word == std::to_string(device.gpu);
      if (is_it) parts.push_back({.gpu = device.gpu});
    }
    if (parts.size() == known) {
      return fail(ErrorCode::kNotFound,
                  "{}={}: there is no GPU '{}'; this machine has 0 to {}, `all`, or their UUIDs",
                  kVisible, value, word, pool.devices().size() - 1);
    }
  }
  return parts;
}

/// The containers' nodes, of which one process at a time changes anything.
class Nodes {
 public:
  static Result<Nodes> open(const RuntimeSettings& settings) {
    std::error_code error;
    std::filesystem::create_directories(settings.state, error);
    const std::string path = settings.state / "lock";
    FileDescriptor lock(::open(path.c_str(), O_CREAT | O_CLOEXEC | O_RDWR, 0600));
    while (lock.valid() && ::flock(lock.get(), LOCK_EX) != 0 && errno == EINTR) {
    }
    if (!lock.valid()) return fail(ErrorCode::kIo, "{}: {}", path, errno_message(errno));
    GPEMU_ASSIGN(const profile::Database database,
                 profile::Database::open(profile::Database::default_paths()));
    containers::GpuPoolOptions options{.machine = settings.machine,
                                       .gpus = {},
                                       .faults = {},
                                       .slices = {},
                                       .folder = settings.state,
                                       .installation = settings.installation};
    GPEMU_ASSIGN(options.gpus, read_device_list(database, settings.gpus));
    GPEMU_ASSIGN(containers::GpuPool pool, containers::GpuPool::create(std::move(options)));
    return Nodes(std::move(lock), std::move(pool));
  }
  containers::GpuPool& pool() { return pool_; }

 private:
  Nodes(FileDescriptor lock, containers::GpuPool pool)
      : lock_(std::move(lock)), pool_(std::move(pool)) {}
  FileDescriptor lock_;
  containers::GpuPool pool_;
};

/// Adds GPUs to a container that is to be made, if it asks for any. Returns whether it did.
Result<bool> add_gpus(const RuntimeCall& call, const RuntimeSettings& settings) {
  GPEMU_ASSIGN(Bundle bundle, Bundle::read(call.bundle));
  const std::string value = bundle.variable(kVisible).value_or("");
  // One that has a node already got it from the kubelet, whose choice counts.
  if (!names_gpus(value) || bundle.variable(variable::kNode)) return false;
  if (settings.gpus.empty()) {
    return fail(ErrorCode::kNotFound,
                "{} is set, but there is no {}, which says what GPUs there are", kVisible,
                kRuntimeSettings);
  }
  GPEMU_TRY(check_c_library(bundle.rootfs()));
  GPEMU_ASSIGN(Nodes nodes, Nodes::open(settings));
  GPEMU_ASSIGN(const auto parts, gpus_named(value, nodes.pool()));
  const std::string holder = holder_of(call.container);
  GPEMU_TRY(nodes.pool().take_back(holder));
  GPEMU_ASSIGN(const auto edits, nodes.pool().give(holder, parts));
  GPEMU_TRY(bundle.add(edits));
  return true;
}

/// Removes a container's node, if it has one.
Result<void> remove_node(const RuntimeCall& call, const RuntimeSettings& settings) {
  std::error_code error;
  if (!std::filesystem::exists(settings.state, error)) return {};
  GPEMU_ASSIGN(Nodes nodes, Nodes::open(settings));
  return nodes.pool().take_back(holder_of(call.container));
}

/// Becomes the real runtime.
Result<int> become(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return fail(ErrorCode::kNotFound, "{}: {}", words[0], errno_message(errno));
}

/// Tells the engine what is wrong, where runtimes do.
void log_fault(const RuntimeCall& call, const std::string& message) {
  if (call.log.empty()) return;
  const FileDescriptor log(
      ::open(call.log.c_str(), O_APPEND | O_CREAT | O_CLOEXEC | O_WRONLY, 0644));
  if (!log.valid()) return;
  constexpr std::size_t kTimeSize = sizeof("2026-01-01T00:00:00Z");
  std::array<char, kTimeSize> now{};
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  std::strftime(now.data(), now.size(), "%FT%TZ", ::gmtime_r(&seconds, &parts));
  const std::string line =
      call.logs_json
          ? nlohmann::json({{"level", "error"}, {"msg", message}, {"time", now.data()}}).dump()
          : fmt::format("time=\"{}\" level=error msg={}", now.data(),
                        nlohmann::json(message).dump());
  [[maybe_unused]] const ssize_t written =
      ::write(log.get(), (line + '\n').data(), line.size() + 1);
}

Result<int> run_runtime(const RuntimeCall& call, std::vector<std::string> words) {
  GPEMU_ASSIGN(const RuntimeSettings settings, read_runtime_settings());
  words.insert(words.begin(), settings.runtime);
  using Kind = RuntimeCall::Kind;
  const bool makes = call.kind == Kind::kCreate || call.kind == Kind::kRun;
  if (makes) {
    GPEMU_ASSIGN(const bool added, add_gpus(call, settings));
    if (!added || call.kind == Kind::kCreate || call.detached) return become(words);
  } else if (call.kind != Kind::kDelete) {
    return become(words);
  }
  // The container is gone when it returns.
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  GPEMU_ASSIGN(const int code, run::run_program(words, environment));
  if (code == 0 || call.kind == Kind::kRun) GPEMU_TRY(remove_node(call, settings));
  return code;
}

}  // namespace

int run_oci_runtime(const std::vector<std::string>& words) {
  const RuntimeCall call = read_runtime_call(words);
  const auto code = run_runtime(call, words);
  if (code) return *code;
  log_fault(call, "gpemu-runtime: " + code.error().message);
  report::print_error("gpemu-runtime: {}\n", code.error().message);
  return 1;
}

}  // namespace gpemu::tools
