//! What a C program can do to the library, well or badly.

use std::{
    ffi::{CStr, CString, c_char},
    path::Path,
    ptr,
};

use fangorn_c::*;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/zoo");

fn text(pointer: *const c_char) -> String {
    assert!(!pointer.is_null());
    // SAFETY: the library's texts end with a zero.
    unsafe { CStr::from_ptr(pointer) }.to_str().expect("UTF-8").to_owned()
}

fn last() -> String {
    text(fangorn_last_error())
}

/// A model that is freed at the end.
struct Model(*mut FangornModel);

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: it came from the library, and nobody uses it any more.
        unsafe { fangorn_free(self.0) };
    }
}

fn load(file: &str, options: Option<FangornOptions>) -> Result<Model, (FangornStatus, String)> {
    let path = CString::new(Path::new(ROOT).join(file).to_str().expect("UTF-8")).expect("a path");
    let options = options.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mut model = ptr::dangling_mut();
    // SAFETY: the path ends with a zero, the options are whole, and there is room for the model.
    match unsafe { fangorn_load(path.as_ptr(), options, &raw mut model) } {
        FangornStatus::Ok => Ok(Model(model)),
        status => {
            assert!(model.is_null(), "no model is left behind");
            Err((status, last()))
        }
    }
}

fn width(model: &Model, output: i32) -> Result<usize, (FangornStatus, String)> {
    let mut width = 0;
    // SAFETY: a model, and room for a number.
    match unsafe { fangorn_width(model.0, output, &raw mut width) } {
        FangornStatus::Ok => Ok(width),
        status => Err((status, last())),
    }
}

fn floats(
    model: &Model,
    output: i32,
    matrix: &FangornMatrix,
    length: usize,
) -> Result<Vec<f32>, (FangornStatus, String)> {
    // Two more, to see that nothing is written past the end.
    let mut out = vec![-7.0f32; length + 2];
    // SAFETY: the matrix describes values that live, and `out` has more room than is said.
    let status = unsafe { fangorn_predict(model.0, output, matrix, out.as_mut_ptr(), length) };
    assert_eq!(out.split_off(length), [-7.0; 2]);
    match status {
        FangornStatus::Ok => Ok(out),
        status => Err((status, last())),
    }
}

fn integers(
    model: &Model,
    output: i32,
    matrix: &FangornMatrix,
    length: usize,
) -> Result<Vec<i32>, (FangornStatus, String)> {
    let mut out = vec![-7; length + 2];
    // SAFETY: as above.
    let status = unsafe { fangorn_predict_integers(model.0, output, matrix, out.as_mut_ptr(), length) };
    assert_eq!(out.split_off(length), [-7; 2]);
    match status {
        FangornStatus::Ok => Ok(out),
        status => Err((status, last())),
    }
}

fn rows(count: usize, columns: usize) -> Vec<f32> {
    (0..count * columns)
        .map(|at| if at % 11 == 3 { f32::NAN } else { (at * 37 % 101) as f32 / 10.0 - 3.0 })
        .collect()
}

