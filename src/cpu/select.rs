//! Chooses the engine for a block of rows. No other file chooses engines.

use super::{
    engine::{
        BatchSeconds, Block, BlockEngine, EngineRequest, Source, Trees, blend::Blends, registers::Masks,
        tiles::TileWalks, vectors::Vectors, walks::Walks,
    },
    engines::Engine,
    rows::{Row, Rows},
    sink::Sink,
    window::Window,
};
use crate::{
    cost::{Machine, ROW_BLOCK},
    plan::cpu::ManyRows,
    schedule::FewRows,
};

/// The engines of a program, with their tables.
#[derive(Clone, Debug)]
pub(super) struct EngineSet {
    walks: Walks,
    vectors: Option<Vectors>,
    tiles: Option<TileWalks>,
    blends: Option<Blends>,
    few: FewRowsEngine,
    /// Blocks of fewer rows than this are of a few rows.
    few_rows: usize,
    /// Blocks of fewer rows than this are walked row by row, each row through several trees at a time.
    one_by_one: usize,
    /// The greatest number of rows of a block that walks one tree for all of them, as far as the plan says it.
    most_rows: usize,
}

/// How blocks of a few rows are evaluated.
#[derive(Clone, Debug)]
enum FewRowsEngine {
    /// By an engine of their own.
    Own(OwnEngine),
    /// By walks, one row after the other.
    Rows,
    /// Like blocks of many rows.
    Walks,
}

/// Copies of rows, column by column, that a run has made.
#[derive(Clone, Copy)]
pub(super) enum Windows<'a> {
    /// A copy of values, if there is one.
    Values(Option<Window<'a>>),
    /// A copy of ranks, which holds the block's rows.
    Ranks(Window<'a, u8>),
}

/// The engine for a block, with the block and the source of its rows.
pub(super) struct Choice<'e, 'r, 'a, T> {
    by: EngineRef<'e>,
    pub(super) engine: Engine,
    /// The engine for the trees and rows that the chosen engine leaves out.
    rest: Engine,
    source: Source<'r, 'a, T>,
    block: Block,
}

