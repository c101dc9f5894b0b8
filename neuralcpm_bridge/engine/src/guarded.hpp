// A state that is handed out to other languages: whoever uses it holds it alone.
#pragma once

#include <mutex>

#include "error.hpp"
#include "state.hpp"

namespace ncpm {

struct GuardedState {
  State state;
  std::mutex mutex;

  GuardedState(std::shared_ptr<const Model> model, int height, int width, std::vector<std::int32_t> ids,
               std::vector<std::int32_t> types, StateOptions options)
      : state(std::move(model), height, width, std::move(ids), std::move(types), options) {}

  // Never waits: two threads on one state is a mistake of the caller, and waiting could deadlock an interpreter.
  std::unique_lock<std::mutex> claim() {
    std::unique_lock<std::mutex> lock(mutex, std::try_to_lock);
    if (!lock) throw Error("This state is in use by another thread: wait for it, or give every thread its own state.");
    return lock;
  }
};

}  // namespace ncpm