/// Every output of models of several kinds is what the crate says, for rows of both types, and however they lie.
#[test]
fn outputs_are_those_of_the_crate() {
    let files =
        ["churn/model.ubj", "softprob/model.ubj", "lightgbm-categories/model.txt", "vector-leaf/model.json"];
    for file in files {
        for threads in [0, 1, 2] {
            let model = load(file, Some(FangornOptions { threads, ..fangorn_options() })).expect("read");
            let forest =
                fangorn::import::load(&Path::new(ROOT).join(file), &Default::default()).expect("read");
            let predictor = fangorn::Predictor::new(&forest).expect("compiled");
            // SAFETY: a model.
            let (columns, trees) = unsafe { (fangorn_columns(model.0), fangorn_trees(model.0)) };
            assert_eq!((columns, trees), (forest.features.len(), forest.trees.len()));
            for count in [0, 1, 7, 300] {
                let singles = rows(count, columns);
                let doubles: Vec<f64> = singles.iter().copied().map(f64::from).collect();
                let by_columns: Vec<f32> = (0..columns)
                    .flat_map(|c| (0..count).map(move |r| (r, c)))
                    .map(|(r, c)| singles[r * columns + c])
                    .collect();
                let view = fangorn::cpu::Rows::new(&singles, columns).expect("rows");
                let strided = FangornMatrix {
                    row_stride: 1,
                    column_stride: count,
                    ..fangorn_matrix_f32(by_columns.as_ptr(), count, columns)
                };
                let matrices = [
                    fangorn_matrix_f32(singles.as_ptr(), count, columns),
                    fangorn_matrix_f64(doubles.as_ptr(), count, columns),
                    strided,
                ];
                let values = predictor.values(&view).expect("values");
                let margins = predictor.margins(&view).expect("margins");
                let leaves: Vec<i32> =
                    predictor.leaf_ids(&view).expect("ids").into_iter().map(|id| id as i32).collect();
                for matrix in &matrices {
                    let close = |ours: Vec<f32>, theirs: &[f32]| {
                        assert_eq!(ours.len(), theirs.len());
                        let off = ours
                            .iter()
                            .zip(theirs)
                            .map(|(a, b)| (a - b).abs() / b.abs().max(1.0))
                            .fold(0.0, f32::max);
                        assert!(off <= 1e-5, "{file}: {off}");
                    };
                    let length = |output| width(&model, output).expect("a width") * count;
                    close(
                        floats(&model, FANGORN_VALUES, matrix, length(FANGORN_VALUES)).expect("values"),
                        &values,
                    );
                    close(
                        floats(&model, FANGORN_MARGINS, matrix, length(FANGORN_MARGINS)).expect("margins"),
                        &margins,
                    );
                    assert_eq!(
                        integers(&model, FANGORN_LEAF_IDS, matrix, length(FANGORN_LEAF_IDS)).expect("ids"),
                        leaves
                    );
                    if let Ok(width) = width(&model, FANGORN_CONTRIBUTIONS)
                        && let Ok(found) = floats(&model, FANGORN_CONTRIBUTIONS, matrix, width * count)
                    {
                        let sums: Vec<f32> =
                            found.chunks(columns + 1).map(|of_output| of_output.iter().sum()).collect();
                        assert_eq!(sums.len(), margins.len());
                        let off = sums
                            .iter()
                            .zip(&margins)
                            .map(|(a, b)| (a - b).abs() / b.abs().max(1.0))
                            .fold(0.0, f32::max);
                        assert!(off <= 1e-3, "{file}: contributions add up to the margin, not {off} from it");
                    }
                }
            }
        }
    }
}

#[test]
fn classes_and_their_labels() {
    let model = load("sklearn-forest-names/model.npz", None).expect("read");
    let values = rows(9, 5);
    let matrix = fangorn_matrix_f32(values.as_ptr(), 9, 5);
    let width = width(&model, FANGORN_CLASSES).expect("a classifier");
    let classes = integers(&model, FANGORN_CLASSES, &matrix, 9 * width).expect("classes");
    // SAFETY: a model.
    let labels = unsafe { fangorn_labels(model.0) };
    assert!(labels > 1 && classes.iter().all(|class| (*class as usize) < labels), "{classes:?}");
    // SAFETY: a model.
    unsafe {
        assert!(!text(fangorn_label(model.0, labels - 1)).is_empty());
        assert!(fangorn_label(model.0, labels).is_null());
        assert!(fangorn_column_name(model.0, usize::MAX).is_null());
        assert_eq!(text(fangorn_warnings(model.0)), "");
    }
}

