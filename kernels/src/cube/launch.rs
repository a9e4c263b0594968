//! A plan on a device: what is bound, how many cubes, and the launches round the kernel.

use cubecl::{client::Client, prelude::*, server::Handle};

use super::{
    expand::forest,
    finish::LastStage,
    fused::FusedInputs,
    gradient::{BLOCK, PLACE_WORDS, add_blocks, add_rows},
    last::{finish_rows, written},
    memory::{BuffersLaunch, CallLaunch},
    ordered::{Order, add_in_order},
    rank::rank_rows,
    reduce::{fill_out, fill_partial, reduce_copies},
    tail::TailInputs,
};
use crate::plan::{
    Adders, Combine, Emit, Extents, Facts, GpuDim, Number, Partial, Place, PlanRef, RowType, Tail, Transform,
};

/// A forest on a device: nodes, trees, slots, category sets and base scores in one buffer of words.
#[derive(Clone, Debug)]
pub struct Model {
    /// The buffer.
    pub words: Handle,
    /// Its length.
    pub len: usize,
    /// Where the trees begin: root, constant, output and producer's index of each, by position.
    pub trees_at: u32,
    /// Where the slots begin, by address.
    pub slots_at: u32,
    /// Where the category sets begin.
    pub questions_at: u32,
    /// Where the columns that the model uses begin.
    pub columns_at: u32,
    /// Where the tables begin by which rows become ranks as they are cached.
    pub ranks_at: u32,
    /// Where the base scores begin, as words of sums; after them the sum of no leaves, and of sums that are whole numbers
    /// the bits of a low word and each output's exponent.
    pub base_at: u32,
    /// Number of trees.
    pub trees: u32,
    /// What margins are multiplied with before a transform.
    pub scale: f32,
}

/// Rows on a device, read as words whatever their type.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The buffer.
    pub words: Handle,
    /// Its length in words.
    pub len: usize,
    /// Number of rows.
    pub batch: u32,
    /// From row to row, in values.
    pub row_stride: u32,
    /// From column to column, in values.
    pub column_stride: u32,
    /// The first value, in values.
    pub offset: u32,
}

/// Cubes a dimension may have on any device.
const MOST_CUBES: u32 = 65_535;
/// Partial sums, in values, that trees spread over the grid may take; the grid wraps beyond.
const MOST_PARTIALS: u64 = 1 << 26;
/// Units of a cube in the launches round the kernel, where a device's cubes have so many.
const UNITS: u32 = 256;

/// Rows of a piece are a multiple of this, so that a piece begins where a binding may begin.
const PIECE: u32 = 128;

/// The most rows of one launch: indices stay below 2^32, no binding grows past `most_bytes`, private copies that only
/// the cube's units have stay below their limit.
pub fn most_rows(plan: &PlanRef, rows: &Rows, trees: u32, most_bytes: u64) -> u32 {
    let words = most_bytes.min(1 << 33) / 4;
    let width = plan.emit.width(plan.outputs, trees).max(plan.sum_words());
    let of_unit = |p: &Partial| {
        let block = p.dims.iter().filter(|d| matches!(d.gpu, Some(GpuDim::Block(_))));
        block.map(|d| u64::from(copies_of(plan, d.gpu, [1; 3]))).product::<u64>()
            * u64::from(plan.sum_words())
    };
    let partials = plan.partials.iter().map(of_unit).sum::<u64>();
    let limits = [
        words / u64::from(width.max(1)),
        words / u64::from(rows.row_stride.max(1)),
        MOST_PARTIALS / partials.max(1),
    ];
    let least = limits.into_iter().min().unwrap_or(1).min(1 << 31) as u32;
    (least / PIECE * PIECE).max(PIECE)
}

