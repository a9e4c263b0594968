//! Files that are written: whole or not at all, and refused before there is anything to write.

use crate::{Scratch, fangorn, model, npy, prints, read_npy, refuses, zoo};

/// Files of a folder whose names are not among these.
fn others(folder: &std::path::Path, names: &[&str]) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    let files = files.map(|file| file.file_name().to_string_lossy().into_owned());
    files.filter(|name| !names.contains(&name.as_str())).collect()
}

#[test]
fn what_can_not_be_written_is_refused_before_rows_are_read() {
    let scratch = Scratch::new("unwritable");
    let absent = scratch.path("absent.csv");
    // The rows are not there either, and nobody has come to that.
    let (named, classes) = (model("sklearn-forest-names"), scratch.path("classes.npy"));
    let class = ["predict", &named, "--rows", &absent, "--output", "class", "-o", &classes];
    refuses(&class, &["classes.npy", "names", ".csv"]);
    let churn = model("churn");
    let nowhere = scratch.path("nowhere/out.npy");
    let profile = scratch.path("nowhere/profile.json");
    let text = scratch.path("nowhere/plan.txt");
    for (arguments, name) in [
        (["predict", &churn, "--rows", &absent, "-o", &nowhere], "out.npy"),
        (["profile", &churn, "--rows", &absent, "-o", &profile], "profile.json"),
        (["lower", &churn, "--emit", "plan", "--output", &text], "plan.txt"),
    ] {
        refuses(&arguments, &[name, "can't be written", "folder"]);
    }
    let folder = scratch.path("folder.npy");
    std::fs::create_dir(&folder).expect("a folder");
    refuses(&["predict", &churn, "--rows", &absent, "-o", &folder], &["folder.npy", "can't be written"]);
    assert!(others(&scratch.0, &["folder.npy"]).is_empty());
}

#[test]
fn what_was_there_goes_only_for_what_is_whole() {
    let scratch = Scratch::new("whole");
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let out = scratch.file("out.csv", "old");
    let predict = ["predict", &model, "--rows", &rows, "--output", "leaf", "-o", &out];
    let bad = scratch.file("bad.csv", "1,2\n");
    assert_eq!(fangorn(&["predict", &model, "--rows", &bad, "-o", &out]).status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&out).expect("it"), "old");
    prints(&predict);
    assert!(std::fs::read_to_string(&out).expect("it").lines().count() == 20);
    assert!(others(&scratch.0, &["out.csv", "bad.csv"]).is_empty());
}

/// A limit of the file's size stands for a full disk. Its signal would end a program that does not ignore it.
#[test]
#[cfg(unix)]
fn a_full_disk_leaves_the_old_file() {
    let scratch = Scratch::new("full");
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    for (before, name) in [
        ("trap '' XFSZ;", "out.npy"),
        ("", "out.npy"),
        ("", "out.csv"),
        #[cfg(feature = "tables")]
        ("", "out.parquet"),
        #[cfg(feature = "tables")]
        ("", "out.arrow"),
    ] {
        let out = scratch.file(name, "old");
        let script = format!("{before} ulimit -f 2; exec \"$0\" \"$@\"");
        let output = std::process::Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_fangorn")])
            .args(["predict", &model, "--rows", &rows, "--output", "leaf", "-o", &out])
            .output()
            .expect("a shell");
        crate::assert_refused(
            &output,
            &[name, "can't be written", "make room", "an earlier file is unchanged"],
        );
        assert_eq!(std::fs::read_to_string(&out).expect("it"), "old");
        std::fs::remove_file(&out).expect("it");
        assert!(others(&scratch.0, &[]).is_empty(), "{name}");
    }
}

/// A run that a signal ends leaves its temporary file. The next run in the folder removes it, and nothing of a run that
/// still goes on.
#[test]
#[cfg(unix)]
fn temporary_files_of_ended_runs_are_removed() {
    let scratch = Scratch::new("abandoned");
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    scratch.file(".fangorn-1-0.tmp", "this process lives, but the file is not its own");
    scratch.file(".fangorn-999999999-3.tmp", "of a process that has ended");
    let kept = scratch.file("kept", "what a link leads to");
    std::os::unix::fs::symlink(&kept, scratch.path(".fangorn-2-0.tmp")).expect("a link");
    let living = scratch.file(".fangorn-999999998-0.tmp", "of a process that lives");
    let living = std::fs::File::open(living).expect("it");
    living.lock().expect("a lock");
    prints(&["predict", &model, "--rows", &rows, "-o", &scratch.path("out.npy")]);
    let mut left = others(&scratch.0, &["out.npy", "kept"]);
    left.sort();
    assert_eq!(left, [".fangorn-2-0.tmp", ".fangorn-999999998-0.tmp"]);
    drop(living);
    prints(&["predict", &model, "--rows", &rows, "-o", &scratch.path("out.npy")]);
    assert_eq!(others(&scratch.0, &["out.npy", "kept"]), [".fangorn-2-0.tmp"]);
}

