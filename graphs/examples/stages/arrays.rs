//! Rows in memory, and arrays in `.npy` files.

use std::{fs::File, path::Path};

use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use fangorn_graphs::fangorn::graph::{self, Elements};
use npyz::{NpyFile, WriterBuilder};

use super::Result;

/// A table of floats, or of integer ids such as tokens.
#[derive(Clone)]
pub struct Table {
    values: Values,
    columns: usize,
}

#[derive(Clone)]
enum Values {
    Floats(Vec<f32>),
    Integers(Vec<i32>),
}

impl Table {
    pub fn read(path: &Path) -> Result<Self> {
        let file = open(path)?;
        let &[_, columns] = file.shape() else {
            return Err(format!("{}: not a table", path.display()).into());
        };
        let columns = usize::try_from(columns)?.max(1);
        let values = match file.dtype().descr().trim_matches('\'') {
            "<i4" => Values::Integers(file.into_vec()?),
            _ => Values::Floats(file.into_vec()?),
        };
        Ok(Self { values, columns })
    }

    pub fn rows(&self) -> usize {
        let length = match &self.values {
            Values::Floats(values) => values.len(),
            Values::Integers(values) => values.len(),
        };
        length / self.columns
    }

    /// Returns the rows at these indices, in the order of the indices.
    pub fn select(&self, rows: &[usize]) -> Self {
        fn pick<T: Copy>(values: &[T], rows: &[usize], columns: usize) -> Vec<T> {
            rows.iter().flat_map(|r| &values[r * columns..][..columns]).copied().collect()
        }
        let values = match &self.values {
            Values::Floats(values) => Values::Floats(pick(values, rows, self.columns)),
            Values::Integers(values) => Values::Integers(pick(values, rows, self.columns)),
        };
        Self { values, columns: self.columns }
    }

    /// Iterates over all rows, at most `rows` at a time.
    pub fn pieces(&self, rows: usize) -> impl Iterator<Item = Self> + '_ {
        let all: Vec<usize> = (0..self.rows()).collect();
        all.chunks(rows).map(|rows| self.select(rows)).collect::<Vec<_>>().into_iter()
    }

    /// Returns the values as a tensor of a graph, `[rows, columns]`.
    pub fn tensor(&self) -> graph::Tensor {
        let elements = match &self.values {
            Values::Floats(values) => Elements::F32(values.clone()),
            Values::Integers(values) => Elements::I32(values.clone()),
        };
        graph::Tensor::new([self.rows(), self.columns], elements).expect("a table")
    }

    /// Returns the values as numbers on a device, `[rows, columns]`.
    pub fn floats(&self, device: &Device) -> Tensor<2> {
        let values = match &self.values {
            Values::Floats(values) => values.clone(),
            Values::Integers(values) => values.iter().map(|v| *v as f32).collect(),
        };
        Tensor::from_data(TensorData::new(values, [self.rows(), self.columns]), (device, DType::F32))
    }

    /// Returns the values as ids on a device, `[rows, columns]`.
    pub fn integers(&self, device: &Device) -> Tensor<2, Int> {
        let values = match &self.values {
            Values::Integers(values) => values.clone(),
            Values::Floats(values) => values.iter().map(|v| *v as i32).collect(),
        };
        Tensor::from_data(TensorData::new(values, [self.rows(), self.columns]), (device, DType::I32))
    }
}

fn open(path: &Path) -> Result<NpyFile<std::io::BufReader<File>>> {
    let file = File::open(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(NpyFile::new(std::io::BufReader::new(file))?)
}

pub fn integers(path: &Path) -> Result<Vec<i32>> {
    Ok(open(path)?.into_vec()?)
}

/// Reads an array of floats. Returns its values and its shape.
pub fn read(path: &Path) -> Result<(Vec<f32>, Vec<usize>)> {
    let file = open(path)?;
    let shape = file.shape().iter().map(|n| usize::try_from(*n)).collect::<std::result::Result<_, _>>()?;
    Ok((file.into_vec()?, shape))
}

/// Writes values as an array of this shape.
pub fn write<T: npyz::AutoSerialize + Copy>(path: &Path, values: &[T], shape: &[usize]) -> Result<()> {
    let shape: Vec<u64> = shape.iter().map(|n| *n as u64).collect();
    let file = std::io::BufWriter::new(File::create(path).map_err(|e| format!("{}: {e}", path.display()))?);
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(&shape).writer(file).begin_nd()?;
    writer.extend(values.iter().copied())?;
    Ok(writer.finish()?)
}

pub fn floats<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>> {
    Ok(tensor.into_data().try_to_vec().map_err(|e| format!("{e:?}"))?)
}
