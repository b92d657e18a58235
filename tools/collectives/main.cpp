// SPDX-License-Identifier: Apache-2.0
//
// Measures NCCL's collectives as nccl-tests does: the same calls, the same columns. A plain CUDA
// program, for real GPUs and for gpemu's.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "collectives/libraries.hpp"
#include "collectives/numbers.hpp"
#include "collectives/operation.hpp"

namespace gpemu::collectives {
namespace {

struct Options {
  std::string operation = "all_reduce";
  std::size_t least = 8, most = 32 << 20;
  std::size_t factor = 2, step = 0;
  int gpus = 1, processes = 1;
  int iterations = 20, warmups = 5;
  std::string type = "float", reduction = "sum";
  int root = 0;
  bool check = true;
};

/// Checks compare up to so many elements: what gpemu computes of a reduction.
constexpr std::size_t kMostChecked = 65536;

/// A GPU of this process.
struct Rank {
  int rank = 0, device = 0;
  void* communicator = nullptr;
  void* stream = nullptr;
  char* sent = nullptr;
  char* received = nullptr;
};

/// What is measured with one size, one type and one reduction.
struct Case {
  Operation operation = Operation::kAllReduce;
  Reduction reduction = Reduction::kSum;
  const NumberType* type = nullptr;
  int ranks = 0, root = 0;
  Counts counts;
};

/// Returns where a rank's send buffer lies when it is a part of the receive buffer, or the reverse.
struct Buffers {
  const char* sent = nullptr;
  char* received = nullptr;
};
Buffers buffers_of(const Rank& rank, const Case& test, bool in_place) {
  if (!in_place) return {rank.sent, rank.received};
  const std::size_t part =
      test.counts.given * test.type->bytes * static_cast<std::size_t>(rank.rank);
  if (test.operation == Operation::kAllGather) return {rank.received + part, rank.received};
  if (test.operation == Operation::kReduceScatter) return {rank.received, rank.received + part};
  return {rank.received, rank.received};
}

void call(const Rank& rank, const Case& test, bool in_place) {
  const Libraries& nccl = libraries();
  const auto [sent, received] = buffers_of(rank, test, in_place);
  const std::size_t count = test.counts.given, bytes = count * test.type->bytes;
  const int type = test.type->nccl, reduction = static_cast<int>(test.reduction);
  void* const comm = rank.communicator;
  void* const stream = rank.stream;
  switch (test.operation) {
    case Operation::kAllReduce:
      return check_nccl(nccl.all_reduce(sent, received, count, type, reduction, comm, stream),
                        "ncclAllReduce");
    case Operation::kReduce:
      return check_nccl(
          nccl.reduce(sent, received, count, type, reduction, test.root, comm, stream),
          "ncclReduce");
    case Operation::kBroadcast:
      return check_nccl(nccl.broadcast(sent, received, count, type, test.root, comm, stream),
                        "ncclBroadcast");
    case Operation::kAllGather:
      return check_nccl(nccl.all_gather(sent, received, count, type, comm, stream),
                        "ncclAllGather");
    case Operation::kReduceScatter:
      return check_nccl(nccl.reduce_scatter(sent, received, count, type, reduction, comm, stream),
                        "ncclReduceScatter");
    case Operation::kAllToAll:
      for (int peer = 0; peer < test.ranks; ++peer) {
        const std::size_t part = bytes * static_cast<std::size_t>(peer);
        check_nccl(nccl.send(sent + part, count, type, peer, comm, stream), "ncclSend");
        check_nccl(nccl.receive(received + part, count, type, peer, comm, stream), "ncclRecv");
      }
      return;
    case Operation::kSendReceive: {
      const int next = (rank.rank + 1) % test.ranks;
      const int previous = (rank.rank + test.ranks - 1) % test.ranks;
      check_nccl(nccl.send(sent, count, type, next, comm, stream), "ncclSend");
      check_nccl(nccl.receive(received, count, type, previous, comm, stream), "ncclRecv");
      return;
    }
  }
}

/// Calls it on all GPUs of this process.
void call_all(const std::vector<Rank>& ranks, const Case& test, bool in_place) {
  check_nccl(libraries().group_start(), "ncclGroupStart");
  for (const Rank& rank : ranks) {
    check_cuda(libraries().set_device(rank.device), "cudaSetDevice");
    call(rank, test, in_place);
  }
  check_nccl(libraries().group_end(), "ncclGroupEnd");
}

void wait_for_all(const std::vector<Rank>& ranks) {
  for (const Rank& rank : ranks) {
    check_cuda(libraries().set_device(rank.device), "cudaSetDevice");
    check_cuda(libraries().synchronize(rank.stream), "cudaStreamSynchronize");
  }
}

/// Returns the microseconds of one call.
double measure(const std::vector<Rank>& ranks, const Case& test, bool in_place,
               const Options& options) {
  // Of zeros: gpemu really adds what a check has left in the buffers, which takes the host time.
  for (const Rank& rank : ranks) {
    check_cuda(libraries().set_device(rank.device), "cudaSetDevice");
    check_cuda(libraries().set(rank.sent, 0, options.most), "cudaMemset");
    check_cuda(libraries().set(rank.received, 0, options.most), "cudaMemset");
  }
  for (int i = 0; i < options.warmups; ++i) call_all(ranks, test, in_place);
  wait_for_all(ranks);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < options.iterations; ++i) call_all(ranks, test, in_place);
  wait_for_all(ranks);
  const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - start;
  return time.count() / options.iterations;
}

/// Runs it once with known numbers. Returns how many of this process's results are wrong.
std::size_t check(const std::vector<Rank>& ranks, const Case& test, bool in_place) {
  constexpr int kHostToDevice = 1, kDeviceToHost = 2;
  const Libraries& cuda = libraries();
  for (const Rank& rank : ranks) {
    check_cuda(cuda.set_device(rank.device), "cudaSetDevice");
    const auto bytes = encode(*test.type, sent_by(rank.rank, test.counts.sent));
    const std::size_t all = std::max(test.counts.sent, test.counts.received) * test.type->bytes;
    check_cuda(cuda.set(rank.received, 0, all), "cudaMemset");
    check_cuda(cuda.copy(const_cast<char*>(buffers_of(rank, test, in_place).sent), bytes.data(),
                         bytes.size(), kHostToDevice),
               "cudaMemcpy");
  }
  call_all(ranks, test, in_place);
  wait_for_all(ranks);
  std::size_t wrong = 0;
  for (const Rank& rank : ranks) {
    const auto expected = expected_at(rank.rank, test.ranks, test.root, test.operation,
                                      test.reduction, *test.type, test.counts);
    std::vector<std::byte> bytes(expected.size() * test.type->bytes);
    check_cuda(cuda.copy(bytes.data(), buffers_of(rank, test, in_place).received, bytes.size(),
                         kDeviceToHost),
               "cudaMemcpy");
    wrong += count_wrong(decode(*test.type, bytes), expected, *test.type, test.ranks);
  }
  return wrong;
}

/// The processes of a run, which the first one has started.
class Team {
 public:
  explicit Team(int processes) : processes_(processes) {
    if (processes == 1) return;
    if (::pipe(to_others_) != 0 || ::pipe(to_first_) != 0) stop("cannot make pipes");
    // Ranks wait for a dead one for ever, as NCCL's do within a node.
    struct sigaction action{};
    action.sa_sigaction = end_with_a_failed_process;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP;
    ::sigaction(SIGCHLD, &action, nullptr);
    for (int i = 1; i < processes && index_ == 0; ++i) {
      const pid_t child = ::fork();
      if (child < 0) stop("cannot start a process");
      if (child != 0) continue;
      index_ = i;
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
  }

  [[nodiscard]] int index() const { return index_; }

  /// Gives the first process's id to all.
  UniqueId share(UniqueId id) {
    if (processes_ == 1) return id;
    if (index_ == 0) {
      for (int i = 1; i < processes_; ++i) write_all(to_others_[1], &id, sizeof id);
      return id;
    }
    read_all(to_others_[0], &id, sizeof id);
    return id;
  }

  /// Returns, in the first process, the sum of all processes' numbers.
  std::size_t sum(std::size_t number) {
    if (index_ != 0) write_all(to_first_[1], &number, sizeof number);
    for (int i = 1; index_ == 0 && i < processes_; ++i) {
      std::size_t other = 0;
      read_all(to_first_[0], &other, sizeof other);
      number += other;
    }
    return number;
  }

  /// Waits for the others. Returns whether all ended well.
  bool join() const {
    bool good = true;
    for (int i = 1; index_ == 0 && i < processes_; ++i) {
      int status = 0;
      if (::wait(&status) < 0 || status != 0) good = false;
    }
    return good;
  }

 private:
  static void end_with_a_failed_process(int /*signal*/, siginfo_t* child, void* /*context*/) {
    if (child->si_code == CLD_EXITED && child->si_status == 0) return;
    constexpr std::string_view kMessage = "gpemu-collectives: a process has ended too early\n";
    static_cast<void>(!::write(STDERR_FILENO, kMessage.data(), kMessage.size()));
    ::_exit(1);  // The others get a signal.
  }
  // Both are shorter than PIPE_BUF, so they arrive as a whole.
  static void write_all(int pipe, const void* data, std::size_t size) {
    if (::write(pipe, data, size) != static_cast<ssize_t>(size)) stop("a process has ended");
  }
  static void read_all(int pipe, void* data, std::size_t size) {
    if (::read(pipe, data, size) != static_cast<ssize_t>(size)) stop("a process has ended");
  }

  int processes_;
  int index_ = 0;
  int to_others_[2] = {-1, -1}, to_first_[2] = {-1, -1};
};

std::vector<Rank> make_ranks(const Options& options, Team& team) {
  const Libraries& all = libraries();
  int devices = 0;
  check_cuda(all.device_count(&devices), "cudaGetDeviceCount");
  const int ranks = options.gpus * options.processes;
  if (devices < ranks) {
    stop(fmt::format("{} GPUs are needed, but there are {}; see --gpus and --processes", ranks,
                     devices));
  }
  UniqueId id;
  if (team.index() == 0) check_nccl(all.unique_id(&id), "ncclGetUniqueId");
  id = team.share(id);
  std::vector<Rank> own(static_cast<std::size_t>(options.gpus));
  check_nccl(all.group_start(), "ncclGroupStart");
  for (int i = 0; i < options.gpus; ++i) {
    Rank& rank = own[static_cast<std::size_t>(i)];
    rank.rank = rank.device = team.index() * options.gpus + i;
    check_cuda(all.set_device(rank.device), "cudaSetDevice");
    check_cuda(all.create_stream(&rank.stream), "cudaStreamCreate");
    for (char** buffer : {&rank.sent, &rank.received}) {
      check_cuda(all.allocate(reinterpret_cast<void**>(buffer), options.most), "cudaMalloc");
    }
    check_nccl(all.init_rank(&rank.communicator, ranks, id, rank.rank), "ncclCommInitRank");
  }
  check_nccl(all.group_end(), "ncclGroupEnd");
  return own;
}

std::vector<const NumberType*> types_of(const Options& options) {
  std::vector<const NumberType*> types;
  for (const NumberType& type : kNumberTypes) {
    if (options.type == "all" || options.type == type.name) types.push_back(&type);
  }
  return types;
}

std::vector<Reduction> reductions_of(const Options& options, Operation operation) {
  std::vector<Reduction> reductions;
  for (std::size_t i = 0; i < kReductionNames.size(); ++i) {
    if (options.reduction == "all" || options.reduction == kReductionNames[i]) {
      reductions.push_back(static_cast<Reduction>(i));
    }
  }
  if (!reduces(operation)) reductions = {Reduction::kSum};
  return reductions;
}

/// Prints the columns of one way of calling. Returns the bus bandwidth in GB/s.
double print_half(double us, std::size_t bytes, double factor, const std::string& wrong) {
  const double algorithm = us > 0 ? static_cast<double>(bytes) / us / 1e3 : 0;
  fmt::print(" {:>8} {:>7.2f} {:>7.2f} {:>6}",
             us < 1e4 ? fmt::format("{:.2f}", us) : fmt::format("{:.0f}", us), algorithm,
             algorithm * factor, wrong);
  return algorithm * factor;
}

void print_head(const Options& options) {
  fmt::print("# {}: {} ranks, {} in each of {} processes; {} iterations after {} warm-ups\n#\n",
             options.operation, options.gpus * options.processes, options.gpus, options.processes,
             options.iterations, options.warmups);
  fmt::print(
      "#                                              out-of-place                      "
      "in-place\n");
  fmt::print(
      "#    size (B)   elements      type redop root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n");
  fmt::print(
      "#                                                 (us)  (GB/s)  (GB/s)            "
      "(us)  (GB/s)  (GB/s)\n");
  std::fflush(stdout);
}

/// What all cases together showed.
struct Summary {
  std::size_t wrong = 0;
  double bus = 0;  ///< the sum of `lines` rates.
  int lines = 0;
};

/// Measures a case out of place and in place, and prints its line.
void measure_case(const std::vector<Rank>& ranks, const Case& test, const Options& options,
                  Team& team, Summary* summary) {
  const bool speaks = team.index() == 0;
  const Operation operation = test.operation;
  const std::size_t elements = std::max(test.counts.sent, test.counts.received);
  const std::size_t size = elements * test.type->bytes;
  if (speaks) {
    fmt::print(
        "{:>13} {:>10} {:>9} {:>5} {:>4}", size, test.counts.given, test.type->name,
        reduces(operation) ? kReductionNames[static_cast<std::size_t>(test.reduction)] : "none",
        options.root);
  }
  const bool checks = options.check && elements <= kMostChecked;
  for (const bool in_place : {false, true}) {
    const bool exists =
        !in_place || (operation != Operation::kAllToAll && operation != Operation::kSendReceive);
    if (!exists) {
      if (speaks) fmt::print(" {:>8} {:>7} {:>7} {:>6}", "N/A", "N/A", "N/A", "N/A");
      continue;
    }
    const double us = measure(ranks, test, in_place, options);
    const std::size_t wrong = checks ? team.sum(check(ranks, test, in_place)) : 0;
    summary->wrong += wrong;
    if (speaks) {
      summary->bus += print_half(us, size, bus_factor(operation, test.ranks),
                                 checks ? std::to_string(wrong) : "N/A");
      ++summary->lines;
    }
  }
  if (speaks) fmt::print("\n");
  std::fflush(stdout);
}

int run(const Options& options) {
  Team team(options.processes);
  const auto operation = static_cast<Operation>(
      std::ranges::find(kOperationNames, options.operation) - kOperationNames.begin());
  const std::vector<Rank> ranks = make_ranks(options, team);
  const int all = options.gpus * options.processes;
  const bool speaks = team.index() == 0;
  if (speaks) print_head(options);
  Summary summary;
  for (std::size_t bytes = options.least; bytes <= options.most;
       bytes = options.step > 0 ? bytes + options.step : bytes * options.factor) {
    for (const NumberType* type : types_of(options)) {
      for (const Reduction reduction : reductions_of(options, operation)) {
        measure_case(ranks,
                     {.operation = operation,
                      .reduction = reduction,
                      .type = type,
                      .ranks = all,
                      .root = options.root,
                      .counts = counts_of(operation, bytes, *type, all)},
                     options, team, &summary);
      }
    }
  }
  for (const Rank& rank : ranks) {
    check_nccl(libraries().destroy(rank.communicator), "ncclCommDestroy");
  }
  const bool good = team.join();
  if (!speaks) return 0;
  fmt::print("# Out of bounds values : {} {}\n# Avg bus bandwidth    : {:g}\n", summary.wrong,
             summary.wrong == 0 ? "OK" : "FAILED",
             summary.lines == 0 ? 0 : summary.bus / summary.lines);
  return good && summary.wrong == 0 ? 0 : 1;
}

/// Reads the command line and runs. Returns the exit code.
int measure_collectives(int argc, char** argv) {
  Options options;
  CLI::App app("Measure NCCL's collectives, with the options and the table of nccl-tests");
  app.add_option("operation", options.operation, "What to measure; default: all_reduce")
      ->check(CLI::IsMember(kOperationNames));
  app.add_option("-b,--minbytes", options.least, "Smallest size, e.g. 8 or 1M")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("-e,--maxbytes", options.most, "Largest size; default: 32M")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("-f,--stepfactor", options.factor, "Factor between sizes; default: 2")
      ->check(CLI::Range(2, 1024));
  app.add_option("-i,--stepbytes", options.step, "Difference between sizes instead")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("-g,--ngpus", options.gpus, "GPUs of each process; default: 1")
      ->check(CLI::Range(1, 1024));
  app.add_option("-p,--processes", options.processes, "Processes; default: 1")
      ->check(CLI::Range(1, 1024));
  app.add_option("-n,--iters", options.iterations, "Measured calls; default: 20")
      ->check(CLI::Range(1, 1000000));
  app.add_option("-w,--warmup_iters", options.warmups, "Calls before; default: 5")
      ->check(CLI::Range(0, 1000000));
  std::vector<std::string> types{"all"}, reductions{"all"};
  for (const NumberType& type : kNumberTypes) types.emplace_back(type.name);
  for (const auto& name : kReductionNames) reductions.emplace_back(name);
  app.add_option("-d,--datatype", options.type, "Type of numbers; default: float")
      ->check(CLI::IsMember(types));
  app.add_option("-o,--op", options.reduction, "Reduction; default: sum")
      ->check(CLI::IsMember(reductions));
  app.add_option("-r,--root", options.root, "Root of broadcast and reduce; default: 0")
      ->check(CLI::NonNegativeNumber);
  app.add_option("-c,--check", options.check,
                 "Whether to check results of up to 65536 elements; default: 1");
  app.footer(
      "Examples:\n"
      "  gpemu run --gpu A100-SXM4-80GB:8 -- gpemu-collectives -g 8 -e 1G\n"
      "  gpemu run --gpu H100-SXM5-80GB:4 -- gpemu-collectives reduce_scatter -p 4 -d half -o all");
  CLI11_PARSE(app, argc, argv);
  if (options.least == 0 || options.least > options.most) {
    stop("--minbytes must be above 0 and at most --maxbytes");
  }
  if (options.root >= options.gpus * options.processes) {
    stop(fmt::format("--root {}: there are {} ranks", options.root,
                     options.gpus * options.processes));
  }
  return run(options);
}

}  // namespace
}  // namespace gpemu::collectives

int main(int argc, char** argv) {
  return gpemu::collectives::measure_collectives(argc, argv);
}
