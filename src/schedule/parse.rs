//! Reads the text form of a schedule.
//!
//! The form has one directive a line: `name(argument, …)`. Listings in the papers can be read unchanged. They
//! put a line number before a directive, a semicolon after it, `schedule.Tile(…)` with braces around the
//! arguments, declarations of index variables (which have no effect), and their own names for sizes.

use super::{
    Choice, Directive, Evaluation, FewRows, GpuDim, LayoutKind, PAD_PERCENT, Schedule, Size, Tiler, TreeOrder,
};
use crate::forest::tiling::MOST_TILE;

/// The sizes that the papers' listings name without giving a value: the rows of a chunk in XGBoost's loop (64
/// in its sources), and the rows of a thread block in Tahoe's loop.
const NAMED: [(&str, u32); 2] = [("CHUNK_SIZE", 64), ("ROWS_PER_TB", 64)];

/// The error of a line of a schedule that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule, line {line}, column {column}: {what}")]
pub struct ParseError {
    /// The line's number, from 1.
    pub line: usize,
    /// The column of the character where reading stopped, from 1.
    pub column: usize,
    /// What is wrong, and what was expected.
    pub what: String,
}

/// Text of a line that can't be read, and why.
struct Wrong<'a> {
    at: &'a str,
    what: String,
}

type ParseResult<'a, T> = Result<T, Wrong<'a>>;

fn wrong<T>(at: &str, what: impl Into<String>) -> ParseResult<'_, T> {
    Err(Wrong { at, what: what.into() })
}

/// Reads the text of a schedule.
pub(super) fn parse(text: &str) -> Result<Schedule, ParseError> {
    let mut directives = Vec::new();
    // Editors on Windows begin a file with a byte-order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (i, line) in text.lines().enumerate() {
        let read = parse_line(line).map_err(|Wrong { at, what }| ParseError {
            line: i + 1,
            column: column(line, at),
            what,
        })?;
        directives.extend(read);
    }
    Ok(Schedule { directives })
}

/// Returns the column of `at`, a slice of `line`, in characters from 1.
fn column(line: &str, at: &str) -> usize {
    let before = (at.as_ptr() as usize).saturating_sub(line.as_ptr() as usize);
    line.char_indices().take_while(|(i, _)| *i < before).count() + 1
}

fn parse_line(whole: &str) -> ParseResult<'_, Option<Directive>> {
    let line = whole.split('#').next().unwrap_or(whole).trim();
    if line.is_empty() {
        return Ok(None);
    }
    // The papers' listings number their lines.
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let line = if line[digits..].starts_with(char::is_whitespace) { line[digits..].trim() } else { line };
    if let Some(declared) = line.strip_prefix("IndexVar ") {
        return index_variables(declared).map(|()| None);
    }
    if let Some(declared) = line.strip_prefix("auto ").or_else(|| line.strip_prefix("auto& ")) {
        return given_variable(declared).map(|()| None);
    }
    let statement = line.strip_prefix("schedule.").unwrap_or(line);
    let Some((name, rest)) = statement.split_once('(') else {
        return wrong(line, format!("expected a directive like `tile(batch, b0, b1, 64)`, found `{line}`"));
    };
    let name = name.trim();
    let Some(end) = closing(rest) else {
        return wrong(statement, format!("`{name}(` is not closed; end it with `)`"));
    };
    let (inside, behind) = (&rest[..end], &rest[end + 1..]);
    let behind = behind.trim_start_matches([';', ' ', '\t']);
    if !behind.is_empty() {
        return wrong(behind, format!("`{behind}` stands after the directive; write one directive a line"));
    }
    let inside = unbraced(inside)?;
    let arguments: Vec<&str> =
        if inside.is_empty() { Vec::new() } else { inside.split(',').map(str::trim).collect() };
    if let Some(missing) = arguments.iter().find(|a| a.is_empty()) {
        return wrong(missing, "an argument is missing here; write it, or leave the comma out");
    }
    directive(name, &arguments).map(Some)
}

