// SPDX-License-Identifier: Apache-2.0
#include "page.hpp"

#include <fmt/format.h>

namespace gpemu::tools {
namespace {

constexpr std::string_view kStyle = R"(
  body { font: 15px/1.5 sans-serif; color: #1f2328; max-width: 800px; margin: 2em auto;
         padding: 0 1em; }
  h1 { font-size: 1.5em; margin-bottom: 0.3em; }
  h2 { font-size: 1.15em; margin: 1.8em 0 0.5em; border-bottom: 1px solid #d0d7de; }
  .verdict { background: #f3f6fa; border-left: 4px solid #0072b2; padding: 0.6em 1em; }
  table { border-collapse: collapse; margin: 0.6em 0; }
  th, td { padding: 0.2em 1.2em 0.2em 0; text-align: left; vertical-align: top; }
  table.numbers th + th, table.numbers td + td { text-align: right; }
  table.numbers td { font-variant-numeric: tabular-nums; border-top: 1px solid #e5e8eb; }
  table.facts td:first-child { color: #57606a; white-space: nowrap; }
  table.facts td + td { overflow-wrap: anywhere; }
  svg { max-width: 100%; height: auto; display: block; margin: 0.8em 0; }
)";

std::string escaped(std::string_view text) {
  std::string result;
  for (const char character : text) {
    switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += character;
    }
  }
  return result;
}

}  // namespace

void Page::heading(std::string_view text) {
  body_ += fmt::format("<h2>{}</h2>\n", escaped(text));
}

void Page::paragraph(std::string_view text) {
  body_ += fmt::format("<p>{}</p>\n", escaped(text));
}

void Page::verdict(std::string_view text) {
  body_ += fmt::format("<p class=\"verdict\">{}</p>\n", escaped(text));
}

void Page::table(const std::vector<std::string>& header, const Rows& rows) {
  body_ += "<table class=\"numbers\">\n<tr>";
  for (const std::string& cell : header) body_ += fmt::format("<th>{}</th>", escaped(cell));
  body_ += "</tr>\n";
  for (const auto& row : rows) {
    body_ += "<tr>";
    for (const std::string& cell : row) body_ += fmt::format("<td>{}</td>", escaped(cell));
    body_ += "</tr>\n";
  }
  body_ += "</table>\n";
}

void Page::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<table class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    body_ += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(name), escaped(value));
  }
  body_ += "</table>\n";
}

void Page::plot(std::string_view svg) {
  body_ += svg;
  body_ += '\n';
}

std::string Page::html() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n"
      "</html>\n",
      escaped(title_), kStyle, body_);
}

void add_host(Page& page, const HostFacts& host) {
  page.heading("Host");
  page.facts({{"processor", host.cpu.empty() ? "unknown" : host.cpu},
              {"cores usable", std::to_string(host.cores)},
              {"memory", fmt::format("{:.1f} GiB", to_mib(host.memory) / 1024)},
              {"kernel", host.kernel},
              {"load average", fmt::format("{:.2f}", host.load_average)}});
}

}  // namespace gpemu::tools
