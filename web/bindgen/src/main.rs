//! Writes the JavaScript that calls the WebAssembly of fangorn-web, as `wasm-bindgen --target web` does. It is a
//! program of the same workspace, so it has the version of `wasm-bindgen` that fangorn-web has, and nobody has to
//! install anything.

use std::{env, path::PathBuf, process::ExitCode};

use wasm_bindgen_cli_support::Bindgen;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [input, folder] = &arguments[..] else {
        eprintln!("usage: fangorn-web-bindgen FILE.wasm FOLDER");
        return ExitCode::from(2);
    };
    let mut bindgen = Bindgen::new();
    let written = bindgen
        .input_path(input)
        .out_name("fangorn")
        .typescript(false)
        .remove_name_section(true)
        .remove_producers_section(true)
        .web(true)
        .and_then(|bindgen| bindgen.generate(folder));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fangorn-web-bindgen: {}: {error:#}", input.display());
            ExitCode::FAILURE
        }
    }
}
