//! Backends that run a forest: the reference interpreter, the native CPU target, or one of burn's devices.

use fangorn::{
    Forest, Predictor,
    auto::{RowPool, ScheduleKey},
    check::Warning,
    contributions::{
        Interventional,
        reference::{interactions, tree_shap},
    },
    cpu,
    forest::reference,
    schedule::Device,
    sum::Contract,
};

use crate::{
    error::{Error, Result, note},
    rows::{Element, Matrix},
    schedule::Choice,
};

/// A backend that `--backend` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The reference interpreter, the definition of a correct result.
    Reference,
    /// The native CPU target.
    Cpu,
    /// burn on Flex.
    Flex,
    /// burn on NdArray.
    Ndarray,
    /// burn on wgpu.
    Wgpu,
    /// burn on wgpu over Vulkan.
    Vulkan,
    /// burn on wgpu over Metal.
    Metal,
    /// burn on CUDA.
    Cuda,
    /// burn on ROCm.
    Rocm,
    /// burn on cubecl's CPU runtime.
    CubeclCpu,
}

impl Backend {
    /// Every backend.
    pub const ALL: [Self; 10] = [
        Self::Reference,
        Self::Cpu,
        Self::Flex,
        Self::Ndarray,
        Self::Wgpu,
        Self::Vulkan,
        Self::Metal,
        Self::Cuda,
        Self::Rocm,
        Self::CubeclCpu,
    ];

