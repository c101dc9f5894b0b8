/*
 * ncpm: exact energy differences of learned cellular Potts models, as a plain C library.
 *
 *   ncpm_model* model = ncpm_load("model.onnx");
 *   const ncpm_lattice lattice = {2, {height, width}, {-1, -1}, NCPM_AXES};
 *   ncpm_state* state = ncpm_create(model, &lattice, ids, cells, types, NULL);
 *   double delta;
 *   if (ncpm_delta(state, row * width + col, new_id, &delta) != NCPM_OK) puts(ncpm_last_error());
 *   ncpm_free_state(state);
 *   ncpm_free_model(model);
 *
 * State: ids[site] is the cell of a site, 0 the medium; sites go row by row, site = row * width + col, in 3D
 * site = (plane * height + row) * width + col; types[id] is the cell's type in the order of the model's type names,
 * types[0] = 0, -1 = no such cell. Energies are w_S*H_S and w_NN*H_NN in the convention of docs/artifact.md; accept a
 * flip with min(1, exp(-delta / T)).
 *
 * A host that numbers cells in its own way uses a mirror instead of a state: it follows cells by the host's ids.
 *
 * Errors: functions that make a handle return NULL, the others a code other than NCPM_OK, and ncpm_last_error() then
 * says in one sentence what was found, what was expected and what to do. A failed call changes nothing. No call
 * exits, prints, or lets an exception out. Null, foreign and freed handles are refused.
 *
 * Threads: different states may be used by different threads at the same time; two threads on one state get
 * NCPM_ERROR. A model may be freed while states made from it live.
 */
#ifndef NCPM_H
#define NCPM_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(NCPM_BUILD)
#define NCPM_API __declspec(dllexport)
#else
#define NCPM_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define NCPM_API __attribute__((visibility("default")))
#else
#define NCPM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Of this header. Grows with every change that breaks callers; compare with ncpm_abi_version() after loading. */
#define NCPM_ABI_VERSION 2

/* Results. */
#define NCPM_OK 0
#define NCPM_ERROR 1  /* see ncpm_last_error() */
#define NCPM_HANDLE 2 /* the handle is null, of another kind, or was freed */

/* Parts of the energy that ncpm_delta and ncpm_sweep go by. */
#define NCPM_PART_FULL 0
#define NCPM_PART_NEURAL 1
#define NCPM_PART_SYMBOLIC 2

/* Geometries. */
#define NCPM_SQUARE 0
#define NCPM_HEXAGONAL 1
#define NCPM_CUBIC 2

/* How a hexagonal lattice is stored: on skewed axes, x = col + row/2, y = sqrt(3)/2 * row, or in rows of which every
 * second one is pushed by half a site (x + 1/2 for even rows, x for odd ones). Others: NCPM_AXES. */
#define NCPM_AXES 0
#define NCPM_ROWS 1

/* Flags of a sweep. */
#define NCPM_BOUNDARY_ONLY 1 /* skip attempts within one cell, counting them: the same process, faster */

typedef struct ncpm_model ncpm_model;
typedef struct ncpm_state ncpm_state;
typedef struct ncpm_mirror ncpm_mirror;

/* Arrays go by axis: rows, columns; in 3D planes, rows, columns. */
typedef struct ncpm_lattice {
  int32_t dimension;   /* 2 or 3 */
  int32_t shape[3];    /* sites along each axis */
  int32_t periodic[3]; /* 1: a ring, 0: free, -1: as the model was trained */
  int32_t layout;      /* NCPM_AXES or NCPM_ROWS */
} ncpm_lattice;

typedef struct ncpm_options {
  int32_t part;              /* NCPM_PART_... */
  int32_t forbid_extinction; /* not 0: taking a cell's last pixel has delta = +infinity */
} ncpm_options;

typedef struct ncpm_counts {
  int64_t attempts;  /* one per site and Monte Carlo step */
  int64_t proposals; /* attempts between different cells */
  int64_t accepted;
} ncpm_counts;

NCPM_API uint32_t ncpm_abi_version(void);

/* What went wrong in this thread's last failed call; "" if none failed. Valid until the thread's next call. */
NCPM_API const char* ncpm_last_error(void);

