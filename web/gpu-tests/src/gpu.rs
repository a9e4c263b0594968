//! The browser's GPU: uploads, runs and reads.

use cubecl::{
    client::Client,
    device::WgpuDeviceKind,
    wgpu::{RuntimeOptions, WebGpu, WgpuDevice, try_init_setup_async},
};
use fangorn::{
    Forest,
    cube::{Buffer, Executable, Explainer, Rows, device},
    plan::RowType,
    schedule::Device,
};
use half::{bf16, f16};
use wasm_bindgen::prelude::*;

/// The types of rows that kernels read.
pub const ROW_TYPES: [RowType; 3] = [RowType::F32, RowType::F16, RowType::BF16];

/// How rows lie in a device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// One row after the other.
    Rows,
    /// One column after the other.
    Columns,
    /// One row after the other, with values between them that no kernel may read.
    Apart,
}

/// All ways in which rows lie.
pub const PLACEMENTS: [Placement; 3] = [Placement::Rows, Placement::Columns, Placement::Apart];

/// The browser's GPU.
pub struct Gpu {
    pub client: Client,
}

impl Gpu {
    /// Asks the browser for its GPU.
    pub async fn open() -> Result<Self, JsError> {
        let message = |error: &dyn std::fmt::Display| JsError::new(&error.to_string());
        let options = RuntimeOptions::try_default().map_err(|e| message(&e))?;
        let selected = WgpuDevice::default();
        try_init_setup_async::<WebGpu>(&selected, options).await.map_err(|e| message(&e))?;
        let opened = cubecl::Device::wgpu(WgpuDeviceKind::default()).map_err(|e| message(&e))?;
        Ok(Self { client: opened.client() })
    }

    /// Returns what the GPU can do.
    pub fn device(&self) -> Device {
        device(&self.client)
    }

    /// Whether the GPU stores numbers of type f16.
    pub fn has_halves(&self) -> bool {
        use cubecl::ir::{ElemType, FloatKind, features::TypeUsage};
        self.client.properties().type_usage(ElemType::Float(FloatKind::F16)).contains(TypeUsage::Buffer)
    }

    /// Uploads numbers. No buffer is empty.
    pub fn floats(&self, values: impl IntoIterator<Item = f32>) -> Buffer {
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_ne_bytes).collect();
        let handle = self.client.create_from_slice(if bytes.is_empty() { &[0; 4] } else { &bytes });
        Buffer { handle, len: bytes.len() / 4 }
    }

    /// Uploads leaf values, by leaf slot.
    pub fn leaves(&self, forest: &Forest) -> Buffer {
        self.floats(forest.leaf_values.iter().map(|v| v.0 as f32))
    }

    /// Uploads rows, as values of a type.
    pub fn rows(&self, values: &[f32], columns: usize, of: RowType, placement: Placement) -> Rows {
        let batch = values.len() / columns;
        let (offset, row, column) = match placement {
            Placement::Rows => (0, columns, 1),
            Placement::Columns => (0, 1, batch),
            Placement::Apart => (1, columns + 2, 1),
        };
        // What lies between rows is a number that decides otherwise than most.
        let mut all =
            vec![1e4; offset + values.len() + if placement == Placement::Apart { 2 * batch } else { 0 }];
        for (i, value) in values.iter().enumerate() {
            all[offset + i / columns * row + i % columns * column] = *value;
        }
        let mut bytes: Vec<u8> = match of {
            RowType::F16 => all.iter().flat_map(|v| f16::from_f32(*v).to_ne_bytes()).collect(),
            RowType::BF16 => all.iter().flat_map(|v| bf16::from_f32(*v).to_ne_bytes()).collect(),
            _ => all.iter().flat_map(|v| v.to_ne_bytes()).collect(),
        };
        bytes.resize(bytes.len().next_multiple_of(4).max(4), 0);
        Rows {
            words: Buffer { handle: self.client.create_from_slice(&bytes), len: bytes.len() / 4 },
            batch: batch as u32,
            row_stride: row as u32,
            column_stride: column as u32,
            offset: offset as u32,
        }
    }

    /// Returns room for words. It holds no zeros, so that a word that no kernel writes shows.
    pub fn room(&self, len: usize) -> Buffer {
        Buffer { handle: self.client.create_from_slice(&vec![0xfe; len.max(1) * 4]), len }
    }

    /// Reads the first `len` words of a buffer.
    pub async fn read(&self, from: Buffer, len: usize) -> Vec<u32> {
        let bytes = self.client.read_async(vec![from.handle]).await.expect("the GPU answers").remove(0);
        let words = bytes.chunks_exact(4).take(len);
        let words: Vec<u32> =
            words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect();
        assert_eq!(words.len(), len, "the GPU returned other words");
        words
    }

    /// Runs an executable, and returns `width` words for each row.
    pub async fn run(&self, executable: &Executable, forest: &Forest, rows: &Rows, width: usize) -> Vec<u32> {
        let len = rows.batch as usize * width;
        let out = self.room(len);
        executable.run(rows, &self.leaves(forest), &out);
        self.read(out, len).await
    }

    /// Explains rows.
    pub async fn explain(&self, explainer: &Explainer, rows: &Rows, of: RowType) -> Vec<f32> {
        let len = rows.batch as usize * explainer.width();
        let out = self.room(len);
        explainer.run(rows, of, &out);
        as_floats(self.read(out, len).await)
    }
}

/// Returns the numbers whose bits are given.
pub fn as_floats(words: Vec<u32>) -> Vec<f32> {
    words.into_iter().map(f32::from_bits).collect()
}

/// Returns values as a type of rows holds them.
pub fn stored(values: &[f32], of: RowType) -> Vec<f32> {
    let round = |v: f32| match of {
        RowType::F16 => f16::from_f32(v).to_f32(),
        RowType::BF16 => bf16::from_f32(v).to_f32(),
        _ => v,
    };
    values.iter().map(|v| round(*v)).collect()
}
