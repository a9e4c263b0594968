//! Lowers a forest and a schedule, through MIR and a layout, to a plan.

use std::sync::Arc;

use super::{
    Combine, Dialect, Emit, Extents, Map, Plan, Remainder, RowType, Size, Target, TargetPlan, Value, Walk,
    budget,
    cpu::{self, Cpu},
    cube::{self, Cube},
    trees::{Trees, wants_profile},
};
use crate::{
    error::{Error, Result},
    forest::{self, Aggregate, Forest, Predicate, Profile, passes::Depths},
    layout::{self, Layout, LayoutKind, PackedForest, Sizes},
    mir::{self, LoopNest, SharedCodeReason, UnspecializedLoop},
    ranks::{Ranks, Width},
    schedule::{Device, Directive, Evaluation, FewRows, Schedule},
    sum::Contract,
};

/// What to compile for: the device, the outputs, the type of rows, the threads, and the contract of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The device to compile for.
    pub device: Device,
    /// What a run writes.
    pub emit: Emit,
    /// The type of the rows in memory.
    pub rows: RowType,
    /// Number of worker threads: what `threads` means in a schedule.
    pub threads: u32,
    /// The contract that sums keep.
    pub sum: Contract,
}

impl Request {
    /// Returns a request for margins of `f32` rows on the CPU, on all threads of the current pool.
    pub fn cpu() -> Self {
        let threads = rayon::current_num_threads() as u32;
        Self { device: Device::Cpu, emit: Emit::Margins, rows: RowType::F32, threads, sum: Contract::Any }
    }
}

/// A forest compiled down to LIR, with each stage on the way. Lowering verifies the plan and the packed nodes
/// before it returns one, so targets rely on this: walks stay inside the packed nodes and end in leaves.
#[derive(Clone, Debug)]
pub struct LoweredForest {
    notes: Vec<Note>,
    order: Vec<u32>,
    loops: LoopNest,
    legal: LoopNest,
    packed: PackedForest,
    plan: TargetPlan,
    ranks: Option<Arc<Ranks>>,
    rows: RowType,
}

/// A directive that the device or the model can't carry out as written, and what is done instead. The result
/// is the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// The directive, such as `cache(b0)`.
    pub directive: String,
    /// What was done instead, and why.
    pub fallback: String,
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.directive, self.fallback)
    }
}

impl LoweredForest {
    /// Returns a note on each directive that was not carried out as written.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the producer's index of the tree at each position.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns the loops as the schedule spells them out.
    pub fn loops(&self) -> &LoopNest {
        &self.loops
    }

    /// Returns the loops after `legalise`, which gives loops whose iterations would add to the same sum
    /// private partial sums, or atomic additions.
    pub fn legal(&self) -> &LoopNest {
        &self.legal
    }

    /// Whether each row's leaves come in the producer's tree order, on `threads` threads.
    pub fn keeps_tree_order(&self, threads: u32) -> bool {
        self.order.is_sorted() && self.loops.keeps_order(self.order.len() as u32, threads)
    }

    /// Returns the nodes as the layout stores them.
    pub fn packed(&self) -> &PackedForest {
        &self.packed
    }

    /// Returns the plan: the shape of the target's program or kernel.
    pub fn plan(&self) -> &TargetPlan {
        &self.plan
    }

    /// Returns the CPU's plan.
    ///
    /// # Errors
    /// The forest was lowered for a GPU.
    pub fn cpu_plan(&self) -> Result<&Plan<Cpu>> {
        let remedy = "the forest was lowered for a GPU; lower it for Device::Cpu to make a program of it";
        self.plan.cpu().ok_or_else(|| Error::Device(remedy.into()))
    }

    /// Returns the kernel's plan.
    ///
    /// # Errors
    /// The forest was lowered for the CPU.
    pub fn cube_plan(&self) -> Result<&Plan<Cube>> {
        let remedy = "the forest was lowered for the CPU; lower it for Device::Gpu to make a kernel of it";
        self.plan.cube().ok_or_else(|| Error::Device(remedy.into()))
    }

