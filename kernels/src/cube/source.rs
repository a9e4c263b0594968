//! A kernel's text, without a launch.

use cubecl::{CompilationError, Compiler, client::Client, define_kernel, prelude::*};

use super::{
    expand::forest,
    memory::{BuffersLaunch, CallLaunch},
};
use crate::plan::PlanRef;

/// What a compiler makes of a plan for the device behind `client`: WGSL, SPIR-V, PTX, in checked mode.
///
/// # Errors
/// The compiler's refusal.
pub fn source<C: Compiler>(
    client: &Client,
    plan: &PlanRef,
    mut compiler: C,
    options: &C::CompilationOptions,
) -> Result<String, CompilationError> {
    let none = client.empty(4);
    // SAFETY: the kernel is expanded and not launched, so nothing is read or written.
    let buffer = || unsafe { BufferArg::from_raw_parts(none.clone(), 1) };
    let sizes = plan.sizes.iter().map(|_| 0).collect();
    let partials = plan.partials.iter().map(|_| 0).collect();
    let call = CallLaunch::new(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1.0, sizes, partials);
    let atomic = (plan.emit.sums() && plan.is_atomic()).then(buffer).into_iter().collect();
    let [x, y, z] = plan.cube_dim;
    let kernel = forest::create_dummy_kernel(
        client.properties_shared(),
        client.target_properties_shared(),
        CubeCount::Static(1, 1, 1),
        CubeDim::new_3d(x, y, z),
        BuffersLaunch::new(buffer(), buffer(), buffer(), buffer(), buffer(), atomic),
        call,
        plan.clone(),
    );
    Ok(compiler.compile(define_kernel(&kernel)?, options)?.to_string())
}
