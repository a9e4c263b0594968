//! The operator on cubecl: it runs the plan's kernel on the tensor's own memory.

use std::sync::Arc;

use burn::{
    backend::{
        TensorMetadata,
        tensor::{FloatTensor, IntTensor},
    },
    tensor::{DType, Shape},
};
use burn_cubecl::{CubeBackend, CubeDevice, kernel::into_contiguous, tensor::CubeTensor};
use cubecl::client::Client;
use fangorn_kernels::{Buffer, GRADIENT_ROWS, Rows};

use super::{Background, Epilogue, EpilogueTensors, ForestBackend, ForestOp};
use crate::{
    check::{Strictness, Warning},
    cube::{Executable, Explainer, LeafGradients},
    error::{Error, Result},
    plan::{Emit, EpiloguePlan, RowType},
    schedule::{Preset, Schedule},
};

// The order in which a leaf value's gradients are added must be the same on every backend.
const _: () = assert!(GRADIENT_ROWS as usize == super::gradient::GRADIENT_ROWS);

/// The key of an executable: what it was compiled for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    device: CubeDevice,
    /// The rows of the batch size whose schedule it has.
    bucket: usize,
    rows: RowType,
    emit: Emit,
    epilogue: EpiloguePlan,
}

impl ForestOp {
    /// Returns the bucket of a batch on a device: a number of rows that stands for all sizes with this schedule, and the
    /// schedule.
    fn bucket(&self, device: &CubeDevice, batch: usize) -> (usize, &Schedule) {
        let make =
            || Ok::<_, std::convert::Infallible>(self.schedules(&crate::cube::device(&device.client())));
        match self.schedules_on.get_or_try_init(device, make) {
            Ok(schedules) => {
                let nearest = schedules.nearest(batch);
                let first = schedules.buckets().find(|(_, schedule)| *schedule == nearest);
                first.unwrap_or_else(|| schedules.bucket(batch))
            }
            Err(never) => match never {},
        }
    }

    /// Returns the executable for a device, batches of about `batch` rows, a type of rows, and a kind of result. It is
    /// compiled at its first use.
    pub(super) fn executable(
        &self,
        device: &CubeDevice,
        batch: usize,
        dtype: DType,
        emit: Emit,
    ) -> Result<&Executable> {
        let rows = row_type(dtype);
        let (bucket, schedule) = self.bucket(device, batch);
        let key = Key { device: device.clone(), bucket, rows, emit, epilogue: EpiloguePlan::default() };
        self.cube.get_or_try_init(&key, || {
            let client = device.client();
            let made = Executable::builder(&client, &self.forest)
                .schedule(schedule.clone())
                .emit(emit)
                .rows(rows)
                .sum(self.sum)
                .profile(self.profile.as_ref())
                .build()?;
            self.proven(&client, made, emit, rows)
        })
    }

    /// Returns an executable that has passed its self-check: `made`, or one that walks a row in each unit if
    /// `made` has failed.
    fn proven(&self, client: &Client, made: Executable, emit: Emit, rows: RowType) -> Result<Executable> {
        let strictness = Strictness::from_environment()?;
        // A web page has no way to wait for its device.
        let able = !cfg!(target_family = "wasm");
        let Some(check) = strictness.of(self.check).filter(|_| able) else { return Ok(made) };
        let Some(difference) = made.run_check(client, &self.forest, emit, rows, check) else {
            return Ok(made);
        };
        let target = client.name().to_string();
        let wrong =
            |difference| Error::SelfCheck { target: target.clone(), difference: Box::new(difference) };
        if strictness == Strictness::Strict {
            return Err(wrong(difference));
        }
        let plain = Preset::TahoeDirect.schedule_on(&self.forest, crate::cube::device(client));
        let plain = Executable::builder(client, &self.forest)
            .schedule(plain)
            .emit(emit)
            .rows(rows)
            .sum(self.sum)
            .build()?;
        if let Some(difference) = plain.run_check(client, &self.forest, emit, rows, check) {
            return Err(wrong(difference));
        }
        let warning = Warning::FellBack { target, difference };
        log::warn!("fangorn: {warning}");
        self.warnings.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(warning);
        Ok(plain)
    }

