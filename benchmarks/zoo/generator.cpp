// A cellular Potts model of its own, for data that our engine had no part in: contact and volume energies and one
// mechanism that they cannot express. Called from generator.py; one tissue per chain, nothing shared between them.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "mechanisms.hpp"

namespace {

// xoshiro256++ of Blackman and Vigna, seeded by splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (auto& word : s_) {
      uint64_t z = (seed += 0x9e3779b97f4a7c15u);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }
  uint64_t next() {
    const uint64_t result = rotate(s_[0] + s_[3], 23) + s_[0], t = s_[1] << 17;
    s_[2] ^= s_[0], s_[3] ^= s_[1], s_[1] ^= s_[2], s_[0] ^= s_[3], s_[2] ^= t, s_[3] = rotate(s_[3], 45);
    return result;
  }
  static int below(uint32_t n, uint64_t bits32) { return int((bits32 * n) >> 32); }
  double uniform() { return double(next() >> 11) * 0x1p-53; }

 private:
  static uint64_t rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::array<uint64_t, 4> s_;
};

// Who is next to whom: all sites around one, on a periodic lattice. In 2D there is a single plane.
class Sites {
 public:
  explicit Sites(const Setting& setting) {
    const int planes = setting.geometry == kCubic ? 1 : 0;
    for (int z = -planes; z <= planes; ++z)
      for (int y = -1; y <= 1; ++y)
        for (int x = -1; x <= 1; ++x) {
          const bool across = setting.geometry == kHexagonal && y == x;  // the far corners of skewed axes
          if ((z || y || x) && !across) offsets.push_back({z, y, x});
        }
    const int d = setting.shape[0], h = setting.shape[1], w = setting.shape[2];
    count = d * h * w;
    neighbours.reserve(size_t(count) * offsets.size());
    for (int site = 0; site < count; ++site) {
      const Way at = place(site, setting);
      for (const Way& o : offsets)
        neighbours.push_back((((at[0] + o[0] + d) % d) * h + (at[1] + o[1] + h) % h) * w + (at[2] + o[2] + w) % w);
    }
  }
  static Way place(int site, const Setting& s) {
    return {site / (s.shape[1] * s.shape[2]), site / s.shape[2] % s.shape[1], site % s.shape[2]};
  }
  int count;
  std::vector<Way> offsets;
  std::vector<int> neighbours;
};

// A state: ids on the lattice and, as integers, everything that energies ask of cells.
class Tissue {
 public:
  Tissue(const Setting& setting, const Sites& sites, int32_t* ids)
      : setting_(setting), sites_(sites), ids_(ids), places_(sites.count), unlike_(sites.count), cells_(setting) {
    std::vector<int> first(setting.ids, -1);
    for (int site = 0; site < sites.count; ++site) {
      const int id = ids[site];
      if (first[id] < 0) first[id] = site;
      const Way from = Sites::place(first[id], setting);
      Way at = Sites::place(site, setting);
      for (int axis = 0; axis < 3; ++axis) {  // the nearest image to the cell's first site
        const int size = setting.shape[axis], away = at[axis] - from[axis];
        at[axis] -= size * int(std::floor(double(away) / size + 0.5));
      }
      places_[site] = at;
      if (id) cells_.put(id, at, 1);
      for (size_t k = 0; k < sites.offsets.size(); ++k) {
        const int other = ids[neighbour(site, k)];
        if (other != id) cells_.meet(id, other, sites.offsets[k], 1), ++unlike_[site];
      }
    }
  }

  // Energy of a copy of `to` into a site, at `at` in the cell's own frame; the copy is made.
  double change(int site, int to, const Way& at) {
    const int from = ids_[site];
    around_ = {from, to};
    if (setting_.looks_around())
      for (size_t k = 0; k < sites_.offsets.size(); ++k) {
        const int id = ids_[neighbour(site, k)];
        if (std::find(around_.begin(), around_.end(), id) == around_.end()) around_.push_back(id);
      }
    const double before = cells_.local(from, to, around_);
    const double own = symbolic_change(site, to);
    before_ = places_[site];
    apply(site, to, at);
    return own + cells_.local(from, to, around_) - before;
  }
  void revert(int site, int from) { apply(site, from, before_); }

