//! The model of the service, and its runtime: Fangorn or, for comparison, ONNX Runtime.

use std::{collections::HashMap, path::Path};

use fangorn::{
    Predictor,
    cpu::Rows,
    forest::CompareType,
    import::{self, LoadOptions},
};

/// A compiled model. Any number of threads may use it at the same time.
pub enum Runtime {
    /// Fangorn, and the type in which the model's producer compares.
    Fangorn(Box<Predictor>, CompareType),
    /// ONNX Runtime with as many sessions as there are threads, because only one thread at a time may use a session.
    #[cfg(feature = "onnxruntime")]
    OnnxRuntime(onnx::Sessions),
}

/// A model that predicts, with its columns and the number of its outputs.
pub struct Model {
    /// The runtime that predicts.
    pub runtime: Runtime,
    /// The columns' names, in the model's order; `f0`, `f1`, … for columns without a name.
    pub columns: Vec<String>,
    /// The index of each column, by its name.
    pub indices: HashMap<String, usize>,
    /// The number of values that are predicted for a row.
    pub outputs: usize,
}

impl Model {
    /// Loads a model.
    ///
    /// # Errors
    /// The file can't be read, or the forest can't be compiled.
    pub fn load(path: &Path) -> Result<Self, fangorn::Error> {
        let forest = import::load(path, &LoadOptions::default())?;
        let name = |(at, feature): (usize, &fangorn::forest::Feature)| {
            feature.name.clone().unwrap_or_else(|| format!("f{at}"))
        };
        let columns: Vec<String> = forest.features.iter().enumerate().map(name).collect();
        Ok(Self {
            indices: columns.iter().cloned().zip(0..).collect(),
            columns,
            outputs: forest.transform.width(forest.outputs as usize),
            // The thread that answers a request predicts, too: under load, each thread has a request of its own.
            runtime: Runtime::Fangorn(
                Box::new(Predictor::builder(&forest).threads(1).build()?),
                forest.compare,
            ),
        })
    }

    /// Predicts rows. `values` holds row after row, each with a value for each column. Returns `outputs` values for
    /// each row.
    ///
    /// # Errors
    /// The number of values is no multiple of the number of columns, or ONNX Runtime refuses them.
    pub fn predict(&self, values: &[f64]) -> Result<Vec<f32>, String> {
        let columns = self.columns.len();
        match &self.runtime {
            // Rounding a value to f32 could change a comparison in f64.
            Runtime::Fangorn(predictor, CompareType::F64) => {
                let rows = Rows::new(values, columns).map_err(|e| e.to_string())?;
                predictor.values(&rows).map_err(|e| e.to_string())
            }
            Runtime::Fangorn(predictor, CompareType::F32) => {
                let values: Vec<f32> = values.iter().map(|value| *value as f32).collect();
                let rows = Rows::new(&values, columns).map_err(|e| e.to_string())?;
                predictor.values(&rows).map_err(|e| e.to_string())
            }
            #[cfg(feature = "onnxruntime")]
            Runtime::OnnxRuntime(sessions) => sessions.predict(values, columns),
        }
    }
}

/// ONNX Runtime, for the comparison in `benches/service`.
#[cfg(feature = "onnxruntime")]
pub mod onnx {
    use std::{path::Path, sync::Mutex};

    use ort::{session::Session, value::Tensor};

    /// Sessions. Each request takes one that is free.
    pub struct Sessions {
        free: Mutex<Vec<Session>>,
        output: usize,
    }

    impl Sessions {
        /// Opens `count` sessions of one thread each.
        ///
        /// # Errors
        /// The library or the model can't be loaded.
        pub fn open(path: &Path, count: usize) -> Result<Self, String> {
            let environment = ort::init().build().map_err(|e| e.to_string())?;
            let session = || -> ort::Result<Session> {
                Session::builder(&environment)?
                    .with_intra_threads(1)?
                    .with_inter_threads(1)?
                    .commit_from_file(path)
            };
            let free: Vec<Session> =
                (0..count).map(|_| session()).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
            // A classifier's last output has its probabilities.
            let output = free.first().map_or(0, |session| session.outputs().len().saturating_sub(1));
            Ok(Self { free: Mutex::new(free), output })
        }

        /// Predicts rows of `columns` values each.
        ///
        /// # Errors
        /// ONNX Runtime refuses them.
        pub fn predict(&self, values: &[f64], columns: usize) -> Result<Vec<f32>, String> {
            let take = || self.free.lock().map_err(|e| e.to_string()).map(|mut free| free.pop());
            let mut session = take()?.ok_or("there are more threads than sessions")?;
            let found = (|| -> ort::Result<Vec<f32>> {
                let shape = [values.len() / columns.max(1), columns];
                let input = Tensor::from_array((
                    shape,
                    values.iter().map(|value| *value as f32).collect::<Vec<f32>>(),
                ))?;
                let outputs = session.run(ort::inputs![input])?;
                let (_, found) = outputs[self.output].try_extract_tensor::<f32>()?;
                Ok(found.to_vec())
            })();
            self.free.lock().map_err(|e| e.to_string())?.push(session);
            found.map_err(|e| e.to_string())
        }
    }
}