/// Writes what is the same for each engine. The engines for many rows stand in braces, each with the type that holds its
/// tables. Those for a few rows follow, as [`fangorn_ir::few_rows_engines`] lists them.
macro_rules! engines {
    (
        { $($many:ident($table:ty))* }
        $($(#[$doc:meta])* $few:ident($file:ident::$few_table:ident) $word:literal $reads:ident;)*
    ) => {
        /// The engine that runs a block, with its tables.
        #[derive(Clone, Copy)]
        enum EngineRef<'e> {
            $($many(&'e $table),)*
            $($few(&'e super::engine::$file::$few_table)),*
        }

        /// An engine for blocks of a few rows alone.
        #[derive(Clone, Debug)]
        enum OwnEngine {
            $($few(super::engine::$file::$few_table)),*
        }

        impl OwnEngine {
            /// Builds the engine that a schedule asks for. Returns `None` if the schedule asks for no such engine, or
            /// for one that can't serve the plan on this machine.
            fn build(by: FewRows, wanted: &EngineRequest<'_>) -> Option<Self> {
                match by {
                    $(FewRows::$few => super::engine::$file::$few_table::build(wanted).map(Self::$few),)*
                    FewRows::Auto | FewRows::Rows | FewRows::Walk => None,
                }
            }

            /// Returns the word of `fewRows` that asks for the engine.
            fn by(&self) -> FewRows {
                match self {
                    $(Self::$few(_) => FewRows::$few),*
                }
            }

            /// Returns the engine as one of all engines.
            fn get(&self) -> EngineRef<'_> {
                match self {
                    $(Self::$few(engine) => EngineRef::$few(engine)),*
                }
            }
        }

        /// Calls a method of [`BlockEngine`] on whichever engine it is.
        macro_rules! of_engine {
            ($by:expr, $engine:ident => $call:expr) => {
                match $by {
                    $(EngineRef::$many($engine) => $call,)*
                    $(EngineRef::$few($engine) => $call),*
                }
            };
        }

        impl EngineRef<'_> {
            /// Returns the name in plans and traces.
            fn name(self) -> Engine {
                match self {
                    $(Self::$many(_) => Engine::$many,)*
                    $(Self::$few(_) => Engine::$few),*
                }
            }
        }

        impl<T: Row> Choice<'_, '_, '_, T> {
            /// Hands the leaves of the block's rows to `sink`.
            ///
            /// # Safety
            /// The block's spans are inside rows and trees; rows have the forest's columns; `trees` are those
            /// that the engines were built for.
            pub(super) unsafe fn run<S: Sink>(self, trees: &Trees<'_>, sink: S) {
                let Self { by, rest, source, block, .. } = self;
                // SAFETY: `choose` takes an engine only where it serves the block. The caller upholds that
                // the spans are in range, that rows have the forest's columns and that the engines were built
                // for `trees`.
                unsafe { of_engine!(by, engine => engine.run(trees, source, block, rest, sink)) }
            }
        }
    };
}

fangorn_ir::few_rows_engines! {
    engines {
        Walks(Walks)
        Vectors(Vectors)
        Tiles(TileWalks)
        Blends(Blends)
    }
}

impl EngineRef<'_> {
    fn serves<T: Row>(self, trees: &Trees<'_>, source: Source<'_, '_, T>, block: &Block) -> bool {
        of_engine!(self, engine => engine.serves(trees, source, block))
    }

    fn seconds(self, rows: usize) -> f64 {
        of_engine!(self, engine => engine.seconds(rows))
    }

    fn parts(self, rows: usize) -> BatchSeconds {
        of_engine!(self, engine => engine.parts(rows))
    }

    fn rows_end(self) -> usize {
        of_engine!(self, engine => engine.rows_end())
    }

    fn bytes(self) -> usize {
        of_engine!(self, engine => engine.bytes())
    }

    fn text(self) -> String {
        of_engine!(self, engine => engine.text())
    }
}

impl FewRowsEngine {
    /// Returns the engine that serves blocks of a few rows alone, if there is one.
    fn own(&self) -> Option<EngineRef<'_>> {
        match self {
            Self::Own(own) => Some(own.get()),
            Self::Rows | Self::Walks => None,
        }
    }

    /// Builds the engine that the schedule asks for. If it asks for `auto`, this is registers or masks, which have a
    /// limit of columns, or trees abreast, if gathers are fast: the one with the shortest estimate of those that can
    /// serve the forest on this machine. If none can, it is full trees, which have a limit of depth. If those can't
    /// either, rows are walked one by one. Masks are not built for a forest whose trees are too large for them.
    fn build(wanted: &EngineRequest<'_>) -> Self {
        #[cfg(target_arch = "x86_64")]
        let gathers = || crate::cost::gathers();
        #[cfg(not(target_arch = "x86_64"))]
        let gathers = || false;
        let by = |by| OwnEngine::build(by, wanted);
        let own = match wanted.by {
            FewRows::Walk => return Self::Walks,
            FewRows::Auto => {
                let masks = Masks::may_be_faster(wanted.forest).then_some(FewRows::Masks);
                let choices = [Some(FewRows::Registers), masks, Some(FewRows::Abreast)];
                let built = choices.into_iter().flatten().filter_map(by);
                let able = built.filter(|own| own.by() != FewRows::Abreast || gathers());
                let fastest = able.min_by(|a, b| a.get().seconds(1).total_cmp(&b.get().seconds(1)));
                fastest.or_else(|| by(FewRows::Full))
            }
            asked => by(asked),
        };
        match own {
            Some(own) => Self::Own(own),
            None if wanted.values && wanted.blocks.exist => Self::Rows,
            None => Self::Walks,
        }
    }
}

impl EngineSet {
    pub(super) fn build(wanted: &EngineRequest<'_>) -> Self {
        let (few, blends) = (FewRowsEngine::build(wanted), Blends::build(wanted));
        let costs = &Machine::here().walk;
        let (one_by_one, tiles) = (costs.rows_one_by_one(), TileWalks::build(wanted));
        let few_rows = match few.own() {
            Some(own) => own.rows_end(),
            None if tiles.is_some() => costs.tiles.rows(),
            None => one_by_one,
        };
        Self {
            few,
            few_rows,
            one_by_one,
            most_rows: wanted.blocks.rows_together,
            walks: Walks::new(wanted),
            // Ranks are read by vectors only from the windows that blends rank.
            vectors: Vectors::build(wanted).filter(|_| wanted.values || blends.is_some()),
            tiles,
            blends,
        }
    }

