// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/resource_claim.hpp"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kubernetes/resource_slice.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr std::array<Bytes, 2> kMemory = {40 * kGiB, 80 * kGiB};

json result(const std::string& request, const std::string& device, json consumed = json()) {
  json made = {{"request", request}, {"driver", "d"}, {"pool", "n1"}, {"device", device}};
  if (!consumed.is_null()) made["consumedCapacity"] = std::move(consumed);
  return made;
}

json claim(json results, json config = json::array()) {
  const json devices = {{"results", std::move(results)}, {"config", std::move(config)}};
  return {{"status", {{"allocation", {{"devices", devices}}}}}};
}

json opaque(json parameters, const std::string& driver = "d") {
  return json::array({{{"opaque", {{"driver", driver}, {"parameters", std::move(parameters)}}}}});
}

std::string fault(const json& object) {
  const auto gpus = claimed_gpus(object, "d", kMemory);
  return gpus ? "" : gpus.error().message;
}

TEST(ResourceClaimTest, QuantitiesAreThoseOfKubernetes) {
  EXPECT_EQ(quantity_of("40Gi"), 40 * 0x1p30);
  EXPECT_EQ(quantity_of("1500m"), 1.5);
  EXPECT_EQ(quantity_of("10G"), 1e10);
  EXPECT_EQ(quantity_of("2E"), 2e18);
  EXPECT_EQ(quantity_of("1e3"), 1000);
  EXPECT_EQ(quantity_of("42"), 42);
  for (const char* wrong : {"", "Gi", "4 Gi", "4gi", "4Gii"}) EXPECT_FALSE(quantity_of(wrong));
}

TEST(ResourceClaimTest, NamesOfDevicesSayWhatTheyAre) {
  EXPECT_EQ(part_of_device("gpu-12").value().gpu, 12U);
  EXPECT_FALSE(part_of_device("gpu-12").value().mig);
  const containers::GpuPart part = part_of_device("gpu-3-mig-19-6").value();
  EXPECT_EQ(part.gpu, 3U);
  EXPECT_EQ(part.mig, (containers::MigPlacement{.profile = 19, .start = 6}));
  for (const char* other : {"gpu-", "gpu-1x", "gpu-01", "gpu-1-mig-9", "gpu-1-mig-9-4-0", "x"}) {
    EXPECT_FALSE(part_of_device(other)) << other;
  }
}

TEST(ResourceClaimTest, HasTheDriversGpusAndTheirParts) {
  json other = result("x", "gpu-1");
  other["driver"] = "other";
  const auto gpus =
      claimed_gpus(claim({result("any/big", "gpu-1"), other,
                          result("part", "gpu-0", {{"memory", "10Gi"}, {"cores", "25"}})}),
                   "d", kMemory)
          .value();
  ASSERT_EQ(gpus.size(), 2U);
  EXPECT_EQ(gpus[0].request, "any") << "without the alternative that was chosen";
  EXPECT_EQ(gpus[0].pool, "n1");
  EXPECT_EQ(gpus[0].part.gpu, 1U);
  EXPECT_EQ(gpus[0].part.memory, 1);
  EXPECT_EQ(gpus[1].part.memory, 0.25);
  EXPECT_EQ(gpus[1].part.compute, 0.25);
}

TEST(ResourceClaimTest, NamesWhatIsNotSupported) {
  EXPECT_EQ(fault(json::object()), "the scheduler has given it no devices");
  EXPECT_EQ(fault(claim({result("r", "gpu-2")})),
            "the device 'gpu-2' is none of this node's: the driver has 2 GPUs");
  json admin = result("r", "gpu-0");
  admin["adminAccess"] = true;
  EXPECT_EQ(fault(claim({admin})),
            "adminAccess is not supported: a container sees its own GPUs only");
  EXPECT_EQ(fault(claim({result("r", "gpu-0", {{"memory", "lots"}})})),
            "'lots' is no quantity of Kubernetes");

  const json slices = {
      {"kind", "GpuConfig"},
      {"sharing", {{"strategy", "TimeSlicing"}, {"timeSlicingConfig", {{"interval", "Default"}}}}}};
  EXPECT_EQ(fault(claim({result("r", "gpu-0")}, opaque(slices))), "");
  const json mps = {{"kind", "GpuConfig"}, {"sharing", {{"strategy", "MPS"}}}};
  EXPECT_EQ(fault(claim({result("r", "gpu-0")}, opaque(mps, "other"))), "");
  EXPECT_NE(fault(claim({result("r", "gpu-0")}, opaque(mps))).find("'GpuConfig' with MPS"),
            std::string::npos);
}

