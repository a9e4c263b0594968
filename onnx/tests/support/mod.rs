//! Imports the models of `tests/models`.

use std::path::PathBuf;

use burn_onnx::{LoadStrategy, ModelGen};

/// Imports a model into a folder of its own, which then holds the model's code and weights.
pub fn import(name: &str, by: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("fangorn-onnx-{by}-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let model = PathBuf::from(format!("tests/models/{name}.onnx"));
    let model = fangorn_onnx::cut(&model, &folder.join("cut")).expect("a model that can be cut");
    let mut generator = ModelGen::new();
    fangorn_onnx::register(&mut generator);
    generator
        .input(&model)
        .out_dir(folder.to_str().expect("a folder of UTF-8"))
        .load_strategy(LoadStrategy::Bytes)
        .run_from_cli();
    folder
}