/// Runs a plan that verifies: writes margins (bits of `f32`), slots or a trace of all rows into `out`, in pieces of at
/// most `most` rows.
///
/// `leaves` are the leaf values by slot, `tail` is what the plan's tail reads. Nothing is read back; a batch of 0 launches
/// nothing.
#[allow(clippy::too_many_arguments)]
pub fn launch(
    client: &Client,
    plan: &PlanRef,
    model: &Model,
    rows: &Rows,
    leaves: (Handle, usize),
    tail: &TailInputs,
    out: (Handle, usize),
    most: u32,
) {
    let width = plan.emit.width(plan.outputs, model.trees);
    let mut first = 0;
    for (rows, out) in pieces(plan.input(), rows, out, plan.tail.number, most) {
        launch_piece(client, plan, model, &rows, leaves.clone(), (&tail.from(first, width), None), out);
        first += rows.batch;
    }
}

/// Runs a plan whose tail is fused operations, over rows few enough for one launch.
pub fn launch_fused(
    client: &Client,
    plan: &PlanRef,
    model: &Model,
    rows: &Rows,
    leaves: (Handle, usize),
    fused: FusedInputs,
) {
    // The operations write what is written.
    let none = (client.empty(4), 1);
    launch_piece(client, plan, model, rows, leaves, (&TailInputs::default(), Some(fused)), none);
}

/// Rows of a type, and room for what becomes of them, numbers of a type, in pieces of at most `most` rows, which is rounded
/// to whole bindings.
pub fn pieces(
    of: RowType,
    rows: &Rows,
    out: (Handle, usize),
    number: Number,
    most: u32,
) -> impl Iterator<Item = (Rows, (Handle, usize))> {
    let whole = rows.batch <= most;
    let most = if whole { rows.batch.max(1) } else { (most / PIECE * PIECE).max(PIECE) };
    let width = out.1 / rows.batch.max(1) as usize;
    let rows = rows.clone();
    (0..rows.batch).step_by(most as usize).map(move |first| {
        if whole {
            return (rows.clone(), out.clone());
        }
        let batch = most.min(rows.batch - first);
        let skipped = first as usize * rows.row_stride as usize / of.per_word() as usize;
        let piece = Rows {
            words: rows.words.clone().offset_start(skipped as u64 * 4),
            len: rows.len - skipped,
            batch,
            ..rows.clone()
        };
        let at = first as usize * width;
        (piece, (out.0.clone().offset_start(at as u64 * number.bytes()), batch as usize * width))
    })
}

/// What makes rows ranks on a device: a record of [`COLUMN_WORDS`](super::COLUMN_WORDS) a column, then keys and questions.
#[derive(Clone, Debug)]
pub struct RankTables {
    /// The buffer.
    pub words: Handle,
    /// Its length.
    pub len: usize,
    /// Rank columns.
    pub columns: u32,
    /// The type of the rows that are ranked.
    pub from: RowType,
    /// The type of the ranks.
    pub to: RowType,
}

impl RankTables {
    /// Words of a ranked row.
    pub fn row_words(&self) -> u32 {
        self.columns.div_ceil(self.to.per_word())
    }
}

/// Ranks rows, one launch: a batch of at least one row, few enough that the ranks fit a binding.
pub fn rank(client: &Client, tables: &RankTables, rows: &Rows) -> Rows {
    let len = rows.batch as usize * tables.row_words() as usize;
    let ranked = client.empty(len.max(1) * 4);
    let (count, dim) = flat(client, len as u32);
    // SAFETY: features are columns of the rows, keys and questions lie in the tables, and there is a word for each unit
    // that has a row.
    unsafe {
        rank_rows::launch_unchecked(
            client,
            count,
            dim,
            buffer(&rows.words, rows.len),
            buffer(&tables.words, tables.len),
            buffer(&ranked, len),
            rows.batch,
            tables.columns,
            rows.row_stride,
            rows.column_stride,
            rows.offset,
            tables.from,
            tables.to,
        );
    }
    Rows {
        words: ranked,
        len,
        batch: rows.batch,
        row_stride: tables.row_words() * tables.to.per_word(),
        column_stride: 1,
        offset: 0,
    }
}

/// What sums in the order of the trees are made of: doubles as two words, the lower first.
#[derive(Clone, Debug)]
pub struct Leaves {
    /// Leaf values by slot.
    pub values: (Handle, usize),
    /// Base scores.
    pub base: (Handle, usize),
    /// Each tree's output; of no meaning where leaves are vectors.
    pub targets: (Handle, usize),
    /// How they are added.
    pub order: Order,
    /// Number of trees.
    pub trees: u32,
    /// What margins are multiplied with before a transform.
    pub scale: f32,
}

