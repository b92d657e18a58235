// SPDX-License-Identifier: Apache-2.0
#include "gpemu/device/compute_shares.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "number_text.hpp"

namespace gpemu::device {
namespace {

constexpr const char* kSmLimit = "CUDA_DEVICE_SM_LIMIT";
constexpr const char* kSmPolicy = "GPU_CORE_UTILIZATION_POLICY";
constexpr int kPercent = 100;

/// Returns a part of kWholeWidth; 0 if the variable is not set.
Result<std::uint32_t> read_part(const Lookup& lookup, const char* name) {
  GPEMU_ASSIGN(const double fraction, read_fraction(lookup, name, 0));
  const auto part = static_cast<std::uint32_t>(std::lround(fraction * kWholeWidth));
  // However small, it is a share.
  return fraction > 0 ? std::max(part, 1U) : 0;
}

/// Returns a part of kWholeWidth; 0 if the variable is not set, or says 0 or 100. Source:
/// HAMi-core's README, where these are no limit.
Result<std::uint32_t> read_percentage(const Lookup& lookup, const std::string& name) {
  const std::string_view text = text_of(lookup, name.c_str());
  if (text.empty()) return 0;
  std::string_view rest = text;
  int percent = 0;
  if (!take_number(rest, percent) || !rest.empty() || percent < 0 || percent > kPercent) {
    return fail(ErrorCode::kInvalidArgument, "{} is \"{}\", not a percentage from 0 to 100", name,
                text);
  }
  return static_cast<std::uint32_t>(percent) % kPercent * (kWholeWidth / kPercent);
}

/// Returns 0 if the variable is not set.
Result<std::uint8_t> read_tenant(const Lookup& lookup) {
  const std::string_view text = text_of(lookup, variable::kTenant);
  if (text.empty()) return std::uint8_t{0};
  std::string_view rest = text;
  std::uint8_t number = 0;
  if (!take_number(rest, number) || !rest.empty() || number < 1 || number > kMostTenants) {
    return fail(ErrorCode::kInvalidArgument, "{} is \"{}\", not a number from 1 to {}",
                variable::kTenant, text, kMostTenants);
  }
  return number;
}

}  // namespace

Result<ComputeShares> ComputeShares::read(const Lookup& lookup) {
  ComputeShares shares;
  GPEMU_ASSIGN(const std::uint32_t share, read_part(lookup, variable::kGpuShare));
  GPEMU_ASSIGN(const std::uint32_t limit, read_part(lookup, variable::kGpuLimit));
  GPEMU_ASSIGN(std::uint32_t percentage, read_percentage(lookup, kSmLimit));
  for (int i = 0; i < kMostNumberedDevices; ++i) {
    GPEMU_ASSIGN(shares.of_device_.emplace_back(),
                 read_percentage(lookup, fmt::format("{}_{}", kSmLimit, i)));
  }
  if (share > 0 && limit > 0) {
    return fail(ErrorCode::kInvalidArgument,
                "{} and {} are both set: the first is a share that may be exceeded while others "
                "leave time, the second one that may not; set one of them",
                variable::kGpuShare, variable::kGpuLimit);
  }
  std::string policy(text_of(lookup, kSmPolicy));
  for (char& letter : policy) letter = static_cast<char>(std::tolower(letter));
  if (policy == "disable" || share > 0 || limit > 0) {
    percentage = 0;
    shares.of_device_.clear();
  }
  GPEMU_ASSIGN(const std::uint8_t tenant, read_tenant(lookup));
  shares.of_all_ = {.part = share + limit + percentage, .capped = share == 0, .tenant = tenant};
  if (shares.of_all_.part == 0) shares.of_all_.capped = false;
  return shares;
}

ComputeShare ComputeShares::of(int index) const {
  const auto place = static_cast<std::size_t>(index);
  if (index < 0 || place >= of_device_.size() || of_device_[place] == 0) return of_all_;
  return {.part = of_device_[place], .capped = true, .tenant = of_all_.tenant};
}

bool ComputeShares::any() const {
  return of_all_.part > 0 ||
         std::ranges::any_of(of_device_, [](std::uint32_t part) { return part > 0; });
}

}  // namespace gpemu::device
