// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/api_server.hpp"

#include <atomic>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/base/temporary_folder.hpp"

#include "kubernetes/fake_api_server.hpp"
#include "kubernetes/watched_list.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr const char* kPodList = "/api/v1/namespaces/default/pods";

json pod_named(const std::string& name) {
  return {{"metadata", {{"name", name}}}, {"spec", json::object()}};
}

struct ApiServerTest : testing::Test {
  FakeApiServer server;
  ApiServer api = ApiServer::create(server.access()).value();
};

TEST_F(ApiServerTest, MakesChangesAndRemovesObjects) {
  const json made = api.create(kPodList, pod_named("p")).value();
  EXPECT_EQ(made["metadata"]["namespace"], "default");
  const std::string path = std::string(kPodList) + "/p";
  const json patched = api.patch(path, {{"metadata", {{"labels", {{"a", "1"}}}}}}).value();
  EXPECT_EQ(patched["metadata"]["labels"]["a"], "1");
  EXPECT_NE(server.last_headers().find("application/merge-patch+json"), std::string::npos);
  EXPECT_EQ(api.get(path).value(), patched);
  ASSERT_TRUE(api.remove(path));
  EXPECT_EQ(api.get(path).error().code, ErrorCode::kNotFound);
}

TEST_F(ApiServerTest, AReplacedObjectMustBeTheOneThatWasRead) {
  const json first = api.create(kPodList, pod_named("p")).value();
  const std::string path = std::string(kPodList) + "/p";
  ASSERT_TRUE(api.replace(path, first));
  const auto second = api.replace(path, first);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(second.error().message.find("the object has been modified (409)"), std::string::npos)
      << second.error().message;
}

TEST_F(ApiServerTest, SendsTheTokenOfAFile) {
  const TemporaryFolder folder =
      TemporaryFolder::create(std::filesystem::temp_directory_path(), "gpemu-api-").value();
  ApiAccess access = server.access();
  access.token_file = folder.path() / "token";
  ASSERT_TRUE(write_file_atomically(access.token_file, "secret\n"));
  ApiServer with_token = ApiServer::create(access).value();
  ASSERT_TRUE(with_token.get(kPodList));
  EXPECT_NE(server.last_headers().find("Authorization: Bearer secret\r"), std::string::npos);
}

TEST(ApiServerAccess, AServerThatIsNotReachedIsNamed) {
  ApiAccess access;
  access.server = "http://127.0.0.1:1";
  ApiServer api = ApiServer::create(access).value();
  const auto got = api.get(kPodList);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kIo);
  EXPECT_NE(got.error().message.find("the API server http://127.0.0.1:1: "), std::string::npos);
  access.server = "ftp://host";
  EXPECT_EQ(ApiServer::create(access).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ApiServerTest, WatchesFromAVersionOn) {
  ASSERT_TRUE(api.create(kPodList, pod_named("before")));
  const json list = api.get(kPodList).value();
  ASSERT_TRUE(api.create(kPodList, pod_named("after")));
  ASSERT_TRUE(api.remove(std::string(kPodList) + "/before"));
  std::vector<std::pair<std::string, std::string>> seen;
  std::atomic<bool> stop = false;
  ApiServer watching = ApiServer::create(server.access()).value();
  ASSERT_TRUE(watching.watch(kPodList, list["metadata"]["resourceVersion"].get<std::string>(), stop,
                             [&](std::string_view type, const json& object) {
                               seen.emplace_back(type, object["metadata"]["name"]);
                               stop = seen.size() == 2;
                             }));
  EXPECT_EQ(seen, (std::vector<std::pair<std::string, std::string>>{{"ADDED", "after"},
                                                                    {"DELETED", "before"}}));
}

TEST_F(ApiServerTest, AWatchFromAForgottenVersionIsNotReady) {
  ASSERT_TRUE(api.create(kPodList, pod_named("p")));
  server.forget_changes();
  const std::atomic<bool> stop = false;
  const auto watched = api.watch(kPodList, "1", stop, [](std::string_view, const json&) {});
  ASSERT_FALSE(watched);
  EXPECT_EQ(watched.error().code, ErrorCode::kNotReady);
}

