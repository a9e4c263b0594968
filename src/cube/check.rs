//! The self-check of a kernel: it runs generated rows on the device, and compares the results with those of
//! the reference interpreter.

use cubecl::client::Client;
use fangorn_kernels::{Buffer, Rows};

use super::Executable;
use crate::{
    check::{Check, Difference, RunResult, Runner, SelfCheck},
    error::Error,
    forest::Forest,
    plan::{Emit, RowType},
};

/// Runs an executable for a self-check.
struct DeviceRunner<'e> {
    client: &'e Client,
    executable: &'e Executable,
    forest: &'e Forest,
    emit: Emit,
    rows: RowType,
    leaves: Buffer,
}

impl Executable {
    /// Runs a self-check, and returns the first difference from the reference interpreter. It compares what
    /// the kernel writes: leaf slots exactly, margins by the bound of their sum, and values with a fixed
    /// tolerance. Values that rounding alone may change by more are not compared.
    ///
    /// It waits for the device.
    pub fn run_check(
        &self,
        client: &Client,
        forest: &Forest,
        emit: Emit,
        rows: RowType,
        check: SelfCheck,
    ) -> Option<Difference> {
        let leaves: Vec<u8> = forest.leaf_values.iter().flat_map(|v| (v.0 as f32).to_ne_bytes()).collect();
        let handle = client.create_from_slice(if leaves.is_empty() { &[0; 4] } else { &leaves });
        let leaves = Buffer { handle, len: forest.leaf_values.len() };
        let runner = DeviceRunner { client, executable: self, forest, emit, rows, leaves };
        Check::new(forest, check).run::<f32>(&runner, &mut |_, _| {})
    }
}

impl DeviceRunner<'_> {
    /// Runs the kernel and returns the words it writes, `width` for each row.
    fn words(&self, rows: &[f32], width: usize) -> RunResult<u32> {
        let columns = self.forest.features.len();
        let batch = rows.len() / columns.max(1);
        let mut bytes: Vec<u8> = match self.rows {
            RowType::F16 => rows.iter().flat_map(|v| half::f16::from_f32(*v).to_ne_bytes()).collect(),
            RowType::BF16 => rows.iter().flat_map(|v| half::bf16::from_f32(*v).to_ne_bytes()).collect(),
            _ => rows.iter().flat_map(|v| v.to_ne_bytes()).collect(),
        };
        bytes.resize(bytes.len().next_multiple_of(4).max(4), 0);
        let rows = Rows {
            words: Buffer { handle: self.client.create_from_slice(&bytes), len: bytes.len() / 4 },
            batch: batch as u32,
            row_stride: columns as u32,
            column_stride: 1,
            offset: 0,
        };
        let len = batch * width;
        let out = Buffer { handle: self.client.create_from_slice(&vec![0xfe; len.max(1) * 4]), len };
        self.executable.run(&rows, &self.leaves, &out);
        let bytes = self.client.read_one(out.handle).map_err(|e| Error::Device(format!("{e:?}")))?;
        let words = bytes.chunks_exact(4).take(len);
        Ok(words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    fn floats(&self, rows: &[f32]) -> RunResult<f32> {
        let width = self.emit.width(self.forest.outputs, self.forest.trees.len() as u32) as usize;
        Ok(self.words(rows, width)?.into_iter().map(f32::from_bits).collect())
    }
}

impl Runner<f32> for DeviceRunner<'_> {
    fn cast(&self, value: f32) -> f32 {
        match self.rows {
            RowType::F16 => half::f16::from_f32(value).to_f32(),
            RowType::BF16 => half::bf16::from_f32(value).to_f32(),
            _ => value,
        }
    }

    fn leaf_slots(&self, rows: &[f32]) -> Option<RunResult<u32>> {
        (self.emit == Emit::Slots).then(|| self.words(rows, self.forest.trees.len()))
    }

    fn margins(&self, rows: &[f32]) -> Option<RunResult<f32>> {
        (self.emit == Emit::Margins).then(|| self.floats(rows))
    }

    fn values(&self, rows: &[f32]) -> Option<RunResult<f32>> {
        matches!(self.emit, Emit::Values(_)).then(|| self.floats(rows))
    }

    fn flushes_denormals(&self) -> bool {
        true
    }
}
