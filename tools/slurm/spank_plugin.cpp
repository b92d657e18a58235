// SPDX-License-Identifier: Apache-2.0
//
// The SPANK plug-in that gives Slurm's tasks emulated GPUs (docs/design/slurm.md). Slurm loads it
// into srun, sbatch, slurmd and slurmstepd, so it links nothing of gpemu: it calls the program
// gpemu-slurm, and sets the variables that the program prints.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <climits>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/spank.h>
}

namespace {

/// What srun takes --gpemu-gpu from. Slurm sets it in salloc, but not for batch scripts.
constexpr const char* kGpuOfSteps = "_SLURM_SPANK_OPTION_gpemu_gpemu_gpu";
/// Set for tasks, so that a step without GPUs can tell that variables are those of its parent.
constexpr const char* kOfJob = "GPEMU_SLURM_JOB";

struct Program {
  int status = -1;  ///< as waitpid() has it; -1: it did not start.
  std::string said, faults;
};

/// What the plug-in knows in one process of Slurm.
struct PluginState {
  std::string program, conf;  ///< arguments of plugstack.conf.
  std::string gpu;            ///< the value of --gpemu-gpu.
  std::string job, step;
  std::string fault;  ///< why tasks cannot have their GPUs.
  bool gives = false;
  std::vector<std::string> step_gpus, visible;  ///< Slurm's numbers, and CUDA's names for them.
  std::vector<std::pair<std::string, std::string>> set;
  std::vector<std::string> unset;
  std::string path;  ///< a folder with programs.
};

PluginState& state() {
  static PluginState the_state;
  return the_state;
}

std::vector<std::string> words_of(std::string_view text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

/// Returns where gpemu-slurm is, beside this library in an installation or in a build tree.
std::string program_beside() {
  Dl_info self{};
  if (::dladdr(reinterpret_cast<void*>(&program_beside), &self) == 0) return "gpemu-slurm";
  std::array<char, PATH_MAX> resolved{};
  if (::realpath(self.dli_fname, resolved.data()) == nullptr) return "gpemu-slurm";
  std::string folder = resolved.data();
  folder.resize(folder.rfind('/'));
  std::string found;
  for (const char* beside : {GPEMU_SLURM_BESIDE, "/../../tools"}) {
    found = folder + beside + "/gpemu-slurm";
    if (::access(found.c_str(), X_OK) == 0) break;
  }
  return found;
}

/// Reads what a program writes until it has closed both.
void read_both(int out, int err, Program& program) {
  std::array<pollfd, 2> ends{{{out, POLLIN, 0}, {err, POLLIN, 0}}};
  std::array<std::string*, 2> texts{&program.said, &program.faults};
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends.at(i).fd < 0 || ends.at(i).revents == 0) continue;
      std::array<char, 4096> bytes{};
      const ssize_t count = ::read(ends.at(i).fd, bytes.data(), bytes.size());
      if (count > 0) {
        texts.at(i)->append(bytes.data(), static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        ends.at(i).fd = -1;
      }
    }
  }
}

