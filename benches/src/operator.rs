//! `fangorn-benches operator`: measures the time that burn's operator and the burn module add to a call of the
//! predictor that they run, on the CPU.

use std::{hint::black_box, path::Path, sync::Arc};

use burn::{
    module::Module,
    tensor::{Device, Tensor, TensorData},
};
use fangorn::{Forest, Predictor, cpu::Rows, import, op::ForestOp, schedule::Preset};
use fangorn_graphs::forest::{ForestModule, ForestModuleConfig, Output};

use crate::{
    error::Result,
    read,
    time::{Summary, groups},
};

type Failure = Box<dyn std::error::Error>;
type Call<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

/// Rounds of measurement. The predictor and each entry of [`VARIANTS`] have one turn in each round.
const ROUNDS: usize = 15;
/// Seconds of one turn.
const TURN: f64 = 0.1;
/// The callers that are compared with the predictor: burn's operator, the module, the module on an autodiff device
/// without gradients, and the module on an autodiff device with gradients.
const VARIANTS: [&str; 4] = ["operator", "module", "untracked", "tracked"];

/// Times the predictor, the operator and the module in turns, first for margins and then for values. Prints
/// wall times in microseconds a call: the median of the turns' medians, and the median of the turns'
/// differences from the predictor.
///
/// # Errors
/// A file can't be read, or the predictor, the operator or the module refuses the forest.
pub fn operator(model: &Path, rows: &Path, batches: &str) -> std::result::Result<(), Failure> {
    let forest = import::load(model, &Default::default())?;
    let (data, columns) = read(rows)?;
    let mut backends = vec![("flex", Device::flex())];
    #[allow(deprecated)]
    backends.push(("ndarray", Device::ndarray()));
    println!(
        "microseconds a call, the median of {ROUNDS} turns; over: more than the predictor's, in the same turn"
    );
    println!("backend\tbatch\tgives\tpredictor\t{}\tover", VARIANTS.join("\tover\t"));
    for (name, device) in backends {
        for output in [Output::Margins, Output::Values] {
            let callers = Callers::new(&forest, &device, output)?;
            for batch in batches.split(',') {
                let batch: usize = batch.trim().parse()?;
                let values: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
                let [bare, over @ ..] = callers.time(&values, columns, &device)?;
                let mut line = format!("{name}\t{batch}\t{output:?}\t{:.2}", median(&bare));
                for other in &over {
                    let more: Vec<f64> = other.iter().zip(&bare).map(|(other, bare)| other - bare).collect();
                    line += &format!("\t{:.2}\t{:.2}", median(other), median(&more));
                }
                println!("{line}");
            }
        }
    }
    Ok(())
}

/// Everything that runs a forest on one device.
struct Callers {
    predictor: Predictor,
    op: Arc<ForestOp>,
    module: ForestModule,
    untracked: ForestModule,
    tracked: ForestModule,
    output: Output,
}

impl Callers {
    fn new(forest: &Forest, device: &Device, output: Output) -> std::result::Result<Self, Failure> {
        let schedule = Preset::Default.schedule(forest, false);
        let module_on = |device: &Device| {
            let config = ForestModuleConfig::new(forest.clone()).with_schedule(schedule.clone());
            config.with_output(output).init(device)
        };
        let autodiff = device.clone().autodiff();
        Ok(Self {
            predictor: Predictor::builder(forest).schedule(schedule.clone()).build()?,
            op: Arc::new(ForestOp::builder(forest.clone()).schedule(schedule.clone()).build()?),
            module: module_on(device)?,
            untracked: module_on(&autodiff)?.no_grad(),
            tracked: module_on(&autodiff)?,
            output,
        })
    }

    fn run_predictor(&self, rows: &Rows<'_>, values: &[f32], columns: usize) -> Result<Vec<f32>> {
        // The call allocates its result, as the operator and the module do.
        Ok(match self.output {
            Output::Margins => self.predictor.margins(rows)?,
            Output::Values => self.predictor.predict(values, columns)?,
        })
    }

    fn run_operator(&self, x: Tensor<2>) -> Result<Tensor<2>> {
        Ok(match self.output {
            Output::Margins => self.op.margins(x)?,
            Output::Values => self.op.values(x)?,
        })
    }

    /// Returns the median of each turn, in microseconds a call: the predictor's first, then those of
    /// [`VARIANTS`].
    fn time(
        &self,
        values: &[f32],
        columns: usize,
        device: &Device,
    ) -> std::result::Result<[Vec<f64>; 5], Failure> {
        let shape = [values.len() / columns, columns];
        let x = Tensor::<2>::from_data(TensorData::new(values.to_vec(), shape), device);
        let with_autodiff = Tensor::<2>::from_data(x.to_data(), &device.clone().autodiff());
        let rows = Rows::new(values, columns)?;
        let expected = self.run_predictor(&rows, values, columns)?;
        let found = [
            self.run_operator(x.clone())?,
            forward(&self.module, x.clone())?,
            forward(&self.untracked, with_autodiff.clone())?,
            forward(&self.tracked, with_autodiff.clone())?,
        ];
        for (what, found) in VARIANTS.iter().zip(found) {
            let found = found.into_data().try_to_vec::<f32>().map_err(|e| format!("{e:?}"))?;
            // Under autodiff, burn's own operations make values of margins, and they round differently.
            let near = |(a, b): (&f32, &f32)| a == b || (a - b).abs() <= 1e-6 * b.abs().max(1.0);
            if found.len() != expected.len() || !found.iter().zip(&expected).all(near) {
                return Err(format!("{device:?}, {what}: other results than the predictor's").into());
            }
        }
        let mut calls: [Call<'_>; 5] = [
            Box::new(|| {
                self.run_predictor(black_box(&rows), black_box(values), columns).map(|m| drop(black_box(m)))
            }),
            Box::new(|| self.run_operator(black_box(x.clone())).map(|m| drop(black_box(m)))),
            Box::new(|| forward(&self.module, black_box(x.clone())).map(|m| drop(black_box(m)))),
            Box::new(|| {
                forward(&self.untracked, black_box(with_autodiff.clone())).map(|m| drop(black_box(m)))
            }),
            Box::new(|| forward(&self.tracked, black_box(with_autodiff.clone())).map(|m| drop(black_box(m)))),
        ];
        let mut times = [const { Vec::new() }; 5];
        for _ in 0..ROUNDS {
            for (call, times) in calls.iter_mut().zip(&mut times) {
                times.push(median(&groups(TURN, call)?.wall));
            }
        }
        Ok(times)
    }
}

fn forward(module: &ForestModule, x: Tensor<2>) -> Result<Tensor<2>> {
    module.forward(x).map_err(|error| match error {
        fangorn_graphs::Error::Fangorn(error) => error.into(),
        error => fangorn::Error::Internal(error.to_string()).into(),
    })
}

fn median(times: &[f64]) -> f64 {
    Summary::of(times).map_or(f64::NAN, |summary| summary.median)
}
