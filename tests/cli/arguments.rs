//! What commands have in common: names that they don't know, backends that they lack, variables, help, and a reader that
//! goes away.

use std::process::Stdio;

use crate::{PRESETS, Scratch, assert_refused, command, model, prints, refuses, text, zoo};

#[test]
fn names_that_are_not_known_are_refused() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let predict = ["predict", &model, "--rows", &rows];
    let all =
        ["reference", "cpu", "flex", "ndarray", "wgpu", "vulkan", "metal", "cuda", "rocm", "cubecl-cpu"];
    refuses(&[&predict[..], &["--backend", "abacus"]].concat(), &[&["abacus"], &all[..]].concat());
    refuses(&[&predict[..], &["--schedule", "quick"]].concat(), &[&["quick"], &PRESETS[..]].concat());
    refuses(&[&predict[..], &["-o", "values.txt"]].concat(), &["values.txt", ".npy", ".csv"]);
    let wrong: [(&[&str], &[&str]); 4] = [
        (&["--output", "colour"], &["colour", "--output", "margin, value, class"]),
        (&["--outptu", "class"], &["--outptu", "'--output'"]),
        (&["--frobnicate"], &["--frobnicate"]),
        (&["--max-trees", "few"], &["few", "--max-trees"]),
    ];
    for (arguments, parts) in wrong {
        let line = [parts, &["see fangorn predict --help"]].concat();
        refuses(&[&predict[..], arguments].concat(), &line);
    }
    refuses(&[], &["a command is missing", "predict, inspect, diff", "see fangorn --help"]);
    refuses(&["predict"], &["not provided", "--rows <FILE>, <MODEL>", "see fangorn predict --help"]);
    refuses(&["prdict"], &["prdict", "'predict'", "see fangorn --help"]);
}

#[test]
fn backends_that_are_not_built_in_are_refused() {
    let built_in = [
        ("flex", cfg!(feature = "flex")),
        ("ndarray", cfg!(feature = "ndarray")),
        ("wgpu", cfg!(feature = "wgpu")),
        ("vulkan", cfg!(feature = "vulkan")),
        ("metal", cfg!(feature = "metal")),
        ("cuda", cfg!(feature = "cuda")),
        ("rocm", cfg!(feature = "rocm")),
        ("cubecl-cpu", cfg!(feature = "cubecl-cpu")),
    ];
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    for (name, _) in built_in.into_iter().filter(|(_, built_in)| !built_in) {
        let line = format!("the backend {name} is not built in; build with --features {name}");
        refuses(&["predict", &model, "--rows", &rows, "--backend", name], &[&line]);
        refuses(&["bench", &model, "--rows", &rows, "--backend", name], &[&line]);
        refuses(&["lower", &model, "--backend", name, "--emit", "kernel"], &[&line]);
    }
}

#[test]
fn a_reader_that_has_enough_ends_it_quietly() {
    let (model, rows) = (model("softprob"), zoo("softprob", "rows.npy"));
    for arguments in [
        &["lower", &model, "--emit", "forest"][..],
        &["predict", &model, "--rows", &rows, "--output", "tree"],
        &["inspect", &model, "--json"],
    ] {
        let mut child = command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        &[][..],
        &["predict"],
        &["inspect"],
        &["lower"],
        &["bench"],
        &["tune"],
        &["explain"],
        &["sql"],
        &["importance"],
        &["drift"],
        &["report"],
        &["cache"],
        &["cache", "list"],
    ] {
        let help = prints(&[command, &["--help"]].concat());
        assert!(help.contains("Example:\n  fangorn "), "{help}");
    }
    assert_eq!(prints(&["--version"]), format!("fangorn {}\n", env!("CARGO_PKG_VERSION")));
}

/// `fangorn sql` starts another program: its answer and its status are the command's. The remedy is named where there is
/// none.
#[test]
#[cfg(unix)]
fn sql_is_a_program_of_its_own() {
    use std::os::unix::fs::PermissionsExt as _;

    let scratch = Scratch::new("sql");
    // Where the program is built there may be fangorn-sql, too, so it stands in a folder of its own.
    let (own, alone) = (env!("CARGO_BIN_EXE_fangorn"), scratch.path("fangorn"));
    std::fs::create_dir(scratch.path("bin")).expect("a folder");
    std::fs::hard_link(own, &alone).or_else(|_| std::fs::copy(own, &alone).map(drop)).expect("the program");
    let run = |path: &str, arguments: &[&str]| {
        let mut command = std::process::Command::new(&alone);
        command.arg("sql").args(arguments).env("PATH", path).output().expect("the program runs")
    };
    assert_refused(&run("/nowhere", &["SELECT 1"]), &["fangorn-sql", "cargo install --path sql"]);
    let program = scratch.file("bin/fangorn-sql", "#!/bin/sh\necho \"$# $1 $3\"\nexit 3\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("a program");
    let path = format!("{}:/usr/bin:/bin", scratch.path("bin"));
    let output = run(&path, &["SELECT 'a b'", "--model", "--json"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), "3 SELECT 'a b' --json\n".into()));
}

/// A mistyped one would test what was not meant.
#[test]
fn variables_that_pick_kernels_are_known_or_refused() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let arguments = ["predict", &model, "--rows", &rows];
    for (variable, value, names) in
        [(fangorn::cpu::ISA, "sse9", "portable"), (fangorn::cpu::GATHERS, "Fast", "slow, fast")]
    {
        let output = command(&arguments).env(variable, value).output().expect("the program runs");
        assert_refused(&output, &["environment", variable, value, names]);
        let output = command(&arguments).env(variable, "").output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{variable}: {}", text(&output.stderr));
    }
}
