//! ONNX files that hold networks and trees. [`burn_onnx`] makes burn code of the network, and this crate
//! gives it [`fangorn_graphs::forest::ForestModule`]s for the trees.
//!
//! [`register`] teaches a [`ModelGen`] the operators `TreeEnsembleClassifier` and `TreeEnsembleRegressor` of
//! `ai.onnx.ml`, versions 1 to 5, and `TreeEnsemble` of version 5. In the generated code each of them is a
//! field of the model: a module like any other, whose leaf values are trained, saved and loaded with the
//! network's weights. Its forest is in the `.bpk` file beside the code, so every `LoadStrategy` has it. The
//! crate that includes the code depends on `fangorn-graphs`, besides `burn` and `burn-store`.
//!
//! Converters end a classifier with values that no tensor holds: labels that are strings, and a `ZipMap`.
//! [`cut`] takes both off before burn-onnx reads the file. A build script calls first `cut` and then
//! burn-onnx:
//!
//! ```no_run
//! use std::path::Path;
//!
//! use burn_onnx::ModelGen;
//!
//! # fn main() -> Result<(), fangorn_onnx::Error> {
//! println!("cargo:rerun-if-changed=src/churn.onnx");
//! let folder = std::env::var("OUT_DIR").unwrap_or_default();
//! let model = fangorn_onnx::cut(Path::new("src/churn.onnx"), Path::new(&folder))?;
//!
//! let mut generator = ModelGen::new();
//! fangorn_onnx::register(&mut generator);
//! generator.input(&model).out_dir("model/").run_from_script();
//! # Ok(())
//! # }
//! ```
//!
//! An operator that can't be imported ends the build, and a message names the operator, the reason and the
//! remedy. Rows of `double` are refused, because the modules take `float`.

#[cfg(doctest)]
#[doc = include_str!("../../book/src/networks.md")]
mod book {}

mod cut;
mod error;
mod graph;
mod operator;
mod wire;

pub use burn_onnx;
pub use cut::cut;
pub use error::{Error, Result};

use burn_onnx::ModelGen;

/// Registers the three tree operators, for which the generator then makes modules. Also registers `ZipMap`,
/// which is refused with its name and a remedy.
///
/// # Panics
/// If one of them is registered already, as [`ModelGen::register_custom_op`] says.
pub fn register(generator: &mut ModelGen) -> &mut ModelGen {
    let trees = operator::ALL.into_iter();
    trees
        .fold(generator, |generator, operator| generator.register_custom_op(operator))
        .register_custom_op(operator::ZipMap)
}
