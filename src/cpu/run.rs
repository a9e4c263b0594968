//! A program's run: loops over rows and trees down to the micro-kernels' calls.

use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use super::arch::x86;
use super::{
    block::{BlockLoop, Step},
    cached,
    emit::Emission,
    encoded::{Encoded, of_encoding},
    engine::blend::{self, Exits},
    engine::walk::{self, From, Shape, Span, Walkable},
    engines::Engine,
    line::Line,
    program::{MOST_SLOTS, Program, next_worker},
    rows::{Read, Row, Rows},
    select::FewRowsEngine,
    sink::{Moved, Sink},
    window::Window,
};
#[cfg(target_arch = "x86_64")]
use crate::cost::Machine;
use crate::{
    plan::{Dim, Extents, Limit, Range, RowLoop, Size, Value, cpu::Sum},
    schedule::MOST_DEPTH,
};

const _: () = assert!(MOST_DEPTH == 32, "a state holds the offset of every loop of the deepest nest");

/// How far a worker has come.
#[derive(Clone, Copy)]
pub(super) struct State<'w> {
    offsets: [u32; 32],
    row: u32,
    tree: u32,
    pub(super) worker: u32,
    /// Rows that are read from a copy.
    window: Option<Window<'w>>,
    /// Rows whose ranks are read.
    ranks: Option<Window<'w, u8>>,
}

/// Whether vector kernels reach every value of these rows.
#[cfg(target_arch = "x86_64")]
fn fits(rows: &Rows<'_>) -> bool {
    x86::fits(rows)
}

#[cfg(not(target_arch = "x86_64"))]
fn fits(_: &Rows<'_>) -> bool {
    false
}

/// A program, rows, and what is written of them.
pub(super) struct Run<'a, T, E> {
    pub(super) program: &'a Program,
    pub(super) rows: &'a Rows<'a, T>,
    sizes: [u32; MOST_SLOTS],
    pub(super) at: Extents,
    into: E,
    /// Positions of the trees that are walked.
    trees: std::ops::Range<usize>,
}

/// Rows against trees, and how their walks go.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) row: Span,
    pub(super) tree: Span,
    pub(super) shape: Shape,
}

impl<'a, T: Row, E: Emission> Run<'a, T, E> {
    pub(super) fn new(program: &'a Program, rows: &'a Rows<'a, T>, at: Extents, into: E) -> Self {
        let mut sizes = [0; MOST_SLOTS];
        for (place, size) in sizes.iter_mut().zip(&program.plan.sizes) {
            *place = Size::resolve(size, at);
        }
        Self { program, rows, sizes, at, into, trees: 0..program.order.len() }
    }

    /// The same of the trees at these positions.
    pub(super) fn of_trees(self, trees: std::ops::Range<usize>) -> Self {
        Self { trees, ..self }
    }

    /// The whole program.
    pub(super) fn all(&self) {
        let begin = State { offsets: [0; 32], row: 0, tree: 0, worker: 0, window: None, ranks: None };
        self.steps(&self.program.steps, begin);
    }

    pub(super) fn value(&self, value: Value) -> u32 {
        match value {
            Value::Const(n) => n,
            Value::Slot(s) => self.sizes[s as usize],
        }
    }

    /// First offset, step and count of a range. No offset reaches past the rows or trees there are, so a tile larger
    /// than that has no further iterations.
    fn span(&self, range: &Range, dim: Dim, state: &State<'_>) -> (u32, u32, u32) {
        let most = if dim == Dim::Batch { self.at.batch } else { self.at.trees };
        let limit = |l: &Limit| {
            l.minus.iter().fold(self.value(l.end), |end, r| end.saturating_sub(state.offsets[*r as usize]))
        };
        let end = range.limits.iter().map(limit).min().unwrap_or(0).min(most);
        let start = self.value(range.start);
        let step = self.value(range.step).max(1);
        (start, step, end.saturating_sub(start).div_ceil(step))
    }

