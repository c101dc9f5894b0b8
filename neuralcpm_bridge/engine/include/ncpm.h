/*
 * ncpm: exact energy differences of learned cellular Potts models, as a plain C library.
 *
 *   ncpm_model* model = ncpm_load("model.onnx");
 *   ncpm_state* state = ncpm_create(model, height, width, ids, cells, types, NULL);
 *   double delta;
 *   if (ncpm_delta(state, row, col, new_id, &delta) != NCPM_OK) puts(ncpm_last_error());
 *   ncpm_free_state(state);
 *   ncpm_free_model(model);
 *
 * State: ids[row * width + col] is the cell of a site, 0 the medium; types[id] is the cell's type in the order of the
 * model's type names, types[0] = 0, -1 = no such cell. Energies are w_S*H_S and w_NN*H_NN in the convention of
 * docs/artifact.md; accept a flip with min(1, exp(-delta / T)).
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
#define NCPM_ABI_VERSION 1

/* Results. */
#define NCPM_OK 0
#define NCPM_ERROR 1  /* see ncpm_last_error() */
#define NCPM_HANDLE 2 /* the handle is null, of another kind, or was freed */

/* Parts of the energy that ncpm_delta and ncpm_sweep go by. */
#define NCPM_TERM_FULL 0
#define NCPM_TERM_NEURAL 1
#define NCPM_TERM_SYMBOLIC 2

/* Flags of a sweep. */
#define NCPM_VON_NEUMANN 1   /* copy from the 4 nearest neighbours, not from all 8 */
#define NCPM_BOUNDARY_ONLY 2 /* skip attempts within one cell, counting them: the same process, faster */

typedef struct ncpm_model ncpm_model;
typedef struct ncpm_state ncpm_state;

typedef struct ncpm_options {
  int32_t term;              /* NCPM_TERM_... */
  int32_t forbid_extinction; /* not 0: taking a cell's last pixel has delta = +infinity */
} ncpm_options;

typedef struct ncpm_counts {
  int64_t attempts;  /* height * width per Monte Carlo step */
  int64_t proposals; /* attempts between different cells */
  int64_t accepted;
} ncpm_counts;

NCPM_API uint32_t ncpm_abi_version(void);

/* What went wrong in this thread's last failed call; "" if none failed. Valid until the thread's next call. */
NCPM_API const char* ncpm_last_error(void);

/* The instruction set the kernels run on ("avx512", "avx2", "baseline"); NULL if NEURALCPM_ISA asks for an unusable
 * one. */
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
NCPM_API int ncpm_temperature(const ncpm_model* model, double* temperature); /* of training */
NCPM_API int ncpm_is_periodic(const ncpm_model* model, int32_t* periodic);
NCPM_API int ncpm_forbids_extinction(const ncpm_model* model, int32_t* forbids); /* as in training */

/* -- States ------------------------------------------------------------------------------------------------ */

/* ids: height * width entries, types: cells entries; both are copied. options: NULL for the full energy without an
 * extinction rule. */
NCPM_API ncpm_state* ncpm_create(const ncpm_model* model, int32_t height, int32_t width, const int32_t* ids,
                                 int32_t cells, const int32_t* types, const ncpm_options* options);
NCPM_API int ncpm_free_state(ncpm_state* state);

/* Another state on the same lattice. */
NCPM_API int ncpm_reset(ncpm_state* state, const int32_t* ids, int32_t cells, const int32_t* types);

NCPM_API int ncpm_energy(ncpm_state* state, double* symbolic, double* neural);

/* delta: of the selected term, if new_id were copied into the site. Nothing changes. */
NCPM_API int ncpm_delta(ncpm_state* state, int32_t row, int32_t col, int32_t new_id, double* delta);
NCPM_API int ncpm_delta_parts(ncpm_state* state, int32_t row, int32_t col, int32_t new_id, double* symbolic,
                              double* neural);

/* Applies a flip; cheap directly after its ncpm_delta. */
NCPM_API int ncpm_commit(ncpm_state* state, int32_t row, int32_t col, int32_t new_id);

/* Many pixels at once: a division, a death, a layout. Of several entries for one site the last holds. */
NCPM_API int ncpm_change_pixels(ncpm_state* state, int32_t count, const int32_t* rows, const int32_t* cols,
                                const int32_t* new_ids);

/* Changes a cell's type; an id that does not exist yet appears, type -1 removes a cell without pixels. */
NCPM_API int ncpm_set_type(ncpm_state* state, int32_t id, int32_t type);

/* A cell dies: its pixels become medium, its id ceases to exist. */
NCPM_API int ncpm_remove_cell(ncpm_state* state, int32_t id);

/* mcs Monte Carlo steps. Random numbers are a function of seed and the number of attempts made so far: two sweeps
 * of 5 steps with one seed are the same as one of 10. counts may be NULL. */
NCPM_API int ncpm_sweep(ncpm_state* state, int64_t mcs, double temperature, uint64_t seed, uint32_t flags,
                        ncpm_counts* counts);

/* The current state. ids: height * width entries. */
NCPM_API int ncpm_get_ids(ncpm_state* state, int32_t* ids);
NCPM_API int ncpm_get_cell_count(ncpm_state* state, int32_t* cells); /* ids, medium included */
/* types and volumes: `cells` entries each, as ncpm_get_cell_count says; either may be NULL. */
NCPM_API int ncpm_get_cells(ncpm_state* state, int32_t cells, int32_t* types, int64_t* volumes);

#ifdef __cplusplus
}
#endif

#endif /* NCPM_H */
