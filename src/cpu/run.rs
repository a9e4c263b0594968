//! A run of a program: loops over rows and trees, down to the calls of micro-kernels.

use super::{
    block::{BlockLoop, Instruction},
    cached,
    emit::Emission,
    engine::{
        Block,
        blend::Blends,
        walk::{Shape, Span},
    },
    program::{MOST_SLOTS, Program, next_worker},
    ranking::column_block::ROW_BLOCKS_TOGETHER,
    rows::{Row, Rows},
    select::Windows,
    sink::Sink,
    window::{ROW_BLOCK, Window},
};
use crate::{
    parallel,
    plan::{Dim, Extents, Limit, Range, RowLoop, Size, Value, cpu::Sum},
    schedule::MOST_DEPTH,
};

const _: () = assert!(MOST_DEPTH == 32, "a state holds the offset of every loop of the deepest nest");

/// The state of a worker in its loops: their offsets, its running row and tree, and the copies that hold
/// its rows.
#[derive(Clone, Copy)]
pub(super) struct State<'w> {
    offsets: [u32; 32],
    row: u32,
    tree: u32,
    pub(super) worker: u32,
    /// A copy of rows, which blocks read instead of the rows.
    window: Option<Window<'w>>,
    /// The ranks of rows, which blocks read instead of the rows.
    ranks: Option<Window<'w, u8>>,
}

impl State<'_> {
    /// Returns whether a window holds these rows.
    fn holds(&self, rows: Span) -> bool {
        self.window.is_some_and(|window| window.holds(rows))
            || self.ranks.is_some_and(|ranks| ranks.holds(rows))
    }
}

/// One run: a program, its rows, and its output.
pub(super) struct Run<'a, T, E> {
    pub(super) program: &'a Program,
    pub(super) rows: &'a Rows<'a, T>,
    sizes: [u32; MOST_SLOTS],
    pub(super) at: Extents,
    into: E,
    /// The rows of the run.
    own_rows: std::ops::Range<usize>,
    /// Positions of the trees that the run walks.
    trees: std::ops::Range<usize>,
}

impl<'a, T: Row, E: Emission> Run<'a, T, E> {
    pub(super) fn new(program: &'a Program, rows: &'a Rows<'a, T>, at: Extents, into: E) -> Self {
        let mut sizes = [0; MOST_SLOTS];
        for (slot, size) in sizes.iter_mut().zip(&program.plan.sizes) {
            *slot = Size::resolve(size, at);
        }
        Self { program, rows, sizes, at, into, own_rows: 0..rows.len(), trees: 0..program.order.len() }
    }

    /// Limits the run to these rows. The run's extents are theirs.
    pub(super) fn of_rows(self, own_rows: std::ops::Range<usize>) -> Self {
        debug_assert!(own_rows.end <= self.rows.len() && own_rows.len() == self.at.batch as usize);
        Self { own_rows, ..self }
    }

    /// Limits the run to the trees at these positions.
    pub(super) fn of_trees(self, trees: std::ops::Range<usize>) -> Self {
        Self { trees, ..self }
    }

    /// Runs the whole program.
    pub(super) fn all(&self) {
        let row = self.own_rows.start as u32;
        let begin = State { offsets: [0; 32], row, tree: 0, worker: 0, window: None, ranks: None };
        self.run_each(&self.program.instructions, begin);
    }

    pub(super) fn value(&self, value: Value) -> u32 {
        match value {
            Value::Const(n) => n,
            Value::Size(s) => self.sizes[s as usize],
        }
    }

    /// Returns the first offset, the stride and the count of a range. No offset reaches past the last row or
    /// tree, so a tile larger than the batch or the forest has no further iterations.
    fn span(&self, range: &Range, dim: Dim, state: &State<'_>) -> (u32, u32, u32) {
        let most = if dim == Dim::Batch { self.at.batch } else { self.at.trees };
        let limit = |l: &Limit| {
            l.minus.iter().fold(self.value(l.end), |end, r| end.saturating_sub(state.offsets[*r as usize]))
        };
        let end = range.limits.iter().map(limit).min().unwrap_or(0).min(most);
        let start = self.value(range.start);
        let stride = self.value(range.stride).max(1);
        (start, stride, end.saturating_sub(start).div_ceil(stride))
    }

