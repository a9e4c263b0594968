//! Writes `.npz` files as numpy does, and as it never would.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value, json};

/// An array of one dimension.
#[derive(Clone, Debug)]
pub enum Array {
    U1(Vec<u8>),
    I4(Vec<i32>),
    I8(Vec<i64>),
    F8(Vec<f64>),
}

impl Array {
    /// As a `.npy` file.
    pub fn npy(&self) -> Vec<u8> {
        let (descr, entries, bytes) = match self {
            Self::U1(values) => ("|u1", values.len(), values.clone()),
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

/// A model of scikit-learn's, as the exporter writes it.
#[derive(Clone, Debug)]
pub struct Model {
    pub head: Value,
    pub arrays: BTreeMap<&'static str, Array>,
}

impl Model {
    /// The smallest model that has every part: a tree with a split on a number and one on categories, and a leaf.
    pub fn minimal() -> Self {
        let head = json!({
            "format": 1, "estimator": "HistGradientBoostingRegressor", "version": "1.9.1", "features": 3,
            "names": ["a", "b", "c"], "outputs": 1, "compare": "f32", "scale": 1.0, "transform": "identity",
            "classes": "none", "threshold": 0.0, "labels": [], "round": 1, "categories": "whole",
        });
        let arrays = BTreeMap::from([
            ("base", Array::F8(vec![0.5])),
            ("tree_offsets", Array::I8(vec![0, 5, 6])),
            ("tree_outputs", Array::I4(vec![0, 0])),
            ("left", Array::I4(vec![1, -1, 3, -1, -1, -1])),
            ("right", Array::I4(vec![2, -1, 4, -1, -1, -1])),
            ("feature", Array::I4(vec![0, 0, 2, 0, 0, 0])),
            ("threshold", Array::F8(vec![0.5, 0.0, 0.0, 0.0, 0.0, 0.0])),
            ("missing_left", Array::U1(vec![1, 0, 0, 0, 0, 0])),
            ("set", Array::I4(vec![-1, -1, 0, -1, -1, -1])),
            ("set_offsets", Array::I8(vec![0, 2])),
            ("set_members", Array::I4(vec![1, 3])),
            ("values", Array::F8(vec![0.25, 0.125, -0.75, 2.0])),
        ]);
        Self { head, arrays }
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
