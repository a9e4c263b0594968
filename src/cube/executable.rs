//! A plan and a forest on one device.

use cubecl::client::Client;
use fangorn_kernels::{
    Buffer, EpilogueArgs, EpilogueInputs, Job, Leaves, Model, Order, RankTables, RecordedInputs, Rows, cubes,
    margins_in_order, most_rows, pieces, rank_batch,
};

use super::{ExecutableBuilder, words};
use crate::{
    error::{Error, Result},
    forest::{Aggregate, Forest, Real, Targets},
    plan::{Combine, Emit, EpiloguePlace, EpiloguePlan, Extents, Lowered, Number, PlanRef},
    sum::{Accumulator, Contract, FixedPoint},
};

/// A forest compiled for a device and lying in its memory: immutable, launched without a lock.
#[derive(Clone)]
pub struct Executable {
    client: Client,
    plan: PlanRef,
    model: Model,
    /// What rows become before they are walked, where the schedule wants that and their cache does not make it of them.
    ranks: Option<RankTables>,
    /// The leaves as whole numbers, where those are added up.
    leaves: Option<Buffer>,
    /// The leaves as they are added in the order of the trees, and what is written then: the plan writes slots.
    ordered: Option<(Leaves, Emit)>,
    /// What follows those.
    ordered_epilogue: EpiloguePlan,
    /// Rows of a launch, where fewer are wanted than the device allows.
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
    /// Sets options before it lowers a forest that verifies for the device behind `client`.
    pub fn builder<'f>(client: &Client, forest: &'f Forest) -> ExecutableBuilder<'f> {
        ExecutableBuilder::new(client, forest)
    }

    /// Uploads what [`lower`](crate::plan::lower) made of the same forest for this device.
    ///
    /// # Errors
    /// A forest that the device can't hold, or one that was lowered for the CPU.
    pub fn from_lowered(client: &Client, forest: &Forest, lowered: &Lowered) -> Result<Self> {
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

    /// Whether leaf values are added in the producer's order, by a launch behind the walks.
    pub(super) fn adds_in_order(forest: &Forest, sum: Contract, emit: Emit) -> bool {
        sum == Contract::Tree && emit.sums() && forest.aggregate == Aggregate::Sum
    }

    /// Adds the leaf values of the slots that its plan writes in the producer's order, and writes `emit` of the sums.
    pub(super) fn in_order(self, forest: &Forest, emit: Emit) -> Result<Self> {
        let ordered = Some((ordered(&self.client, forest)?, emit));
        Ok(Self { ordered, ..self })
    }

    /// The plan it launches.
    pub fn plan(&self) -> &PlanRef {
        &self.plan
    }

    /// The same forest in the same memory with a tail behind its margins or values.
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

    /// Buffers that its kernel, or the last launch behind it, binds at most, and one of what is no buffer.
    pub fn bindings(&self) -> u32 {
        let epilogue = if self.ordered.is_some() { &self.ordered_epilogue } else { &self.plan.own.epilogue };
        let beside = epilogue.buffers() + u32::from(epilogue.number != Number::F32);
        // Rows, model, leaves, result, private sums; sums that are added to atomically.
        let kernel = 6 + u32::from(self.plan.is_atomic());
        match self.ordered.is_some() || self.plan.place() == EpiloguePlace::Launch {
            // Model, sums, their copies, result.
            true => kernel.max(5 + beside),
            false => kernel + beside,
        }
    }

    /// The same in launches of at most `rows` rows (rounded to a multiple of 128).
    #[must_use]
    pub fn with_most_rows(mut self, rows: u32) -> Self {
        self.most_rows = Some(rows);
        self
    }

    /// Cubes of a launch over `batch` rows.
    pub fn cubes(&self, batch: u32) -> [u32; 3] {
        cubes(&self.plan, Extents { batch, trees: self.model.trees, threads: 1 })
    }

    /// Runs over `rows`, whose values have the type it was made for, into `out`. Nothing is read back.
    ///
    /// `leaves` are the leaf values by slot (any buffer of one value where slots or a trace are written, or where sums are
    /// exact: those are of the forest's own leaves); `out` has room for [`Emit::width`] words a row.
    pub fn run(&self, rows: &Rows, leaves: &Buffer, out: &Buffer) {
        self.run_with(rows, leaves, &EpilogueInputs::default(), out);
    }

    /// The same with what its [tail](Executable::with_epilogue) reads; `out` has room for numbers of the tail's type.
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

    /// Whether its kernel can take operations that burn's fusion recorded behind the forest, over these rows: each value is
    /// written once, by one launch, and the plan's tail says so.
    pub(crate) fn takes_recorded(&self, rows: &Rows) -> bool {
        self.ordered.is_none()
            && self.plan.own.epilogue.recorded
            && self.plan.place() == EpiloguePlace::Sum
            && rows.batch > 0
            && rows.batch <= self.most(rows)
    }

    /// Runs over rows that it [takes](Executable::takes_recorded), into what the operations write.
    pub(crate) fn run_recorded(&self, rows: &Rows, leaves: &Buffer, recorded: RecordedInputs) {
        let ranked = self.ranks.as_ref().map(|tables| rank_batch(&self.client, tables, rows));
        self.job(leaves).run_recorded(ranked.as_ref().unwrap_or(rows), recorded);
    }

    /// Its plan, with the leaf values that it adds up: whole numbers of its own, or those given.
    fn job<'a>(&'a self, leaves: &'a Buffer) -> Job<'a> {
        let leaves = self.leaves.as_ref().unwrap_or(leaves);
        Job { client: &self.client, plan: &self.plan, model: &self.model, leaves }
    }

    /// Rows of a launch of the kernel over rows as they are given to it, at most.
    fn most_walked(&self, rows: &Rows) -> u32 {
        let bytes = self.client.properties().memory.max_page_size;
        let most = most_rows(&self.plan, rows, self.model.trees, bytes);
        self.most_rows.map_or(most, |m| m.min(most))
    }

    /// The same of rows before they are ranked, where they are: neither they nor their ranks are past a binding.
    fn most(&self, rows: &Rows) -> u32 {
        let ranked = self
            .ranks
            .as_ref()
            .map(|tables| Rows { row_stride: tables.row_words() * tables.to.per_word(), ..rows.clone() });
        let most = self.most_walked(rows);
        ranked.map_or(most, |ranked| most.min(self.most_walked(&ranked)))
    }

    /// What the plan writes.
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

    /// The kernel's text in the device's language, as a launch gives it to the driver.
    ///
    /// # Errors
    /// A backend whose kernels have no text here (those of CUDA and ROCm have it [by
    /// architecture](crate::cube::offline)), or the compiler's refusal.
    pub fn source(&self) -> Result<String> {
        let name = self.client.name();
        #[cfg(feature = "vulkan")]
        if name.starts_with("wgpu") && !self.client.properties().identity.fingerprint.contains("wgsl") {
            let compiler = cubecl::wgpu::AutoCompiler::SpirV(Default::default());
            return self.compile(compiler, &spirv_options(&self.client));
        }
        #[cfg(feature = "wgpu")]
        if name.starts_with("wgpu") {
            return self.compile(cubecl::wgpu::WgslCompiler, &Default::default());
        }
        Err(Error::Device(format!(
            "the text of {name} kernels can't be shown; build with wgpu for WGSL, vulkan for SPIR-V"
        )))
    }

    #[cfg(feature = "wgpu")]
    fn compile<C: cubecl::Compiler>(&self, compiler: C, options: &C::CompilationOptions) -> Result<String> {
        let device = self.client.properties_shared();
        let made = fangorn_kernels::compile(device, &self.plan, compiler, options);
        made.map(|kernel| kernel.to_string()).map_err(|e| Error::Device(e.to_string()))
    }
}

/// What SPIR-V is made for: Vulkan 1.3, and of its extensions those that a client says something of.
#[cfg(feature = "vulkan")]
fn spirv_options(client: &Client) -> cubecl::WgpuCompilationOptions {
    let mut options = cubecl::WgpuCompilationOptions { supports_vulkan_compiler: true, ..Default::default() };
    options.vulkan.max_spirv_version = (1, 6);
    options.vulkan.max_vector_size = 4;
    options.vulkan.push_constant_size = 128;
    options.vulkan.supports_explicit_smem = !super::device::is_software(client);
    options
}

/// A forest's leaves as they are added in the order of the trees.
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

/// Words in the device's memory.
fn upload(client: &Client, words: &[u32]) -> Result<Buffer> {
    let most = client.properties().memory.max_page_size;
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    if bytes.len() as u64 > most {
        let remedy = format!(
            "the forest takes {} bytes, the device binds {most}; use layout(sparse) or the CPU",
            bytes.len()
        );
        return Err(Error::Device(remedy));
    }
    // No binding is empty.
    let handle = client.create_from_slice(if bytes.is_empty() { &[0; 4] } else { &bytes });
    Ok(Buffer { handle, len: words.len() })
}