    /// Returns the data that turns rows into ranks, if the schedule asks for ranks. The plan then walks
    /// [`Ranks::forest`], and the rows that it reads are ranks.
    pub fn ranks(&self) -> Option<&Arc<Ranks>> {
        self.ranks.as_ref()
    }

    /// Returns the type of the rows as a caller hands them over.
    pub fn rows(&self) -> RowType {
        self.rows
    }

    /// Returns the forest that is walked: the forest on ranks if the schedule ranks rows, and `forest`
    /// otherwise. `forest` must be the one that was lowered.
    pub fn walked_forest<'a>(&'a self, forest: &'a Forest) -> &'a Forest {
        self.ranks.as_ref().map_or(forest, |ranks| ranks.forest())
    }
}

/// Lowers a forest. This is a pure function: the same input gives the same plan.
///
/// # Errors
/// The forest does not [verify](Forest::verify), the layout can't hold it, or the device can't carry out the
/// schedule. The error names the remedy.
pub fn lower(forest: &Forest, schedule: &Schedule, request: Request) -> Result<LoweredForest> {
    lower_with(forest, schedule, request, None)
}

/// Like [`lower`], but with a profile of the forest, which some directives need.
///
/// # Errors
/// The errors of [`lower`], or the profile is of another forest.
pub fn lower_with(
    forest: &Forest,
    schedule: &Schedule,
    request: Request,
    profile: Option<&Profile>,
) -> Result<LoweredForest> {
    forest.verify()?;
    lower_verified(forest, schedule, request, profile)
}

/// Like [`lower_with`], but for a forest that the caller has verified.
pub(crate) fn lower_verified(
    forest: &Forest,
    schedule: &Schedule,
    request: Request,
    profile: Option<&Profile>,
) -> Result<LoweredForest> {
    let visits = visits(forest, profile)?;
    let ranks = ranks(forest, schedule)?;
    let (forest, inner) = rank_inputs(forest, request, ranks.as_ref());
    let PlanDraft { notes, order, loops, legal, layout, min_depths, mut plan } =
        settle(forest, schedule, inner, visits)?;
    // A kernel can turn values into ranks while it fills the row cache, but only if the cache holds every
    // column of ranks, not the columns of a group of trees. The forest on ranks reads each of its columns, so
    // `used_columns` is set only if each group of trees has columns of its own.
    if let TargetPlan::Cube(plan) = &mut plan
        && ranks.is_some()
        && !plan.own.used_columns
        && plan.caches_each_row_once()
    {
        plan.own.ranks_from = Some(request.rows);
    }
    let packed = layout.pack(forest, &order, &min_depths)?;
    packed.verify().map_err(Error::Internal)?;
    let ranks = ranks.map(Arc::new);
    Ok(LoweredForest { notes, order, loops, legal, packed, plan, ranks, rows: request.rows })
}

/// Returns a profile's visits by leaf slot. They also hold for the forest of ranks, which has the same slots.
fn visits<'p>(forest: &Forest, profile: Option<&'p Profile>) -> Result<Option<&'p [u64]>> {
    profile.map(|profile| profile.check(forest)).transpose()?;
    Ok(profile.map(Profile::visits))
}

fn ranks(forest: &Forest, schedule: &Schedule) -> Result<Option<Ranks>> {
    let ranks = schedule.rank_choice().map(|choice| Ranks::new(forest, choice)).transpose()?;
    // A forest of nothing but leaves reads no column.
    Ok(ranks.filter(|ranks| !ranks.columns().is_empty()))
}

/// Returns the forest that walks go through, and the request with the type of its rows.
fn rank_inputs<'a>(forest: &'a Forest, request: Request, ranks: Option<&'a Ranks>) -> (&'a Forest, Request) {
    let Some(ranks) = ranks else { return (forest, request) };
    let rows = match ranks.width() {
        Width::U8 => RowType::U8,
        Width::U16 => RowType::U16,
    };
    (ranks.forest(), Request { rows, ..request })
}

