// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "process_view.hpp"
#include "socket_diagnosis.hpp"

namespace gpemu::skip {

/// This host's kernel. Thread safety: none.
class RealProcessView final : public ProcessView {
 public:
  [[nodiscard]] FileDescriptor open(const std::string& path) override;
  [[nodiscard]] std::string_view read(const FileDescriptor& file, std::span<char> buffer) override;
  [[nodiscard]] std::string text_of(const std::string& path) override;
  [[nodiscard]] std::string link_text(const std::string& path) override;
  [[nodiscard]] bool is_there(const std::string& path) override;
  [[nodiscard]] bool read_memory(pid_t process, std::uint64_t address,
                                 std::span<std::byte> to) override;
  [[nodiscard]] std::map<std::uint64_t, UnixSocket> unix_sockets() override {
    return diagnosis_.unix_sockets();
  }
  [[nodiscard]] std::vector<TcpRecord> tcp_sockets() override { return diagnosis_.tcp_sockets(); }
  [[nodiscard]] std::optional<TcpRecord> tcp_socket(const TcpName& name) override {
    return diagnosis_.tcp_socket(name);
  }

 private:
  bool visit_numbers(const std::string& folder, const std::function<void(int)>& look) override;

  SocketDiagnosis diagnosis_;
};

}  // namespace gpemu::skip
