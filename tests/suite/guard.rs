//! No engine of the CPU reads past the rows it was given: they end where a page ends, and the next page can't be read.
#![cfg(target_os = "linux")]

use crate::generate;

use fangorn::{
    Forest, Predictor,
    check::SelfCheck,
    cpu::Rows,
    forest::{CompareType, Side, reference},
    schedule::Schedule,
};
use generate::engines::{engines, serves, usual};

/// Bytes of the largest page that Linux has by default.
const PAGE: usize = 64 << 10;

unsafe extern "C" {
    fn mmap(at: *mut u8, bytes: usize, access: i32, flags: i32, file: i32, offset: isize) -> *mut u8;
    fn mprotect(at: *mut u8, bytes: usize, access: i32) -> i32;
    fn munmap(at: *mut u8, bytes: usize) -> i32;
}

const READ_AND_WRITE: i32 = 1 | 2;
const PRIVATE_AND_ANONYMOUS: i32 = 2 | 0x20;

/// Values that end where memory does.
struct AtTheEnd {
    begin: *mut u8,
    bytes: usize,
    values: usize,
}

impl AtTheEnd {
    fn new(values: &[f32]) -> Self {
        let room = size_of_val(values).next_multiple_of(PAGE);
        let bytes = room + PAGE;
        // SAFETY: fresh memory of this process; its last page is closed, and the values are written before that.
        let begin = unsafe {
            let begin = mmap(std::ptr::null_mut(), bytes, READ_AND_WRITE, PRIVATE_AND_ANONYMOUS, -1, 0);
            assert!(begin as isize != -1, "memory for rows");
            let at = begin.add(room - size_of_val(values)).cast::<f32>();
            std::ptr::copy_nonoverlapping(values.as_ptr(), at, values.len());
            assert_eq!(mprotect(begin.add(room), PAGE, 0), 0, "a page that can't be read");
            begin
        };
        Self { begin, bytes, values: values.len() }
    }

    fn values(&self) -> &[f32] {
        let room = self.bytes - PAGE;
        // SAFETY: they were written there.
        unsafe {
            let at = self.begin.add(room - self.values * size_of::<f32>()).cast::<f32>();
            std::slice::from_raw_parts(at, self.values)
        }
    }
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length.
        unsafe { munmap(self.begin, self.bytes) };
    }
}

#[test]
fn no_engine_reads_past_the_rows() {
    // The first tables have many columns, table 31 has one.
    for seed in (0..u64::from(generate::wanted(12))).chain([31]) {
        let (table, _) = usual(seed);
        let forest = &table.forest;
        let (columns, trees) = (forest.features.len(), forest.trees.len());
        assert!(seed != 31 || columns == 1, "a table of one column");
        let values: Vec<f32> = table.rows.iter().map(|v| *v as f32).collect();
        let count = values.len() / columns;
        for (name, schedule, engines) in engines() {
            let builder = Predictor::builder(forest).schedule(schedule.clone()).engines(engines).threads(1);
            let Ok(predictor) = builder.check(SelfCheck::Off).build() else { continue };
            if !serves(&predictor, schedule.as_ref()) {
                continue;
            }
            for batch in [1, 2, 3, 4, 5, 7, 9, 10, 15, 16, 17, 31, 33, 63, 64, 65, 68, 100, 129] {
                let batch = batch.min(count);
                let own = &values[..batch * columns];
                let rows = AtTheEnd::new(own);
                let found = predictor.leaf_slots(&Rows::new(rows.values(), columns).expect("rows"));
                let expected: Vec<u32> =
                    own.chunks_exact(columns).flat_map(|row| reference::leaf_slots(forest, row)).collect();
                let found = found.unwrap_or_else(|e| panic!("seed {seed}, {name}: {e}"));
                assert_eq!(found.len(), batch * trees);
                assert!(found == expected, "seed {seed}, {name}, {batch} rows");
                predictor.margins(&Rows::new(rows.values(), columns).expect("rows")).expect("margins");
            }
        }
    }
}

/// Columns of one threshold each are ranked in layers, whose last vector may be longer than the row.
#[test]
fn no_layer_reads_past_the_rows() {
    // Blends read ranks by column, which layers write.
    let text = "ranks(u8)\ntile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\ncache(b0)\nevaluate(b1, blend)";
    let schedule = Schedule::parse(text).expect("a schedule");
    for columns in 2..=17u32 {
        let mut builder = Forest::builder(columns as usize, 1);
        for feature in 0..columns {
            let mut tree = builder.tree(0);
            tree.split(feature, CompareType::F32.less(0.5), Side::Left, 1, 2);
            tree.leaf(1, &[1.0]);
            tree.leaf(2, &[2.0]);
        }
        let forest = builder.build().expect("stumps");
        let builder = Predictor::builder(&forest).schedule(schedule.clone()).threads(1);
        let predictor = builder.check(SelfCheck::Off).build().expect("a predictor");
        for batch in (1..=16).chain([31, 64, 65, 68, 128]) {
            let value = |i: usize| [0.0, 1.0, f32::NAN, 0.5][i * 7 % 11 % 4];
            let values: Vec<f32> = (0..batch * columns as usize).map(value).collect();
            let rows = AtTheEnd::new(&values);
            let found = predictor.leaf_slots(&Rows::new(rows.values(), columns as usize).expect("rows"));
            let expected: Vec<u32> =
                values.chunks(columns as usize).flat_map(|row| reference::leaf_slots(&forest, row)).collect();
            assert!(found.expect("slots") == expected, "{columns} columns, {batch} rows");
        }
    }
}