    /// Returns the name on the command line. A burn backend has the name of its cargo feature.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Cpu => "cpu",
            Self::Flex => "flex",
            Self::Ndarray => "ndarray",
            Self::Wgpu => "wgpu",
            Self::Vulkan => "vulkan",
            Self::Metal => "metal",
            Self::Cuda => "cuda",
            Self::Rocm => "rocm",
            Self::CubeclCpu => "cubecl-cpu",
        }
    }

    /// Returns the backend with the name.
    ///
    /// # Errors
    /// No backend has the name.
    pub fn parse(name: &str) -> Result<Self> {
        let unknown = || {
            let names = Self::ALL.map(Self::name).join(", ");
            Error::Request(format!("unknown backend {name}; the backends are {names}"))
        };
        Self::ALL.into_iter().find(|b| b.name() == name).ok_or_else(unknown)
    }

    /// Refuses a backend that is left out of this build.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`] if the build leaves the backend out.
    pub fn require(self) -> Result<()> {
        let built_in = match self {
            Self::Reference | Self::Cpu => true,
            Self::Flex => cfg!(feature = "flex"),
            Self::Ndarray => cfg!(feature = "ndarray"),
            Self::Wgpu => cfg!(feature = "wgpu"),
            Self::Vulkan => cfg!(feature = "vulkan"),
            Self::Metal => cfg!(feature = "metal"),
            Self::Cuda => cfg!(feature = "cuda"),
            Self::Rocm => cfg!(feature = "rocm"),
            Self::CubeclCpu => cfg!(feature = "cubecl-cpu"),
        };
        if built_in { Ok(()) } else { Err(Error::NotBuiltIn { name: self.name() }) }
    }

    /// Tells whether the backend runs cubecl kernels, so that its schedules need GPU dimensions.
    pub fn is_gpu(self) -> bool {
        !matches!(self, Self::Reference | Self::Cpu | Self::Flex | Self::Ndarray)
    }

    /// Tells whether burn runs the backend.
    pub fn is_of_burn(self) -> bool {
        !matches!(self, Self::Reference | Self::Cpu)
    }

    /// Tells whether the backend reads `f64` rows without narrowing them. The other backends read `f32` rows.
    pub fn reads_doubles(self) -> bool {
        matches!(self, Self::Reference | Self::Cpu)
    }

    /// Refuses a contract of sums that the backend does not keep.
    ///
    /// # Errors
    /// The backend is the reference interpreter, which sums in f64, and the contract is not
    /// [`Contract::Any`].
    pub fn require_sum(self, sum: Contract) -> Result<()> {
        match (self, sum) {
            (Self::Reference, Contract::Tree | Contract::Exact) => Err(Error::Request(format!(
                "--sum {sum}: the reference interpreter adds in f64, base score last; use --backend cpu, or --sum any"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns the device of this machine. For a GPU backend it opens the device and asks for its properties.
    ///
    /// # Errors
    /// The backend is not built in, or its device does not answer.
    pub fn open_device(self) -> Result<Device> {
        self.require()?;
        match self {
            #[cfg(feature = "cube")]
            _ if self.is_gpu() => on_burn::there(self),
            _ => Ok(self.device()),
        }
    }

    /// Returns the key of schedules that are kept for a forest on this backend and this machine. For a GPU backend it
    /// opens the device.
    ///
    /// # Errors
    /// The backend is not built in, or its driver does not answer.
    pub fn key(self, forest: &Forest, sum: Contract) -> Result<ScheduleKey> {
        self.require()?;
        match self {
            #[cfg(feature = "cube")]
            _ if self.is_gpu() => Ok(ScheduleKey::on(forest, on_burn::target(self)?, 1, sum)),
            _ => Ok(ScheduleKey::here(forest, rayon::current_num_threads(), sum)),
        }
    }

    /// Returns the first GPU backend of this build that finds a card, which a software GPU is not. It opens devices.
    pub fn of_card() -> Option<Self> {
        #[cfg(feature = "cube")]
        return [Self::Cuda, Self::Rocm, Self::Metal, Self::Vulkan, Self::Wgpu]
            .into_iter()
            .find(|backend| backend.require().is_ok() && on_burn::has_card(*backend));
        #[cfg(not(feature = "cube"))]
        None
    }

    /// Returns the device that schedules are made for when no device is opened. cubecl's CPU runtime is
    /// always available, so this is the processor's own description. For the other GPU backends it is the
    /// description that every GPU meets.
    pub fn device(self) -> Device {
        match self {
            #[cfg(feature = "cubecl-cpu")]
            Self::CubeclCpu => on_burn::processor(),
            _ if self.is_gpu() => Device::PORTABLE_GPU,
            _ => Device::Cpu,
        }
    }
}

/// A forest compiled for a backend.
pub struct CompiledForest<'f> {
    forest: &'f Forest,
    choice: Choice,
    runs: Runs,
}

enum Runs {
    Reference,
    Cpu(Box<Predictor>),
    #[cfg(feature = "burn")]
    Burn(on_burn::Op),
}

/// What explains the rows of a forest on a backend: contributions, `rows x outputs x (features + 1)`, or interactions,
/// `rows x outputs x (features + 1) x (features + 1)`, the bias last.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Whether they are interactions.
    pairs: bool,
    /// The background. Without one, covers say what is expected.
    #[cfg(feature = "burn")]
    background: Option<std::sync::Arc<fangorn::op::Background>>,
}

impl Explanation {
    /// Returns an explanation by covers.
    pub fn by_covers(pairs: bool) -> Self {
        Self {
            pairs,
            #[cfg(feature = "burn")]
            background: None,
        }
    }

    /// Returns an explanation against a background, for one of burn's backends. `read` prepares the background.
    ///
    /// # Errors
    /// The backend is another one, or `read` fails.
    pub fn against(
        backend: Backend,
        pairs: bool,
        read: impl FnOnce() -> Result<Interventional>,
    ) -> Result<Self> {
        #[cfg(feature = "burn")]
        if backend.is_of_burn() {
            let background = std::sync::Arc::new(fangorn::op::Background::new(read()?));
            return Ok(Self { pairs, background: Some(background) });
        }
        drop((read, pairs));
        Err(Error::Request(format!(
            "--backend {}: with a background, contributions and interactions are computed on the CPU and on burn's \
             backends; use --backend cpu or one of burn's",
            backend.name()
        )))
    }

    /// Returns the number of results of a row.
    pub fn width(&self, forest: &Forest) -> usize {
        let side = forest.features.len() + 1;
        let of_output = if self.pairs { side.saturating_mul(side) } else { side };
        of_output.saturating_mul(forest.outputs as usize)
    }
}

/// The output of a forest that [`CompiledForest::rerun`] computes.
#[derive(Clone, Debug)]
pub enum TimedOutput {
    /// Margins.
    Margins,
    /// Contributions or interactions.
    Explained(Explanation),
}

/// Runs the same rows once more.
pub type Rerun<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

impl<'f> CompiledForest<'f> {
    /// Compiles a forest for a backend, for the threads of the current rayon pool, and opens the backend's
    /// device.
    ///
    /// # Errors
    /// The backend is not built in, does not answer or does not keep the contract, or the schedule can't be
    /// carried out.
    pub fn open(backend: Backend, forest: &'f Forest, choice: &Choice, sum: Contract) -> Result<Self> {
        backend.require()?;
        backend.require_sum(sum)?;
        let runs = match backend {
            Backend::Reference => Runs::Reference,
            Backend::Cpu => Runs::Cpu(Box::new(choice.predictor(forest, sum)?)),
            #[cfg(feature = "burn")]
            _ => Runs::Burn(on_burn::Op::open(backend, forest, choice, sum)?),
            #[cfg(not(feature = "burn"))]
            _ => return Err(Error::NotBuiltIn { name: backend.name() }),
        };
        Ok(Self { forest, choice: choice.clone(), runs })
    }

    /// Notes the forest's warnings for standard error: for example, that its self-check failed on this backend, and
    /// what runs instead. The native CPU target's are noted when it is compiled. burn's operator checks itself at
    /// its first run, so call this after a run.
    pub fn say_warnings(&self) {
        self.warnings().iter().for_each(|warning| note(warning.to_string()));
    }

    /// Returns the warnings of the self-checks that have run so far.
    pub fn warnings(&self) -> Vec<Warning> {
        match &self.runs {
            Runs::Reference => Vec::new(),
            Runs::Cpu(predictor) => predictor.warnings().to_vec(),
            #[cfg(feature = "burn")]
            Runs::Burn(op) => op.warnings(),
        }
    }

    /// Returns margins, `rows x outputs`.
    ///
    /// # Errors
    /// The backend refuses the rows or the forest.
    pub fn margins<T: Element>(&self, rows: &Matrix<T>) -> Result<Vec<f32>> {
        match &self.runs {
            Runs::Reference => Ok(each(rows, |row| reference::margins(self.forest, row), |v| v as f32)),
            Runs::Cpu(p) => view(rows).and_then(|rows| p.margins(&rows)).map_err(|e| self.choice.blame(e)),
            #[cfg(feature = "burn")]
            Runs::Burn(op) => op.margins(&T::narrowed(rows), &self.choice),
        }
    }

    /// Returns values, which are margins after the objective's transform: `rows x outputs`, or `rows x 1` if
    /// the transform picks a class.
    ///
    /// # Errors
    /// The backend refuses the rows or the forest.
    pub fn values<T: Element>(&self, rows: &Matrix<T>) -> Result<Vec<f32>> {
        match &self.runs {
            Runs::Reference => Ok(each(rows, |row| reference::values(self.forest, row), |v| v as f32)),
            Runs::Cpu(p) => view(rows).and_then(|rows| p.values(&rows)).map_err(|e| self.choice.blame(e)),
            #[cfg(feature = "burn")]
            Runs::Burn(op) => op.values(&T::narrowed(rows), &self.choice),
        }
    }

    /// Returns leaf slots, `rows x trees`.
    ///
    /// # Errors
    /// The backend refuses the rows or the forest.
    pub fn slots<T: Element>(&self, rows: &Matrix<T>) -> Result<Vec<u32>> {
        match &self.runs {
            Runs::Reference => Ok(each(rows, |row| reference::leaf_slots(self.forest, row), |slot| slot)),
            Runs::Cpu(p) => view(rows).and_then(|rows| p.leaf_slots(&rows)).map_err(|e| self.choice.blame(e)),
            #[cfg(feature = "burn")]
            Runs::Burn(op) => op.leaf_slots(&T::narrowed(rows), &self.choice),
        }
    }

    /// Returns contributions or interactions of a forest that has them.
    ///
    /// # Errors
    /// The backend refuses the forest or the rows.
    pub fn explain<T: Element>(&self, rows: &Matrix<T>, explanation: &Explanation) -> Result<Vec<f32>> {
        match &self.runs {
            Runs::Reference if explanation.pairs => {
                Ok(each(rows, |row| interactions(self.forest, row), |v| v as f32))
            }
            Runs::Reference => Ok(each(rows, |row| tree_shap(self.forest, row), |v| v as f32)),
            #[cfg(feature = "burn")]
            Runs::Burn(op) => op.explain(&T::narrowed(rows), explanation, &self.choice),
            // On the CPU a `RowExplainer` explains.
            Runs::Cpu(_) => Err(Error::Defect(format!("{explanation:?} on another backend"))),
        }
    }

    /// Returns a closure that computes the margins of the pool's next batch at each call, for timing. Rows come from the
    /// host's memory, and margins go there.
    pub fn rerun_from_host<'a>(&'a self, pool: &RowPool) -> Rerun<'a> {
        let matrix = |n| Matrix::of_rows(pool.rows(), pool.columns(), pool.batch(n).to_vec());
        let batches: Vec<_> = (0..pool.batches()).map(matrix).collect();
        let mut next = 0;
        Box::new(move || {
            std::hint::black_box(self.margins(&batches[next])?);
            next = (next + 1) % batches.len();
            Ok(())
        })
    }

    /// Returns a closure that computes the results of the pool's next batch at each call, for timing. The results
    /// stay on the device: nothing is read back, but each call waits until the device is done.
    ///
    /// # Errors
    /// The backend refuses the rows or the forest, or its contributions are not timed here.
    pub fn rerun<'a>(&'a self, pool: &'a RowPool, of: &'a TimedOutput) -> Result<Rerun<'a>> {
        let mut batches = (0..pool.batches()).cycle().map(|n| pool.batch(n));
        let mut next = move || batches.next().unwrap_or_default();
        match &self.runs {
            Runs::Reference | Runs::Cpu(_) if matches!(of, TimedOutput::Explained(_)) => {
                let what =
                    "contributions are timed on the CPU and on burn's backends; give another --backend";
                Err(Error::Request(what.into()))
            }
            Runs::Reference => Ok(Box::new(move || {
                for row in next().chunks_exact(pool.columns()) {
                    std::hint::black_box(reference::margins(self.forest, row));
                }
                Ok(())
            })),
            Runs::Cpu(p) => {
                let mut out = vec![0.0; pool.rows() * self.forest.outputs as usize];
                Ok(Box::new(move || {
                    p.margins_into(&cpu::Rows::new(next(), pool.columns())?, &mut out)?;
                    std::hint::black_box(&out);
                    Ok(())
                }))
            }
            #[cfg(feature = "burn")]
            Runs::Burn(op) => op.rerun(pool, of, &self.choice),
        }
    }
}

