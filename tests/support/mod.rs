//! What the tests share: the zoo, and how results are compared.

// Each test crate uses its part.
#![allow(dead_code, unused_imports)]

mod compare;

use std::path::{Path, PathBuf};

use fangorn::{
    Forest,
    forest::{Transform, reference},
    import,
};

pub use compare::{assert_margins, assert_values, lacks_shared_memory};

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
