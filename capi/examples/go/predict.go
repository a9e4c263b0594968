// Predicts two rows with a model, in Go.
//
//	predict MODEL
package main

/*
#cgo LDFLAGS: -lfangorn_c
#include <fangorn.h>
#include <stdlib.h>

// C makes the matrix, since memory of Go's that is handed to C may not hold pointers to memory of Go's.
static FangornStatus predict(const FangornModel *model, const float *values, size_t rows, size_t columns, float *out,
                             size_t length) {
	FangornMatrix matrix = fangorn_matrix_f32(values, rows, columns);
	return fangorn_predict(model, FANGORN_VALUES, &matrix, out, length);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// Model is a forest that predicts. Goroutines may share it.
type Model struct{ model *C.FangornModel }

// call runs a function of the library on one thread, which keeps the message of a refusal.
func call(function func() C.FangornStatus) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if function() != C.FANGORN_STATUS_OK {
		return errors.New(C.GoString(C.fangorn_last_error()))
	}
	return nil
}

// Load reads a model file.
func Load(path string) (*Model, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	model := &Model{}
	if err := call(func() C.FangornStatus { return C.fangorn_load(text, nil, &model.model) }); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(model, func(model *Model) { C.fangorn_free(model.model) })
	return model, nil
}

// Columns returns the number of columns of a row.
func (model *Model) Columns() int {
	defer runtime.KeepAlive(model)
	return int(C.fangorn_columns(model.model))
}

// Predict returns the values of rows that stand one after the other.
func (model *Model) Predict(values []float32) ([]float32, error) {
	defer runtime.KeepAlive(model)
	columns := model.Columns()
	if columns == 0 || len(values)%columns != 0 {
		return nil, fmt.Errorf("%d values are no rows of %d columns", len(values), columns)
	}
	var width C.size_t
	if err := call(func() C.FangornStatus {
		return C.fangorn_width(model.model, C.FANGORN_VALUES, &width)
	}); err != nil {
		return nil, err
	}
	rows := len(values) / columns
	out := make([]float32, rows*int(width))
	if rows == 0 {
		return out, nil
	}
	err := call(func() C.FangornStatus {
		return C.predict(model.model, (*C.float)(&values[0]), C.size_t(rows), C.size_t(columns), (*C.float)(&out[0]),
			C.size_t(len(out)))
	})
	return out, err
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: predict MODEL\nExample:\n  predict model.ubj")
		os.Exit(2)
	}
	model, err := Load(os.Args[1])
	if err == nil {
		rows := make([]float32, 2*model.Columns())
		for i := range rows {
			rows[i] = 0.5
		}
		var values []float32
		if values, err = model.Predict(rows); err == nil {
			fmt.Println(values)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "predict:", err)
		os.Exit(1)
	}
}
