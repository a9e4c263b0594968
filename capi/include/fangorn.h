// Fangorn: predicts with trained decision forests. The book's chapter "In C" has an example.
//
// Every call checks its pointers for null, their alignment and the lengths that it is told, and nothing unwinds out of it.
// The section Safety of a function says what it can't check.
//
// Written by cbindgen from capi/src; change it there: FANGORN_BLESS=1 cargo test --manifest-path capi/Cargo.toml --test header


#ifndef FANGORN_H
#define FANGORN_H

#include <stddef.h>
#include <stdint.h>

// The values of a matrix are 32-bit floats.
#define FANGORN_F32 0

// The values of a matrix are 64-bit floats.
#define FANGORN_F64 1

// The values that the producer's own `predict` returns: for example, the probabilities of a classifier.
// 32-bit floats.
#define FANGORN_VALUES 0

// The sums before the objective's transform: for example, log odds. 32-bit floats.
#define FANGORN_MARGINS 1

// What each column adds to each margin (SHAP values), with the bias after the columns. 32-bit floats.
#define FANGORN_CONTRIBUTIONS 2

// The numbers of the predicted classes. 32-bit integers.
#define FANGORN_CLASSES 3

// The leaf that a row reaches in each tree, by the producer's leaf id. 32-bit integers.
#define FANGORN_LEAF_IDS 4

// The result of a call. `fangorn_last_error` gives the message of every status but `FANGORN_STATUS_OK`.
enum FangornStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The call succeeded.
  FANGORN_STATUS_OK = 0,
  // An argument is invalid: a null pointer, a buffer that is too short, an unknown option.
  FANGORN_STATUS_INVALID_ARGUMENT = 1,
  // A file could not be read.
  FANGORN_STATUS_IO = 2,
  // The model can't be used: it is malformed, exceeds a limit, contains something that is not supported, or its sums
  // can't keep the contract.
  FANGORN_STATUS_MODEL = 3,
  // The rows do not fit the model: for example, they have another number of columns.
  FANGORN_STATUS_ROWS = 4,
  // The model can't do what is asked: for example, a regressor has no classes.
  FANGORN_STATUS_UNSUPPORTED = 5,
  // Fangorn or the machine has a defect. Please report it with the message and the model.
  FANGORN_STATUS_INTERNAL = 6,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum FangornStatus FangornStatus;
#else
typedef int32_t FangornStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A trained forest, compiled for this machine's CPU. It never changes, so threads may share it.
typedef struct FangornModel FangornModel;

// How a model is read and compiled. Get the defaults from `fangorn_options`, then change what you want.
typedef struct {
  // `sizeof(FangornOptions)`. The library refuses options of another size, which belong to another version.
  size_t size;
  // The number of threads that predict. 0 stands for the number that the machine runs at the same time. With 1, a
  // prediction runs on the calling thread, but contributions run on a thread of the library.
  size_t threads;
  // How the forest is walked: a preset's name, a schedule's text, or the contents of a file that `fangorn tune`
  // wrote. Null stands for the default.
  const char *schedule;
  // The contract of sums: `any`, `tree` or `exact`, as in the book's chapter on sums. Null stands for `any`.
  const char *sum;
  // The first boosting round to keep.
  uint32_t first_round;
  // The boosting round to stop before. 0 keeps all rounds from the first on.
  uint32_t end_round;
} FangornOptions;

// Rows in the caller's memory, which is only read. NaN is a missing value. The value of row r and column c is
// `values[r * row_stride + c * column_stride]`. `fangorn_matrix_f32` and `fangorn_matrix_f64` describe row-major
// matrices without gaps.
typedef struct {
  // The first value. It may be null if there are no rows.
  const void *values;
  // The number of values that may be read from `values` on. Values past them are never read.
  size_t length;
  // `FANGORN_F32` or `FANGORN_F64`.
  int32_t value_type;
  // The number of rows.
  size_t rows;
  // The number of columns, which has to be that of the model.
  size_t columns;
  // The distance from one row to the next, in values.
  size_t row_stride;
  // The distance from one column to the next, in values.
  size_t column_stride;
} FangornMatrix;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the library's version. The text is static: do not free it.
const char *fangorn_version(void);

// Returns the message of the last refused call of this thread: one line that says what is wrong and what to do. The
// text is empty if no call of this thread was refused. It is valid until another call of this thread is refused, or
// the thread ends.
const char *fangorn_last_error(void);

