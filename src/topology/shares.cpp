// SPDX-License-Identifier: Apache-2.0
#include "gpemu/topology/shares.hpp"

namespace gpemu::topology {
namespace {

// Fitted to the folder `collectives` by `gpemu cost collectives --eval
// evidence/published/collectives --fit`, which prints these tables.

constexpr std::array<Shares, 5> kFittedShares = {{
    // nvlink
    {0.7717, 0.8490, 1.2144, 0.9300, 0.3033, 0.9646, 0.9797, 0.7911, 1.9459, 1.1227, 0.9311, 1.0506,
     0.6530, 0.5155, 1.9478},
    // pcie-peer
    {0.8007, 0.8000, 1.2500, 0.9300, 0.3000, 0.9965, 1.0000, 0.8012, 1.8084, 1.1000, 0.9075, 1.0000,
     0.6000, 0.5000, 2.0055},
    // pcie-staged
    {0.5199, 0.8000, 1.2500, 0.9300, 0.3000, 1.0000, 1.0000, 0.8000, 1.8000, 1.1000, 0.9000, 1.0000,
     0.6000, 0.5000, 2.0000},
    // rdma
    {0.7943, 0.8000, 1.2483, 0.9488, 0.3000, 0.9999, 1.0009, 0.8014, 1.8059, 1.2145, 0.8643, 0.8255,
     0.5726, 0.4999, 1.9779},
    // socket
    {0.8000, 0.8000, 1.2500, 0.9100, 0.3000, 1.0003, 0.9865, 0.8047, 4.4893, 3.9062, 2.5634, 1.0794,
     0.6486, 0.5302, 2.0225},
}};

constexpr std::array<std::array<double, 3>, 5> kFittedBars = {{
    {0.429, 0.288, 0.129},  // nvlink
    {0.270, 0.283, 0.270},  // pcie-peer
    {1.000, 1.000, 1.000},  // pcie-staged
    {0.487, 0.320, 0.292},  // rdma
    {0.750, 2.387, 0.387},  // socket
}};

}  // namespace

const Shares& fitted_shares(LinkClass link) {
  return kFittedShares[static_cast<std::size_t>(link)];
}

const std::array<double, 3>& bars_of(LinkClass link) {
  return kFittedBars[static_cast<std::size_t>(link)];
}

}  // namespace gpemu::topology