/// Writes margins, or values, of `rows` rows whose `slots` were found, trees in the producer's order, and what follows them.
pub fn margins_in_order(
    client: &Client,
    leaves: &Leaves,
    slots: (Handle, usize),
    rows: u32,
    transform: Option<Transform>,
    (tail, inputs): (&Tail, &TailInputs),
    out: (Handle, usize),
) {
    let len = rows as usize * leaves.order.outputs as usize;
    let ends = transform.is_some() || !tail.is_empty();
    let margins = if ends { (client.empty(len.max(1) * 4), len) } else { out.clone() };
    let (count, dim) = flat(client, len as u32);
    // SAFETY: there are slots of all rows and trees, and every slot has its leaf.
    unsafe {
        add_in_order::launch_unchecked(
            client,
            count,
            dim,
            buffer(&slots.0, slots.1),
            buffer(&leaves.values.0, leaves.values.1),
            buffer(&leaves.base.0, leaves.base.1),
            buffer(&leaves.targets.0, leaves.targets.1),
            buffer(&margins.0, margins.1),
            rows,
            leaves.trees,
            leaves.order,
        );
    }
    if !ends {
        return;
    }
    let scale = if transform.is_some() { leaves.scale } else { 1.0 };
    let what = LastStage {
        combine: Combine::Sum,
        add_base: false,
        outputs: leaves.order.outputs,
        transform: transform.unwrap_or_default(),
        tail: tail.clone(),
    };
    let none = (client.empty(4), 1);
    finish_rows(client, what, (&leaves.base, 0), &margins, (&none, 0, 0), inputs, out, rows, scale);
}

