//! A plan and a forest on one device.

use cubecl::client::Client;
use fangorn_kernels::{
    Buffer, EpilogueArgs, EpilogueInputs, Job, Leaves, Model, Order, RankTables, Rows, cubes,
    margins_in_order, most_rows, pieces, rank_batch,
};

use super::{ExecutableBuilder, words};
use crate::{
    error::{Error, Result},
    forest::{Aggregate, Forest, Real, Targets},
    plan::{
        Combine, Emit, EpiloguePlan, Extents, LoweredForest, Number,
        cube::{EpilogueSite, PlanRef},
    },
    sum::{Accumulator, Contract, FixedPoint},
};

/// A forest that is compiled for a device and uploaded to its memory. It is immutable, and launches take no
/// lock.
#[derive(Clone)]
pub struct Executable {
    client: Client,
    plan: PlanRef,
    model: Model,
    /// The tables that turn rows into ranks in a launch before the walks, if the schedule asks for ranks and
    /// the kernel's row cache does not make them.
    ranks: Option<RankTables>,
    /// The leaf values as integers, if the kernel adds up integers.
    leaves: Option<Buffer>,
    /// The leaf values and base scores to add, and what a run writes, if a launch after the walks adds in the
    /// producer's tree order. The plan itself then writes leaf slots.
    ordered: Option<(Leaves, Emit)>,
    /// The epilogue of sums that are added in the producer's tree order.
    ordered_epilogue: EpiloguePlan,
    /// The caller's limit of rows in a launch, if there is one. The device's own limit holds, too.
    most_rows: Option<u32>,
}