/// Returns the index of the parenthesis that closes the one before `rest`.
fn closing(rest: &str) -> Option<usize> {
    let mut open = 1u32;
    rest.char_indices().find_map(|(at, c)| {
        match c {
            '(' => open += 1,
            ')' => open -= 1,
            _ => {}
        }
        (open == 0).then_some(at)
    })
}

/// Reads `walk`, `blend` or `blend(levels)`.
fn evaluation(how: &str) -> ParseResult<'_, Evaluation> {
    match how {
        "walk" => return Ok(Evaluation::Walk),
        "blend" => return Ok(Evaluation::Blend),
        _ => {}
    }
    let inside = how.strip_prefix("blend").and_then(|rest| rest.trim_start().strip_prefix('('));
    let Some(levels) = inside.and_then(|rest| rest.strip_suffix(')')).map(str::trim) else {
        return wrong(how, format!("`{how}` is no way to evaluate a tree: walk, blend or blend(levels)"));
    };
    match levels.parse() {
        Ok(n @ 1..=Evaluation::MOST_LEVELS) => Ok(Evaluation::BlendTop(n)),
        _ => wrong(
            levels,
            format!("`{levels}` is no number of levels to blend: 1 to {}", Evaluation::MOST_LEVELS),
        ),
    }
}

/// Returns the arguments without the braces around all of them.
fn unbraced(inside: &str) -> ParseResult<'_, &str> {
    let inside = inside.trim();
    let list = match inside.strip_prefix('{') {
        None => inside,
        Some(open) => match open.strip_suffix('}') {
            Some(list) => list.trim(),
            None => return wrong(inside, "`{` is not closed; end the arguments with `}`, or leave it out"),
        },
    };
    match list.find(['{', '}']) {
        None => Ok(list),
        Some(at) => wrong(
            &list[at..],
            format!("`{}` stands alone; braces go round all arguments, once", &list[at..=at]),
        ),
    }
}

/// Reads a declaration such as `i0, i1, t0;`, which has no effect: `tile` and `split` name the variables that
/// they make.
fn index_variables(declared: &str) -> ParseResult<'_, ()> {
    let names = declared.trim_end_matches([';', ' ', '\t']);
    match names.split(',').map(str::trim).find(|n| !is_name(n)) {
        None => Ok(()),
        Some(other) => wrong(other, format!("expected `IndexVar b0, b1;`, found `{other}` for a name")),
    }
}

/// Reads `batch = schedule.GetBatchIndex();` or `tree = schedule.GetTreeIndex();`, which has no effect: the
/// two variables have these names already.
fn given_variable(declared: &str) -> ParseResult<'_, ()> {
    let statement = declared.trim_end_matches([';', ' ', '\t']);
    match statement.split_once('=').map(|(name, of)| (name.trim(), of.trim())) {
        Some(("batch", "schedule.GetBatchIndex()") | ("tree", "schedule.GetTreeIndex()")) => Ok(()),
        _ => wrong(
            declared,
            "expected `auto& batch = schedule.GetBatchIndex();` or `auto& tree = schedule.GetTreeIndex();`; the rows \
             are `batch`, the trees `tree`, and a directive stands without `auto`",
        ),
    }
}

