//! Compiles a plan's kernel without a launch and without a device.

use std::sync::Arc;

use cubecl::{CompilationError, Compiler, define_kernel, ir::DeviceProperties, prelude::*};

use super::{
    epilogue_steps::EpilogueOperandsCompilationArg,
    expand::forest,
    memory::{BuffersCompilationArg, CallCompilationArg},
};
use fangorn_ir::{
    Combine, EpiloguePlan, Number,
    cube::{EpilogueSite, PlanRef},
};

/// Compiles the kernel of a plan to WGSL, SPIR-V, PTX or a code object, as `compiler` does for a launch.
///
/// # Errors
/// The compiler refuses the kernel.
pub fn compile<C: Compiler>(
    device: Arc<DeviceProperties>,
    plan: &PlanRef,
    mut compiler: C,
    options: &C::CompilationOptions,
) -> Result<C::Representation, CompilationError> {
    let buffer = || BufferCompilationArg { inplace: None };
    let atomic = plan.emit.sums() && plan.is_atomic();
    let whole = plan.combine == Combine::Fixed;
    // If a separate launch computes the epilogue, this kernel does not.
    let epilogue = if plan.epilogue_site() == EpilogueSite::Launch {
        EpiloguePlan::default()
    } else {
        plan.own.epilogue.clone()
    };
    let buffers = BuffersCompilationArg {
        rows: buffer(),
        model: buffer(),
        leaves: buffer(),
        out: buffer(),
        partial: buffer(),
        atomic: (atomic && !whole).then(buffer).into_iter().collect(),
        atomic_words: (atomic && whole).then(buffer).into_iter().collect(),
        beside: EpilogueOperandsCompilationArg {
            buffers: std::iter::repeat_with(buffer).take(epilogue.buffers() as usize).collect(),
            numbers: std::iter::repeat_n((), epilogue.numbers() as usize).collect(),
            halves: (epilogue.number == Number::F16).then(buffer).into_iter().collect(),
            brains: (epilogue.number == Number::BF16).then(buffer).into_iter().collect(),
            // A call supplies the operations that burn's fusion recorded.
            recorded: std::iter::empty().collect(),
        },
    };
    let numbers = |count: usize| std::iter::repeat_n((), count).collect();
    let call = CallCompilationArg {
        batch: (),
        trees: (),
        row_stride: (),
        column_stride: (),
        row_offset: (),
        trees_at: (),
        slots_at: (),
        questions_at: (),
        columns_at: (),
        ranks_at: (),
        base_at: (),
        scale: (),
        sizes: numbers(plan.sizes.len()),
        partials_at: numbers(plan.own.partials.len()),
    };
    let [x, y, z] = plan.own.cube_dim;
    let settings =
        KernelSettings::new(CubeDim::new_3d(x, y, z).into(), ExecutionMode::Unchecked, AddressType::U32);
    let kernel = forest::Forest::new(
        settings,
        device,
        Arc::new(TargetProperties::default()),
        buffers,
        call,
        plan.clone(),
    );
    compiler.compile(define_kernel(&kernel)?, options)
}
