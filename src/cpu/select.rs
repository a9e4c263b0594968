//! Which engine runs a block of rows: the one place where that is chosen.

use super::{
    engine::{
        Block, BlockEngine, EngineRequest, Source, Trees, abreast::Abreast, blend::Blends, full::FullTrees,
        registers::Registers, tiles::TileWalks, vectors::Vectors, walks::Walks,
    },
    engines::Engine,
    rows::{Row, Rows},
    sink::Sink,
    window::Window,
};
use crate::{
    cost::{BLOCK, Machine},
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
    /// Blocks of fewer rows than this go through the engine for a few rows.
    few_rows: usize,
    /// Blocks of fewer rows than this are walked one by one, each row beside other trees.
    one_by_one: usize,
}

/// What runs blocks of a few rows.
#[derive(Clone, Debug)]
enum FewRowsEngine {
    Registers(Registers),
    Abreast(Abreast),
    FullTrees(FullTrees),
    /// Walks of one row after the other.
    Rows,
    /// What walks many rows.
    Walks,
}

/// Copies of rows by column that a run has made.
#[derive(Clone, Copy)]
pub(super) enum Windows<'a> {
    /// None, or one of values.
    Values(Option<Window<'a>>),
    /// One of ranks, which has the block's rows.
    Ranks(Window<'a, u8>),
}

/// The engine for a block, and what it is given.
pub(super) struct Choice<'e, 'r, 'a, T> {
    by: Chosen<'e>,
    pub(super) engine: Engine,
    /// Trees and rows that the engine leaves are run by it.
    rest: Engine,
    source: Source<'r, 'a, T>,
    block: Block,
}

/// Engines by name, each with its tables: a line an engine.
macro_rules! engines {
    ($($name:ident($engine:ty)),* $(,)?) => {
        /// An engine that runs a block.
        #[derive(Clone, Copy)]
        enum Chosen<'e> {
            $($name(&'e $engine)),*
        }

        impl<T: Row> Choice<'_, '_, '_, T> {
            /// Hands the leaves of the block's rows to `sink`.
            ///
            /// # Safety
            /// The block's spans are inside rows and trees; rows have the forest's columns; the trees are those that the engines were
            /// built for.
            pub(super) unsafe fn run<S: Sink>(self, trees: &Trees<'_>, sink: S) {
                let Self { by, rest, source, block, .. } = self;
                // SAFETY: the engine is chosen where it serves the block; otherwise as promised to this function.
                unsafe {
                    match by {
                        $(Chosen::$name(engine) => engine.run(trees, source, block, rest, sink)),*
                    }
                }
            }
        }
    };
}

engines! {
    Walks(Walks),
    Vectors(Vectors),
    Tiles(TileWalks),
    Blends(Blends),
    Registers(Registers),
    Abreast(Abreast),
    FullTrees(FullTrees),
}

impl FewRowsEngine {
    /// The engine that the schedule asks for; otherwise the first that can serve the forest here, in the order of their speed: a row in
    /// registers, which has a limit of columns; trees abreast, where gathers are fast; full trees, which have a limit of depth.
    fn build(wanted: &EngineRequest<'_>) -> Self {
        #[cfg(target_arch = "x86_64")]
        let gathers = || crate::cost::gathers();
        #[cfg(not(target_arch = "x86_64"))]
        let gathers = || false;
        let registers = || Registers::build(wanted).map(Self::Registers);
        let abreast = || Abreast::build(wanted).map(Self::Abreast);
        let full = || FullTrees::build(wanted).map(Self::FullTrees);
        match wanted.by {
            FewRows::Walk => return Self::Walks,
            FewRows::Rows => None,
            FewRows::Registers => registers(),
            FewRows::Abreast => abreast(),
            FewRows::Full => full(),
            FewRows::Auto => registers().or_else(|| abreast().filter(|_| gathers())).or_else(full),
        }
        .unwrap_or(Self::Rows)
    }

    /// The engine and its name, if it has tables of its own and can run the block.
    fn serves<T: Row>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: &Block,
    ) -> Option<(Chosen<'_>, Engine)> {
        let (serves, chosen, name) = match self {
            Self::Registers(e) => (e.serves(trees, source, block), Chosen::Registers(e), Engine::Registers),
            Self::Abreast(e) => (e.serves(trees, source, block), Chosen::Abreast(e), Engine::Abreast),
            Self::FullTrees(e) => (e.serves(trees, source, block), Chosen::FullTrees(e), Engine::FullTrees),
            Self::Rows | Self::Walks => return None,
        };
        serves.then_some((chosen, name))
    }
}

impl EngineSet {
    pub(super) fn build(wanted: &EngineRequest<'_>) -> Self {
        let costs = Machine::here();
        let few = FewRowsEngine::build(wanted);
        let one_by_one = costs.walk.rows_one_by_one();
        Self {
            few_rows: if let FewRowsEngine::Registers(_) = few { costs.registers.rows } else { one_by_one },
            few,
            one_by_one,
            walks: Walks::new(wanted),
            vectors: Vectors::build(wanted),
            tiles: TileWalks::build(wanted),
            blends: Blends::build(wanted),
        }
    }