/// Checks that [`lower`] would succeed, without laying nodes out.
///
/// # Errors
/// The errors of [`lower`].
pub fn check(forest: &Forest, schedule: &Schedule, request: Request) -> Result<()> {
    check_with(forest, schedule, request, None)
}

/// Checks that [`lower_with`] would succeed, without laying nodes out.
///
/// # Errors
/// The errors of [`lower_with`].
pub fn check_with(
    forest: &Forest,
    schedule: &Schedule,
    request: Request,
    profile: Option<&Profile>,
) -> Result<()> {
    forest.verify()?;
    let visits = visits(forest, profile)?;
    let ranks = ranks(forest, schedule)?;
    let (forest, request) = rank_inputs(forest, request, ranks.as_ref());
    settle(forest, schedule, request, visits).map(drop)
}

/// A lowered forest before its nodes are laid out in memory.
struct PlanDraft {
    notes: Vec<Note>,
    order: Vec<u32>,
    loops: LoopNest,
    legal: LoopNest,
    layout: Box<dyn Layout>,
    min_depths: Vec<u32>,
    plan: TargetPlan,
}

fn settle(
    forest: &Forest,
    schedule: &Schedule,
    request: Request,
    visits: Option<&[u64]>,
) -> Result<PlanDraft> {
    let (target, most) = match request.device {
        Device::Cpu => (Target::Cpu, budget::MOST_CPU_WALKS),
        Device::Gpu(gpu) => (Target::Cube, gpu.code.siblings as usize),
    };
    let nest = schedule.verify(request.device)?;
    let mut notes = Vec::new();
    let mut trees = Trees::new(forest, schedule, visits, &mut notes)?;
    let likely = nest.loops().iter().any(|l| l.marks.likely.is_some());
    match target {
        Target::Cpu if likely && visits.is_none() => {
            let peels = |d: &Directive| matches!(d, Directive::PeelLikely { .. });
            return Err(schedule.last_of(peels, wants_profile()).into());
        }
        Target::Cube if likely => notes.push(Note {
            directive: "peelWalk(…, %)".into(),
            fallback: "a unit's walk tests for its leaf at each step anyway, in a loop".into(),
        }),
        Target::Cpu | Target::Cube => {}
    }
    let order = trees.order.clone();
    let loops = LoopNest::build(&nest, target, trees.tile());
    let count = order.len() as u32;
    // The properties of the trees that a walk's code depends on.
    let code = |walk: &mir::Walk, visited: &[u32]| {
        let Depths { deepest, first_leaf } = trees.depths(visited);
        let likely = walk.likely.map(|percent| trees.likely(visited, percent));
        (walk.unroll.is_some().then_some(deepest), walk.peel.map(|n| n.min(first_leaf)), likely)
    };
    let (mut loops, left) = loops.specialize(count, request.threads, most, code);
    for shared in left {
        let note = shared_code_note(&shared, most);
        // A loop that the nest holds several times has one name, and one note is enough.
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let questions = has_questions(forest);
    notes.extend(few_rows_note(schedule, target, request.rows));
    if let Some(instead) = blend_obstacle(target, request.rows)
        && schedule.blends()
    {
        unblend(&mut loops.body);
        notes.push(Note { directive: "evaluate(…, blend)".into(), fallback: instead.into() });
    }
    if let Device::Gpu(gpu) = request.device {
        notes.extend(budget::within(&mut loops, count, request.threads, gpu.code, questions));
    }
    let mut legal = loops.legalise();
    if let Device::Gpu(gpu) = request.device {
        let (changed, more) =
            super::to_cube::without_atomics(&loops, &legal, combine(forest, target, request), gpu);
        notes.extend(more);
        legal = changed.unwrap_or(legal);
    }
    let kind = schedule.layout_kind().unwrap_or(LayoutKind::Sparse);
    let layout = match trees.tiles.take() {
        Some((nodes, tilings)) => layout::tiled(kind, nodes, tilings)?,
        None => layout::layout(kind),
    };
    let Walks { walks, min_depths, sizes, notes: more } =
        walks(forest, &*layout, &trees, &loops, request, questions)?;
    notes.extend(more);
    let start = BuilderInputs { walks, notes, trees: count, threads: request.threads };
    let (plan, notes) = match request.device {
        Device::Cpu => {
            let head = cpu::Head { few_rows: schedule.few_rows_by(), ..cpu::Head::default() };
            let plan = empty(forest, &*layout, request, questions, head);
            let mut builder = Builder::new(plan, start);
            builder.cpu(&legal);
            let (plan, notes) = builder.finish()?;
            (TargetPlan::Cpu(plan), notes)
        }
        Device::Gpu(gpu) => {
            let plan = empty(forest, &*layout, request, questions, cube::Head::new(layout.children()));
            let mut builder = Builder::new(plan, start);
            builder.cube(&legal, forest, &order, &sizes, gpu);
            let (plan, notes) = builder.finish()?;
            (TargetPlan::Cube(plan), notes)
        }
    };
    Ok(PlanDraft { notes, order, loops, legal, layout, min_depths, plan })
}

/// Returns the note on a loop whose iterations share code, although the schedule asks for code of their own.
/// `most` is the greatest number of walks that may stand side by side.
fn shared_code_note(shared: &UnspecializedLoop, most: usize) -> Note {
    let instead = match shared.why {
        SharedCodeReason::Table => format!(
            "more than {most} walks would stand side by side, so one walk reads each tree's depth from the table of trees"
        ),
        SharedCodeReason::Rows => {
            "it goes over rows, which are not known when code is made; its iterations share theirs".to_owned()
        }
        SharedCodeReason::Batch => {
            "the batch says which trees an iteration visits, and is not known when code is made; \
                             its iterations share theirs"
                .to_owned()
        }
    };
    Note { directive: format!("specialize({})", shared.name), fallback: instead }
}

/// Returns a note on a schedule's `fewRows`, if it has no effect on this target or on rows of this type.
fn few_rows_note(schedule: &Schedule, target: Target, rows: RowType) -> Option<Note> {
    let asks = |d: &&Directive| matches!(d, Directive::FewRows { .. });
    let few = schedule.directives.iter().rev().find(asks)?;
    let fallback = match target {
        Target::Cube => "a cube's units walk trees, however few rows there are",
        Target::Cpu if schedule.few_rows_by() == FewRows::Rows && rows != RowType::F32 => {
            "ranks are walked in the order of the loops, however few rows there are"
        }
        Target::Cpu => return None,
    };
    Some(Note { directive: few.to_string(), fallback: fallback.into() })
}

/// Returns why a plan can't blend and what is done instead, or `None` if it can.
fn blend_obstacle(target: Target, rows: RowType) -> Option<&'static str> {
    match (target, rows) {
        (Target::Cube, _) => Some("a cube's units walk trees, each for rows of its own"),
        (Target::Cpu, RowType::U8) => None,
        (Target::Cpu, _) => Some("blends compare ranks of a byte (ranks(u8)); trees are walked"),
    }
}

