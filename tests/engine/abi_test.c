/* Uses the engine as a host would: plain C, nothing but ncpm.h. Prints what it computed; exits 0 if all checks hold.
 *
 *   abi_test square.onnx hexagonal.onnx cubic.onnx graph.onnx
 */
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

enum { H = 12, W = 14, SITES = H * W };

static const ncpm_lattice square = {2, {H, W, 0}, {-1, -1, -1}, NCPM_AXES};
static int32_t ids[SITES];
static const int32_t types[3] = {0, 1, 2};

/* -- States ------------------------------------------------------------------------------------------------ */

static void misuse_of_lattices(ncpm_model* model) {
  const ncpm_lattice flat = {1, {SITES, 0, 0}, {-1, -1, -1}, NCPM_AXES};
  const ncpm_lattice deep = {3, {1, H, W}, {-1, -1, -1}, NCPM_AXES};
  const ncpm_lattice negative = {2, {-1, W, 0}, {-1, -1, -1}, NCPM_AXES};
  const ncpm_lattice huge = {2, {2000000000, 2000000000, 0}, {-1, -1, -1}, NCPM_AXES};
  const ncpm_lattice pushed = {2, {H, W, 0}, {-1, -1, -1}, NCPM_ROWS};
  const ncpm_lattice unknown = {2, {H, W, 0}, {-1, -1, -1}, 7};
  CHECK(ncpm_create(model, NULL, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &flat, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &deep, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &negative, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &huge, NULL, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &pushed, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &unknown, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_mirror_create(model, NULL, NULL) == NULL);
  CHECK(ncpm_mirror_create(model, &deep, NULL) == NULL);
  CHECK(ncpm_mirror_create(model, &pushed, NULL) == NULL);
}

static void misuse(ncpm_model* model, ncpm_state* state) {
  int32_t number;
  double value, other;
  int64_t foreign[64] = {0};
  int64_t sites[2] = {0, SITES};
  int32_t bad[3] = {0, 1, 9};
  ncpm_options options = {7, 0};

  misuse_of_lattices(model);
  CHECK(ncpm_load(NULL) == NULL);
  CHECK(ncpm_load("/nowhere/model.onnx") == NULL);
  CHECK(strstr(ncpm_last_error(), "/nowhere/model.onnx") != NULL);
  CHECK(ncpm_create(NULL, &square, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create((ncpm_model*)state, &square, ids, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &square, NULL, 3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &square, ids, 3, bad, NULL) == NULL);
  CHECK(ncpm_create(model, &square, ids, -3, types, NULL) == NULL);
  CHECK(ncpm_create(model, &square, ids, 3, types, &options) == NULL);
  CHECK(ncpm_metadata((ncpm_model*)foreign) == NULL);
  CHECK(ncpm_type_name(model, 3) == NULL);
  CHECK(ncpm_type_count(model, NULL) == NCPM_ERROR);
  CHECK(ncpm_geometry(model, NULL) == NCPM_ERROR);
  CHECK(ncpm_geometry((ncpm_model*)foreign, &number) == NCPM_HANDLE);
  CHECK(ncpm_is_periodic(model, 2, &number) == NCPM_ERROR);
  CHECK(ncpm_is_periodic(model, -1, &number) == NCPM_ERROR);
  CHECK(ncpm_is_periodic(model, 0, NULL) == NCPM_ERROR);
  CHECK(ncpm_energy(NULL, &value, &other) == NCPM_HANDLE);
  CHECK(ncpm_energy((ncpm_state*)model, &value, &other) == NCPM_HANDLE);
  CHECK(ncpm_energy((ncpm_state*)foreign, &value, &other) == NCPM_HANDLE);
  CHECK(ncpm_energy(state, NULL, &other) == NCPM_ERROR);
  CHECK(ncpm_delta(state, SITES, 1, &value) == NCPM_ERROR);
  CHECK(ncpm_delta(state, -1, 1, &value) == NCPM_ERROR);
  CHECK(ncpm_delta(state, (int64_t)1 << 40, 1, &value) == NCPM_ERROR);
  CHECK(ncpm_delta(state, 0, 3, &value) == NCPM_ERROR);
  CHECK(ncpm_delta(state, 0, 1, NULL) == NCPM_ERROR);
  CHECK(ncpm_commit(state, 0, -1) == NCPM_ERROR);
  CHECK(ncpm_change_pixels(state, -1, sites, ids) == NCPM_ERROR);
  CHECK(ncpm_change_pixels(state, 1, NULL, ids) == NCPM_ERROR);
  CHECK(ncpm_change_pixels(state, 1, sites, NULL) == NCPM_ERROR);
  CHECK(ncpm_change_pixels(state, 2, sites, ids) == NCPM_ERROR);
  CHECK(ncpm_change_pixels(state, 0, NULL, NULL) == NCPM_OK);
  CHECK(ncpm_set_type(state, 1, 3) == NCPM_ERROR);
  CHECK(ncpm_set_type(state, 2147483647, 1) == NCPM_ERROR);
  CHECK(ncpm_remove_cell(state, 77) == NCPM_ERROR);
  CHECK(ncpm_reset(state, ids, 3, bad) == NCPM_ERROR);
  CHECK(ncpm_sweep(state, -1, 1.0, 0, 0, 0, NULL) == NCPM_ERROR);
  CHECK(ncpm_sweep(state, 1, NAN, 0, 0, 0, NULL) == NCPM_ERROR);
  CHECK(ncpm_sweep(state, 1, 1.0, 0, -1, 0, NULL) == NCPM_ERROR);
  CHECK(ncpm_sweep(state, 1, 1.0, 0, 99, 0, NULL) == NCPM_ERROR);
  CHECK(ncpm_sweep(state, 1, 1.0, 0, 0, 8, NULL) == NCPM_ERROR);
  CHECK(ncpm_get_ids(state, NULL) == NCPM_ERROR);
  CHECK(ncpm_get_cells(state, 2, &number, NULL) == NCPM_ERROR);
  CHECK(strlen(ncpm_last_error()) > 0);
}

static void states(ncpm_model* model) {
  ncpm_state *state, *strict;
  ncpm_options options = {NCPM_PART_FULL, 1};
  ncpm_counts counts;
  double symbolic, neural, delta, delta_s, delta_n, after_s, after_n;
  int32_t count, now[SITES], of_cell[5];
  int64_t volumes[5];
  const int64_t site = 2 * W + 4, divided[2] = {4 * W + 4, 5 * W + 4};
  const int32_t fresh[2] = {4, 4};

  state = ncpm_create(model, &square, ids, 3, types, NULL);
  CHECK(state != NULL);
  misuse(model, state);

  /* A flip changes the energy by its delta. */
  CHECK(ncpm_energy(state, &symbolic, &neural) == NCPM_OK);
  CHECK(ncpm_delta(state, site, 1, &delta) == NCPM_OK);
  CHECK(ncpm_delta_parts(state, site, 1, &delta_s, &delta_n) == NCPM_OK);
  CHECK(fabs(delta - delta_s - delta_n) < 1e-9);
  printf("%.17g %.17g %.17g %.17g\n", symbolic, neural, delta_s, delta_n);
  CHECK(ncpm_commit(state, site, 1) == NCPM_OK);
  CHECK(ncpm_energy(state, &after_s, &after_n) == NCPM_OK);
  CHECK(fabs(after_s - symbolic - delta_s) < 1e-9 && fabs(after_n - neural - delta_n) < 1e-4);

  /* Division, death, and the way back. */
  CHECK(ncpm_set_type(state, 4, 1) == NCPM_OK);
  CHECK(ncpm_change_pixels(state, 2, divided, fresh) == NCPM_OK);
  CHECK(ncpm_get_cell_count(state, &count) == NCPM_OK && count == 5);
  CHECK(ncpm_get_cells(state, count, of_cell, volumes) == NCPM_OK);
  CHECK(of_cell[3] == -1 && of_cell[4] == 1 && volumes[4] == 2 && volumes[1] == 14);
  CHECK(ncpm_remove_cell(state, 4) == NCPM_OK);
  CHECK(ncpm_get_ids(state, now) == NCPM_OK && now[divided[0]] == 0);
  CHECK(ncpm_reset(state, ids, 3, types) == NCPM_OK);
  CHECK(ncpm_energy(state, &after_s, &after_n) == NCPM_OK);
  CHECK(after_s == symbolic && after_n == neural);

  /* Rules and dynamics. */
  strict = ncpm_create(model, &square, ids, 3, types, &options);
  CHECK(ncpm_change_pixels(strict, 0, NULL, NULL) == NCPM_OK);
  CHECK(ncpm_sweep(strict, 2, 1.0, 5, 0, NCPM_BOUNDARY_ONLY, NULL) == NCPM_OK);
  CHECK(ncpm_sweep(state, 3, 1.0, 11, 1, 0, &counts) == NCPM_OK);
  CHECK(counts.attempts == 3 * SITES && counts.proposals >= counts.accepted);

  /* A state outlives its model's handle; freed handles are known as such. */
  CHECK(ncpm_free_model(model) == NCPM_OK);
  CHECK(ncpm_free_model(model) == NCPM_HANDLE);
  CHECK(ncpm_delta(state, 0, 1, &delta) == NCPM_OK);
  CHECK(ncpm_free_state(state) == NCPM_OK);
  CHECK(ncpm_free_state(state) == NCPM_HANDLE);
  CHECK(ncpm_delta(state, 0, 1, &delta) == NCPM_HANDLE);
  CHECK(ncpm_free_state(NULL) == NCPM_HANDLE);
  CHECK(ncpm_free_state(strict) == NCPM_OK);
}

/* -- Mirrors ----------------------------------------------------------------------------------------------- */

enum { ROWS = 6, COLUMNS = 8, HEXAGONS = ROWS * COLUMNS };

#define FIRST ((int64_t)1 << 40)
#define SECOND ((int64_t)-7)
#define THIRD ((int64_t)12)

/* As CompuCell3D stores hexagons, periodic along the rows only. */
static const ncpm_lattice hexagonal = {2, {ROWS, COLUMNS, 0}, {0, 1, 0}, NCPM_ROWS};
static int64_t host[HEXAGONS];
static const int64_t cells[3] = {FIRST, SECOND, THIRD};
static const int32_t cell_types[3] = {1, 2, 0};

static void misuse_before_loading(ncpm_model* model, ncpm_mirror* mirror) {
  double value, other, drift;
  int64_t foreign[64] = {0}, site = 0, differing;
  int32_t followed, bad_types[3] = {1, 3, 0};
  ncpm_options options = {-1, 0};

  CHECK(ncpm_mirror_create(NULL, &hexagonal, NULL) == NULL);
  CHECK(ncpm_mirror_create((ncpm_model*)mirror, &hexagonal, NULL) == NULL);
  CHECK(ncpm_mirror_create(model, &hexagonal, &options) == NULL);
  CHECK(ncpm_free_mirror(NULL) == NCPM_HANDLE);
  CHECK(ncpm_mirror_load(NULL, host, 3, cells, cell_types) == NCPM_HANDLE);
  CHECK(ncpm_mirror_energy((ncpm_mirror*)model, &value, &other) == NCPM_HANDLE);
  CHECK(ncpm_mirror_energy((ncpm_mirror*)foreign, &value, &other) == NCPM_HANDLE);
  CHECK(ncpm_energy((ncpm_state*)mirror, &value, &other) == NCPM_HANDLE);

  /* Nothing answers before a lattice was loaded, and no failed load leaves half of one. */
  for (int loads = 0; loads < 2; ++loads) {
    CHECK(ncpm_mirror_energy(mirror, &value, &other) == NCPM_ERROR);
    CHECK(ncpm_mirror_delta(mirror, 0, 0, &value) == NCPM_ERROR);
    CHECK(ncpm_mirror_commit(mirror, 0, 0) == NCPM_ERROR);
    CHECK(ncpm_mirror_appear(mirror, 5, 1, &followed) == NCPM_ERROR);
    CHECK(ncpm_mirror_appear(mirror, 5, 0, &followed) == NCPM_ERROR);
    CHECK(ncpm_mirror_follow(mirror, 3, cells, cell_types, 0, NULL, NULL, &followed) == NCPM_ERROR);
    CHECK(ncpm_mirror_follow(mirror, 3, cells, cell_types, 1, &site, host, &followed) == NCPM_ERROR);
    CHECK(ncpm_mirror_compare(mirror, host, &differing, &value, &other, &drift) == NCPM_ERROR);
    CHECK(strstr(ncpm_last_error(), "load") != NULL);
    CHECK(ncpm_mirror_load(mirror, NULL, 3, cells, cell_types) == NCPM_ERROR);
    CHECK(ncpm_mirror_load(mirror, host, -1, cells, cell_types) == NCPM_ERROR);
    CHECK(ncpm_mirror_load(mirror, host, 3, NULL, cell_types) == NCPM_ERROR);
    CHECK(ncpm_mirror_load(mirror, host, 3, cells, NULL) == NCPM_ERROR);
    CHECK(ncpm_mirror_load(mirror, host, 3, cells, bad_types) == NCPM_ERROR);
    CHECK(ncpm_mirror_load(mirror, host, 2, cells, cell_types) == NCPM_ERROR); /* the third is on the lattice */
    CHECK(strstr(ncpm_last_error(), "Cell 12 ") != NULL);
  }
}

static void misuse_after_loading(ncpm_mirror* mirror) {
  double before_s, before_n, value, other, drift;
  int64_t outside = HEXAGONS, site = 0, stranger = 99, differing;
  int32_t followed = 7, bad_types[3] = {1, -1, 0};

  CHECK(ncpm_mirror_energy(mirror, &before_s, &before_n) == NCPM_OK);
  CHECK(ncpm_mirror_delta(mirror, HEXAGONS, FIRST, &value) == NCPM_ERROR);
  CHECK(ncpm_mirror_delta(mirror, -1, FIRST, &value) == NCPM_ERROR);
  CHECK(ncpm_mirror_delta(mirror, 0, FIRST, NULL) == NCPM_ERROR);
  CHECK(ncpm_mirror_delta(mirror, 0, 99, &value) == NCPM_ERROR);
  CHECK(ncpm_mirror_commit(mirror, 0, 99) == NCPM_ERROR);
  CHECK(ncpm_mirror_commit(mirror, HEXAGONS, FIRST) == NCPM_ERROR);
  CHECK(ncpm_mirror_energy(mirror, NULL, &other) == NCPM_ERROR);
  CHECK(ncpm_mirror_appear(mirror, 99, 3, &followed) == NCPM_ERROR);
  CHECK(ncpm_mirror_appear(mirror, 99, 1, NULL) == NCPM_ERROR);
  CHECK(ncpm_mirror_delta(mirror, 0, 99, &value) == NCPM_ERROR); /* still a stranger */
  CHECK(ncpm_mirror_follow(mirror, 3, cells, cell_types, 0, NULL, NULL, NULL) == NCPM_ERROR);
  CHECK(ncpm_mirror_follow(mirror, -3, cells, cell_types, 0, NULL, NULL, &followed) == NCPM_ERROR);
  CHECK(ncpm_mirror_follow(mirror, 3, NULL, cell_types, 0, NULL, NULL, &followed) == NCPM_ERROR);
  CHECK(ncpm_mirror_follow(mirror, 3, cells, bad_types, 0, NULL, NULL, &followed) == NCPM_ERROR);
  CHECK(ncpm_mirror_follow(mirror, 3, cells, cell_types, -1, &site, host, &followed) == NCPM_ERROR);
  CHECK(ncpm_mirror_follow(mirror, 3, cells, cell_types, 1, NULL, host, &followed) == NCPM_ERROR);
  CHECK(ncpm_mirror_follow(mirror, 3, cells, cell_types, 1, &site, NULL, &followed) == NCPM_ERROR);
  CHECK(ncpm_mirror_follow(mirror, 3, cells, cell_types, 1, &outside, host, &followed) == NCPM_ERROR);
  CHECK(followed == 7);
  CHECK(ncpm_mirror_compare(mirror, NULL, &differing, &value, &other, &drift) == NCPM_ERROR);
  CHECK(ncpm_mirror_compare(mirror, host, NULL, &value, &other, &drift) == NCPM_ERROR);
  CHECK(ncpm_mirror_compare(mirror, host, &differing, &value, NULL, &drift) == NCPM_ERROR);
  CHECK(ncpm_mirror_compare(mirror, host, &differing, &value, &other, NULL) == NCPM_ERROR);
  CHECK(ncpm_mirror_energy(mirror, &value, &other) == NCPM_OK && value == before_s && other == before_n);

  /* A pixel of a cell that nobody listed: only a load can tell. */
  CHECK(ncpm_mirror_follow(mirror, 3, cells, cell_types, 1, &site, &stranger, &followed) == NCPM_OK && followed == 0);
}

static void mirrors(ncpm_model* model) {
  ncpm_mirror* mirror;
  double symbolic, neural, delta, after, drift;
  int64_t differing;
  const int64_t now[3] = {FIRST, SECOND, -1};
  const int32_t now_types[3] = {1, 2, 2};
  const int64_t sites[2] = {9, 10}, daughter[2] = {-1, -1};
  int32_t number;

  CHECK(ncpm_geometry(model, &number) == NCPM_OK && number == NCPM_HEXAGONAL);
  for (int row = 1; row < 5; ++row)
    for (int col = 1; col < 7; ++col) host[row * COLUMNS + col] = col < 3 ? FIRST : col < 5 ? SECOND : THIRD;
  mirror = ncpm_mirror_create(model, &hexagonal, NULL);
  CHECK(mirror != NULL);
  misuse_before_loading(model, mirror);
  CHECK(ncpm_mirror_load(mirror, host, 3, cells, cell_types) == NCPM_OK);
  misuse_after_loading(mirror);
  CHECK(ncpm_mirror_load(mirror, host, 3, cells, cell_types) == NCPM_OK);

  CHECK(ncpm_mirror_energy(mirror, &symbolic, &neural) == NCPM_OK && neural == 0);
  CHECK(ncpm_mirror_delta(mirror, 11, FIRST, &delta) == NCPM_OK);
  printf("%.17g %.17g\n", symbolic, delta);
  CHECK(ncpm_mirror_delta(mirror, 13, 0, &delta) == NCPM_OK && delta == 0); /* the third is medium already */
  CHECK(ncpm_mirror_commit(mirror, 11, FIRST) == NCPM_OK);
  host[11] = FIRST;
  CHECK(ncpm_mirror_compare(mirror, host, &differing, &symbolic, &neural, &drift) == NCPM_OK);
  CHECK(differing == 0 && drift == 0);

  /* A daughter takes two pixels, the third cell dies. */
  host[9] = host[10] = -1;
  for (int site = 0; site < HEXAGONS; ++site)
    if (host[site] == THIRD) host[site] = 0;
  CHECK(ncpm_mirror_follow(mirror, 3, now, now_types, 2, sites, daughter, &number) == NCPM_OK && number == 1);
  CHECK(ncpm_mirror_compare(mirror, host, &differing, &symbolic, &neural, &drift) == NCPM_OK);
  CHECK(differing == 0 && drift == 0);
  CHECK(ncpm_mirror_delta(mirror, 0, THIRD, &delta) == NCPM_ERROR); /* forgotten */

  /* A cell appears on its own; one that becomes medium asks for a load. */
  CHECK(ncpm_mirror_appear(mirror, 4, 2, &number) == NCPM_OK && number == 1);
  CHECK(ncpm_mirror_delta(mirror, 0, 4, &delta) == NCPM_OK);
  CHECK(ncpm_mirror_appear(mirror, -1, 1, &number) == NCPM_OK && number == 1); /* another type */
  CHECK(ncpm_mirror_appear(mirror, -1, 0, &number) == NCPM_OK && number == 0);

  /* What the host did behind the mirror's back is found and taken over. */
  host[0] = host[1] = SECOND;
  CHECK(ncpm_mirror_compare(mirror, host, &differing, &symbolic, &neural, &drift) == NCPM_OK);
  CHECK(differing == 2 && drift == 0);
  CHECK(ncpm_mirror_compare(mirror, host, &differing, &symbolic, &neural, &drift) == NCPM_OK);
  CHECK(differing == 0);
  CHECK(ncpm_mirror_energy(mirror, &after, &neural) == NCPM_OK && after == symbolic);

  CHECK(ncpm_free_model(model) == NCPM_OK);
  CHECK(ncpm_mirror_delta(mirror, 0, FIRST, &delta) == NCPM_OK);
  CHECK(ncpm_free_mirror(mirror) == NCPM_OK);
  CHECK(ncpm_free_mirror(mirror) == NCPM_HANDLE);
  CHECK(ncpm_mirror_delta(mirror, 0, FIRST, &delta) == NCPM_HANDLE);
}

/* -- 3D ---------------------------------------------------------------------------------------------------- */

static void solid(ncpm_model* model) {
  const ncpm_lattice cubic = {3, {3, 4, 5}, {1, 0, -1}, NCPM_AXES};
  int32_t voxels[60] = {0}, number;
  double symbolic, neural, delta;
  ncpm_state* state;

  for (int plane = 0; plane < 2; ++plane)
    for (int row = 1; row < 3; ++row) voxels[(plane * 4 + row) * 5 + 4] = 1 + plane;
  CHECK(ncpm_geometry(model, &number) == NCPM_OK && number == NCPM_CUBIC);
  CHECK(ncpm_is_periodic(model, 2, &number) == NCPM_OK && number == 1);
  state = ncpm_create(model, &cubic, voxels, 3, types, NULL);
  CHECK(state != NULL);
  CHECK(ncpm_energy(state, &symbolic, &neural) == NCPM_OK);
  CHECK(ncpm_delta(state, 59, 1, &delta) == NCPM_OK);
  printf("%.17g %.17g\n", symbolic, delta);
  CHECK(ncpm_sweep(state, 5, 1.0, 3, 4, 0, NULL) == NCPM_OK);
  CHECK(ncpm_free_state(state) == NCPM_OK);
  CHECK(ncpm_free_model(model) == NCPM_OK);
}

/* -- Properties of cells ----------------------------------------------------------------------------------- */

static void properties(ncpm_model* model) {
  const int64_t host_cells[3] = {40, 30, 20}; /* the last one is seen as medium */
  const int32_t host_types[3] = {2, 1, 0};
  int64_t host_ids[SITES];
  double symbolic, neural, delta, mirrored, other, spread, delta_spread;
  uint8_t inside[3];
  int32_t count;
  ncpm_state* state;
  ncpm_mirror* mirror;

  CHECK(ncpm_property_count(model, &count) == NCPM_OK && count == 2);
  CHECK(ncpm_property_count(model, NULL) == NCPM_ERROR);
  CHECK(strcmp(ncpm_property_name(model, 0), "age") == 0 && strcmp(ncpm_property_name(model, 1), "marker") == 0);
  CHECK(ncpm_property_name(model, 2) == NULL && ncpm_property_name(model, -1) == NULL);
  ids[0] = 0; /* a cell in two places has no shape */
  state = ncpm_create(model, &square, ids, 3, types, NULL);
  CHECK(state != NULL);
  CHECK(ncpm_set_property(state, 1, 0, 1.5) == NCPM_OK);
  CHECK(ncpm_set_property(state, 2, 1, -2.0) == NCPM_OK);
  CHECK(ncpm_set_property(state, 0, 0, 1.0) == NCPM_ERROR);
  CHECK(ncpm_set_property(state, 3, 0, 1.0) == NCPM_ERROR);
  CHECK(ncpm_set_property(state, 1, 2, 1.0) == NCPM_ERROR);
  CHECK(ncpm_set_property(state, 1, 0, NAN) == NCPM_ERROR);
  CHECK(ncpm_energy(state, &symbolic, &neural) == NCPM_OK);
  CHECK(ncpm_delta(state, 2 * W + 4, 1, &delta) == NCPM_OK);
  CHECK(ncpm_member_count(model, &count) == NCPM_OK && count == 2);
  CHECK(ncpm_member_count(model, NULL) == NCPM_ERROR);
  CHECK(ncpm_spread(state, &spread) == NCPM_OK && ncpm_spread(state, NULL) == NCPM_ERROR);
  CHECK(ncpm_delta_spread(state, 2 * W + 4, 1, &delta_spread) == NCPM_OK);
  CHECK(ncpm_delta_spread(state, 2 * W + 4, 9, &delta_spread) == NCPM_ERROR);
  CHECK(ncpm_delta_spread(state, 2 * W + 4, 1, NULL) == NCPM_ERROR);
  CHECK(ncpm_inside_range(state, 3, inside) == NCPM_OK && ncpm_inside_range(state, 3, NULL) == NCPM_ERROR);
  CHECK(ncpm_inside_range(state, 2, inside) == NCPM_ERROR);
  printf("%.17g %.17g %.17g %.17g %d %d %d\n", neural, delta, spread, delta_spread, inside[0], inside[1], inside[2]);

  for (int site = 0; site < SITES; ++site) host_ids[site] = ids[site] == 1 ? 30 : ids[site] == 2 ? 40 : 20;
  mirror = ncpm_mirror_create(model, &square, NULL);
  CHECK(ncpm_mirror_set_property(mirror, 30, 0, 1.5) == NCPM_ERROR); /* nothing loaded */
  CHECK(ncpm_mirror_load(mirror, host_ids, 3, host_cells, host_types) == NCPM_OK);
  CHECK(ncpm_mirror_set_property(mirror, 30, 0, 1.5) == NCPM_OK);
  CHECK(ncpm_mirror_set_property(mirror, 40, 1, -2.0) == NCPM_OK);
  CHECK(ncpm_mirror_set_property(mirror, 20, 1, 9.0) == NCPM_OK); /* the medium has none */
  CHECK(ncpm_mirror_set_property(mirror, 99, 1, 9.0) == NCPM_ERROR);
  CHECK(ncpm_mirror_energy(mirror, &symbolic, &mirrored) == NCPM_OK && mirrored == neural);
  CHECK(ncpm_mirror_delta(mirror, 2 * W + 4, 30, &other) == NCPM_OK && other == delta);
  CHECK(ncpm_free_mirror(mirror) == NCPM_OK);
  CHECK(ncpm_free_state(state) == NCPM_OK);
  CHECK(ncpm_free_model(model) == NCPM_OK);
}

int main(int argc, char** argv) {
  ncpm_model* model;
  double temperature;
  int32_t count, periodic, forbids, geometry;

  CHECK(argc == 5);
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
  CHECK(ncpm_geometry(model, &geometry) == NCPM_OK && geometry == NCPM_SQUARE);
  CHECK(ncpm_is_periodic(model, 0, &periodic) == NCPM_OK && periodic == 1);
  CHECK(ncpm_is_periodic(model, 1, &periodic) == NCPM_OK && periodic == 0);
  CHECK(ncpm_forbids_extinction(model, &forbids) == NCPM_OK && forbids == 1);
  states(model);

  model = ncpm_load(argv[2]);
  CHECK(model != NULL);
  mirrors(model);
  model = ncpm_load(argv[3]);
  CHECK(model != NULL);
  solid(model);
  model = ncpm_load(argv[4]);
  CHECK(model != NULL);
  properties(model);
  return 0;
}
