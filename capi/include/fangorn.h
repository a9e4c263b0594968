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

// What the producer's predict returns: probabilities of a classifier, say. 32-bit floats.
#define FANGORN_VALUES 0

// The sums before the objective's transform: log odds, say. 32-bit floats.
#define FANGORN_MARGINS 1

// What each column adds to each margin (SHAP values), and the bias at the end. 32-bit floats.
#define FANGORN_CONTRIBUTIONS 2

// Numbers of classes. 32-bit integers.
#define FANGORN_CLASSES 3

// The leaf that a row reaches in each tree, as the producer counts leaves. 32-bit integers.
#define FANGORN_LEAF_IDS 4

// What became of a call. `fangorn_last_error` has the message of every status but `FANGORN_STATUS_OK`.
enum FangornStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The call did what it was asked to.
  FANGORN_STATUS_OK = 0,
  // An argument can't be: a null pointer, a buffer that is too short, an option that is unknown.
  FANGORN_STATUS_INVALID_ARGUMENT = 1,
  // A file could not be read.
  FANGORN_STATUS_IO = 2,
  // The model can't be read: it is malformed, over a limit, or has something that is not supported.
  FANGORN_STATUS_MODEL = 3,
  // The rows are not rows of this model: they have another number of columns, say.
  FANGORN_STATUS_ROWS = 4,
  // This model can't answer this question: classes of a regressor, say.
  FANGORN_STATUS_UNSUPPORTED = 5,
  // A defect of Fangorn or of the machine. Please report it with the message and the model.
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

// How a model is read and compiled. Fill it by `fangorn_options`, then change what you want.
typedef struct {
  // `sizeof(FangornOptions)`, by which a later library knows what the caller knows.
  size_t size;
  // How many threads predict. 0 takes as many as the machine runs at the same time. With 1, each prediction stays on
  // the thread that asks for it, but for contributions.
  size_t threads;
  // How the forest is walked: a preset's name, a schedule's text, or what is in a file that `fangorn tune` wrote. Null
  // is the default.
  const char *schedule;
  // What sums promise: `any`, `tree` or `exact`, as the chapter on sums in the book says. Null is `any`.
  const char *sum;
  // The first boosting round to keep.
  uint32_t first_round;
  // The boosting round to stop before. 0 keeps all that follow the first.
  uint32_t end_round;
} FangornOptions;

// Rows in memory of yours, which is only read. NaN is a missing value. Value (r, c) is at
// `values[r * row_stride + c * column_stride]`. `fangorn_matrix_f32` and `fangorn_matrix_f64` make one of rows that stand
// one after the other.
typedef struct {
  // The first value. It may be null if there are no rows.
  const void *values;
  // How many values may be read from `values` on. No value is read past them.
  size_t length;
  // `FANGORN_F32` or `FANGORN_F64`.
  int32_t value_type;
  // The number of rows.
  size_t rows;
  // The number of columns: that of the model.
  size_t columns;
  // The number of values from one row to the next.
  size_t row_stride;
  // The number of values from one column to the next.
  size_t column_stride;
} FangornMatrix;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the library's version. The text is never freed.
const char *fangorn_version(void);

// Returns the message of the last call on this thread that was refused: one line that names the thing and the remedy.
// It is empty if no call was. The text is valid until another call on this thread is refused, or the thread ends.
const char *fangorn_last_error(void);

// Returns the default options.
FangornOptions fangorn_options(void);

// Describes rows of 32-bit floats that stand one after the other.
FangornMatrix fangorn_matrix_f32(const float *values, size_t rows, size_t columns);

// Describes rows of 64-bit floats that stand one after the other.
FangornMatrix fangorn_matrix_f64(const double *values, size_t rows, size_t columns);

// Reads a model file of any format that Fangorn knows, and compiles it for this machine. `path` is UTF-8. `options` may
// be null. `*model` becomes the model, or null if the call is refused. `fangorn_free` frees it.
//
// # Safety
// `path` and the options' texts end with a zero. `options` is null, or points to options whose `size` is right. A pointer
// may be written to `model`.
FangornStatus fangorn_load(const char *path,
                           const FangornOptions *options,
                           FangornModel **model);

// Reads a model from the bytes of its file. Otherwise it does what `fangorn_load` does. The bytes are not needed any more
// when it returns.
//
// # Safety
// `bytes` points to `length` bytes. For the others see `fangorn_load`.
FangornStatus fangorn_load_bytes(const uint8_t *bytes,
                                 size_t length,
                                 const FangornOptions *options,
                                 FangornModel **model);

// Frees a model. Nothing happens for null.
//
// # Safety
// `model` is null, or comes from `fangorn_load` or `fangorn_load_bytes`, was not freed, and no call uses it.
void fangorn_free(FangornModel *model);

// Returns the number of columns of a row, and 0 for null.
//
// # Safety
// `model` is null or a model that was not freed.
size_t fangorn_columns(const FangornModel *model);

// Returns the number of trees, and 0 for null.
//
// # Safety
// `model` is null or a model that was not freed.
size_t fangorn_trees(const FangornModel *model);

// Returns a column's name in the model file, and null if it has none. The text lives as long as the model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_column_name(const FangornModel *model, size_t column);

// Returns how many classes have labels in the model file.
//
// # Safety
// `model` is null or a model that was not freed.
size_t fangorn_labels(const FangornModel *model);

// Returns the label of a class that `FANGORN_CLASSES` gives, and null if it has none. The text lives as long as the
// model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_label(const FangornModel *model, size_t class_number);

// Returns what was noticed when the model was compiled, a line each: that slower code has to serve, say. It is empty if
// there was nothing. The text lives as long as the model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_warnings(const FangornModel *model);

// Writes how many results a row has to `*width`. `output` is `FANGORN_VALUES` or another output.
//
// # Safety
// `model` is null or a model that was not freed. A number may be written to `width`.
FangornStatus fangorn_width(const FangornModel *model, int32_t output, size_t *width);

// Predicts rows and writes floats to `out`: `fangorn_width` results for each row, row after row. `output` is
// `FANGORN_VALUES`, `FANGORN_MARGINS` or `FANGORN_CONTRIBUTIONS`. Threads may call it with the same model at the same
// time. If the call is refused, what `out` holds is unspecified.
//
// # Safety
// `model` is null or a model that was not freed. `rows` points to a matrix whose `length` values may be read, and `length`
// floats may be written to `out`. No other thread writes the rows, or uses `out`, while the call runs.
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