    /// The engine for a block of these rows.
    pub(super) fn choose<'e, 'r, 'a, T: Row>(
        &'e self,
        trees: &Trees<'_>,
        rows: &'r Rows<'a, T>,
        windows: Windows<'a>,
        block: Block,
    ) -> Choice<'e, 'r, 'a, T> {
        let source = match windows {
            Windows::Ranks(ranks) => Source::Ranks(ranks),
            Windows::Values(Some(window)) => Source::Copy(window),
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
                by: Chosen::Blends(blends),
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
            && let Some((by, engine)) = self.few.serves(trees, source, &block)
        {
            return Choice { by, engine, rest: Engine::WalksByRow, source, block };
        }
        let (by, engine) = walks;
        // One row comes to the trees in the same order either way.
        let one = row.count == 1 && shape.rows_inside && matches!(engine, Engine::Walks | Engine::Tiles);
        let by_row = one && !is_ranks || matches!(engine, Engine::WalksByRow | Engine::TilesByRow);
        let block = if by_row { Block { shape: shape.by_row(), ..block } } else { block };
        Choice { by, engine, rest: engine, source, block }
    }

    /// What walks a block, and in which way.
    fn walks<T: Row>(
        &self,
        trees: &Trees<'_>,
        source: Source<'_, '_, T>,
        block: &Block,
    ) -> (Chosen<'_>, Engine) {
        let (row, shape) = (block.row, block.shape);
        // Of so few rows walks of one tree would wait for their loads, so those of several trees advance together.
        let few = !matches!(self.few, FewRowsEngine::Walks);
        let by_row = |rows: usize| few && shape.rows_inside && row.count < rows;
        if let Some(tiles) = &self.tiles
            && tiles.serves(trees, source, block)
        {
            let by_row = by_row(Machine::here().walk.tiled_rows);
            return (Chosen::Tiles(tiles), if by_row { Engine::TilesByRow } else { Engine::Tiles });
        }
        if let Some(vectors) = &self.vectors
            && row.count >= self.one_by_one
            && vectors.serves(trees, source, block)
        {
            return (Chosen::Vectors(vectors), Engine::Vectors);
        }
        let singles = match source {
            Source::Rows(rows) => T::singles(rows).is_some(),
            Source::Copy(_) => true,
            Source::Ranks(_) => false,
        };
        let engine = match source {
            Source::Copy(window) if !window.together(row) => Engine::WalksByWindow,
            _ if singles && by_row(self.one_by_one) => Engine::WalksByRow,
            _ => Engine::Walks,
        };
        (Chosen::Walks(&self.walks), engine)
    }

    /// Blends, where the plan has some; rows are then ranked a window at a time.
    pub(super) fn blends(&self) -> Option<&Blends> {
        self.blends.as_ref()
    }

    /// Whether walks of many rows go in vectors.
    pub(super) fn has_vectors(&self) -> bool {
        self.vectors.is_some()
    }

    /// Whether many rows go through kernels of vectors, of nodes or of tiles.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) fn has_vector_kernels(&self) -> bool {
        self.vectors.is_some() || self.tiles.is_some()
    }

    /// Blocks of fewer rows than this go through the engine for a few rows.
    pub(super) fn few_rows(&self) -> usize {
        self.few_rows
    }

    /// The same, for batches for which `many` would have been taken that are small enough to be faster here.
    pub(super) fn instead_of(self, many: &Self) -> Self {
        let block = many.blends.as_ref().map_or(0.0, |blends| blends.seconds(BLOCK));
        // As a cast makes of any number, so of none.
        let rows = (block / self.few_rows_seconds(1)) as usize;
        Self { few_rows: rows.clamp(1, BLOCK), ..self }
    }

    /// The engine for a few rows.
    pub(super) fn few_rows_engine(&self) -> FewRows {
        match self.few {
            FewRowsEngine::Registers(_) => FewRows::Registers,
            FewRowsEngine::Abreast(_) => FewRows::Abreast,
            FewRowsEngine::FullTrees(_) => FewRows::Full,
            FewRowsEngine::Rows => FewRows::Rows,
            FewRowsEngine::Walks => FewRows::Walk,
        }
    }

    /// What it does, as a program's text says it; `None` for walks, by row or not.
    pub(super) fn few_rows_text(&self) -> Option<String> {
        Some(match &self.few {
            FewRowsEngine::Registers(few) => format!("{} tiles of 15 splits", few.tiles.len()),
            FewRowsEngine::Abreast(_) => "64 trees abreast".into(),
            FewRowsEngine::FullTrees(_) => "trees filled up, four side by side".into(),
            FewRowsEngine::Rows | FewRowsEngine::Walks => return None,
        })
    }

    fn few_rows_seconds(&self, rows: usize) -> f64 {
        match &self.few {
            FewRowsEngine::Registers(few) => few.seconds(rows),
            FewRowsEngine::Abreast(abreast) => abreast.seconds(rows),
            FewRowsEngine::FullTrees(full) => full.seconds(rows),
            FewRowsEngine::Rows | FewRowsEngine::Walks => self.walks.seconds(rows),
        }
    }

    /// Seconds that a batch takes, about.
    pub(super) fn seconds(&self, rows: usize) -> f64 {
        match (&self.blends, &self.vectors, &self.tiles) {
            (Some(blends), ..) => blends.seconds(rows),
            _ if rows < self.few_rows => self.few_rows_seconds(rows),
            (_, Some(vectors), _) => vectors.seconds(rows),
            (_, _, Some(tiles)) => tiles.seconds(rows),
            _ => self.walks.seconds(rows),
        }
    }

    /// Bytes of the engines' tables, besides the nodes.
    pub(super) fn bytes(&self) -> usize {
        let few = match &self.few {
            FewRowsEngine::Registers(few) => few.bytes(),
            FewRowsEngine::Abreast(abreast) => abreast.bytes(),
            FewRowsEngine::FullTrees(full) => full.bytes(),
            FewRowsEngine::Rows | FewRowsEngine::Walks => 0,
        };
        few + self.blends.as_ref().map_or(0, BlockEngine::bytes)
    }
}
