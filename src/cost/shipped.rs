//! The costs that choices read, by instruction set.
//!
//! The costs of estimates were fitted to times of random models on AMD's Zen 5. The others were found as cycles on
//! trained models, on Intel Xeons and on Zen 4 (`benches/NOTEBOOK.md`). They are seconds at one clock rate here,
//! because choices compare them with each other; those of few rows are twice the cycles of a Xeon, as on Zen 4,
//! because they are compared with estimates. `fangorn-benches fit` measures each of them in forests that are drawn
//! for it. Where they differ, the shipped costs chose better on trained models: see "One unit for costs" in the
//! notebook.

use super::{
    Blend, ColumnBlock, ContributionCosts, Hardware, LeafVectors, Machine, Ranking, Registers, RowOrBlock,
    SparseColumns, SparseRanking, TileCosts, Walk, Ways, Writes,
};

/// Seconds of a cycle. They are whole picoseconds, because sums of the costs of blend groups have to
/// tie.
const CYCLE: f64 = 286e-12;

/// Returns the seconds of `n` cycles.
const fn cycles(n: f64) -> f64 {
    n * CYCLE
}

const XEON: Hardware = Hardware {
    clock: 1.0 / CYCLE,
    closest_cache: 32 << 10,
    cache: 1 << 20,
    near_copy: 512 << 10,
    gather: cycles(6.0),
};

// Fitted by `benches/experiments/fit_estimates.py` to times of random models on an AMD EPYC (Zen 5), 29 November 2026,
// and multiplied by 1.4: a step of one row then costs what it takes on Zen 4, as do the costs of few rows. `far_column`
// was fitted on an Intel Xeon (Emerald Rapids), 29 November 2026, with AVX-512 and with AVX2; its ratio to `step` was
// kept. Portable code has that of AVX2.
const WAYS_AVX512: Ways = Ways {
    split: 4.44e-10,
    load: 7.21e-10,
    tree: 1.21e-8,
    thresholds: 1.97e-8,
    level: 3.88e-9,
    question: 9.46e-9,
    codes: 1.76e-7,
    column: 8.86e-9,
    far_column: 2.27e-8,
    step: 3.49e-10,
    tested_step: 5.85e-10,
    waiting_step: 1.72e-8,
    far_step: 1.86e-10,
    node: 1.96e-9,
    set_step: 1.83e-8,
    row_step: 2.52e-9,
};

const WAYS_AVX2: Ways = Ways {
    split: 1.57e-9,
    load: 3.47e-10,
    tree: 6.37e-9,
    thresholds: 0.0,
    level: 1.22e-8,
    question: 1.21e-8,
    codes: 1.57e-7,
    column: 1.23e-8,
    far_column: 4.65e-8,
    step: 6.89e-10,
    tested_step: 9.55e-10,
    waiting_step: 2.02e-8,
    far_step: 1.24e-10,
    node: 1.58e-9,
    set_step: 1.75e-8,
    row_step: 2.49e-9,
};

const WAYS_PORTABLE: Ways = Ways {
    split: 9.76e-9,
    load: 2.39e-10,
    tree: 1.28e-8,
    thresholds: 0.0,
    level: 6.01e-8,
    question: 4.79e-8,
    codes: 1.14e-7,
    column: 5.29e-8,
    far_column: 4.65e-8,
    step: 1.50e-9,
    tested_step: 1.78e-9,
    waiting_step: 4.61e-8,
    far_step: 4.77e-10,
    node: 0.0,
    set_step: 1.41e-8,
    row_step: 2.51e-9,
};

// Fitted by `fangorn-benches fit` on an Intel Xeon (Sapphire Rapids), 28 November 2026, with `FANGORN_ISA` for AVX2 and
// portable code.
const CONTRIBUTIONS_AVX512: ContributionCosts = ContributionCosts {
    test: 4.0e-10,
    split: 2.5e-10,
    point: 2.0e-11,
    bit: 0.0,
    lookup: 2.1e-11,
    read: 9.6e-11,
};

const CONTRIBUTIONS_AVX2: ContributionCosts = ContributionCosts {
    test: 5.7e-10,
    split: 6.0e-10,
    point: 8.0e-11,
    bit: 0.0,
    lookup: 1.55e-10,
    read: 8.1e-11,
};