impl std::fmt::Debug for Executable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executable")
            .field("device", &self.client.name())
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl Executable {
    /// Returns a builder, which takes options before it lowers the forest for the device behind `client`.
    pub fn builder<'f>(client: &Client, forest: &'f Forest) -> ExecutableBuilder<'f> {
        ExecutableBuilder::new(client, forest)
    }

    /// Uploads a forest that [`lower`](crate::plan::lower) has lowered for this device. `forest` must be the
    /// one that was lowered.
    ///
    /// # Errors
    /// The device can't hold the forest, the forest was lowered for the CPU, or [`FixedPoint`] can't hold a
    /// sum.
    pub fn from_lowered(client: &Client, forest: &Forest, lowered: &LoweredForest) -> Result<Self> {
        let too_large =
            || Error::Device("the forest needs more than 2^32 words; split it, or run it on the CPU".into());
        let plan = lowered.cube_plan()?;
        let fixed = match plan.combine {
            Combine::Fixed => Some(FixedPoint::new(forest)?),
            Combine::Sum | Combine::Min | Combine::Max => None,
        };
        let tables = match lowered.ranks() {
            Some(ranks) => words::rank_tables(ranks).ok_or_else(too_large)?,
            None => Vec::new(),
        };
        let recorded = plan.own.ranks_from.is_some();
        let words =
            words::encode(forest, lowered, plan, fixed.as_ref(), if recorded { &tables } else { &[] });
        let words = words.ok_or_else(too_large)?;
        let leaves = match &fixed {
            Some(fixed) => {
                let words: Vec<u32> = fixed.leaves().iter().flat_map(|v| fixed.split(*v)).collect();
                Some(upload(client, &words)?)
            }
            None => None,
        };
        let ranks = match lowered.ranks() {
            Some(ranks) if !recorded => Some(RankTables {
                words: upload(client, &tables)?,
                columns: ranks.columns().len() as u32,
                from: lowered.rows(),
                to: plan.rows,
            }),
            _ => None,
        };
        let model = Model {
            words: upload(client, &words.words)?,
            trees_at: words.trees_at,
            slots_at: words.slots_at,
            questions_at: words.questions_at,
            columns_at: words.columns_at,
            ranks_at: words.ranks_at,
            base_at: words.base_at,
            trees: lowered.order().len() as u32,
            scale: forest.scale.0 as f32,
        };
        Ok(Self {
            client: client.clone(),
            plan: PlanRef::new(plan.clone()),
            model,
            ranks,
            leaves,
            ordered: None,
            ordered_epilogue: EpiloguePlan::default(),
            most_rows: None,
        })
    }

    /// Whether leaf values are added in the producer's order, by a launch after the walks.
    pub(super) fn adds_in_order(forest: &Forest, sum: Contract, emit: Emit) -> bool {
        sum == Contract::Tree && emit.sums() && forest.aggregate == Aggregate::Sum
    }

    /// Returns an executable that takes the leaf slots that this one's plan writes, adds their leaf values in
    /// the producer's order, and writes `emit` of the sums.
    pub(super) fn in_order(self, forest: &Forest, emit: Emit) -> Result<Self> {
        let ordered = Some((ordered(&self.client, forest)?, emit));
        Ok(Self { ordered, ..self })
    }

    /// Returns the plan of the kernel.
    pub fn plan(&self) -> &PlanRef {
        &self.plan
    }

    /// Returns an executable of the same forest, in the same memory, with `epilogue` after its margins or
    /// values.
    #[must_use]
    pub fn with_epilogue(&self, epilogue: EpiloguePlan) -> Self {
        match &self.ordered {
            Some(_) => Self { ordered_epilogue: epilogue, ..self.clone() },
            None => {
                let mut plan = (*self.plan).clone();
                plan.own.epilogue = epilogue;
                Self { plan: PlanRef::new(plan), ..self.clone() }
            }
        }
    }

    /// Returns the largest number of buffers that a launch binds, of the kernel and of its epilogue's launch.
    /// The scalars count as one.
    pub fn bindings(&self) -> u32 {
        let epilogue = if self.ordered.is_some() { &self.ordered_epilogue } else { &self.plan.own.epilogue };
        let beside = epilogue.buffers() + u32::from(epilogue.number != Number::F32);
        // The kernel binds rows, model, leaf values, result, partial sums and scalars, and sums that are
        // added to atomically.
        let kernel = 6 + u32::from(self.plan.is_atomic());
        match self.ordered.is_some() || self.plan.epilogue_site() == EpilogueSite::Launch {
            // The epilogue's launch binds model, sums, their copies, result and scalars.
            true => kernel.max(5 + beside),
            false => kernel + beside,
        }
    }

    /// Limits launches to `rows` rows, rounded down to a multiple of 128. The least limit is 128.
    #[must_use]
    pub fn with_most_rows(mut self, rows: u32) -> Self {
        self.most_rows = Some(rows);
        self
    }

    /// Returns the number of cubes of a launch over `batch` rows, along each axis of the grid.
    pub fn cubes(&self, batch: u32) -> [u32; 3] {
        cubes(&self.plan, Extents { batch, trees: self.model.trees, threads: 1 })
    }

    /// Runs over `rows`, whose values have the type that the executable was made for, and writes the results
    /// into `out`. Nothing is read back.
    ///
    /// `leaves` holds the leaf values by leaf slot. It may be any buffer of one value if the executable
    /// writes leaf slots or a trace, or if its sums are exact or in the producer's order: such sums use the
    /// forest's own leaf values. `out` has room for [`Emit::width`] words for each row.
    pub fn run(&self, rows: &Rows, leaves: &Buffer, out: &Buffer) {
        self.run_with(rows, leaves, &EpilogueInputs::default(), out);
    }

    /// Like [`Self::run`], but with the inputs of the [epilogue](Executable::with_epilogue). `out` has room
    /// for numbers of the epilogue's type.
    pub fn run_with(&self, rows: &Rows, leaves: &Buffer, epilogue: &EpilogueInputs, out: &Buffer) {
        let Some((ordered, emit)) = &self.ordered else { return self.walk(rows, leaves, epilogue, out) };
        let transform = if let Emit::Values(transform) = emit { Some(*transform) } else { None };
        let trees = self.model.trees.max(1);
        let bytes = self.client.properties().memory.max_page_size.min(1 << 33);
        let slots_bind = (bytes / 4 / u64::from(trees)).min(1 << 31) as u32;
        let most = most_rows(&self.plan, rows, self.model.trees, bytes).min(slots_bind);
        let most = self.most_rows.map_or(most, |m| m.min(most));
        let input = self.ranks.as_ref().map_or(self.plan.input(), |tables| tables.from);
        let width = emit.width(ordered.order.outputs, trees);
        let mut first = 0;
        for (rows, out) in pieces(input, rows, out, self.ordered_epilogue.number, most) {
            let len = rows.batch as usize * trees as usize;
            let slots = Buffer::of_words(&self.client, len);
            self.walk(&rows, leaves, &EpilogueInputs::default(), &slots);
            let following =
                EpilogueArgs { epilogue: &self.ordered_epilogue, inputs: &epilogue.from(first, width) };
            margins_in_order(&self.client, ordered, &slots, rows.batch, transform, following, &out);
            first += rows.batch;
        }
    }

    /// Whether the kernel can run, over these rows, the operations that burn's fusion recorded after the forest.
    /// It can if the plan's epilogue consists of recorded operations, and one launch writes every value exactly
    /// once.
    #[cfg(feature = "cube")]
    pub(crate) fn takes_recorded(&self, rows: &Rows) -> bool {
        self.ordered.is_none()
            && self.plan.own.epilogue.recorded
            && self.plan.epilogue_site() == EpilogueSite::Sum
            && rows.batch > 0
            && rows.batch <= self.most(rows)
    }

    /// Runs over rows that [`Self::takes_recorded`](Executable::takes_recorded) accepts. The recorded
    /// operations write the results.
    #[cfg(feature = "cube")]
    pub(crate) fn run_recorded(
        &self,
        rows: &Rows,
        leaves: &Buffer,
        recorded: fangorn_kernels::RecordedInputs,
    ) {
        let ranked = self.ranks.as_ref().map(|tables| rank_batch(&self.client, tables, rows));
        self.job(leaves).run_recorded(ranked.as_ref().unwrap_or(rows), recorded);
    }

    /// Returns the plan with the buffers that its launches read. The leaf values are the executable's own
    /// integers, if it has them, otherwise `leaves`.
    fn job<'a>(&'a self, leaves: &'a Buffer) -> Job<'a> {
        let leaves = self.leaves.as_ref().unwrap_or(leaves);
        Job { client: &self.client, plan: &self.plan, model: &self.model, leaves }
    }

    /// Returns the maximum number of rows of a launch of the kernel. `rows` have the form that the kernel reads:
    /// ranks, if the plan reads ranks.
    fn most_walked(&self, rows: &Rows) -> u32 {
        let bytes = self.client.properties().memory.max_page_size;
        let most = most_rows(&self.plan, rows, self.model.trees, bytes);
        self.most_rows.map_or(most, |m| m.min(most))
    }

    /// Returns the maximum number of rows of a launch, for rows before they become ranks: neither the rows
    /// nor their ranks are larger than a binding.
    fn most(&self, rows: &Rows) -> u32 {
        let ranked = self
            .ranks
            .as_ref()
            .map(|tables| Rows { row_stride: tables.row_words() * tables.to.per_word(), ..rows.clone() });
        let most = self.most_walked(rows);
        ranked.map_or(most, |ranked| most.min(self.most_walked(&ranked)))
    }

    /// Runs the plan and writes what it emits. If the plan reads ranks, it first turns rows into ranks.
    fn walk(&self, rows: &Rows, leaves: &Buffer, epilogue: &EpilogueInputs, out: &Buffer) {
        let job = self.job(leaves);
        let Some(tables) = &self.ranks else { return job.run(rows, epilogue, out, self.most_walked(rows)) };
        let number = self.plan.own.epilogue.number;
        let width = self.plan.emit.width(self.plan.outputs, self.model.trees);
        let mut first = 0;
        for (rows, out) in pieces(tables.from, rows, out, number, self.most(rows)) {
            let ranked = rank_batch(&self.client, tables, &rows);
            job.run(&ranked, &epilogue.from(first, width), &out, self.most_walked(&ranked));
            first += rows.batch;
        }
    }

    /// Returns the kernel's text in the device's language, as a launch hands it to the driver.
    ///
    /// # Errors
    /// The backend's kernels have no text here (those of CUDA and ROCm have it [by
    /// architecture](crate::cube::offline)), or the compiler refuses the kernel.
    pub fn source(&self) -> Result<String> {
        let name = self.client.name();
        #[cfg(feature = "vulkan")]
        if super::device::compiles_spirv(name) {
            let compiler = cubecl::wgpu::AutoCompiler::SpirV(Default::default());
            return self.compile(compiler, &spirv_options(&self.client));
        }
        #[cfg(any(feature = "wgpu", feature = "webgpu"))]
        if name.starts_with("wgpu") {
            return self.compile(cubecl::wgpu::WgslCompiler, &Default::default());
        }
        Err(Error::Device(format!(
            "the text of {name} kernels can't be shown; build with wgpu for WGSL, vulkan for SPIR-V"
        )))
    }

    #[cfg(any(feature = "wgpu", feature = "webgpu"))]
    fn compile<C: cubecl::Compiler>(&self, compiler: C, options: &C::CompilationOptions) -> Result<String> {
        let device = self.client.properties_shared();
        let made = fangorn_kernels::compile(device, &self.plan, compiler, options);
        made.map(|kernel| kernel.to_string()).map_err(|e| Error::Device(e.to_string()))
    }
}