fn view<T: Element>(rows: &Matrix<T>) -> fangorn::Result<cpu::Rows<'_, T>> {
    cpu::Rows::strided(&rows.values, [rows.rows, rows.columns], rows.strides())
}

fn each<C: Element, V, T>(
    rows: &Matrix<C>,
    of: impl Fn(&[C]) -> Vec<V>,
    cast: impl Fn(V) -> T + Copy,
) -> Vec<T> {
    let rows = rows.by_rows();
    (0..rows.rows).flat_map(|r| of(rows.row(r)).into_iter().map(cast)).collect()
}

/// Returns the kernel of a burn device as text.
///
/// # Errors
/// The backend refuses the forest.
#[cfg(feature = "cube")]
pub fn kernel_text(backend: Backend, forest: &Forest, choice: &Choice) -> Result<String> {
    on_burn::Op::open(backend, forest, choice, Contract::Any)?.source(choice)
}

/// Backends that need burn.
#[cfg(feature = "burn")]
mod on_burn {
    use std::sync::Arc;

    use burn::tensor::{Device, Tensor, TensorData};
    use fangorn::{Forest, auto::RowPool, op::ForestOp, sum::Contract};

    use super::{Backend, Explanation, Rerun, TimedOutput};
    use crate::{
        error::{Error, Result, catch_panic},
        rows::Matrix,
        schedule::Choice,
    };