fn unblend(ops: &mut [mir::Op]) {
    for op in ops {
        match op {
            mir::Op::Walk(walk) => walk.evaluate = Evaluation::Walk,
            mir::Op::Loop(l) => unblend(&mut l.body),
            mir::Op::Cases(cases) => cases.cases.iter_mut().for_each(|case| unblend(&mut case.body)),
            mir::Op::CacheRows | mir::Op::CacheTrees | mir::Op::Reduce(_) => {}
        }
    }
}

/// The steps of a walk.
#[derive(Clone, Copy)]
pub(super) struct Steps {
    /// Number of straight-line steps without a leaf test.
    plain: u32,
    /// Number of straight-line steps with a leaf test each.
    tested: u32,
    /// How the walk goes on after these steps.
    rest: Remainder,
}

/// The steps of all walks, and the depths that they require of the trees.
struct Walks {
    walks: Vec<Steps>,
    /// The least depth that each tree's leaves must have, by position.
    min_depths: Vec<u32>,
    sizes: Sizes,
    notes: Vec<Note>,
}

/// Determines each walk's straight-line steps, and from them the least depth that each tree's leaves must
/// have, by position.
fn walks(
    forest: &Forest,
    layout: &dyn Layout,
    trees: &Trees,
    loops: &LoopNest,
    request: Request,
    questions: bool,
) -> Result<Walks> {
    let order = &trees.order;
    let everything = || (0..order.len() as u32).collect::<Vec<_>>();
    let visited: Vec<Vec<u32>> = loops
        .trees_of_walks(order.len() as u32, request.threads)
        .into_iter()
        .map(|trees| trees.unwrap_or_else(everything))
        .collect();
    let occurrences = budget::occurrences(&loops.body, order.len() as u32, request.threads);
    let all = occurrences.iter().map(|(_, count)| *count).fold(0, u32::saturating_add);
    let mut left = budget::Steps::new(request.device, all, questions);
    let mut notes = Vec::new();
    let mut steps = Vec::new();
    for ((walk, count), visited) in occurrences.iter().zip(&visited) {
        let Depths { deepest, first_leaf } = trees.depths(visited);
        let unrolled = match walk.unroll {
            Some(None) if walk.table => 0,
            Some(None) => deepest,
            // No walk goes further than the deepest leaf.
            Some(Some(n)) => n.min(deepest),
            None => 0,
        };
        let peeled = walk.peel.map_or(0, |n| n.min(first_leaf));
        let wanted = unrolled.max(peeled);
        let taken = left.take(wanted, *count);
        if taken < wanted {
            notes.push(Note {
                directive: if unrolled < peeled { "peelWalk" } else { "unrollWalk" }.into(),
                fallback: format!(
                    "{wanted} straight-line steps in each of {count} walks are more than a kernel may hold; {taken} are, the rest \
                     is a loop"
                ),
            });
        }
        // A walk whose straight-line code was to reach every leaf, and can't, ends in a counted loop.
        let counted = walk.unroll == Some(None) && (walk.table || taken < wanted);
        steps.push((taken, counted));
    }
    let mut min_depths: Vec<u32> = trees
        .depths
        .iter()
        .zip(&trees.padded)
        .map(|(d, padded)| if *padded { d.deepest } else { 0 })
        .collect();
    if !layout.leaves_hold() {
        for ((n, counted), visited) in steps.iter().zip(&visited) {
            for k in visited {
                let own = if *counted { trees.depths[*k as usize].deepest } else { 0 };
                let min_depth = &mut min_depths[*k as usize];
                *min_depth = (*min_depth).max(*n).max(own);
            }
        }
    }
    let sizes = layout.sizes(forest, order, &min_depths)?;
    let mut walks = Vec::with_capacity(steps.len());
    for (((n, counted), visited), (walk, _)) in steps.iter().zip(&visited).zip(&occurrences) {
        let complete = visited.iter().all(|k| sizes.depths[*k as usize] <= *n);
        let rest = match (complete, counted) {
            (true, _) => Remainder::Nothing,
            (false, true) => Remainder::Counted,
            (false, false) => Remainder::UntilLeaf,
        };
        let likely = walk.likely.filter(|_| request.device == Device::Cpu && rest == Remainder::UntilLeaf);
        let tested = likely.map_or(0, |percent| trees.likely(visited, percent).saturating_sub(*n));
        walks.push(Steps { plain: *n, tested, rest });
    }
    Ok(Walks { walks, min_depths, sizes, notes })
}

