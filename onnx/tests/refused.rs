//! A model that is refused ends the import, and a message names the operator, the reason and the remedy.

use burn_onnx::ModelGen;

/// Returns the message of the import of a model that is refused.
fn refusal(name: &str) -> String {
    let folder = std::env::temp_dir().join(format!("fangorn-onnx-refused-{name}-{}", std::process::id()));
    let path = folder.to_str().expect("a folder of UTF-8").to_owned();
    let import = std::panic::catch_unwind(move || {
        let mut generator = ModelGen::new();
        fangorn_onnx::register(&mut generator);
        generator.input(&format!("tests/models/{name}.onnx")).out_dir(&path).run_from_cli();
    });
    std::fs::remove_dir_all(folder).expect("removed");
    let said = import.expect_err("refused");
    said.downcast_ref::<String>().expect("a message").clone()
}

#[test]
fn rows_of_double() {
    let said = refusal("doubles");
    assert!(said.contains("TreeEnsembleRegressor `custom1`: rows of double"), "{said}");
    assert!(said.contains("put a Cast to float before the trees"), "{said}");
}

#[test]
fn labels_that_are_strings_and_were_not_cut_off() {
    let said = refusal("strings");
    assert!(said.contains("labels are strings") && said.contains("fangorn_onnx::cut"), "{said}");
}

#[test]
fn a_zip_map_that_was_not_cut_off() {
    let said = refusal("classifier");
    assert!(said.contains("it makes maps") && said.contains("fangorn_onnx::cut"), "{said}");
}
