//! Blends evaluate every split of a tree for 64 rows at once, on the rows' ranks. [`build`] groups a
//! tree's splits, [`groups`] holds the data of groups, and [`evaluate`] finds each row's exit number.

mod build;
pub(in crate::cpu) mod evaluate;
pub(in crate::cpu) mod groups;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "x86_64")]
use super::vectors;
use super::{
    BatchSeconds, Block, BlockEngine, EngineRequest, Source, Trees,
    vectors::Vectors,
    walk::{LeafAddresses, MOST_ADDRESSES, Shape, Span, WalkStarts},
    walks,
};
use crate::{
    cost::{BLENDED_ROWS, Machine},
    cpu::{cache_line::CacheLine, cached::ranks_fit, engines::Engine, rows::Row, sink::Sink, window::Window},
};
use evaluate::{GroupExits, Room, Values};
use groups::{Blend, LeafValues, MOST_LEAVES, ROW_BLOCK};

/// The engine that evaluates trees by blends. It has one blend for each number of levels that walks of
/// the plan ask for.
#[derive(Clone, Debug)]
pub(in crate::cpu) struct Blends {
    /// At least one blend, each with its number of levels.
    by_levels: Vec<(u32, Blend)>,
    /// Minimum number of rows of a block with which blends take less time than walks row by row.
    from: usize,
    /// Seconds of a row block through its trees, ranking included and the load of the splits left out.
    block: f64,
    /// Seconds of ranking a row block.
    ranking: f64,
    /// Seconds of bringing all splits near, once for [`BLENDED_ROWS`] rows.
    load: f64,
    /// From this many rows on, the walks that go on below a blend's levels are walks in vectors. `None`
    /// without kernels for that.
    vector_rows: Option<usize>,
}

impl Blends {
    /// Returns the minimum number of rows of a block with which blends take less time than walks row by row.
    pub(in crate::cpu) fn from(&self) -> usize {
        self.from
    }

    /// Returns the blend that evaluates trees in blocks of this shape.
    pub(in crate::cpu) fn of(&self, shape: Shape) -> Option<&Blend> {
        let levels = shape.blend?;
        self.by_levels.iter().find(|(of, _)| *of == levels).map(|(_, blend)| blend)
    }

    /// Returns all blends, each with its number of levels.
    pub(in crate::cpu) fn by_levels(&self) -> &[(u32, Blend)] {
        &self.by_levels
    }

    /// Returns whether some blend reads ranks with the bit [`FLIPPED_BIT`](groups::FLIPPED_BIT) flipped.
    pub(in crate::cpu) fn flipped(&self) -> bool {
        self.by_levels.iter().any(|(_, blend)| blend.flipped())
    }
}

impl BlockEngine for Blends {
    fn build(wanted: &EngineRequest<'_>) -> Option<Self> {
        let EngineRequest { plan, forest, packed, .. } = wanted;
        let rows = plan.blend_window().filter(|_| !plan.questions && !wanted.scalar)?;
        if !ranks_fit(rows, forest.features.len()) {
            return None;
        }
        let levels: std::collections::BTreeSet<u32> =
            plan.walks().filter_map(|walk| walk.own.blend).collect();
        let by_levels: Vec<(u32, Blend)> = levels
            .into_iter()
            .filter_map(|levels| Some((levels, Blend::new(forest, packed, levels)?)))
            .collect();
        let most = |of: &dyn Fn(&Blend) -> f64| by_levels.iter().map(|(_, blend)| of(blend)).reduce(f64::max);
        let (trees, load) = (most(&Blend::seconds)?, most(&Blend::load)?);
        // Walks read ranks, too, so the cost of ranking is on neither side.
        let rows = (trees + load) / (Machine::here().ways.row_step * wanted.nodes.steps() as f64);
        let from = (rows.ceil() as usize).clamp(1, ROW_BLOCK);
        let ranking = Machine::here().ways.ranked(wanted.ranked);
        let vectors = Vectors::can_serve(plan, forest.features.len(), wanted.scalar);
        let vector_rows = vectors.then(|| Machine::here().walk.rows_one_by_one());
        Some(Self { by_levels, from, block: trees + ranking, ranking, load, vector_rows })
    }

