#include "geometry.hpp"

namespace ncpm::neural {

Interval dilated(Interval interval, int by, Axis axis) {
  if (interval.length == 0) return interval;
  if (axis.circular) {
    if (interval.length + 2 * by >= axis.size) return {0, axis.size};
    return {wrapped(interval.start - by, axis.size), interval.length + 2 * by};
  }
  const int lo = std::max(0, interval.start - by);
  return {lo, std::min(axis.size, interval.start + interval.length + by) - lo};
}

Interval united(Interval a, Interval b, Axis axis) {
  if (a.length == 0) return b;
  if (b.length == 0) return a;
  if (!axis.circular) {
    const int lo = std::min(a.start, b.start);
    return {lo, std::max(a.start + a.length, b.start + b.length) - lo};
  }
  // The shorter of the two ways round that starts at one of them and covers both.
  const int from_a = std::max(a.length, wrapped(b.start - a.start, axis.size) + b.length);
  const int from_b = std::max(b.length, wrapped(a.start - b.start, axis.size) + a.length);
  const Interval best = from_a <= from_b ? Interval{a.start, from_a} : Interval{b.start, from_b};
  return best.length >= axis.size ? Interval{0, axis.size} : best;
}

Interval pooled(Interval interval, int pool, Axis to) {
  if (interval.length == 0) return interval;
  if (to.circular && interval.start + interval.length > to.size * pool) return {0, to.size};
  const int lo = interval.start / pool;
  const int hi = std::min(to.size, (interval.start + interval.length + pool - 1) / pool);
  return {lo, std::max(0, hi - lo)};
}

Interval unpooled(Interval interval, int pool, Axis to) {
  if (to.circular && interval.start + interval.length > to.size / pool) return {0, to.size};
  return {interval.start * pool, std::min(to.size - interval.start * pool, interval.length * pool)};
}

bool overlap(Interval a, Interval b, Axis axis) {
  if (!axis.circular) return a.start < b.start + b.length && b.start < a.start + a.length;
  return wrapped(b.start - a.start, axis.size) < a.length || wrapped(a.start - b.start, axis.size) < b.length;
}

Runs shared_runs(int dst_start, int dst_length, Interval src, Axis axis) {
  Runs runs;
  const int turns = axis.circular ? 2 : 0;
  for (int turn = -turns; turn <= turns; ++turn) {
    const int start = src.start + turn * axis.size;
    const int lo = std::max(dst_start, start);
    const int hi = std::min(dst_start + dst_length, start + src.length);
    if (lo < hi) runs.run[runs.count++] = {lo - dst_start, lo - start, hi - lo};
  }
  return runs;
}

namespace {
int floor_to(int value, int step) { return (value >= 0 ? value / step : -((step - 1 - value) / step)) * step; }
}  // namespace

FrameAxis::FrameAxis(Interval changed, Axis over, int pooling, bool all_psi) : axis(over), pool(pooling) {
  constexpr int kReach = 4;  // convolutions from a layer's input to its output
  const int first = changed.start - kReach, last = changed.start + changed.length + kReach;
  const int lo = all_psi ? 0 : floor_to(first, pool), hi = all_psi ? axis.size : floor_to(last + pool - 1, pool);
  const int seen = axis.size / pool * pool;  // sites beyond fill no pooling block
  if (axis.circular) whole = hi - lo + 2 > axis.size || (pool > 1 && (lo < 0 || hi > seen || last > axis.size));
  if (whole) {
    origin = -1;
    length = axis.size + 2;
    exists = in = x = phi = t = y = {1, axis.size + 1};
    y.hi = 1 + seen;
    out = {0, axis.size / pool};
    return;
  }
  origin = lo - 1;
  length = hi - lo + 2;
  exists = axis.circular ? Span{0, length} : Span{0, length} & Span{-origin, axis.size - origin};
  in = Span{changed.start - origin, changed.start + changed.length - origin};
  x = in.grown(1) & exists;
  phi = in.grown(2) & exists;
  t = all_psi ? exists : in.grown(3) & exists;
  y = Span{1, length - 1} & exists;
  if (!axis.circular || pool > 1) y.hi = std::min(y.hi, seen - origin);
  if (y.empty()) y = {0, 0};
  out = {(axis.circular ? wrapped(y.lo + origin, axis.size) : y.lo + origin) / pool, y.size() / pool};
  if (y.empty()) out = {0, 0};
}

Span FrameAxis::locate(Interval sites) const {
  if (sites.length == 0) return {0, 0};
  if (!axis.circular) return Span{sites.start - origin, sites.start - origin + sites.length} & exists;
  if (whole) {
    if (sites.start + sites.length > axis.size) return exists;
    return {sites.start + 1, sites.start + 1 + sites.length};
  }
  const int start = wrapped(sites.start - origin, axis.size);
  const Span here = Span{start, start + sites.length} & exists;
  const Span before = Span{start - axis.size, start - axis.size + sites.length} & exists;
  if (before.empty()) return here;
  if (here.empty()) return before;
  return exists;
}

FrameAxis::Place FrameAxis::place(Interval sites) const {
  if (sites.length == 0) return {};
  Span own{sites.start - origin, sites.start - origin + sites.length};
  if (axis.circular) {
    // The interval shows in the frame at one of three places; at several, or all the way round, the slow way.
    const int lo = wrapped(own.lo, axis.size);
    int shown = 0;
    for (const int start : {lo - axis.size, lo, lo + axis.size}) {
      const Span there{start, start + sites.length};
      if ((there.grown(2) & exists).empty()) continue;
      own = there;
      ++shown;
    }
    if (shown == 0) return {};
    if (whole || shown > 1) return {locate(sites), locate(dilated(sites, 1, axis)), locate(dilated(sites, 2, axis))};
  }
  return {own & exists, own.grown(1) & exists, own.grown(2) & exists};
}

}  // namespace ncpm::neural
