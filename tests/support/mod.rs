//! What the tests share: the zoo, and how results are compared.

// Each test crate uses its part.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use fangorn::{
    Forest,
    forest::{Transform, reference},
    import,
};

/// A model with what its library said of its rows.
pub struct Specimen {
    pub name: String,
    pub model: PathBuf,
    pub forest: Forest,
    pub rows: Vec<f32>,
    pub count: usize,
    /// Empty where the library gives values only.
    pub margin: Vec<f64>,
    pub output: Output,
    /// Empty where the library gives none.
    pub leaves: Vec<i32>,
    /// Rows in f64, for a library that compares there.
    pub wide: Option<Wide>,
}

/// Rows in f64 with what the library said of them.
pub struct Wide {
    pub rows: Vec<f64>,
    pub count: usize,
    pub margin: Vec<f64>,
    /// Empty where the library gives none.
    pub leaves: Vec<i32>,
}

/// What the library's own predict returned.
pub enum Output {
    Values(Vec<f64>),
    Classes(Vec<i32>),
}

impl Specimen {
    pub fn columns(&self) -> usize {
        self.rows.len().checked_div(self.count).unwrap_or(0)
    }

    pub fn row(&self, r: usize) -> &[f32] {
        &self.rows[r * self.columns()..][..self.columns()]
    }
}

/// An array's shape and its values, whatever numbers they are.
fn read(path: &Path) -> Option<(Vec<u64>, Vec<f64>, bool)> {
    let bytes = std::fs::read(path).ok()?;
    let open = || npyz::NpyFile::new(&bytes[..]).expect("a npy file");
    let shape = open().shape().to_vec();
    let whole = open().dtype().descr().contains('i');
    let values: Vec<f64> = match open().dtype().descr().trim_matches('\'') {
        "<f4" => open().into_vec::<f32>().expect("f32").into_iter().map(f64::from).collect(),
        "<f8" => open().into_vec::<f64>().expect("f64"),
        "<i4" => open().into_vec::<i32>().expect("i32").into_iter().map(f64::from).collect(),
        "<i8" => open().into_vec::<i64>().expect("i64").into_iter().map(|v| v as f64).collect(),
        other => panic!("{}: values of type {other}", path.display()),
    };
    // Column after column, as numpy stores a transposed array.
    let values = match (open().order(), &shape[..]) {
        (npyz::Order::Fortran, [rows, columns]) => {
            let (rows, columns) = (*rows as usize, *columns as usize);
            (0..rows * columns).map(|i| values[i % columns * rows + i / columns]).collect()
        }
        _ => values,
    };
    Some((shape, values, whole))
}

/// The folders of the project's own zoo, of the shared one where it lies beside the checkout, and of one more that
/// `FANGORN_ZOO` names; of all these only those whose name has `FANGORN_MODELS` in it, where that is set.
pub fn folders() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut zoos = vec![here.join("tests/zoo"), here.join("../shared/zoo")];
    zoos.extend(std::env::var_os("FANGORN_ZOO").map(PathBuf::from));
    let entries = |zoo: &PathBuf| {
        std::fs::read_dir(zoo).into_iter().flatten().flatten().map(|e| e.path()).collect::<Vec<_>>()
    };
    let mut found: Vec<PathBuf> = zoos.iter().flat_map(entries).filter(|p| p.is_dir()).collect();
    found.sort();
    assert!(found.len() >= 20, "the project's own zoo is in tests/zoo");
    let wanted = std::env::var("FANGORN_MODELS").unwrap_or_default();
    found.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().contains(&wanted)));
    found
}

