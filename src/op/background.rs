//! Contributions and interactions against a background, as a burn operator.

use std::sync::Arc;

use burn::{
    backend::{Dispatch, DispatchDevice},
    tensor::Tensor,
};

use super::{ForestBackend, check_rows, innermost};
use crate::{contributions::Interventional, error::Result};

/// A forest's contributions and interactions against a background of rows: an operator that is prepared once for each
/// device on which it is used. Share it as an [`Arc`].
///
/// Inputs are f32, f16 or bf16 in any strides, and are widened exactly. Outputs are f32 and have no gradient.
///
/// ```
/// # #[cfg(feature = "flex")] {
/// use std::sync::Arc;
/// use burn::tensor::{Device, Tensor};
/// use fangorn::{contributions::Interventional, cpu::Rows, import, op::Background};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let columns = forest.features.len();
/// let typical = vec![0.25f32; 3 * columns];
/// let explainer = Interventional::new(&forest, &Rows::new(&typical, columns)?)?;
/// let background = Arc::new(Background::new(explainer));
/// let x = Tensor::<2>::zeros([4, columns], &Device::flex());
/// let contributions = background.contributions(x)?;
/// assert_eq!(contributions.dims(), [4, 1, columns + 1]);
/// # }
/// # Ok::<(), fangorn::Error>(())
/// ```
pub struct Background {
    explainer: Interventional,
    #[cfg(feature = "cube")]
    on: super::once_list::OnceList<burn_cubecl::CubeDevice, crate::cube::Explainer>,
    #[cfg(feature = "cube")]
    interactions_on: super::once_list::OnceList<burn_cubecl::CubeDevice, crate::cube::Explainer>,
}

impl std::fmt::Debug for Background {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shape =
            format!("[rows, {}] -> [rows, {}, {}]", self.features(), self.outputs(), self.features() + 1);
        f.debug_struct("Background").field("shape", &shape).finish_non_exhaustive()
    }
}

impl Background {
    /// Returns an operator for what `explainer` computes on the CPU.
    pub fn new(explainer: Interventional) -> Self {
        Self {
            explainer,
            #[cfg(feature = "cube")]
            on: Default::default(),
            #[cfg(feature = "cube")]
            interactions_on: Default::default(),
        }
    }

    /// Returns the number of margins of a row.
    pub fn outputs(&self) -> usize {
        self.explainer.shape()[0]
    }

    /// Returns the number of columns of a row.
    pub fn features(&self) -> usize {
        self.explainer.shape()[1]
    }

    /// Computes contributions against the background: `[rows, features]` to `[rows, outputs, features + 1]`, f32, the
    /// bias last. They add up to the row's margins before the objective's scale and transform; the bias is the mean
    /// margin of the background.
    ///
    /// On Flex and NdArray [`Interventional`] computes them, on a cubecl device `cube::Explainer`, in f32 sums. The
    /// first call on a device prepares it.
    ///
    /// # Errors
    /// The rows have another number of columns than the forest has features, or a type other than f32, f16 and bf16.
    /// [`Error::Contributions`](crate::Error::Contributions): the forest has too long paths, or the background too many
    /// rows, for the device. [`Error::Rows`](crate::Error::Rows): there is no memory for the results.
    pub fn contributions(self: &Arc<Self>, x: Tensor<2>) -> Result<Tensor<3>> {
        check_rows(&x, self.features())?;
        if x.dims()[0] == 0 {
            return Ok(Tensor::zeros([0, self.outputs(), self.features() + 1], &x.device()));
        }
        match innermost(x.device().as_dispatch()) {
            #[cfg(feature = "cube")]
            DispatchDevice::Cube(device) => {
                super::cube::check_room(device, x.dims()[0], self.on_device(device)?.width())?;
            }
            DispatchDevice::Capture(_) => {}
            _ => self.explainer.check_room(x.dims()[0])?,
        }
        let contributions =
            <Dispatch as ForestBackend>::forest_contributions_against(x.into_dispatch(), self.clone());
        Ok(Tensor::from_dispatch(contributions))
    }

    /// Computes interactions against the background: `[rows, features]` to `[rows, outputs, features + 1, features + 1]`,
    /// f32, the bias last. Each row of a matrix adds up to a feature's [contribution](Self::contributions).
    ///
    /// # Errors
    /// The errors of [`contributions`](Self::contributions). [`Error::Contributions`](crate::Error::Contributions): a path
    /// of the forest has too many features, or a row has too many interactions for the device.
    pub fn interactions(self: &Arc<Self>, x: Tensor<2>) -> Result<Tensor<4>> {
        check_rows(&x, self.features())?;
        let (rows, side) = (x.dims()[0], self.features() + 1);
        if rows == 0 {
            return Ok(Tensor::zeros([0, self.outputs(), side, side], &x.device()));
        }
        match innermost(x.device().as_dispatch()) {
            #[cfg(feature = "cube")]
            DispatchDevice::Cube(device) => {
                super::cube::check_room(device, rows, self.interactions_on_device(device)?.width())?;
            }
            // A recording may be replayed on any backend.
            DispatchDevice::Capture(_) => self.explainer.check_interactions(0)?,
            _ => self.explainer.check_interactions(rows)?,
        }
        let interactions =
            <Dispatch as ForestBackend>::forest_interactions_against(x.into_dispatch(), self.clone());
        Ok(Tensor::from_dispatch(interactions))
    }

    /// Returns the explainer for a device. It is made at its first use.
    #[cfg(feature = "cube")]
    pub(super) fn on_device(&self, device: &burn_cubecl::CubeDevice) -> Result<&crate::cube::Explainer> {
        self.on.get_or_try_init(device, || crate::cube::Explainer::against(&device.client(), &self.explainer))
    }

    /// Computes contributions of rows in the CPU's memory.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(super) fn on_cpu(&self, rows: &crate::cpu::Rows<'_>) -> burn::tensor::TensorData {
        let out = self.explainer.contributions(rows).expect("checked by the caller");
        burn::tensor::TensorData::new(out, [rows.len(), self.outputs(), self.features() + 1])
    }

    /// Returns the explainer of interactions for a device. It is made at its first use.
    #[cfg(feature = "cube")]
    pub(super) fn interactions_on_device(
        &self,
        device: &burn_cubecl::CubeDevice,
    ) -> Result<&crate::cube::Explainer> {
        let make = || crate::cube::Explainer::of_interactions_against(&device.client(), &self.explainer);
        self.interactions_on.get_or_try_init(device, make)
    }

    /// Computes interactions of rows in the CPU's memory.
    #[cfg(any(feature = "flex", feature = "ndarray"))]
    pub(super) fn interactions_on_cpu(&self, rows: &crate::cpu::Rows<'_>) -> burn::tensor::TensorData {
        let out = self.explainer.interactions(rows).expect("checked by the caller");
        let side = self.features() + 1;
        burn::tensor::TensorData::new(out, [rows.len(), self.outputs(), side, side])
    }
}