    /// Like [`Self::executable`], but with an epilogue. The forest in the device's memory is shared.
    pub(super) fn executable_with_epilogue(
        &self,
        device: &CubeDevice,
        batch: usize,
        dtype: DType,
        emit: Emit,
        epilogue: &EpiloguePlan,
    ) -> Result<&Executable> {
        if epilogue.is_empty() {
            return self.executable(device, batch, dtype, emit);
        }
        let (device, rows) = (device.clone(), row_type(dtype));
        let key =
            Key { bucket: self.bucket(&device, batch).0, device, rows, emit, epilogue: epilogue.clone() };
        let device = &key.device;
        self.cube.get_or_try_init(&key, || {
            let made = self.executable(device, batch, dtype, emit)?.with_epilogue(epilogue.clone());
            let (bound, most) = (made.bindings(), device.client().properties().hardware.max_bindings);
            if bound > most {
                let what = format!("its kernel binds {bound} buffers, the device {most}");
                return Err(Error::Epilogue(format!(
                    "{what}; use fewer steps with tensors or numbers by output"
                )));
            }
            Ok(made)
        })
    }

    /// Returns the explainer for a device. It is made at its first use.
    pub(super) fn explainer_on(&self, device: &CubeDevice) -> Result<&Explainer> {
        self.explainers_on.get_or_try_init(device, || Explainer::new(&device.client(), &self.forest))
    }

    /// Returns the explainer of interactions for a device. It is made at its first use.
    pub(super) fn interactions_on(&self, device: &CubeDevice) -> Result<&Explainer> {
        self.interactions_on
            .get_or_try_init(device, || Explainer::of_interactions(&device.client(), &self.forest))
    }

    /// Returns the sources of the leaf values' gradient. They are uploaded for the first gradient on a device.
    fn leaf_gradients_on(&self, device: &CubeDevice) -> &LeafGradients {
        let make = || Ok::<_, std::convert::Infallible>(LeafGradients::new(&device.client(), &self.forest));
        match self.leaf_gradients_on.get_or_try_init(device, make) {
            Ok(gradients) => gradients,
            Err(never) => match never {},
        }
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

    fn forest_epilogue(
        x: FloatTensor<Self>,
        leaves: FloatTensor<Self>,
        tensors: EpilogueTensors<Self>,
        op: Arc<ForestOp>,
        epilogue: Arc<Epilogue>,
    ) -> FloatTensor<Self> {
        let emit = epilogue.emit(&op);
        let executable = op
            .executable_with_epilogue(&x.device, x.shape()[0], x.dtype, emit, epilogue.plan())
            .expect("prepared by the caller");
        let leaves = into_contiguous(leaves);
        let tensors = tensors.into_vec().into_iter().map(|t| into_contiguous(t).handle).collect();
        let out = empty(&x, epilogue.width(&op), epilogue.dtype());
        executable.run_with(
            &rows_of(&x),
            &buffer(&leaves),
            &epilogue.inputs(&x.device, tensors),
            &buffer(&out),
        );
        out
    }

    fn forest_leaf_gradients(
        x: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        op: Arc<ForestOp>,
    ) -> FloatTensor<Self> {
        let values = op.forest().leaf_values.len();
        let room = x.client.empty(values * 4);
        let (client, device) = (x.client.clone(), x.device.clone());
        let sums = CubeTensor::new_contiguous(client, device, Shape::from(vec![values]), room, DType::F32);
        if values == 0 {
            return sums;
        }
        let executable =
            op.executable(&x.device, x.shape()[0], x.dtype, Emit::Slots).expect("prepared by the caller");
        let grad = into_contiguous(grad);
        let gradients = op.leaf_gradients_on(&x.device);
        gradients.run(executable, &rows_of(&x), row_type(x.dtype), &buffer(&grad), &buffer(&sums));
        sums
    }

    fn forest_contributions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        let explainer = op.explainer_on(&x.device).expect("prepared by the caller");
        let out = floats(&x, vec![x.shape()[0], op.outputs(), op.features() + 1]);
        explainer.run(&rows_of(&x), row_type(x.dtype), &buffer(&out));
        out
    }

    fn forest_interactions(x: FloatTensor<Self>, op: Arc<ForestOp>) -> FloatTensor<Self> {
        let explainer = op.interactions_on(&x.device).expect("prepared by the caller");
        let side = op.features() + 1;
        let out = floats(&x, vec![x.shape()[0], op.outputs(), side, side]);
        explainer.run(&rows_of(&x), row_type(x.dtype), &buffer(&out));
        out
    }