#[test]
fn a_regressor_has_no_classes() {
    let model = load("absolute-error/model.ubj", None).expect("read");
    let (status, message) = width(&model, FANGORN_CLASSES).expect_err("no classifier");
    assert_eq!(status, FangornStatus::Unsupported);
    assert!(message.contains("FANGORN_VALUES"), "{message}");
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let model = load("churn/model.ubj", None).expect("read");
    let values = rows(4, 12);
    let matrix = fangorn_matrix_f32(values.as_ptr(), 4, 12);
    let argument = |found: Result<Vec<f32>, (FangornStatus, String)>, status, what: &str| {
        let (found, message) = found.expect_err(what);
        assert_eq!(found, status, "{message}");
        assert!(message.contains(what), "{message}");
        assert!(!message.contains('\n'), "{message}");
    };
    let argument_of = |matrix: &FangornMatrix, status, what: &str| {
        argument(floats(&model, FANGORN_VALUES, matrix, 4), status, what)
    };
    use FangornStatus::{InvalidArgument, Rows};
    argument(floats(&model, FANGORN_VALUES, &matrix, 3), InvalidArgument, "room for 3 values");
    argument(floats(&model, 9, &matrix, 4), InvalidArgument, "output: 9");
    argument(floats(&model, FANGORN_LEAF_IDS, &matrix, 4000), InvalidArgument, "fangorn_predict_integers");
    argument_of(&FangornMatrix { value_type: 5, ..matrix }, InvalidArgument, "value_type is 5");
    argument_of(&FangornMatrix { values: ptr::null(), ..matrix }, InvalidArgument, "null pointer");
    argument_of(&FangornMatrix { columns: 11, ..matrix }, Rows, "11 columns");
    argument_of(&FangornMatrix { length: 47, ..matrix }, Rows, "rows");
    argument_of(
        &FangornMatrix { rows: usize::MAX, length: usize::MAX, ..matrix },
        InvalidArgument,
        "more than memory",
    );
    argument_of(&FangornMatrix { rows: usize::MAX, ..matrix }, Rows, "rows");
    argument_of(&FangornMatrix { row_stride: usize::MAX, ..matrix }, Rows, "rows");
    let shifted = matrix.values.wrapping_byte_add(1);
    argument_of(&FangornMatrix { values: shifted, ..matrix }, InvalidArgument, "multiple of 4");

    // SAFETY: what is refused is not read; the rest lives.
    unsafe {
        let mut out = [0f32; 4];
        let at = out.as_mut_ptr();
        assert_eq!(fangorn_predict(ptr::null(), 0, &raw const matrix, at, 4), InvalidArgument);
        assert!(last().contains("fangorn_load"));
        assert_eq!(fangorn_predict(model.0, 0, ptr::null(), at, 4), InvalidArgument);
        assert_eq!(fangorn_predict(model.0, 0, &raw const matrix, ptr::null_mut(), 4), InvalidArgument);
        assert_eq!(fangorn_width(model.0, 0, ptr::null_mut()), InvalidArgument);
        assert_eq!(fangorn_load(ptr::null(), ptr::null(), ptr::null_mut()), InvalidArgument);
        let mut none = ptr::dangling_mut();
        assert_eq!(fangorn_load(ptr::null(), ptr::null(), &raw mut none), InvalidArgument);
        assert!(none.is_null() && last().contains("path"));
        let path = c"\xff.ubj";
        assert_eq!(fangorn_load(path.as_ptr(), ptr::null(), &raw mut none), InvalidArgument);
        assert!(last().contains("UTF-8"), "{}", last());
        assert_eq!(fangorn_load_bytes(ptr::null(), 5, ptr::null(), &raw mut none), InvalidArgument);
        assert_eq!(fangorn_load_bytes(ptr::null(), 0, ptr::null(), &raw mut none), FangornStatus::Model);
        fangorn_free(ptr::null_mut());
        assert_eq!(
            (fangorn_columns(ptr::null()), fangorn_trees(ptr::null()), fangorn_labels(ptr::null())),
            (0, 0, 0)
        );
    }
    let mut shared = rows(4, 12);
    let over = fangorn_matrix_f32(shared.as_ptr(), 4, 12);
    // SAFETY: refused before anything is read or written.
    let status =
        unsafe { fangorn_predict(model.0, FANGORN_VALUES, &raw const over, shared.as_mut_ptr().add(40), 4) };
    assert_eq!(status, InvalidArgument);
    assert!(last().contains("overlaps"), "{}", last());

    let refused = |options: FangornOptions, what: &str| {
        let (status, message) = load("churn/model.ubj", Some(options)).err().expect(what);
        assert_eq!(status, InvalidArgument, "{message}");
        assert!(message.contains(what), "{message}");
    };
    refused(FangornOptions { size: 3, ..fangorn_options() }, "size is 3");
    refused(FangornOptions { sum: c"perfect".as_ptr(), ..fangorn_options() }, "`perfect`");
    refused(FangornOptions { schedule: c"fast please".as_ptr(), ..fangorn_options() }, "presets are");
    refused(FangornOptions { schedule: c"[nothing]".as_ptr(), ..fangorn_options() }, "plan");
    refused(FangornOptions { threads: usize::MAX, ..fangorn_options() }, "too many");
    let (status, message) = load("no-such-file", None).err().expect("no file");
    assert_eq!(status, FangornStatus::Io);
    assert!(message.contains("no-such-file"), "{message}");
}

