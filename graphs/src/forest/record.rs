//! The tensors that a record holds of a forest, and the module that waits for such a record.

use burn::{
    module::{Param, ParamId},
    tensor::{DType, Device, Tensor, TensorData},
};
use fangorn::{Forest, forest::Real};

use super::{ForestModule, Output, structure};
use crate::error::{Error, Result};

/// The tensors of a forest's module, without the module. A program that writes records beforehand, a code
/// generator for example, puts these tensors under the module's name. [`ForestModule::unloaded`] takes their
/// shapes.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use burn::tensor::Device;
/// use fangorn::{Forest, forest::Real};
/// use fangorn_graphs::forest::{ForestModule, Record};
///
/// let mut forest = Forest::builder(2, 1);
/// forest.tree(0).leaf(0, &[0.5]);
/// let record = Record::new(&forest.build().map_err(fangorn::Error::from)?);
/// let module = ForestModule::unloaded(record.leaf_shape(), record.words(), &Device::flex());
/// assert_eq!(module.leaf_values.dims(), [1, 1]);
/// # }
/// # Ok::<(), fangorn_graphs::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Record {
    leaf_values: TensorData,
    shape: [usize; 2],
    structure: Vec<i32>,
}

impl Record {
    /// Makes the tensors of a forest with its present leaf values.
    pub fn new(forest: &Forest) -> Self {
        let shape = [forest.leaf_count(), forest.leaf_width()];
        let leaves: Vec<f32> = forest.leaf_values.iter().map(|v| v.0 as f32).collect();
        Self { leaf_values: TensorData::new(leaves, shape), shape, structure: structure::words(forest) }
    }

    /// Returns the shape of `leaf_values`: `[slots, leaf width]`.
    pub fn leaf_shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Returns the number of words of `structure`.
    pub fn words(&self) -> usize {
        self.structure.len()
    }

    /// Returns the [tensors](super#what-is-in-a-record) with their names: `leaf_values`, `structure` and
    /// `fingerprint`.
    pub fn into_tensors(self) -> [(&'static str, TensorData); 3] {
        let fingerprint = structure::fingerprint(&self.structure);
        let words = self.structure.len();
        [
            ("leaf_values", self.leaf_values),
            ("structure", TensorData::new(self.structure, [words])),
            ("fingerprint", TensorData::new(fingerprint.to_vec(), [2])),
        ]
    }
}

impl ForestModule {
    /// Returns the forest with its leaf values as they are now, to predict with it without burn or to save it
    /// as a [`.fangorn`](fangorn::file) file. A leaf value that is still the nearest f32 to the producer's
    /// keeps the producer's digits. This waits for the device.
    ///
    /// ```
    /// # #[cfg(feature = "flex")] {
    /// use burn::{module::Param, tensor::Device};
    /// use fangorn::{Forest, Predictor};
    /// use fangorn_graphs::forest::ForestModuleConfig;
    ///
    /// let mut forest = Forest::builder(2, 1);
    /// forest.tree(0).leaf(0, &[0.5]);
    /// let forest = forest.build().map_err(fangorn::Error::from)?;
    /// let mut module = ForestModuleConfig::new(forest).init(&Device::flex())?;
    /// module.leaf_values = Param::from_tensor(module.leaf_values.val() + 1.0);
    /// let predictor = Predictor::new(&module.to_forest()?)?;
    /// assert_eq!(predictor.predict(&[0.0f32, 0.0], 2)?, [1.5]);
    /// # }
    /// # Ok::<(), fangorn_graphs::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`ForestModule::verify`], the device does not answer, or a leaf value is NaN or infinite,
    /// which no forest has.
    pub fn to_forest(&self) -> Result<Forest> {
        let op = self.operator()?;
        let now = self.leaf_value_tensor(op)?.try_into_data();
        let now = now.map_err(|e| Error::Record(format!("the leaf values can't be read: {e:?}")))?;
        let mut forest = op.forest().clone();
        for (slot, (value, now)) in forest.leaf_values.iter_mut().zip(now.iter::<f32>()).enumerate() {
            if !now.is_finite() {
                let (slot, output) = (slot / op.forest().leaf_width(), slot % op.forest().leaf_width());
                return Err(Error::Record(format!(
                    "the leaf value of slot {slot}, output {output}, is {now}; train with a smaller learning rate"
                )));
            }
            if value.0 as f32 != now {
                *value = Real(f64::from(now));
            }
        }
        Ok(forest)
    }

    /// Makes a module whose forest comes from a record. The parameters have the record's shapes, so that burn
    /// loads it: `leaves` is `[slots, leaf width]`, `words` the length of the structure. The module gives
    /// values, with the default schedule of each device. Until the record is loaded, every call that would
    /// run the module is refused.
    pub fn unloaded(leaves: [usize; 2], words: usize, device: &Device) -> Self {
        let integers = |words| {
            let zeros = TensorData::zeros::<i32, _>([words]);
            Param::initialized(ParamId::new(), Tensor::from_data(zeros, (device, DType::I32)))
        };
        Self {
            leaf_values: Param::from_tensor(Tensor::zeros(leaves, (device, DType::F32))),
            structure: integers(words),
            fingerprint: integers(2),
            operator: Err(
                "the module's forest was not loaded yet; load the record that it was made for".into()
            ),
            schedule: None,
            output: Output::Values,
            soft: None,
            epilogue: None,
        }
    }
}
