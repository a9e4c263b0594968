//! What the tests share: the zoo, and how results are compared.

// Each test crate uses its part.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use fangorn::{Forest, forest::reference, import};

/// A model with what its library said of its rows.
pub struct Specimen {
    pub name: String,
    pub model: PathBuf,
    pub forest: Forest,
    pub rows: Vec<f32>,
    pub count: usize,
    pub margin: Vec<f32>,
    pub output: Vec<f32>,
    pub leaves: Vec<i32>,
}

impl Specimen {
    pub fn columns(&self) -> usize {
        self.rows.len().checked_div(self.count).unwrap_or(0)
    }

    pub fn row(&self, r: usize) -> &[f32] {
        &self.rows[r * self.columns()..][..self.columns()]
    }
}

fn read<T: npyz::Deserialize>(path: &Path) -> Option<(Vec<u64>, Vec<T>)> {
    let bytes = std::fs::read(path).ok()?;
    let file = npyz::NpyFile::new(&bytes[..]).expect("a npy file");
    let shape = file.shape().to_vec();
    Some((shape, file.into_vec().expect("values of the type")))
}

/// The folders of the project's own zoo, and of the shared one's XGBoost models where it lies beside the checkout.
pub fn folders() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for (zoo, prefix) in [(here.join("tests/zoo"), ""), (here.join("../shared/zoo"), "xgb-")] {
        let entries = std::fs::read_dir(zoo).into_iter().flatten().flatten().map(|e| e.path());
        let named = |p: &PathBuf| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with(prefix));
        found.extend(entries.filter(|p| p.is_dir()).filter(named));
    }
    if let Ok(more) = std::env::var("FANGORN_ZOO") {
        found.extend(
            std::fs::read_dir(more).into_iter().flatten().flatten().map(|e| e.path()).filter(|p| p.is_dir()),
        );
    }
    found.sort();
    assert!(found.len() >= 20, "the project's own zoo is in tests/zoo");
    found
}

/// Loads one folder.
pub fn specimen(folder: &Path) -> Specimen {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let model = ["model.ubj", "model.json"].map(|f| folder.join(f)).into_iter().find(|p| p.exists());
    let model = model.unwrap_or_else(|| panic!("{name}: a model"));
    let forest = import::load(&model, &Default::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
    let (shape, rows) = read(&folder.join("rows.npy")).expect("rows");
    let (_, margin) = read(&folder.join("margin.npy")).expect("margins");
    let output = read(&folder.join("output.npy")).map_or_else(|| margin.clone(), |o| o.1);
    let leaves = read(&folder.join("leaves.npy")).map_or_else(Vec::new, |l| l.1);
    Specimen { name, model, forest, rows, count: shape[0] as usize, margin, output, leaves }
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
pub fn assert_margins(what: &str, forest: &Forest, found: &[f32], expected: impl Fn(usize) -> Vec<f64>) {
    let outputs = forest.outputs as usize;
    let bound = forest.sum_bound();
    for (r, row) in found.chunks(outputs).enumerate() {
        for (o, (found, expected)) in row.iter().zip(expected(r)).enumerate() {
            let off = (f64::from(*found) - expected).abs();
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
pub fn assert_values(what: &str, forest: &Forest, found: &[f32], row_of: impl Fn(usize) -> Vec<f64>) {
    use fangorn::forest::Transform;
    let width = forest.transform.width(forest.outputs as usize);
    let bound = forest.sum_bound().into_iter().fold(0.0, f64::max);
    for (r, row) in found.chunks(width).enumerate() {
        let margins = row_of(r);
        let values = forest.transform.apply_f64(&margins);
        for (o, (found, expected)) in row.iter().zip(values).enumerate() {
            let found = f64::from(*found);
            let off = (found - expected).abs();
            let allowed = match forest.transform {
                Transform::Identity => bound,
                Transform::Sigmoid => bound / 4.0 + 1e-7,
                Transform::Exp | Transform::Softmax => expected.abs() * (2.0 * bound + 2e-6) + 1e-37,
                Transform::Step if margins[o].abs() <= bound => 1.0,
                Transform::Argmax => {
                    let top = margins.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    if margins[found as usize] >= top - 2.0 * bound { f64::INFINITY } else { 0.0 }
                }
                Transform::Step => 0.0,
            };
            assert!(
                off <= allowed,
                "{what}: row {r}, value {o}: {found} is {off:e} from {expected}, at most {allowed:e}"
            );
        }
    }
}

/// The reference's margins of a specimen's row.
pub fn reference_margins(s: &Specimen) -> impl Fn(usize) -> Vec<f64> {
    |r| reference::margins(&s.forest, s.row(r))
}

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

/// The cubecl device under test, if its driver answers.
#[cfg(feature = "cube")]
pub fn gpu() -> Option<(&'static str, burn::tensor::Device)> {
    use burn::tensor::Device;
    let open = || {
        #[cfg(feature = "vulkan")]
        let found = ("vulkan", Device::vulkan(burn::tensor::DeviceKind::DefaultDevice));
        #[cfg(all(feature = "wgpu", not(feature = "vulkan")))]
        let found = ("wgpu", Device::wgpu(burn::tensor::DeviceKind::DefaultDevice));
        #[cfg(all(feature = "cuda", not(feature = "wgpu")))]
        let found = ("cuda", Device::cuda(0));
        #[cfg(all(feature = "rocm", not(any(feature = "wgpu", feature = "cuda"))))]
        let found = ("rocm", Device::rocm(0));
        #[cfg(not(any(feature = "wgpu", feature = "cuda", feature = "rocm")))]
        let found = ("cubecl-cpu", Device::cpu());
        // The first use opens the device; without a driver that panics.
        found.1.identity();
        found
    };
    match std::panic::catch_unwind(open) {
        Ok(found) => Some(found),
        Err(_) if std::env::var("FANGORN_REQUIRE_GPU").is_ok_and(|v| v == "1") => {
            panic!("no GPU driver answers, and one is required")
        }
        Err(_) => {
            eprintln!("skipped: no GPU driver answers");
            None
        }
    }
}

/// A model of the project's own zoo.
pub fn named(name: &str) -> Specimen {
    specimen(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo").join(name))
}

/// Whether a schedule was refused because the driver would miscompile shared memory, as Mesa's does with SPIR-V.
pub fn lacks_shared_memory(error: &fangorn::Error) -> bool {
    error.to_string().contains("VK_KHR_workgroup_memory_explicit_layout")
}
