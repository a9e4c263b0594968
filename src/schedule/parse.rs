//! The text form of a schedule, read.
//!
//! One directive a line: `name(argument, …)`. What the papers print is read as it stands: a line number before the
//! directive, a semicolon after it, `schedule.Tile(…)` with braces round a reorder's list, declarations of index
//! variables (which say nothing), and the papers' names for sizes.

use super::{Choice, Directive, GpuDim, LayoutKind, PAD_PERCENT, Schedule, Size, TreeOrder};

/// The sizes that listings in the papers name without saying: rows a chunk of XGBoost's loop (64 in its sources)
/// and rows a thread block of Tahoe's.
const NAMED: [(&str, u32); 2] = [("CHUNK_SIZE", 64), ("ROWS_PER_TB", 64)];

/// A line of a schedule that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule, line {line}: {what}")]
pub struct ParseError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong and what was expected.
    pub what: String,
}

/// Reads a whole text.
pub(super) fn parse(text: &str) -> Result<Schedule, ParseError> {
    let mut directives = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let read = parse_line(line).map_err(|what| ParseError { line: i + 1, what })?;
        directives.extend(read);
    }
    Ok(Schedule { directives })
}

fn parse_line(line: &str) -> Result<Option<Directive>, String> {
    let line = line.split('#').next().unwrap_or("").trim().trim_end_matches(';').trim();
    // Listings number their lines.
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let line = if line[digits..].starts_with(char::is_whitespace) { line[digits..].trim() } else { line };
    if line.is_empty()
        || line.starts_with("IndexVar ")
        || line.starts_with("auto ")
        || line.starts_with("auto& ")
    {
        return Ok(None);
    }
    let line = line.strip_prefix("schedule.").unwrap_or(line);
    let (name, rest) = line
        .split_once('(')
        .ok_or(format!("expected a directive, `tile(batch, b0, b1, 64)` say, found `{line}`"))?;
    let inside = rest.trim_end().strip_suffix(')').ok_or(format!("`{}(` is not closed", name.trim()))?;
    let inside = inside.trim().trim_start_matches('{').trim_end_matches('}');
    let arguments: Vec<&str> =
        if inside.trim().is_empty() { Vec::new() } else { inside.split(',').map(str::trim).collect() };
    directive(name.trim(), &arguments).map(Some)
}