    fn run_each(&self, instructions: &[Instruction], state: State<'_>) {
        for (i, instruction) in instructions.iter().enumerate() {
            if let Instruction::CacheRows { rows, copied } = instruction {
                let first = (state.row as usize).min(self.own_rows.end);
                let count = (*rows as usize).min(self.own_rows.end - first);
                if state.holds(Span { start: first, stride: 1, count }) {
                    continue;
                }
                let rest = &instructions[i + 1..];
                if self.program.ranks_in_windows() {
                    return self.in_a_window(first, count, &state, &mut |state| self.run_each(rest, state));
                }
                let used = &self.program.used;
                if !copied {
                    cached::prefetched(self.rows, first, count, used);
                    continue;
                }
                // A few rows are not copied.
                let few = count < self.program.few_rows();
                if few {
                    cached::prefetched(self.rows, first, count, used);
                }
                if few || self.reads_doubles() || !used.fits(count) {
                    continue;
                }
                return self.in_a_window(first, count, &state, &mut |state| self.run_each(rest, state));
            }
            self.run_one(instruction, state);
        }
    }

    /// Returns whether trees read `f64` rows, of which a copy, which holds `f32`, would lose digits.
    fn reads_doubles(&self) -> bool {
        T::doubles(self.rows).is_some() && self.program.wide.is_some()
    }

