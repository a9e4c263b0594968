//! Writes `.npz` files as numpy does, and as it never would.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};

/// An array of one dimension.
#[derive(Clone, Debug)]
pub enum Array {
    U1(Vec<u8>),
    U4(Vec<u32>),
    I4(Vec<i32>),
    I8(Vec<i64>),
    F8(Vec<f64>),
}

impl Array {
    /// As a `.npy` file.
    pub fn npy(&self) -> Vec<u8> {
        let (descr, entries, bytes) = match self {
            Self::U1(values) => ("|u1", values.len(), values.clone()),
            Self::U4(values) => {
                ("<u4", values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
            }
            Self::I4(values) => {
                ("<i4", values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
            }
            Self::I8(values) => ("<i8", values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            Self::F8(values) => ("<f8", values.len(), values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        };
        npy(&format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({entries},), }}"), &bytes)
    }
}

/// A `.npy` file with that header.
pub fn npy(header: &str, values: &[u8]) -> Vec<u8> {
    let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.resize(10 + length - 1, b' ');
    bytes.push(b'\n');
    bytes.extend(values);
    bytes
}

/// How an archive is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zip {
    Stored,
    Deflated,
    /// Stored, with all that zip64 has for archives past 4 GiB.
    Wide,
}

/// An archive of these files.
pub fn zip(files: &[(String, Vec<u8>)], zip: Zip) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    let wide = zip == Zip::Wide;
    let narrow = |n: usize| if wide { u32::MAX } else { n as u32 }.to_le_bytes();
    for (name, bytes) in files {
        let mut sum = flate2::Crc::new();
        sum.update(bytes);
        let packed = match zip {
            Zip::Deflated => {
                let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
                encoder.write_all(bytes).expect("memory");
                encoder.finish().expect("memory")
            }
            _ => bytes.clone(),
        };
        let method: u16 = if zip == Zip::Deflated { 8 } else { 0 };
        let start = out.len();
        let common = |out: &mut Vec<u8>, extra: u16| {
            out.extend([45, 0, 0, 0]);
            out.extend(method.to_le_bytes());
            out.extend([0, 0, 0x21, 0]);
            out.extend(sum.sum().to_le_bytes());
            out.extend(narrow(packed.len()));
            out.extend(narrow(bytes.len()));
            out.extend((name.len() as u16).to_le_bytes());
            out.extend(extra.to_le_bytes());
        };
        let sizes = [bytes.len(), packed.len()].map(|n| (n as u64).to_le_bytes()).concat();
        out.extend(b"PK\x03\x04");
        // numpy always leaves room for sizes of zip64 here.
        common(&mut out, 20);
        out.extend(name.as_bytes());
        out.extend([1, 0, 16, 0]);
        out.extend(&sizes);
        out.extend(&packed);
        directory.extend(b"PK\x01\x02\x2d\x03");
        // Another field of the extra ones before that of zip64.
        let extra: Vec<u8> = match wide {
            true => [&[9, 9, 2, 0, 1, 1, 1, 0, 24, 0][..], &sizes, &(start as u64).to_le_bytes()].concat(),
            false => Vec::new(),
        };
        common(&mut directory, extra.len() as u16);
        directory.extend([0; 10]);
        directory.extend(narrow(start));
        directory.extend(name.as_bytes());
        directory.extend(extra);
    }
    let start = out.len();
    out.extend(&directory);
    if wide {
        let record = out.len() as u64;
        out.extend(b"PK\x06\x06");
        out.extend(44u64.to_le_bytes());
        out.extend([45, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        for n in [files.len(), files.len(), directory.len(), start] {
            out.extend((n as u64).to_le_bytes());
        }
        out.extend(b"PK\x06\x07\0\0\0\0");
        out.extend(record.to_le_bytes());
        out.extend([1, 0, 0, 0]);
    }
    let count = if wide { u16::MAX } else { files.len() as u16 }.to_le_bytes();
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend([count, count].concat());
    out.extend(narrow(directory.len()));
    out.extend(narrow(start));
    out.extend([0, 0]);
    out
}

/// The arrays that hold the sizes of ranges of others.
const SIZES: [&str; 18] = [
    "children_left.sizes",
    "children_right.sizes",
    "feature.sizes",
    "threshold.sizes",
    "missing_go_to_left.sizes",
    "value.sizes",
    "n_node_samples.sizes",
    "columns.sizes",
    "left.sizes",
    "right.sizes",
    "feature_idx.sizes",
    "num_threshold.sizes",
    "is_leaf.sizes",
    "is_categorical.sizes",
    "bitset_idx.sizes",
    "left_bitsets.sizes",
    "known_bitsets.sizes",
    "known_places.sizes",
];

/// A class as Python prints it.
pub fn class(module: &str, name: &str) -> String {
    format!("<class '{module}.{name}'>")
}

/// A model of scikit-learn's, as the exporter writes it.
#[derive(Clone, Debug)]
pub struct Model {
    pub head: Value,
    pub arrays: BTreeMap<&'static str, Array>,
}

impl Model {
    /// The smallest model that has everything of histogram boosting: a tree with a split on a number and one on
    /// categories, and a leaf. Column 2 holds categories 1, 3 and 7, of which 1 and 3 go left.
    pub fn minimal() -> Self {
        let head = json!({
            "format": 2, "version": "1.9.1", "n_features_in_": 3, "feature_names_in_": ["a", "b", "c"],
            "estimator": class("sklearn.ensemble._hist_gradient_boosting.gradient_boosting", "HistGradientBoostingRegressor"),
            "loss": "squared_error", "base": [[0.5]], "is_categorical_": [false, false, true],
            "categories": [[1, 3, 7]],
        });
        let of_nodes = |array: Array| (array, vec![5, 1]);
        let arrays = [
            ("left", of_nodes(Array::U4(vec![1, 0, 3, 0, 0, 0]))),
            ("right", of_nodes(Array::U4(vec![2, 0, 4, 0, 0, 0]))),
            ("feature_idx", of_nodes(Array::I8(vec![1, 0, 0, 0, 0, 0]))),
            ("num_threshold", of_nodes(Array::F8(vec![0.5, 0.0, 0.0, 0.0, 0.0, 0.0]))),
            ("missing_go_to_left", of_nodes(Array::U1(vec![1, 0, 0, 0, 0, 0]))),
            ("is_leaf", of_nodes(Array::U1(vec![0, 1, 0, 1, 1, 1]))),
            ("value", of_nodes(Array::F8(vec![0.0, 0.25, 0.0, 0.125, -0.75, 2.0]))),
            ("is_categorical", of_nodes(Array::U1(vec![0, 0, 1, 0, 0, 0]))),
            ("bitset_idx", of_nodes(Array::U4(vec![0; 6]))),
            ("left_bitsets", (Array::U4(vec![3, 0, 0, 0, 0, 0, 0, 0]), vec![8, 0])),
            ("known_bitsets", (Array::U4(vec![7, 0, 0, 0, 0, 0, 0, 0]), vec![8])),
            ("known_places", (Array::U4(vec![0; 3]), vec![1; 3])),
        ];
        Self::new(head, arrays)
    }

    /// A model of two fitted trees over two columns, a stump on column 0 and a leaf, with these values of the nodes.
    fn of_trees(module: &str, name: &str, tree: &str, classes: &Value, values: Vec<f64>) -> Self {
        let head = json!({
            "format": 2, "version": "1.9.1", "n_features_in_": 2, "estimator": class(module, name),
            "trees": [[class("sklearn.tree._classes", tree), classes], [class("sklearn.tree._classes", tree), classes]],
        });
        let width = values.len() as i64 / 4;
        let of_nodes = |array: Array| (array, vec![3, 1]);
        let arrays = [
            ("children_left", of_nodes(Array::I8(vec![1, -1, -1, -1]))),
            ("children_right", of_nodes(Array::I8(vec![2, -1, -1, -1]))),
            ("feature", of_nodes(Array::I8(vec![0, -2, -2, -2]))),
            ("threshold", of_nodes(Array::F8(vec![0.5, -2.0, -2.0, -2.0]))),
            ("missing_go_to_left", of_nodes(Array::U1(vec![1, 0, 0, 0]))),
            ("value", (Array::F8(values), vec![3 * width, width])),
            ("n_node_samples", of_nodes(Array::I8(vec![4, 3, 1, 4]))),
            ("columns", (Array::F8(vec![]), vec![])),
        ];
        Self::new(head, arrays)
    }

    /// A random forest of three outputs.
    pub fn means() -> Self {
        let values = (0..12).map(f64::from).collect();
        Self::of_trees(
            "sklearn.ensemble._forest",
            "RandomForestRegressor",
            "DecisionTreeRegressor",
            &Value::Null,
            values,
        )
    }

    /// A bag of trees that see a column each and two of three classes; the second holds weights, as before 1.4.
    pub fn bag() -> Self {
        let values = vec![0.5, 0.5, 0.25, 0.75, 1.0, 0.0, 3.0, 1.0];
        let bag = Self::of_trees(
            "sklearn.ensemble._bagging",
            "BaggingClassifier",
            "ExtraTreeClassifier",
            &json!([0, 2]),
            values,
        );
        bag.head(json!({"classes_": ["no", "perhaps", "yes"]})).ranges(
            "columns",
            Array::I8(vec![1, 0]),
            vec![1, 1],
        )
    }

    /// Gradient boosting of two classes.
    pub fn boosting() -> Self {
        let values = vec![0.0, -1.0, 2.0, 0.5];
        let boosting = Self::of_trees(
            "sklearn.ensemble._gb",
            "GradientBoostingClassifier",
            "DecisionTreeRegressor",
            &Value::Null,
            values,
        );
        boosting.head(json!({
            "classes_": [0, 1], "loss": "log_loss", "learning_rate": 0.5, "base": [[0.25]],
            "init_": "<class 'sklearn.dummy.DummyClassifier'> DummyClassifier(strategy='prior')",
        }))
    }

    /// An isolation forest.
    pub fn isolation() -> Self {
        let forest = Self::of_trees(
            "sklearn.ensemble._iforest",
            "IsolationForest",
            "ExtraTreeRegressor",
            &Value::Null,
            vec![0.0; 4],
        );
        forest.head(json!({"offset_": -0.5, "_max_samples": 4}))
    }

    /// One of each family.
    pub fn families() -> [Self; 5] {
        [Self::minimal(), Self::means(), Self::bag(), Self::boosting(), Self::isolation()]
    }

    fn new<const N: usize>(head: Value, arrays: [(&'static str, (Array, Vec<i64>)); N]) -> Self {
        let empty = Self { head, arrays: BTreeMap::new() };
        arrays.into_iter().fold(empty, |model, (name, (array, sizes))| model.ranges(name, array, sizes))
    }

    /// With fields of the head replaced.
    pub fn head(mut self, fields: Value) -> Self {
        for (name, value) in fields.as_object().expect("fields") {
            self.head[name] = value.clone();
        }
        self
    }

    /// With an array replaced.
    pub fn array(mut self, name: &'static str, array: Array) -> Self {
        self.arrays.insert(name, array);
        self
    }

    /// With an array and the sizes of its ranges replaced.
    pub fn ranges(self, name: &'static str, array: Array, sizes: Vec<i64>) -> Self {
        let sizes_name = SIZES.iter().find(|sizes| sizes.strip_suffix(".sizes") == Some(name));
        self.array(name, array).array(sizes_name.expect("an array with sizes"), Array::I8(sizes))
    }

    /// The files of its archive, in the order of their names.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let head = Array::U1(self.head.to_string().into_bytes());
        let arrays = self.arrays.iter().map(|(name, array)| (*name, array)).chain([("fangorn", &head)]);
        arrays.map(|(name, array)| (format!("{name}.npy"), array.npy())).collect()
    }

    /// Its file.
    pub fn bytes(&self) -> Vec<u8> {
        zip(&self.files(), Zip::Stored)
    }
}