fn launch_piece(
    client: &Client,
    plan: &PlanRef,
    model: &Model,
    rows: &Rows,
    leaves: (Handle, usize),
    (tail, fused): (&TailInputs, Option<FusedInputs>),
    out: (Handle, usize),
) {
    if rows.batch == 0 {
        return;
    }
    let Facts { sums_once, is_atomic, place } = plan.facts();
    let sums = plan.emit.sums();
    let fixed = sums && plan.combine == Combine::Fixed;
    let from_base = matches!(plan.combine, Combine::Sum | Combine::Fixed);
    // Sums that began as those of no leaves, whole numbers, and values that need more than their own sum, take a last
    // launch.
    let add_base = sums && !sums_once && !from_base;
    let scale = if plan.emit == Emit::Margins { 1.0 } else { model.scale };
    let last = (add_base || fixed || place == Place::Launch).then(|| {
        let (transform, tail) = (plan.emit.transform(), plan.tail.clone());
        let what = LastStage { combine: plan.combine, add_base, outputs: plan.outputs, transform, tail };
        (what, out.clone())
    });
    let out = match last {
        Some(_) => {
            let words = rows.batch as usize * plan.sum_words() as usize;
            (client.empty(words * 4), words)
        }
        None => out,
    };
    let at = Extents { batch: rows.batch, trees: model.trees, threads: 1 };
    let row_sums = rows.batch * plan.sum_words();
    let count = cubes(plan, at);
    let copies = |p: &Partial| p.dims.iter().map(|d| copies_of(plan, d.gpu, count)).product::<u32>();
    let mut partials_at = vec![0u32];
    for partial in &plan.partials {
        partials_at.push(partials_at[partials_at.len() - 1] + copies(partial) * row_sums);
    }
    let partial_len = partials_at.pop().unwrap_or(0);
    let partial = client.empty(partial_len.max(1) as usize * 4);
    let base_at = model.base_at;
    let nothing_at = base_at + plan.sum_words();
    if partial_len > 0 {
        let (count, dim) = flat(client, partial_len);
        // SAFETY: the buffer was made for this many values, the model's words hold the sum of no leaves.
        unsafe {
            let (words, partial) = (buffer(&model.words, model.len), buffer(&partial, partial_len as usize));
            fill_partial::launch_unchecked(client, count, dim, words, partial, nothing_at, partial_len);
        }
    }
    if sums && !sums_once {
        let (count, dim) = flat(client, row_sums);
        // SAFETY: the model's base scores and the output's rows are in range.
        unsafe {
            let (words, out) = (buffer(&model.words, model.len), buffer(&out.0, out.1));
            fill_out::launch_unchecked(
                client,
                count,
                dim,
                words,
                out,
                model.base_at,
                plan.sum_words(),
                row_sums,
                from_base,
            );
        }
    }
    let [x, y, z] = plan.cube_dim;
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
        plan.sizes.iter().map(|s| s.resolve(at)).collect(),
        partials_at.iter().copied().collect(),
    );
    // Sums that are added to atomically are bound as atomics, and nowhere else.
    let atomic = sums && is_atomic;
    let none = || client.empty(4);
    // SAFETY: loops are bounded by the rows and trees, walks by the layout (checked when it was packed), and the
    // buffers were made for them.
    unsafe {
        let (values, beside) = match &last {
            // The tail is the last launch's.
            Some(_) => written(client, &Tail::default(), (&TailInputs::default(), None), out.clone()),
            None => written(client, &plan.tail, (tail, fused), out.clone()),
        };
        let values = if atomic { buffer(&none(), 1) } else { values };
        let added_to = |whole: bool| (atomic && fixed == whole).then(|| buffer(&out.0, out.1));
        let buffers = BuffersLaunch::new(
            buffer(&rows.words, rows.len),
            buffer(&model.words, model.len),
            buffer(&leaves.0, leaves.1),
            values,
            buffer(&partial, partial_len.max(1) as usize),
            added_to(false).into_iter().collect(),
            added_to(true).into_iter().collect(),
            beside,
        );
        forest::launch_unchecked(
            client,
            CubeCount::Static(count[0], count[1], count[2]),
            CubeDim::new_3d(x, y, z),
            buffers,
            call,
            plan.clone(),
        );
    }
    // A last launch adds up the copies of the last buffer itself.
    let mut left = (0, 0);
    for (i, (p, at)) in plan.partials.iter().zip(partials_at).enumerate() {
        let by = adders(copies(p), row_sums);
        if last.is_some() && i + 1 == plan.partials.len() && by == Adders::Unit {
            left = (at, copies(p));
            continue;
        }
        let together = units(client);
        let (count, dim) = match by {
            Adders::Cube => (CubeCount::Static(row_sums, 1, 1), CubeDim::new_1d(together)),
            Adders::Unit | Adders::Plane => flat(client, row_sums),
        };
        // SAFETY: the partial buffer was made for these copies.
        unsafe {
            let (words, partial, out) = (
                buffer(&model.words, model.len),
                buffer(&partial, partial_len as usize),
                buffer(&out.0, out.1),
            );
            reduce_copies::launch_unchecked(
                client,
                count,
                dim,
                words,
                partial,
                out,
                nothing_at,
                at,
                copies(p),
                row_sums,
                plan.combine,
                by,
                together,
            );
        }
    }
    if let Some((what, values)) = last {
        let (model, partial) = ((model.words.clone(), model.len), (partial, partial_len.max(1) as usize));
        let from = (&model, base_at);
        finish_rows(client, what, from, &out, (&partial, left.0, left.1), tail, values, rows.batch, scale);
    }
}

/// Who adds up `copies` global copies of `sums` sums: a unit each where there are sums enough, a cube each where
/// there are few sums of many copies.
pub fn adders(copies: u32, sums: u32) -> Adders {
    if copies >= 32 && sums < copies { Adders::Cube } else { Adders::Unit }
}

/// Where the gradient of each leaf value comes from: three words a value, its slot, its tree and the output it is added to.
#[derive(Clone, Debug)]
pub struct LeafPlaces {
    /// The buffer.
    pub words: Handle,
    /// Leaf values.
    pub values: u32,
    /// Trees of the forest.
    pub trees: u32,
    /// Margins a row.
    pub outputs: u32,
}