fn directive<'a>(name: &'a str, arguments: &[&'a str]) -> ParseResult<'a, Directive> {
    let usage = |form: &str| wrong(name, format!("expected `{form}`, found {} argument(s)", arguments.len()));
    let mut lower = name.to_owned();
    // The papers' listings in C++ capitalise the first letter of a directive.
    if let Some(first) = lower.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    match (lower.as_str(), arguments) {
        ("tile", [v, o, i, s]) => Ok(Directive::Tile {
            var: variable(v)?,
            outer: check_new_names(o)?,
            inner: check_new_names(i)?,
            size: size(s)?,
        }),
        ("tile", _) => usage("tile(variable, outer, inner, size)"),
        ("split", [v, a, b, s]) => Ok(Directive::Split {
            var: variable(v)?,
            first: check_new_names(a)?,
            second: check_new_names(b)?,
            at: size(s)?,
        }),
        ("split", _) => usage("split(variable, first, second, iterations)"),
        ("reorder", vars) if !vars.is_empty() => {
            Ok(Directive::Reorder { vars: vars.iter().map(|v| variable(v)).collect::<Result<_, _>>()? })
        }
        ("reorder", _) => usage("reorder(outermost, …, innermost)"),
        ("parallel", [v]) => Ok(Directive::Parallel { var: variable(v)? }),
        ("parallel", _) => usage("parallel(variable)"),
        ("gpuDimension", [v, d]) => gpu_dimension(v, d),
        ("gpuDimension", _) => usage("gpuDimension(variable, grid.x)"),
        ("cache", [v]) => Ok(Directive::Cache { var: variable(v)? }),
        ("cache", _) => usage("cache(variable)"),
        ("interleave", [v]) => Ok(Directive::Interleave { var: variable(v)? }),
        ("interleave", _) => usage("interleave(variable)"),
        ("unrollWalk", [v]) => Ok(Directive::UnrollWalk { var: variable(v)?, steps: None }),
        ("unrollWalk", [v, n]) => {
            Ok(Directive::UnrollWalk { var: variable(v)?, steps: Some(number(n, "of steps")?) })
        }
        ("unrollWalk", _) => usage("unrollWalk(variable, steps)"),
        ("sharedReduce", [v]) => Ok(Directive::SharedReduce { var: variable(v)? }),
        ("sharedReduce", _) => usage("sharedReduce(variable)"),
        ("layout", [k]) => match LayoutKind::parse(k) {
            Some(kind) => Ok(Directive::Layout { kind }),
            None => wrong(k, format!("`{k}` is no layout: array, sparse, reorg or depth_first")),
        },
        ("layout", _) => usage("layout(array)"),
        ("sort", [order]) => sort(order),
        ("sort", _) => usage("sort(depth)"),
        ("pad", []) => Ok(Directive::Pad { percent: PAD_PERCENT }),
        ("pad", [n]) => {
            let percent = n.strip_suffix('%').unwrap_or(n).trim_end();
            Ok(Directive::Pad { percent: number(percent, "of percent")? })
        }
        ("pad", _) => usage("pad(percent)"),
        ("fewRows", [by]) => few_rows(by),
        ("fewRows", _) => usage("fewRows(auto)"),
        ("ranks", ["off"]) => Ok(Directive::Ranks { choice: None }),
        ("ranks", [width]) => match Choice::ALL.into_iter().find(|c| c.name() == *width) {
            Some(choice) => Ok(Directive::Ranks { choice: Some(choice) }),
            None => wrong(width, format!("`{width}` is no width of ranks: u8, u16, auto or off")),
        },
        ("ranks", _) => usage("ranks(auto)"),
        ("unroll", [v]) => Ok(Directive::Unroll { var: variable(v)? }),
        ("unroll", _) => usage("unroll(variable)"),
        ("specialize", [v]) => Ok(Directive::Specialize { var: variable(v)? }),
        ("specialize", _) => usage("specialize(variable)"),
        ("peelWalk", [v, rows]) if rows.ends_with('%') => peel_likely(v, rows),
        ("peelWalk", [v, n]) => Ok(Directive::PeelWalk { var: variable(v)?, steps: number(n, "of steps")? }),
        ("peelWalk", _) => usage("peelWalk(variable, steps)"),
        ("tileNodes", [n, by]) => tile_nodes(n, by),
        ("tileNodes", _) => usage("tileNodes(nodes, uniform)"),
        ("evaluate", [v, how]) => Ok(Directive::Evaluate { var: variable(v)?, how: evaluation(how)? }),
        ("evaluate", _) => usage("evaluate(variable, blend)"),
        ("atomicReduce", [v]) => Ok(Directive::AtomicReduce { var: variable(v)? }),
        ("atomicReduce", _) => usage("atomicReduce(variable)"),
        ("vectorReduce", [v, n]) => match n.parse() {
            Ok(width @ (1 | 2 | 4 | 8 | 16)) => Ok(Directive::VectorReduce { var: variable(v)?, width }),
            _ => wrong(n, format!("`{n}` is no vector width: 1, 2, 4, 8 or 16")),
        },
        ("vectorReduce", _) => usage("vectorReduce(variable, width)"),
        _ => wrong(
            name,
            format!(
                "`{name}` is no directive: tile, split, reorder, unroll, specialize, gpuDimension, parallel, cache, \
                 interleave, unrollWalk, peelWalk, evaluate, atomicReduce, sharedReduce, vectorReduce, layout, tileNodes, sort, pad, fewRows, ranks"
            ),
        ),
    }
}

/// Reads the arguments of `gpuDimension`.
fn gpu_dimension<'a>(v: &'a str, d: &'a str) -> ParseResult<'a, Directive> {
    let var = variable(v)?;
    match GpuDim::parse(d) {
        Some(dim) => Ok(Directive::GpuDimension { var, dim }),
        None => wrong(d, format!("`{d}` is no GPU dimension: grid.x/y/z or block.x/y/z")),
    }
}

/// Reads the argument of `sort`.
fn sort(order: &str) -> ParseResult<'_, Directive> {
    match TreeOrder::ALL.into_iter().find(|o| o.name() == order) {
        Some(by) => Ok(Directive::Sort { by }),
        None => wrong(order, format!("`{order}` is no order: depth, first_leaf, structure or likely_leaf")),
    }
}

