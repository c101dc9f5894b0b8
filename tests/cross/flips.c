/* Walks through random flips of a model, on whatever machine: prints every ΔH, checks energies and caches by the way.
 *
 *   flips MODEL COUNT STEPS SEED        reads "Zellen – Übung 1/MODEL.onnx"
 *
 * The state is a grid of square (cubic) cells of alternating types with a border of medium. After the instruction set,
 * the ids and the types every flip is printed as "site id ΔS ΔN"; every third one is made. Exits 0 if the energy
 * followed the sum of the ΔH and equals, bit for bit, that of a state made anew from the pixels, and does so again
 * after STEPS Monte Carlo steps.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ncpm.h"

#define CHECK(condition)                                                                          \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #condition, ncpm_last_error()); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

#define FOLDER                   \
  "Zellen \xe2\x80\x93 \xc3\x9c" \
  "bung 1" /* paths are UTF-8 everywhere */

enum { SIDE = 33, DEEP_SIDE = 14, CELL = 5, BORDER = 2, MOST_SITES = DEEP_SIDE * DEEP_SIDE * DEEP_SIDE };

static int32_t ids[MOST_SITES], types[MOST_SITES];
static uint64_t random_state;

/* The same numbers everywhere: Knuth's MMIX generator. */
static int64_t below(int64_t bound) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((random_state >> 33) % (uint64_t)bound);
}

/* Fills `ids` and `types`; the number of cells, medium included. */
static int32_t lay_out_cells(const ncpm_lattice* lattice, int32_t type_count) {
  const int64_t side = lattice->shape[1], per_row = (side - 2 * BORDER) / CELL;
  const int64_t planes = lattice->dimension == 3 ? side : 1;
  int32_t cells = 1;
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t row = 0; row < side; ++row)
      for (int64_t col = 0; col < side; ++col) {
        const int64_t r = (row - BORDER) / CELL, c = (col - BORDER) / CELL,
                      p = planes > 1 ? (plane - BORDER) / CELL : 0;
        const int inside = row >= BORDER && col >= BORDER && r < per_row && c < per_row &&
                           (planes == 1 || (plane >= BORDER && p < per_row));
        const int32_t id = inside ? 1 + (int32_t)((p * per_row + r) * per_row + c) : 0;
        ids[(plane * side + row) * side + col] = id;
        if (id >= cells) cells = id + 1;
      }
  for (int32_t id = 1; id < cells; ++id) types[id] = 1 + (id - 1) % (type_count - 1);
  return cells;
}

static void print_numbers(const int32_t* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) printf("%d ", (int)numbers[i]);
  printf("\n");
}

/* The energy kept by `state` is, bit for bit, that of a state made anew from `ids`. */
static void check_against_rebuild(const ncpm_model* model, const ncpm_lattice* lattice, ncpm_state* state,
                                  int32_t cells) {
  double kept_s, kept_n, symbolic, neural;
  ncpm_state* fresh = ncpm_create(model, lattice, ids, cells, types, NULL);
  CHECK(fresh != NULL && ncpm_energy(fresh, &symbolic, &neural) == NCPM_OK);
  CHECK(ncpm_energy(state, &kept_s, &kept_n) == NCPM_OK);
  CHECK(kept_s == symbolic && kept_n == neural);
  CHECK(ncpm_free_state(fresh) == NCPM_OK);
}

int main(int argc, char** argv) {
  ncpm_lattice lattice = {2, {SIDE, SIDE, 0}, {-1, -1, -1}, NCPM_AXES};
  double symbolic, neural, start_s, start_n, delta_s, delta_n, sum_s = 0, sum_n = 0, scale = 0;
  int32_t geometry, type_count, cells;
  char path[200];
  ncpm_model* model;
  ncpm_state* state;

  CHECK(argc == 5);
  random_state = strtoull(argv[4], NULL, 10);
  CHECK(snprintf(path, sizeof path, FOLDER "/%s.onnx", argv[1]) < (int)sizeof path);
  model = ncpm_load(path);
  CHECK(model != NULL);
  CHECK(ncpm_geometry(model, &geometry) == NCPM_OK && ncpm_type_count(model, &type_count) == NCPM_OK);
  if (geometry == NCPM_CUBIC) {
    const ncpm_lattice deep = {3, {DEEP_SIDE, DEEP_SIDE, DEEP_SIDE}, {-1, -1, -1}, NCPM_AXES};
    lattice = deep;
  }
  cells = lay_out_cells(&lattice, type_count);
  state = ncpm_create(model, &lattice, ids, cells, types, NULL);
  CHECK(state != NULL);
  CHECK(ncpm_energy(state, &start_s, &start_n) == NCPM_OK);

  const int64_t sites = geometry == NCPM_CUBIC ? MOST_SITES : SIDE * SIDE;
  printf("%s\n", ncpm_isa());
  print_numbers(ids, sites);
  print_numbers(types, cells);
  for (int64_t done = 0, count = strtoll(argv[2], NULL, 10); done < count;) {
    const int64_t site = below(sites);
    const int32_t new_id = ids[(site + 1 + below(SIDE)) % sites]; /* some cell not far away, or the medium */
    if (new_id == ids[site]) continue;
    CHECK(ncpm_delta(state, site, new_id, &delta_s) == NCPM_OK);
    if (isinf(delta_s)) continue; /* a rule forbids it: around a ring */
    CHECK(ncpm_delta_parts(state, site, new_id, &delta_s, &delta_n) == NCPM_OK);
    printf("%d %d %.17g %.17g\n", (int)site, (int)new_id, delta_s, delta_n);
    if (++done % 3) continue;
    CHECK(ncpm_commit(state, site, new_id) == NCPM_OK);
    ids[site] = new_id;
    sum_s += delta_s;
    sum_n += delta_n;
    scale += fabs(delta_n);
  }
  CHECK(ncpm_energy(state, &symbolic, &neural) == NCPM_OK);
  CHECK(fabs(symbolic - start_s - sum_s) <= 1e-9 * (1 + fabs(symbolic)));
  CHECK(fabs(neural - start_n - sum_n) <= 1e-5 * (1 + fabs(neural) + scale));
  check_against_rebuild(model, &lattice, state, cells);
  printf("%.17g %.17g\n", symbolic, neural);
  CHECK(ncpm_sweep(state, strtoll(argv[3], NULL, 10), 2.0, 5, 0, 0, NULL) == NCPM_OK);
  CHECK(ncpm_get_ids(state, ids) == NCPM_OK);
  check_against_rebuild(model, &lattice, state, cells);
  return 0;
}
