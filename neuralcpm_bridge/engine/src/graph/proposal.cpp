#include "graph/proposal.hpp"

#include <algorithm>

namespace ncpm::graph {

Proposal::Proposal(const CellInputs& inputs, Network& network, Relations& relations, const Distances& distances,
                   Cells& cells, const std::vector<std::int64_t>& totals)
    : cell_inputs_(inputs),
      network_(network),
      distances_(distances),
      cells_(cells),
      totals_(totals),
      changes_(inputs, relations),
      inputs_(2 * inputs.count()) {}

void Proposal::make(const Tissue& tissue, int site, std::int32_t new_id) {
  valid_ = true;
  slots_.clear();
  links_.clear();
  changed_.clear();
  cells_.forget_marks();
  changes_.find(tissue, cells_, site, new_id);
  for (int i = 0; i < changes_.count(); ++i)
    for (const Contact& contact : changes_[i].contacts) cells_.read_ahead(cells_[contact.id], 0);
  changes_.relate(cells_);
  embed(tissue);
  for (int round = 0; round < network_.weights.rounds; ++round) run(round);
  sum_up(tissue);
}

// Features of the two cells.
void Proposal::embed(const Tissue& tissue) {
  int alive = 0;
  for (int i = 0; i < changes_.count(); ++i) {
    const Change& change = changes_[i];
    if (!change.alive()) continue;
    cell_inputs_.write(tissue, change.id, change.shape, change.pairs, &inputs_[alive++ * cell_inputs_.count()]);
    Slot& own = slots_[mark(change.id)];
    own.change = &change;
    own.medium_pairs = change.medium_pairs;
    own.share = change.share;
  }
  changed_.push_back(alive);
  make_room(alive);
  network_.embed(alive, inputs_.data(), features_.data());
}

// -- whom it reaches --------------------------------------------------------------------------------------

int Proposal::mark(std::int32_t id) {
  Cell& cell = cells_[id];
  if (cells_.mark(cell, int(slots_.size()))) {
    Slot& slot = slots_.emplace_back();
    slot.cell = &cell;
    slot.id = id;
    slot.medium_pairs = cell.medium_pairs;
    slot.share = cell.share;
  }
  return cell.slot;
}

// All contacts of a cell as they will be. Those with one of the two cells are known there.
void Proposal::link(int slot) {
  const int first = int(links_.size());
  if (const Change* change = slots_[slot].change) {
    for (std::size_t k = 0; k < change->contacts.size(); ++k) {
      const Contact& contact = change->contacts[k];
      const View there = contact.tied ? View{change->back[k].inputs, false} : View{contact.inputs, true};
      add(links_, mark(contact.id), contact.pairs, {contact.inputs, false}, there);
    }
  } else {
    const std::int32_t id = slots_[slot].id;
    for (const Contact& contact : *slots_[slot].cell)
      if (!changes_.change(contact.id))
        add(links_, mark(contact.id), contact.pairs, {contact.inputs, false}, seen_by_other(contact, id));
    for (int one = 0; one < changed_[0]; ++one)
      for (int k = slots_[one].first; k < slots_[one].last; ++k)
        if (links_[k].slot == slot) add(links_, one, links_[k].pairs, links_[k].there, links_[k].here);
  }
  slots_[slot].first = first;
  slots_[slot].last = int(links_.size());
}

void Proposal::link_past(int number) {
  const std::int32_t id = changes_[number].id;
  past_[number].clear();
  for (const Contact& contact : cells_[id])
    if (!changes_.change(contact.id))
      add(past_[number], mark(contact.id), contact.pairs, {contact.inputs, false}, seen_by_other(contact, id));
}

// In place, member by member: what is put together and then copied waits for itself.
void Proposal::add(std::vector<Link>& links, int slot, std::int32_t pairs, View here, View there) {
  Link& link = links.emplace_back();
  link.slot = slot;
  link.pairs = pairs;
  link.here = here;
  link.there = there;
}

// A contact that cell `id` keeps.
Proposal::View Proposal::seen_by_other(const Contact& contact, std::int32_t id) const {
  if (!contact.tied) return {contact.inputs, true};
  return {Cells::find(cells_[contact.id], id)->inputs, false};
}

// -- one round --------------------------------------------------------------------------------------------

// From the features of the cells that changed to those of their neighbours too.
void Proposal::run(int round) {
  const bool more = round + 1 < network_.weights.rounds;
  const int first = round ? changed_[round - 1] : 0, changed = changed_[round];
  for (int slot = first; slot < changed; ++slot) link(slot);
  if (round == 0) {
    for (int i = 0; i < changes_.count(); ++i) link_past(i);
    for (const Changes::Share& share : changes_.medium()) slots_[mark(share.id)].medium_pairs += share.pairs;
  }
  const int all = int(slots_.size());
  changed_.push_back(all);
  make_room(all);
  if (more)
    for (int slot = changed; slot < all; ++slot) Cells::read_contacts_ahead(*slots_[slot].cell);
  network_.project(round, changed, features_.data(), own_row(round, 0));
  prepare(round, changed, all);
  receive(round, changed);
  if (round == 0) take_out_past();
  pass_on(round, first, changed);
  if (more) read_ahead(round + 1, changed, all);
  network_.send(round, messages_.data(), messages_.size());
  network_.finish(round, all, row_.data(), own_sums(round, 0), features_.data());
}

// Rows by slot; sums from nothing for the cells whose features changed, from what they were for the others.
void Proposal::prepare(int round, int changed, int all) {
  const int features = network_.weights.features();
  row_.resize(all);
  messages_.clear();
  for (int slot = 0; slot < changed; ++slot) row_[slot] = own_row(round, slot);
  std::fill_n(own_sums(round, 0), std::size_t(changed) * features, 0);
  for (int slot = changed; slot < all; ++slot) {
    Cell& cell = *slots_[slot].cell;
    row_[slot] = cells_.row(cell, round);
    std::copy_n(cells_.sums(cell, round), features, own_sums(round, slot));
  }
}

// All messages to the cells whose own features changed.
void Proposal::receive(int round, int changed) {
  for (int slot = 0; slot < changed; ++slot) {
    say_medium(round, slot, slots_[slot].medium_pairs);
    for (int k = slots_[slot].first; k < slots_[slot].last; ++k) {
      const Link& link = links_[k];
      say(round, slot, row_[link.slot], nullptr, link.pairs, link.here);
    }
  }
}

// To their neighbours in the first round: what the two cells said as they were is taken out, and so with the medium.
void Proposal::take_out_past() {
  for (int i = 0; i < changes_.count(); ++i)
    for (const Link& link : past_[i])
      say(0, link.slot, cells_.row(cells_[changes_[i].id], 0), nullptr, -link.pairs, link.there);
  for (const Changes::Share& share : changes_.medium()) {
    const Cell& cell = cells_[share.id];
    say_medium(0, cell.slot, -cell.medium_pairs);
    say_medium(0, cell.slot, slots_[cell.slot].medium_pairs);
  }
}

// From the cells that have just changed to those whose features have not. Behind the first round contacts are what they
// were, and what was said before is taken out at once.
void Proposal::pass_on(int round, int first, int changed) {
  for (int slot = first; slot < changed; ++slot) {
    const float* before = round ? cells_.row(*slots_[slot].cell, round) : nullptr;
    for (int k = slots_[slot].first; k < slots_[slot].last; ++k) {
      const Link& link = links_[k];
      if (link.slot >= changed) say(round, link.slot, row_[slot], before, link.pairs, link.there);
    }
  }
}

// Rows are those of cells: senders are heard by a part of theirs.
void Proposal::say(int round, int to, const float* sender, const float* before, std::int32_t pairs, View view) {
  const int part = network_.weights.width;
  Message& message = messages_.emplace_back();
  message.own = row_[to];
  message.other = sender + part;
  message.before = before ? before + part : nullptr;
  message.inputs = view.inputs;
  message.sum = own_sums(round, to);
  message.weight = float(pairs) * slots_[to].share;
  message.touch = pairs > 0 ? kTouch : -kTouch;
  message.swapped = view.swapped;
}

void Proposal::say_medium(int round, int to, std::int32_t pairs) {
  static constexpr float nothing[kEdgeInputs] = {};
  if (pairs) say(round, to, network_.weights.round[round].medium.data(), nullptr, pairs, {nothing, false});
}

// Among thousands of cells most lines have to come from far: those of the next round are asked for while there is other
// work.
void Proposal::read_ahead(int round, int first, int last) {
  for (int slot = first; slot < last; ++slot) {
    cells_.read_ahead(*slots_[slot].cell, round);
    for (const Contact& contact : *slots_[slot].cell) cells_.read_ahead(cells_[contact.id], round);
  }
}

void Proposal::sum_up(const Tissue& tissue) {
  const int count = changed_.back(), members = network_.weights.members;
  at_least(energies_, std::size_t(count) * members);
  network_.energies(count, features_.data(), energies_.data());
  deltas_.assign(members, 0);
  for (int member = 0; member < members; ++member)
    if (totals_[member] == kUndefined) deltas_[member] = kUndefined;
  const auto add = [&](int member, std::int64_t energy) {
    if (energy == kUndefined || deltas_[member] == kUndefined) deltas_[member] = kUndefined;
    else deltas_[member] += energy;
  };
  const std::int64_t* energy = energies_.data();
  for (const Slot& slot : slots_) {
    const std::int64_t* before = cells_.energies(*slot.cell);
    for (int member = 0; member < members; ++member) {
      add(member, *energy++);
      add(member, -before[member]);
    }
  }
  for (int i = 0; i < changes_.count(); ++i)
    if (!changes_[i].alive())
      for (int member = 0; member < members; ++member) add(member, -cells_.energies(cells_[changes_[i].id])[member]);
  pair_deltas_.assign(members, 0);
  distances_.add_changes(tissue, cells_, changes_, pair_deltas_);
  for (int member = 0; member < members; ++member) add(member, pair_deltas_[member]);
}

// Keeps what earlier rounds have put into theirs.
void Proposal::make_room(int slots) {
  if (slots <= capacity_) return;
  const int more = std::max(slots, 2 * capacity_), rounds = network_.weights.rounds;
  const auto widen = [&](auto& values, std::size_t size) {
    std::remove_reference_t<decltype(values)> wider(std::size_t(rounds) * more * size);
    for (int round = 0; round < rounds; ++round)
      std::copy_n(values.begin() + std::size_t(round) * capacity_ * size, std::size_t(capacity_) * size,
                  wider.begin() + std::size_t(round) * more * size);
    values.swap(wider);
  };
  widen(own_rows_, network_.weights.projected());
  widen(own_sums_, network_.weights.features());
  features_.resize(std::size_t(more) * network_.weights.features());
  capacity_ = more;
}

// -- afterwards -------------------------------------------------------------------------------------------

void Proposal::accept() {
  valid_ = false;
  const Weights& weights = network_.weights;
  changes_.accept(cells_);
  for (int round = 0; round < weights.rounds; ++round)
    for (int slot = 0; slot < changed_[round + 1]; ++slot) {
      Cell& cell = *slots_[slot].cell;
      if (slot < changed_[round]) std::copy_n(own_row(round, slot), weights.projected(), cells_.row(cell, round));
      std::copy_n(own_sums(round, slot), weights.features(), cells_.sums(cell, round));
    }
  for (int i = 0; i < changes_.count(); ++i)
    if (!changes_[i].alive()) std::fill_n(cells_.energies(cells_[changes_[i].id]), weights.members, 0);
  const std::int64_t* energy = energies_.data();
  for (const Slot& slot : slots_)
    for (int member = 0; member < weights.members; ++member, ++energy)
      cells_.energies(*slot.cell)[member] = *energy == kUndefined ? 0 : *energy;
}

}  // namespace ncpm::graph
