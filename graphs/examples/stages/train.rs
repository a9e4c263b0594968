//! Trains a network with burn: shuffled rows, Adam, and a progress bar with the loss.

use burn::{
    module::Module,
    optim::{AdamConfig, GradientsParams},
    tensor::{Int, Tensor, TensorData},
};
use indicatif::{ProgressBar, ProgressStyle};

use super::{Result, Table, Work};

/// How long and how fast a network is trained.
pub struct Steps {
    pub epochs: usize,
    pub batch: usize,
    pub rate: f64,
}

impl Work {
    /// Trains a network on rows and labels. The network has to be on an autodiff device.
    pub fn fit<M: Module>(
        &self,
        mut network: M,
        (rows, labels): (&Table, &[i32]),
        steps: Steps,
        loss: impl Fn(&M, &Table, Tensor<1, Int>) -> Result<Tensor<1>>,
    ) -> Result<M> {
        let device = network.devices().pop().ok_or("a network without parameters")?;
        let epochs = if self.quick { 1 } else { steps.epochs };
        let batches = rows.rows().div_ceil(steps.batch);
        let bar = ProgressBar::new((epochs * batches) as u64);
        bar.set_style(ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len}, {eta} left")?);
        let mut optimizer = AdamConfig::new().init();
        let mut order: Vec<usize> = (0..rows.rows()).collect();
        for epoch in 1..=epochs {
            shuffle(&mut order, epoch as u64);
            let mut sum = 0.0;
            for (at, batch) in order.chunks(steps.batch).enumerate() {
                let wanted: Vec<i32> = batch.iter().map(|r| labels[*r]).collect();
                let wanted = Tensor::from_data(TensorData::new(wanted, [batch.len()]), &device);
                let found = loss(&network, &rows.select(batch), wanted)?;
                let grads = GradientsParams::from_grads(found.backward(), &network);
                network = optimizer.step(steps.rate, network, grads);
                sum += found.into_scalar::<f32>();
                bar.set_message(format!("epoch {epoch} of {epochs}, loss {:.4}", sum / (at + 1) as f32));
                bar.inc(1);
            }
            bar.suspend(|| println!("epoch {epoch} of {epochs}: loss {:.4}", sum / batches as f32));
        }
        bar.finish_and_clear();
        Ok(network)
    }
}

/// Shuffles `order` by splitmix64. The same seed gives the same order.
fn shuffle(order: &mut [usize], seed: u64) {
    let mut state = seed;
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        order.swap(last, ((z ^ (z >> 31)) % (last as u64 + 1)) as usize);
    }
}
