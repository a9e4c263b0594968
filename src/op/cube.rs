//! The operator on cubecl: the plan's kernel on the tensor's own memory.

use std::sync::Arc;

use burn::{
    backend::{
        TensorMetadata,
        tensor::{FloatTensor, IntTensor},
    },
    tensor::{DType, Shape},
};
use burn_cubecl::{CubeBackend, CubeDevice, tensor::CubeTensor};
use fangorn_kernels::cube::Rows;

use super::{ForestBackend, ForestOp};
use crate::{
    cube::Executable,
    error::Result,
    plan::{Emit, RowType},
};

/// What an executable was made for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    device: CubeDevice,
    rows: RowType,
    emit: Emit,
}

impl ForestOp {
    /// The executable for a device, made at its first use there.
    pub(super) fn executable(&self, device: &CubeDevice, dtype: DType, emit: Emit) -> Result<&Executable> {
        let rows = match dtype {
            DType::F16 => RowType::F16,
            DType::BF16 => RowType::BF16,
            _ => RowType::F32,
        };
        let key = Key { device: device.clone(), rows, emit };
        self.cube.get_or_try_init(&key, || {
            let client = device.client();
            let schedule = self.schedule(&crate::cube::device(&client));
            Executable::with_sum(&client, &self.forest, &schedule, emit, rows, self.sum)
        })
    }
}

impl ForestBackend for CubeBackend {
    fn forest_margins(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        sums(x, leaves, &op, Emit::Margins)
    }

    fn forest_values(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        sums(x, leaves, &op, Emit::Values(op.forest().transform))
    }

    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self> {
        let out = empty(&x, op.trees(), DType::I32);
        // No leaf is read.
        let none = x.client.empty(4);
        run(&x, &op, Emit::Slots, (none, 1), &out);
        out
    }
}

/// Margins or values.
fn sums(x: CubeTensor, leaves: CubeTensor, op: &ForestOp, emit: Emit) -> CubeTensor {
    let leaves = burn_cubecl::kernel::into_contiguous(leaves);
    let count = leaves.meta.num_elements();
    let out = empty(&x, emit.width(op.outputs() as u32, 0) as usize, DType::F32);
    run(&x, op, emit, (leaves.handle.clone(), count), &out);
    out
}

fn empty(x: &CubeTensor, width: usize, dtype: DType) -> CubeTensor {
    let shape = Shape::from(vec![x.shape()[0], width]);
    let handle = x.client.empty(shape.num_elements() * 4);
    CubeTensor::new_contiguous(x.client.clone(), x.device.clone(), shape, handle, dtype)
}

fn run(x: &CubeTensor, op: &ForestOp, emit: Emit, leaves: (cubecl::server::Handle, usize), out: &CubeTensor) {
    let executable = op.executable(&x.device, x.dtype, emit).expect("prepared by the caller");
    let values = x.handle.size_in_used() as usize / x.dtype.size();
    let rows = Rows {
        words: x.handle.clone(),
        len: values.div_ceil(4 / x.dtype.size()),
        batch: x.meta.shape()[0] as u32,
        row_stride: x.meta.strides()[0] as u32,
        column_stride: x.meta.strides()[1] as u32,
        offset: 0,
    };
    executable.run(&rows, leaves, (out.handle.clone(), out.meta.num_elements()));
}
