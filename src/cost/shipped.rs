//! The costs that choices read, by instruction set: what the models of `benches/NOTEBOOK.md` showed on Intel Xeons at 3.5 GHz.
//!
//! `fangorn-benches fit` measures each cost in forests that are drawn for it; most come out within a factor of two. Where they differ, these
//! are kept that chose better on trained models: see "One unit for costs" in the notebook.

use super::{Blend, Hardware, Line, Machine, Ranking, Registers, Walk};

const XEON: Hardware = Hardware { clock: 3.5e9, cache: 1 << 20, gather: 1.72e-9 };

/// Of AVX-512, the one instruction set that has them.
const REGISTERS: Registers =
    Registers { tile: [1.57e-9, 1.86e-9, 2.14e-9, 2.57e-9], tree: 5.71e-10, surprise: 5.71e-9, rows: 32 };

pub(super) const AVX512: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, AVX-512",
    hardware: XEON,
    walk: Walk { one: 1.14e-9, many: 5.80e-10, block: 2.74e-8, abreast: 7.14e-10, full: 6.29e-10 },
    registers: REGISTERS,
    blend: Blend {
        split: 3.71e-10,
        tree: 2.29e-8,
        bottom: [8.57e-10, 1.71e-9, 2.86e-9],
        seven: 4.29e-9,
        three: 2.57e-9,
        one: 1.71e-9,
    },
    ranking: Ranking {
        thresholds: 2.14e-8,
        question: 2.29e-9,
        line: Some(Line {
            copy: 8.57e-8,
            layer: 5.71e-8,
            threshold: 1.14e-9,
            search: 2.57e-9,
            level: 1.71e-9,
        }),
    },
    thread: 1.43e-5,
};

pub(super) const AVX2: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, AVX2",
    hardware: XEON,
    walk: Walk { one: 1.14e-9, many: 5.80e-10, block: 2.74e-8, abreast: 7.14e-10, full: 6.29e-10 },
    registers: REGISTERS,
    blend: Blend {
        split: 5.57e-10,
        tree: 3.43e-8,
        bottom: [1.29e-9, 2.57e-9, 4.29e-9],
        seven: 6.43e-9,
        three: 3.86e-9,
        one: 2.57e-9,
    },
    ranking: Ranking {
        thresholds: 3.21e-8,
        question: 3.43e-9,
        line: Some(Line {
            copy: 1.14e-7,
            layer: 1.14e-7,
            threshold: 1.71e-9,
            search: 4.29e-9,
            level: 4.57e-9,
        }),
    },
    thread: 1.43e-5,
};

pub(super) const PORTABLE: Machine = Machine {
    name: "Intel Xeon at 3.5 GHz, portable",
    hardware: XEON,
    walk: Walk { one: 1.14e-9, many: 1.16e-9, block: 2.74e-8, abreast: 7.14e-10, full: 6.29e-10 },
    registers: REGISTERS,
    blend: Blend {
        split: 2.23e-9,
        tree: 1.37e-7,
        bottom: [5.14e-9, 1.03e-8, 1.71e-8],
        seven: 2.57e-8,
        three: 1.54e-8,
        one: 1.03e-8,
    },
    ranking: Ranking { thresholds: 1.29e-7, question: 1.37e-8, line: None },
    thread: 1.43e-5,
};