// Returns the default options.
FangornOptions fangorn_options(void);

// Describes a row-major matrix of 32-bit floats without gaps.
FangornMatrix fangorn_matrix_f32(const float *values, size_t rows, size_t columns);

// Describes a row-major matrix of 64-bit floats without gaps.
FangornMatrix fangorn_matrix_f64(const double *values, size_t rows, size_t columns);

// Reads a model file of any format that Fangorn knows, and compiles it for this machine. `path` is UTF-8. `options`
// may be null. `*model` becomes the model, or null if the call is refused. Free the model with `fangorn_free`.
//
// # Safety
// `path` and the options' texts end with a zero. `options` is null, or points to options whose `size` is right. A
// pointer may be written to `model`.
FangornStatus fangorn_load(const char *path, const FangornOptions *options, FangornModel **model);

// Reads a model from the bytes of its file. Otherwise it does what `fangorn_load` does. The bytes may be freed when
// the call returns.
//
// # Safety
// `bytes` points to `length` bytes. `options` and `model` are as for `fangorn_load`.
FangornStatus fangorn_load_bytes(const uint8_t *bytes,
                                 size_t length,
                                 const FangornOptions *options,
                                 FangornModel **model);

// Frees a model. It does nothing if `model` is null.
//
// # Safety
// `model` is null, or comes from `fangorn_load` or `fangorn_load_bytes`, was not freed, and no call uses it.
void fangorn_free(FangornModel *model);

// Returns the number of columns of a row, or 0 if `model` is null.
//
// # Safety
// `model` is null or a model that was not freed.
size_t fangorn_columns(const FangornModel *model);

// Returns the number of trees, or 0 if `model` is null.
//
// # Safety
// `model` is null or a model that was not freed.
size_t fangorn_trees(const FangornModel *model);

// Returns the name that the model file gives a column. Returns null if the file gives none, there is no such column,
// or `model` is null. The text lives as long as the model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_column_name(const FangornModel *model, size_t column);

// Returns the number of classes that have labels in the model file, or 0 if `model` is null.
//
// # Safety
// `model` is null or a model that was not freed.
size_t fangorn_labels(const FangornModel *model);

// Returns the label of a class, given the number that `FANGORN_CLASSES` gives it. Returns null if the model file has
// no such label, or `model` is null. The text lives as long as the model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_label(const FangornModel *model, size_t class_number);

// Returns the warnings of the compilation, one a line: for example, that the fast code failed its self-check and
// slower code runs. The text is empty if there are no warnings or `model` is null. It lives as long as the model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_warnings(const FangornModel *model);

// Writes the number of results of a row to `*width`. `output` is one of `FANGORN_VALUES`, `FANGORN_MARGINS`,
// `FANGORN_CONTRIBUTIONS`, `FANGORN_CLASSES` and `FANGORN_LEAF_IDS`.
//
// # Safety
// `model` is null or a model that was not freed. A number may be written to `width`.
FangornStatus fangorn_width(const FangornModel *model, int32_t output, size_t *width);

// Predicts rows and writes floats to `out`: `fangorn_width` results for each row, row after row. `output` is
// `FANGORN_VALUES`, `FANGORN_MARGINS` or `FANGORN_CONTRIBUTIONS`. `length` is the number of floats that `out` has room
// for. Several threads may predict with the same model at the same time. If the call is refused, the contents of `out`
// are unspecified.
//
// # Safety
// `model` is null or a model that was not freed. `rows` points to a matrix whose `length` values may be read, and
// `length` floats may be written to `out`. No other thread writes the rows, or uses `out`, while the call runs.
FangornStatus fangorn_predict(const FangornModel *model,
                              int32_t output,
                              const FangornMatrix *rows,
                              float *out,
                              size_t length);

// Predicts rows and writes integers to `out`: `fangorn_width` results for each row, row after row. `output` is
// `FANGORN_CLASSES` or `FANGORN_LEAF_IDS`. Otherwise it does what `fangorn_predict` does.
//
// # Safety
// See `fangorn_predict`.
FangornStatus fangorn_predict_integers(const FangornModel *model,
                                       int32_t output,
                                       const FangornMatrix *rows,
                                       int32_t *out,
                                       size_t length);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FANGORN_H */