const CONTRIBUTIONS_PORTABLE: ContributionCosts = ContributionCosts {
    test: 3.3e-10,
    split: 1.05e-9,
    point: 2.5e-10,
    bit: 4.0e-10,
    lookup: 6.6e-10,
    read: 6.0e-11,
};

// Read off the times of one row of own-forest, own-leafwise and own-thousand through registers and through trees
// abreast, in turns with another schedule, on an Intel Xeon (Emerald Rapids), 29 November 2026, as is what a far tile
// of four levels adds.
const FAR_ABREAST: f64 = 0.8e-9;

// The seconds of a row were measured by `fangorn-benches fit` on an Intel Xeon (Emerald Rapids), 29 November 2026. A
// row block takes as long as so many rows as were found on trained models on several machines: 8 through tiles, 32
// through registers, 4 and with portable code 10 of ranks. On the Xeon `fit` found 11 to 15, 32 to 34, 2 and 16.
// Portable code has no kernel for tiles, and only AVX-512 has one for registers.
const TILES: RowOrBlock = RowOrBlock::of_rows(3.6e-9, 8.0);
const TREE_OF_EIGHT: RowOrBlock = RowOrBlock::of_rows(7.1e-9, 32.0);
const COLUMNS_AVX512: RowOrBlock = RowOrBlock::of_rows(2.3e-7, 4.0);
const COLUMNS_AVX2: RowOrBlock = RowOrBlock::of_rows(4.6e-7, 4.0);
const COLUMNS_PORTABLE: RowOrBlock = RowOrBlock::of_rows(3.3e-7, 10.0);

/// Costs of a row in registers. Only AVX-512 has a kernel for that. `fit` finds 25 ns for a misprediction; 40 cycles
/// chose better among the walks through tiles of four levels ("Rows in registers, leaf-wise trees" in
/// `benches/NOTEBOOK.md`). The costs of tiles of any shape and of look-ups are within a fifth of those that `fit` finds on
/// an Intel Xeon (Emerald Rapids), 30 November 2026.
const REGISTERS: Registers = Registers {
    tile: TileCosts {
        first: [cycles(15.0), cycles(17.0), cycles(19.0), cycles(22.0)],
        next: [cycles(11.0), cycles(13.0), cycles(15.0), cycles(18.0)],
        misprediction: cycles(40.0),
        far: 15e-9,
    },
    mask_tile: TileCosts {
        first: [cycles(19.5), cycles(24.0), cycles(29.0), cycles(33.0)],
        next: [cycles(32.0), cycles(40.0), cycles(51.0), cycles(55.0)],
        misprediction: 25e-9,
        far: 30e-9,
    },
    kept: cycles(1.0),
    look_up: 2.5e-9,
    tree_of_eight: TREE_OF_EIGHT,
};

/// Returns the costs of blends whose instructions take this many times as long as those of AVX-512.
const fn blend(times: f64) -> Blend {
    Blend {
        bottom: [times * cycles(3.0), times * cycles(6.0), times * cycles(10.0)],
        seven: times * cycles(15.0),
        three: times * cycles(9.0),
        one: times * cycles(6.0),
    }
}

// The elements that are ranked one by one or written out were measured by `fangorn-benches fit` on the same machine.
// The other seconds are such that the ways take equally long where they do in `fangorn-benches sparse-rows` on
// own-sparse: one by one and in compressed columns at 1 element for each column of ranks, in compressed columns and
// written out at 10, one by one and written out at 2.5. Only AVX-512 with VBMI2 has a kernel for compressed columns.
const SPARSE_AVX512: SparseRanking = SparseRanking {
    element: 6.4e-9,
    compressed: SparseColumns { column: 4.9e-9, element: 1.5e-9 },
    written: SparseColumns { column: 1.48e-8, element: 5.1e-10 },
};
const SPARSE_AVX2: SparseRanking = SparseRanking {
    element: 7.0e-9,
    written: SparseColumns { column: 1.57e-8, element: 7.2e-10 },
    ..SPARSE_AVX512
};
const SPARSE_PORTABLE: SparseRanking = SparseRanking {
    element: 1.32e-8,
    written: SparseColumns { column: 3.16e-8, element: 5.7e-10 },
    ..SPARSE_AVX512
};