/// Reads the argument of `fewRows`.
fn few_rows(by: &str) -> ParseResult<'_, Directive> {
    match FewRows::ALL.into_iter().find(|f| f.name() == by) {
        Some(by) => Ok(Directive::FewRows { by }),
        None => {
            let [names @ .., last] = FewRows::ALL.map(FewRows::name);
            wrong(by, format!("`{by}` is no way to walk a few rows: {} or {last}", names.join(", ")))
        }
    }
}

/// Reads the arguments of `peelWalk` with a share of the rows.
fn peel_likely<'a>(v: &'a str, rows: &'a str) -> ParseResult<'a, Directive> {
    let given = rows.strip_suffix('%').unwrap_or(rows).trim_end();
    match number(given, "of percent")? {
        percent @ 1..=100 => Ok(Directive::PeelLikely { var: variable(v)?, percent }),
        _ => wrong(rows, format!("`{rows}` is no share of the rows: 1% to 100%")),
    }
}

/// Reads the arguments of `tileNodes`.
fn tile_nodes<'a>(n: &'a str, by: &'a str) -> ParseResult<'a, Directive> {
    let nodes = number(n, "of nodes")?;
    if !(1..=MOST_TILE).contains(&nodes) {
        return wrong(n, format!("`{n}` is no number of nodes of a tile: 1 to {MOST_TILE}"));
    }
    match Tiler::ALL.into_iter().find(|t| t.name() == by) {
        Some(by) => Ok(Directive::TileNodes { nodes, by }),
        None => wrong(by, format!("`{by}` is no way to gather nodes: uniform, probability or hybrid")),
    }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Reads the name of a variable in use: a name, or the path to a copy of it, for example `t0.batch`.
fn variable(name: &str) -> ParseResult<'_, String> {
    match name.split('.').all(is_name) {
        true => Ok(name.to_owned()),
        false => wrong(
            name,
            format!("`{name}` is no variable's name: letters, digits and _, and dots in the path to a copy"),
        ),
    }
}

/// Reads the name of a new variable.
fn check_new_names(name: &str) -> ParseResult<'_, String> {
    match is_name(name) {
        true => Ok(name.to_owned()),
        false => wrong(
            name,
            format!("`{name}` is no name for a new variable: letters, digits and _, no digit first"),
        ),
    }
}

fn number<'a>(text: &'a str, of: &str) -> ParseResult<'a, u32> {
    text.parse().or_else(|_| wrong(text, format!("`{text}` is no number {of} below 2^32")))
}

/// Reads a size: `term` or `term/term`.
fn size(text: &str) -> ParseResult<'_, Size> {
    match text.split_once('/') {
        None => term(text),
        Some((a, b)) => Ok(term(a)? / term(b)?),
    }
}

fn term(text: &str) -> ParseResult<'_, Size> {
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
        Ok(0) => wrong(text, "a size is at least 1"),
        Ok(n) => Ok(Size::Const(n)),
        Err(_) => wrong(
            text,
            format!(
                "`{text}` is no size: a number below 2^32, batch, trees, threads, or one divided by another"
            ),
        ),
    }
}