#[test]
fn options_are_kept() {
    let values = rows(300, 12);
    let matrix = fangorn_matrix_f32(values.as_ptr(), 300, 12);
    let whole = load("churn/model.ubj", None).expect("read");
    let first =
        load("churn/model.ubj", Some(FangornOptions { end_round: 2, ..fangorn_options() })).expect("read");
    // SAFETY: models.
    unsafe { assert!(fangorn_trees(first.0) == 2 && fangorn_trees(whole.0) > 2) };
    let exact = |schedule: Option<&CStr>| {
        let schedule = schedule.map_or(ptr::null(), CStr::as_ptr);
        let options = FangornOptions { sum: c"exact".as_ptr(), schedule, ..fangorn_options() };
        let model = load("churn/model.ubj", Some(options)).expect("read");
        floats(&model, FANGORN_MARGINS, &matrix, 300).expect("margins")
    };
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
    assert_eq!(bits(exact(None)), bits(exact(Some(c"xgboost"))));
    assert_eq!(bits(exact(None)), bits(exact(Some(c"tile(batch, b0, b1, 64)"))));
}

/// Threads share a model, and each keeps its own message.
#[test]
fn threads_share_a_model() {
    struct Shared(Model);
    // SAFETY: a model may be used by several threads.
    unsafe impl Sync for Shared {}
    let model = Shared(load("softprob/model.ubj", None).expect("read"));
    let values = rows(1000, 8);
    let expected = floats(&model.0, FANGORN_VALUES, &fangorn_matrix_f32(values.as_ptr(), 1000, 8), 5000)
        .expect("values");
    std::thread::scope(|scope| {
        for thread in 0..8usize {
            let (model, values, expected) = (&model, &values, &expected);
            scope.spawn(move || {
                let model = &model.0;
                assert_eq!(last(), "", "no call of this thread was refused yet");
                for count in 1..50 {
                    let matrix = fangorn_matrix_f32(values.as_ptr(), count * 20, 8);
                    let found = floats(model, FANGORN_VALUES, &matrix, count * 100).expect("values");
                    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= 1e-6));
                }
                let (_, message) =
                    floats(model, 100 + thread as i32, &fangorn_matrix_f32(values.as_ptr(), 1, 8), 5)
                        .expect_err("unknown");
                assert!(message.contains(&format!("output: {}", 100 + thread)), "{message}");
            });
        }
    });
}

/// Files that were cut or changed are refused, and leave nothing behind.
#[test]
fn damaged_bytes_are_refused_or_read() {
    let bytes = std::fs::read(Path::new(ROOT).join("churn/model.ubj")).expect("read");
    for n in 0..120 {
        let mut damaged = bytes[..bytes.len() * n / 120].to_vec();
        if n % 2 == 1 {
            damaged = bytes.clone();
            damaged[bytes.len() * n / 120] ^= 0x55;
        }
        let mut model = ptr::null_mut();
        // SAFETY: the bytes live while they are read, and there is room for the model.
        let status =
            unsafe { fangorn_load_bytes(damaged.as_ptr(), damaged.len(), ptr::null(), &raw mut model) };
        assert_ne!(status, FangornStatus::Internal, "{}", last());
        assert_eq!(status == FangornStatus::Ok, !model.is_null());
        drop(Model(model));
    }
}
