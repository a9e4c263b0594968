//! A fuser for burn's fusion: elementwise operations after a forest run in the forest's kernel.
//!
//! burn's fusion records operations and asks fusers which operations they can take together. This fuser takes
//! a forest and the elementwise operations after it. It sees the forest as a number, which [`find_forest`]
//! resolves when the operations run. Whether the forest's kernel can take the operations depends on its schedule and
//! on the device. If it can't, the forest runs by itself, and the operations run as burn would run them.

use std::sync::{Arc, OnceLock};

use burn::backend::ir::{CustomOpIr, OperationIr, ScalarIr, TensorIr, TensorStatus};
use burn_cubecl::{
    CubeDevice,
    fusion::{
        CubeFuser, CubeFusionHandle, CubeOptimization, FallbackOperation, FusedOperation,
        OptimizationProvider,
    },
};
use burn_cubecl_fusion::{
    engine::{
        codegen::ir::{FuseArg, FuseBlockConfig, GlobalArgsLaunch},
        fuser::TraceOperationFuser,
        launch::{
            FuseTraceLauncher,
            runner::{TraceRunner, Vectorization},
        },
        settings::{FuseSettings, RefLayoutSetting, VectorizationSetting},
        trace::FuseTrace,
    },
    optim::elemwise::ElemwiseRunner,
};
use burn_fusion::{
    FuserProperties, FuserStatus, OperationFuser,
    stream::{Context, ScalarId},
};
use cubecl::{client::Client, ir::AddressType};
use fangorn_kernels::{Buffer, RecordedInputs, Rows};
use serde::{Deserialize, Serialize};

use super::{ForestOp, cube::rows, numbers::find_forest};
use crate::{
    cube::Executable,
    error::{Error, Result},
    plan::{Emit, EpiloguePlan},
};

/// Number of buffers that a forest's kernel itself binds if it can take operations: rows, model, leaf values,
/// result, partial sums.
const OWN_BINDINGS: u32 = 5;

/// Registers the fuser, so that burn's fusion runs elementwise operations after a forest in the forest's
/// kernel.
pub(super) fn register() -> Result<()> {
    static DONE: OnceLock<Result<(), String>> = OnceLock::new();
    let done = DONE.get_or_init(|| burn_cubecl::fusion::register(Provider).map_err(|e| e.to_string()));
    done.clone().map_err(|why| {
        Error::Device(format!(
            "{why}; call fangorn::op::init() first of all, or call op::forest_with_epilogue for the epilogue of a forest"
        ))
    })
}

struct Provider;

impl OptimizationProvider for Provider {
    type Operation = FusedForest;

    fn fuser(&self, device: &CubeDevice) -> CubeFuser {
        CubeFuser::new(Fuser::new(device.clone()))
    }
}

/// The fuser: it takes a forest, and then elementwise operations.
#[derive(Clone)]
struct Fuser {
    device: CubeDevice,
    /// The operations as they run in the forest's kernel, with the forest's value in a register.
    fused: TraceOperationFuser,
    /// The operations as they run by themselves, with the forest's result in memory.
    alone: TraceOperationFuser,
    forest: Option<(CustomOpIr, FuseArg)>,
    /// Tensors that are dropped between the forest and the first operation.
    dropped: Vec<TensorIr>,
}

impl Fuser {
    fn new(device: CubeDevice) -> Self {
        let most = device.client().properties().hardware.max_bindings;
        let settings = FuseSettings {
            // Writing in place would overwrite rows that other units still read.
            inplace: false,
            output_shape_updates: false,
            vectorization: VectorizationSetting::Deactivated,
            ref_layout: RefLayoutSetting::OnlyContiguous,
            ..FuseSettings::default()
        };
        Self {
            device,
            fused: TraceOperationFuser::new(most.saturating_sub(OWN_BINDINGS), settings),
            alone: TraceOperationFuser::new(most, FuseSettings::default()),
            forest: None,
            dropped: Vec::new(),
        }
    }

    fn close(&mut self) {
        self.fused.close();
        self.alone.close();
    }
}

