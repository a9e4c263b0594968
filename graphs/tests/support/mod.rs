//! What the tests share: devices, models with their rows, random forests, and the forest with soft splits in
//! f64.

// Each test crate uses a part of this module. burn has deprecated burn-ndarray, which is served as long as
// burn has it.
#![allow(dead_code, deprecated)]

use std::path::{Path, PathBuf};

use burn::tensor::{Device, Tensor, TensorData};
use fangorn::{
    Forest,
    forest::{CompareType, Node, Predicate, Side, Targets, reference},
    import,
};

/// A model of the project's zoo, with its rows.
pub struct Specimen {
    pub forest: Forest,
    pub rows: Vec<f32>,
    pub count: usize,
    /// The values that the producer's own predict returned.
    pub output: Vec<f64>,
}

impl Specimen {
    pub fn columns(&self) -> usize {
        self.forest.features.len()
    }

    pub fn row(&self, r: usize) -> &[f32] {
        &self.rows[r * self.columns()..][..self.columns()]
    }

    pub fn tensor(&self, device: &Device) -> Tensor<2> {
        tensor(&self.rows, self.columns(), device)
    }
}

/// Returns rows of `columns` values as a tensor.
pub fn tensor(rows: &[f32], columns: usize, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(rows.to_vec(), [rows.len() / columns.max(1), columns]), device)
}

pub fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("f32")
}

/// Returns the bits of a tensor's values.
pub fn bits<const D: usize>(tensor: Tensor<D>) -> Vec<u32> {
    floats(tensor).into_iter().map(f32::to_bits).collect()
}

pub fn zoo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/zoo")
}

pub fn model(name: &str) -> Forest {
    let files = std::fs::read_dir(zoo().join(name)).expect(name).flatten().map(|e| e.path());
    let model = files.filter(|p| p.file_stem().is_some_and(|s| s == "model")).min().expect(name);
    import::load(&model, &Default::default()).expect(name)
}

pub fn named(name: &str) -> Specimen {
    let read = |file: &str| -> Option<(usize, Vec<f64>)> {
        let bytes = std::fs::read(zoo().join(name).join(file)).ok()?;
        let open = || npyz::NpyFile::new(&bytes[..]).expect("a npy file");
        let values = match open().dtype().descr().trim_matches('\'') {
            "<f4" => open().into_vec::<f32>().expect("f32").into_iter().map(f64::from).collect(),
            "<f8" => open().into_vec::<f64>().expect("f64"),
            "<i4" => open().into_vec::<i32>().expect("i32").into_iter().map(f64::from).collect(),
            _ => open().into_vec::<i64>().expect("i64").into_iter().map(|v| v as f64).collect(),
        };
        Some((open().shape()[0] as usize, values))
    };
    let (count, rows) = read("rows.npy").expect("rows");
    let output = read("output.npy").or_else(|| read("margin.npy")).map_or_else(Vec::new, |(_, o)| o);
    let rows = rows.into_iter().map(|v| v as f32).collect();
    Specimen { forest: model(name), rows, count, output }
}

#[path = "../../../tests/support/gpu.rs"]
mod device_under_test;

/// Returns the devices that are built in and answer, the cubecl device under test among them.
pub fn devices() -> Vec<(&'static str, Device)> {
    #[allow(unused_mut)]
    let mut found: Vec<(&'static str, Device)> = Vec::new();
    #[cfg(feature = "flex")]
    found.push(("flex", Device::flex()));
    #[cfg(feature = "ndarray")]
    found.push(("ndarray", Device::ndarray()));
    found.extend(device_under_test::gpu());
    found
}

/// Random numbers from a seed (splitmix64).
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }

    /// Returns a multiple of 1/512 from -1 to 1, so that sums have no error in f32.
    pub fn step(&mut self) -> f64 {
        self.below(1025) as f64 / 512.0 - 1.0
    }
}