// These seconds are such that vectors of 32 values take equally long both ways, as on trained forests of 26 to 150
// classes: "Wide leaves, copies and small products as seconds" in the notebook.
const LEAF_VECTORS: LeafVectors = LeafVectors { by_walks: 1.1e-10, after_walks: 0.85e-10, slot: 7.9e-10 };
// Filling a value takes a sixteenth of the time of writing one at a looked-up index: `fangorn-benches sparse-rows` on
// trained models.
const WRITES: Writes = Writes { indexed: 1.6e-9, filled: 1e-10 };

const fn ranking(columns: RowOrBlock, sparse: SparseRanking, column_block: Option<ColumnBlock>) -> Ranking {
    Ranking { columns, sparse, column_block }
}

pub(super) const AVX512: Machine = Machine {
    name: "AVX-512",
    hardware: XEON,
    ways: WAYS_AVX512,
    measured: false,
    walk: Walk {
        one: cycles(8.0),
        block: cycles(192.0),
        abreast: cycles(5.0),
        far_abreast: FAR_ABREAST,
        full: cycles(4.4),
        tiles: TILES,
    },
    registers: REGISTERS,
    blend: blend(1.0),
    ranking: ranking(
        COLUMNS_AVX512,
        SPARSE_AVX512,
        Some(ColumnBlock {
            copy: cycles(300.0),
            layer: cycles(200.0),
            threshold: cycles(4.0),
            search: cycles(9.0),
            level: cycles(6.0),
        }),
    ),
    contributions: CONTRIBUTIONS_AVX512,
    leaf_vectors: LEAF_VECTORS,
    writes: WRITES,
    row: cycles(24.5),
    thread: cycles(100000.0),
};

pub(super) const AVX2: Machine = Machine {
    name: "AVX2",
    hardware: XEON,
    ways: WAYS_AVX2,
    measured: false,
    walk: Walk {
        one: cycles(8.0),
        block: cycles(192.0),
        abreast: cycles(5.0),
        far_abreast: FAR_ABREAST,
        full: cycles(4.4),
        tiles: TILES,
    },
    registers: REGISTERS,
    blend: blend(1.5),
    ranking: ranking(
        COLUMNS_AVX2,
        SPARSE_AVX2,
        Some(ColumnBlock {
            copy: cycles(400.0),
            layer: cycles(400.0),
            threshold: cycles(6.0),
            search: cycles(15.0),
            level: cycles(16.0),
        }),
    ),
    contributions: CONTRIBUTIONS_AVX2,
    leaf_vectors: LEAF_VECTORS,
    writes: WRITES,
    row: cycles(24.5),
    thread: cycles(100000.0),
};

pub(super) const PORTABLE: Machine = Machine {
    name: "portable",
    hardware: XEON,
    ways: WAYS_PORTABLE,
    measured: false,
    walk: Walk {
        one: cycles(8.0),
        block: cycles(192.0),
        abreast: cycles(5.0),
        far_abreast: FAR_ABREAST,
        full: cycles(4.4),
        tiles: TILES,
    },
    registers: REGISTERS,
    blend: blend(6.0),
    ranking: ranking(COLUMNS_PORTABLE, SPARSE_PORTABLE, None),
    contributions: CONTRIBUTIONS_PORTABLE,
    leaf_vectors: LEAF_VECTORS,
    writes: WRITES,
    row: cycles(24.5),
    thread: cycles(100000.0),
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The groups of a tree are weighed against each other, and many sums of their costs have to be
    /// equal.
    #[test]
    fn groups_cost_whole_picoseconds_that_add_up() {
        for machine in [AVX512, AVX2, PORTABLE] {
            let Blend { bottom, seven, three, one, .. } = machine.blend;
            let [first, second, third, seven, three, one] =
                [bottom[0], bottom[1], bottom[2], seven, three, one].map(crate::cost::picoseconds);
            assert_eq!(
                (2 * first, first + second, second + three),
                (second, three, seven),
                "{}",
                machine.name
            );
            assert_eq!((one, 10 * first), (second, 3 * third), "{}", machine.name);
            assert_eq!(machine.walk.rows_one_by_one(), 24, "{}", machine.name);
        }
    }

    /// Numbers of rows and values that were found on trained models.
    #[test]
    fn crossings_are_those_of_trained_models() {
        for machine in [AVX512, AVX2, PORTABLE] {
            let wide = [31, 32].map(|width| machine.leaf_vectors.are_added_after_walks(width));
            assert_eq!((wide, machine.rows_a_task()), ([false, true], 4096), "{}", machine.name);
        }
        assert_eq!(crate::cost::PRODUCTS.unpacked_rows(), 12);
    }
}
