// Where things are: intervals and boxes of lattice sites, and the frame of one layer's recomputation.
#pragma once

#include <algorithm>

namespace ncpm::neural {

inline int wrapped(int value, int size) {
  if (value >= 0 && value < size) return value;
  if (value < 0 && value >= -size) return value + size;  // the usual cases without a division
  value %= size;
  return value < 0 ? value + size : value;
}

// Half-open range of local positions in a frame.
struct Span {
  int lo = 0, hi = 0;
  int size() const { return hi > lo ? hi - lo : 0; }
  bool empty() const { return hi <= lo; }
  Span grown(int by) const { return {lo - by, hi + by}; }
};
inline bool operator==(Span a, Span b) { return a.lo == b.lo && a.hi == b.hi; }
inline Span operator&(Span a, Span b) { return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)}; }

struct Rect {
  Span y, x;
  bool empty() const { return y.empty() || x.empty(); }
  Rect grown(int by) const { return {y.grown(by), x.grown(by)}; }
};
inline Rect operator&(Rect a, Rect b) { return {a.y & b.y, a.x & b.x}; }

// One axis of a (coarse) lattice.
struct Axis {
  int size = 0;
  bool circular = false;
};

// Sites start, start + 1, ... of an axis; on a circular one they may run over its end. length <= size.
struct Interval {
  int start = 0, length = 0;
};

Interval dilated(Interval interval, int by, Axis axis);
Interval united(Interval a, Interval b, Axis axis);
// The pooled sites that see any of these.
Interval pooled(Interval interval, int pool, Axis to);
// The sites that the pooled ones see.
Interval unpooled(Interval interval, int pool, Axis to);
bool overlap(Interval a, Interval b, Axis axis);

struct Box {
  Interval y, x;
  bool empty() const { return y.length == 0 || x.length == 0; }
};

struct Grid {
  Axis y, x;
  int sites() const { return y.size * x.size; }
  Box all() const { return {{0, y.size}, {0, x.size}}; }
};

inline bool operator==(const Box& a, const Box& b) {
  return a.y.start == b.y.start && a.y.length == b.y.length && a.x.start == b.x.start && a.x.length == b.x.length;
}
inline Box dilated(const Box& box, int by, const Grid& grid) {
  if (box.empty()) return box;
  return {dilated(box.y, by, grid.y), dilated(box.x, by, grid.x)};
}
inline Box united(const Box& a, const Box& b, const Grid& grid) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {united(a.y, b.y, grid.y), united(a.x, b.x, grid.x)};
}
inline Box pooled(const Box& box, int pool, const Grid& to) {
  if (pool == 1 || box.empty()) return box;
  return {pooled(box.y, pool, to.y), pooled(box.x, pool, to.x)};
}
inline bool overlap(const Box& a, const Box& b, const Grid& grid) {
  return !a.empty() && !b.empty() && overlap(a.y, b.y, grid.y) && overlap(a.x, b.x, grid.x);
}

// Runs of positions that two ranges of one axis share: destination dst + k holds the same site as src + k.
// The destination may stick out of the lattice (padding) and, on a circular axis, meet a site twice.
struct Runs {
  struct Run {
    int dst, src, length;
  } run[4];
  int count = 0;
};
Runs shared_runs(int dst_start, int dst_length, Interval src, Axis axis);

// The same for two boxes, row by row: visit(row and column in the one, row and column in the other, length).
template <class Visit>
void for_shared_runs(const Box& one, const Box& other, const Grid& grid, Visit visit) {
  const Runs ys = shared_runs(one.y.start, one.y.length, other.y, grid.y);
  const Runs xs = shared_runs(one.x.start, one.x.length, other.x, grid.x);
  for (int i = 0; i < ys.count; ++i)
    for (int row = 0; row < ys.run[i].length; ++row)
      for (int j = 0; j < xs.count; ++j)
        visit(ys.run[i].dst + row, xs.run[j].dst, ys.run[i].src + row, xs.run[j].src, xs.run[j].length);
}

// One axis of the window in which a layer is recomputed because sites `in` of its input changed. Local
// positions run from 0 to length; every convolution widens what changes by one site on each side:
//   in -> x (first convolutions) -> phi (second) -> t (first of psi) -> y (second), then pooled to `out`.
// The outermost ring of the frame is input only: padding, or unchanged sites. all_psi: t and y are the whole axis
// (which is not circular).
struct FrameAxis {
  Axis axis;
  int pool = 1;
  int origin = 0;  // lattice site of local position 0, before wrapping
  int length = 0;
  bool whole = false;  // circular, and every site recomputed: the ring repeats the far end
  Span exists;         // positions that are sites, each once
  Span in, x, phi, t, y;
  Interval out;

  FrameAxis() = default;
  FrameAxis(Interval changed, Axis axis, int pool, bool all_psi);

  // Local positions of an interval and of it dilated by one and two.
  struct Place {
    Span own, near, reached;
  };
  Place place(Interval sites) const;
  // Local positions of these sites within `exists` (their hull, where the interval leaves and re-enters).
  Span locate(Interval sites) const;
  int site(int local) const { return axis.circular ? wrapped(origin + local, axis.size) : origin + local; }
  Interval sites(Span local) const { return {site(local.lo), local.size()}; }
};

// Where a cell's quantities differ from the background's, in a frame: its input, what one convolution makes of
// it, what two make of it. Hulls, within the sites that exist.
struct Footprint {
  Rect own, near, reached;
};

struct Frame {
  FrameAxis y, x;

  Frame() = default;
  Frame(const Box& changed, const Grid& grid, int pool)
      : y(changed.y, grid.y, pool, false), x(changed.x, grid.x, pool, false) {}
  // psi and what follows it on the whole grid, whatever changed.
  static Frame with_all_psi(const Box& changed, const Grid& grid, int pool) {
    Frame frame;
    frame.y = FrameAxis(changed.y, grid.y, pool, true);
    frame.x = FrameAxis(changed.x, grid.x, pool, true);
    return frame;
  }

  int area() const { return y.length * x.length; }
  Rect exists() const { return {y.exists, x.exists}; }
  Rect in() const { return {y.in, x.in}; }
  Rect first() const { return {y.x, x.x}; }
  Rect phi() const { return {y.phi, x.phi}; }
  Rect psi() const { return {y.t, x.t}; }
  Rect output() const { return {y.y, x.y}; }
  Box out() const { return {y.out, x.out}; }
  Footprint footprint(const Box& box) const {
    const FrameAxis::Place v = y.place(box.y), u = x.place(box.x);
    return {{v.own, u.own}, {v.near, u.near}, {v.reached, u.reached}};
  }
  // The part of `differing` that a convolution to `rect` reads; `reached` is what the convolution makes of it all.
  Rect live(const Rect& differing, const Rect& reached, const Rect& rect) const {
    const auto along = [](const FrameAxis& a, Span in, Span to, Span out) {
      return a.whole && to == a.exists ? a.exists : in & out.grown(1);  // all the way round: the ring repeats it
    };
    return {along(y, differing.y, reached.y, rect.y), along(x, differing.x, reached.x, rect.x)};
  }
  // The sites that convolutions on `rect` read. Where an axis is whole, its ring repeats its far end.
  Rect inputs_of(const Rect& rect) const {
    return {y.whole ? y.exists : rect.y.grown(1) & y.exists, x.whole ? x.exists : rect.x.grown(1) & x.exists};
  }
  Box sites(const Rect& local) const { return {y.sites(local.y), x.sites(local.x)}; }
};

}  // namespace ncpm::neural
