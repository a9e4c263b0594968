//! Which engine walks a few rows, and what a batch takes by each: the one place where that is chosen.

#[cfg(target_arch = "x86_64")]
use super::arch::x86::avx2::abreast::TREES_AT_LEAST;
use super::{
    encoded::Encoded,
    engine::blend,
    engine::full::Full,
    engine::registers::{self, Registers},
    engine::walk,
};
use crate::{forest::Forest, schedule::FewRows};

/// Cycles of a step of a walk beside some others, …
const STEP: f64 = 4.0;
/// … and beside 63 in vectors.
const VECTOR_STEP: f64 = 2.0;
/// The same of a row through trees abreast, where a walk waits for those beside it.
const ABREAST_STEP: f64 = 2.5;
/// Cycles that are worth waking a thread for.
const SHARE: f64 = 50_000.0;

/// What of a forest, its plan and the machine decides on the engine for a few rows.
pub(super) struct Wanted<'a> {
    pub(super) forest: &'a Forest,
    /// Trees by position.
    pub(super) order: &'a [u32],
    /// Whether each node asks for a threshold of an `f32`, and some block walks a tree for all its rows.
    pub(super) small: bool,
    /// Whether the machine has vector kernels for these nodes.
    pub(super) vectors: bool,
    /// The engine that is allowed, or a choice of all.
    pub(super) engine: FewRows,
}

/// What walks a few rows, with its tables.
#[derive(Clone, Debug)]
pub(super) enum FewRowsEngine {
    /// A row in registers, four levels of a tree a step.
    Registers(Registers),
    /// 64 trees abreast, by gathers.
    Abreast,
    /// Trees that are filled up, four side by side.
    Full(Full),
    /// Walks of one row after the other.
    Rows,
    /// What walks many rows.
    Walks,
}

impl FewRowsEngine {
    /// The first that can serve the forest here, in the order of their speed: a row in registers, which has a limit of columns; trees
    /// abreast, where gathers are fast; full trees, which have a limit of depth.
    pub(super) fn select(wanted: &Wanted<'_>) -> Self {
        if wanted.engine == FewRows::Walk {
            return Self::Walks;
        }
        if !wanted.small {
            return Self::Rows;
        }
        let is = |engine| wanted.engine == FewRows::Auto || wanted.engine == engine;
        if is(FewRows::Registers)
            && wanted.vectors
            && let Some(few) = Registers::new(wanted.forest, wanted.order)
        {
            return Self::Registers(few);
        }
        if is(FewRows::Abreast) && can_go_abreast(wanted) {
            return Self::Abreast;
        }
        if is(FewRows::Full)
            && let Some(full) = Full::new(wanted.forest, wanted.order)
        {
            return Self::Full(full);
        }
        Self::Rows
    }

    /// Its name.
    pub(super) fn name(&self) -> FewRows {
        match self {
            Self::Registers(_) => FewRows::Registers,
            Self::Abreast => FewRows::Abreast,
            Self::Full(_) => FewRows::Full,
            Self::Rows => FewRows::Rows,
            Self::Walks => FewRows::Walk,
        }
    }

    /// Fewer rows than this go through it.
    pub(super) fn rows(&self) -> usize {
        match self {
            Self::Registers(_) => registers::ROWS,
            Self::Abreast | Self::Full(_) | Self::Rows | Self::Walks => walk::FEW_ROWS,
        }
    }

    /// Bytes of its tables.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Registers(few) => few.bytes(),
            Self::Full(full) => full.bytes(),
            Self::Abreast | Self::Rows | Self::Walks => 0,
        }
    }

    /// Cycles of a row, about, whose walks through these nodes have so many steps.
    fn cycles(&self, steps: f64) -> f64 {
        match self {
            Self::Registers(few) => few.cycles(),
            Self::Abreast => ABREAST_STEP * steps,
            Self::Full(full) => full.cycles(),
            Self::Rows | Self::Walks => STEP * steps,
        }
    }

    /// What it does, as a program's text says it; `None` for walks, by row or not.
    pub(super) fn text(&self) -> Option<String> {
        Some(match self {
            Self::Registers(few) => format!("{} tiles of 15 splits", few.tiles.len()),
            Self::Abreast => "64 trees abreast".into(),
            Self::Full(_) => "trees filled up, four side by side".into(),
            Self::Rows | Self::Walks => return None,
        })
    }
}

/// From how many rows of a block on blends, which take so many cycles for a whole one, take less than walks of its rows one by one.
pub(super) fn blended_from(blends: f64, nodes: &Encoded<f32>) -> usize {
    let rows = blends / (STEP * nodes.steps() as f64);
    (rows.ceil() as usize).clamp(1, blend::BLOCK)
}

/// Whether rows can go through many trees abreast, and where that is only chosen, whether gathers make it worthwhile.
#[cfg(target_arch = "x86_64")]
fn can_go_abreast(wanted: &Wanted<'_>) -> bool {
    let able = wanted.vectors && wanted.order.len() >= TREES_AT_LEAST && !wanted.forest.features.is_empty();
    able && (wanted.engine == FewRows::Abreast || crate::isa::gathers())
}

#[cfg(not(target_arch = "x86_64"))]
fn can_go_abreast(_: &Wanted<'_>) -> bool {
    false
}

/// Cycles that batches take, about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// Of a row, where rows are few.
    few: f64,
    /// Of a row among many that are walked.
    many: f64,
    /// Of a block of rows by blends, where there are some.
    block: Option<f64>,
}

impl Costs {
    /// Counted once: a batch of one row is shorter than the count.
    pub(super) fn new(few: &FewRowsEngine, nodes: &Encoded<f32>, vectors: bool, block: Option<f64>) -> Self {
        let steps = nodes.steps() as f64;
        let step = if vectors { VECTOR_STEP } else { STEP };
        Self { few: few.cycles(steps), many: step * steps, block }
    }

    /// Cycles of a batch, of which fewer than `few_rows` rows are few.
    fn of(&self, rows: usize, few_rows: usize) -> f64 {
        match self.block {
            Some(block) => block * rows.div_ceil(blend::BLOCK) as f64,
            None if rows < few_rows => self.few * rows as f64,
            None => self.many * rows as f64,
        }
    }

    /// Into how many shares a batch may be dealt out so that each is worth a thread.
    pub(super) fn shares(&self, rows: usize, few_rows: usize) -> usize {
        (self.of(rows, few_rows) / SHARE) as usize
    }

    /// How many rows these take less time for than a block of the other's by blends: at least one, and a block's rows at most.
    pub(super) fn rows_below_a_block_of(&self, many: &Self) -> usize {
        let rows = many.block.unwrap_or(0.0) / self.few;
        // As a cast makes of any number, so of none.
        (rows as usize).clamp(1, blend::BLOCK)
    }
}
