#include "uncertainty.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <sstream>
#include <stdexcept>

namespace {

constexpr std::int64_t LOG_EVERY = 100;  // Monte Carlo steps

std::string percent(double share) { return std::to_string(std::lround(100.0 * share)) + "%"; }

std::string short_number(double value) {
  std::ostringstream text;
  text.precision(2);
  text << value;
  return text.str();
}

}  // namespace

bool Uncertainty::Limits::operator==(const Limits& other) const {
  return policy == other.policy && disagreement == other.disagreement && outside == other.outside;
}

void Uncertainty::Sums::add(const Sums& other) {
  asked += other.asked;
  accepted += other.accepted;
  disagreement += other.disagreement;
  most = std::max(most, other.most);
  weight += other.weight;
}

Uncertainty::Uncertainty(const Limits& limits, int members, double temperature, const std::string& label)
    : limits_(limits), committee_(members > 1), temperature_(temperature), file_("uncertainty" + label + ".csv") {
  if (limits.policy != "warn" && limits.policy != "stop" && limits.policy != "shrink")
    throw std::runtime_error("uncertain is '" + limits.policy + "', but warn, stop, shrink exist: choose one.");
  if (!(limits.disagreement > 0))
    throw std::runtime_error("uncertainty-limit is " + short_number(limits.disagreement) +
                             ", but a number above 0 is needed: 1 is the temperature.");
  if (!(limits.outside >= 0 && limits.outside <= 1))
    throw std::runtime_error("outside-limit is " + short_number(limits.outside) +
                             ", but a share of the cells from 0 to 1 is needed.");
}

void Uncertainty::begin(std::int64_t mcs, bool knows_range) {
  looked_ = mcs;
  if (shrinks() && !committee_ && !knows_range)
    throw std::runtime_error(
        "uncertain is 'shrink', but the model is no committee and does not know the range of its training data: use a "
        "cell graph, or 'warn'.");
}

double Uncertainty::weight(double spread, double outside) const {
  const double doubt = spread / temperature_ / limits_.disagreement;
  return (1.0 - outside) / (1.0 + doubt * doubt);
}

void Uncertainty::accepted(double spread, double weight) {
  const double disagreement = spread / temperature_;
  ++sums_.accepted;
  sums_.disagreement += disagreement;
  sums_.most = std::max(sums_.most, disagreement);
  sums_.weight += weight;
}

Uncertainty::Interval Uncertainty::mean(const Sums& sums, std::int64_t cells, std::int64_t outside) const {
  const double made = double(std::max<std::uint64_t>(sums.accepted, 1));
  Interval interval;
  interval.disagreement = sums.disagreement / made;
  interval.most = sums.most;
  if (sums.accepted) interval.weight = sums.weight / made;
  if (outside >= 0) interval.outside = double(outside) / double(std::max<std::int64_t>(cells, 1));
  return interval;
}

std::string Uncertainty::sentence(const Interval& interval, bool with_limits) const {
  std::string text;
  if (committee_) {
    text = "the members disagree by " + short_number(interval.disagreement) + " T on accepted copies";
    if (with_limits) text += " (limit " + short_number(limits_.disagreement) + ")";
  }
  if (interval.outside >= 0) {
    text += (text.empty() ? "" : ", ") + percent(interval.outside) +
            " of the cells lie outside of the training data's range";
    if (with_limits) text += " (limit " + percent(limits_.outside) + ")";
  }
  if (interval.weight < 1) text += (text.empty() ? "" : ", ") + ("weight " + short_number(interval.weight));
  return text;
}

bool Uncertainty::look(std::int64_t mcs, std::int64_t cells, std::int64_t outside) {
  const bool logs = mcs / LOG_EVERY > looked_ / LOG_EVERY;
  looked_ = mcs;
  last_ = mean(sums_, cells, outside);
  span_.add(sums_);
  sums_ = Sums();
  if (!committee_ && outside < 0) return false;  // a model that knows nothing of this
  const bool uncertain = last_.disagreement > limits_.disagreement || last_.outside > limits_.outside;
  write(mcs, last_, uncertain);
  if (logs) {
    std::cout << "NeuralHamiltonian: MCS " << mcs << ", " << span_.asked << " ΔH, "
              << percent(double(span_.accepted) / double(std::max<std::uint64_t>(span_.asked, 1))) << " accepted, "
              << sentence(mean(span_, cells, outside), false) << std::endl;
    span_ = Sums();
  }
  const bool is_new = uncertain && uncertain_.empty();
  uncertain_ = uncertain ? "MCS " + std::to_string(mcs) + " is uncertain: " + sentence(last_, true) + "." : "";
  if (is_new) std::cout << "NeuralHamiltonian: WARNING: " << uncertain_ << std::endl;
  return uncertain;
}

void Uncertainty::enforce() const {
  if (limits_.policy == "stop" && !uncertain_.empty())
    throw std::runtime_error(uncertain_ + " Retrain with lattices like these, or set uncertain=\"warn\" to go on.");
}

// A table that cannot be written is no reason to end a simulation.
void Uncertainty::write(std::int64_t mcs, const Interval& interval, bool uncertain) {
  if (unwritable_) return;
  if (!table_.is_open()) {
    table_.open(file_);
    table_ << "mcs,disagreement,disagreement_max,outside,weight,uncertain\n";
  }
  table_ << mcs << ',';
  if (committee_) table_ << interval.disagreement << ',' << interval.most << ',';
  else table_ << ",,";
  if (interval.outside >= 0) table_ << interval.outside;
  table_ << ',' << interval.weight << ',' << int(uncertain) << std::endl;
  if (!table_) {
    unwritable_ = true;
    std::cout << "NeuralHamiltonian: " << file_ << " cannot be written: the table of uncertainty is left out."
              << std::endl;
  }
}