/// Whether some predicate is neither `Less` nor `Always`.
fn has_questions(forest: &Forest) -> bool {
    let asks = |n: &forest::Node| match n {
        forest::Node::Split { predicate, .. } => {
            !matches!(predicate, Predicate::Less { .. } | Predicate::Always)
        }
        forest::Node::Leaf { .. } => false,
    };
    forest.trees.iter().any(|t| t.nodes.iter().any(asks))
}

/// Returns how leaf values become margins. The CPU's program determines by itself in which type it adds.
fn combine(forest: &Forest, target: Target, request: Request) -> Combine {
    match forest.aggregate {
        Aggregate::Sum if target == Target::Cube && request.sum == Contract::Exact => Combine::Fixed,
        Aggregate::Sum => Combine::Sum,
        Aggregate::Min => Combine::Min,
        Aggregate::Max => Combine::Max,
    }
}

/// Returns a plan without statements.
fn empty<D: Dialect>(
    forest: &Forest,
    layout: &dyn Layout,
    request: Request,
    questions: bool,
    own: D::Head,
) -> Plan<D> {
    Plan {
        emit: request.emit,
        layout: layout.kind(),
        children: layout.children(),
        combine: combine(forest, D::TARGET, request),
        questions,
        outputs: forest.outputs,
        vector_leaves: forest.targets == forest::Targets::All,
        rows: request.rows,
        sizes: Vec::new(),
        body: Vec::new(),
        own,
    }
}

