// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "launch_policy.hpp"

namespace gpemu::device {
namespace {

/// Orion (EuroSys 2024): best-effort kernels run while the high-priority client has none, and
/// beside its kernels if these need something else: one is bound by compute and the other one by
/// memory, or what binds one of them is not known. Few best-effort kernels are on the GPU at a
/// time.
class Orion final : public LaunchPolicy {
 public:
  TimePoint launch_from(const LaunchView& view, const KernelLaunch& kernel) override {
    if (view.in_flight == Duration()) launched_ = {};
    // Then they must all end first.
    if (launched_ > kMostInFlight) return view.now + view.in_flight;
    if (!view.running) return view.now;
    const Bound theirs = bound_of(*view.running);
    const Bound own = bound_of(kernel.needs);
    if (theirs != own || own == Bound::kUnknown) return view.now;
    return std::max(view.next_change, view.now + Duration(1));
  }
  void note_launch(const KernelLaunch& kernel) override { launched_ += kernel.cost; }
  [[nodiscard]] bool is_side_by_side() const override { return true; }

 private:
  enum class Bound { kCompute, kMemory, kUnknown };

  /// Source of 60 %: eth-easl/orion, profiling/postprocessing/roofline_analysis.py, for kernels
  /// whose arithmetic is not counted; it classes the others by arithmetic per byte. A share of the
  /// memory's rate is what the emulation knows of all kernels.
  static Bound bound_of(const KernelNeeds& needs) {
    constexpr std::uint32_t kBinds = kWholeWidth * 6 / 10;
    if (needs.memory > kBinds) return Bound::kMemory;
    return needs.memory < kWholeWidth - kBinds ? Bound::kCompute : Bound::kUnknown;
  }

  /// Source: eth-easl/orion, artifact_evaluation/fig7/run_orion.py: 100,000 ns beside MobileNetV2,
  /// 160,000 beside ResNet-50.
  static constexpr Duration kMostInFlight = std::chrono::microseconds(100);

  Duration launched_{};  ///< since none of its kernels ran.
};

}  // namespace

std::unique_ptr<LaunchPolicy> make_orion() {
  return std::make_unique<Orion>();
}

}  // namespace gpemu::device
