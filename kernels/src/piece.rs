//! The launches of a plan for one piece, the rows that fit one launch: fill sums and copies, run the kernel,
//! add up copies, compute the epilogue.

use cubecl::prelude::*;
use fangorn_ir::{
    Combine, Emit, EpiloguePlan, Extents,
    cube::{Adders, EpilogueSite, Facts, Partial},
};

use super::{
    device::{Buffer, Job, Rows, flat, units},
    epilogue_kernel::EpilogueStage,
    epilogue_launch::{Sums, bind_results, launch_epilogue},
    epilogue_steps::EpilogueInputs,
    expand::forest,
    grid::{copies_of, cubes},
    memory::{BuffersLaunch, CallLaunch},
    recorded::RecordedInputs,
    reduce::{CopySpanLaunch, fill_out, fill_partial, reduce_copies},
};

/// The copies of sums of one partial buffer, in global memory.
struct Copies {
    /// Index of the first copy's first word.
    at: u32,
    /// Number of copies.
    count: u32,
}

/// The rows of one launch, and the buffers it takes to walk them.
pub(crate) struct RowPiece<'a> {
    job: Job<'a>,
    rows: &'a Rows,
    /// The sums: the result itself, or the input of an epilogue in a launch of its own.
    sums: Buffer,
    /// The epilogue that needs a launch of its own, and the buffer it writes, if there is one.
    last: Option<(EpilogueStage, &'a Buffer)>,
    /// The memory of all copies of sums.
    partial: Buffer,
    /// The copies of each of the plan's partial buffers in `partial`.
    copies: Vec<Copies>,
    cubes: [u32; 3],
    at: Extents,
}

impl<'a> RowPiece<'a> {
    /// Allocates the sums and their copies. `rows` has at least one row, and `out` has room for the results.
    pub(crate) fn new(job: Job<'a>, rows: &'a Rows, out: &'a Buffer) -> Self {
        let plan = job.plan;
        let at = Extents { batch: rows.batch, trees: job.model.trees, threads: 1 };
        let last = epilogue_stage(&job).map(|what| (what, out));
        let row_sums = rows.batch * plan.sum_words();
        let sums = match last {
            Some(_) => Buffer::of_words(job.client, row_sums as usize),
            None => out.clone(),
        };
        let cubes = cubes(plan, at);
        let count = |p: &Partial| p.dims.iter().map(|d| copies_of(plan, *d, cubes)).product::<u32>();
        let mut len = 0;
        let mut copies = Vec::with_capacity(plan.own.partials.len());
        for partial in &plan.own.partials {
            let count = count(partial);
            copies.push(Copies { at: len, count });
            len += count * row_sums;
        }
        let partial = Buffer::of_words(job.client, len.max(1) as usize);
        Self { job, rows, sums, last, partial, copies, cubes, at }
    }

    /// Makes all launches of the piece.
    pub(crate) fn run(self, epilogue: &EpilogueInputs, recorded: Option<RecordedInputs>) {
        self.fill();
        self.walk(epilogue, recorded);
        let left = self.reduce();
        self.finish(left, epilogue);
    }

    /// Returns the number of words of the sums of these rows.
    fn row_sums(&self) -> u32 {
        self.rows.batch * self.job.plan.sum_words()
    }

    /// Returns the index of the sum of no leaves in the model's words.
    fn nothing_at(&self) -> u32 {
        self.job.model.base_at + self.job.plan.sum_words()
    }

    /// Sets copies, and sums that are added to, to their initial value.
    fn fill(&self) {
        let Job { client, plan, model, .. } = self.job;
        if !self.copies.is_empty() {
            let copies = self.partial.len as u32;
            let (count, dim) = flat(client, copies);
            // SAFETY: `RowPiece::new` made `partial` with `copies` words. The encoder of the model put the
            // sum of no leaves at `nothing_at`.
            unsafe {
                let (words, partial) = (model.words.arg(), self.partial.arg());
                fill_partial::launch_unchecked(client, count, dim, words, partial, self.nothing_at(), copies);
            }
        }
        if plan.emit.sums() && !plan.facts().sums_once {
            let (count, dim) = flat(client, self.row_sums());
            // SAFETY: the encoder of the model put `each` words of base scores, and then the sum of no
            // leaves, at `base_at`. `sums` has `all` words: `RowPiece::new` made it, or it is the result, for
            // whose size the caller of `Job::run` is responsible.
            unsafe {
                let (words, sums) = (model.words.arg(), self.sums.arg());
                let (base_at, each, all) = (model.base_at, plan.sum_words(), self.row_sums());
                let base = begins_at_base(plan.combine);
                fill_out::launch_unchecked(client, count, dim, words, sums, base_at, each, all, base);
            }
        }
    }

