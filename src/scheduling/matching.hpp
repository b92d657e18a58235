// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace gpemu::scheduling {

/// Divides things into pairs such that the sum of the pairs' weights is as large as possible:
/// Edmonds' algorithm with dual labels, on a dense matrix. Of several best divisions it finds the
/// one that Muri's simulator finds (simulator/matching.py of github.com/Rivendile/Muri), because it
/// searches in the same order and rounds in the same way.
///
/// It keeps its memory from one search to the next. Thread safety: none.
/// Complexity: proportional to the third power of the number of things; for most of it, two things
///   take one instruction, and those of a kind with the same label are looked at once.
class HeaviestPairs {
 public:
  /// Returns each thing's partner; nothing for those without one. Things of a kind are alike:
  /// `weights[a * count + b]`, with the number of kinds, is the weight of a thing of kind a and one
  /// of kind b; if it is not positive, they are no pair. It may differ from that of b and a by what
  /// rounding does.
  ///
  /// Requires: fewer than 10,000 things; each kind from 0 to the greatest has a thing; finite
  /// weights.
  [[nodiscard]] std::vector<std::optional<std::size_t>> find(std::span<const std::size_t> kinds,
                                                             std::span<const double> weights);

 private:
  /// Things are nodes from 1 on. Rings of an odd number of nodes are nodes too, after them. 0:
  /// none.
  using Node = std::uint32_t;
  using Nodes = std::vector<Node>;
  /// Which side of a search's tree a node is on.
  enum class Side : std::int8_t { kNone, kEven, kOdd };
  /// The best way from a thing in one node to a thing in another. `exists` is false if they are no
  /// pair, whose weight is 0.
  struct Link {
    std::uint16_t from = 0;
    std::uint16_t to = 0;
    bool exists = false;

    [[nodiscard]] Link reversed() const { return {.from = to, .to = from, .exists = exists}; }
  };

  void prepare(std::span<const std::size_t> kinds, std::span<const double> weights);
  double set_weights(std::span<const std::size_t> kinds, std::span<const double> weights);
  /// Finds one more pair. Returns false if no more is worth it.
  bool add_pair();
  void start_trees();
  bool grow_trees();
  /// Looks at all neighbours of a thing on the even side. Returns whether a pair was added.
  bool look_around(Node thing);
  /// Looks at one. Returns whether a pair was added.
  bool look_at_link(Node thing, Node other);
  void begin_to_look(Node thing);
  bool remember(Node thing, std::size_t block);
  void forget_alike();
  /// Changes the labels so far that a link becomes tight. Returns false if a label would become 0.
  bool change_labels();
  [[nodiscard]] double label_change();
  /// Returns the outermost nodes, in order.
  [[nodiscard]] const Nodes& outermost();
  bool use_new_links();
  void open_rings();

  bool use(const Link& link);
  void exchange_pairs(Node from, Node to);
  void pair(Node node, Node with);
  [[nodiscard]] Node common_root(Node a, Node b);
  void close_ring(Node a, Node root, Node b);
  [[nodiscard]] Node new_ring(Node root);
  void add_to_ring(Node ring, Node from, Node root);
  void link_ring(Node ring);
  void link_ring_by_thing(Node member);
  void link_ring_by_ring(Node member);
  void link_rings(Node ring, Node node, const Link& way);
  void note_members(Node ring, Node member);
  void open_ring(Node ring);
  /// Turns the ring such that the way from its first node to `member` has an even number of steps.
  /// Returns that number.
  std::size_t turn_to(Node ring, Node member);

  void look_at(Node node);
  void note_inside(Node ring);
  void set_outer(Node node, Node outer);
  void set_side(Node node, Side side);
  /// Remembers `thing` as the even thing that is nearest to the node, if it is. Returns whether.
  bool consider(Node thing, Node node);
  void find_nearest(Node node);
  void find_nearest_of_thing(Node node);
  void forget_nearest(Node node);
  void set_bounds();
  [[nodiscard]] double bound_of(Node node) const;
  void set_bounds_of(Node node, double bound);