/// Writes the gradient of all leaf values into `sums`, or adds it where these are not the first rows, from the `slots` that
/// `rows` rows reached and the gradient of their margins, `rows x outputs`. Rows are added up in blocks of
/// [`ROWS_OF_GRADIENTS`](super::ROWS_OF_GRADIENTS), and the blocks in their order.
pub fn leaf_gradients(
    client: &Client,
    places: &LeafPlaces,
    slots: (Handle, usize),
    grad: (Handle, usize),
    rows: u32,
    sums: Handle,
    first_rows: bool,
) {
    let LeafPlaces { words, values, trees, outputs } = places;
    if *values == 0 {
        return;
    }
    // Partial sums stay small whatever the batch; how many launches there are changes no order.
    let most = (MOST_PARTIALS / 4 / u64::from(*values)).clamp(1, 1 << 16) as u32;
    let blocks = rows.div_ceil(BLOCK);
    let mut first = 0;
    loop {
        let count = most.min(blocks - first);
        let len = values * count;
        let partial = client.empty(len.max(1) as usize * 4);
        // SAFETY: a unit has a place and a block of rows that are there, or none; there are slots and gradients of all
        // rows, and a partial sum for each unit.
        unsafe {
            let (cubes, dim) = flat(client, len);
            add_rows::launch_unchecked(
                client,
                cubes,
                dim,
                buffer(&slots.0, slots.1),
                buffer(&grad.0, grad.1),
                buffer(words, *values as usize * PLACE_WORDS as usize),
                buffer(&partial, len.max(1) as usize),
                *values,
                first * BLOCK,
                rows,
                count,
                *trees,
                *outputs,
            );
            let (cubes, dim) = flat(client, *values);
            let (partial, sums) = (buffer(&partial, len.max(1) as usize), buffer(&sums, *values as usize));
            add_blocks::launch_unchecked(
                client,
                cubes,
                dim,
                partial,
                sums,
                *values,
                count,
                first_rows && first == 0,
            );
        }
        first += count;
        if first >= blocks {
            return;
        }
    }
}

/// # Safety
/// The handle holds `len` values.
pub(super) unsafe fn buffer(handle: &Handle, len: usize) -> BufferArg {
    // SAFETY: as promised to this function.
    unsafe { BufferArg::from_raw_parts(handle.clone(), len) }
}

/// Cubes of each grid axis. Grid loops take strides of them, so any number is right; where each cube has a copy of
/// the sums, the axes are cut until the copies fit.
pub fn cubes(plan: &PlanRef, at: Extents) -> [u32; 3] {
    let mut count = plan.grid.map(|g| g.map_or(1, |v| plan.resolve(v, at)).clamp(1, MOST_CUBES));
    let sums = u64::from(at.batch) * u64::from(plan.sum_words());
    for partial in &plan.partials {
        let total = |count: [u32; 3]| {
            sums * partial.dims.iter().map(|d| u64::from(copies_of(plan, d.gpu, count))).product::<u64>()
        };
        while total(count) > MOST_PARTIALS {
            let on_grid = partial
                .dims
                .iter()
                .filter_map(|d| if let Some(GpuDim::Grid(a)) = d.gpu { Some(a as usize) } else { None });
            match on_grid.max_by_key(|a| count[*a]).filter(|a| count[*a] > 1) {
                Some(axis) => count[axis] = count[axis].div_ceil(2),
                None => break,
            }
        }
    }
    count
}

fn copies_of(plan: &PlanRef, dim: Option<GpuDim>, count: [u32; 3]) -> u32 {
    match dim {
        Some(GpuDim::Grid(axis)) => count[axis as usize],
        Some(GpuDim::Block(axis)) => plan.cube_dim[axis as usize],
        None => 1,
    }
}

/// Units of a cube in a launch round the kernel: a power of two that is no more than the device's cubes have.
fn units(client: &Client) -> u32 {
    let most = client.properties().hardware.max_units_per_cube.clamp(1, UNITS);
    1 << most.ilog2()
}

/// A launch of one unit for each of `len` values.
pub(super) fn flat(client: &Client, len: u32) -> (CubeCount, CubeDim) {
    let units = units(client);
    let cubes = len.div_ceil(units).max(1);
    let x = cubes.min(MOST_CUBES);
    (CubeCount::Static(x, cubes.div_ceil(x), 1), CubeDim::new_1d(units))
}
