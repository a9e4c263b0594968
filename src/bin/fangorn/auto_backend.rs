//! `--backend auto`: the backend that takes the least time by what `fangorn tune` has measured.

use fangorn::{
    Forest,
    auto::{KeptSchedules, MeasuredTargets, ScheduleStore},
    sum::Contract,
};

use crate::{
    backend::Backend,
    error::{Result, note},
    library_error,
    schedule::TUNED,
};

/// The name that stands for the fastest backend.
pub const AUTO: &str = "auto";

/// Returns the backend that takes the least time for batches of `rows` rows in the host's memory, and the schedules for
/// `--schedule`. Where nothing is measured, that is the CPU with its default schedule. Notes what was chosen, and why.
///
/// # Errors
/// The folder of kept schedules can't be read.
pub fn fastest(forest: &Forest, rows: usize, sum: Contract) -> Result<(Backend, &'static str)> {
    let cpu = Backend::Cpu.key(forest, sum)?;
    let store = ScheduleStore::user();
    let of_cpu =
        store.as_ref().map(|store| store.nearest(&cpu)).transpose().map_err(library_error)?.flatten();
    let of_model = store.map(|store| store.of_model(cpu.model)).transpose().map_err(library_error)?;
    let of_gpus = of_model
        .into_iter()
        .flatten()
        .filter(|kept| kept.key.sum == sum && gpu_of(kept).is_some_and(|gpu| gpu.require().is_ok()));
    let Some(of_cpu) = of_cpu else {
        note(format!(
            "--backend {AUTO}: the CPU's times for this model are not measured, so the CPU predicts; `fangorn tune MODEL \
             --backend {AUTO}` measures them"
        ));
        return Ok((Backend::Cpu, "default"));
    };
    let of_gpus: Vec<_> = of_gpus.collect();
    let name = of_cpu.key.target.clone();
    let measured = MeasuredTargets::new([of_cpu].into_iter().chain(of_gpus.iter().cloned()));
    let us = |name: &str| measured.seconds(name, rows).unwrap_or(f64::INFINITY) * 1e6 / rows as f64;
    let chosen = measured.fastest(rows).filter(|(target, _)| *target != name);
    let Some((target, _)) = chosen else {
        note(format!("--backend {AUTO}: the CPU, {:.4} µs a row in batches of {rows}", us(&name)));
        return Ok((Backend::Cpu, TUNED));
    };
    let gpu = of_gpus.iter().find(|kept| kept.key.target == target).and_then(gpu_of);
    // Another card may be in the machine by now.
    match gpu.map(|gpu| (gpu, gpu.key(forest, sum))) {
        Some((gpu, Ok(key))) if key.target == target => {
            note(format!(
                "--backend {AUTO}: {target}, {:.4} µs a row in batches of {rows}, the CPU {:.4}",
                us(target),
                us(&name)
            ));
            Ok((gpu, TUNED))
        }
        _ => {
            note(format!("--backend {AUTO}: the CPU, since {target} does not answer"));
            Ok((Backend::Cpu, TUNED))
        }
    }
}

/// Returns the GPU's backend that a kept result is for; `None` if it is for a CPU.
fn gpu_of(kept: &KeptSchedules) -> Option<Backend> {
    let name = kept.key.target.split(' ').next()?;
    Backend::parse(name).ok().filter(|backend| backend.is_gpu())
}
