// Fangorn predicts with trained decision forests. The chapter "In C" of its book has an example.
//
// Every call checks its pointers for null, the alignment of the caller's memory, and the lengths that it gets. No call
// unwinds into C. The section "Safety" of a function lists what the call can't check.
//
// cbindgen writes this file from capi/src. To change it, change the comments there and run
// FANGORN_BLESS=1 cargo test --manifest-path capi/Cargo.toml --test header


#ifndef FANGORN_H
#define FANGORN_H

#include <stddef.h>
#include <stdint.h>

// The values of a matrix are 32-bit floats.
#define FANGORN_F32 0

// The values of a matrix are 64-bit floats.
#define FANGORN_F64 1

// The values that the model's own library predicts: for example, the probabilities of a classifier. 32-bit floats.
#define FANGORN_VALUES 0

// The sums before the objective's transform: for example, log odds. 32-bit floats.
#define FANGORN_MARGINS 1

// How much each column adds to each margin (SHAP values). For each output, a row has one number for each column and
// then the bias, and these add up to the margin. 32-bit floats.
#define FANGORN_CONTRIBUTIONS 2

// The number of the predicted class, counted from 0. `fangorn_label` returns its label. A model that decides for each
// output separately has one class for each output. 32-bit integers.
#define FANGORN_CLASSES 3

// The leaf that a row reaches in each tree: the number that the model's own library gives the leaf. 32-bit integers.
#define FANGORN_LEAF_IDS 4

// The result of a call. For every status but `FANGORN_STATUS_OK`, `fangorn_last_error` returns a message.
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
  // The rows do not fit the model: for example, they do not have as many columns as the model.
  FANGORN_STATUS_ROWS = 4,
  // The model does not support the request: for example, a regressor has no classes.
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

// A trained decision forest, compiled for this machine's CPU. It never changes, so several threads may use it at the
// same time.
typedef struct FangornModel FangornModel;

// How a model is read and compiled. `fangorn_options` returns the defaults; change the fields that you need.
typedef struct {
  // `sizeof(FangornOptions)`, which `fangorn_options` fills in. The library refuses another size, because it belongs
  // to another version of the library.
  size_t size;
  // The maximum number of threads that predict a batch, up to 4096. 0 stands for the number that the machine runs at
  // the same time. With 1, a prediction runs on the calling thread, and contributions on a thread of the library.
  size_t threads;
  // How the forest is walked: a preset's name, the text of a schedule, or the text of a plan file, as the command
  // `fangorn tune` writes it. Null stands for the default. It changes how long a prediction takes, never its result.
  const char *schedule;
  // What is promised about a margin's last digits. `any` adds in the fastest order. `tree` adds as the model's own
  // library does. `exact` gives the same bytes on every machine. Null stands for `any`.
  const char *sum;
  // The first boosting round to keep, counted from 0.
  uint32_t first_round;
  // The end of the boosting rounds to keep: one more than the last of them. 0 keeps all rounds from the first on.
  uint32_t end_round;
} FangornOptions;

// Rows in the caller's memory, which the library only reads. The value of row r and column c is
// `values[r * row_stride + c * column_stride]`. NaN is a missing value. `fangorn_matrix_f32` and `fangorn_matrix_f64`
// describe row-major matrices without gaps.
typedef struct {
  // The first value. It may be null if there are no rows.
  const void *values;
  // The number of values in the memory at `values`. The library never reads past them.
  size_t length;
  // `FANGORN_F32` or `FANGORN_F64`.
  int32_t value_type;
  // The number of rows.
  size_t rows;
  // The number of columns. It must be the model's, which `fangorn_columns` returns.
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

// Returns the message of the last call of this thread that was refused: one line that says what is wrong and what to
// do. The text is empty if no call of this thread was refused. It is valid until another call of this thread is
// refused, or the thread ends. Do not free it.
const char *fangorn_last_error(void);

// Returns the default options: all boosting rounds, the default schedule, the contract `any`, and as many threads as
// the machine runs at the same time.
FangornOptions fangorn_options(void);

// Describes a row-major matrix of 32-bit floats without gaps.
FangornMatrix fangorn_matrix_f32(const float *values, size_t rows, size_t columns);

// Describes a row-major matrix of 64-bit floats without gaps.
FangornMatrix fangorn_matrix_f64(const double *values, size_t rows, size_t columns);

// Reads a model file of any format that Fangorn knows, and compiles it for this machine. `path` is UTF-8. `options`
// may be null, which stands for the defaults. The call writes the model to `*model`, or null if it is refused. A file
// that is no single forest, such as a pipeline, is refused. Free the model with `fangorn_free`.
//
// # Safety
// `path` and the options' texts end with a zero. `options` is null, or points to options whose `size` is right. A
// pointer may be written to `model`.
FangornStatus fangorn_load(const char *path, const FangornOptions *options, FangornModel **model);

// Reads a model from the bytes of its file, `length` of them, and otherwise does what `fangorn_load` does. The bytes
// may be freed when the call returns.
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

// Returns the name of a column, counted from 0. Returns null if the model file gives it no name, if there is no such
// column, or if `model` is null. The text lives as long as the model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_column_name(const FangornModel *model, size_t column);

// Returns the number of class labels in the model file, or 0 if `model` is null.
//
// # Safety
// `model` is null or a model that was not freed.
size_t fangorn_labels(const FangornModel *model);

// Returns the label of the class with a number of `FANGORN_CLASSES`. Returns null if the model file has no label for
// it, or if `model` is null. The text lives as long as the model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_label(const FangornModel *model, size_t class_number);

// Returns the warnings of the compilation, one in each line: for example, that the fast code failed its self-check and
// slower code runs. The text is empty if there are no warnings or if `model` is null. It lives as long as the model.
//
// # Safety
// `model` is null or a model that was not freed.
const char *fangorn_warnings(const FangornModel *model);

// Writes the number of results of one row to `*width`. `output` is one of `FANGORN_VALUES`, `FANGORN_MARGINS`,
// `FANGORN_CONTRIBUTIONS`, `FANGORN_CLASSES` and `FANGORN_LEAF_IDS`. The call is refused if the model has no such
// results.
//
// # Safety
// `model` is null or a model that was not freed. A number may be written to `width`.
FangornStatus fangorn_width(const FangornModel *model, int32_t output, size_t *width);

// Predicts rows and writes floats to `out`, row after row. Each row gets as many as `fangorn_width` returns. `output`
// is `FANGORN_VALUES`, `FANGORN_MARGINS` or `FANGORN_CONTRIBUTIONS`. `length` is the number of floats that `out` has
// room for. Several threads may predict with the same model at the same time. If the call is refused, the contents of
// `out` are unspecified.
//
// # Safety
// `model` is null or a model that was not freed. `rows` points to a matrix whose `length` values may be read, and
// `length` floats may be written to `out`. No other thread writes the rows, or uses `out`, while the call runs.
FangornStatus fangorn_predict(const FangornModel *model,
                              int32_t output,
                              const FangornMatrix *rows,
                              float *out,
                              size_t length);

// Predicts rows and writes integers to `out`, row after row. Each row gets as many as `fangorn_width` returns.
// `output` is `FANGORN_CLASSES` or `FANGORN_LEAF_IDS`. Otherwise it does what `fangorn_predict` does.
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
