// SPDX-License-Identifier: Apache-2.0
#include "kubernetes/fake_api_server.hpp"

#include <arpa/inet.h>
#include <cstdlib>
#include <netinet/in.h>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

namespace gpemu::tools {
namespace {

using nlohmann::json;

json status_of(int code, const std::string& message) {
  return {{"kind", "Status"}, {"code", code}, {"message", message}};
}

std::pair<int, json> failed(int code, const std::string& message) {
  return {code, status_of(code, message)};
}

std::string decoded(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      result += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string member(const json& object, std::string path) {
  for (char& c : path) c = c == '.' ? '/' : c;
  const json::json_pointer pointer("/" + path);
  if (!object.contains(pointer) || !object.at(pointer).is_string()) return "";
  return object.at(pointer).get<std::string>();
}

/// Returns whether an object is what a field selector asks for.
bool is_selected(const json& object, const std::string& selector) {
  if (selector.empty()) return true;
  const std::size_t differs = selector.find("!=");
  if (differs != std::string::npos) {
    return member(object, selector.substr(0, differs)) != selector.substr(differs + 2);
  }
  const std::size_t equal = selector.find('=');
  return member(object, selector.substr(0, equal)) == selector.substr(equal + 1);
}

/// Returns whether an object has the label KEY=VALUE of a selector.
bool has_label(const json& object, const std::string& selector) {
  if (selector.empty()) return true;
  const std::size_t equal = selector.find('=');
  const json labels = object.value(json::json_pointer("/metadata/labels"), json::object());
  return labels.value(selector.substr(0, equal), "") == selector.substr(equal + 1);
}

bool send_all(int socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

/// What a request's address means.
struct FakeApiServer::Place {
  std::string resource, name_space, name, sub;
  std::map<std::string, std::string> query;

  [[nodiscard]] std::string key() const { return resource + "/" + name_space + "/" + name; }
  [[nodiscard]] bool has(const std::string& other) const {
    return other.starts_with(resource + "/" + (name_space.empty() ? "" : name_space + "/"));
  }
  [[nodiscard]] std::string option(const std::string& key) const {
    const auto found = query.find(key);
    return found == query.end() ? "" : found->second;
  }

  [[nodiscard]] bool selects(const json& object) const {
    return is_selected(object, option("fieldSelector")) &&
           has_label(object, option("labelSelector"));
  }

  static Place of(const std::string& target) {
    Place place;
    const std::size_t question = target.find('?');
    std::vector<std::string> words;
    std::string path = target.substr(0, question);
    for (std::size_t begin = 1; begin <= path.size();) {
      const std::size_t end = std::min(path.find('/', begin), path.size());
      words.push_back(path.substr(begin, end - begin));
      begin = end + 1;
    }
    std::size_t next = words.at(0) == "api" ? 2 : 3;
    if (next + 1 < words.size() && words[next] == "namespaces") {
      place.name_space = words[next + 1];
      next += 2;
    }
    const auto word = [&] { return next < words.size() ? words[next++] : ""; };
    place.resource = word();
    place.name = word();
    place.sub = word();
    std::string rest = question == std::string::npos ? "" : target.substr(question + 1) + "&";
    for (std::size_t end = 0; (end = rest.find('&')) != std::string::npos; rest.erase(0, end + 1)) {
      const std::string pair = rest.substr(0, end);
      const std::size_t equal = pair.find('=');
      if (equal != std::string::npos) {
        place.query[pair.substr(0, equal)] = decoded(pair.substr(equal + 1));
      }
    }
    return place;
  }
};

FakeApiServer::FakeApiServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
  ::listen(listener_, 128);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { serve(); });
}

FakeApiServer::~FakeApiServer() {
  stop_ = true;
  ::shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  for (const int socket : sockets_) ::close(socket);
  ::close(listener_);
}

ApiAccess FakeApiServer::access() const {
  ApiAccess access;
  access.server = fmt::format("http://127.0.0.1:{}", port_);
  return access;
}

std::string FakeApiServer::kubeconfig() const {
  const json cluster = {{"server", access().server}};
  return json({{"current-context", "c"},
               {"clusters", {{{"name", "c"}, {"cluster", cluster}}}},
               {"users", {{{"name", "u"}, {"user", {{"token", "t"}}}}}},
               {"contexts", {{{"name", "c"}, {"context", {{"cluster", "c"}, {"user", "u"}}}}}}})
      .dump();
}

void FakeApiServer::serve() {
  for (;;) {
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (stop_ || socket < 0) return;
    const std::lock_guard lock(mutex_);
    sockets_.push_back(socket);
    threads_.emplace_back([this, socket] { serve_connection(socket); });
  }
}

void FakeApiServer::serve_connection(int socket) {
  std::string text;
  std::array<char, 16384> buffer{};
  for (;;) {
    std::size_t end = 0;
    std::size_t length = 0;
    for (;;) {
      end = text.find("\r\n\r\n");
      if (end != std::string::npos) {
        const std::size_t field = text.find("Content-Length: ");
        length = field < end ? std::strtoul(text.c_str() + field + 16, nullptr, 10) : 0;
        if (text.size() >= end + 4 + length) break;
      }
      const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), 0);
      if (got <= 0) return;
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    const std::string head = text.substr(0, end);
    const json body = json::parse(text.substr(end + 4, length), nullptr, false);
    text.erase(0, end + 4 + length);
    const std::string method = head.substr(0, head.find(' '));
    const std::size_t begin = method.size() + 1;
    const std::string target = head.substr(begin, head.find(' ', begin) - begin);
    {
      const std::lock_guard lock(mutex_);
      last_headers_ = head;
    }
    const Place place = Place::of(target);
    if (method == "GET" && place.option("watch") == "1") return stream(socket, place);
    const auto [code, object] = answer(method, target, body);
    const std::string said = object.dump();
    if (!send_all(socket, fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n\r\n{}", code,
                                      said.size(), said))) {
      return;
    }
  }
}

