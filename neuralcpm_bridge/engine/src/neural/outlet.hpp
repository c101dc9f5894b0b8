// Where a layer's output goes: to the next layer, or to a head.
#pragma once

#include "workspace.hpp"

namespace ncpm::neural {

// A layer shows it the background, every cell as soon as its output is there, and the end.
class Outlet {
 public:
  virtual ~Outlet() = default;

  // Room for a cell's output on `rect` of the frame; not cleared.
  virtual Patch room(const Pass& pass, const Rect& rect, int channels) = 0;
  virtual void take_background(Pass& pass) = 0;
  virtual void take_cell(const Pass& pass, const Candidate& cell) = 0;
  virtual void end(Pass& pass) = 0;
};

// To the next layer: the maximum over pooling blocks becomes the input of the background and of the candidates.
class HandOn : public Outlet {
 public:
  explicit HandOn(Workspace& workspace) : work_(workspace) {}

  Patch room(const Pass& pass, const Rect& rect, int channels) override;
  void take_background(Pass& pass) override;
  void take_cell(const Pass&, const Candidate&) override {}  // in the end, when all are there
  void end(Pass& pass) override;

 protected:
  // Where pooled values go, and where in it those of `at` begin.
  struct Place {
    Patch patch;
    float* first;
  };
  virtual Place place(const Box& at, const Grid& to, int channels);

  Workspace& work_;

 private:
  Patch pooled(const Pass& pass, const Candidate& cell);
};

// To a next layer that wants whole images: zeros where a cell does not differ.
class HandOnWhole final : public HandOn {
 public:
  using HandOn::HandOn;

 private:
  Place place(const Box& at, const Grid& to, int channels) override;
};

}  // namespace ncpm::neural