/* The instruction set the kernels run on ("avx512", "avx2", "neon", "baseline"); NULL if NEURALCPM_ISA asks for an
 * unusable one. */
NCPM_API const char* ncpm_isa(void);

/* -- Models ------------------------------------------------------------------------------------------------ */

/* Reads an artifact (path in UTF-8), checks its hash and its stored examples. */
NCPM_API ncpm_model* ncpm_load(const char* path);
NCPM_API int ncpm_free_model(ncpm_model* model);

/* The description as JSON; valid as long as the model. */
NCPM_API const char* ncpm_metadata(const ncpm_model* model);
NCPM_API int ncpm_type_count(const ncpm_model* model, int32_t* count);
/* Name of a type, 0 being the medium; NULL if there is none. Valid as long as the model. */
NCPM_API const char* ncpm_type_name(const ncpm_model* model, int32_t type);
NCPM_API int ncpm_temperature(const ncpm_model* model, double* temperature);             /* of training */
NCPM_API int ncpm_geometry(const ncpm_model* model, int32_t* geometry);                  /* NCPM_SQUARE, ... */
NCPM_API int ncpm_is_periodic(const ncpm_model* model, int32_t axis, int32_t* periodic); /* as in training */
NCPM_API int ncpm_forbids_extinction(const ncpm_model* model, int32_t* forbids);         /* as in training */

NCPM_API int ncpm_member_count(const ncpm_model* model, int32_t* count); /* of a committee; 1 for a single network */

/* Properties of cells that the model reads, besides their types: a marker's intensity, an age. */
NCPM_API int ncpm_property_count(const ncpm_model* model, int32_t* count);
NCPM_API const char* ncpm_property_name(const ncpm_model* model, int32_t number); /* valid as long as the model */

/* -- States ------------------------------------------------------------------------------------------------ */

/* ids: one entry per site, types: cells entries; both are copied. options: NULL for the full energy without an
 * extinction rule. */
NCPM_API ncpm_state* ncpm_create(const ncpm_model* model, const ncpm_lattice* lattice, const int32_t* ids,
                                 int32_t cells, const int32_t* types, const ncpm_options* options);
NCPM_API int ncpm_free_state(ncpm_state* state);

/* Another state on the same lattice. */
NCPM_API int ncpm_reset(ncpm_state* state, const int32_t* ids, int32_t cells, const int32_t* types);

NCPM_API int ncpm_energy(ncpm_state* state, double* symbolic, double* neural);

/* delta: of the selected part, if new_id were copied into the site. Nothing changes. */
NCPM_API int ncpm_delta(ncpm_state* state, int64_t site, int32_t new_id, double* delta);
NCPM_API int ncpm_delta_parts(ncpm_state* state, int64_t site, int32_t new_id, double* symbolic, double* neural);

/* How far the members of a committee disagree about the neural part, or about what a flip does to it: a standard
 * deviation, 0 for a single network. */
NCPM_API int ncpm_spread(ncpm_state* state, double* spread);
NCPM_API int ncpm_delta_spread(ncpm_state* state, int64_t site, int32_t new_id, double* spread);

/* Of every id, 1 if its cell is like those of the training data (or nobody knows), 0 if not: `cells` entries, as
 * ncpm_get_cell_count says. */
NCPM_API int ncpm_inside_range(ncpm_state* state, int32_t cells, uint8_t* inside);

/* Applies a flip; cheap directly after its ncpm_delta. */
NCPM_API int ncpm_commit(ncpm_state* state, int64_t site, int32_t new_id);

/* Many pixels at once: a division, a death, a layout. Of several entries for one site the last holds. */
NCPM_API int ncpm_change_pixels(ncpm_state* state, int64_t count, const int64_t* sites, const int32_t* new_ids);

/* Changes a cell's type; an id that does not exist yet appears, type -1 removes a cell without pixels. */
NCPM_API int ncpm_set_type(ncpm_state* state, int32_t id, int32_t type);

/* One of the properties that the model reads, by its number; until it is set, a cell has the mean of the training
 * data. */
NCPM_API int ncpm_set_property(ncpm_state* state, int32_t id, int32_t number, double value);

/* A cell dies: its pixels become medium, its id ceases to exist. */
NCPM_API int ncpm_remove_cell(ncpm_state* state, int32_t id);

