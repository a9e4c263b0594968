//! What burn's operator and the module cost a call on the CPU over the predictor that they run.

use std::{hint::black_box, path::Path, sync::Arc};

use burn::tensor::{Device, Tensor, TensorData};
use fangorn::{Predictor, cpu::Rows, import, op::ForestOp, schedule::Preset};
use fangorn_graphs::{ForestModule, ForestModuleConfig, Output};

use crate::{
    error::Result,
    read,
    time::{Groups, Summary, groups},
};

/// Rounds that every engine takes part in.
const ROUNDS: usize = 15;
/// Seconds of an engine's turn.
const TURN: f64 = 0.1;

/// The predictor, the operator, the module and the module under autodiff in turns: microseconds a call of wall time, the
/// medians of the turns' medians, and of each turn's differences from the predictor's.
///
/// # Errors
/// Files that can't be read, and what the engines refuse.
pub fn operator(
    model: &Path,
    rows: &Path,
    batches: &str,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let forest = import::load(model, &Default::default())?;
    let (data, columns) = read(rows)?;
    let schedule = Preset::Default.schedule(&forest, false);
    let predictor = Predictor::with_schedule(&forest, &schedule)?;
    let op = Arc::new(ForestOp::with_schedule(forest.clone(), schedule.clone())?);
    let made = |device: &Device| -> std::result::Result<ForestModule, fangorn_graphs::Error> {
        let config = ForestModuleConfig::new(forest.clone()).with_schedule(schedule.clone());
        config.with_output(Output::Margins).init(device)
    };
    let mut backends = vec![("flex", Device::flex())];
    #[allow(deprecated)]
    backends.push(("ndarray", Device::ndarray()));
    println!("microseconds a call; over: more than the predictor's, in the same turn");
    for (name, device) in backends {
        let (module, tracked) = (made(&device)?, made(&device.clone().autodiff())?);
        println!("{name}\tbatch\tpredictor\toperator\tover\tmodule\tover\tautodiff\tover");
        for batch in batches.split(',') {
            let batch: usize = batch.trim().parse()?;
            let values: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
            let x = Tensor::<2>::from_data(TensorData::new(values.clone(), [batch, columns]), &device);
            let view = Rows::new(&values, columns)?;
            let expected = predictor.margins(&view)?;
            for found in [op.margins(x.clone())?, module.forward(x.clone())?, tracked.forward(x.clone())?] {
                let found = found.into_data().try_to_vec::<f32>().map_err(|e| format!("{e:?}"))?;
                if found != expected {
                    return Err(format!("{name}, batch {batch}: other margins than the predictor's").into());
                }
            }
            let mut calls: [Box<dyn FnMut() -> Result<()> + '_>; 4] = [
                // With room of its own, as each of the others has.
                Box::new(|| predictor.margins(black_box(&view)).map(drop).map_err(Into::into)),
                Box::new(|| op.margins(black_box(x.clone())).map(drop).map_err(Into::into)),
                Box::new(|| margins(&module, black_box(x.clone()))),
                Box::new(|| margins(&tracked, black_box(x.clone()))),
            ];
            let mut times = [const { Vec::new() }; 4];
            for _ in 0..ROUNDS {
                for (call, times) in calls.iter_mut().zip(&mut times) {
                    times.push(median(&groups(TURN, call)?));
                }
            }
            let mut line = format!("\t{batch}\t{:.2}", middle(&times[0]));
            for other in &times[1..] {
                let over: Vec<f64> = other.iter().zip(&times[0]).map(|(other, bare)| other - bare).collect();
                line += &format!("\t{:.2}\t{:.2}", middle(other), middle(&over));
            }
            println!("{line}");
        }
    }
    Ok(())
}

fn margins(module: &ForestModule, x: Tensor<2>) -> Result<()> {
    match module.forward(x) {
        Ok(margins) => {
            black_box(margins);
            Ok(())
        }
        Err(fangorn_graphs::Error::Fangorn(error)) => Err(error.into()),
        Err(error) => Err(fangorn::Error::Internal(error.to_string()).into()),
    }
}

fn median(groups: &Groups) -> f64 {
    middle(&groups.wall)
}

fn middle(times: &[f64]) -> f64 {
    Summary::of(times).map_or(f64::NAN, |summary| summary.median)
}