    fn steps(&self, steps: &[Step], state: State<'_>) {
        for (i, step) in steps.iter().enumerate() {
            if let Step::CacheRows { rows, copied } = step {
                let first = (state.row as usize).min(self.rows.len());
                let count = (*rows as usize).min(self.rows.len() - first);
                if self.program.ranks_in_windows() {
                    let rest = &steps[i + 1..];
                    self.ranked(first, count, |ranks| {
                        self.steps(rest, State { ranks: Some(ranks), ..state })
                    });
                    return;
                }
                let used = &self.program.used;
                if !copied {
                    cached::prefetched(self.rows, first, count, used);
                    continue;
                }
                // A few rows are close as they are; a copy holds `f32`, which not every forest compares `f64` rows as.
                let wide = T::doubles(self.rows).is_some() && self.program.wide.is_some();
                if count < self.program.few_rows() || wide || !used.fits(count) {
                    continue;
                }
                let rest = &steps[i + 1..];
                cached::copied(self.rows, first, count, used, |window| {
                    self.steps(rest, State { window: Some(window), ..state });
                });
                return;
            }
            self.step(step, state);
        }
    }

    fn step(&self, step: &Step, mut state: State<'_>) {
        match step {
            Step::Loop { dim, register, range, parallel, body } => {
                let (start, step, count) = self.span(range, *dim, &state);
                let iteration = |k: u32, worker: u32| {
                    let offset = start + k * step;
                    let mut inner = state;
                    inner.worker = worker;
                    inner.offsets[*register as usize] = offset;
                    match dim {
                        Dim::Batch => inner.row += offset,
                        Dim::Tree => inner.tree += offset,
                    }
                    self.steps(body, inner);
                };
                match *parallel {
                    false => (0..count).for_each(|k| iteration(k, state.worker)),
                    true if count == 1 || self.program.threads == 1 => {
                        (0..count).for_each(|k| iteration(k, next_worker(state.worker, k)));
                    }
                    true => {
                        (0..count).into_par_iter().for_each(|k| iteration(k, next_worker(state.worker, k)))
                    }
                }
            }
            Step::Block { rows, trees, shape, into } => {
                let span = |l: &Option<BlockLoop>, dim: Dim, base: u32| {
                    let (start, step, count) =
                        l.as_ref().map_or((0, 1, 1), |l| self.span(&l.range, dim, &state));
                    Span { start: (base + start) as usize, step: step as usize, count: count as usize }
                };
                let (rows, trees) = (span(rows, Dim::Batch, state.row), span(trees, Dim::Tree, state.tree));
                self.block(rows, trees, *shape, *into, &state);
            }
            Step::Cases { register, cases } => {
                let offset = state.offsets[*register as usize];
                let taken = cases.iter().find(|(end, _)| offset < *end).or(cases.last());
                if let Some((_, body)) = taken {
                    self.steps(body, state);
                }
            }
            // It is for all that follows it: see `steps`.
            Step::CacheRows { .. } => {}
            Step::Reduce { buffer, dimension, rows, into } => {
                let here = state;
                for chain in rows {
                    // Rows side by side are reduced together: their sums lie side by side.
                    let mut run = 0..0;
                    self.each_row(chain, &mut state, &mut |row, _| {
                        if row != run.end {
                            self.into.reduce(self, (*buffer, *dimension as usize), run.clone(), *into, &here);
                            run = row..row;
                        }
                        run.end += 1;
                    });
                    self.into.reduce(self, (*buffer, *dimension as usize), run, *into, &here);
                }
            }
        }
    }