fn directive(name: &str, arguments: &[&str]) -> Result<Directive, String> {
    let usage = |form: &str| format!("expected `{form}`, found {} argument(s)", arguments.len());
    let mut lower = name.to_owned();
    // Listings in C++ capitalise the first letter.
    if let Some(first) = lower.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    match (lower.as_str(), arguments) {
        ("tile", [v, o, i, s]) => {
            Ok(Directive::Tile { var: variable(v)?, outer: fresh(o)?, inner: fresh(i)?, size: size(s)? })
        }
        ("tile", _) => Err(usage("tile(variable, outer, inner, size)")),
        ("split", [v, a, b, s]) => {
            Ok(Directive::Split { var: variable(v)?, first: fresh(a)?, second: fresh(b)?, at: size(s)? })
        }
        ("split", _) => Err(usage("split(variable, first, second, iterations)")),
        ("reorder", vars) if !vars.is_empty() => {
            Ok(Directive::Reorder { vars: vars.iter().map(|v| variable(v)).collect::<Result<_, _>>()? })
        }
        ("reorder", _) => Err(usage("reorder(outermost, …, innermost)")),
        ("parallel", [v]) => Ok(Directive::Parallel { var: variable(v)? }),
        ("parallel", _) => Err(usage("parallel(variable)")),
        ("gpuDimension", [v, d]) => {
            let dim =
                GpuDim::parse(d).ok_or(format!("`{d}` is no GPU dimension: grid.x/y/z or block.x/y/z"))?;
            Ok(Directive::GpuDimension { var: variable(v)?, dim })
        }
        ("gpuDimension", _) => Err(usage("gpuDimension(variable, grid.x)")),
        ("cache", [v]) => Ok(Directive::Cache { var: variable(v)? }),
        ("cache", _) => Err(usage("cache(variable)")),
        ("interleave", [v]) => Ok(Directive::Interleave { var: variable(v)? }),
        ("interleave", _) => Err(usage("interleave(variable)")),
        ("unrollWalk", [v]) => Ok(Directive::UnrollWalk { var: variable(v)?, steps: None }),
        ("unrollWalk", [v, n]) => {
            let steps = n.parse().map_err(|_| format!("`{n}` is no number of steps"))?;
            Ok(Directive::UnrollWalk { var: variable(v)?, steps: Some(steps) })
        }
        ("unrollWalk", _) => Err(usage("unrollWalk(variable, steps)")),
        ("sharedReduce", [v]) => Ok(Directive::SharedReduce { var: variable(v)? }),
        ("sharedReduce", _) => Err(usage("sharedReduce(variable)")),
        ("layout", [k]) => {
            let kind = LayoutKind::parse(k).ok_or(format!("`{k}` is no layout: array, sparse or reorg"))?;
            Ok(Directive::Layout { kind })
        }
        ("layout", _) => Err(usage("layout(array)")),
        ("sort", [order]) => {
            let by = TreeOrder::ALL.into_iter().find(|o| o.name() == *order);
            let by = by.ok_or(format!("`{order}` is no order: depth, first_leaf or structure"))?;
            Ok(Directive::Sort { by })
        }
        ("sort", _) => Err(usage("sort(depth)")),
        ("pad", []) => Ok(Directive::Pad { percent: PAD_PERCENT }),
        ("pad", [n]) => {
            let percent = n.strip_suffix('%').unwrap_or(n).parse();
            Ok(Directive::Pad { percent: percent.map_err(|_| format!("`{n}` is no number of percent"))? })
        }
        ("pad", _) => Err(usage("pad(percent)")),
        ("ranks", ["off"]) => Ok(Directive::Ranks { choice: None }),
        ("ranks", [name]) => {
            let choice = Choice::ALL.into_iter().find(|c| c.name() == *name);
            choice
                .map(|c| Directive::Ranks { choice: Some(c) })
                .ok_or(format!("`{name}` is no width of ranks: u8, u16, auto or off"))
        }
        ("ranks", _) => Err(usage("ranks(auto)")),
        ("unroll", [v]) => Ok(Directive::Unroll { var: variable(v)? }),
        ("unroll", _) => Err(usage("unroll(variable)")),
        ("specialize", [v]) => Ok(Directive::Specialize { var: variable(v)? }),
        ("specialize", _) => Err(usage("specialize(variable)")),
        ("peelWalk", [v, n]) => {
            let steps = n.parse().map_err(|_| format!("`{n}` is no number of steps"))?;
            Ok(Directive::PeelWalk { var: variable(v)?, steps })
        }
        ("peelWalk", _) => Err(usage("peelWalk(variable, steps)")),
        ("atomicReduce", [v]) => Ok(Directive::AtomicReduce { var: variable(v)? }),
        ("atomicReduce", _) => Err(usage("atomicReduce(variable)")),
        ("vectorReduce", [v, n]) => match n.parse() {
            Ok(width @ (1 | 2 | 4 | 8 | 16)) => Ok(Directive::VectorReduce { var: variable(v)?, width }),
            _ => Err(format!("`{n}` is no vector width: 1, 2, 4, 8 or 16")),
        },
        ("vectorReduce", _) => Err(usage("vectorReduce(variable, width)")),
        _ => Err(format!(
            "`{name}` is no directive: tile, split, reorder, unroll, specialize, gpuDimension, parallel, cache, \
             interleave, unrollWalk, peelWalk, atomicReduce, sharedReduce, vectorReduce, layout, sort, pad"
        )),
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A variable in use: a name, or the path to a copy of it, `t0.batch`.
fn variable(name: &str) -> Result<String, String> {
    if name.split('.').all(is_name) {
        Ok(name.to_owned())
    } else {
        Err(format!("`{name}` is no variable's name"))
    }
}

/// A name for a new variable.
fn fresh(name: &str) -> Result<String, String> {
    if is_name(name) { Ok(name.to_owned()) } else { Err(format!("`{name}` is no name for a new variable")) }
}

/// `term` or `term/term`.
fn size(text: &str) -> Result<Size, String> {
    match text.split_once('/') {
        None => term(text),
        Some((a, b)) => Ok(term(a)? / term(b)?),
    }
}

fn term(text: &str) -> Result<Size, String> {
    let text = text.trim();
    match text {
        "batch" | "batch_size" | "N_batch" => return Ok(Size::Batch),
        "trees" | "N_t" | "num_trees" => return Ok(Size::Trees),
        "threads" => return Ok(Size::Threads),
        _ => {}
    }
    if let Some((_, n)) = NAMED.iter().find(|(name, _)| *name == text) {
        return Ok(Size::Const(*n));
    }
    match text.parse::<u32>() {
        Ok(0) => Err("a size is at least 1".to_owned()),
        Ok(n) => Ok(Size::Const(n)),
        Err(_) => {
            Err(format!("`{text}` is no size: a number, batch, trees, threads, or one divided by another"))
        }
    }
}
