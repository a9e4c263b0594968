//! The examples in C and Go, compiled and run. What is not installed is left out with a line that says so.
//! `FANGORN_REQUIRE_CC` makes the absence of a compiler of C a failure.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn zoo(file: &str) -> PathBuf {
    Path::new(HERE).join("../tests/zoo").join(file)
}

/// The folder of this test's library, which is built with it.
fn library() -> PathBuf {
    let folder = std::env::current_exe().expect("a test").parent().expect("a folder").to_owned();
    assert!(
        folder.join("libfangorn_c.so").exists() || cfg!(not(target_os = "linux")),
        "no library in {folder:?}"
    );
    folder
}

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        let is_required = program == "cc" && std::env::var("FANGORN_REQUIRE_CC").is_ok();
        assert!(!is_required, "no compiler of C answers to cc");
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

/// Compiles an example with all warnings, and with the options `more`.
fn compiled(name: &str, program: &str, more: &[&str]) -> PathBuf {
    compiled_file(&Path::new(HERE).join(format!("examples/c/{name}.c")), program, more)
}

fn compiled_file(source: &Path, program: &str, more: &[&str]) -> PathBuf {
    let library = library();
    let program = library.join(format!("example-{program}"));
    let mut command = Command::new("cc");
    command.args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-g", "-O1"]);
    command.arg("-I").arg(Path::new(HERE).join("include")).arg(source).arg("-o").arg(&program);
    command.arg("-L").arg(&library).arg(format!("-Wl,-rpath,{}", library.display()));
    run(command.args(more));
    program
}

fn predicted(text: &[u8]) -> Vec<f32> {
    let text = std::str::from_utf8(text).expect("text");
    let numbers = text.split(|c: char| c == ',' || c == '[' || c == ']' || c.is_whitespace());
    numbers.filter(|cell| !cell.is_empty()).map(|cell| cell.parse().expect("a number")).collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_c_program_predicts_the_producers_values() {
    if !is_there("cc") {
        return;
    }
    let program = compiled("predict", "predict", &["-lfangorn_c"]);
    let output = run(Command::new(&program).arg(zoo("churn/model.ubj")).arg(zoo("churn/rows.csv")));
    let found = predicted(&output.stdout);
    let expected = std::fs::read(zoo("churn/output.npy")).expect("the producer's output");
    let expected: Vec<f32> = expected[expected.len() - 4 * found.len()..]
        .chunks(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().expect("four bytes")))
        .collect();
    assert!(found.len() >= 20);
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-5), "{found:?} {expected:?}");

    let refused = Command::new(&program).args(["/no/such/model", "rows.csv"]).output().expect("run");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/no/such/model"));
}

/// The book's program compiles and runs as it stands there.
#[test]
#[cfg(target_os = "linux")]
fn the_books_program_predicts() {
    if !is_there("cc") {
        return;
    }
    let root = Path::new(HERE).join("..");
    let chapter = std::fs::read_to_string(root.join("book/src/c.md")).expect("the chapter");
    let (_, program) = chapter.split_once("```c\n").expect("a program");
    let (program, _) = program.split_once("```").expect("its end");
    let source = library().join("example-of-the-book.c");
    std::fs::write(&source, program).expect("written");
    let program = compiled_file(&source, "book", &["-lfangorn_c"]);
    let found = predicted(&run(Command::new(program).current_dir(root)).stdout);
    assert!(found.len() == 2 && found.iter().all(|value| (0.0..1.0).contains(value)), "{found:?}");
}

/// No address is read or written that is not the caller's, and nothing is left behind: AddressSanitizer and valgrind watch.
#[test]
#[cfg(target_os = "linux")]
fn misuse_harms_nothing() {
    if !is_there("cc") {
        return;
    }
    let linked = ["-l:libfangorn_c.a", "-lpthread", "-ldl", "-lm"];
    run(Command::new(compiled("misuse", "misuse-static", &linked)).arg(zoo("churn/model.ubj")));
    let watched = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-lfangorn_c"];
    run(Command::new(compiled("misuse", "misuse-asan", &watched)).arg(zoo("churn/model.ubj")));
    if is_there("valgrind") {
        let program = compiled("misuse", "misuse", &["-lfangorn_c"]);
        let options = ["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"];
        run(Command::new("valgrind").args(options).arg(program).arg(zoo("churn/model.ubj")));
    }
}

#[test]
fn the_header_is_cpp_too() {
    if is_there("c++") {
        let header = Path::new(HERE).join("include/fangorn.h");
        run(Command::new("c++")
            .args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++"])
            .arg(header));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_go_program_predicts() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("skipped: go is not installed");
        return;
    }
    let library = library();
    let program = library.join("example-go");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&program).arg(".").current_dir(Path::new(HERE).join("examples/go"));
    command.env("CGO_CFLAGS", format!("-I{HERE}/include"));
    command.env("CGO_LDFLAGS", format!("-L{0} -Wl,-rpath,{0}", library.display()));
    command.env("GOCACHE", library.join("go-cache")).env("GOFLAGS", "-mod=mod -buildvcs=false");
    run(&mut command);
    let found = predicted(&run(Command::new(&program).arg(zoo("softprob/model.ubj"))).stdout);
    let forest = fangorn::import::load(&zoo("softprob/model.ubj"), &Default::default()).expect("read");
    let columns = forest.features.len();
    let expected =
        fangorn::Predictor::new(&forest).expect("compiled").predict(&vec![0.5f32; 2 * columns], columns);
    let expected = expected.expect("predicted");
    assert!(found.len() == expected.len() && found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-5));
    let refused = Command::new(&program).arg("/no/such/model").output().expect("run");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/no/such/model"));
}
