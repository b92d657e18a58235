// SPDX-License-Identifier: Apache-2.0
#include "matching.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace gpemu::scheduling {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Only links that are tight have less slack than the least positive number.
constexpr double kTight = std::numeric_limits<double>::denorm_min();
/// Labels that are so close, relative to each other, are the same.
/// Source: my_cmp() in simulator/matching.py of github.com/Rivendile/Muri.
constexpr double kSameLabel = 1e-5;

bool is_greater(double label, double change) {
  return label > change && label - change > kSameLabel * label;
}

/// Two numbers, with which every processor calculates at once.
using Two [[gnu::vector_size(2 * sizeof(double))]] = double;

Two two_of(const double* values) {
  Two two;
  std::memcpy(&two, values, sizeof(two));
  return two;
}

/// Returns the first place from `from` on where label + labels - doubled is less than the bound; if
/// there is none, `end`.
std::size_t first_below(double label, const double* labels, const double* doubled,
                        const double* bounds, std::size_t from, std::size_t end) {
  const auto below = [&](std::size_t at) {
    return label + two_of(labels + at) - two_of(doubled + at) < two_of(bounds + at);
  };
  std::size_t at = from;
  for (; at + 8 <= end; at += 8) {
    const auto some = below(at) | below(at + 2) | below(at + 4) | below(at + 6);
    if ((some[0] | some[1]) != 0) break;
  }
  while (at < end && !(label + labels[at] - doubled[at] < bounds[at])) ++at;
  return at;
}

}  // namespace

std::vector<std::optional<std::size_t>> HeaviestPairs::find(std::size_t count,
                                                            std::span<const double> weights) {
  prepare(count, weights);
  while (add_pair()) {
  }
  std::vector<std::optional<std::size_t>> partners(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Node partner = partner_[i + 1];
    if (partner != 0 && partner_[partner] == i + 1) partners[i] = partner - std::size_t{1};
  }
  return partners;
}

void HeaviestPairs::prepare(std::size_t count, std::span<const double> weights) {
  things_ = static_cast<Node>(count);
  nodes_ = things_;
  row_ = count + 1;
  width_ = count + count / 2 + 2;
  first_ring_link_ = row_ * width_;
  walks_ = 0;
  doubled_.assign(row_ * row_, 0);
  double heaviest = 0;
  for (std::size_t a = 0; a < count; ++a) {
    for (std::size_t b = 0; b < count; ++b) {
      const double weight = weights[a * count + b];
      if (a == b || !(weight > 0)) continue;
      doubled_[(a + 1) * row_ + b + 1] = weight * 2;
      heaviest = std::max(heaviest, weight);
    }
  }
  links_.assign((width_ - row_) * width_, {});
  members_.assign((width_ - row_) * row_, 0);
  rings_.resize(width_);
  labels_.assign(width_, 0);
  std::fill_n(labels_.begin(), row_, heaviest);
  partner_.assign(width_, 0);
  outer_.assign(width_, 0);
  for (Node thing = 1; thing <= things_; ++thing) outer_[thing] = thing;
  sides_.assign(width_, Side::kNone);
  parent_.assign(width_, 0);
  nearest_.assign(width_, 0);
  distance_.assign(width_, kInfinity);
  walked_.assign(width_, 0);
  bounds_.assign(row_, 0);
  ring_slack_.assign(width_, 0);
  is_loose_.assign(width_, false);
}

bool HeaviestPairs::add_pair() {
  start_trees();
  if (queue_.empty()) return false;
  for (;;) {
    if (grow_trees()) return true;
    if (!change_labels()) return false;
    if (use_new_links()) return true;
    open_rings();
  }
}

/// Each outermost node without a partner is the root of a tree.
void HeaviestPairs::start_trees() {
  std::ranges::fill(sides_, Side::kNone);
  std::ranges::fill(nearest_, Node{0});
  std::ranges::fill(distance_, kInfinity);
  queue_.clear();
  looked_at_ = 0;
  for (Node node = 1; node <= nodes_; ++node) {
    if (outer_[node] != node || partner_[node] != 0) continue;
    parent_[node] = 0;
    sides_[node] = Side::kEven;
    look_at(node);
  }
}