    fn block(&self, row: Span, tree: Span, shape: Shape, into: Sum, state: &State<'_>) {
        // What the unchecked loads of the micro-kernels rest on.
        if row.count == 0
            || tree.count == 0
            || row.end() > self.rows.len()
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

    /// What a block is evaluated by: the one place where that is decided.
    fn engine(&self, Block { row, tree, shape }: Block, state: &State<'_>) -> Engine {
        let p = self.program;
        if p.ranks_in_windows() {
            let blends = p.blend_of(shape).is_some() && row.step == 1 && row.count >= p.blended_from;
            return if blends { Engine::Blends } else { self.walks_in_ranks(row, shape) };
        }
        if shape.rows_inside
            && row.count < p.few_rows()
            && let Some(engine) = self.few_rows_engine(tree)
        {
            return engine;
        }
        let vectors = self.vectors(row, shape);
        if let Some(window) = state.window.filter(|w| w.holds(row)) {
            return match window.together(row) {
                _ if vectors => Engine::Vectors,
                true => self.walks(row, shape),
                false => Engine::WalksByWindow,
            };
        }
        let Some(rows) = T::singles(self.rows).filter(|_| T::doubles(self.rows).is_none()) else {
            return Engine::Walks;
        };
        #[cfg(target_arch = "x86_64")]
        if let Encoded::Tiled(tiles) = &p.nodes
            && !p.plan.questions
            && !p.scalar
            && x86::tiles::available(tiles, rows, row, shape)
        {
            return if self.by_row(row, shape, Machine::here().walk.tiled_rows) {
                Engine::TilesByRow
            } else {
                Engine::Tiles
            };
        }
        if vectors && fits(rows) { Engine::Vectors } else { self.walks(row, shape) }
    }

    /// Whether a block's rows are walked one after the other, walks of several trees advancing together: so few rows that walks of one
    /// tree would wait for their loads.
    fn by_row(&self, row: Span, shape: Shape, few: usize) -> bool {
        shape.rows_inside && row.count < few && !matches!(self.program.few, FewRowsEngine::Walks)
    }

    /// What walks of a block are, without vectors.
    fn walks(&self, row: Span, shape: Shape) -> Engine {
        if self.by_row(row, shape, self.program.one_by_one) { Engine::WalksByRow } else { Engine::Walks }
    }

    /// What walks on ranks.
    fn walks_in_ranks(&self, row: Span, shape: Shape) -> Engine {
        if self.vectors(row, shape) { Engine::Vectors } else { Engine::Walks }
    }

    /// The engine for a few rows, if it can read these rows and has room for these trees.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn few_rows_engine(&self, tree: Span) -> Option<Engine> {
        let p = self.program;
        let singles = T::singles(self.rows);
        match &p.few {
            FewRowsEngine::Registers(_) => {
                (T::doubles(self.rows).is_none() || p.wide.is_none()).then_some(Engine::Registers)
            }
            FewRowsEngine::Full(_) => (singles.is_some() && self.rows.is_unit()).then_some(Engine::FullTrees),
            #[cfg(target_arch = "x86_64")]
            FewRowsEngine::Abreast => {
                let room = tree.step == 1 && tree.count >= x86::avx2::abreast::TREES_AT_LEAST;
                (room && self.addresses_fit() && singles.is_some_and(fits)).then_some(Engine::Abreast)
            }
            #[cfg(not(target_arch = "x86_64"))]
            FewRowsEngine::Abreast => None,
            FewRowsEngine::Rows | FewRowsEngine::Walks => None,
        }
    }

    /// Has a block evaluated.
    pub(super) fn dispatch<S: Sink>(&self, block: Block, sink: S, state: &State<'_>) {
        let (p, Block { row, tree, shape }) = (self.program, block);
        let engine = self.engine(block, state);
        let sink = sink.by(engine);
        // One row comes to the trees in the same order either way.
        let one = row.count == 1 && shape.rows_inside && matches!(engine, Engine::Walks | Engine::Tiles);
        let by_row = one || matches!(engine, Engine::WalksByRow | Engine::TilesByRow | Engine::FullTrees);
        let shape = if by_row { shape.by_row() } else { shape };
        if p.ranks_in_windows() {
            match state.ranks.filter(|ranks| ranks.holds(row)) {
                Some(ranks) => self.in_ranks(ranks, block, engine, sink),
                None => self.ranked(row.start, row.end() - row.start, |ranks| {
                    self.in_ranks(ranks, block, engine, sink);
                }),
            }
            return;
        }
        let few = matches!(engine, Engine::Registers | Engine::Abreast | Engine::FullTrees);
        if few && self.few(row, tree, shape, sink) {
            return;
        }
        debug_assert!(!few, "the engine was chosen for these rows");
        if let Some(window) = state.window.filter(|w| w.holds(row)) {
            return self.in_window(window, Block { shape, ..block }, engine, sink);
        }
        // The kernels for windows serve here, too, and are compiled once.
        #[cfg(target_arch = "x86_64")]
        let own = sink;
        let sink = Moved { sink, by: 0 };
        if let Some(rows) = T::doubles(self.rows) {
            return match &p.wide {
                Some(wide) => of_encoding!(wide, nodes => self.plain(nodes, rows, row, tree, shape, sink)),
                None => of_encoding!(&p.nodes, nodes => self.plain(nodes, rows, row, tree, shape, sink)),
            };
        }
        let Some(rows) = T::singles(self.rows) else {
            return self.plain_nodes(self.rows, row, tree, shape, sink);
        };
        #[cfg(target_arch = "x86_64")]
        if let (Engine::Tiles | Engine::TilesByRow, Encoded::Tiled(tiles)) = (engine, &p.nodes) {
            // SAFETY: the engine is chosen where it is available and no tile asks a question; the rest as below.
            return unsafe { x86::tiles::block(tiles, rows, row, tree, shape, sink) };
        }
        #[cfg(target_arch = "x86_64")]
        if engine == Engine::Vectors {
            // SAFETY: the engine is chosen where `vectors` and `fits` hold.
            return unsafe { self.vector(rows, row, tree, shape, own) };
        }
        self.portable(rows, row, tree, shape, sink);
    }