impl OperationFuser<CubeOptimization> for Fuser {
    fn fuse(&mut self, operation: &OperationIr) {
        if self.status() == FuserStatus::Closed {
            return;
        }
        match (&self.forest, operation) {
            (None, OperationIr::Custom(op)) if emit_function(op).is_some() => {
                let value = self.fused.output_unhandled(&op.outputs[0]);
                self.forest = Some((op.clone(), value));
            }
            (None, _) => self.close(),
            (Some(_), OperationIr::Drop(tensor)) if self.fused.is_empty() => {
                self.dropped.push(tensor.clone())
            }
            (Some(_), _) if self.fused.can_fuse(operation) && self.alone.can_fuse(operation) => {
                self.fused.fuse(operation);
                self.alone.fuse(operation);
            }
            (Some(_), _) => self.close(),
        }
    }

    fn finish(&mut self) -> CubeOptimization {
        let len = self.len();
        let (op, value) = self.forest.clone().expect("what is not ready is not finished");
        CubeOptimization::new(FusedForest {
            device: self.device.clone(),
            state: State {
                fused: self.fused.finish(),
                alone: self.alone.finish(),
                op,
                value,
                dropped: self.dropped.clone(),
                len,
            },
        })
    }

    fn reset(&mut self) {
        self.fused.reset();
        self.alone.reset();
        self.forest = None;
        self.dropped.clear();
    }

    fn status(&self) -> FuserStatus {
        self.fused.status()
    }

    fn properties(&self) -> FuserProperties {
        let properties = self.fused.properties();
        FuserProperties { ready: properties.ready && self.forest.is_some(), ..properties }
    }

    fn len(&self) -> usize {
        usize::from(self.forest.is_some()) + self.dropped.len() + self.fused.len()
    }

    fn clone_dyn(&self) -> Box<dyn OperationFuser<CubeOptimization>> {
        Box::new(self.clone())
    }
}

/// Returns the function from a forest to the results that a recorded operation writes. Returns `None` for an operation
/// that no forest has recorded.
fn emit_function(op: &CustomOpIr) -> Option<fn(&ForestOp) -> Emit> {
    match (&op.id[..], op.inputs.len(), op.outputs.len(), op.scalars.len()) {
        ("forest_margins", 2, 1, 1) => Some(|_| Emit::Margins),
        ("forest_values", 2, 1, 1) => Some(|op| Emit::Values(op.forest().transform)),
        _ => None,
    }
}

/// A forest with operations after it.
struct FusedForest {
    device: CubeDevice,
    state: State,
}

/// The serialisable state of a [`FusedForest`].
#[derive(Serialize, Deserialize)]
struct State {
    fused: FuseTrace,
    alone: FuseTrace,
    op: CustomOpIr,
    value: FuseArg,
    dropped: Vec<TensorIr>,
    len: usize,
}

impl FusedOperation for FusedForest {
    const NAME: &'static str = "Forest";
    type State = State;

    fn num_ops_fused(&self) -> usize {
        self.state.len
    }

    fn max_relative_shape_id(&self) -> Option<usize> {
        self.state.fused.max_relative_shape_id().max(self.state.alone.max_relative_shape_id())
    }

    fn run(
        &mut self,
        context: &mut Context<CubeFusionHandle>,
        fallback: &dyn Fn(usize) -> Box<dyn FallbackOperation>,
    ) {
        if !self.run_fused(context) {
            self.run_one_by_one(context, &*fallback(0));
        }
    }

    fn to_state(&self) -> State {
        let State { fused, alone, op, value, dropped, len } = &self.state;
        State {
            fused: fused.clone(),
            alone: alone.clone(),
            op: op.clone(),
            value: value.clone(),
            dropped: dropped.clone(),
            len: *len,
        }
    }

    fn from_state(device: &CubeDevice, state: State) -> Self {
        Self { device: device.clone(), state }
    }
}