/// The stack of a thread is larger than the address space.
#[test]
#[cfg(target_os = "linux")]
fn a_thread_that_can_not_be_started_is_no_defect() {
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 4000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_fangorn")])
        .args(["predict", &model("churn"), "--rows", &zoo("churn", "rows.npy")])
        .env("RUST_MIN_STACK", "100000000000")
        .output()
        .expect("a shell");
    crate::assert_refused(&output, &["no thread can be started", "more memory", "RAYON_NUM_THREADS"]);
}

#[test]
#[cfg(unix)]
fn links_and_devices_are_written_through() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let scratch = Scratch::new("links");
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let expected = prints(&["predict", &model, "--rows", &rows]);
    let (target, link) = (scratch.file("target.csv", "old"), scratch.path("link.csv"));
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o640)).expect("a mode");
    symlink("target.csv", &link).expect("a link");
    prints(&["predict", &model, "--rows", &rows, "-o", &link]);
    assert_eq!(std::fs::read_to_string(&target).expect("it"), expected);
    assert!(std::fs::symlink_metadata(&link).expect("it").is_symlink());
    assert_eq!(std::fs::metadata(&target).expect("it").permissions().mode() & 0o777, 0o640);
    let device = scratch.path("device.csv");
    symlink("/dev/null", &device).expect("a link");
    prints(&["predict", &model, "--rows", &rows, "-o", &device]);
    assert!(others(&scratch.0, &["target.csv", "link.csv", "device.csv"]).is_empty());
}

#[test]
fn a_limit_is_named_with_the_flag_that_raises_it() {
    let churn = model("churn");
    for (flag, value) in [
        ("--max-file-bytes", "100"),
        ("--max-trees", "3"),
        ("--max-nodes", "10"),
        ("--max-string-bytes", "2"),
    ] {
        refuses(&["inspect", &churn, flag, value], &["model.ubj", "over the limit", flag]);
    }
    prints(&["inspect", &churn, "--max-file-bytes", "10000000"]);
}

/// The answers of rows without columns take no room in a file, so any number of them may be announced there.
#[test]
#[cfg(unix)]
fn more_results_than_there_is_memory_for_are_refused() {
    let scratch = Scratch::new("results");
    let mut forest = fangorn::Forest::builder(0, 1);
    forest.tree(0).leaf(0, &[0.5]);
    let own = scratch.path("constant.fangorn");
    let contents = fangorn::file::Contents::new(forest.build().expect("a forest"));
    std::fs::write(&own, contents.to_bytes()).expect("a file");
    for rows in [1u64 << 31, 1 << 61, 1 << 62] {
        let file = scratch.path("rows.npy");
        std::fs::write(&file, npy::<f32>(&[rows, 0], npyz::Order::C, &[])).expect("rows");
        for output in ["value", "margin", "leaf", "tree"] {
            let out = scratch.path("out.npy");
            let command = ["predict", &own, "--rows", &file, "--output", output, "-o", &out];
            let script = "ulimit -v 4000000; exec \"$0\" \"$@\"";
            let run = std::process::Command::new("sh")
                .args(["-c", script, env!("CARGO_BIN_EXE_fangorn")])
                .args(command)
                .output()
                .expect("a shell");
            let said = String::from_utf8_lossy(&run.stderr);
            assert_eq!(run.status.code(), Some(2), "{rows} rows, {output}: {said}");
            assert!(
                said.lines().count() == 1 && (said.contains("fewer rows") || said.contains("chunks")),
                "{said}"
            );
        }
    }
}

#[test]
fn a_refusal_is_one_line_whatever_was_noted_before() {
    let scratch = Scratch::new("notes");
    let short = scratch.file("short.csv", "1,2\n");
    refuses(&["predict", &model("early-stopped"), "--rows", &short], &["short.csv", "line 1"]);
    let churn = model("churn");
    let columns: Vec<String> = (0..npy_columns(&zoo("churn", "rows.npy"))).map(|c| c.to_string()).collect();
    let row = vec!["0.5"; columns.len()].join(",");
    let numbered = scratch.file("numbered.csv", format!("{}\n{row}\n", columns.join(",")));
    let margins = scratch.file("margins.csv", "1\n2\n3\n");
    let predict = ["predict", &churn, "--rows", &numbered, "--base-margin", &margins];
    refuses(&predict, &["margins.csv", "3 rows"]);
    assert!(fangorn(&predict[..4]).status.success());
}

/// Columns of a matrix in a file.
fn npy_columns(path: &str) -> u64 {
    read_npy::<f32>(path).0[1]
}