/// Counts what a list that is followed tells.
struct Told : ListFollower {
  std::atomic<bool> stop = false;
  int lists = 0;
  std::vector<std::string> names;

  void listed(const std::vector<json>& items) override {
    ++lists;
    names.clear();
    for (const json& item : items) names.push_back(item["metadata"]["name"]);
    stop = lists == 2;
  }
  void changed(std::string_view type, const json& object) override {
    names.push_back(std::string(type) + " " + object["metadata"]["name"].get<std::string>());
  }
  void failed(const Error& error) override { ADD_FAILURE() << error.message; }
};

TEST_F(ApiServerTest, AFollowedListIsListedAnewIfChangesAreForgotten) {
  ASSERT_TRUE(api.create(kPodList, pod_named("p")));
  struct Forgetting : Told {
    FakeApiServer* server = nullptr;
    void listed(const std::vector<json>& items) override {
      Told::listed(items);
      if (lists != 1) return;
      server->answer("POST", kPodList, pod_named("q"));
      server->forget_changes();
    }
  } told;
  told.server = &server;
  follow_list(server.access(), kPodList, told.stop, told);
  EXPECT_EQ(told.names, (std::vector<std::string>{"p", "q"}));
}

/// A kubeconfig in YAML with these users' members.
std::string kubeconfig_with(const std::string& user) {
  return "current-context: c\n"
         "contexts: [{name: c, context: {cluster: k, user: u, namespace: mine}}]\n"
         "clusters: [{name: k, cluster: {server: 'https://host:6443', "
         "certificate-authority-data: QUJD}}]\n"
         "users: [{name: u, user: " +
         user + "}]\n";
}

Result<ApiAccess> access_of(const std::string& text) {
  const TemporaryFolder folder =
      TemporaryFolder::create(std::filesystem::temp_directory_path(), "gpemu-api-").value();
  const auto path = folder.path() / "config";
  EXPECT_TRUE(write_file_atomically(folder.path() / "key.pem", "KEY"));
  EXPECT_TRUE(write_file_atomically(path, text));
  return find_api_server(path);
}

TEST(Kubeconfig, ReadsDataAndFilesBesideIt) {
  const ApiAccess access =
      access_of(kubeconfig_with("{client-certificate-data: REVG, client-key: key.pem}")).value();
  EXPECT_EQ(access.server, "https://host:6443");
  EXPECT_EQ(access.authority, "ABC");
  EXPECT_EQ(access.certificate, "DEF");
  EXPECT_EQ(access.key, "KEY");
  EXPECT_EQ(access.name_space, "mine");
  EXPECT_FALSE(access.trusts_any);
}

TEST(Kubeconfig, ReadsJson) {
  const ApiAccess access = access_of(R"({"current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://h:1",
                                               "insecure-skip-tls-verify": true}}],
        "users": [{"name": "u", "user": {"token": "t"}}]})")
                               .value();
  EXPECT_EQ(access.token, "t");
  EXPECT_TRUE(access.trusts_any);
  EXPECT_EQ(access.name_space, "default");
}

TEST(Kubeconfig, SaysWhatIsWrong) {
  const auto wrong = [](const std::string& text) { return access_of(text).error().message; };
  EXPECT_NE(wrong("users: []\n").find("has no current-context"), std::string::npos);
  EXPECT_NE(wrong("current-context: d\n").find("contexts has no 'd'"), std::string::npos);
  EXPECT_NE(wrong("a: [\n").find("config:"), std::string::npos);
  EXPECT_NE(wrong("- a\n").find("no kubeconfig"), std::string::npos);
  EXPECT_NE(wrong(kubeconfig_with("{exec: {command: x}}")).find("credentials from a program"),
            std::string::npos);
  EXPECT_NE(wrong(kubeconfig_with("{client-certificate-data: '?'}"))
                .find("client-certificate-data is not in base64"),
            std::string::npos);
}

}  // namespace
}  // namespace gpemu::tools
