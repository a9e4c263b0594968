//! The code that burn-onnx makes of the models is the code in `tests/generated`, which `tests/networks.rs`
//! runs. `FANGORN_BLESS=1` writes it.

mod support;

use std::path::Path;

#[test]
fn the_generated_code_is_what_is_in_the_repository() {
    for name in ["classifier", "regressor", "strings", "unified"] {
        let folder = support::import(name, "generated");
        let code = std::fs::read_to_string(folder.join(format!("{name}.rs"))).expect("code");
        // The first line holds the model's path, which is a temporary one for a model that was cut.
        let (first, code) = code.split_once('\n').expect("lines");
        assert!(first.starts_with("// Generated from ONNX"), "{first}");
        let kept = Path::new("tests/generated").join(format!("{name}.rs"));
        if std::env::var_os("FANGORN_BLESS").is_some() {
            std::fs::write(&kept, code).expect("written");
        }
        let kept = std::fs::read_to_string(&kept).expect("the code in the repository");
        assert_eq!(code, kept, "{name}: another burn-onnx? FANGORN_BLESS=1 writes the code anew");
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