    fn forest_contributions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        let explainer = background.on_device(&x.device).expect("prepared by the caller");
        let out = floats(&x, vec![x.shape()[0], background.outputs(), background.features() + 1]);
        explainer.run(&rows_of(&x), row_type(x.dtype), &buffer(&out));
        out
    }

    fn forest_interactions_against(x: FloatTensor<Self>, background: Arc<Background>) -> FloatTensor<Self> {
        let explainer = background.interactions_on_device(&x.device).expect("prepared by the caller");
        let side = background.features() + 1;
        let out = floats(&x, vec![x.shape()[0], background.outputs(), side, side]);
        explainer.run(&rows_of(&x), row_type(x.dtype), &buffer(&out));
        out
    }

    fn forest_slots(x: FloatTensor<Self>, op: Arc<ForestOp>) -> IntTensor<Self> {
        let out = empty(&x, op.trees(), DType::I32);
        // Leaf slots are written without reading leaf values.
        run(&x, &op, Emit::Slots, &Buffer::none(&x.client), &out);
        out
    }
}

/// Computes margins or values.
fn sums(x: CubeTensor, leaves: CubeTensor, op: &ForestOp, emit: Emit) -> CubeTensor {
    let leaves = into_contiguous(leaves);
    let out = empty(&x, emit.width(op.outputs() as u32, 0) as usize, DType::F32);
    run(&x, op, emit, &buffer(&leaves), &out);
    out
}

/// Checks that a device can hold `width` results of each row in one tensor.
pub(super) fn check_room(device: &CubeDevice, rows: usize, width: usize) -> Result<()> {
    let bytes = (rows as u64).saturating_mul(width as u64).saturating_mul(4);
    let most = device.client().properties().memory.max_page_size;
    match bytes > most {
        true => Err(Error::Rows(format!(
            "{rows} rows of {width} results take {bytes} bytes, the device holds {most} in one tensor; explain fewer at a \
             time"
        ))),
        false => Ok(()),
    }
}

/// Returns room for f32 results of this shape.
fn floats(x: &CubeTensor, shape: Vec<usize>) -> CubeTensor {
    room(x, Shape::from(shape), DType::F32)
}

/// Returns room for `width` results of each row.
fn empty(x: &CubeTensor, width: usize, dtype: DType) -> CubeTensor {
    room(x, Shape::from(vec![x.shape()[0], width]), dtype)
}

fn room(x: &CubeTensor, shape: Shape, dtype: DType) -> CubeTensor {
    let handle = x.client.empty(shape.num_elements() * dtype.size());
    CubeTensor::new_contiguous(x.client.clone(), x.device.clone(), shape, handle, dtype)
}

fn run(x: &CubeTensor, op: &ForestOp, emit: Emit, leaves: &Buffer, out: &CubeTensor) {
    let executable = op.executable(&x.device, x.shape()[0], x.dtype, emit).expect("prepared by the caller");
    executable.run(&rows_of(x), leaves, &buffer(out));
}

/// Returns the memory of a tensor without gaps.
pub(super) fn buffer(tensor: &CubeTensor) -> Buffer {
    Buffer { handle: tensor.handle.clone(), len: tensor.meta.num_elements() }
}

/// Returns the tensor's own memory as rows, in its strides.
fn rows_of(x: &CubeTensor) -> Rows {
    rows(&x.handle, x.dtype, x.meta.shape(), x.meta.strides())
}

/// Returns rows of a type in a buffer.
pub(super) fn rows(
    handle: &cubecl::server::Handle,
    dtype: DType,
    shape: &[usize],
    strides: &[usize],
) -> Rows {
    let values = handle.size_in_used() as usize / dtype.size();
    Rows {
        words: Buffer { handle: handle.clone(), len: values.div_ceil(4 / dtype.size()) },
        batch: shape[0] as u32,
        row_stride: strides[0] as u32,
        column_stride: strides[1] as u32,
        offset: 0,
    }
}

fn row_type(dtype: DType) -> RowType {
    match dtype {
        DType::F16 => RowType::F16,
        DType::BF16 => RowType::BF16,
        _ => RowType::F32,
    }
}