/* mcs Monte Carlo steps that copy from neighbours up to the copy_order-th distance (0: all around a site). Random
 * numbers are a function of seed and the number of attempts made so far: two sweeps of 5 steps with one seed are the
 * same as one of 10. counts may be NULL. */
NCPM_API int ncpm_sweep(ncpm_state* state, int64_t mcs, double temperature, uint64_t seed, int32_t copy_order,
                        uint32_t flags, ncpm_counts* counts);

/* The current state. ids: one entry per site. */
NCPM_API int ncpm_get_ids(ncpm_state* state, int32_t* ids);
NCPM_API int ncpm_get_cell_count(ncpm_state* state, int32_t* cells); /* ids, medium included */
/* types and volumes: `cells` entries each, as ncpm_get_cell_count says; either may be NULL. */
NCPM_API int ncpm_get_cells(ncpm_state* state, int32_t cells, int32_t* types, int64_t* volumes);

/* -- Mirrors ----------------------------------------------------------------------------------------------- */

/* The model's copy of a host's tissue, by the host's own ids: any whole numbers, 0 for the medium. Types are the
 * model's; a cell of type 0 is seen as medium. Two calls answer "followed": 0 means that only another load can tell. */
NCPM_API ncpm_mirror* ncpm_mirror_create(const ncpm_model* model, const ncpm_lattice* lattice,
                                         const ncpm_options* options);
NCPM_API int ncpm_free_mirror(ncpm_mirror* mirror);

/* Takes over a whole lattice: a host id per site, and id and type of all cells. */
NCPM_API int ncpm_mirror_load(ncpm_mirror* mirror, const int64_t* host_ids, int64_t cells, const int64_t* cell_ids,
                              const int32_t* types);

/* All cells that there are now, new and changed ones among them and those that died no more, and pixels written
 * outside of the Metropolis algorithm: `written` sites with the host id found there. */
NCPM_API int ncpm_mirror_follow(ncpm_mirror* mirror, int64_t cells, const int64_t* cell_ids, const int32_t* types,
                                int64_t written, const int64_t* sites, const int64_t* host_ids, int32_t* followed);

/* One cell that is new, or whose type may have changed. */
NCPM_API int ncpm_mirror_appear(ncpm_mirror* mirror, int64_t host_id, int32_t type, int32_t* followed);

/* After a load and where cells are new or their properties may have changed: those that are seen as medium have none.
 */
NCPM_API int ncpm_mirror_set_property(ncpm_mirror* mirror, int64_t host_id, int32_t number, double value);

NCPM_API int ncpm_mirror_delta(ncpm_mirror* mirror, int64_t site, int64_t host_id, double* delta);
NCPM_API int ncpm_mirror_commit(ncpm_mirror* mirror, int64_t site, int64_t host_id);
NCPM_API int ncpm_mirror_energy(ncpm_mirror* mirror, double* symbolic, double* neural);

/* How far the members of a committee disagree about a copy: cheap directly after its ncpm_mirror_delta. */
NCPM_API int ncpm_mirror_delta_spread(ncpm_mirror* mirror, int64_t site, int64_t host_id, double* spread);

/* What the members say of a copy in the mean, the neural part of its delta, and how far they disagree. */
NCPM_API int ncpm_mirror_opinion(ncpm_mirror* mirror, int64_t site, int64_t host_id, double* neural, double* spread);

/* Share of a copy's cells, the one that is there and the one to come, without medium, that are unlike those of the
 * training data; 0 where nobody knows. */
NCPM_API int ncpm_mirror_outside(ncpm_mirror* mirror, int64_t site, int64_t host_id, double* share);

/* How many cells the model sees, and how many of them are unlike those of the training data; -1: nobody knows. */
NCPM_API int ncpm_mirror_range(ncpm_mirror* mirror, int64_t* cells, int64_t* outside);

/* Compares with the host's lattice, which is taken over where they differ, and the cached energy with one computed from
 * scratch: the number of differing sites, the recomputed energy, and the largest difference of a part of it. */
NCPM_API int ncpm_mirror_compare(ncpm_mirror* mirror, const int64_t* host_ids, int64_t* differing, double* symbolic,
                                 double* neural, double* drift);

#ifdef __cplusplus
}
#endif

#endif /* NCPM_H */