  void run(int64_t mcs, Random& random) {
    const uint32_t around = uint32_t(sites_.offsets.size());
    for (int64_t attempt = 0; attempt < mcs * sites_.count; ++attempt) {
      const uint64_t drawn = random.next();  // its halves choose a site and one of the sites around it
      const int site = Random::below(uint32_t(sites_.count), drawn >> 32);
      if (unlike_[site] == 0) continue;  // whatever is copied here is here already
      const int k = Random::below(around, drawn & 0xffffffffu);
      const int source = neighbour(site, k), from = ids_[site], to = ids_[source];
      if (from == to || (from && cells_.volume(from) == 1)) continue;  // a cell's last pixel is never taken
      Way at = places_[source];
      for (int axis = 0; axis < 3; ++axis) at[axis] -= sites_.offsets[k][axis];
      const double energy = change(site, to, at);
      if (energy > 0 && random.uniform() >= std::exp(-energy / setting_.temperature)) revert(site, from);
    }
  }

  // The place of a site in the frame of a cell that it touches.
  bool place_beside(int site, int id, Way& at) const {
    for (size_t k = 0; k < sites_.offsets.size(); ++k)
      if (ids_[neighbour(site, k)] == id) {
        at = places_[neighbour(site, k)];
        for (int axis = 0; axis < 3; ++axis) at[axis] -= sites_.offsets[k][axis];
        return true;
      }
    return false;
  }
  int id(int site) const { return ids_[site]; }

 private:
  int neighbour(int site, size_t k) const { return sites_.neighbours[size_t(site) * sites_.offsets.size() + k]; }

  double symbolic_change(int site, int to) const {
    const int from = ids_[site];
    double contact = 0;
    for (size_t k = 0; k < sites_.offsets.size(); ++k) {
      const int other = ids_[neighbour(site, k)];
      if (other != to) contact += setting_.contact(to, other);
      if (other != from) contact -= setting_.contact(from, other);
    }
    double volume = 0;
    if (from) volume += setting_.volume_energy(from, cells_.volume(from) - 1.0, cells_.volume(from));
    if (to) volume += setting_.volume_energy(to, cells_.volume(to) + 1.0, cells_.volume(to));
    return contact * 2.0 / double(sites_.offsets.size()) + volume;
  }

  void apply(int site, int to, const Way& at) {
    const int from = ids_[site];
    if (from) cells_.put(from, places_[site], -1);
    if (to) cells_.put(to, at, 1);
    for (size_t k = 0; k < sites_.offsets.size(); ++k) {
      const int beside = neighbour(site, k), other = ids_[beside];
      const Way& o = sites_.offsets[k];
      if (other != from) cells_.meet(from, other, o, -1), cells_.meet(other, from, o, -1);
      if (other != to) cells_.meet(to, other, o, 1), cells_.meet(other, to, o, 1);
      const int more = int(other != to) - int(other != from);
      unlike_[beside] += more;
      unlike_[site] += more;
    }
    ids_[site] = to;
    places_[site] = at;
  }

  const Setting& setting_;
  const Sites& sites_;
  int32_t* ids_;
  std::vector<Way> places_;     // of every site in its cell's own frame, which no border cuts
  std::vector<int8_t> unlike_;  // of every site: neighbours with another id
  Cells cells_;
  std::vector<int> around_;
  Way before_{};
};

}  // namespace

extern "C" {

// Runs one chain: ids[sites] are changed in place.
void zoo_run(const Setting* setting, int32_t* ids, int64_t mcs, uint64_t seed) {
  const Sites sites(*setting);
  Random random(seed);
  Tissue(*setting, sites, ids).run(mcs, random);
}

// Energy of each of n copies, one after the other from the same state; NaN where no neighbour has that id.
void zoo_deltas(const Setting* setting, int32_t* ids, int n, const int32_t* at, const int32_t* to, double* deltas) {
  const Sites sites(*setting);
  Tissue tissue(*setting, sites, ids);
  for (int flip = 0; flip < n; ++flip) {
    const int from = tissue.id(at[flip]);
    Way place;
    deltas[flip] = NAN;
    if (from == to[flip] || !tissue.place_beside(at[flip], to[flip], place)) continue;
    deltas[flip] = tissue.change(at[flip], to[flip], place);
    tissue.revert(at[flip], from);
  }
}
}