/// Returns the options for SPIR-V: Vulkan 1.3, and the extensions that can be read from a client.
#[cfg(feature = "vulkan")]
fn spirv_options(client: &Client) -> cubecl::WgpuCompilationOptions {
    let mut options = cubecl::WgpuCompilationOptions { supports_vulkan_compiler: true, ..Default::default() };
    options.vulkan.max_spirv_version = (1, 6);
    options.vulkan.max_vector_size = 4;
    options.vulkan.push_constant_size = 128;
    options.vulkan.supports_explicit_smem = !super::device::is_software(client);
    options
}

/// Uploads the numbers that are added in the producer's tree order.
fn ordered(client: &Client, forest: &Forest) -> Result<Leaves> {
    let single = Accumulator::of(forest) == Accumulator::F32;
    let words = |values: &[Real]| -> Result<Buffer> {
        let value = |v: &Real| if single { f64::from(v.0 as f32) } else { v.0 };
        let words: Vec<u32> = values
            .iter()
            .map(|v| value(v).to_bits())
            .flat_map(|bits| [bits as u32, (bits >> 32) as u32])
            .collect();
        upload(client, &words)
    };
    let (targets, vector_leaves) = match &forest.targets {
        Targets::One(outputs) => (outputs.clone(), false),
        Targets::All => (Vec::new(), true),
    };
    Ok(Leaves {
        values: words(&forest.leaf_values)?,
        base: words(&forest.base_score)?,
        targets: upload(client, &targets)?,
        order: Order { outputs: forest.outputs, vector_leaves, single },
        trees: forest.trees.len() as u32,
        scale: forest.scale.0 as f32,
    })
}

/// Uploads words to the device's memory.
pub(super) fn upload(client: &Client, words: &[u32]) -> Result<Buffer> {
    let most = client.properties().memory.max_page_size;
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    if bytes.len() as u64 > most {
        let remedy = format!(
            "the forest takes {} bytes, the device binds {most}; use layout(sparse) or the CPU",
            bytes.len()
        );
        return Err(Error::Device(remedy));
    }
    // No binding may be empty.
    let handle = client.create_from_slice(if bytes.is_empty() { &[0; 4] } else { &bytes });
    Ok(Buffer { handle, len: words.len() })
}