bool HeaviestPairs::grow_trees() {
  set_bounds();
  while (looked_at_ < queue_.size()) {
    const Node thing = queue_[looked_at_++];
    if (side_of(thing) != Side::kOdd && look_around(thing)) return true;
  }
  return false;
}

HeaviestPairs::Node HeaviestPairs::next_of_interest(Node thing, Node from) const {
  const double* const doubled = &doubled_[thing * row_];
  std::size_t at = from;
  do {
    at = first_below(labels_[thing], labels_.data(), doubled, bounds_.data(), at, row_);
  } while (at < row_ && doubled[at] == 0 && ++at != 0);
  return static_cast<Node>(at);
}

bool HeaviestPairs::look_around(Node thing) {
  for (Node other = next_of_interest(thing, 1); other <= things_;
       other = next_of_interest(thing, other + 1)) {
    const Node outer = outer_[other];
    if (outer == outer_[thing]) continue;
    const Link direct = link(thing, other);
    if (slack(direct) > 0) {
      if (consider(thing, outer)) set_bounds_of(outer, bound_of(outer));
    } else if (use(direct)) {
      return true;
    }
  }
  return false;
}

void HeaviestPairs::set_bounds() {
  for (Node thing = 1; thing <= things_; ++thing) bounds_[thing] = bound_of(outer_[thing]);
}

double HeaviestPairs::bound_of(Node node) const {
  if (sides_[node] == Side::kOdd) return -kInfinity;
  return is_loose_[node] ? kInfinity : std::max(distance_[node], kTight);
}

void HeaviestPairs::set_bounds_of(Node node, double bound) {
  if (!is_ring(node)) {
    bounds_[node] = bound;
    return;
  }
  for (const Node member : rings_[node]) set_bounds_of(member, bound);
}

double HeaviestPairs::label_change() const {
  double change = kInfinity;
  for (Node ring = things_ + 1; ring <= nodes_; ++ring) {
    if (outer_[ring] == ring && sides_[ring] == Side::kOdd)
      change = std::min(change, labels_[ring] / 2);
  }
  for (Node node = 1; node <= nodes_; ++node) {
    if (outer_[node] != node || nearest_[node] == 0) continue;
    if (sides_[node] == Side::kNone) change = std::min(change, distance_[node]);
    if (sides_[node] == Side::kEven) change = std::min(change, distance_[node] / 2);
  }
  return change;
}

bool HeaviestPairs::change_labels() {
  const double change = label_change();
  for (Node thing = 1; thing <= things_; ++thing) {
    const Side side = side_of(thing);
    if (side == Side::kEven) {
      if (!is_greater(labels_[thing], change)) return false;
      labels_[thing] -= change;
    } else if (side == Side::kOdd) {
      labels_[thing] += change;
    }
  }
  for (Node ring = things_ + 1; ring <= nodes_; ++ring) {
    if (outer_[ring] != ring) continue;
    if (sides_[ring] == Side::kEven) labels_[ring] += change * 2;
    if (sides_[ring] == Side::kOdd) labels_[ring] -= change * 2;
  }
  for (Node node = 1; node <= nodes_; ++node) {
    if (nearest_[node] != 0) distance_[node] = slack(link(nearest_[node], node));
  }
  return true;
}

bool HeaviestPairs::use_new_links() {
  queue_.clear();
  looked_at_ = 0;
  const Node last = nodes_;  // Rings that are closed here have no new links.
  for (Node node = 1; node <= last; ++node) {
    if (outer_[node] != node || nearest_[node] == 0) continue;
    if (outer_[nearest_[node]] == node || distance_[node] > 0) continue;
    if (use(link(nearest_[node], node))) return true;
  }
  return false;
}

void HeaviestPairs::open_rings() {
  for (Node ring = things_ + 1; ring <= nodes_; ++ring) {
    if (outer_[ring] == ring && sides_[ring] == Side::kOdd && !(labels_[ring] > 0)) open_ring(ring);
  }
}

