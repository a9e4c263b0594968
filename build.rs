//! Makes the decoder of ONNX models from `proto/onnx.proto`; it needs no `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/onnx.proto");
    let messages = protox::compile(["onnx.proto"], ["proto"])?;
    // A slice of the file instead of a copy.
    prost_build::Config::new().bytes(["."]).compile_fds(messages)?;
    Ok(())
}
