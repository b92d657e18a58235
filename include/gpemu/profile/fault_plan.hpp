// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"

namespace gpemu::profile {

/// What goes wrong.
enum class FaultKind : std::uint8_t {
  kSlow,      ///< a GPU's clock is lower, so kernels take longer.
  kLost,      ///< a GPU falls off the bus: Xid 79.
  kKill,      ///< the processes that use a GPU are killed.
  kSlowLink,  ///< a link of a GPU is slower, so copies and collectives over it take longer.
  /// NVLinks of a GPU do not work any more: Xid 74. (A GPU whose PCIe link is broken is lost.)
  kBrokenLink,
  kIllegalAddress,  ///< a kernel uses an address that is not allocated: Xid 31.
};

/// The names of the kinds in the file.
inline constexpr std::array<std::string_view, 6> kFaultKindNames = {
    "slow", "lost", "kill", "slow-link", "broken-link", "illegal-address"};

/// The links of a GPU.
enum class GpuLink : std::uint8_t { kPcie, kNvlink };

/// Something that goes wrong with one GPU of a node.
struct Fault {
  FaultKind kind = FaultKind::kSlow;
  int gpu = 0;                      ///< in the node.
  Duration at{};                    ///< since the node was made, unless it begins by count:
  std::uint64_t at_collective = 0;  ///< with that collective of the GPU, from 1; 0: it does not;
  std::uint64_t at_kernel = 0;      ///< of an illegal address: likewise, with that kernel.
  /// Of a slow GPU or link: until it is as before; of a lost GPU: until processes that start then
  /// can use it.
  std::optional<Duration> lasts;
  double clock = 1;               ///< of a slow GPU: the share of its clock that is left.
  double rate = 1;                ///< of a slow link: the share of its rate that is left.
  GpuLink link = GpuLink::kPcie;  ///< which link of the GPU is slow or broken;
  std::optional<int> peer;        ///< of NVLink: only those to this GPU.
};

/// The faults of a node, from a TOML file (docs/reference/faults-file.md).
struct FaultPlan {
  std::vector<Fault> faults;
  std::string toml;  ///< the text that describes them.
};

inline constexpr std::size_t kMostFaults = 64;

/// Reads the faults of a node with so many GPUs. `origin` names the text in messages, e.g. the
/// file's path.
///
/// Errors: kCorruptData for the first mistake, as "origin:line: field: what is wrong".
[[nodiscard]] Result<FaultPlan> parse_fault_plan(std::string_view toml, std::string_view origin,
                                                 std::size_t gpus);

/// Returns what is left of a node's faults after a time, for a node with some of its GPUs: what
/// concerns others, or is over, is left out. Counts of collectives and kernels begin anew.
/// `gpus`: their numbers in the first node, in the order of the second.
[[nodiscard]] std::string faults_left(const FaultPlan& plan, std::span<const std::size_t> gpus,
                                      Duration elapsed);

/// Errors: those of read_file and parse_fault_plan.
[[nodiscard]] Result<FaultPlan> load_fault_plan(const std::filesystem::path& path,
                                                std::size_t gpus);

}  // namespace gpemu::profile