    /// Has a few rows walked by the engine for them, if it can read these rows.
    fn few<S: Sink>(&self, row: Span, tree: Span, shape: Shape, sink: S) -> bool {
        match (&self.program.few, T::singles(self.rows)) {
            #[cfg(target_arch = "x86_64")]
            (FewRowsEngine::Registers(few), _) => {
                // SAFETY: the machine has what it was made for; the spans were checked against rows and trees, the columns
                // against the forest.
                unsafe { x86::avx512::registers::block(few, self.rows, row, tree, sink) };
            }
            (FewRowsEngine::Full(full), Some(rows)) => {
                for r in 0..row.count {
                    match full.row(rows, row.at(r)) {
                        Some(values) => full.block(values, row.at(r), tree, sink),
                        None => {
                            let sink = Moved { sink: sink.by(Engine::WalksByRow), by: 0 };
                            self.portable(rows, row.one(r), tree, shape, sink);
                        }
                    }
                }
            }
            #[cfg(target_arch = "x86_64")]
            (FewRowsEngine::Abreast, Some(rows)) => {
                // SAFETY: the machine is able, rows' values follow each other, and no node asks a question; the spans were
                // checked against rows and trees, the columns against the forest. Tiles are kept out when it is chosen.
                unsafe {
                    of_encoding!(&self.program.nodes, nodes => x86::avx2::abreast::block(nodes, rows, row, tree, sink), _ => {});
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether addresses can be gathered, with signed offsets of 32 bits.
    #[cfg(target_arch = "x86_64")]
    fn addresses_fit(&self) -> bool {
        self.program.slots.len() < i32::MAX as usize / 12
    }

    /// Has a block evaluated whose rows are in a window.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn in_window<S: Sink>(&self, window: Window<'_>, block: Block, engine: Engine, sink: S) {
        let Block { row, tree, shape } = block;
        #[cfg(target_arch = "x86_64")]
        if engine == Engine::Vectors {
            // SAFETY: the engine is chosen where `vectors` holds, and the window has the rows.
            return unsafe { self.vector(window, row, tree, shape, sink) };
        }
        let mut done = 0;
        while done < row.count {
            let first = row.at(done);
            let (rows, place) = window.rows(first);
            let count = (rows.len() - place).div_ceil(row.step).min(row.count - done);
            let part = Span { start: place, step: row.step, count };
            self.portable(&rows, part, tree, shape, Moved { sink, by: first - place });
            done += count;
        }
    }

    /// Lends `f` the ranks of these rows.
    fn ranked(&self, first: usize, count: usize, f: impl FnOnce(Window<'_, u8>)) {
        if let Some(ranker) = &self.program.ranker {
            let turned = self.program.blends.iter().any(|(_, blend)| blend.turned());
            cached::ranked(ranker, self.rows, first, count, turned, f);
        }
    }

    /// A block of rows whose ranks are there: trees that have room for it by blends, the others by walks.
    fn in_ranks<S: Sink>(&self, ranks: Window<'_, u8>, block: Block, engine: Engine, sink: S) {
        let Block { row, tree, shape } = block;
        let Some(blend) = self.program.blend_of(shape).filter(|_| engine == Engine::Blends) else {
            return match shape.rows_inside {
                true => (0..tree.count).for_each(|t| self.walked(ranks, row, tree.one(t), shape, sink)),
                false => self.walked(ranks, row, tree, shape, sink),
            };
        };
        let mut room = Line([0.0; blend::BLOCK * 4]);
        blend::with_values(blend, |values| {
            for t in 0..tree.count {
                let position = tree.at(t);
                if !blend.has(position) {
                    let sink = sink.by(self.walks_in_ranks(row, shape));
                    self.walked(ranks, row, tree.one(t), shape, sink);
                    continue;
                }
                let exits = blend.exits(position);
                let own = match exits {
                    Exits::Leaves(leaves) => sink.values(leaves, &mut room),
                    Exits::Addresses(_) => blend::LeafValues::default(),
                };
                let take = |first: usize, place: usize, count: usize, numbers: [u8; blend::BLOCK]| {
                    let leaves = match exits {
                        Exits::Leaves(leaves) => leaves,
                        Exits::Addresses(exits) => {
                            let at = std::array::from_fn(|l| {
                                exits[usize::from(numbers[(place + l).min(blend::BLOCK - 1)])]
                            });
                            return self.walked_on(ranks, (first, count), position, &at, sink);
                        }
                    };
                    match sink.sums(first, count, position) {
                        // SAFETY: a tree's numbers are below its exits, of which leaves have a value each.
                        Some(sums) if place == 0 => unsafe { blend::add(&numbers, own, sums) },
                        _ => {
                            for (l, number) in numbers[place..place + count].iter().enumerate() {
                                sink.slot(first + l, position, leaves.slots[usize::from(*number)] as usize);
                            }
                        }
                    }
                };
                let together = blend.together() && matches!(exits, Exits::Leaves(_));
                let mut done = 0;
                while done < row.count {
                    let first = row.at(done);
                    let left = row.count - done;
                    let block = |row| if blend.turned() { ranks.turned_block(row) } else { ranks.block(row) };
                    let (bytes, place) = block(first);
                    // Blocks that are evaluated together share the loads of a tree's groups.
                    macro_rules! together {
                        ($blocks:literal) => {
                            if together && place == 0 && left > ($blocks - 1) * blend::BLOCK {
                                let count = left.min($blocks * blend::BLOCK);
                                let ranks: [_; $blocks] =
                                    std::array::from_fn(|k| block(first + k * blend::BLOCK).0);
                                if let Some(sums) = sink.sums(first, count, position)
                                    && blend.add_together(position, ranks, own, values, sums)
                                {
                                    done += count;
                                    continue;
                                }
                            }
                        };
                    }
                    together!(4);
                    together!(2);
                    together!(1);
                    let count = left.min(blend::BLOCK - place);
                    done += count;
                    take(first, place, count, blend.evaluate(position, bytes, values));
                }
            }
        });
    }

    /// Walks on ranks, a block of the window after the other.
    fn walked<S: Sink>(&self, ranks: Window<'_, u8>, row: Span, tree: Span, shape: Shape, sink: S) {
        #[cfg(target_arch = "x86_64")]
        if self.vectors(row, shape) {
            // SAFETY: `vectors` holds, and the window has the rows.
            return unsafe { self.vector(ranks, row, tree, shape, sink) };
        }
        let mut done = 0;
        while done < row.count {
            let first = row.at(done);
            let (rows, place) = ranks.rows(first);
            let count = (rows.len() - place).div_ceil(row.step).min(row.count - done);
            let part = Span { start: place, step: row.step, count };
            self.plain_nodes(&rows, part, tree, shape, Moved { sink, by: first - place });
            done += count;
        }
    }

    /// Walks of a tree that go on from where blends have brought them: of `count` rows from `first` on, all in one block of the
    /// window, each from its address.
    fn walked_on<S: Sink>(
        &self,
        ranks: Window<'_, u8>,
        (first, count): (usize, usize),
        position: usize,
        from: &[u32; blend::BLOCK],
        sink: S,
    ) {
        let from = From { position, addresses: from };
        #[cfg(target_arch = "x86_64")]
        let row = Span { start: first, step: 1, count };
        #[cfg(target_arch = "x86_64")]
        if self.vectors(row, Shape::PLAIN) {
            // SAFETY: `vectors` holds, the window has the rows, and exits are addresses of the tree.
            return unsafe {
                // Blends are of layouts without tiles.
                of_encoding!(&self.program.nodes, nodes => x86::walk_on(nodes, ranks, row, from, sink), _ => {})
            };
        }
        let (rows, place) = ranks.rows(first);
        let part = Span { start: place, step: 1, count };
        let sink = Moved { sink, by: first - place };
        // SAFETY: the rows were checked, the columns against the forest; exits are addresses of the tree, from where walks end at
        // a leaf.
        unsafe {
            of_encoding!(&self.program.nodes, nodes => walk::walk_on(nodes, &rows, part, from, sink), _ => {})
        }
    }

    /// [`Run::plain`] of the forest's nodes.
    fn plain_nodes<D: Row, S: Sink>(&self, rows: &Rows<'_, D>, row: Span, tree: Span, shape: Shape, sink: S) {
        of_encoding!(&self.program.nodes, nodes => self.plain(nodes, rows, row, tree, shape, sink))
    }

    /// The one kernel for rows other than `f32`: any strides, any question, whatever the interleaving.
    fn plain<N: Walkable, D: Row + Read<N::Compare>, S: Sink>(
        &self,
        nodes: &N,
        rows: &Rows<'_, D>,
        row: Span,
        tree: Span,
        shape: Shape,
        sink: S,
    ) {
        // SAFETY: the spans were checked against rows and trees, the columns against the forest; `lower` has
        // settled steps that stay inside the nodes.
        unsafe { walk::lanes::<N, D, S, true, false, 4>(nodes, rows, row, tree, shape, sink) }
    }

    /// Whether the vector kernels can run these rows through this forest.
    #[cfg(not(target_arch = "x86_64"))]
    fn vectors(&self, _: Span, _: Shape) -> bool {
        false
    }

    /// Whether the vector kernels can run these rows through this forest.
    #[cfg(target_arch = "x86_64")]
    fn vectors(&self, row: Span, shape: Shape) -> bool {
        let p = self.program;
        let rows = shape.rows_inside && row.step == 1 && row.count >= p.one_by_one;
        // A step from a leaf reads a value, too.
        rows && p.vectors && !p.plan.questions && self.addresses_fit() && p.features > 0
    }

    /// # Safety
    /// [`Run::vectors`]; the rows are in the source, which [`x86::fits`] or is a window.
    #[cfg(target_arch = "x86_64")]
    unsafe fn vector<F: x86::Source, S: Sink>(&self, rows: F, row: Span, tree: Span, shape: Shape, sink: S) {
        // SAFETY: the spans were checked against rows and trees, the columns against the forest; `lower` has
        // settled steps that stay inside the nodes.
        unsafe {
            // Tiles have kernels of their own: `Run::vectors` keeps them out.
            of_encoding!(&self.program.nodes, nodes => x86::block(nodes, rows, row, tree, shape, sink), _ => {})
        }
    }

    fn portable<S: Sink>(&self, rows: &Rows<'_>, row: Span, tree: Span, shape: Shape, sink: S) {
        of_encoding!(&self.program.nodes, nodes => self.dispatch_rule(nodes, rows, row, tree, shape, sink))
    }

    fn dispatch_rule<N: Walkable<Compare = f32>, S: Sink>(
        &self,
        nodes: &N,
        rows: &Rows<'_>,
        row: Span,
        tree: Span,
        shape: Shape,
        sink: S,
    ) {
        // SAFETY: the spans were checked against rows and trees, the columns against the forest; `lower` has
        // settled steps that stay inside the nodes.
        unsafe {
            match (self.program.plan.questions, rows.is_unit()) {
                (false, true) => walk::block::<N, f32, S, false, true>(nodes, rows, row, tree, shape, sink),
                (false, false) => walk::block::<N, f32, S, false, false>(nodes, rows, row, tree, shape, sink),
                (true, _) => walk::block::<N, f32, S, true, false>(nodes, rows, row, tree, shape, sink),
            }
        }
    }

    /// Where row 0 of a private copy starts in the scratch: the copy of the current iterations, or the one in which
    /// dimension `fixed.0` has index `fixed.1` and those after it index 0.
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
                    offset.saturating_sub(self.value(dim.start)) / self.value(dim.step).max(1)
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
        let (start, step, count) = self.span(&outer.range, Dim::Batch, state);
        let row = state.row;
        for k in 0..count {
            let offset = start + k * step;
            state.offsets[outer.register as usize] = offset;
            state.row = row + offset;
            self.each_row(inner, state, f);
        }
        state.row = row;
        state.offsets[outer.register as usize] = 0;
    }
}