void FakeApiServer::stream(int socket, const Place& place) {
  const auto chunk = [&](const json& event) {
    const std::string line = event.dump() + "\n";
    return send_all(socket, fmt::format("{:x}\r\n{}\r\n", line.size(), line));
  };
  if (!send_all(socket, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")) return;
  std::uint64_t since = std::strtoull(place.option("resourceVersion").c_str(), nullptr, 10);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    std::optional<json> next;
    if (since < forgotten_) {
      lock.unlock();
      chunk({{"type", "ERROR"}, {"object", status_of(410, "too old resource version")}});
      send_all(socket, "0\r\n\r\n");
      return;
    }
    for (const Change& change : changes_) {
      if (change.version <= since || !place.has(change.key)) continue;
      since = change.version;
      if (!place.selects(change.object)) continue;
      next = {{"type", change.type}, {"object", change.object}};
      break;
    }
    if (!next) {
      changed_.wait(lock);
      continue;
    }
    lock.unlock();
    if (!chunk(*next)) return;
    lock.lock();
  }
}

json& FakeApiServer::store(const std::string& key, const char* type, json object) {
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  changes_.push_back({.version = version_, .type = type, .key = key, .object = object});
  changed_.notify_all();
  return objects_[key] = std::move(object);
}

void FakeApiServer::erase(const std::string& key) {
  json object = objects_[key];
  object["metadata"]["resourceVersion"] = std::to_string(++version_);
  changes_.push_back({.version = version_, .type = "DELETED", .key = key, .object = object});
  objects_.erase(key);
  changed_.notify_all();
}

std::pair<int, json> FakeApiServer::list(const Place& place) {
  json items = json::array();
  for (const auto& [key, object] : objects_) {
    if (place.has(key) && place.selects(object)) items.push_back(object);
  }
  return {200, {{"metadata", {{"resourceVersion", std::to_string(version_)}}}, {"items", items}}};
}

std::pair<int, json> FakeApiServer::make(const Place& place, json body) {
  json& metadata = body["metadata"];
  if (!metadata.contains("name")) {
    metadata["name"] = metadata.value("generateName", "") + std::to_string(version_);
  }
  Place whole = place;
  whole.name = metadata["name"].get<std::string>();
  if (objects_.contains(whole.key())) return failed(409, whole.key() + " already exists");
  if (!place.name_space.empty()) metadata["namespace"] = place.name_space;
  metadata["uid"] = fmt::format("uid-{}", version_);
  if (!metadata.contains("creationTimestamp")) {
    metadata["creationTimestamp"] = "2026-01-01T00:00:00Z";
  }
  if (edit_) edit_(body);
  return {201, store(whole.key(), "ADDED", std::move(body))};
}

std::pair<int, json> FakeApiServer::bind(const Place& place, const json& body) {
  json pod = objects_[place.key()];
  if (!member(pod, "spec.nodeName").empty()) return failed(409, "pod is already assigned");
  pod["spec"]["nodeName"] = body["target"]["name"];
  const json annotations = body["metadata"].value("annotations", json::object());
  pod["metadata"]["annotations"].merge_patch(annotations);
  pod["status"]["conditions"] = json::array({{{"type", "PodScheduled"}, {"status", "True"}}});
  store(place.key(), "MODIFIED", pod);
  return {201, status_of(201, "")};
}

std::pair<int, json> FakeApiServer::change(const std::string& method, const Place& place,
                                           const json& body) {
  json object = objects_[place.key()];
  const std::string wanted = member(body, "metadata.resourceVersion");
  const std::string uid = member(body, "metadata.uid");
  if (!wanted.empty() && wanted != member(object, "metadata.resourceVersion")) {
    return failed(409, "the object has been modified");
  }
  if (!uid.empty() && uid != member(object, "metadata.uid")) return failed(409, "another uid");
  if (method == "PUT") {
    const std::string kept = member(object, "metadata.uid");
    object = body;
    object["metadata"]["uid"] = kept;
  } else {
    object.merge_patch(body);
  }
  if (edit_) edit_(object);
  return {200, store(place.key(), "MODIFIED", std::move(object))};
}

std::pair<int, json> FakeApiServer::remove(const Place& place, const json& body) {
  json object = objects_[place.key()];
  const bool has_kubelet = !member(object, "spec.nodeName").empty() && place.resource == "pods";
  const json options =
      body.is_object() && body.contains("deleteOptions") ? body["deleteOptions"] : json::object();
  int grace = object.value(json::json_pointer("/spec/terminationGracePeriodSeconds"), 30);
  grace = options.value("gracePeriodSeconds", grace);
  if (!place.option("gracePeriodSeconds").empty()) {
    grace = std::stoi(place.option("gracePeriodSeconds"));
  }
  if (has_kubelet && grace > 0) {
    object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
    object["metadata"]["deletionGracePeriodSeconds"] = grace;
    return {200, store(place.key(), "MODIFIED", std::move(object))};
  }
  erase(place.key());
  return {200, status_of(200, "")};
}

std::pair<int, json> FakeApiServer::remove_all(const Place& place) {
  std::vector<std::string> keys;
  for (const auto& [key, object] : objects_) {
    if (place.has(key) && place.selects(object)) keys.push_back(key);
  }
  for (const std::string& key : keys) erase(key);
  return {200, status_of(200, "")};
}

std::pair<int, json> FakeApiServer::answer(const std::string& method, const std::string& target,
                                           const json& body) {
  ++requests_;
  const Place place = Place::of(target);
  const std::lock_guard lock(mutex_);
  if (place.name.empty()) {
    if (method == "GET") return list(place);
    if (method == "POST") return make(place, body);
    if (method == "DELETE") return remove_all(place);
    return failed(405, "method not allowed");
  }
  if (!objects_.contains(place.key())) return failed(404, place.key() + " not found");
  if (method == "GET") return {200, objects_[place.key()]};
  if (method == "POST" && place.sub == "binding") return bind(place, body);
  if (method == "POST" && place.sub == "eviction") return remove(place, body);
  if (method == "PUT" || method == "PATCH") return change(method, place, body);
  if (method == "DELETE") return remove(place, body);
  return failed(405, "method not allowed");
}

std::vector<json> FakeApiServer::items(const std::string& path) {
  return answer("GET", path, {}).second["items"].get<std::vector<json>>();
}

std::optional<json> FakeApiServer::get(const std::string& path) {
  auto [code, object] = answer("GET", path, {});
  if (code != 200) return std::nullopt;
  return std::move(object);
}

void FakeApiServer::set(const std::string& path, json object) {
  const std::lock_guard lock(mutex_);
  const std::string key = Place::of(path).key();
  store(key, objects_.contains(key) ? "MODIFIED" : "ADDED", std::move(object));
}

void FakeApiServer::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  erase(Place::of(path).key());
}

void FakeApiServer::edit_what_is_made(std::function<void(json&)> edit) {
  const std::lock_guard lock(mutex_);
  edit_ = std::move(edit);
}

void FakeApiServer::forget_changes() {
  const std::lock_guard lock(mutex_);
  changes_.clear();
  forgotten_ = version_;
}

std::string FakeApiServer::last_headers() {
  const std::lock_guard lock(mutex_);
  return last_headers_;
}

}  // namespace gpemu::tools
