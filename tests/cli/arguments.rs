//! What commands have in common: names that they don't know, backends that they lack, variables, help, and a reader that
//! goes away.

use std::process::Stdio;

use crate::{PRESETS, Scratch, assert_refused, command, fangorn, model, prints, refuses, text, zoo};

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
    for (arguments, phrases) in wrong {
        let line = [phrases, &["see fangorn predict --help"]].concat();
        refuses(&[&predict[..], arguments].concat(), &line);
    }
    refuses(&[], &["a command is missing", "predict, inspect, diff", "see fangorn --help"]);
    refuses(&["predict"], &["not provided", "--rows <FILE>, <MODEL>", "see fangorn predict --help"]);
    refuses(&["prdict"], &["prdict", "'predict'", "see fangorn --help"]);
}

/// The line of a command that is refused.
fn refusal(arguments: &[&str]) -> String {
    let output = fangorn(arguments);
    assert_refused(&output, &[]);
    text(&output.stderr)
}

#[test]
fn a_command_in_a_command_is_named_with_its_own_help() {
    let line = refusal(&["cache"]);
    assert!(line.ends_with("one of list, clear, export; see fangorn cache --help\n"), "{line}");
    refuses(&["cache", "export"], &["--output <FILE.toml>, <MODEL>", "see fangorn cache export --help"]);
    let near = ["'--jsn'; a near one is '--json'", "see fangorn cache list --help"];
    refuses(&["cache", "list", "--jsn"], &near);
    refuses(&["cache", "lst"], &["unknown command 'lst'; a near one is 'list'; see fangorn cache --help"]);
    // `measure` is for `tune` alone.
    for line in [refusal(&[]), refusal(&["measur"])] {
        assert!(!line.contains("measure"), "{line}");
    }
}

#[test]
fn an_unknown_option_is_no_value() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let predict = |more: &[&str]| refusal(&[&["predict", &*model, "--rows", &*rows], more].concat());
    for option in ["--threads", "-m", "--plot", "--frobnicate"] {
        let line = predict(&[option, "2"]);
        assert!(line.contains(&format!("unknown option '{option}'")), "{line}");
        assert!(line.ends_with("; see fangorn predict --help\n") && !line.contains("'-- "), "{line}");
        assert_eq!(line.contains("RAYON_NUM_THREADS"), option == "--threads", "{line}");
    }
    let line = predict(&[&model]);
    assert!(line.contains(&format!("unexpected argument '{model}'")), "{line}");
    // A number below 0 is a value.
    for (option, value, remedy) in [
        ("--iterations", "-1..3", "give best, all, or two numbers"),
        ("--max-file-bytes", "-1", "give a number of bytes"),
    ] {
        let (line, wrong) = (predict(&[option, value]), format!("invalid value '{value}' for '{option} <"));
        assert!(line.contains(&wrong) && line.contains(remedy), "{line}");
    }
    refuses(&["bench", &model, "--seconds", "-1"], &["write --seconds=-1", "see fangorn bench --help"]);
}

#[test]
fn a_wrong_value_is_told_what_to_write() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let predict = ["predict", &model, "--rows", &rows];
    for (option, value, remedy) in [
        ("--missing", "abc", "give a number, for example 0.5"),
        ("--max-file-bytes", "1G", "give a number of bytes, for example 1000000000"),
        ("--max-file-bytes", "", "give a number of bytes, for example 1000000000"),
        ("--max-trees", "1e3", "give a whole number, for example 1000"),
        ("--max-trees", "99999999999999999999999", "the number is too large"),
    ] {
        let wrong = format!("invalid value '{value}' for '{option} <");
        let given = format!("{option}={value}");
        let arguments = [&predict[..], &[&*given]].concat();
        refuses(&arguments, &[&*wrong, remedy, "see fangorn predict --help"]);
    }
    for (value, given, remedy) in [
        ("0", "0", "give a whole number from 1 to 268435456"),
        ("1,x", "x", "give a whole number"),
        ("-1", "-1", "give a whole number from 1 to 268435456"),
    ] {
        let wrong = format!("invalid value '{given}' for '--batch <");
        refuses(&["bench", &model, "--batch", value], &[&*wrong, remedy]);
    }
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
        &["costs"],
        &["costs", "show"],
        &["costs", "measure"],
        &["costs", "forget"],
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