    /// Returns the engine for a block of these rows.
    pub(super) fn choose<'e, 'r, 'a, T: Row>(
        &'e self,
        trees: &Trees<'_>,
        rows: &'r Rows<'a, T>,
        windows: Windows<'a>,
        block: Block,
    ) -> Choice<'e, 'r, 'a, T> {
        let source = match windows {
            Windows::Ranks(ranks) => Source::Ranks(ranks),
            Windows::Values(Some(window)) => Source::Window(window),
            Windows::Values(None) => Source::Rows(rows),
        };
        let (row, shape) = (block.row, block.shape);
        let walks = self.walks(trees, source, &block);
        let is_ranks = matches!(source, Source::Ranks(_));
        if let Some(blends) = &self.blends
            && row.count >= blends.from()
            && blends.serves(trees, source, &block)
        {
            return Choice {
                by: EngineRef::Blends(blends),
                engine: Engine::Blends,
                rest: walks.1,
                source,
                block,
            };
        }
        if shape.rows_inside
            && row.count < self.few_rows
            && !is_ranks
            && let source = Source::Rows(rows)
            && let Some(by) = self.few.own()
            && by.serves(trees, source, &block)
        {
            return Choice { by, engine: by.name(), rest: Engine::WalksByRow, source, block };
        }
        let (by, engine) = walks;
        // A single row visits the trees in the same order either way, so it may take the faster shape.
        let one = row.count == 1 && shape.rows_inside && matches!(engine, Engine::Walks | Engine::Tiles);
        let by_row = one && !is_ranks || matches!(engine, Engine::WalksByRow | Engine::TilesByRow);
        let block = if by_row { Block { shape: shape.by_row(), ..block } } else { block };
        Choice { by, engine, rest: engine, source, block }
    }

    /// Returns the engine that walks a block, and its name.
    fn walks<T: Row>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: &Block,
    ) -> (EngineRef<'_>, Engine) {
        let (row, shape) = (block.row, block.shape);
        // With so few rows, walks of one tree would wait for their loads, so walks of several trees advance
        // together.
        let few = !matches!(self.few, FewRowsEngine::Walks);
        let by_row = |rows: usize| few && shape.rows_inside && row.count < rows;
        if let Some(tiles) = &self.tiles
            && tiles.serves(trees, source, block)
        {
            let by_row = by_row(Machine::here().walk.tiles.rows());
            return (EngineRef::Tiles(tiles), if by_row { Engine::TilesByRow } else { Engine::Tiles });
        }
        if let Some(vectors) = &self.vectors
            && row.count >= self.one_by_one
            && vectors.serves(trees, source, block)
        {
            return (EngineRef::Vectors(vectors), Engine::Vectors);
        }
        let singles = match source {
            Source::Rows(rows) => T::singles(rows).is_some(),
            Source::Window(_) => true,
            Source::Ranks(_) => false,
        };
        let engine = match source {
            Source::Window(window) if !window.together(row) => Engine::WalksByWindow,
            _ if singles && by_row(self.one_by_one) => Engine::WalksByRow,
            _ => Engine::Walks,
        };
        (EngineRef::Walks(&self.walks), engine)
    }

    /// Returns the blends, if the plan has some. Rows are then ranked a window at a time.
    pub(super) fn blends(&self) -> Option<&Blends> {
        self.blends.as_ref()
    }

    /// Returns whether many rows go through vector kernels, for single nodes or for tiles.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) fn has_vector_kernels(&self) -> bool {
        self.vectors.is_some() || self.tiles.is_some()
    }

    /// Returns the number of rows from which on a block no longer goes through the engine for a few rows.
    pub(super) fn few_rows(&self) -> usize {
        self.few_rows
    }

    /// Returns the number of rows from which on a row block of `many`'s blends serves; these engines serve smaller
    /// batches. With this number, one batch of each size takes the least time in all. A single crossing need not exist:
    /// where another of these engines takes over, a larger batch may take less time than a smaller one.
    pub(super) fn slower_from(&self, many: &Self) -> usize {
        let block = many.blends.as_ref().map_or(0.0, |blends| blends.seconds(ROW_BLOCK));
        let (mut sum, mut least, mut end) = (0.0, 0.0, 1);
        for rows in 1..ROW_BLOCK {
            sum += self.seconds(rows) - block;
            if sum < least {
                (least, end) = (sum, rows + 1);
            }
        }
        end
    }

    /// Returns how blocks of a few rows are evaluated.
    pub(super) fn few_rows_engine(&self) -> FewRows {
        match &self.few {
            FewRowsEngine::Own(own) => own.by(),
            FewRowsEngine::Rows => FewRows::Rows,
            FewRowsEngine::Walks => FewRows::Walk,
        }
    }

    /// Returns the description of the engine for a few rows in a program's text; `None` if it walks, row by
    /// row or not.
    pub(super) fn few_rows_text(&self) -> Option<String> {
        self.few.own().map(EngineRef::text)
    }

    /// Returns the engine for blocks of many rows that some block reaches, and the number of rows from which on it
    /// serves.
    fn many(&self) -> (EngineRef<'_>, usize) {
        // An engine for a few rows comes before vectors, and after blends.
        let vectors_from = self.few.own().map_or(self.one_by_one, |_| self.few_rows.max(self.one_by_one));
        let engines = [
            self.blends.as_ref().map(|blends| (EngineRef::Blends(blends), blends.from())),
            self.tiles.as_ref().map(|tiles| (EngineRef::Tiles(tiles), 1)),
            self.vectors.as_ref().map(|vectors| (EngineRef::Vectors(vectors), vectors_from)),
        ];
        let reached = engines.into_iter().flatten().find(|(_, from)| *from <= self.most_rows.max(1));
        reached.unwrap_or((EngineRef::Walks(&self.walks), 1))
    }

    /// Returns the engine by whose costs a batch of `rows` rows is estimated.
    fn estimated(&self, rows: usize) -> EngineRef<'_> {
        match self.blends {
            None if rows < self.few_rows => self.few.own().unwrap_or(EngineRef::Walks(&self.walks)),
            _ => self.many().0,
        }
    }

    /// Describes how blocks of many rows are evaluated.
    pub(super) fn many_rows(&self) -> ManyRows {
        let (by, from) = self.many();
        ManyRows { engine: by.name().name(), from: from as u32 }
    }

    /// Returns about how many seconds a batch of `rows` rows takes on one thread.
    pub(super) fn seconds(&self, rows: usize) -> f64 {
        self.estimated(rows).seconds(rows)
    }

    /// Returns about how many seconds a batch of `rows` rows takes on one thread, by what they are spent on.
    pub(super) fn parts(&self, rows: usize) -> BatchSeconds {
        self.estimated(rows).parts(rows)
    }

    /// Returns the size in bytes of the engines' tables, without the nodes.
    pub(super) fn bytes(&self) -> usize {
        let many = [
            self.vectors.as_ref().map(EngineRef::Vectors),
            self.tiles.as_ref().map(EngineRef::Tiles),
            self.blends.as_ref().map(EngineRef::Blends),
        ];
        many.into_iter().chain([self.few.own()]).flatten().map(EngineRef::bytes).sum()
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::{
        Predictor,
        check::SelfCheck,
        cpu::isa::{Isa, isa},
        forest::{CategoryRule, CompareType, Forest, Predicate, Side},
    };

    fn full_trees(trees: u32, depth: u32) -> Forest {
        let mut forest = Forest::builder(8, 1);
        for t in 0..trees {
            let mut tree = forest.tree(0);
            let splits = (1 << depth) - 1;
            for n in 0..splits {
                let threshold = CompareType::F32.less(f64::from((n * 7 + t) % 50));
                tree.split((n + t) % 8, threshold, Side::Left, 2 * n + 1, 2 * n + 2);
            }
            for n in splits..2 * splits + 1 {
                tree.leaf(n, &[f64::from(n % 3)]);
            }
        }
        forest.build().expect("a forest")
    }

    /// Registers are the fastest engine for a row of small trees. The large trees have 273 tiles of 128 bytes each, and
    /// all of them take four times as much room as the second cache has.
    #[test]
    fn a_row_of_large_tables_walks_trees_abreast_where_gathers_are_fast() {
        if isa() < Isa::Avx512 {
            return;
        }
        let many = (4 * Machine::here().hardware.cache).div_ceil(273 * 128) as u32;
        for (trees, depth, by) in [(60, 4, FewRows::Registers), (many, 10, FewRows::Abreast)] {
            let by = if crate::cost::gathers() { by } else { FewRows::Registers };
            let forest = full_trees(trees, depth);
            let builder = Predictor::builder(&forest).threads(1).check(SelfCheck::Off);
            let predictor = builder.build().expect("a predictor");
            assert_eq!(predictor.plan_for(1).program.few_rows_engine(), by, "depth {depth}");
        }
    }

    #[test]
    fn a_row_of_categories_goes_through_masks() {
        if isa() < Isa::Avx512 {
            return;
        }
        let mut forest = Forest::builder(2, 1);
        let set = forest.set([1, 4], CategoryRule::Whole);
        for _ in 0..20 {
            let mut tree = forest.tree(0);
            tree.split(0, Predicate::InSet { set, inside: Side::Left }, Side::Left, 1, 2);
            tree.split(1, CompareType::F32.less(0.5), Side::Left, 3, 4);
            (2..5).for_each(|node| _ = tree.leaf(node, &[f64::from(node)]));
        }
        let forest = forest.build().expect("a forest");
        let builder = Predictor::builder(&forest).threads(1).check(SelfCheck::Off);
        let predictor = builder.build().expect("a predictor");
        assert_eq!(predictor.plan_for(1).program.few_rows_engine(), FewRows::Masks);
    }
}