/// Loads one folder.
pub fn specimen(folder: &Path) -> Specimen {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = std::fs::read_dir(folder).expect("the folder").flatten().map(|e| e.path());
    let model = files.filter(|p| p.file_stem().is_some_and(|s| s == "model")).min();
    let model = model.unwrap_or_else(|| panic!("{name}: a model"));
    let forest = import::load(&model, &Default::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (shape, rows, _) = read(&folder.join("rows.npy")).expect("rows");
    let count = shape[0] as usize;
    let (_, margin, _) = read(&folder.join("margin.npy")).expect("margins");
    let output = read(&folder.join("output.npy"));
    // Of an isolation forest the library gives the score only.
    let margin = if forest.transform == Transform::PowerOfTwo { Err(margin) } else { Ok(margin) };
    let output = match output {
        Some((_, classes, true)) => Output::Classes(classes.into_iter().map(|v| v as i32).collect()),
        Some((shape, values, false)) => {
            let (ours, theirs) =
                (forest.transform.width(forest.outputs as usize), shape.get(1).copied().unwrap_or(1));
            // A file that knows one probability, of a library that gives both.
            let both = ours == 1 && theirs == 2;
            Output::Values(
                values.into_iter().skip(usize::from(both)).step_by(1 + usize::from(both)).collect(),
            )
        }
        None => Output::Values(margin.clone().unwrap_or_else(|scores| scores)),
    };
    let ids = |file: &str| -> Vec<i32> {
        let values = read(&folder.join(file)).map_or_else(Vec::new, |l| l.1);
        values.into_iter().map(|v| v as i32).collect()
    };
    let wide = read(&folder.join("rows64.npy")).map(|(shape, rows, _)| Wide {
        rows,
        count: shape[0] as usize,
        margin: read(&folder.join("margin64.npy")).map_or_else(Vec::new, |m| m.1),
        leaves: ids("leaves64.npy"),
    });
    Specimen {
        name,
        model,
        forest,
        rows: rows.into_iter().map(|v| v as f32).collect(),
        count,
        margin: margin.unwrap_or_default(),
        output,
        leaves: ids("leaves.npy"),
        wide,
    }
}

/// Runs a check on every model of the zoo, and fails with the names of all those that fail it.
pub fn for_each_specimen(check: impl Fn(&Specimen)) {
    let folders = folders();
    let fails = |f: &&PathBuf| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&specimen(f)))).is_err()
    };
    let failed: Vec<String> = folders.iter().filter(fails).map(|f| f.display().to_string()).collect();
    assert!(failed.is_empty(), "{} of {} models fail: {failed:#?}", failed.len(), folders.len());
}

/// A schedule's sum may differ from the reference's by the bound of an f32 sum in any order.
pub fn assert_margins<T: Copy + Into<f64>>(
    what: &str,
    forest: &Forest,
    found: &[T],
    expected: impl Fn(usize) -> Vec<f64>,
) {
    let outputs = forest.outputs as usize;
    let bound = forest.sum_bound();
    for (r, row) in found.chunks(outputs).enumerate() {
        for (o, (found, expected)) in row.iter().zip(expected(r)).enumerate() {
            let found = (*found).into();
            let off = (found - expected).abs();
            assert!(
                off <= bound[o],
                "{what}: row {r}, output {o}: {found} is {off:e} from {expected}, at most {:e}",
                bound[o]
            );
        }
    }
}