    /// Calls `f` with a state whose window holds these rows, or their ranks if the program ranks rows in windows.
    fn in_a_window(&self, first: usize, count: usize, state: &State<'_>, f: &mut dyn FnMut(State<'_>)) {
        match self.program.ranks_in_windows() {
            true => self.ranked(first, count, &mut |ranks| f(State { ranks: Some(ranks), ..*state })),
            false => cached::copied(self.rows, first, count, &self.program.used, &mut |window| {
                f(State { window: Some(window), ..*state });
            }),
        }
    }

    /// Returns how many iterations of a loop over rows share a window. A window of column-major rows is filled
    /// faster for more rows than one tile has.
    fn iterations_together(&self, body: &[Instruction], stride: u32, iterations: u32) -> u32 {
        let Some(Instruction::CacheRows { rows, copied }) = body.first() else { return 1 };
        let most = (ROW_BLOCKS_TOGETHER * ROW_BLOCK) as u32 / stride.max(1);
        // Each thread has some groups of iterations.
        let together = most.min(iterations / (2 * self.program.threads.max(1))).max(1);
        let rows_together = together * stride;
        let fits = match &self.program.ranker {
            Some(ranker) => {
                self.program.ranks_in_windows() && cached::ranks_fit(rows_together, ranker.shape().1)
            }
            None => *copied && !self.reads_doubles() && self.program.used.fits(rows_together as usize),
        };
        let is_tile = *rows == stride && stride.is_multiple_of(ROW_BLOCK as u32);
        if fits && is_tile && self.rows.has_adjacent_columns() { together } else { 1 }
    }

    fn run_one(&self, instruction: &Instruction, mut state: State<'_>) {
        match instruction {
            Instruction::Loop { dim, register, range, parallel, body } => {
                let (start, stride, count) = self.span(range, *dim, &state);
                let iteration = |state: &State<'_>, k: u32| {
                    let offset = start + k * stride;
                    let mut inner = *state;
                    if *parallel {
                        inner.worker = next_worker(state.worker, k);
                    }
                    inner.offsets[*register as usize] = offset;
                    match dim {
                        Dim::Batch => inner.row += offset,
                        Dim::Tree => inner.tree += offset,
                    }
                    self.run_each(body, inner);
                };
                let together = match dim {
                    Dim::Batch => self.iterations_together(body, stride, count),
                    Dim::Tree => 1,
                };
                let groups = count.div_ceil(together);
                let group = |i: u32| {
                    if together == 1 {
                        return iteration(&state, i);
                    }
                    let own = i * together..count.min((i + 1) * together);
                    // A tile alone may have a few rows, which are not copied.
                    if own.len() == 1 {
                        return iteration(&state, own.start);
                    }
                    let first = ((state.row + start + own.start * stride) as usize).min(self.own_rows.end);
                    let rows = (own.len() * stride as usize).min(self.own_rows.end - first);
                    self.in_a_window(first, rows, &state, &mut |state| {
                        own.clone().for_each(|k| iteration(&state, k));
                    });
                };
                match *parallel && groups > 1 && self.program.threads > 1 {
                    true => parallel::each(groups, &group),
                    false => (0..groups).for_each(group),
                }
            }
            Instruction::Block { rows, trees, shape, into } => {
                let span = |l: &Option<BlockLoop>, dim: Dim, base: u32| {
                    let (start, stride, count) =
                        l.as_ref().map_or((0, 1, 1), |l| self.span(&l.range, dim, &state));
                    Span { start: (base + start) as usize, stride: stride as usize, count: count as usize }
                };
                let (rows, trees) = (span(rows, Dim::Batch, state.row), span(trees, Dim::Tree, state.tree));
                self.block(rows, trees, *shape, *into, &state);
            }
            Instruction::Cases { register, cases } => {
                let offset = state.offsets[*register as usize];
                let taken = cases.iter().find(|(end, _)| offset < *end).or(cases.last());
                if let Some((_, body)) = taken {
                    self.run_each(body, state);
                }
            }
            // `run_each` handles a cache, because it applies to all instructions after it.
            Instruction::CacheRows { .. } => {}
            Instruction::Reduce { buffer, dimension, rows, into } => {
                let here = state;
                for chain in rows {
                    // Neighbouring rows have neighbouring sums, so one call reduces them together.
                    let mut run = 0..0;
                    self.each_row(chain, &mut state, &mut |row, _| {
                        if row != run.end {
                            self.into.reduce(self, *buffer, *dimension as usize, run.clone(), *into, &here);
                            run = row..row;
                        }
                        run.end += 1;
                    });
                    self.into.reduce(self, *buffer, *dimension as usize, run, *into, &here);
                }
            }
        }
    }

    fn block(&self, row: Span, tree: Span, shape: Shape, into: Sum, state: &State<'_>) {
        // The unchecked loads of the micro-kernels rely on this check.
        if row.count == 0
            || tree.count == 0
            || row.end() > self.own_rows.end
            || tree.end() > self.program.order.len()
        {
            debug_assert!(row.count == 0 || tree.count == 0, "a block past the rows or trees");
            return;
        }
        let tree = tree.within(&self.trees);
        if tree.count > 0 {
            self.into.block(self, Block { row, tree, shape }, into, state);
        }
    }

    /// Evaluates a block, from the window that holds its rows if there is one. If the program ranks rows in
    /// windows and no window holds the block's rows, it ranks them first.
    pub(super) fn dispatch<S: Sink>(&self, block: Block, sink: S, state: &State<'_>) {
        if !self.program.ranks_in_windows() {
            let window = state.window.filter(|window| window.holds(block.row));
            return self.evaluate(Windows::Values(window), block, sink);
        }
        match state.ranks.filter(|ranks| ranks.holds(block.row)) {
            Some(ranks) => self.evaluate(Windows::Ranks(ranks), block, sink),
            None => self.ranked(block.row.start, block.row.end() - block.row.start, &mut |ranks| {
                self.evaluate(Windows::Ranks(ranks), block, sink);
            }),
        }
    }

    fn evaluate<S: Sink>(&self, windows: Windows<'_>, block: Block, sink: S) {
        let trees = self.program.nodes_of_trees();
        let choice = self.program.engines.choose(&trees, self.rows, windows, block);
        let sink = sink.by(choice.engine);
        // SAFETY: `Run::block` has checked the spans against rows and trees. `Program::check` or the ranker
        // gives the rows the forest's columns. The program's engines were built for its trees.
        unsafe { choice.run(&trees, sink) }
    }

    /// Lends `f` the ranks of these rows.
    fn ranked(&self, first: usize, count: usize, f: &mut dyn FnMut(Window<'_, u8>)) {
        if let Some(ranker) = &self.program.ranker {
            let flipped = self.program.engines.blends().is_some_and(Blends::flipped);
            cached::ranked(ranker, self.rows, first, count, flipped, f);
        }
    }

    /// Returns where row 0 of a private copy starts in the buffer of partial sums. The copy is that of the
    /// current iterations, or the one in which dimension `fixed.0` has index `fixed.1` and the dimensions
    /// after it have index 0.
    pub(super) fn partial(&self, buffer: u32, state: &State<'_>, fixed: Option<(usize, u32)>) -> usize {
        let p = self.program;
        let row_width = self.rows.len() * p.base.len();
        let before: usize =
            p.plan.own.partials[..buffer as usize].iter().map(|b| p.copies(b, self.at) * row_width).sum();
        let mut copy = 0usize;
        for (i, dim) in p.plan.own.partials[buffer as usize].iter().enumerate() {
            let index = match fixed {
                Some((d, k)) if i == d => k,
                Some((d, _)) if i > d => 0,
                _ => {
                    let offset = state.offsets[dim.register as usize];
                    offset.saturating_sub(self.value(dim.start)) / self.value(dim.stride).max(1)
                }
            };
            copy = copy * self.value(dim.count).clamp(1, self.at.trees.max(1)) as usize + index as usize;
        }
        before + copy * row_width
    }

    fn each_row(&self, chain: &[RowLoop], state: &mut State<'_>, f: &mut dyn FnMut(usize, &State<'_>)) {
        let Some((outer, inner)) = chain.split_first() else {
            f(state.row as usize, state);
            return;
        };
        let (start, stride, count) = self.span(&outer.range, Dim::Batch, state);
        let row = state.row;
        for k in 0..count {
            let offset = start + k * stride;
            state.offsets[outer.register as usize] = offset;
            state.row = row + offset;
            self.each_row(inner, state, f);
        }
        state.row = row;
        state.offsets[outer.register as usize] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu::{emit::LeafSlots, engine::vectors::top_levels, sink::SharedBuffer},
        forest::{CompareType, Forest, Side},
        plan::{Request, lower},
        schedule::Schedule,
    };

    /// How many tiles share a window: four row blocks of column-major rows, fewer if threads would have none.
    #[test]
    fn tiles_of_column_major_rows_share_a_window() {
        let mut forest = Forest::builder(2, 1);
        let mut stump = forest.tree(0);
        stump.split(1, CompareType::F32.less(0.5), Side::Left, 1, 2);
        stump.leaf(1, &[1.0]);
        stump.leaf(2, &[2.0]);
        let forest = forest.build().expect("a stump");
        let together = |schedule: &str, threads: u32, count: usize, strides: [usize; 2]| {
            let schedule = Schedule::parse(schedule).expect("a schedule");
            let lowered = lower(&forest, &schedule, Request { threads, ..Request::cpu() }).expect("lowered");
            let program = Program::new(&forest, &lowered, threads).expect("a program");
            let data = vec![0f32; 2 * count];
            let rows = Rows::strided(&data, [count, 2], strides).expect("rows");
            let mut out = vec![0; count];
            let at = Extents { batch: count as u32, trees: 1, threads };
            let run = Run::new(&program, &rows, at, LeafSlots(SharedBuffer::new(&mut out)));
            let Some(Instruction::Loop { body, range, .. }) = program.instructions.first() else {
                panic!("a loop over rows:\n{program}");
            };
            let stride = run.value(range.stride);
            run.iterations_together(body, stride, (count as u32).div_ceil(stride))
        };
        let tile = |rows: u32| format!("tile(batch, b0, b1, {rows})\nreorder(b0, tree, b1)\ncache(b0)");
        let (by_column, by_row) = ([1, 1000], [2, 1]);
        if top_levels() > 0 {
            assert_eq!(together(&tile(64), 1, 1000, by_column), 4);
            assert_eq!(together(&tile(128), 1, 1000, by_column), 2);
            assert_eq!(together(&tile(256), 1, 1000, by_column), 1);
            assert_eq!(together(&tile(64), 3, 1000, by_column), 2);
            assert_eq!(together(&tile(64), 1, 300, [1, 300]), 2);
            assert_eq!(together(&tile(64), 1, 100, [1, 100]), 1);
            let blends = format!("ranks(u8)\n{}\nevaluate(b1, blend)", tile(64));
            assert_eq!(together(&blends, 1, 1000, by_column), 4);
        }
        assert_eq!(together(&tile(100), 1, 1000, by_column), 1);
        assert_eq!(together(&tile(64), 1, 1000, by_row), 1);
    }
}
