//! The costs that choices read, by instruction set.
//!
//! The costs of estimates were fitted to times of random models. The others were found as cycles on trained
//! models, on Intel Xeons and AMD's Zen 4 (`benches/NOTEBOOK.md`). They are seconds at one clock rate here,
//! because choices compare them with each other. `fangorn-benches fit` measures each of them in forests that are
//! drawn for it. Most measured costs are within a factor of two of the shipped ones. Where they differ, the
//! shipped costs chose better on trained models: see "One unit for costs" in the notebook.

use super::{Blend, ColumnBlock, Hardware, Machine, Ranking, Registers, Walk, Ways};

/// Seconds of a cycle. They are whole picoseconds, because sums of the costs of blend groups have to
/// tie.
const CYCLE: f64 = 286e-12;

/// Returns the seconds of `n` cycles.
const fn cycles(n: f64) -> f64 {
    n * CYCLE
}

const XEON: Hardware =
    Hardware { clock: 1.0 / CYCLE, cache: 1 << 20, bandwidth: 1e10, prefetched: 16, gather: cycles(6.0) };

// Fitted by `benches/experiments/fit_estimates.py` to times of random models on an AMD EPYC (Zen 4),
// 24 November 2026.
const WAYS_AVX512: Ways = Ways {
    split: 6.45e-10,
    load: 6.28e-10,
    tree: 1.15e-8,
    thresholds: 4.28e-8,
    question: 3.07e-8,
    column: 2.09e-8,
    step: 6.12e-10,
    tested_step: 8.85e-10,
    waiting_step: 3.27e-8,
    set_step: 1.36e-8,
    row_step: 2.43e-9,
};

const WAYS_AVX2: Ways = Ways {
    split: 1.67e-9,
    load: 2.69e-10,
    tree: 6.24e-9,
    thresholds: 5.93e-8,
    question: 3.58e-8,
    column: 2.07e-8,
    step: 8.75e-10,
    tested_step: 1.14e-9,
    waiting_step: 3.51e-8,
    set_step: 1.30e-8,
    row_step: 2.48e-9,
};

const WAYS_PORTABLE: Ways = Ways {
    split: 3e-9,
    load: 0.0,
    tree: 4.19e-8,
    thresholds: 2.61e-7,
    question: 6.58e-8,
    column: 6.73e-8,
    step: 1.47e-9,
    tested_step: 1.75e-9,
    waiting_step: 4.81e-8,
    set_step: 1e-8,
    row_step: 2.41e-9,
};

/// Costs of a row in registers. Only AVX-512 has a kernel for that.
const REGISTERS: Registers = Registers {
    tile: [cycles(5.5), cycles(6.5), cycles(7.5), cycles(9.0)],
    tree: cycles(2.0),
    misprediction: cycles(20.0),
    rows: 32,
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

const fn ranking(column_block: Option<ColumnBlock>) -> Ranking {
    Ranking { rows: 16, column_block }
}

pub(super) const AVX512: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, AVX-512",
    hardware: XEON,
    ways: WAYS_AVX512,
    walk: Walk {
        one: cycles(4.0),
        block: cycles(96.0),
        abreast: cycles(2.5),
        full: cycles(2.2),
        tiled_rows: 8,
        places: 1.1,
    },
    registers: REGISTERS,
    blend: blend(1.0),
    ranking: ranking(Some(ColumnBlock {
        copy: cycles(300.0),
        layer: cycles(200.0),
        threshold: cycles(4.0),
        search: cycles(9.0),
        level: cycles(6.0),
    })),
    thread: cycles(50000.0),
};

pub(super) const AVX2: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, AVX2",
    hardware: XEON,
    ways: WAYS_AVX2,
    walk: Walk {
        one: cycles(4.0),
        block: cycles(96.0),
        abreast: cycles(2.5),
        full: cycles(2.2),
        tiled_rows: 8,
        places: 1.1,
    },
    registers: REGISTERS,
    blend: blend(1.5),
    ranking: ranking(Some(ColumnBlock {
        copy: cycles(400.0),
        layer: cycles(400.0),
        threshold: cycles(6.0),
        search: cycles(15.0),
        level: cycles(16.0),
    })),
    thread: cycles(50000.0),
};

pub(super) const PORTABLE: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, portable",
    hardware: XEON,
    ways: WAYS_PORTABLE,
    walk: Walk {
        one: cycles(4.0),
        block: cycles(96.0),
        abreast: cycles(2.5),
        full: cycles(2.2),
        tiled_rows: 8,
        places: 1.1,
    },
    registers: REGISTERS,
    blend: blend(6.0),
    ranking: ranking(None),
    thread: cycles(50000.0),
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
}