    fn serves<T: Row>(&self, _: &Trees<'_>, source: Source<'_, '_, T>, block: &Block) -> bool {
        matches!(source, Source::Ranks(_)) && block.row.stride == 1 && self.of(block.shape).is_some()
    }

    unsafe fn run<T: Row, S: Sink>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: Block,
        rest: Engine,
        sink: S,
    ) {
        let (Source::Ranks(ranks), Some(blend)) = (source, self.of(block.shape)) else {
            unreachable!("blends serve ranks, in blocks that they were built for");
        };
        let vector_rows = self.vector_rows.filter(|_| trees.can_be_gathered()).unwrap_or(usize::MAX);
        let rest = FallbackWalks { trees, ranks, engine: rest, vector_rows };
        // SAFETY: the caller upholds that the engine serves the block, that the spans lie inside window
        // and trees, and that `trees` are those that the engine was built for.
        evaluate::with_values(blend, |values| unsafe { evaluate_trees(blend, &rest, block, values, sink) });
    }

    fn seconds(&self, rows: usize) -> f64 {
        (self.block + self.load) * rows.div_ceil(ROW_BLOCK) as f64
    }

    fn parts(&self, rows: usize) -> BatchSeconds {
        let blocks = rows.div_ceil(ROW_BLOCK) as f64;
        BatchSeconds {
            of_rows: self.ranking * blocks,
            of_trees: (self.block - self.ranking) * blocks + self.load * rows.div_ceil(BLENDED_ROWS) as f64,
        }
    }

    fn bytes(&self) -> usize {
        self.by_levels.iter().map(|(_, blend)| blend.bytes()).sum()
    }
}

/// Walks through the trees that the blend does not have, and through the nodes below the exits of cut trees.
struct FallbackWalks<'r> {
    trees: &'r Trees<'r>,
    ranks: Window<'r, u8>,
    /// The engine for trees that the blend does not have.
    engine: Engine,
    /// From this many rows on, the walks that go on below a blend's levels are walks in vectors.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    vector_rows: usize,
}

impl FallbackWalks<'_> {
    /// Walks a block of trees.
    ///
    /// # Safety
    /// The window holds the rows of `block`, whose spans lie inside rows and trees. `engine` serves the
    /// block.
    unsafe fn run<S: Sink>(&self, block: Block, found: &mut LeafAddresses, sink: S) {
        // SAFETY: the caller upholds that the window holds the rows, that the spans lie inside rows and
        // trees, and that the engine serves the block. Vectors serve only on a machine with their
        // kernels.
        unsafe {
            match self.engine {
                #[cfg(target_arch = "x86_64")]
                Engine::Vectors => vectors::in_ranks(self.trees, self.ranks, block, found, sink),
                _ => walks::in_ranks(self.trees, self.ranks, block, found, sink),
            }
        }
    }

    /// Takes the walks of one tree on, each from the exit that its row has reached. All rows lie in one
    /// row block of the window.
    ///
    /// # Safety
    /// The window holds the rows. `exits` are addresses of nodes of the tree at `position`, from where
    /// walks end at a leaf. Every number is below the number of exits.
    #[inline(never)]
    unsafe fn walk_on<S: Sink>(
        &self,
        row: Span,
        position: usize,
        exits: &[u32],
        numbers: &[u8],
        found: &mut LeafAddresses,
        sink: S,
    ) {
        let mut addresses = [0; ROW_BLOCK];
        let last = numbers.len() - 1;
        for (l, address) in addresses.iter_mut().enumerate() {
            *address = exits[usize::from(numbers[l.min(last)])];
        }
        let from = WalkStarts { position, addresses: &addresses };
        // SAFETY: the caller upholds that the window holds the rows in one row block and that every exit is
        // an address of the tree. `Blends::build` sets `vector_rows` only if the machine has vector
        // kernels.
        unsafe {
            match row.count >= self.vector_rows {
                #[cfg(target_arch = "x86_64")]
                true => vectors::walk_on(self.trees, self.ranks, row, from, found),
                _ => walks::walk_on(self.trees, self.ranks, row, from, found),
            }
        }
        for (l, address) in found.iter().enumerate().take(row.count) {
            sink.leaf(row.start + l, position, *address);
        }
    }
}

