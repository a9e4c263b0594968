//! Which engine walks a few rows, and what a batch takes by each: the one place where that is chosen.

#[cfg(target_arch = "x86_64")]
use super::arch::x86::avx2::abreast::TREES_AT_LEAST;
use super::{encoded::Encoded, engine::blend, engine::full::Full, engine::registers::Registers};
use crate::{cost::Machine, forest::Forest, schedule::FewRows};

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

    /// Fewer rows than this of a block go through it.
    pub(super) fn rows(&self) -> usize {
        let costs = Machine::here();
        match self {
            Self::Registers(_) => costs.registers.rows,
            Self::Abreast | Self::Full(_) | Self::Rows | Self::Walks => costs.walk.rows_one_by_one(),
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

    /// Seconds of a row, about, whose walks through these nodes have so many steps.
    fn row(&self, steps: f64) -> f64 {
        let walk = &Machine::here().walk;
        match self {
            Self::Registers(few) => few.seconds(),
            Self::Abreast => walk.abreast * steps,
            Self::Full(full) => full.seconds(),
            Self::Rows | Self::Walks => walk.one * steps,
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

/// From how many rows of a block on blends, which take so many seconds for a whole one, take less than walks of its rows one by one.
pub(super) fn blended_from(blends: f64, nodes: &Encoded<f32>) -> usize {
    let rows = blends / (Machine::here().walk.one * nodes.steps() as f64);
    (rows.ceil() as usize).clamp(1, blend::BLOCK)
}

/// Whether rows can go through many trees abreast, and where that is only chosen, whether gathers make it worthwhile.
#[cfg(target_arch = "x86_64")]
fn can_go_abreast(wanted: &Wanted<'_>) -> bool {
    let able = wanted.vectors && wanted.order.len() >= TREES_AT_LEAST && !wanted.forest.features.is_empty();
    able && (wanted.engine == FewRows::Abreast || crate::cost::gathers())
}

#[cfg(not(target_arch = "x86_64"))]
fn can_go_abreast(_: &Wanted<'_>) -> bool {
    false
}

/// Seconds that batches take, about.
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
        let walk = &Machine::here().walk;
        let step = if vectors { walk.many } else { walk.one };
        Self { few: few.row(steps), many: step * steps, block }
    }

    /// A batch, of which fewer than `few_rows` rows are few.
    fn of(&self, rows: usize, few_rows: usize) -> f64 {
        match self.block {
            Some(block) => block * rows.div_ceil(blend::BLOCK) as f64,
            None if rows < few_rows => self.few * rows as f64,
            None => self.many * rows as f64,
        }
    }

    /// Into how many shares a batch may be dealt out so that each is worth a thread.
    pub(super) fn shares(&self, rows: usize, few_rows: usize) -> usize {
        (self.of(rows, few_rows) / Machine::here().thread) as usize
    }

    /// How many rows these take less time for than a block of the other's by blends: at least one, and a block's rows at most.
    pub(super) fn rows_below_a_block_of(&self, many: &Self) -> usize {
        let rows = many.block.unwrap_or(0.0) / self.few;
        // As a cast makes of any number, so of none.
        (rows as usize).clamp(1, blend::BLOCK)
    }
}
