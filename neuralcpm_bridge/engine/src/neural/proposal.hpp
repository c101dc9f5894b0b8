// A proposal: everything that a change reaches, recomputed in an arena, while the caches stay as they are.
#pragma once

#include <cstring>
#include <vector>

#include "cells.hpp"
#include "plan.hpp"

namespace ncpm::neural {

// A pixel goes from one cell to another.
struct PixelFlip {
  Pixel at;
  std::int32_t old_id, new_id, old_type, new_type;

  bool retypes() const { return old_type != new_type; }
};

// New values of a quantity on a box of its grid.
struct Patch {
  Box at;
  float* data = nullptr;
  int channels = 0;
  int pitch = 0;
};

inline void clear(const Patch& patch) { std::memset(patch.data, 0, sizeof(float) * patch.at.y.length * patch.pitch); }

// A cell near the change, with its new values of the layer at hand where they change.
struct Candidate {
  std::int32_t id;
  Box support;   // where its input of this layer differs from the background's, before or after the change (hull)
  Box extent;    // where it does after the change
  Footprint at;  // of the support in the frame of this layer
  Patch input, x, y, phi, output;
  Rect output_rect;  // of `output` in the frame, before pooling
};

// Where to put a patch if the proposal is accepted.
struct Write {
  std::int32_t id;
  int layer;
  Field field;
  Patch patch;
};

// One layer of a proposal: its frame, and the background's new values in it ([y][x][channel] over the frame).
struct Pass {
  const LayerShape* shape;
  Frame frame;
  float* h = nullptr;                              // the layer's input (not in the first)
  float *x = nullptr, *q = nullptr;                // in front of and behind phi's first SiLU
  float *p = nullptr, *phi = nullptr;              // its second
  float* sum = nullptr;                            // phi summed over cells
  float *y = nullptr, *t = nullptr, *g = nullptr;  // Y, with the shared part, and behind psi's first SiLU
  float* out = nullptr;                            // the layer's output
  Patch output;                                    // pooled

  int pitch(int channels) const { return frame.x.length * channels; }
  std::ptrdiff_t at(int channels, int y, int x) const { return (std::ptrdiff_t(y) * frame.x.length + x) * channels; }
  std::ptrdiff_t at(int channels, const Rect& rect) const { return at(channels, rect.y.lo, rect.x.lo); }
};

// Frame-sized, for one cell at a time.
struct Scratch {
  Array<float> view;    // values put together from several places
  Array<float> image;   // in front of a convolution
  Array<float> output;  // behind the last layer

  void reserve(std::size_t floats) {
    for (Array<float>* array : {&view, &image, &output})
      if (array->size() < floats) *array = Array<float>(floats);
  }
};

struct Proposal {
  const PixelFlip* flip = nullptr;  // null: the fixed-point sums already hold the change
  Arena arena;
  std::vector<Pass> passes;           // of the layers that are reached
  std::vector<Candidate> candidates;  // ascending ids
  std::vector<Write> writes;
  Scratch scratch;

  // Whether the background's input changes, not only that of the flip's two cells.
  bool retypes() const { return !flip || flip->retypes(); }
  bool moves(const Candidate& cell) const { return flip && (cell.id == flip->old_id || cell.id == flip->new_id); }

  float* new_image(const Pass& pass, int channels) {  // over the frame
    return arena.take<float>(std::size_t(pass.frame.area()) * channels);
  }
  Patch new_patch(const Box& at, int channels) {
    const int pitch = at.x.length * channels;
    return {at, arena.take<float>(std::size_t(at.y.length) * pitch), channels, pitch};
  }
};

}  // namespace ncpm::neural