/// Evaluates the trees of a block with the blend, and walks the trees that the blend does not have.
///
/// # Safety
/// The window of `rest` holds the rows of `block`, whose spans lie inside rows and trees. `blend` and
/// `rest` are of the same program.
#[inline(never)]
unsafe fn evaluate_trees<S: Sink>(
    blend: &Blend,
    rest: &FallbackWalks<'_>,
    block: Block,
    values: &mut Values,
    sink: S,
) {
    let mut room = CacheLine([0.0; MOST_LEAVES]);
    let mut found = [0; MOST_ADDRESSES];
    for t in 0..block.tree.count {
        // SAFETY: the caller upholds that the window holds the rows and that the spans lie inside rows
        // and trees. `Blend::has` tells whether the blend has the tree.
        unsafe {
            match blend.has(block.tree.at(t)) {
                true => {
                    let memory = TreeMemory { values: &mut *values, room: &mut room, found: &mut found };
                    evaluate_tree(blend, rest, block.row, block.tree.at(t), memory, sink);
                }
                false => rest.run(block.of_tree(t), &mut found, sink.by(rest.engine)),
            }
        }
    }
}

/// Working memory for the evaluation of a tree. Trees use it one after the other.
struct TreeMemory<'m> {
    /// The buffers of groups.
    values: &'m mut Values,
    /// Room for the leaf values of the tree.
    room: &'m mut Room,
    /// Room for the leaves that walks reach.
    found: &'m mut LeafAddresses,
}

/// Evaluates the tree at a position, which the blend has, for the rows of a block.
///
/// # Safety
/// The window of `rest` holds the rows, and the position is inside the trees. `blend` and `rest` are of
/// the same program.
#[inline(always)]
unsafe fn evaluate_tree<S: Sink>(
    blend: &Blend,
    rest: &FallbackWalks<'_>,
    row: Span,
    position: usize,
    memory: TreeMemory<'_>,
    sink: S,
) {
    let TreeMemory { values, room, found } = memory;
    let exits = blend.exits(position);
    let own = match exits {
        GroupExits::Leaves(leaves) => sink.values(leaves, room),
        GroupExits::Addresses(_) => LeafValues::default(),
    };
    let mut take = |first: usize, offset: usize, count: usize, numbers: [u8; ROW_BLOCK]| {
        let leaves = match exits {
            GroupExits::Leaves(leaves) => leaves,
            GroupExits::Addresses(exits) => {
                let row = Span { start: first, stride: 1, count };
                // SAFETY: the caller upholds that the window holds the rows. `Blend::new` made the exits
                // from the tree's addresses, and `evaluate` finds only numbers of its exits. The loop below
                // ends `count` with the row block.
                return unsafe { rest.walk_on(row, position, exits, &numbers[offset..], found, sink) };
            }
        };
        match sink.sums(first, count, position) {
            Some(sums) if offset == 0 => {
                // SAFETY: `evaluate` finds only numbers of the tree's exits. `Sink::values` has filled `own` with a
                // leaf value for each of these, padded to a power of two and at least 16.
                unsafe { evaluate::add(&numbers, own, sums) };
                sink.added(first, count, position);
            }
            _ => {
                for (l, number) in numbers[offset..offset + count].iter().enumerate() {
                    sink.slot(first + l, position, leaves.slots[usize::from(*number)] as usize);
                }
            }
        }
    };
    let together = blend.together() && matches!(exits, GroupExits::Leaves(_));
    let mut done = 0;
    while done < row.count {
        let first = row.at(done);
        let left = row.count - done;
        let block = |row| if blend.flipped() { rest.ranks.flipped_block(row) } else { rest.ranks.block(row) };
        let (bytes, offset) = block(first);
        // Row blocks that are evaluated together share the loads of a tree's groups.
        macro_rules! together {
            ($blocks:literal) => {
                if together && offset == 0 && left > ($blocks - 1) * ROW_BLOCK {
                    let count = left.min($blocks * ROW_BLOCK);
                    let ranks: [_; $blocks] = std::array::from_fn(|k| block(first + k * ROW_BLOCK).0);
                    if let Some(sums) = sink.sums(first, count, position)
                        && blend.add_together(position, ranks, own, values, sums)
                    {
                        sink.added(first, count, position);
                        done += count;
                        continue;
                    }
                }
            };
        }
        together!(4);
        together!(2);
        together!(1);
        let count = left.min(ROW_BLOCK - offset);
        done += count;
        take(first, offset, count, blend.evaluate(position, bytes, values));
    }
}
