//! SilvanForge's template: every combination of the paper's values is a schedule that a portable GPU carries out, and that
//! gives on the CPU what the reference gives.

use std::collections::HashSet;

use crate::generate;

use fangorn::{
    Predictor,
    cpu::Rows,
    forest::reference,
    plan::{Request, check},
    schedule::{Device, LayoutKind, Template},
};
use generate::forest_of;

#[test]
fn every_combination_is_carried_out() {
    let forest = forest_of("40 x depth 3, 20 x chain 5; features 6");
    let request = Request { device: Device::PORTABLE_GPU, threads: 1, ..Request::cpu() };
    let mut distinct = HashSet::new();
    for template in Template::all() {
        let schedule = template.schedule();
        check(&forest, &schedule, request).unwrap_or_else(|e| panic!("{template:?}: {e}\n{schedule}"));
        distinct.insert(schedule.to_string());
    }
    assert_eq!(distinct.len(), 5184, "each combination is a schedule of its own");
}

#[test]
fn a_share_of_them_gives_what_the_reference_gives() {
    let forest = forest_of("21 x depth 3, 10 x chain 5; features 6");
    let data = generate::rows(&forest, 67, 5);
    let rows = Rows::new(&data, 6).expect("rows");
    let expected: Vec<u32> = data.chunks(6).flat_map(|row| reference::leaf_slots(&forest, row)).collect();
    for template in Template::all().step_by(37) {
        let predictor = Predictor::builder(&forest)
            .schedule(template.schedule())
            .threads(2)
            .build()
            .expect("a predictor");
        assert_eq!(predictor.leaf_slots(&rows).expect("slots"), expected, "{template:?}");
    }
}

/// Algorithm 1, line by line.
#[test]
fn the_heuristic_is_the_papers() {
    let all: HashSet<Template> = Template::all().collect();
    for (rows, features, cube_rows, units) in [
        (1, 1, [8, 32], [20, 50]),
        (2048, 128, [8, 32], [20, 50]),
        (2049, 128, [32, 64], [2, 10]),
        (2049, 129, [8, 32], [20, 50]),
        (1 << 20, 28, [32, 64], [2, 10]),
        (1 << 20, 2000, [8, 32], [20, 50]),
    ] {
        let found: Vec<Template> = Template::heuristic(rows, features).collect();
        let mut expected = Vec::new();
        for rows_per_cube in cube_rows {
            for tree_units in units {
                for interleave in [1, 2, 4] {
                    for layout in [LayoutKind::Array, LayoutKind::Sparse, LayoutKind::Reorg] {
                        expected.push(Template {
                            rows_per_cube,
                            rows_per_unit: 1,
                            tree_units,
                            cache_rows: true,
                            cache_trees: false,
                            unroll_walks: interleave != 1,
                            interleave,
                            shared_reduce: false,
                            layout,
                        });
                    }
                }
            }
        }
        assert_eq!(found, expected, "{rows} rows of {features} columns");
        assert_eq!(found.len(), 36);
        for template in found {
            assert!(all.contains(&template) && all.contains(&template.with_shared_sums()), "{template:?}");
        }
    }
}