/// Returns whether the link, which is tight, added a pair.
bool HeaviestPairs::use(const Link& link) {
  const Node from = outer_[link.from];
  const Node to = outer_[link.to];
  if (sides_[to] == Side::kNone) {
    parent_[to] = link.from;
    sides_[to] = Side::kOdd;
    const Node next = outer_[partner_[to]];
    forget_nearest(to);
    forget_nearest(next);
    sides_[next] = Side::kEven;
    set_bounds_of(to, bound_of(to));
    set_bounds_of(next, bound_of(next));
    look_at(next);
  } else if (sides_[to] == Side::kEven) {
    const Node root = common_root(from, to);
    if (root == 0) {
      exchange_pairs(from, to);
      exchange_pairs(to, from);
      return true;
    }
    close_ring(from, root, to);
  }
  return false;
}

/// Pairs the nodes, and exchanges the pairs on the way from `from` to the root of its tree.
void HeaviestPairs::exchange_pairs(Node from, Node to) {
  for (;;) {
    const Node before = outer_[partner_[from]];
    pair(from, to);
    if (before == 0) return;
    const Node next = outer_[parent_[before]];
    pair(before, next);
    from = next;
    to = before;
  }
}

void HeaviestPairs::pair(Node node, Node with) {
  const Link way = link(node, with);
  partner_[node] = way.to;
  if (!is_ring(node)) return;
  const Node member = member_with(node, way.from);
  const std::size_t steps = turn_to(node, member);
  Nodes& ring = rings_[node];
  for (std::size_t i = 0; i < steps; ++i) pair(ring[i], ring[i ^ 1U]);
  pair(member, with);
  std::ranges::rotate(ring, ring.begin() + static_cast<std::ptrdiff_t>(steps));
}

std::size_t HeaviestPairs::turn_to(Node ring, Node member) {
  Nodes& nodes = rings_[ring];
  const auto place = static_cast<std::size_t>(std::ranges::find(nodes, member) - nodes.begin());
  if (place % 2 == 0) return place;
  std::reverse(nodes.begin() + 1, nodes.end());
  return nodes.size() - place;
}

/// Walks from both nodes towards the roots, in turns. Returns where the ways meet, or 0.
HeaviestPairs::Node HeaviestPairs::common_root(Node a, Node b) {
  ++walks_;
  for (; a != 0 || b != 0; std::swap(a, b)) {
    if (a == 0) continue;
    if (walked_[a] == walks_) return a;
    walked_[a] = walks_;
    a = outer_[partner_[a]];
    if (a != 0) a = outer_[parent_[a]];
  }
  return 0;
}

void HeaviestPairs::close_ring(Node a, Node root, Node b) {
  const Node ring = new_ring(root);
  add_to_ring(ring, a, root);
  std::reverse(rings_[ring].begin() + 1, rings_[ring].end());
  add_to_ring(ring, b, root);
  set_outer(ring, ring);
  link_ring(ring);
  find_nearest(ring);
  set_bounds_of(ring, bound_of(ring));
}

HeaviestPairs::Node HeaviestPairs::new_ring(Node root) {
  Node ring = things_ + 1;
  while (ring <= nodes_ && outer_[ring] != 0) ++ring;
  nodes_ = std::max(nodes_, ring);
  labels_[ring] = 0;
  sides_[ring] = Side::kEven;
  partner_[ring] = partner_[root];
  rings_[ring].assign(1, root);
  return ring;
}

void HeaviestPairs::add_to_ring(Node ring, Node from, Node root) {
  for (Node node = from; node != root;) {
    const Node odd = outer_[partner_[node]];
    rings_[ring].push_back(node);
    rings_[ring].push_back(odd);
    look_at(odd);
    node = outer_[parent_[odd]];
  }
}

