// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/api_server.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <curl/curl.h>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

namespace gpemu::tools {
namespace {

using nlohmann::json;

constexpr long kConnectMs = 5'000;
constexpr long kCallMs = 60'000;
constexpr Bytes kMostTokenBytes = kMiB;

/// The codes of HTTP that the API server answers with. Source: Kubernetes' API conventions.
constexpr long kConflict = 409, kGone = 410, kNoSuchObject = 404, kInvalid = 422, kBadRequest = 400,
               kUnauthorized = 401, kForbidden = 403, kFirstFailure = 300;

std::size_t append(char* data, std::size_t one, std::size_t count, void* text) {
  static_cast<std::string*>(text)->append(data, one * count);
  return one * count;
}

ErrorCode code_of(long status) {
  switch (status) {
    case kNoSuchObject:
      return ErrorCode::kNotFound;
    case kConflict:
      return ErrorCode::kUnavailable;
    case kGone:
      return ErrorCode::kNotReady;
    case kInvalid:
    case kBadRequest:
      return ErrorCode::kInvalidArgument;
    case kUnauthorized:
    case kForbidden:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kIo;
  }
}

/// Returns what a Status object of the API says, or the text itself.
std::string message_of(const std::string& body) {
  const json answer = json::parse(body, nullptr, false);
  if (answer.is_object() && answer.value("message", json()).is_string()) {
    return answer["message"].get<std::string>();
  }
  return body.substr(0, 200);
}

}  // namespace

struct ApiServer::Connection {
  ApiAccess access;
  CURL* handle = nullptr;
  std::array<char, CURL_ERROR_SIZE> said{};

  ~Connection() { curl_easy_cleanup(handle); }

  /// Sets what all requests have in common.
  Result<void> prepare(const char* method, const std::string& path) {
    curl_easy_reset(handle);
    said.front() = '\0';
    const auto set = [this](CURLoption option, auto value) {
      curl_easy_setopt(handle, option, value);
    };
    set(CURLOPT_URL, (access.server + path).c_str());
    set(CURLOPT_CUSTOMREQUEST, method);
    set(CURLOPT_ERRORBUFFER, said.data());
    set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_TCP_NODELAY, 1L);
    if (access.trusts_any) {
      set(CURLOPT_SSL_VERIFYPEER, 0L);
      set(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    set_pem(CURLOPT_CAINFO_BLOB, access.authority);
    set_pem(CURLOPT_SSLCERT_BLOB, access.certificate);
    set_pem(CURLOPT_SSLKEY_BLOB, access.key);
    std::string token = access.token;
    if (!access.token_file.empty()) {
      GPEMU_ASSIGN(token, read_file(access.token_file, kMostTokenBytes));
      while (token.ends_with('\n')) token.pop_back();
    }
    if (!token.empty()) {
      set(CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BEARER));
      set(CURLOPT_XOAUTH2_BEARER, token.c_str());
    }
    return {};
  }

  void set_pem(CURLoption option, std::string& text) {
    if (text.empty()) return;
    curl_blob blob{.data = text.data(), .len = text.size(), .flags = CURL_BLOB_NOCOPY};
    curl_easy_setopt(handle, option, &blob);
  }

