//! The costs that choices read, by instruction set. They were found as cycles on trained models, on
//! Intel Xeons and AMD's Zen 4 (`benches/NOTEBOOK.md`). They are seconds at one clock rate here,
//! because choices compare them with each other.
//!
//! `fangorn-benches fit` measures each cost in forests that are drawn for it. Most measured costs are
//! within a factor of two of the shipped ones. Where they differ, the shipped costs chose better on
//! trained models: see "One unit for costs" in the notebook.

use super::{Blend, ColumnBlock, Hardware, Machine, Ranking, Registers, Walk};

/// Seconds of a cycle. They are whole picoseconds, because sums of the costs of blend groups have to
/// tie.
const CYCLE: f64 = 286e-12;

/// Returns the seconds of `n` cycles.
const fn cycles(n: f64) -> f64 {
    n * CYCLE
}

const XEON: Hardware =
    Hardware { clock: 1.0 / CYCLE, cache: 1 << 20, bandwidth: 1e10, prefetched: 16, gather: cycles(6.0) };

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
        split: times * cycles(1.3),
        tree: times * cycles(80.0),
        bottom: [times * cycles(3.0), times * cycles(6.0), times * cycles(10.0)],
        seven: times * cycles(15.0),
        three: times * cycles(9.0),
        one: times * cycles(6.0),
    }
}

/// Returns the costs of ranking whose instructions take this many times as long as those of AVX-512.
const fn ranking(times: f64, column_block: Option<ColumnBlock>) -> Ranking {
    Ranking { thresholds: times * cycles(75.0), question: times * cycles(8.0), rows: 16, column_block }
}

pub(super) const AVX512: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, AVX-512",
    hardware: XEON,
    walk: Walk {
        one: cycles(4.0),
        many: cycles(2.03125),
        tested: cycles(2.03125 / 0.75),
        block: cycles(96.0),
        abreast: cycles(2.5),
        full: cycles(2.2),
        tiled_rows: 8,
        places: 1.1,
    },
    registers: REGISTERS,
    blend: blend(1.0),
    ranking: ranking(
        1.0,
        Some(ColumnBlock {
            copy: cycles(300.0),
            layer: cycles(200.0),
            threshold: cycles(4.0),
            search: cycles(9.0),
            level: cycles(6.0),
        }),
    ),
    thread: cycles(50000.0),
};

pub(super) const AVX2: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, AVX2",
    hardware: XEON,
    walk: Walk {
        one: cycles(4.0),
        many: cycles(2.03125),
        tested: cycles(2.03125 / 0.75),
        block: cycles(96.0),
        abreast: cycles(2.5),
        full: cycles(2.2),
        tiled_rows: 8,
        places: 1.1,
    },
    registers: REGISTERS,
    blend: blend(1.5),
    ranking: ranking(
        1.5,
        Some(ColumnBlock {
            copy: cycles(400.0),
            layer: cycles(400.0),
            threshold: cycles(6.0),
            search: cycles(15.0),
            level: cycles(16.0),
        }),
    ),
    thread: cycles(50000.0),
};

pub(super) const PORTABLE: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, portable",
    hardware: XEON,
    walk: Walk {
        one: cycles(4.0),
        many: cycles(4.0625),
        tested: cycles(4.0625 / 0.75),
        block: cycles(96.0),
        abreast: cycles(2.5),
        full: cycles(2.2),
        tiled_rows: 8,
        places: 1.1,
    },
    registers: REGISTERS,
    blend: blend(6.0),
    ranking: ranking(6.0, None),
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
