//! Codes of the rows of columns, before an encoding is chosen.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use rayon::prelude::*;

use super::sizes::{Contents, Encoding, most_tuples};
use crate::DenseMatrix;

/// The number of columns that are coded together: those of a cache line of the row-major matrix.
const TOGETHER: usize = 8;

/// Columns with a code for each row. Tuples have their codes in the order in which rows first hold them.
#[derive(Clone, Debug)]
pub(super) struct Coded {
    pub columns: Vec<usize>,
    /// The code of each row.
    pub codes: Vec<u16>,
    /// For each tuple the first row that holds it.
    pub firsts: Vec<u32>,
    /// For each tuple the number of rows that hold it.
    pub counts: Vec<u32>,
    runs: usize,
}

impl Coded {
    pub fn contents(&self) -> Contents {
        Contents {
            rows: self.codes.len(),
            columns: self.columns.len(),
            tuples: self.firsts.len(),
            runs: self.runs,
            most: self.counts.iter().max().map_or(0, |most| *most as usize),
        }
    }

    /// Codes the columns of two groups as one. Returns `None` unless that may take fewer bytes than the limit.
    pub fn join(&self, other: &Self, limit: u64) -> Option<Self> {
        let mut columns = [self.columns.as_slice(), &other.columns].concat();
        columns.sort_unstable();
        let mut coder = Coder::new(columns, self.codes.len(), limit);
        let keys = self.codes.iter().zip(&other.codes);
        keys.for_each(|(a, b)| coder.push(key(*a, *b)));
        coder.finish()
    }
}

/// Returns a key of the codes of a row in two groups.
pub(super) fn key(a: u16, b: u16) -> u64 {
    u64::from(a) << 16 | u64::from(b)
}

/// The hash of a key: both halves of its product with an odd number, so that the bits of small whole numbers, which are
/// the upper ones, reach all bits. Compression takes half of its time with the standard hash (`examples/compressed.rs`).
#[derive(Default)]
pub(super) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, key: u64) {
        let product = u128::from(self.0 ^ key ^ 0x2545_F491_4F6C_DD1D) * 0x9E37_79B9_7F4A_7C15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

/// Gives codes to the tuples of rows, one row after the other.
struct Coder {
    known: HashMap<u64, u16, BuildHasherDefault<KeyHasher>>,
    coded: Coded,
    /// The number of tuples from which on an encoding does not pay.
    most: usize,
    gave_up: bool,
}

impl Coder {
    fn new(columns: Vec<usize>, rows: usize, limit: u64) -> Self {
        let most = most_tuples(limit, columns.len());
        let codes = Vec::with_capacity(rows);
        let coded = Coded { columns, codes, firsts: Vec::new(), counts: Vec::new(), runs: 0 };
        Self { known: HashMap::default(), coded, most, gave_up: false }
    }

    /// Adds a row. Rows with the same key hold the same tuple.
    fn push(&mut self, key: u64) {
        if self.gave_up {
            return;
        }
        let coded = &mut self.coded;
        let next = coded.firsts.len();
        let code = if next < self.most {
            *self.known.entry(key).or_insert(next as u16)
        } else if let Some(code) = self.known.get(&key) {
            *code
        } else {
            // The codes so far are of no use; other columns may need the memory.
            (coded.codes, self.known, self.gave_up) = (Vec::new(), HashMap::default(), true);
            return;
        };
        if usize::from(code) == next {
            coded.firsts.push(coded.codes.len() as u32);
            coded.counts.push(0);
        }
        coded.counts[usize::from(code)] += 1;
        coded.runs += usize::from(coded.codes.last() != Some(&code));
        coded.codes.push(code);
    }

    fn finish(self) -> Option<Coded> {
        (!self.gave_up).then_some(self.coded)
    }
}

/// Codes each column of a matrix by itself. Returns those that take fewer bytes in an encoding than uncompressed.
/// Elements with the same bits are equal, so that -0 differs from 0 and each NaN from another one.
pub(super) fn columns(dense: &DenseMatrix) -> Vec<Coded> {
    let (rows, columns) = dense.shape();
    let one = Contents { rows, columns: 1, tuples: 0, runs: 0, most: 0 };
    let limit = one.bytes(Encoding::Uncompressed);
    let starts: Vec<usize> = (0..columns).step_by(TOGETHER).collect();
    let of_start = |start: usize| -> Vec<Coded> {
        let end = columns.min(start + TOGETHER);
        let mut coders: Vec<Coder> =
            (start..end).map(|column| Coder::new(vec![column], rows, limit)).collect();
        for row in 0..rows {
            let elements = &dense.row(row)[start..end];
            coders.iter_mut().zip(elements).for_each(|(coder, x)| coder.push(x.to_bits()));
        }
        let pays = |coded: &Coded| coded.contents().least().1 < limit;
        coders.into_iter().filter_map(Coder::finish).filter(pays).collect()
    };
    starts.into_par_iter().flat_map_iter(of_start).collect()
}
