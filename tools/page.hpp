// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host_facts.hpp"

namespace gpemu::tools {

/// A self-contained HTML page of results: no script, nothing fetched. Same input, same text.
class Page {
 public:
  using Rows = std::vector<std::vector<std::string>>;

  explicit Page(std::string title) : title_(std::move(title)) {}

  void heading(std::string_view text);
  void paragraph(std::string_view text);
  /// The sentence to take away.
  void verdict(std::string_view text);
  /// A table; all columns but the first are aligned to the right.
  void table(const std::vector<std::string>& header, const Rows& rows);
  /// A table of names and values without a header.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  /// A plot, as SVG text.
  void plot(std::string_view svg);

  [[nodiscard]] std::string html() const;

 private:
  std::string title_;
  std::string body_;
};

/// Adds what is known about the host, under a heading.
void add_host(Page& page, const HostFacts& host);

}  // namespace gpemu::tools