  /// Returns the answer's status. Errors: kIo if the server is not reached.
  Result<long> perform(curl_slist* headers) {
    curl_easy_setopt(handle, CURLOPT_HTTPHEADER, headers);
    const CURLcode code = curl_easy_perform(handle);
    if (code != CURLE_OK) return unreached(code);
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  [[nodiscard]] std::unexpected<Error> unreached(CURLcode code) const {
    const std::string why = said.front() == '\0' ? curl_easy_strerror(code) : said.data();
    return fail(ErrorCode::kIo, "the API server {}: {}", access.server, why);
  }

  [[nodiscard]] std::unexpected<Error> refused(long status, const char* method,
                                               const std::string& path,
                                               const std::string& body) const {
    return fail(code_of(status), "the API server {}, {} {}: {} ({})", access.server, method, path,
                message_of(body), status);
  }
};

ApiServer::ApiServer(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
ApiServer::ApiServer(ApiServer&&) noexcept = default;
ApiServer& ApiServer::operator=(ApiServer&&) noexcept = default;
ApiServer::~ApiServer() = default;

Result<ApiServer> ApiServer::create(const ApiAccess& access) {
  if (!access.server.starts_with("https://") && !access.server.starts_with("http://")) {
    return fail(ErrorCode::kInvalidArgument,
                "'{}' is no address of an API server; expected https://HOST:PORT", access.server);
  }
  static const CURLcode kStarted = curl_global_init(CURL_GLOBAL_DEFAULT);
  auto connection = std::make_unique<Connection>();
  connection->access = access;
  while (connection->access.server.ends_with('/')) connection->access.server.pop_back();
  connection->handle = kStarted == CURLE_OK ? curl_easy_init() : nullptr;
  if (connection->handle == nullptr) return fail(ErrorCode::kInternal, "libcurl does not start");
  return ApiServer(std::move(connection));
}

Result<json> ApiServer::call(const char* method, const std::string& path, const json* body) {
  GPEMU_TRY(connection_->prepare(method, path));
  std::string answer;
  const std::string sent = body == nullptr ? "" : body->dump();
  curl_easy_setopt(connection_->handle, CURLOPT_WRITEFUNCTION, append);
  curl_easy_setopt(connection_->handle, CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(connection_->handle, CURLOPT_TIMEOUT_MS, kCallMs);
  curl_slist* headers = curl_slist_append(nullptr, "Accept: application/json");
  if (body != nullptr) {
    const bool is_patch = std::string_view(method) == "PATCH";
    headers = curl_slist_append(headers, is_patch ? "Content-Type: application/merge-patch+json"
                                                  : "Content-Type: application/json");
    // Without it, libcurl waits for leave to send a body.
    headers = curl_slist_append(headers, "Expect:");
    curl_easy_setopt(connection_->handle, CURLOPT_POSTFIELDSIZE, static_cast<long>(sent.size()));
    curl_easy_setopt(connection_->handle, CURLOPT_POSTFIELDS, sent.c_str());
  }
  const Result<long> status = connection_->perform(headers);
  curl_slist_free_all(headers);
  if (!status) return std::unexpected(status.error());
  if (*status >= kFirstFailure) return connection_->refused(*status, method, path, answer);
  json object = json::parse(answer, nullptr, false);
  if (!object.is_discarded()) return object;
  return fail(ErrorCode::kCorruptData, "the API server {}, {} {}: the answer is not JSON: {}",
              connection_->access.server, method, path, answer.substr(0, 200));
}

Result<json> ApiServer::get(const std::string& path) {
  return call("GET", path, nullptr);
}

Result<json> ApiServer::create(const std::string& path, const json& body) {
  return call("POST", path, &body);
}

Result<json> ApiServer::replace(const std::string& path, const json& body) {
  return call("PUT", path, &body);
}

Result<json> ApiServer::patch(const std::string& path, const json& body) {
  return call("PATCH", path, &body);
}

Result<void> ApiServer::remove(const std::string& path) {
  GPEMU_ASSIGN([[maybe_unused]] const json answer, call("DELETE", path, nullptr));
  return {};
}

namespace {

/// The lines of a watch's answer, as they come.
struct Events {
  CURL* handle;
  const std::function<void(std::string_view, const json&)>& on_event;
  const std::atomic<bool>& stop;
  std::string unread;
  std::optional<Error> error;  ///< that the server sent in place of an event.

  void take(std::string_view data) {
    unread += data;
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    if (status >= kFirstFailure) return;
    std::size_t begin = 0;
    for (std::size_t end = 0; !error && (end = unread.find('\n', begin)) != std::string::npos;) {
      take_line(std::string_view(unread).substr(begin, end - begin));
      begin = end + 1;
    }
    unread.erase(0, begin);
  }

 private:
  void take_line(std::string_view line) {
    const json event = json::parse(line, nullptr, false);
    if (!event.is_object() || !event.contains("object")) return;  // A list's or a status' line.
    const std::string type = event.value("type", "");
    const json& object = event["object"];
    if (type != "ERROR") return on_event(type, object);
    error = Error{.code = code_of(object.value("code", 0L)),
                  .message = "a watch: " + object.value("message", "")};
  }
};

std::size_t take_events(char* data, std::size_t one, std::size_t count, void* events) {
  auto& taker = *static_cast<Events*>(events);
  taker.take({data, one * count});
  return taker.error ? 0 : one * count;
}

int is_stopped(void* events, curl_off_t /*to_get*/, curl_off_t /*got*/, curl_off_t /*to_send*/,
               curl_off_t /*sent*/) {
  return static_cast<Events*>(events)->stop ? 1 : 0;
}

}  // namespace

Result<void> ApiServer::watch(
    const std::string& path, const std::string& since, const std::atomic<bool>& stop,
    const std::function<void(std::string_view type, const json& object)>& on_event) {
  const std::string whole = fmt::format("{}{}watch=1&allowWatchBookmarks=true&resourceVersion={}",
                                        path, path.contains('?') ? "&" : "?", since);
  GPEMU_TRY(connection_->prepare("GET", whole));
  CURL* const handle = connection_->handle;
  Events events{.handle = handle, .on_event = on_event, .stop = stop, .unread = {}, .error = {}};
  curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, take_events);
  curl_easy_setopt(handle, CURLOPT_WRITEDATA, &events);
  // A server that vanished would else be waited for forever.
  curl_easy_setopt(handle, CURLOPT_TCP_KEEPALIVE, 1L);
  // libcurl asks once a second at least.
  curl_easy_setopt(handle, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(handle, CURLOPT_XFERINFOFUNCTION, is_stopped);
  curl_easy_setopt(handle, CURLOPT_XFERINFODATA, &events);
  const CURLcode code = curl_easy_perform(handle);
  if (events.error) return std::unexpected(*std::move(events.error));
  if (stop) return {};
  if (code != CURLE_OK) return connection_->unreached(code);
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  if (status >= kFirstFailure) return connection_->refused(status, "GET", whole, events.unread);
  return {};
}

}  // namespace gpemu::tools