    /// Launches the plan's kernel.
    fn walk(&self, epilogue: &EpilogueInputs, recorded: Option<RecordedInputs>) {
        let Job { client, plan, model, leaves } = self.job;
        let rows = self.rows;
        let call = CallLaunch::new(
            rows.batch,
            model.trees,
            rows.row_stride,
            rows.column_stride,
            rows.offset,
            model.trees_at,
            model.slots_at,
            model.questions_at,
            model.columns_at,
            model.ranks_at,
            model.base_at,
            model.scale,
            plan.sizes.iter().map(|s| s.resolve(self.at)).collect(),
            self.copies.iter().map(|copies| copies.at).collect(),
        );
        // Sums that are added to atomically are bound as atomics only.
        let atomic = plan.emit.sums() && plan.facts().is_atomic;
        let fixed = plan.combine == Combine::Fixed;
        // SAFETY: loops end at the number of rows and trees. `PackedForest::verify` followed every path when the
        // layout was packed, so walks stay inside the nodes. `RowPiece::new` made the buffers of sums and
        // copies for these rows. The caller of `Job::run` or `Job::run_recorded` upholds that rows and leaf
        // values lie in their buffers, and that the result and the epilogue's tensors are as large as the
        // plan writes and reads.
        unsafe {
            let (values, operands) = match &self.last {
                // The epilogue has a launch of its own.
                Some(_) => bind_results(
                    client,
                    &EpiloguePlan::default(),
                    &EpilogueInputs::default(),
                    None,
                    &self.sums,
                ),
                None => bind_results(client, &plan.own.epilogue, epilogue, recorded, &self.sums),
            };
            let values = if atomic { Buffer::none(client).arg() } else { values };
            let added_to = |whole: bool| (atomic && fixed == whole).then(|| self.sums.arg());
            let buffers = BuffersLaunch::new(
                rows.words.arg(),
                model.words.arg(),
                leaves.arg(),
                values,
                self.partial.arg(),
                added_to(false).into_iter().collect(),
                added_to(true).into_iter().collect(),
                operands,
            );
            let [x, y, z] = self.cubes;
            let [units_x, units_y, units_z] = plan.own.cube_dim;
            forest::launch_unchecked(
                client,
                CubeCount::Static(x, y, z),
                CubeDim::new_3d(units_x, units_y, units_z),
                buffers,
                call,
                plan.clone(),
            );
        }
    }

    /// Adds copies up. If the launch of the epilogue can add up the copies of the last buffer itself, returns
    /// those copies, otherwise no copies.
    fn reduce(&self) -> Copies {
        let Job { client, plan, model, .. } = self.job;
        let len = self.row_sums();
        for (i, &Copies { at, count: copies }) in self.copies.iter().enumerate() {
            let by = adders(copies, len);
            if self.last.is_some() && i + 1 == self.copies.len() && by == Adders::Unit {
                return Copies { at, count: copies };
            }
            let together = units(client);
            let (count, dim) = match by {
                Adders::Cube => (CubeCount::Static(len, 1, 1), CubeDim::new_1d(together)),
                Adders::Unit | Adders::Plane => flat(client, len),
            };
            let span = CopySpanLaunch::new(self.nothing_at(), at, copies, len);
            // SAFETY: `RowPiece::new` made `partial` for these copies and `sums` for these rows. If `sums` is
            // the result, the caller of `Job::run` upholds its size. The encoder of the model put the sum of
            // no leaves at `nothing_at`.
            unsafe {
                let (words, partial, sums) = (model.words.arg(), self.partial.arg(), self.sums.arg());
                reduce_copies::launch_unchecked(
                    client,
                    count,
                    dim,
                    words,
                    partial,
                    sums,
                    span,
                    plan.combine,
                    by,
                    together,
                );
            }
        }
        Copies { at: 0, count: 0 }
    }

    /// Launches the epilogue if it needs a launch of its own.
    fn finish(self, left: Copies, epilogue: &EpilogueInputs) {
        let Job { client, plan, model, .. } = self.job;
        let Some((what, out)) = self.last else { return };
        let sums = Sums {
            rows: self.rows.batch,
            model: &model.words,
            base_at: model.base_at,
            sums: &self.sums,
            partial: &self.partial,
            partial_at: left.at,
            copies: left.count,
            scale: if plan.emit == Emit::Margins { 1.0 } else { model.scale },
        };
        launch_epilogue(client, what, &sums, epilogue, out);
    }
}

/// Whether sums that are added to begin at the base score. Otherwise they begin at the sum of no leaves.
fn begins_at_base(combine: Combine) -> bool {
    matches!(combine, Combine::Sum | Combine::Fixed)
}

/// Returns the epilogue that needs a launch of its own, if there is one. There is one for sums that began at
/// the sum of no leaves, for integer sums, and if the plan's epilogue site is [`EpilogueSite::Launch`].
fn epilogue_stage(job: &Job<'_>) -> Option<EpilogueStage> {
    let plan = job.plan;
    let Facts { sums_once, epilogue_site, .. } = plan.facts();
    let sums = plan.emit.sums();
    let add_base = sums && !sums_once && !begins_at_base(plan.combine);
    let fixed = sums && plan.combine == Combine::Fixed;
    (add_base || fixed || epilogue_site == EpilogueSite::Launch).then(|| EpilogueStage {
        combine: plan.combine,
        add_base,
        outputs: plan.outputs,
        transform: plan.emit.transform(),
        epilogue: plan.own.epilogue.clone(),
    })
}

/// Returns the units that add up `copies` global copies of `sums` sums: one unit for each sum if there are
/// enough sums, and one cube for each sum if there are few sums of many copies.
pub fn adders(copies: u32, sums: u32) -> Adders {
    if copies >= 32 && sums < copies { Adders::Cube } else { Adders::Unit }
}