impl FusedForest {
    /// Runs forest and operations in one launch of the forest's kernel. Returns `false`, and does nothing, if
    /// the kernel can't take the operations.
    fn run_fused(&self, context: &mut Context<CubeFusionHandle>) -> bool {
        let State { op, value, fused, .. } = &self.state;
        let Some((forest, emit)) = self.forest(context) else { return false };
        let input = |i: usize| {
            let tensor: &TensorIr = context.tensors.get(&op.inputs[i].id)?;
            Some((context.handles.get_handle_ref(&tensor.id)?.clone(), tensor.clone()))
        };
        let (Some((x, rows_ir)), Some((leaves, leaves_ir))) = (input(0), input(1)) else { return false };
        let epilogue = EpiloguePlan { recorded: true, ..EpiloguePlan::default() };
        let executable =
            match forest.executable_with_epilogue(&self.device, rows_ir.shape[0], x.dtype, emit, &epilogue) {
                Ok(executable) => executable,
                // The error is reported when the forest runs by itself.
                Err(_) => return false,
            };
        if x.tiles.is_some() || leaves.strides[..] != [1] {
            return false;
        }
        let rows = rows(&x.handle, x.dtype, &rows_ir.shape[..], &x.strides[..]);
        if !executable.takes_recorded(&rows) {
            return false;
        }
        let inputs = [(rows_ir.id, x), (leaves_ir.id, leaves.clone())];
        let leaves = Buffer { handle: leaves.handle, len: leaves_ir.shape.num_elements() };
        let runner = Runner { executable, rows, leaves, value };
        let client = self.device.client();
        if FuseTraceLauncher::new(fused, &runner).launch(&client, &self.device, context).is_err() {
            // The trace may have dropped inputs that the forest still has to read.
            for (id, input) in inputs {
                if !context.handles.has_handle(&id) {
                    context.handles.register_handle(id, input);
                }
            }
            return false;
        }
        for (input, tensor) in op.inputs.iter().zip([rows_ir, leaves_ir]) {
            // The forest was the last reader of this input.
            if input.status == TensorStatus::ReadWrite {
                context.handles.remove_handle(tensor.id);
            }
        }
        self.drop_tensors(context);
        true
    }

    /// Runs the forest by itself, and then the operations.
    fn run_one_by_one(&self, context: &mut Context<CubeFusionHandle>, forest: &dyn FallbackOperation) {
        forest.run(context);
        self.drop_tensors(context);
        let launcher = FuseTraceLauncher::new(&self.state.alone, &ElemwiseRunner);
        if let Err(error) = launcher.launch(&self.device.client(), &self.device, context) {
            panic!("operations after a forest: {error:?}");
        }
    }

    fn drop_tensors(&self, context: &mut Context<CubeFusionHandle>) {
        for tensor in &self.state.dropped {
            if let Some(tensor) = context.tensors.get(&tensor.id) {
                context.handles.remove_handle(tensor.id);
            }
        }
    }

    fn forest(&self, context: &Context<CubeFusionHandle>) -> Option<(Arc<ForestOp>, Emit)> {
        let ScalarIr::UInt(value) = self.state.op.scalars.first()? else { return None };
        let ScalarIr::UInt(number) = context.scalars.get(&ScalarId { value: *value })? else { return None };
        let forest = find_forest(*number)?;
        let emit = emit_function(&self.state.op)?(&forest);
        Some((forest, emit))
    }
}

/// Launches the forest's kernel with the tensors that the operations read and write.
struct Runner<'a> {
    executable: &'a Executable,
    rows: Rows,
    leaves: Buffer,
    value: &'a FuseArg,
}

impl Vectorization for Runner<'_> {}

impl TraceRunner for Runner<'_> {
    type Error = &'static str;

    fn run<'a>(
        &'a self,
        _client: &'a Client,
        inputs: GlobalArgsLaunch,
        outputs: GlobalArgsLaunch,
        configs: &'a [FuseBlockConfig],
    ) -> Result<(), Self::Error> {
        if inputs.required_address_type().max(outputs.required_address_type()) > AddressType::U32 {
            return Err("a tensor beside the forest has more than 2^32 elements");
        }
        let [config] = configs else { return Err("operations in several blocks") };
        let fused = RecordedInputs { inputs, outputs, config: config.clone(), value: self.value.clone() };
        self.executable.run_recorded(&self.rows, &self.leaves, fused);
        Ok(())
    }
}
