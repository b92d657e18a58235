// SPDX-License-Identifier: Apache-2.0
#include "matching.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace gpemu::scheduling {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Only links that are tight have less slack than the least positive number.
constexpr double kTight = std::numeric_limits<double>::denorm_min();
/// Labels that are so close, relative to each other, are the same.
/// Source: my_cmp() in simulator/matching.py of github.com/Rivendile/Muri.
constexpr double kSameLabel = 1e-5;

bool is_greater(double label, double change) {
  return (label > change) & (label - change > kSameLabel * label);
}

/// Two numbers, with which every processor calculates at once.
using Two [[gnu::vector_size(2 * sizeof(double))]] = double;

/// How many things are looked at together.
constexpr std::size_t kBlock = 8;

Two two_of(const double* values) {
  Two two;
  std::memcpy(&two, values, sizeof(two));
  return two;
}

void write(double* values, const Two& two) {
  std::memcpy(values, &two, sizeof(two));
}

Two both(double value) {
  return Two{value, value};
}

/// Returns whether some number of a block is less than its bound.
bool some_below(const Two* twos, const double* bounds) {
  const auto some = ((twos[0] < two_of(bounds)) | (twos[1] < two_of(bounds + 2))) |
                    ((twos[2] < two_of(bounds + 4)) | (twos[3] < two_of(bounds + 6)));
  return (some[0] | some[1]) != 0;
}

}  // namespace

std::vector<std::optional<std::size_t>> HeaviestPairs::find(std::span<const std::size_t> kinds,
                                                            std::span<const double> weights) {
  const std::size_t count = kinds.size();
  prepare(kinds, weights);
  while (add_pair()) {
  }
  std::vector<std::optional<std::size_t>> partners(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Node partner = partner_[i + 1];
    if (partner != 0 && partner_[partner] == i + 1) partners[i] = partner - std::size_t{1};
  }
  return partners;
}

void HeaviestPairs::prepare(std::span<const std::size_t> kinds, std::span<const double> weights) {
  const std::size_t count = kinds.size();
  things_ = static_cast<Node>(count);
  nodes_ = things_;
  row_ = (count + kBlock) / kBlock * kBlock;
  width_ = std::max(row_, count + count / 2 + 2);
  first_ring_link_ = (count + 1) * width_;
  walks_ = 0;
  const double heaviest = set_weights(kinds, weights);
  links_.assign((width_ - count - 1) * width_, {});
  members_.assign((width_ - count - 1) * row_, 0);
  rings_.resize(width_);
  inside_.resize(width_);
  labels_.assign(width_, 0);
  std::fill_n(labels_.begin(), count + 1, heaviest);
  partner_.assign(width_, 0);
  outer_.assign(width_, 0);
  for (Node thing = 1; thing <= things_; ++thing) outer_[thing] = thing;
  outermost_.clear();
  sides_.assign(width_, Side::kNone);
  parent_.assign(width_, 0);
  nearest_.assign(width_, 0);
  distance_.assign(width_, kInfinity);
  walked_.assign(width_, 0);
  bounds_.assign(row_, -kInfinity);
  urgent_.assign(row_, -kInfinity);
  block_has_rings_.assign(row_ / kBlock, 0);
  signs_.assign(row_, 0);
  ring_slack_.assign(width_, 0);
  ring_from_.assign(row_, 0);
  is_loose_.assign(width_, false);
}

