//! The commands that the book and the README show print what they say.

use std::{path::Path, process::Command};

use fangorn::{
    import::{self, LoadOptions},
    schedule::{Preset, Schedule},
};

/// What a console listing shows: a command, and the lines that it prints.
struct Shown {
    location: String,
    command: String,
    lines: Vec<String>,
}

fn shown(file: &str) -> Vec<Shown> {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).expect(file);
    let mut found: Vec<Shown> = Vec::new();
    let mut inside = false;
    for (n, line) in text.lines().enumerate() {
        match line.strip_prefix("$ ") {
            _ if line.starts_with("```") => inside = line == "```console",
            Some(command) if inside => found.push(Shown {
                location: format!("{file}, line {}", n + 1),
                command: command.into(),
                lines: Vec::new(),
            }),
            None if inside => {
                if let Some(last) = found.last_mut() {
                    last.lines.push(line.into());
                }
            }
            _ => {}
        }
    }
    found
}

/// What a command prints here, one line after another: standard output, then standard error.
fn printed(command: &str, scratch: &Path) -> Vec<String> {
    let words: Vec<String> = command
        .split_whitespace()
        .skip(1)
        // Files that a chapter makes.
        .map(|w| if w.ends_with(".fangorn") { scratch.join(w).display().to_string() } else { w.into() })
        .collect();
    let output = Command::new(env!("CARGO_BIN_EXE_fangorn"))
        .args(&words)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RAYON_NUM_THREADS", "2")
        // Costs that were measured on this machine might choose other schedules.
        .env("FANGORN_CACHE", scratch.join("cache"))
        .output()
        .expect("the program runs");
    let text = String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8");
    text.replace(&format!("{}/", scratch.display()), "").lines().map(str::to_owned).collect()
}

#[test]
fn commands_print_what_the_book_says() {
    let scratch = std::env::temp_dir().join(format!("fangorn-book-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("a folder");
    let files = ["book/src/start.md", "book/src/compiled.md", "book/src/schedule.md", "book/src/layout.md"];
    let (mut run, mut wrong) = (0, Vec::new());
    for Shown { location, command, mut lines } in files.iter().flat_map(|file| shown(file)) {
        // Times are a machine's, other backends another build's, and an output that is cut says so.
        let elsewhere =
            command.contains(" bench ") || command.contains("--backend") || command.contains("--emit kernel");
        let cut = lines.iter().any(|line| line.trim() == "…");
        if !command.starts_with("fangorn ") || elsewhere || cut || lines.is_empty() {
            continue;
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        run += 1;
        let found = printed(&command, &scratch);
        if found != lines {
            wrong.push(format!(
                "{location}: {command}\nthe book:\n{}\nprinted:\n{}",
                lines.join("\n"),
                found.join("\n")
            ));
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    assert!(wrong.is_empty(), "{} of {run} differ:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(run >= 6, "{run} commands were found");
}

/// The directives that a cell of a table shows, a line each.
fn directives(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn presets_are_what_the_book_says() {
    let text = include_str!("../../book/src/schedule/presets.md");
    let (_, section) = text.split_once("## What they are").expect("the section");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let forest =
        import::load(&root.join("tests/zoo/churn/model.ubj"), &LoadOptions::default()).expect("the model");
    let mut rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let mut before = Vec::new();
    for preset in Preset::ALL {
        let (name, cells) = rows.next().expect("a row for each preset");
        assert_eq!(name, preset.name());
        let (on_gpu, on_cpu) = cells.trim_end_matches(" |").split_once(" | ").expect("two cells");
        let mut gpu = directives(on_gpu);
        if on_gpu.starts_with("the same with") {
            let last = gpu.pop().expect("what is different");
            gpu = before[..before.len() - 1].to_vec();
            gpu.push(last);
        }
        let cpu = match on_cpu {
            "the same" => gpu.clone(),
            "`parallel(b0)` instead of the two" => {
                let mut cpu = gpu.clone();
                let two = cpu.iter().position(|d| d.starts_with("gpuDimension")).expect("the first of them");
                cpu.splice(two..two + 2, ["parallel(b0)".to_owned()]);
                cpu
            }
            shown => directives(shown),
        };
        for (shown, is_gpu) in [(&gpu, true), (&cpu, false)] {
            let schedule = Schedule::parse(&shown.join("\n")).expect("the book's schedule");
            assert_eq!(schedule, preset.schedule(&forest, is_gpu), "{name}, on a GPU: {is_gpu}");
        }
        before = gpu;
    }
}

/// Paragraphs wrap at 120 characters; tables, listings, headings and links that can't be broken do not.
#[test]
fn lines_of_the_book_wrap_at_120() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("book/src")];
    let mut files = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the book") {
            let path = entry.expect("an entry").path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(end) if end == "md" => files.push(path),
                _ => {}
            }
        }
    }
    let mut long = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("a chapter");
        let mut listing = false;
        for (n, line) in text.lines().enumerate() {
            listing ^= line.trim_start().starts_with("```");
            let words = line.split_whitespace().count();
            if !listing && !line.starts_with(['|', '#', '!']) && words > 1 && line.chars().count() > 120 {
                long.push(format!("{}, line {}", file.display(), n + 1));
            }
        }
    }
    assert!(long.is_empty(), "longer than 120 characters: {long:#?}");
}
