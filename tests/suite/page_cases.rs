//! Random forests for the test of the page, which runs them on WebGPU. `web/test.py` asks for them.

use crate::generate;

use std::{cell::Cell, fmt::Write, path::Path};

use fangorn::{file::Contents, forest::reference};
use proptest::prelude::*;

/// Rows of a case: whole row blocks, and some more.
const ROWS: usize = 67;

/// Returns a matrix of `f32` as a `.npy` file.
fn npy(rows: &[f32], shape: [usize; 2]) -> Vec<u8> {
    let mut header =
        format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", shape[0], shape[1]);
    // The header's length is a multiple of 64, with its line's end.
    while (10 + header.len()) % 64 != 63 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(rows.iter().flat_map(|value| value.to_le_bytes()));
    file
}

/// Writes forests, rows, and the leaf slots and margins that the reference interpreter finds, to the folder
/// `FANGORN_PAGE_CASES`. Margins are those of the contract `tree`, as the bits of `f32`.
#[test]
fn cases_for_the_page_are_written() {
    let Ok(folder) = std::env::var("FANGORN_PAGE_CASES") else {
        eprintln!("skipped: FANGORN_PAGE_CASES names no folder");
        return;
    };
    let case = Cell::new(0);
    let run =
        generate::runner(generate::wanted(24)).run(&(generate::forest(), any::<u64>()), |(forest, seed)| {
            let name = format!("case-{:02}", case.replace(case.get() + 1));
            let columns = forest.features.len();
            let rows = generate::rows(&forest, ROWS, seed);
            let (mut slots, mut margins) = (String::new(), String::new());
            for row in rows.chunks(columns.max(1)) {
                let found = reference::leaf_slots(&forest, row);
                for margin in reference::producer_margins(&forest, &found, None) {
                    let _ = write!(margins, "{},", (margin as f32).to_bits());
                }
                found.iter().for_each(|slot| _ = write!(slots, "{slot},"));
            }
            let list = |text: &str| format!("[{}]", text.trim_end_matches(','));
            let expected = format!("{{\"slots\": {}, \"margins\": {}}}\n", list(&slots), list(&margins));
            let write = |ending: &str, bytes: &[u8]| {
                std::fs::write(Path::new(&folder).join(format!("{name}.{ending}")), bytes).expect("a file");
            };
            write("npy", &npy(&rows, [ROWS, columns]));
            write("json", expected.as_bytes());
            write("fangorn", &Contents::new(forest).to_bytes());
            Ok(())
        });
    run.unwrap_or_else(|e| panic!("{e}"));
}
