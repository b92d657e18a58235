// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "gpemu/base/error.hpp"
#include "gpemu/base/units.hpp"
#include "gpemu/containers/gpu_pool.hpp"

#include "kubernetes/api_server.hpp"
#include "kubernetes/resource_claim.hpp"

namespace gpemu::tools {

/// What becomes of a driver's claims.
struct ClaimOptions {
  std::string driver;
  containers::Division division = containers::Division::kNone;  ///< of GPUs that are divided.
  std::filesystem::path cdi;  ///< where runtimes find specifications.
};

/// A claim, as the kubelet names it.
struct ClaimName {
  std::string name_space, name, uid;
};

/// A device of a claim that containers can use.
struct PreparedDevice {
  std::string request, pool, device;
  std::string cdi;  ///< "KIND=NAME".
};

/// Prepares claims: their nodes, and the CDI specifications by which containers get them. What
/// there is on the disk is all that it knows, so that it may be ended and made anew.
///
/// Thread safety: any thread.
class ClaimPreparer {
 public:
  /// Requires: `pool` outlives it, and nobody else changes it.
  ClaimPreparer(ClaimOptions options, ApiServer server, containers::GpuPool& pool);

  /// Makes the GPUs of a claim ready for containers; those of each request by itself if containers
  /// name requests, else all together. Does nothing if they are.
  ///
  /// Errors: those of ApiServer, claimed_gpus() and GpuPool::give(); kNotFound if the API server
  /// has another claim of this name; kUnsupported if a container uses GPUs of several claims, or
  /// several requests by their names.
  [[nodiscard]] Result<std::vector<PreparedDevice>> prepare(const ClaimName& claim);

  /// Removes what prepare() made, if anything. Errors: kIo.
  [[nodiscard]] Result<void> unprepare(const std::string& uid);

  /// Returns whether containers can get a GPU now.
  [[nodiscard]] bool is_healthy(std::size_t gpu);

 private:
  [[nodiscard]] std::filesystem::path spec_of(const std::string& uid) const;
  [[nodiscard]] Result<std::vector<ClaimedGpu>> gpus_of(const nlohmann::json& claim) const;
  [[nodiscard]] Result<bool> by_request(const ClaimName& claim, const nlohmann::json& object);
  [[nodiscard]] Result<void> check_others(const ClaimName& claim, const std::string& container,
                                          std::span<const ClaimUse> uses);

  ClaimOptions options_;
  std::mutex mutex_;
  ApiServer server_;
  containers::GpuPool& pool_;
  std::vector<Bytes> memory_;  ///< of each GPU.
};

}  // namespace gpemu::tools