/// The bound of a margin carried through the transform: every transform but softmax's and the exponential's has a
/// slope of at most 1, those are relative, and the steps differ only where a margin is that near the step.
pub fn assert_values<T: Copy + Into<f64>>(
    what: &str,
    forest: &Forest,
    found: &[T],
    row_of: impl Fn(usize) -> Vec<f64>,
) {
    let width = forest.transform.width(forest.outputs as usize);
    let scale = forest.scale.0;
    // A scale is rounded to f32, and so is its product.
    let largest = forest.sum_bound().into_iter().fold(0.0, f64::max) * scale.abs();
    for (r, row) in found.chunks(width).enumerate() {
        let margins: Vec<f64> = row_of(r).into_iter().map(|m| m * scale).collect();
        let values = forest.transform.apply_f64(&margins);
        let rounded = if scale == 1.0 { 0.0 } else { margins.iter().fold(0.0, |m: f64, v| m.max(v.abs())) };
        let bound = largest + rounded * 2f64.powi(-22);
        for (o, (found, expected)) in row.iter().zip(values).enumerate() {
            let found: f64 = (*found).into();
            let off = (found - expected).abs();
            let allowed = match forest.transform {
                Transform::Identity => bound,
                // A device's exponential is off by a few units in the last place.
                Transform::Sigmoid | Transform::SigmoidPair => bound / 4.0 + 2.5e-7,
                Transform::Exp | Transform::Softmax => expected.abs() * (2.0 * bound + 2e-6) + 1e-37,
                Transform::Step if margins[o].abs() <= bound => 1.0,
                Transform::Argmax => {
                    let top = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    if margins[found as usize] >= top - 2.0 * bound { f64::INFINITY } else { 0.0 }
                }
                Transform::Step => 0.0,
                Transform::Softplus | Transform::OppositePair | Transform::ComplementPair => bound + 2.5e-7,
                Transform::PowerOfTwo | Transform::SoftmaxZero => {
                    expected.abs() * (2.0 * bound + 2e-6) + 1e-37
                }
                Transform::MeanAndVariance if o == 0 => bound,
                Transform::MeanAndVariance => expected.abs() * (3.0 * bound + 4e-6) + 1e-37,
                // Steps of a slope of at most 1 add up, and so do the roundings on the way.
                Transform::CumulativeSoftplus => {
                    let largest = margins.iter().fold(expected.abs(), |m: f64, v| m.max(v.abs()));
                    (o + 1) as f64 * (bound + 5e-7 + largest * 2.5e-7)
                }
                Transform::SignedSquare => 2.0 * expected.abs().sqrt() * bound + bound * bound + 1e-7,
                // Steep at its ends: a hundredth of the way in the slope is below 40.
                Transform::Probit => 40.0 * bound + 1e-5 * expected.abs(),
            };
            assert!(
                off <= allowed,
                "{what}: row {r}, value {o}: {found} is {off:e} from {expected}, at most {allowed:e}"
            );
        }
    }
}

/// The sum of finite numbers, rounded to `f64` about once: partial sums that overlap in no bit hold it without error
/// (Shewchuk, 1997).
pub fn exact_sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut partials: Vec<f64> = Vec::new();
    for mut x in values {
        partials.retain_mut(|y| {
            let (large, small) = if x.abs() < y.abs() { (*y, x) } else { (x, *y) };
            x = large + small;
            *y = small - (x - large);
            *y != 0.0
        });
        partials.push(x);
    }
    partials.iter().sum()
}

/// The reference's margins of a specimen's row.
pub fn reference_margins(s: &Specimen) -> impl Fn(usize) -> Vec<f64> {
    |r| reference::margins(&s.forest, s.row(r))
}

#[cfg(feature = "cube")]
#[path = "gpu.rs"]
mod device_under_test;
#[cfg(feature = "cube")]
pub use device_under_test::gpu;

/// The burn devices that are built in and answer. A GPU backend without a driver is skipped on one line, which
/// `FANGORN_REQUIRE_GPU` makes a failure.
#[cfg(feature = "burn")]
#[allow(deprecated)]
pub fn devices() -> Vec<(&'static str, burn::tensor::Device)> {
    use burn::tensor::Device;
    let mut found: Vec<(&'static str, Device)> = Vec::new();
    #[cfg(feature = "flex")]
    found.push(("flex", Device::flex()));
    #[cfg(feature = "ndarray")]
    found.push(("ndarray", Device::ndarray()));
    #[cfg(feature = "cube")]
    found.extend(gpu());
    found
}

/// A model of the project's own zoo.
pub fn named(name: &str) -> Specimen {
    specimen(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo").join(name))
}

/// Whether a schedule was refused because the driver would miscompile shared memory, as Mesa's does with SPIR-V.
pub fn lacks_shared_memory(error: &fangorn::Error) -> bool {
    error.to_string().contains("VK_KHR_workgroup_memory_explicit_layout")
}