  [[nodiscard]] Link link(Node a, Node b) const {
    if (is_ring(a)) return ring_link(a, b);
    if (is_ring(b)) return ring_link(b, a).reversed();
    return {.from = static_cast<std::uint16_t>(a),
            .to = static_cast<std::uint16_t>(b),
            .exists = doubled_of(a)[b] > 0};
  }
  [[nodiscard]] Link nearest_link(Node node) const {
    return link(static_cast<Node>(nearest_[node]), node);
  }
  /// Returns how far the labels are from making the link tight.
  [[nodiscard]] double slack(const Link& link) const {
    return labels_[link.from] + labels_[link.to] - doubled_of(link.from)[link.to];
  }
  [[nodiscard]] Link& ring_link(Node ring, Node node) {
    return links_[std::size_t{ring} * width_ - first_ring_link_ + node];
  }
  [[nodiscard]] const Link& ring_link(Node ring, Node node) const {
    return links_[std::size_t{ring} * width_ - first_ring_link_ + node];
  }
  [[nodiscard]] Node& member_with(Node ring, Node thing) {
    return members_[(std::size_t{ring} - things_ - 1) * row_ + thing];
  }
  [[nodiscard]] const double* doubled_of(Node thing) const {
    return &doubled_[kinds_[thing] * row_];
  }
  [[nodiscard]] bool is_ring(Node node) const { return node > things_; }
  [[nodiscard]] Side side_of(Node node) const { return sides_[outer_[node]]; }

  Node things_ = 0;
  Node nodes_ = 0;         ///< things and rings, also those that were opened.
  std::size_t row_ = 0;    ///< of doubled_ and members_.
  std::size_t width_ = 0;  ///< of links_: the most nodes that there may be, and 0.
  std::size_t first_ring_link_ = 0;
  std::uint32_t walks_ = 0;
  std::vector<std::size_t> kinds_;  ///< by thing; that of 0 is no other's.
  /// Twice the weight of a thing of a kind and a thing; if they are no pair, -infinity.
  std::vector<double> doubled_;
  std::vector<double> flipped_;  ///< twice the weight of a thing and one of a kind.
  /// By kind: a thing in no ring that was looked around, all of whose links are remembered; 0:
  /// none.
  Nodes alike_;
  std::uint32_t uses_ = 0;     ///< how often alike_ was cleared.
  std::vector<Link> links_;    ///< of each ring to each node.
  Nodes members_;              ///< of each ring and thing: the ring's member that has the thing.
  std::vector<Nodes> rings_;   ///< the nodes of each ring, in order.
  std::vector<Nodes> inside_;  ///< all nodes in each ring and in its rings, in any order.
  // By node.
  std::vector<double> labels_;
  Nodes partner_;         ///< the thing to which it is paired.
  Nodes outer_;           ///< the outermost node that has it; 0 for rings that were opened.
  Nodes outermost_;       ///< empty if they changed.
  Nodes looked_through_;  ///< by use_new_links.
  std::vector<Side> sides_;
  Nodes parent_;                  ///< the thing by which it came into its tree.
  std::vector<double> nearest_;   ///< the even thing that is nearest.
  std::vector<double> distance_;  ///< of the nearest thing, or infinity.
  std::vector<std::uint32_t> walked_;
  // By thing.
  /// A link to a thing outside of rings is to be remembered if its slack is less than this.
  std::vector<double> bounds_;
  /// A link to it needs more than that if its slack is less than this.
  std::vector<double> urgent_;
  std::vector<std::uint8_t> block_has_rings_;  ///< things that are looked at together.
  std::vector<double> signs_;                  ///< -1 on the even side, 1 on the odd side, else 0.
  Node considered_ = 0;                        ///< the ring to which the thing was last compared.
  Nodes queue_;
  std::size_t looked_at_ = 0;
  // What link_ring needs.
  std::vector<double> ring_slack_;  ///< of the ring's best link, by node.
  Nodes linked_;                    ///< by kind: a thing whose links were looked at; 0: none.
  std::vector<double> ring_from_;   ///< where that begins, by thing; 0: none.
  /// By node: a thing outside has no link to the ring, although it is one of a pair with something
  /// in it.
  std::vector<bool> is_loose_;
};

}  // namespace gpemu::scheduling
