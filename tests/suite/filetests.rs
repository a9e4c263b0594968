//! The IRs as text: each file in `filetests` holds a forest, a schedule, and what passes make of them.
//!
//! ```text
//! # Comments, anywhere before the first pass.
//! forest: depth 1, depth 1, 2 x depth 2; features 3
//! schedule:
//!   reorder(tree, batch)
//! == cpu legalise
//! result: f32[batch, outputs]
//! ```
//!
//! A pass is `cpu`, `gpu` or `gpu-atomics` (which adds to `f32` in buffers), then `loops` (MIR as the schedule spells it
//! out), `legalise` (MIR with legal reductions), `plan` (LIR) or `notes` (what is carried out otherwise, a line each);
//! what follows is compared exactly. A refusal is its message after `refused: `. Run with `FANGORN_BLESS=1` to write
//! what is found into the files, and read it before it is kept.

use crate::generate;

use std::{
    fmt::Write,
    path::{Path, PathBuf},
};

use fangorn::{
    Forest,
    plan::{Request, lower},
    schedule::{Device, Gpu, Schedule},
};

fn pass(forest: &Forest, schedule: &str, pass: &str) -> String {
    let (target, pass) = pass.split_once(' ').unwrap_or_else(|| panic!("`{pass}`: a target and a pass"));
    let device = match target {
        "cpu" => Device::Cpu,
        "gpu" => Device::PORTABLE_GPU,
        "gpu-atomics" => Device::Gpu(Gpu { atomic_add: true, ..Gpu::PORTABLE }),
        _ => panic!("`{target}`: cpu, gpu or gpu-atomics"),
    };
    let request = Request { device, threads: 1, ..Request::cpu() };
    let lowered = Schedule::parse(schedule)
        .map_err(fangorn::Error::from)
        .and_then(|schedule| lower(forest, &schedule, request));
    match (lowered, pass) {
        (Err(e), _) => format!("refused: {e}\n"),
        (Ok(lowered), "loops") => lowered.loops().to_string(),
        (Ok(lowered), "legalise") => lowered.legal().to_string(),
        (Ok(lowered), "plan") => lowered.plan().to_string(),
        (Ok(lowered), "notes") => lowered.notes().iter().map(|note| format!("{note}\n")).collect(),
        _ => panic!("`{pass}`: loops, legalise, plan or notes"),
    }
}

/// What the file should say: its own head, and the passes' output as it is found.
fn run(text: &str) -> String {
    let head_length = text.find("\n== ").map_or(text.len(), |at| at + 1);
    let (head, passes) = text.split_at(head_length);
    let says = |line: &&str| !line.starts_with('#');
    let forest =
        head.lines().filter(says).find_map(|l| l.strip_prefix("forest: ")).expect("a line `forest: …`");
    let forest = generate::forest_of(forest);
    let schedule = head.split_once("\nschedule:\n").expect("a line `schedule:`").1;
    let mut out = head.to_owned();
    for title in passes.lines().filter_map(|l| l.strip_prefix("== ")) {
        // Writing to a String does not fail.
        let _ = write!(out, "== {title}\n{}", pass(&forest, schedule, title));
    }
    out
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filetests");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("the files").flatten().map(|e| e.path()).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files
}

#[test]
fn each_directive_has_a_file() {
    // The parser's own list.
    let refusal = Schedule::parse("nothing()").expect_err("no directive").to_string();
    let (_, names) = refusal.rsplit_once(": ").expect("the names there are");
    let texts: Vec<String> =
        files().iter().map(|f| std::fs::read_to_string(f).expect("a text file")).collect();
    let said = |name: &&str| texts.iter().any(|text| text.contains(&format!("\n  {name}(")));
    let unsaid: Vec<&str> = names.split(", ").filter(|name| !said(name)).collect();
    assert!(names.contains("peelWalk") && unsaid.is_empty(), "no file has {unsaid:?}");
}

#[test]
fn passes_give_what_the_files_say() {
    let bless = std::env::var_os("FANGORN_BLESS").is_some();
    let mut wrong = String::new();
    for file in files() {
        let expected = std::fs::read_to_string(&file).expect("a text file");
        assert!(expected.contains("\n== "), "{}: no pass", file.display());
        let found = run(&expected);
        if found == expected {
            continue;
        }
        if bless {
            std::fs::write(&file, found).expect("the file is written");
            continue;
        }
        let first = expected.lines().zip(found.lines()).position(|(e, f)| e != f);
        let first = first.unwrap_or_else(|| expected.lines().count().min(found.lines().count()));
        let line = |text: &str| text.lines().nth(first).unwrap_or("(the end)").to_owned();
        let _ = writeln!(
            wrong,
            "{}, line {}:\n  expected {}\n  found    {}\nthe whole as found:\n{found}",
            file.display(),
            first + 1,
            line(&expected),
            line(&found)
        );
    }
    assert!(wrong.is_empty(), "{wrong}");
}