/// Returns the greatest weight.
double HeaviestPairs::set_weights(std::span<const std::size_t> kinds,
                                  std::span<const double> weights) {
  const std::size_t of_nothing = kinds.empty() ? 0 : std::ranges::max(kinds) + 1;
  kinds_.assign(kinds.size() + 1, of_nothing);
  std::ranges::copy(kinds, kinds_.begin() + 1);
  doubled_.assign((of_nothing + 1) * row_, -kInfinity);
  flipped_.assign((of_nothing + 1) * row_, -kInfinity);
  double heaviest = 0;
  std::vector<bool> is_set(of_nothing);
  for (Node thing = 1; thing <= things_; ++thing) {
    const std::size_t kind = kinds_[thing];
    for (std::size_t other = 0; other < of_nothing; ++other) {
      const double to = weights[other * of_nothing + kind];
      const double back = weights[kind * of_nothing + other];
      if (to > 0) doubled_[other * row_ + thing] = to * 2;
      if (back > 0) flipped_[other * row_ + thing] = back * 2;
      if (is_set[other]) heaviest = std::max({heaviest, to, back});
    }
    is_set[kind] = true;
  }
  alike_.assign(of_nothing, 0);
  linked_.assign(of_nothing, 0);
  return heaviest;
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
  std::ranges::fill(signs_, 0);
  std::ranges::fill(nearest_, 0);
  std::ranges::fill(distance_, kInfinity);
  queue_.clear();
  looked_at_ = 0;
  for (Node node = 1; node <= nodes_; ++node) {
    if (outer_[node] != node || partner_[node] != 0) continue;
    parent_[node] = 0;
    set_side(node, Side::kEven);
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

/// Most links of interest are to things outside of rings, and not tight: those are remembered as
/// the nearest ones several at once. If a thing of the same kind with the same label was looked
/// around and nothing was used since, only links to that thing and to rings are of interest.
bool HeaviestPairs::look_around(Node thing) {
  const std::size_t kind = kinds_[thing];
  const Node alike = labels_[alike_[kind]] == labels_[thing] ? alike_[kind] : 0;
  begin_to_look(thing);
  const std::uint32_t uses = uses_;
  for (std::size_t at = 0; at < row_; at += kBlock) {
    const bool is_known = alike != 0 && uses == uses_ && at / kBlock != alike / kBlock;
    if (is_known && block_has_rings_[at / kBlock] == 0) continue;
    if (remember(thing, at)) continue;
    for (std::size_t i = at; i < at + kBlock; ++i) {
      if (look_at_link(thing, static_cast<Node>(i))) return true;
    }
  }
  set_bounds_of(outer_[thing], bound_of(outer_[thing]));
  if (uses == uses_ && outer_[thing] == thing) alike_[kind] = thing;
  return false;
}

/// Links inside of the outermost node are not of interest.
void HeaviestPairs::begin_to_look(Node thing) {
  set_bounds_of(outer_[thing], -kInfinity);
  considered_ = 0;
}

/// Returns false, and does nothing, if a link needs more than to be remembered.
bool HeaviestPairs::remember(Node thing, std::size_t block) {
  const Two label = both(labels_[thing]);
  const double* const doubled = doubled_of(thing) + block;
  const double* const labels = &labels_[block];
  const double* const urgent = &urgent_[block];
  double* const bounds = &bounds_[block];
  const auto slack = [&](std::size_t i) {
    return label + two_of(labels + i) - two_of(doubled + i);
  };
  const Two slacks[] = {slack(0), slack(2), slack(4), slack(6)};
  if (some_below(slacks, urgent)) return false;
  if (!some_below(slacks, bounds)) return true;
  double* const distances = &distance_[block];
  double* const nearest = &nearest_[block];
  for (std::size_t i = 0; i < kBlock; i += 2) {
    const Two distance = slacks[i / 2];
    const auto closer = distance < two_of(bounds + i);
    write(bounds + i, closer ? distance : two_of(bounds + i));
    write(distances + i, closer ? distance : two_of(distances + i));
    write(nearest + i, closer ? both(thing) : two_of(nearest + i));
  }
  return true;
}

bool HeaviestPairs::look_at_link(Node thing, Node other) {
  const double distance = labels_[thing] + labels_[other] - doubled_of(thing)[other];
  if (distance < bounds_[other] && distance > 0) {
    nearest_[other] = thing;
    distance_[other] = bounds_[other] = distance;
  } else if (distance < urgent_[other]) {
    const Node outer = outer_[other];
    if (!(distance > 0)) {
      if (use(link(thing, other))) return true;
      begin_to_look(thing);
    } else if (outer != considered_) {
      considered_ = outer;
      if (consider(thing, outer)) set_bounds_of(outer, bound_of(outer));
    }
  }
  return false;
}

void HeaviestPairs::forget_alike() {
  ++uses_;
  std::ranges::fill(alike_, Node{0});
}

void HeaviestPairs::set_bounds() {
  std::ranges::fill(block_has_rings_, 0);
  for (const Node node : outermost()) set_bounds_of(node, bound_of(node));
  forget_alike();
}

double HeaviestPairs::bound_of(Node node) const {
  if (sides_[node] == Side::kOdd) return -kInfinity;
  return is_loose_[node] ? kInfinity : std::max(distance_[node], kTight);
}

void HeaviestPairs::set_bounds_of(Node node, double bound) {
  if (!is_ring(node)) {
    bounds_[node] = bound;
    urgent_[node] = std::min(bound, kTight);
    return;
  }
  for (const Node inner : inside_[node]) {
    if (is_ring(inner)) continue;
    bounds_[inner] = -kInfinity;
    urgent_[inner] = bound;
    block_has_rings_[inner / kBlock] = 1;
  }
}

void HeaviestPairs::set_side(Node node, Side side) {
  sides_[node] = side;
  const double sign = side == Side::kEven ? -1 : side == Side::kOdd ? 1 : 0;
  if (!is_ring(node)) {
    signs_[node] = sign;
    return;
  }
  for (const Node inner : inside_[node]) {
    if (!is_ring(inner)) signs_[inner] = sign;
  }
}

double HeaviestPairs::label_change() {
  double change = kInfinity;
  for (const Node node : outermost()) {
    if (is_ring(node) && sides_[node] == Side::kOdd) change = std::min(change, labels_[node] / 2);
    if (nearest_[node] == 0) continue;
    if (sides_[node] == Side::kNone) change = std::min(change, distance_[node]);
    if (sides_[node] == Side::kEven) change = std::min(change, distance_[node] / 2);
  }
  return change;
}

bool HeaviestPairs::change_labels() {
  const double change = label_change();
  int is_over = 0;  // Without a branch in the loop.
  for (std::size_t thing = 1; thing < row_; ++thing) {
    is_over |=
        static_cast<int>(signs_[thing] < 0) & static_cast<int>(!is_greater(labels_[thing], change));
  }
  if (is_over != 0) return false;
  for (std::size_t thing = 1; thing < row_; ++thing) labels_[thing] += signs_[thing] * change;
  for (const Node node : outermost()) {
    if (nearest_[node] != 0) distance_[node] = slack(nearest_link(node));
    if (!is_ring(node)) continue;
    if (sides_[node] == Side::kEven) labels_[node] += change * 2;
    if (sides_[node] == Side::kOdd) labels_[node] -= change * 2;
  }
  return true;
}

bool HeaviestPairs::use_new_links() {
  queue_.clear();
  looked_at_ = 0;
  const Node last = nodes_;  // Rings that are closed here have no new links.
  const auto use_new_link = [&](Node node) {
    if (outer_[node] != node || nearest_[node] == 0) return false;
    if (outer_[static_cast<Node>(nearest_[node])] == node || distance_[node] > 0) return false;
    return use(nearest_link(node));
  };
  looked_through_ = outermost();
  for (const Node node : looked_through_) {
    if (!is_ring(node) && use_new_link(node)) return true;
  }
  for (Node ring = things_ + 1; ring <= last; ++ring) {
    if (use_new_link(ring)) return true;
  }
  return false;
}

const HeaviestPairs::Nodes& HeaviestPairs::outermost() {
  if (!outermost_.empty()) return outermost_;
  for (Node node = 1; node <= nodes_; ++node) {
    if (outer_[node] == node) outermost_.push_back(node);
  }
  return outermost_;
}

void HeaviestPairs::open_rings() {
  for (Node ring = things_ + 1; ring <= nodes_; ++ring) {
    if (outer_[ring] == ring && sides_[ring] == Side::kOdd && !(labels_[ring] > 0)) open_ring(ring);
  }
}

/// Returns whether the link, which is tight, added a pair.
bool HeaviestPairs::use(const Link& link) {
  forget_alike();
  const Node from = outer_[link.from];
  const Node to = outer_[link.to];
  if (sides_[to] == Side::kNone) {
    parent_[to] = link.from;
    set_side(to, Side::kOdd);
    const Node next = outer_[partner_[to]];
    forget_nearest(to);
    forget_nearest(next);
    set_side(next, Side::kEven);
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
  note_inside(ring);
  set_outer(ring, ring);
  set_side(ring, Side::kEven);
  link_ring(ring);
  find_nearest(ring);
  set_bounds_of(ring, bound_of(ring));
}

HeaviestPairs::Node HeaviestPairs::new_ring(Node root) {
  Node ring = things_ + 1;
  while (ring <= nodes_ && outer_[ring] != 0) ++ring;
  nodes_ = std::max(nodes_, ring);
  labels_[ring] = 0;
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
  std::ranges::fill(ring_from_, 0);
  std::ranges::fill(linked_, Node{0});
  std::ranges::fill(ring_slack_, kInfinity);
  Nodes others;
  for (Node node = things_ + 1; node <= nodes_; ++node) {
    if (outer_[node] == 0 || node == ring) continue;
    others.push_back(node);
    ring_link(ring, node).exists = false;
    ring_link(node, ring).exists = false;
  }
  for (const Node member : rings_[ring]) {
    if (is_ring(member)) {
      link_ring_by_ring(member);
    } else {
      link_ring_by_thing(member);
    }
    for (const Node other : others) link_rings(ring, other, link(member, other));
    note_members(ring, member);
  }
  is_loose_[ring] = false;
  for (Node thing = 1; thing <= things_; ++thing) {
    const auto from = static_cast<std::uint16_t>(ring_from_[thing]);
    const bool exists = doubled_of(from)[thing] > 0;
    ring_link(ring, thing) = {
        .from = from, .to = static_cast<std::uint16_t>(thing), .exists = exists};
    if (!exists && outer_[thing] != ring) is_loose_[ring] = true;
  }
}

void HeaviestPairs::link_ring_by_thing(Node member) {
  Node& alike = linked_[kinds_[member]];
  if (alike != 0 && labels_[alike] == labels_[member]) return;  // It has the same links.
  alike = member;
  const double label = labels_[member];
  const double number = member;
  const double* const doubled = doubled_of(member);
  const double* const labels = labels_.data();
  double* const slacks = ring_slack_.data();
  double* const from = ring_from_.data();
  for (std::size_t thing = 1; thing <= things_; ++thing) {
    const double slack = label + labels[thing] - std::max(doubled[thing], 0.0);
    const bool closer = slack < slacks[thing];
    slacks[thing] = closer ? (doubled[thing] > 0 ? slack : kInfinity) : slacks[thing];
    from[thing] = closer ? number : from[thing];
  }
}

void HeaviestPairs::link_ring_by_ring(Node member) {
  const Link* const links = &ring_link(member, 0);
  for (std::size_t thing = 1; thing <= things_; ++thing) {
    const Node from = links[thing].from;
    const double doubled = std::max(doubled_of(from)[thing], 0.0);
    const double slack = labels_[from] + labels_[thing] - doubled;
    const bool closer = slack < ring_slack_[thing];
    ring_slack_[thing] = closer ? (links[thing].exists ? slack : kInfinity) : ring_slack_[thing];
    ring_from_[thing] = closer ? static_cast<double>(from) : ring_from_[thing];
  }
}

void HeaviestPairs::link_rings(Node ring, Node node, const Link& way) {
  const double distance = way.exists ? slack(way) : labels_[way.from] + labels_[way.to];
  if (!(distance < ring_slack_[node])) return;
  ring_slack_[node] = way.exists ? distance : kInfinity;
  ring_link(ring, node) = way;
  ring_link(node, ring) = way.reversed();
}

void HeaviestPairs::note_members(Node ring, Node member) {
  if (!is_ring(member)) {
    member_with(ring, member) = member;
    return;
  }
  for (const Node inner : inside_[member]) {
    if (!is_ring(inner)) member_with(ring, inner) = member;
  }
}

/// Opens an odd ring whose label is 0: the members on the way through it stay in the tree.
void HeaviestPairs::open_ring(Node ring) {
  const Nodes& nodes = rings_[ring];
  for (const Node member : nodes) {
    set_outer(member, member);
    set_side(member, sides_[member]);
  }
  const Node entry = member_with(ring, link(ring, parent_[ring]).from);
  const std::size_t steps = turn_to(ring, entry);
  for (std::size_t i = 0; i < steps; i += 2) {
    const Node odd = nodes[i];
    const Node even = nodes[i + 1];
    parent_[odd] = link(even, odd).from;
    set_side(odd, Side::kOdd);
    set_side(even, Side::kEven);
    forget_nearest(odd);
    find_nearest(even);
    look_at(even);
  }
  set_side(entry, Side::kOdd);
  parent_[entry] = parent_[ring];
  for (std::size_t i = steps + 1; i < nodes.size(); ++i) {
    set_side(nodes[i], Side::kNone);
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

void HeaviestPairs::note_inside(Node ring) {
  Nodes& inside = inside_[ring];
  inside.clear();
  for (const Node member : rings_[ring]) {
    inside.push_back(member);
    if (is_ring(member))
      inside.insert(inside.end(), inside_[member].begin(), inside_[member].end());
  }
}

void HeaviestPairs::set_outer(Node node, Node outer) {
  outermost_.clear();
  outer_[node] = outer;
  if (!is_ring(node)) return;
  for (const Node inner : inside_[node]) outer_[inner] = outer;
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
  if (!is_ring(node)) return find_nearest_of_thing(node);
  for (Node thing = 1; thing <= things_; ++thing) {
    if (signs_[thing] >= 0 || outer_[thing] == node) continue;
    if (ring_link(node, thing).exists) (void)consider(thing, node);
  }
}

void HeaviestPairs::find_nearest_of_thing(Node node) {
  const double* const doubled = &flipped_[kinds_[node] * row_];
  double distance = kInfinity;
  Node nearest = 0;
  const double sign = std::exchange(signs_[node], 0);
  for (Node thing = 1; thing <= things_; ++thing) {
    const double slack = labels_[thing] + labels_[node] - doubled[thing];
    const bool closer = (signs_[thing] < 0) & (slack < distance);
    distance = closer ? slack : distance;
    nearest = closer ? thing : nearest;
  }
  signs_[node] = sign;
  distance_[node] = distance;
  nearest_[node] = nearest;
}

void HeaviestPairs::forget_nearest(Node node) {
  nearest_[node] = 0;
  distance_[node] = kInfinity;
}

}  // namespace gpemu::scheduling
