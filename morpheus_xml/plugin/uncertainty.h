// What a learned model does not know, while Morpheus runs it: members that disagree, cells unlike those of training.
#ifndef UNCERTAINTY_H
#define UNCERTAINTY_H

#include <cstdint>
#include <fstream>
#include <string>

// Disagreement is the standard deviation of what a committee's members say about a copy, in units of the temperature
// of training; it is taken over accepted copies. Every twenty Monte Carlo steps make an interval: a line of
// uncertainty.csv, and a sentence where one of the limits is passed. Errors are std::runtime_error with one sentence.
class Uncertainty {
 public:
  // The attributes of the element.
  struct Limits {
    std::string policy = "warn";  // or stop, or shrink
    double disagreement = 1.0;
    double outside = 0.1;  // share of the cells
    bool operator==(const Limits& other) const;
  };

  // `members`: of the committee; 1: nobody disagrees. `label`: behind the names of files, where there are several
  // terms.
  Uncertainty(const Limits& limits, int members, double temperature, const std::string& label);

  bool committee() const { return committee_; }
  bool shrinks() const { return limits_.policy == "shrink"; }

  // Of a copy about which the members disagree so far, with this share of its cells outside of the range: what is left
  // of the network's energy.
  double weight(double spread, double outside) const;
  void accepted(double spread, double weight);
  void asked() { ++span_.asked; }

  // A run begins, or begins again, with so many steps behind it. Refuses to shrink where nobody would know by how much:
  // without members that could disagree, and without a range.
  void begin(std::int64_t mcs, bool knows_range);
  // Whether an interval is over with these steps, so that `look` is due.
  bool is_due(std::int64_t mcs) const { return mcs / 20 > looked_ / 20; }
  // An interval is over: cells that the model sees, and those of them outside of the range, -1 if nobody knows. Whether
  // it was uncertain.
  bool look(std::int64_t mcs, std::int64_t cells, std::int64_t outside);
  void enforce() const;  // ends the run where the last interval was uncertain and that is asked for

  double disagreement() const { return last_.disagreement; }  // of the last interval
  double outside() const { return last_.outside; }            // likewise

 private:
  // Sums over accepted copies.
  struct Sums {
    std::uint64_t asked = 0, accepted = 0;
    double disagreement = 0.0, most = 0.0, weight = 0.0;
    void add(const Sums& other);
  };
  struct Interval {
    double disagreement = 0.0, most = 0.0, weight = 1.0, outside = -1.0;
  };

  Interval mean(const Sums& sums, std::int64_t cells, std::int64_t outside) const;
  std::string sentence(const Interval& interval, bool with_limits) const;
  void write(std::int64_t mcs, const Interval& interval, bool uncertain);

  Limits limits_;
  bool committee_;
  double temperature_;
  std::string file_;         // of the table
  std::int64_t looked_ = 0;  // Monte Carlo steps before the last look
  std::string uncertain_;    // what was found then; empty: nothing
  Sums sums_, span_;         // of the interval, and of the line in the log
  Interval last_;
  std::ofstream table_;
  bool unwritable_ = false;
};

#endif