/// Runs gpemu-slurm. Slurm's processes block signals, which the program must not inherit.
Program call_program(std::vector<std::string> words) {
  words.insert(words.begin(), state().program);
  if (!state().conf.empty()) words.insert(words.end(), {"--conf", state().conf});
  Program program;
  std::array<int, 2> out{}, err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return program;
  if (::pipe2(err.data(), O_CLOEXEC) != 0) {
    ::close(out[0]);
    ::close(out[1]);
    return program;
  }
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files, err[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      ::posix_spawn(&child, arguments[0], &files, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  ::close(out[1]);
  ::close(err[1]);
  if (error == 0) {
    read_both(out[0], err[0], program);
    int result = 0;
    do {
      result = ::waitpid(child, &program.status, 0);
    } while (result < 0 && errno == EINTR);
    // A thread of slurmstepd waits for all children, and may have been faster.
    if (result < 0) program.status = program.faults.empty() ? 0 : W_EXITCODE(1, 0);
  } else {
    std::array<char, 128> reason{};
    program.faults = words[0] + ": " + ::strerror_r(error, reason.data(), reason.size()) +
                     "; install gpemu on this machine, or give program=PATH in plugstack.conf\n";
  }
  ::close(out[0]);
  ::close(err[0]);
  return program;
}

bool succeeded(const Program& program) {
  return WIFEXITED(program.status) && WEXITSTATUS(program.status) == 0;
}

/// Returns what went wrong, for the user.
std::string fault_of(const Program& program) {
  if (!program.faults.empty()) return program.faults;
  return state().program + " ended without a word, with status " + std::to_string(program.status) +
         '\n';
}

/// Reports faults line by line, as Slurm's logs have them.
void log_faults(const std::string& faults) {
  for (const std::string& line : words_of(faults, '\n')) {
    if (!line.empty()) slurm_error("%s", line.c_str());
  }
}

/// Reads what `gpemu-slurm give` prints.
void read_given(const std::string& text) {
  PluginState& known = state();
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string key = line.substr(0, space);
    const std::string value = space < line.size() ? line.substr(space + 1) : "";
    const std::size_t equals = value.find('=');
    if (key == "set" && equals != std::string::npos) {
      known.set.emplace_back(value.substr(0, equals), value.substr(equals + 1));
    } else if (key == "unset") {
      known.unset.push_back(value);
    } else if (key == "path") {
      known.path = value;
    } else if (key == "visible") {
      known.visible.push_back(value);
    }
  }
}

/// Returns a variable of the step or task.
std::string variable_of(spank_t spank, const char* name) {
  std::array<char, 65'536> value{};
  if (spank_getenv(spank, name, value.data(), value.size()) != ESPANK_SUCCESS) return "";
  return value.data();
}

template <typename Number>
std::string item_of(spank_t spank, spank_item item) {
  Number number = 0;
  if (spank_get_item(spank, item, &number) != ESPANK_SUCCESS) return "";
  return std::to_string(number);
}

/// Returns the name of a step; "" for one without tasks.
std::string step_of(spank_t spank) {
  std::uint32_t number = 0;
  if (spank_get_item(spank, S_JOB_STEPID, &number) != ESPANK_SUCCESS) return "";
  if (number == SLURM_EXTERN_CONT) return "";
  if (number == SLURM_BATCH_SCRIPT) return "batch";
  return number == SLURM_INTERACTIVE_STEP ? "interactive" : std::to_string(number);
}

/// Returns Slurm's name of the machine that a daemon or step runs on.
std::string machine_name() {
  if (const char* const name = std::getenv("SLURMD_NODENAME")) return name;
  std::ifstream file("/proc/self/cmdline");
  std::string word;
  while (std::getline(file, word, '\0')) {
    if (word == "-N" && std::getline(file, word, '\0')) return word;
    if (word.starts_with("-N")) return word.substr(2);
  }
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  return std::string(host.data()).substr(0, std::string_view(host.data()).find('.'));
}

/// Called for --gpemu-gpu in srun, sbatch and salloc, and again where the step runs.
int take_gpu_option(int, const char* value, int is_remote) {
  state().gpu = value == nullptr ? "" : value;
  if (is_remote != 0) return 0;
  const Program checked = call_program({"check", "--gpu", state().gpu});
  if (succeeded(checked)) return 0;
  log_faults(fault_of(checked));
  return -1;
}

/// Slurm calls no slurm_spank_init() for prologs and epilogs.
void read_arguments(int count, char** arguments) {
  if (!state().program.empty()) return;
  for (int i = 0; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument.starts_with("program=")) {
      state().program = argument.substr(8);
    } else if (argument.starts_with("conf=")) {
      state().conf = argument.substr(5);
    } else {
      slurm_error(
          "gpemu: plugstack.conf: unknown argument %s; there are program=PATH and conf=PATH",
          arguments[i]);
    }
  }
  if (state().program.empty()) state().program = program_beside();
}

/// Returns the names for CUDA of what a task has of its step's GPUs.
std::string visible_to(const std::vector<std::string>& task_gpus) {
  const PluginState& known = state();
  std::string visible;
  for (std::size_t i = 0; i < known.visible.size(); ++i) {
    const bool is_its = !known.gpu.empty() || i >= known.step_gpus.size() ||
                        std::ranges::find(task_gpus, known.step_gpus[i]) != task_gpus.end();
    if (is_its) visible += (visible.empty() ? "" : ",") + known.visible[i];
  }
  return visible;
}

/// Returns the numbers of the GPUs that Slurm gave a step or task; the script of a batch job has
/// those of the job.
std::vector<std::string> gpus_of_step(spank_t spank) {
  std::string gpus = variable_of(spank, "SLURM_STEP_GPUS");
  if (state().step == "batch" || state().step == "interactive") {
    gpus = variable_of(spank, "SLURM_JOB_GPUS");
  }
  return words_of(gpus, ',');
}

