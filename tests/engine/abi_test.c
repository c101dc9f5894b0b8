/* Uses the engine as a host would: plain C, nothing but ncpm.h. Prints what it computed; exits 0 if all checks hold. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ncpm.h"

#define CHECK(condition)                                                                          \
  do {                                                                                            \
    if (!(condition)) {                                                                           \
      fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #condition, ncpm_last_error()); \
      exit(1);                                                                                    \
    }                                                                                             \
  } while (0)

enum { H = 12, W = 14 };

static int32_t ids[H * W];
static const int32_t types[3] = {0, 1, 2};

static void misuse(ncpm_model* model, ncpm_state* state) {
  int32_t number;
  double value, other;
  int64_t foreign[64] = {0};
  int32_t bad[3] = {0, 1, 9};
  ncpm_options options = {7, 0};

  CHECK(ncpm_load(NULL) == NULL);
  CHECK(ncpm_load("/nowhere/model.onnx") == NULL);
  CHECK(strstr(ncpm_last_error(), "/nowhere/model.onnx") != NULL);
  CHECK(ncpm_create(NULL, H, W, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create((ncpm_model*)state, H, W, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, -1, W, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, 2000000000, 2000000000, NULL, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, H, W, NULL, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, H, W, ids, 3, bad, NULL) == NULL);
  CHECK(ncpm_create(model, H, W, ids, -3, types, NULL) == NULL);
  CHECK(ncpm_create(model, H, W, ids, 3, types, &options) == NULL);
  CHECK(ncpm_metadata((ncpm_model*)foreign) == NULL);
  CHECK(ncpm_type_name(model, 3) == NULL);
  CHECK(ncpm_type_count(model, NULL) == NCPM_ERROR);
  CHECK(ncpm_energy(NULL, &value, &other) == NCPM_HANDLE);
  CHECK(ncpm_energy((ncpm_state*)model, &value, &other) == NCPM_HANDLE);
  CHECK(ncpm_energy((ncpm_state*)foreign, &value, &other) == NCPM_HANDLE);
  CHECK(ncpm_energy(state, NULL, &other) == NCPM_ERROR);
  CHECK(ncpm_delta(state, H, 0, 1, &value) == NCPM_ERROR);
  CHECK(ncpm_delta(state, 0, -1, 1, &value) == NCPM_ERROR);
  CHECK(ncpm_delta(state, 0, 0, 3, &value) == NCPM_ERROR);
  CHECK(ncpm_delta(state, 0, 0, 1, NULL) == NCPM_ERROR);
  CHECK(ncpm_commit(state, 0, 0, -1) == NCPM_ERROR);
  CHECK(ncpm_change_pixels(state, -1, ids, ids, ids) == NCPM_ERROR);
  CHECK(ncpm_change_pixels(state, 1, NULL, ids, ids) == NCPM_ERROR);
  CHECK(ncpm_change_pixels(state, 0, NULL, NULL, NULL) == NCPM_OK);
  CHECK(ncpm_set_type(state, 1, 3) == NCPM_ERROR);
  CHECK(ncpm_set_type(state, 2147483647, 1) == NCPM_ERROR);
  CHECK(ncpm_remove_cell(state, 77) == NCPM_ERROR);
  CHECK(ncpm_reset(state, ids, 3, bad) == NCPM_ERROR);
  CHECK(ncpm_sweep(state, -1, 1.0, 0, 0, NULL) == NCPM_ERROR);
  CHECK(ncpm_sweep(state, 1, NAN, 0, 0, NULL) == NCPM_ERROR);
  CHECK(ncpm_sweep(state, 1, 1.0, 0, 8, NULL) == NCPM_ERROR);
  CHECK(ncpm_get_ids(state, NULL) == NCPM_ERROR);
  CHECK(ncpm_get_cells(state, 2, &number, NULL) == NCPM_ERROR);
  CHECK(strlen(ncpm_last_error()) > 0);
}

int main(int argc, char** argv) {
  ncpm_model* model;
  ncpm_state *state, *strict;
  ncpm_options options = {NCPM_TERM_FULL, 1};
  ncpm_counts counts;
  double symbolic, neural, delta, delta_s, delta_n, after_s, after_n, temperature;
  int32_t count, periodic, forbids, now[H * W], of_cell[5];
  int64_t volumes[5];
  int32_t rows[2] = {4, 5}, cols[2] = {4, 4}, fresh[2] = {4, 4};

  CHECK(argc == 2);
  CHECK(ncpm_abi_version() == NCPM_ABI_VERSION);
  CHECK(strcmp(ncpm_last_error(), "") == 0);
  CHECK(ncpm_isa() != NULL);
  for (int row = 3; row < 8; ++row)
    for (int col = 3; col < 9; ++col) ids[row * W + col] = col < 6 ? 1 : 2;
  ids[0] = 2;

  model = ncpm_load(argv[1]);
  CHECK(model != NULL);
  CHECK(ncpm_metadata(model)[0] == '{');
  CHECK(ncpm_type_count(model, &count) == NCPM_OK && count == 3);
  CHECK(strcmp(ncpm_type_name(model, 0), "medium") == 0);
  CHECK(ncpm_temperature(model, &temperature) == NCPM_OK && temperature == 2.5);
  CHECK(ncpm_is_periodic(model, &periodic) == NCPM_OK && periodic == 1);
  CHECK(ncpm_forbids_extinction(model, &forbids) == NCPM_OK && forbids == 1);

  state = ncpm_create(model, H, W, ids, 3, types, NULL);
  CHECK(state != NULL);
  misuse(model, state);

  /* A flip changes the energy by its delta. */
  CHECK(ncpm_energy(state, &symbolic, &neural) == NCPM_OK);
  CHECK(ncpm_delta(state, 2, 4, 1, &delta) == NCPM_OK);
  CHECK(ncpm_delta_parts(state, 2, 4, 1, &delta_s, &delta_n) == NCPM_OK);
  CHECK(fabs(delta - delta_s - delta_n) < 1e-9);
  printf("%.17g %.17g %.17g %.17g\n", symbolic, neural, delta_s, delta_n);
  CHECK(ncpm_commit(state, 2, 4, 1) == NCPM_OK);
  CHECK(ncpm_energy(state, &after_s, &after_n) == NCPM_OK);
  CHECK(fabs(after_s - symbolic - delta_s) < 1e-9 && fabs(after_n - neural - delta_n) < 1e-4);

  /* Division, death, and the way back. */
  CHECK(ncpm_set_type(state, 4, 1) == NCPM_OK);
  CHECK(ncpm_change_pixels(state, 2, rows, cols, fresh) == NCPM_OK);
  CHECK(ncpm_get_cell_count(state, &count) == NCPM_OK && count == 5);
  CHECK(ncpm_get_cells(state, count, of_cell, volumes) == NCPM_OK);
  CHECK(of_cell[3] == -1 && of_cell[4] == 1 && volumes[4] == 2 && volumes[1] == 14);
  CHECK(ncpm_remove_cell(state, 4) == NCPM_OK);
  CHECK(ncpm_get_ids(state, now) == NCPM_OK && now[4 * W + 4] == 0);
  CHECK(ncpm_reset(state, ids, 3, types) == NCPM_OK);
  CHECK(ncpm_energy(state, &after_s, &after_n) == NCPM_OK);
  CHECK(after_s == symbolic && after_n == neural);

  /* Rules and dynamics. */
  strict = ncpm_create(model, H, W, ids, 3, types, &options);
  CHECK(ncpm_change_pixels(strict, 0, NULL, NULL, NULL) == NCPM_OK);
  CHECK(ncpm_sweep(strict, 2, 1.0, 5, NCPM_BOUNDARY_ONLY, NULL) == NCPM_OK);
  CHECK(ncpm_sweep(state, 3, 1.0, 11, NCPM_VON_NEUMANN, &counts) == NCPM_OK);
  CHECK(counts.attempts == 3 * H * W && counts.proposals >= counts.accepted);

  /* A state outlives its model's handle; freed handles are known as such. */
  CHECK(ncpm_free_model(model) == NCPM_OK);
  CHECK(ncpm_free_model(model) == NCPM_HANDLE);
  CHECK(ncpm_delta(state, 0, 0, 1, &delta) == NCPM_OK);
  CHECK(ncpm_free_state(state) == NCPM_OK);
  CHECK(ncpm_free_state(state) == NCPM_HANDLE);
  CHECK(ncpm_delta(state, 0, 0, 1, &delta) == NCPM_HANDLE);
  CHECK(ncpm_free_state(NULL) == NCPM_HANDLE);
  CHECK(ncpm_free_state(strict) == NCPM_OK);
  return 0;
}
