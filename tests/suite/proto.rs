//! `src/import/onnx/messages.rs` is what `proto/onnx.proto` says. `FANGORN_BLESS=1` writes it anew.

use std::{error::Error, fs, path::Path};

#[test]
fn messages_are_those_of_the_proto_file() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let messages = protox::compile(["onnx.proto"], [root.join("proto")])?;
    // A slice of the file instead of a copy.
    prost_build::Config::new().out_dir(out).bytes(["."]).compile_fds(messages)?;
    let (made, landed) = (fs::read_to_string(out.join("onnx.rs"))?, root.join("src/import/onnx/messages.rs"));
    if std::env::var_os("FANGORN_BLESS").is_some() {
        fs::write(&landed, &made)?;
    }
    assert_eq!(fs::read_to_string(&landed)?, made, "FANGORN_BLESS=1 makes {} anew", landed.display());
    Ok(())
}
