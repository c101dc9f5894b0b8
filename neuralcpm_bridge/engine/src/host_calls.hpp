// A mirror that a host's own compiled code asks, without an interpreter in between.
//
// A host that calls virtual functions of a C++ object takes any memory for one that begins with a pointer to a table of
// functions. Whoever knows the host finds out which places of the table it calls (cc3d_steppables/native.py); here are
// the functions that belong there, and the policy behind them: no exception gets out, the first thing that goes wrong
// is kept, and from then on every copy is refused.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "guarded.hpp"

namespace ncpm {

class HostCalls {
 public:
  static constexpr double kRefused = 1e30;  // large and finite: hosts add other energies to it

  // How a host makes one amplitude of those of the two cells of a copy; the medium has none and no say.
  enum class Combine { None, Min, Max, Mean };

  struct Cell {
    std::int64_t host_id = 0;
    double factor = 1.0;
  };
  using Cells = std::unordered_map<const void*, Cell>;  // by the host's addresses, without the medium

  struct Settings {
    double factor = 1.0;  // of every answer
    Combine combine = Combine::None;
    double temperature = 1.0;  // of training: what disagreement is counted in
    bool committee = false;    // whether there are members to disagree
    double shrink = 0.0;       // disagreement at which the network's answer is halved (and it falls by the share of the
                               // copy's cells that are unlike the training data's); 0: answers stay
  };

  // Since the last `take_tally`. Disagreements and weights are summed over accepted copies.
  struct Tally {
    std::int64_t calls = 0, accepted = 0, timed = 0;
    double seconds = 0.0;  // of processor time, of the `timed` calls
    double disagreement = 0.0, most = 0.0, weight = 0.0;
  };

  // before_next: called before the first answer after a `hold`; 0 refuses everything from then on.
  explicit HostCalls(int (*before_next)()) : before_next_(before_next) {}
  ~HostCalls();
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  // An object for a host to call: its table of functions. It outlives this, for hosts may call until the very end.
  void* object(std::vector<const void*> table);
  static double answer_entry(void* object, const std::int16_t* point, const void* new_cell, const void* old_cell);
  static void change_entry(void* object, const std::int16_t* point, const void* new_cell, const void* old_cell);

  // For the other places of a table.
  static double ignore_entry(void*, const std::int16_t*, const void*, const void*) { return 0.0; }

  // Answers from this mirror and for these cells from now on, after `before_next`.
  void serve(std::shared_ptr<GuardedMirror> mirror, Cells cells, const Settings& settings);
  void hold() { held_ = true, asked_ = {-1, nullptr}; }
  void keep(const std::string& error);

  const std::string& error() const { return error_; }  // "" while all is well
  Tally take_tally() { return std::exchange(tally_, {}); }
  // Sites written outside of the Metropolis algorithm, and the addresses of the cells that were put there.
  const std::unordered_map<std::int64_t, const void*>& written() const { return written_; }
  void forget_written() { written_.clear(); }

  double answer(const std::int16_t* point, const void* new_cell, const void* old_cell) noexcept;
  void changed(const std::int16_t* point, const void* new_cell) noexcept;

 private:
  std::int64_t site_of(const std::int16_t* point) const;
  double asked(std::int64_t site, const void* new_cell, const void* old_cell);
  double factor_of(const void* new_cell, const void* old_cell) const;
  void committed(std::int64_t site, const void* new_cell);
  const Cell& cell_at(const void* address) const;

  int (*before_next_)();
  std::shared_ptr<GuardedMirror> mirror_;
  Cells cells_;
  Settings settings_;
  bool held_ = true;
  std::thread::id home_;
  std::pair<std::int64_t, const void*> asked_ = {-1, nullptr};
  double weight_ = 1.0;  // of the last answer
  std::unordered_map<std::int64_t, const void*> written_;
  Tally tally_;
  std::string error_;
  std::vector<HostCalls**> objects_;  // where those that were handed out keep this
};

}  // namespace ncpm
