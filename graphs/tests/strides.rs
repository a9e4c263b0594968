//! Rows are read where they lie: a call on swapped axes, or on a slice of a tensor, allocates no copy of the
//! rows.

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use burn::tensor::Tensor;
use fangorn_graphs::forest::{ForestModuleConfig, Output};
use support::{bits, devices, tensor};

/// The largest allocation, in bytes, on any thread since this was set to 0.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watched;

// SAFETY: each method passes its arguments unchanged to `System`, which keeps the contract of `GlobalAlloc`.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `GlobalAlloc::alloc`: `layout` has a size above zero.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc::dealloc`: `alloc`, which takes its memory
        // from `System`, has returned `at` for this `layout`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static WATCHED: Watched = Watched;

/// The file has one test, so that no other test allocates beside it.
#[test]
fn no_room_is_made_for_a_copy_of_the_rows() {
    const ROWS: usize = 4096;
    let mut wide = support::model("churn");
    wide.features.resize(128, Default::default());
    let bytes = ROWS * wide.features.len() * 4;
    let rows: Vec<f32> = (0..ROWS * wide.features.len()).map(|i| (i * 37 % 101) as f32 * 0.7).collect();
    let columns = wide.features.len();
    let turned: Vec<f32> = (0..rows.len()).map(|i| rows[i % ROWS * columns + i / ROWS]).collect();
    for (name, device) in devices() {
        let module = ForestModuleConfig::new(wide.clone()).with_output(Output::Margins);
        let module = module.init(&device).expect(name);
        let plain = tensor(&rows, columns, &device);
        let expected = bits(module.forward(plain.clone()).expect(name));
        let check = |what: &str, x: Tensor<2>, expected: &[u32]| {
            LARGEST.store(0, Ordering::Relaxed);
            let margins = module.forward(x).expect(name);
            let largest = LARGEST.load(Ordering::Relaxed);
            assert!(largest < bytes / 4, "{what} on {name}: room for {largest} bytes, rows are {bytes}");
            assert_eq!(bits(margins), expected, "{what} on {name}");
        };
        check("as they are", plain.clone(), &expected);
        let swapped = tensor(&turned, ROWS, &device);
        check("transposed", swapped.clone().transpose(), &expected);
        check("permuted", swapped.permute([1, 0]), &expected);
        check("a slice", plain.slice([7..ROWS, 0..columns]), &expected[7..]);
    }
}
