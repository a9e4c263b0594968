//! The header says what the library exports.

use std::path::Path;

#[test]
fn the_header_is_of_this_library() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut written = Vec::new();
    cbindgen::generate_with_config(root, config).expect("a header").write(&mut written);
    let written = String::from_utf8(written).expect("UTF-8");
    let path = root.join("include/fangorn.h");
    if std::env::var_os("FANGORN_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(&path, &written).expect("written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == written, "include/fangorn.h is old; FANGORN_BLESS=1 writes it anew");
}
