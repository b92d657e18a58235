// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <fcntl.h>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "process_view.hpp"

namespace gpemu::skip {

/// A kernel that says what a test has decided, and that changes when the test wants it to: before a
/// given read of a file.
class TestProcessView final : public ProcessView {
 public:
  /// By path. A file without a text does not exist.
  std::map<std::string, std::string, std::less<>> texts = {{"/proc/loadavg", ""}};
  std::map<std::string, std::string, std::less<>> links = {{"/proc/self/ns/pid", "pid"},
                                                           {"/proc/self/ns/time", "time"}};
  std::map<std::string, std::set<int>, std::less<>> folders;
  std::map<std::uint64_t, UnixSocket> unix_by_inode;
  std::vector<TcpRecord> tcp;

  // ---- Threads

  static std::string folder_of(pid_t process, pid_t thread) {
    return fmt::format("/proc/{}/task/{}/", process, thread);
  }
  /// Adds a thread that sleeps in `call`, and a process if it is its first thread.
  void start(pid_t process, pid_t thread, std::string_view call) {
    folders[fmt::format("/proc/{}/task", process)].insert(thread);
    texts[folder_of(process, thread) + "children"] = "";
    for (const char* const name : {"pid", "time"}) {
      links[fmt::format("/proc/{}/ns/{}", process, name)] = name;
    }
    texts["/proc/loadavg"] = fmt::format("0.00 0.01 0.05 1/612 {}\n", thread);
    says(process, thread, 'S', 1, call);
  }
  /// Decides what a thread's files say. `runs`: how often it got a processor.
  void says(pid_t process, pid_t thread, char state, int runs, std::string_view call) {
    const std::string folder = folder_of(process, thread);
    texts[folder + "stat"] = fmt::format("{} (a) b) {} 1\n", thread, state);
    texts[folder + "schedstat"] = fmt::format("1000 20 {}\n", runs);
    texts[folder + "syscall"] = call;
  }
  /// Removes a thread, as when it has ended and its parent knows it.
  void end(pid_t process, pid_t thread) {
    for (const char* const name : {"stat", "schedstat", "syscall", "children"}) {
      texts.erase(folder_of(process, thread) + name);
    }
    const auto found = folders.find(fmt::format("/proc/{}/task", process));
    found->second.erase(thread);
    if (found->second.empty()) folders.erase(found);
  }

  // ---- Descriptors

  void has_open(pid_t process, int descriptor, std::string_view link, std::string_view info = "") {
    folders[fmt::format("/proc/{}/fd", process)].insert(descriptor);
    links[fmt::format("/proc/{}/fd/{}", process, descriptor)] = link;
    texts[fmt::format("/proc/{}/fdinfo/{}", process, descriptor)] = info;
  }
  void closes(pid_t process, int descriptor) {
    folders[fmt::format("/proc/{}/fd", process)].erase(descriptor);
    links.erase(fmt::format("/proc/{}/fd/{}", process, descriptor));
    texts.erase(fmt::format("/proc/{}/fdinfo/{}", process, descriptor));
  }

  // ---- Order

  /// Lets `change` happen before the `count`-th read from now on of open files whose paths begin
  /// with `prefix`.
  void before_read(int count, std::string prefix, std::function<void()> change) {
    changes_.push_back({count, std::move(prefix), std::move(change)});
  }
  void forget_changes() { changes_.clear(); }

  // ---- What the kernel does

  [[nodiscard]] FileDescriptor open(const std::string& path) override {
    // The number of an open file stands for the path.
    FileDescriptor file(texts.contains(path) ? ::open("/dev/null", O_RDONLY | O_CLOEXEC) : -1);
    if (file.valid()) open_[file.get()] = path;
    return file;
  }
  [[nodiscard]] std::string_view read(const FileDescriptor& file, std::span<char> buffer) override {
    if (!file.valid()) return {};
    const std::string& path = open_.at(file.get());
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (path.starts_with(changes_[i].prefix) && --changes_[i].count == 0) changes_[i].make();
    }
    const std::string text = text_of(path);
    const std::size_t size = text.copy(buffer.data(), buffer.size());
    return {buffer.data(), size};
  }
  [[nodiscard]] std::string text_of(const std::string& path) override {
    const auto found = texts.find(path);
    return found == texts.end() ? std::string() : found->second;
  }
  [[nodiscard]] std::string link_text(const std::string& path) override {
    const auto found = links.find(path);
    return found == links.end() ? std::string() : found->second;
  }
  [[nodiscard]] bool is_there(const std::string& path) override { return texts.contains(path); }
  [[nodiscard]] bool read_memory(pid_t /*process*/, std::uint64_t /*address*/,
                                 std::span<std::byte> /*to*/) override {
    return false;
  }
  [[nodiscard]] std::map<std::uint64_t, UnixSocket> unix_sockets() override {
    return unix_by_inode;
  }
  [[nodiscard]] std::vector<TcpRecord> tcp_sockets() override { return tcp; }
  [[nodiscard]] std::optional<TcpRecord> tcp_socket(const TcpName& name) override {
    const auto found = std::ranges::find_if(tcp, [&name](const TcpRecord& record) {
      return record.name.family == name.family &&
             std::ranges::equal(record.name.id.idiag_cookie, name.id.idiag_cookie);
    });
    return found == tcp.end() ? std::nullopt : std::optional(*found);
  }

 private:
  struct Change {
    int count = 0;
    std::string prefix;
    std::function<void()> make;
  };

  bool visit_numbers(const std::string& folder, const std::function<void(int)>& look) override {
    const auto found = folders.find(folder);
    if (found == folders.end()) return false;
    for (const int number : found->second) look(number);
    return true;
  }

  std::map<int, std::string> open_;
  std::vector<Change> changes_;
};

}  // namespace gpemu::skip