/// The inputs of a [`Builder`].
struct BuilderInputs {
    walks: Vec<Steps>,
    notes: Vec<Note>,
    trees: u32,
    threads: u32,
}

/// A plan that is being built.
pub(super) struct Builder<D: Dialect> {
    pub(super) plan: Plan<D>,
    pub(super) notes: Vec<Note>,
    pub(super) next_walk: usize,
    pub(super) trees: u32,
    pub(super) threads: u32,
    walks: Vec<Steps>,
}

impl<D: Dialect> Builder<D> {
    fn new(plan: Plan<D>, start: BuilderInputs) -> Self {
        let BuilderInputs { walks, notes, trees, threads } = start;
        Self { plan, notes, next_walk: 0, trees, threads, walks }
    }

    /// Verifies the plan, and returns it with the notes on it.
    fn finish(self) -> Result<(Plan<D>, Vec<Note>)> {
        self.plan.verify().map_err(Error::Internal)?;
        Ok((self.plan, self.notes))
    }

    pub(super) fn note(&mut self, directive: impl Into<String>, instead: impl Into<String>) {
        let note = Note { directive: directive.into(), fallback: instead.into() };
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Returns how a serial loop runs.
    pub(super) fn serial(&mut self, l: &mir::Loop) -> Map<D> {
        if !l.unrolled {
            return Map::Serial;
        }
        let count = l.var.extent().resolve(Extents { batch: 1, trees: self.trees, threads: self.threads });
        Map::Unrolled { count }
    }

    /// Returns the value of a size: compiled in if it is a number, otherwise one of the plan's sizes.
    pub(super) fn value(&mut self, size: &Size) -> Value {
        if let Some(n) = size.constant() {
            return Value::Const(n);
        }
        let index = self.plan.sizes.iter().position(|s| s == size).unwrap_or_else(|| {
            self.plan.sizes.push(size.clone());
            self.plan.sizes.len() - 1
        });
        Value::Size(index as u32)
    }

    pub(super) fn range(&mut self, var: &crate::schedule::IndexVar) -> super::Range {
        let limit = |b: &mut Self, bound: &crate::schedule::Bound| super::Limit {
            end: b.value(&bound.end),
            minus: bound.minus.iter().map(|d| *d as u32).collect(),
        };
        let start = self.value(&var.start);
        let stride = self.value(&var.stride);
        super::Range { start, stride, limits: var.bounds.iter().map(|b| limit(self, b)).collect() }
    }

    /// Returns the next walk, at `depth`. `own` makes the target's own data from the number of its tested
    /// steps.
    pub(super) fn walk(
        &mut self,
        walk: &mir::Walk,
        depth: usize,
        own: impl FnOnce(u32) -> D::Walk,
    ) -> Walk<D> {
        let none = Steps { plain: 0, tested: 0, rest: Remainder::UntilLeaf };
        let Steps { plain: steps, tested, rest } = self.walks.get(self.next_walk).copied().unwrap_or(none);
        self.next_walk += 1;
        let lanes = walk.lanes.as_ref().map(|var| super::Lanes {
            dim: var.dim,
            count: var.extent().constant().unwrap_or(1),
            range: self.range(var),
            register: depth as u32,
        });
        Walk { lanes, steps, rest, own: own(tested) }
    }
}
