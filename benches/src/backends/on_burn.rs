//! Runs and times burn's operator on the device of one of its backends.

use std::{hint::black_box, sync::Arc};

#[cfg(feature = "cube")]
use burn::backend::DispatchDevice;
use burn::tensor::{Device, Tensor, TensorData};
use fangorn::{Forest, op::ForestOp, schedule::Schedule};

use super::runner::{Runner, Times};
use crate::{
    devices,
    error::{Error, Result, caught},
    schedules,
    time::{groups, samples, wall},
};

/// The forest operator, with a batch of rows on a device.
pub struct OnBurn {
    backend: &'static str,
    device: Device,
    op: Arc<ForestOp>,
    host: Vec<f32>,
    x: Option<Tensor<2>>,
}

/// Opens a backend's device and waits until it answers.
///
/// # Errors
/// This build leaves the backend out, or the device does not answer.
pub fn open(backend: &'static str) -> Result<Device> {
    caught(backend, || {
        let device = devices::open(backend).ok_or(Error::NotBuiltIn(backend))?;
        sync(backend, &device)?;
        Ok(device)
    })
}

fn sync(backend: &'static str, device: &Device) -> Result<()> {
    device.sync().map_err(|e| Error::Device { backend, cause: format!("{e:?}") })
}

impl OnBurn {
    /// Makes the operator. On each device it runs that device's default schedule.
    ///
    /// # Errors
    /// The forest does not verify.
    pub fn new(backend: &'static str, device: Device, forest: &Forest) -> Result<Self> {
        let op = Arc::new(ForestOp::new(forest.clone())?);
        Ok(Self { backend, device, op, host: Vec::new(), x: None })
    }

    fn failed(&self, cause: &dyn std::fmt::Debug) -> Error {
        Error::Device { backend: self.backend, cause: format!("{cause:?}") }
    }

    fn rows(&self) -> Result<&Tensor<2>> {
        self.x.as_ref().ok_or_else(|| Error::Request("no rows are loaded; open a batch first".into()))
    }

    fn upload(&self, rows: Vec<f32>) -> Result<Tensor<2>> {
        let columns = self.op.forest().features.len();
        let shape = [rows.len() / columns.max(1), columns];
        let x = Tensor::from_data(TensorData::new(rows, shape), &self.device);
        sync(self.backend, &self.device)?;
        Ok(x)
    }

    /// Computes the margins of the loaded rows and waits until they are on the device.
    fn run(&self) -> Result<Tensor<2>> {
        let margins = self.op.margins(black_box(self.rows()?.clone()))?;
        sync(self.backend, &self.device)?;
        Ok(margins)
    }

    /// Copies margins into the host's memory. burn may fetch data only when it is first read, and the copy
    /// reads it.
    fn download(&self, margins: Tensor<2>) -> Result<Vec<f32>> {
        margins.into_data().try_to_vec::<f32>().map_err(|e| self.failed(&e))
    }
}

impl Runner for OnBurn {
    fn device(&self) -> String {
        match self.device.as_dispatch() {
            #[cfg(feature = "cube")]
            DispatchDevice::Cube(_) => devices::name(self.backend, &self.device),
            _ => format!("{} thread(s)", rayon::current_num_threads()),
        }
    }

    fn schedule(&self) -> String {
        let schedules = self.op.schedules(&devices::description(&self.device));
        let line = |(rows, schedule): (usize, &Schedule)| match schedules.buckets().len() {
            1 => schedules::line(schedule),
            _ => format!("{rows} rows: {}", schedules::line(schedule)),
        };
        schedules.buckets().map(line).collect::<Vec<_>>().join(" | ")
    }

    fn load(&mut self, rows: Vec<f32>) -> Result<()> {
        self.x = None;
        self.host = rows;
        self.x = Some(caught(self.backend, || {
            self.device.memory_cleanup();
            self.upload(self.host.clone())
        })?);
        Ok(())
    }

    fn margins(&self) -> Result<Vec<f32>> {
        caught(self.backend, || self.download(self.run()?))
    }

    fn slots(&self, rows: usize) -> Result<Vec<u32>> {
        caught(self.backend, || {
            let x = self.rows()?.clone();
            let columns = x.dims()[1];
            let slots = self.op.leaf_slots(x.slice([0..rows, 0..columns]))?.into_data().convert::<i32>();
            let slots = slots.try_to_vec::<i32>().map_err(|e| self.failed(&e))?;
            Ok(slots.into_iter().map(|slot| slot as u32).collect())
        })
    }

    fn time(&mut self, seconds: f64) -> Result<Times> {
        caught(self.backend, || {
            let resident = groups(0.6 * seconds, || self.run().map(drop))?.wall;
            let upload = samples(0.2 * seconds, || {
                // The copy that the upload consumes is made before the clock starts. The uploaded tensor is
                // freed after the clock has stopped.
                let (rows, mut kept) = (self.host.clone(), None);
                let took = wall(|| {
                    kept = Some(self.upload(rows)?);
                    Ok(())
                })?;
                Ok(Some(took))
            })?;
            let download = samples(0.2 * seconds, || {
                let margins = self.run()?;
                let took = wall(|| {
                    black_box(self.download(margins)?);
                    Ok(())
                })?;
                Ok(Some(took))
            })?;
            Ok(Times { resident, upload, download })
        })
    }
}