/// Asks for the GPUs of a step that is about to start here.
void ask_for_gpus(spank_t spank) {
  PluginState& known = state();
  std::vector<std::string> words = {"give",
                                    "--node",
                                    machine_name(),
                                    "--job",
                                    known.job,
                                    "--step",
                                    known.step,
                                    "--user",
                                    item_of<uid_t>(spank, S_JOB_UID),
                                    "--group",
                                    item_of<gid_t>(spank, S_JOB_GID),
                                    "--process",
                                    std::to_string(::getpid())};
  if (!known.gpu.empty()) {
    words.insert(words.end(), {"--gpu", known.gpu});
  } else {
    words.insert(words.end(), {"--gpus"});
    std::string list;
    for (const std::string& gpu : known.step_gpus) list += (list.empty() ? "" : ",") + gpu;
    words.push_back(list);
    const std::string shards = variable_of(spank, "SLURM_SHARDS_ON_NODE");
    if (!shards.empty()) words.insert(words.end(), {"--shards", shards});
    // Slurm removes the variable from steps that have no percentage.
    if (!variable_of(spank, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").empty()) {
      words.emplace_back("--mps");
    }
  }
  // Ranks on several nodes reach each other if the job, or the cluster, says by which network.
  const std::string hosts = variable_of(spank, "SLURM_JOB_NODELIST");
  if (!hosts.empty()) words.insert(words.end(), {"--hosts", hosts});
  if (!variable_of(spank, "GPEMU_NETWORK").empty()) words.emplace_back("--network-is-set");
  const Program given = call_program(words);
  known.gives = true;
  if (succeeded(given)) {
    read_given(given.said);
  } else {
    known.fault = fault_of(given);
  }
}

}  // namespace

extern "C" {

// As SPANK_PLUGIN() has them, which C++ would not export.
// NOLINTBEGIN(readability-identifier-naming): Slurm's names.
extern const char plugin_name[];
extern const char plugin_type[];
extern const unsigned int plugin_version;
extern const unsigned int spank_plugin_version;
const char plugin_name[] = "gpemu";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;
// NOLINTEND(readability-identifier-naming)

int slurm_spank_init(spank_t spank, int count, char** arguments) {
  read_arguments(count, arguments);
  if (spank_context() == S_CTX_SLURMD) {
    const Program cleaned = call_program({"clean", "--node", machine_name()});
    if (!succeeded(cleaned)) log_faults(fault_of(cleaned));
    return 0;
  }
  static char name[] = "gpemu-gpu", value[] = "NAME[:N]",
              usage[] =
                  "give the job N emulated GPUs on each node, which Slurm does not count; "
                  "`gpemu profile list` names them";
  static spank_option option = {name, value, usage, 1, 0, take_gpu_option};
  return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}

int slurm_spank_init_post_opt(spank_t spank, int, char**) {
  if (spank_context() != S_CTX_REMOTE) return 0;
  PluginState& known = state();
  known.job = item_of<std::uint32_t>(spank, S_JOB_ID);
  known.step = step_of(spank);
  if (known.step.empty()) return 0;
  known.step_gpus = gpus_of_step(spank);
  if (!known.gpu.empty() || !known.step_gpus.empty()) ask_for_gpus(spank);
  return 0;
}

int slurm_spank_task_init(spank_t spank, int, char**) {
  const PluginState& known = state();
  if (!known.fault.empty()) {
    for (const std::string& line : words_of(known.fault, '\n')) {
      if (line.empty()) continue;
      const std::string text = line + '\n';
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    }
    return -1;
  }
  if (!known.gives) {
    if (variable_of(spank, kOfJob).empty()) return 0;
    for (const char* name :
         {kOfJob, "GPEMU_NODE", "GPEMU_NODE_DIR", "GPEMU_DEVICES", "LD_AUDIT", "GPEMU_RECORD_DIR",
          "GPEMU_TENANT", "GPEMU_GPU_LIMIT", "GPEMU_GPU_FRACTION"}) {
      spank_unsetenv(spank, name);
    }
    return 0;
  }
  for (const std::string& name : known.unset) spank_unsetenv(spank, name.c_str());
  for (const auto& [name, value] : known.set) spank_setenv(spank, name.c_str(), value.c_str(), 1);
  spank_setenv(spank, kOfJob, known.job.c_str(), 1);
  if (!known.gpu.empty() && known.step == "batch") {
    spank_setenv(spank, kGpuOfSteps, known.gpu.c_str(), 1);
  }
  spank_setenv(spank, "CUDA_VISIBLE_DEVICES", visible_to(gpus_of_step(spank)).c_str(), 1);
  const std::string path = variable_of(spank, "PATH");
  if (!path.empty() && !path.starts_with(known.path + ':')) {
    spank_setenv(spank, "PATH", (known.path + ':' + path).c_str(), 1);
  }
  return 0;
}

int slurm_spank_job_epilog(spank_t spank, int count, char** arguments) {
  read_arguments(count, arguments);
  const std::string job = item_of<std::uint32_t>(spank, S_JOB_ID);
  const Program ended = call_program({"take-back", "--node", machine_name(), "--job", job});
  if (!succeeded(ended)) log_faults(fault_of(ended));
  // A fault here would take the machine out of service.
  return 0;
}

}  // extern "C"