/// Gives the ring the best links of its members.
void HeaviestPairs::link_ring(Node ring) {
  for (Node node = 1; node <= nodes_; ++node) {
    ring_link(ring, node).exists = false;
    if (is_ring(node) && outer_[node] != 0) ring_link(node, ring).exists = false;
    ring_slack_[node] = kInfinity;
  }
  std::fill_n(&member_with(ring, 0), row_, Node{0});
  for (const Node member : rings_[ring]) {
    if (!is_ring(member)) link_ring_by_thing(ring, member);
    for (Node node = is_ring(member) ? 1 : things_ + 1; node <= nodes_; ++node) {
      if (outer_[node] == 0) continue;
      const Link way = link(member, node);
      const double distance = slack(way);
      if (distance < ring_slack_[node]) set_ring_link(ring, node, way, distance);
    }
    note_members(ring, member);
  }
  is_loose_[ring] = false;
  for (Node thing = 1; thing <= things_; ++thing) {
    if (outer_[thing] != ring && !ring_link(ring, thing).exists) is_loose_[ring] = true;
  }
}

void HeaviestPairs::link_ring_by_thing(Node ring, Node member) {
  const double* const doubled = &doubled_[member * row_];
  const auto next = [&](std::size_t from) {
    return static_cast<Node>(
        first_below(labels_[member], labels_.data(), doubled, ring_slack_.data(), from, row_));
  };
  for (Node thing = next(1); thing <= things_; thing = next(thing + 1)) {
    const Link way = link(member, thing);
    set_ring_link(ring, thing, way, slack(way));
  }
}

/// Any other way is better than one that does not exist.
void HeaviestPairs::set_ring_link(Node ring, Node node, const Link& way, double distance) {
  ring_link(ring, node) = way;
  ring_slack_[node] = way.exists ? distance : kInfinity;
  if (is_ring(node)) ring_link(node, ring) = way.reversed();
}

void HeaviestPairs::note_members(Node ring, Node member) {
  if (!is_ring(member)) {
    member_with(ring, member) = member;
    return;
  }
  for (Node thing = 1; thing <= things_; ++thing) {
    if (member_with(member, thing) != 0) member_with(ring, thing) = member;
  }
}

/// Opens an odd ring whose label is 0: the members on the way through it stay in the tree.
void HeaviestPairs::open_ring(Node ring) {
  const Nodes& nodes = rings_[ring];
  for (const Node member : nodes) set_outer(member, member);
  const Node entry = member_with(ring, link(ring, parent_[ring]).from);
  const std::size_t steps = turn_to(ring, entry);
  for (std::size_t i = 0; i < steps; i += 2) {
    const Node odd = nodes[i];
    const Node even = nodes[i + 1];
    parent_[odd] = link(even, odd).from;
    sides_[odd] = Side::kOdd;
    sides_[even] = Side::kEven;
    forget_nearest(odd);
    find_nearest(even);
    look_at(even);
  }
  sides_[entry] = Side::kOdd;
  parent_[entry] = parent_[ring];
  for (std::size_t i = steps + 1; i < nodes.size(); ++i) {
    sides_[nodes[i]] = Side::kNone;
    find_nearest(nodes[i]);
  }
  outer_[ring] = 0;
}

/// Queues the things of the node, those of rings after the others.
void HeaviestPairs::look_at(Node node) {
  if (!is_ring(node)) return queue_.push_back(node);
  Nodes nodes = rings_[node];
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_ring(nodes[i])) {
      const Nodes& inner = rings_[nodes[i]];
      nodes.insert(nodes.end(), inner.begin(), inner.end());
    } else {
      queue_.push_back(nodes[i]);
    }
  }
}

void HeaviestPairs::set_outer(Node node, Node outer) {
  outer_[node] = outer;
  if (!is_ring(node)) return;
  for (const Node member : rings_[node]) set_outer(member, outer);
}

bool HeaviestPairs::consider(Node thing, Node node) {
  const double distance = slack(link(thing, node));
  if (nearest_[node] != 0 && !(distance < distance_[node])) return false;
  nearest_[node] = thing;
  distance_[node] = distance;
  return true;
}

void HeaviestPairs::find_nearest(Node node) {
  forget_nearest(node);
  for (Node thing = 1; thing <= things_; ++thing) {
    if (outer_[thing] == node || side_of(thing) != Side::kEven) continue;
    if (link(thing, node).exists) (void)consider(thing, node);
  }
}

void HeaviestPairs::forget_nearest(Node node) {
  nearest_[node] = 0;
  distance_[node] = kInfinity;
}

}  // namespace gpemu::scheduling