TEST(ResourceClaimTest, ContainersUseClaimsWholeOrByRequest) {
  const json pod = {
      {"spec",
       {{"resourceClaims",
         {{{"name", "own"}, {"resourceClaimTemplateName", "t"}},
          {{"name", "shared"}, {"resourceClaimName", "s"}}}},
        {"initContainers", {{{"name", "i"}, {"resources", {{"claims", {{{"name", "shared"}}}}}}}}},
        {"containers",
         {{{"name", "c"}, {"resources", {{"claims", {{{"name", "own"}, {"request", "r"}}}}}}},
          {{"name", "without"}}}}}},
      {"status",
       {{"resourceClaimStatuses", {{{"name", "own"}, {"resourceClaimName", "own-x7"}}}},
        {"extendedResourceClaimStatus",
         {{"resourceClaimName", "e"},
          {"requestMappings",
           {{{"containerName", "c"}, {"requestName", "container-0-request-0"}}}}}}}}};
  std::vector<std::string> uses;
  for (const ClaimUse& use : claim_uses(pod)) {
    uses.push_back(use.container + ' ' + use.claim + ' ' + use.request);
  }
  EXPECT_EQ(uses, (std::vector<std::string>{"i s ", "c own-x7 r", "c e container-0-request-0"}));
  EXPECT_TRUE(claim_uses(json::object()).empty());
}

TEST(ResourceSliceTest, AGpuHasTheAttributesOfNvidiasDriver) {
  device::DeviceSnapshot gpu;
  gpu.uuid = "GPU-1";
  gpu.pci_bus_id = "00000000:02:00.0";
  gpu.memory_total = 40 * kGiB;
  gpu.facts = {.product_name = "NVIDIA A100-SXM4-40GB",
               .architecture = "Ampere",
               .compute_capability_major = 8};
  const json device =
      devices_of(std::vector{gpu, gpu}, {false, true}, {.driver = "d", .node = "n"})[0];
  EXPECT_EQ(device, json::parse(R"({"name": "gpu-0", "attributes": {
      "type": {"string": "gpu"}, "uuid": {"string": "GPU-1"}, "index": {"int": 0},
      "minor": {"int": 0}, "productName": {"string": "NVIDIA A100-SXM4-40GB"},
      "brand": {"string": "Nvidia"}, "architecture": {"string": "Ampere"},
      "cudaComputeCapability": {"version": "8.0.0"}, "driverVersion": {"version": "595.45.4"},
      "cudaDriverVersion": {"version": "13.2.0"}, "pcieBusID": {"string": "0000:02:00.0"}},
      "capacity": {"memory": {"value": "40960Mi"}}})"));
  const json both =
      devices_of(std::vector{gpu, gpu}, {false, true},
                 {.driver = "d", .node = "n", .divided = true, .taint_effect = "NoExecute"});
  EXPECT_EQ(both[0]["capacity"]["cores"]["requestPolicy"]["default"], "0");
  EXPECT_EQ(both[0]["allowMultipleAllocations"], true);
  EXPECT_FALSE(both[0].contains("taints"));
  EXPECT_EQ(both[1]["taints"],
            json::parse(R"([{"key": "d/gpu-lost", "value": "true", "effect": "NoExecute"}])"));
}

}  // namespace
}  // namespace gpemu::tools