/// Returns a random forest of up to 12 trees of depth 5 over 1 to 6 columns. Leaves have single values or
/// vectors, there are one to three outputs, and missing values go to either side. Every third seed also draws
/// other predicates than thresholds.
pub fn forest(seed: u64) -> Forest {
    let mut random = Seeded(seed);
    let columns = 1 + random.below(6);
    let (outputs, vectors) = (1 + random.below(3) as u32, random.below(2) == 0);
    let mut forest = Forest::builder(columns, outputs).base_score((0..outputs).map(|o| f64::from(o) * 0.5));
    for t in 0..1 + random.below(12) as u32 {
        let mut tree = if vectors { forest.vector_tree() } else { forest.tree(t % outputs) };
        // Nodes are added breadth first. `next` is the number of the next node that is not yet referred to.
        let (mut open, mut next) = (vec![0u32], 1u32);
        while !open.is_empty() {
            let depth = open.remove(0);
            if depth < 5 && random.below(5) > 0 {
                let t = CompareType::F32.cast(random.step() + 1e-3);
                let missing = if random.below(2) == 0 { Side::Left } else { Side::Right };
                let ask = match random.below(if seed % 3 == 2 { 6 } else { 1 }) {
                    1 => Predicate::Equal { value: t.into() },
                    2 => Predicate::Always,
                    3 => Predicate::LessZeroAside { threshold: t.into() },
                    4 => Predicate::Less { threshold: f64::INFINITY.into() },
                    _ => CompareType::F32.less(t),
                };
                tree.split(random.below(columns) as u32, ask, missing, next, next + 1);
                next += 2;
                open.extend([depth + 1, depth + 1]);
            } else {
                let values: Vec<f64> =
                    (0..if vectors { outputs } else { 1 }).map(|_| random.step()).collect();
                tree.leaf(0, &values);
            }
        }
    }
    forest.build().expect("a forest")
}

/// Returns the forest with other thresholds, the other side for missing values, and the leaf values in
/// reverse. Its file has the same length.
pub fn alike(forest: &Forest) -> Forest {
    let mut other = forest.clone();
    for node in other.trees.iter_mut().flat_map(|tree| &mut tree.nodes) {
        if let Node::Split { predicate: Predicate::Less { threshold }, missing, .. } = node {
            threshold.0 = CompareType::F32.cast(threshold.0 + 0.25);
            *missing = if *missing == Side::Left { Side::Right } else { Side::Left };
        }
    }
    other.leaf_values.reverse();
    other.verify().expect("a forest");
    other
}

/// Returns random rows for a forest. Some values are missing or zero.
pub fn rows(forest: &Forest, count: usize, seed: u64) -> Vec<f32> {
    let mut random = Seeded(seed);
    let value = |random: &mut Seeded| match random.below(12) {
        0 => f32::NAN,
        1 => 0.0,
        _ => random.step() as f32,
    };
    (0..count * forest.features.len()).map(|_| value(&mut random)).collect()
}

/// Returns the forest with other leaf values.
pub fn with_leaves(forest: &Forest, leaves: &[f64]) -> Forest {
    Forest { leaf_values: leaves.iter().map(|v| (*v).into()).collect(), ..forest.clone() }
}

/// Returns the margins of rows by the reference interpreter, in f64.
pub fn margins(forest: &Forest, rows: &[f32]) -> Vec<f64> {
    rows.chunks(forest.features.len()).flat_map(|row| reference::margins(forest, row)).collect()
}

/// Returns the margins of one row with soft splits, in f64, straight from the definition.
pub fn soft_margins(forest: &Forest, row: &[f64], temperature: f64) -> Vec<f64> {
    let mut sums: Vec<f64> = forest.base_score.iter().map(|b| b.0).collect();
    for (t, tree) in forest.trees.iter().enumerate() {
        let mut open = vec![(0u32, 1.0f64)];
        while let Some((n, reached)) = open.pop() {
            match tree.nodes[n as usize] {
                Node::Leaf { slot } => match &forest.targets {
                    Targets::One(targets) => sums[targets[t] as usize] += reached * forest.leaf(slot)[0].0,
                    Targets::All => {
                        sums.iter_mut().zip(forest.leaf(slot)).for_each(|(s, v)| *s += reached * v.0);
                    }
                },
                Node::Split { feature, predicate, missing, left, right } => {
                    let x = row[feature as usize];
                    let soft = match predicate {
                        Predicate::Less { threshold } if threshold.0.is_finite() => Some(threshold.0),
                        Predicate::LessZeroAside { threshold } if x.abs() > 1e-30 => Some(threshold.0),
                        _ => None,
                    };
                    let p = match soft.filter(|_| !x.is_nan()) {
                        Some(t) => 1.0 / (1.0 + (-(t - x) / temperature).exp()),
                        None => {
                            f64::from(u8::from(reference::side(forest, predicate, missing, x) == Side::Left))
                        }
                    };
                    open.extend([(left, reached * p), (right, reached * (1.0 - p))]);
                }
            }
        }
    }
    sums
}