    /// The maximum number of rows of one tensor.
    const ROWS_A_TENSOR: usize = 1 << 16;

    /// The maximum number of results of the rows of one tensor, if it has more than one row.
    const RESULTS_A_TENSOR: usize = 256 * ROWS_A_TENSOR;

    /// burn's forest operator with the device that runs it.
    pub struct Op {
        backend: Backend,
        op: Arc<ForestOp>,
        device: Device,
    }

    /// Returns the default device of a backend, or `None` if the backend is not built in. The first use of
    /// the device opens it.
    #[allow(deprecated, reason = "burn-ndarray is served as long as burn has it")]
    #[allow(clippy::match_single_binding, reason = "without a backend only the last arm is left")]
    fn device(backend: Backend) -> Option<Device> {
        match backend {
            #[cfg(feature = "flex")]
            Backend::Flex => Some(Device::flex()),
            #[cfg(feature = "ndarray")]
            Backend::Ndarray => Some(Device::ndarray()),
            #[cfg(feature = "wgpu")]
            Backend::Wgpu => Some(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "vulkan")]
            Backend::Vulkan => Some(Device::vulkan(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "metal")]
            Backend::Metal => Some(Device::metal(burn::tensor::DeviceKind::DefaultDevice)),
            #[cfg(feature = "cuda")]
            Backend::Cuda => Some(Device::cuda(0)),
            #[cfg(feature = "rocm")]
            Backend::Rocm => Some(Device::rocm(0)),
            #[cfg(feature = "cubecl-cpu")]
            Backend::CubeclCpu => Some(Device::cpu()),
            _ => None,
        }
    }

    /// Returns cubecl's description of a device.
    #[cfg(feature = "cube")]
    fn of_cubecl(device: &Device) -> fangorn::schedule::Device {
        match device.as_dispatch() {
            burn::backend::DispatchDevice::Cube(device) => fangorn::cube::device(&device.client()),
            _ => fangorn::schedule::Device::PORTABLE_GPU,
        }
    }

    /// Returns cubecl's description of this processor, for its CPU runtime.
    #[cfg(feature = "cubecl-cpu")]
    pub fn processor() -> fangorn::schedule::Device {
        of_cubecl(&Device::cpu())
    }

    /// Opens the default device of a backend that runs cubecl kernels, and returns its description.
    #[cfg(feature = "cube")]
    pub fn there(backend: Backend) -> Result<fangorn::schedule::Device> {
        guard(backend, || {
            let device = device(backend).ok_or(Error::NotBuiltIn { name: backend.name() })?;
            Ok(of_cubecl(&device))
        })
    }

    /// Opens the default device of a backend that runs cubecl kernels, and returns the backend's name with what the
    /// device and its runtime say of themselves.
    #[cfg(feature = "cube")]
    pub fn target(backend: Backend) -> Result<String> {
        guard(backend, || {
            let device = device(backend).ok_or(Error::NotBuiltIn { name: backend.name() })?;
            let of_device =
                device.identity().map(|identity| format!(" {}, {}", identity.name, identity.fingerprint));
            Ok(backend.name().to_owned() + &of_device.unwrap_or_default())
        })
    }

    /// Whether the default device of a backend is a card.
    #[cfg(feature = "cube")]
    pub fn has_card(backend: Backend) -> bool {
        let card = |device: Device| device.identity().is_some_and(|identity| identity.physical.is_some());
        guard(backend, || Ok(device(backend).is_some_and(card))).unwrap_or(false)
    }

    /// Runs a closure that talks to a device. Turns a panic into an error, because a missing or failing
    /// driver panics.
    fn guard<T>(backend: Backend, run: impl FnOnce() -> Result<T>) -> Result<T> {
        catch_panic(run).unwrap_or_else(|cause| Err(Error::Device { name: backend.name(), cause }))
    }

    impl Op {
        pub fn open(backend: Backend, forest: &Forest, choice: &Choice, sum: Contract) -> Result<Self> {
            let schedules = (!choice.is_default).then(|| choice.schedules.clone());
            let builder =
                ForestOp::builder(forest.clone()).schedules(schedules).profile(choice.profile.clone());
            let op = Arc::new(builder.sum(sum).build().map_err(|e| choice.blame(e))?);
            guard(backend, || {
                let device = device(backend).ok_or(Error::NotBuiltIn { name: backend.name() })?;
                let opened = Self { backend, op, device };
                opened.sync()?;
                Ok(opened)
            })
        }

        /// Returns the warnings of the operator's self-checks.
        pub fn warnings(&self) -> Vec<fangorn::check::Warning> {
            self.op.warnings()
        }

        /// Returns the kernel as text.
        #[cfg(feature = "cube")]
        pub fn source(&self, choice: &Choice) -> Result<String> {
            guard(self.backend, || self.op.source(&self.device).map_err(|e| choice.blame(e)))
        }

        fn sync(&self) -> Result<()> {
            self.device.sync().map_err(|e| self.error(&e))
        }

        fn error(&self, cause: &dyn std::fmt::Debug) -> Error {
            Error::Device { name: self.backend.name(), cause: format!("{cause:?}") }
        }

        /// Copies the rows to the device, as tensors of at most [`ROWS_A_TENSOR`] rows, and of fewer if a row has more
        /// than 256 results.
        fn tensors(&self, values: &[f32], [rows, columns]: [usize; 2], width: usize) -> Vec<Tensor<2>> {
            let most = (RESULTS_A_TENSOR / width.max(1)).clamp(1, ROWS_A_TENSOR);
            let tensor = |first: usize| {
                let count = most.min(rows - first);
                let values = values[first * columns..][..count * columns].to_vec();
                Tensor::from_data(TensorData::new(values, [count, columns]), &self.device)
            };
            (0..rows).step_by(most).map(tensor).collect()
        }

        pub fn margins(&self, rows: &Matrix<f32>, choice: &Choice) -> Result<Vec<f32>> {
            self.floats(rows, 1, |x| Ok(self.op.margins(x).map_err(|e| choice.blame(e))?.into_data()))
        }

        pub fn values(&self, rows: &Matrix<f32>, choice: &Choice) -> Result<Vec<f32>> {
            self.floats(rows, 1, |x| Ok(self.op.values(x).map_err(|e| choice.blame(e))?.into_data()))
        }

        /// Returns contributions or interactions.
        pub fn explain(
            &self,
            rows: &Matrix<f32>,
            explanation: &Explanation,
            choice: &Choice,
        ) -> Result<Vec<f32>> {
            let width = explanation.width(self.op.forest());
            self.floats(rows, width, |x| match explanation.pairs {
                false => Ok(self.contributions(x, explanation).map_err(|e| choice.blame(e))?.into_data()),
                true => Ok(self.interactions(x, explanation).map_err(|e| choice.blame(e))?.into_data()),
            })
        }

        fn contributions(&self, x: Tensor<2>, explanation: &Explanation) -> fangorn::Result<Tensor<3>> {
            match &explanation.background {
                None => self.op.contributions(x),
                Some(background) => background.contributions(x),
            }
        }

        fn interactions(&self, x: Tensor<2>, explanation: &Explanation) -> fangorn::Result<Tensor<4>> {
            match &explanation.background {
                None => self.op.interactions(x),
                Some(background) => background.interactions(x),
            }
        }

        fn floats(
            &self,
            rows: &Matrix<f32>,
            width: usize,
            run: impl Fn(Tensor<2>) -> Result<TensorData>,
        ) -> Result<Vec<f32>> {
            guard(self.backend, || {
                let mut out = Vec::new();
                for x in self.tensors(&rows.values, [rows.rows, rows.columns], width) {
                    out.extend(run(x)?.try_to_vec::<f32>().map_err(|e| self.error(&e))?);
                }
                Ok(out)
            })
        }

        pub fn leaf_slots(&self, rows: &Matrix<f32>, choice: &Choice) -> Result<Vec<u32>> {
            guard(self.backend, || {
                let mut out = Vec::new();
                for x in self.tensors(&rows.values, [rows.rows, rows.columns], 1) {
                    let data =
                        self.op.leaf_slots(x).map_err(|e| choice.blame(e))?.into_data().convert::<i32>();
                    let slots = data.try_to_vec::<i32>().map_err(|e| self.error(&e))?;
                    out.extend(slots.into_iter().map(|slot| slot as u32));
                }
                Ok(out)
            })
        }

        /// Runs `run` over all tensors and waits until the device is done. It keeps the results until then, so that
        /// the device does not skip a run as unused.
        fn all<const D: usize>(
            &self,
            tensors: &[Tensor<2>],
            run: impl Fn(Tensor<2>) -> fangorn::Result<Tensor<D>>,
            choice: &Choice,
        ) -> Result<()> {
            let run = |x: &Tensor<2>| run(x.clone()).map_err(|e| choice.blame(e));
            let results = tensors.iter().map(run).collect::<Result<Vec<_>>>()?;
            self.sync()?;
            drop(results);
            Ok(())
        }

        pub fn rerun<'a>(
            &'a self,
            pool: &RowPool,
            of: &'a TimedOutput,
            choice: &'a Choice,
        ) -> Result<Rerun<'a>> {
            let width = match of {
                TimedOutput::Margins => 1,
                TimedOutput::Explained(explanation) => explanation.width(self.op.forest()),
            };
            let shape = [pool.rows(), pool.columns()];
            let batches = (0..pool.batches()).map(|n| self.tensors(pool.batch(n), shape, width));
            let batches: Vec<_> = guard(self.backend, || Ok(batches.collect()))?;
            let mut next = 0;
            Ok(Box::new(move || {
                let tensors = &batches[next];
                next = (next + 1) % batches.len();
                guard(self.backend, || match of {
                    TimedOutput::Margins => self.all(tensors, |x| self.op.margins(x), choice),
                    TimedOutput::Explained(of) if of.pairs => {
                        self.all(tensors, |x| self.interactions(x, of), choice)
                    }
                    TimedOutput::Explained(of) => self.all(tensors, |x| self.contributions(x, of), choice),
                })
            }))
        }
    }
}
