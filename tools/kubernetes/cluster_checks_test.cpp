// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/cluster_checks.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kubernetes/fake_api_server.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;
using Lines = std::vector<std::string>;

/// Returns the findings, faults with an exclamation mark before them.
Lines lines(FakeApiServer& server) {
  ApiServer api = ApiServer::create(server.access()).value();
  const std::vector<Finding> findings = check_cluster(api).value();
  Lines texts;
  for (const Finding& finding : findings) {
    texts.push_back((finding.is_fault ? "! " : "") + finding.text);
  }
  return texts;
}

void add_node(FakeApiServer& server, const char* name, json capacity, json allocatable,
              const char* ready) {
  server.answer("POST", "/api/v1/nodes",
                {{"metadata", {{"name", name}}},
                 {"status",
                  {{"capacity", std::move(capacity)},
                   {"allocatable", std::move(allocatable)},
                   {"conditions", json::array({json{{"type", "Ready"}, {"status", ready}}})}}}});
}

void add_pod(FakeApiServer& server, const char* name, const char* resource, json status) {
  const json limits{{resource, "1"}};
  const json container{{"name", "c"}, {"resources", {{"limits", limits}}}};
  server.answer("POST", "/api/v1/namespaces/default/pods",
                {{"metadata", {{"name", name}}},
                 {"spec", {{"containers", json::array({container})}}},
                 {"status", std::move(status)}});
}

TEST(ClusterChecks, AClusterWithoutGpusIsAFault) {
  FakeApiServer server;
  add_node(server, "n", {{"cpu", "2"}}, {{"cpu", "2"}}, "True");
  const Lines found = lines(server);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].starts_with("! none of 1 nodes offers GPUs: start"));
}

TEST(ClusterChecks, WhatIsUnhealthyOrWaitsIsNamed) {
  FakeApiServer server;
  add_node(server, "a", {{"nvidia.com/gpu", "4"}}, {{"nvidia.com/gpu", "4"}}, "True");
  add_node(server, "b", {{"nvidia.com/mig-1g.5gb", "7"}}, {{"nvidia.com/mig-1g.5gb", "6"}},
           "False");
  const json type{{"type", {{"string", "gpu"}}}};
  const json gpu{{"name", "gpu-0"}, {"attributes", type}};
  server.answer("POST", "/apis/resource.k8s.io/v1/resourceslices",
                {{"metadata", {{"name", "s"}}},
                 {"spec",
                  {{"driver", "gpu.nvidia.com"},
                   {"nodeName", "a"},
                   {"devices", json::array({gpu, json{{"name", "gpu-1"}, {"taints", {1}}}})}}}});
  add_pod(server, "runs", "nvidia.com/gpu", {{"phase", "Running"}});
  add_pod(server, "other", "cpu", {{"phase", "Pending"}});
  const json unbound{
      {"type", "PodScheduled"}, {"status", "False"}, {"message", "0/2 nodes are available"}};
  add_pod(server, "waits", "nvidia.com/gpu",
          {{"phase", "Pending"}, {"conditions", json::array({unbound})}});
  const json state{{"waiting", {{"reason", "ImagePullBackOff"}}}};
  add_pod(server, "pulls", "nvidia.com/gpu",
          {{"phase", "Pending"}, {"containerStatuses", json::array({json{{"state", state}}})}});
  EXPECT_EQ(
      lines(server),
      (Lines{"node a: 4 of 4 nvidia.com/gpu are healthy",
             "! node b: 6 of 7 nvidia.com/mig-1g.5gb are healthy; `kubectl get events` and the "
             "plugin's log say which fault they have",
             "! node b is not ready", "! node a: 2 devices of gpu.nvidia.com, 1 with taints",
             "! pod default/pulls is Pending: ImagePullBackOff",
             "! pod default/waits is Pending: 0/2 nodes are available"}));
}

}  // namespace
}  // namespace gpemu::tools
