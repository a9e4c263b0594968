//! Tests of Fangorn's kernels in a browser, on WebGPU: what `run.py` runs.
//!
//! The browser compiles WGSL with a compiler of its own. Each test runs kernels on generated cases, and compares what
//! they write with the reference, which is a part of this module. The cases and tolerances are those of
//! `tests/devices`. Every read waits without blocking, as a browser demands. A test that fails panics.

#[path = "../../../tests/support/compare.rs"]
mod compare;
#[path = "../../../tests/generate/mod.rs"]
mod generate;
// What runs cases on a device that can be waited for is left out here.
#[allow(unexpected_cfgs)]
#[path = "../../../tests/runs/mod.rs"]
mod runs;

mod contributions;
mod epilogues;
mod gpu;
mod gradients;
mod margins;
mod schedules;

use gpu::Gpu;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = globalThis, js_name = fangornPanicked)]
    fn panicked(message: &str);
}

/// Makes panics call `fangornPanicked`. Runs once, when the module is loaded.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| panicked(&panic.to_string())));
}

macro_rules! tests {
    ($($module:ident::$test:ident),* $(,)?) => {
        /// Returns the names of the tests.
        #[wasm_bindgen]
        pub fn names() -> Vec<String> {
            vec![$(stringify!($test).to_owned()),*]
        }

        /// Runs a test. Returns what it has run, in words.
        ///
        /// # Errors
        /// The browser has no WebGPU, or there is no test of this name.
        #[wasm_bindgen]
        pub async fn run(name: &str) -> Result<String, JsError> {
            let gpu = Gpu::open().await?;
            match name {
                $(stringify!($test) => Ok($module::$test(&gpu).await),)*
                _ => Err(JsError::new(&format!("there is no test {name}"))),
            }
        }
    };
}

tests![
    schedules::random_schedules,
    schedules::presets,
    schedules::schedules_beyond_the_presets,
    margins::every_predicate_and_every_half,
    margins::every_transform,
    margins::the_least_and_the_largest_leaf,
    margins::sums_of_doubles,
    margins::sums_of_planes_and_grids,
    margins::batches_in_pieces,
    epilogues::every_step,
    epilogues::every_last_stage,
    gradients::leaf_gradients,
    contributions::contributions,
    contributions::interactions,
    contributions::contributions_against_a_background,
    contributions::interactions_against_a_background,
    contributions::explanations_of_many_rows,
    contributions::explanations_in_pieces,
];
