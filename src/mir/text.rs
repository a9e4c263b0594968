//! The text form of a loop nest, in the notation of the listings in the papers.

use std::fmt;

use super::{BufferId, Dim, IndexVar, Loop, LoopNest, Mode, Op, Reduce, Size, Walk};

impl fmt::Display for LoopNest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "result: f32[batch, outputs]")?;
        for (i, partial) in self.partials.iter().enumerate() {
            let copies: Vec<String> = partial.loops.iter().map(|l| extent(&l.var)).collect();
            let space = if partial.shared() { "shared " } else { "" };
            writeln!(f, "partial{i}: {space}f32[{}, batch, outputs]", copies.join(", "))?;
        }
        match self.tile {
            1 => writeln!(f, "model = ensemble(trees)")?,
            nodes => writeln!(f, "model = tileNodes(ensemble(trees), {nodes})")?,
        }
        write_ops(self, f, &self.body, &mut Vec::new())
    }
}

fn extent(var: &IndexVar) -> String {
    var.extent().to_string()
}

/// Returns `a + b` of the loops over `dim`, with the lanes as a vector.
fn index(path: &[&IndexVar], lanes: Option<&IndexVar>, dim: Dim) -> String {
    let mut names: Vec<String> = path.iter().filter(|v| v.dim == dim).map(|v| v.name.clone()).collect();
    names.extend(lanes.filter(|v| v.dim == dim).map(|v| format!("{}[0:{}]", v.name, extent(v))));
    names.join(" + ")
}

fn limits(var: &IndexVar, path: &[&IndexVar]) -> String {
    let texts: Vec<String> = var
        .bounds
        .iter()
        .map(|b| b.minus.iter().fold(b.end.to_string(), |text, d| format!("{text} - {}", path[*d].name)))
        .collect();
    if let [only] = &texts[..] { only.clone() } else { format!("min({})", texts.join(", ")) }
}

fn copy(var: &IndexVar) -> String {
    let base = match &var.start {
        Size::Const(0) => var.name.clone(),
        start => format!("({} - {start})", var.name),
    };
    match &var.stride {
        Size::Const(1) => base,
        stride @ (Size::Const(_) | Size::Batch | Size::Trees) => format!("{base}/{stride}"),
        stride => format!("{base}/({stride})"),
    }
}

fn write_ops<'a>(
    nest: &LoopNest,
    f: &mut fmt::Formatter<'_>,
    ops: &'a [Op],
    path: &mut Vec<&'a IndexVar>,
) -> fmt::Result {
    let depth = path.len();
    write_ops_at(nest, f, ops, path, depth)
}

/// Writes statements with an indentation of `depth` levels. Inside a case, `depth` is greater than the number
/// of enclosing loops.
fn write_ops_at<'a>(
    nest: &LoopNest,
    f: &mut fmt::Formatter<'_>,
    ops: &'a [Op],
    path: &mut Vec<&'a IndexVar>,
    depth: usize,
) -> fmt::Result {
    ops.iter().try_for_each(|op| write_op(nest, f, op, path, depth))
}

fn write_op<'a>(
    nest: &LoopNest,
    f: &mut fmt::Formatter<'_>,
    op: &'a Op,
    path: &mut Vec<&'a IndexVar>,
    depth: usize,
) -> fmt::Result {
    let pad = " ".repeat(2 * depth);
    match op {
        Op::Loop(Loop { var, mode, unrolled, body, .. }) => {
            let how = match mode {
                Mode::Serial => "for".to_owned(),
                Mode::Parallel => "par.for".to_owned(),
                Mode::Gpu(dim) => format!("{dim}.for"),
            };
            let stride = match &var.stride {
                Size::Const(1) => String::new(),
                stride => format!(" step {stride}"),
            };
            let unrolled = if *unrolled { "unrolled " } else { "" };
            let range = format!("{} to {}{stride}", var.start, limits(var, path));
            writeln!(f, "{pad}{unrolled}{how} {} = {range}:", var.name)?;
            path.push(var);
            write_ops_at(nest, f, body, path, depth + 1)?;
            path.pop();
            Ok(())
        }
        Op::CacheRows => {
            let rows = index(path, None, Dim::Batch);
            writeln!(f, "{pad}cacheRows(rows[{rows} :])")
        }
        Op::CacheTrees => {
            let trees = index(path, None, Dim::Tree);
            writeln!(f, "{pad}cacheTrees(model[{trees} :])")
        }
        Op::Cases(cases) => {
            let name = &path[cases.depth].name;
            for (i, case) in cases.cases.iter().enumerate() {
                match i + 1 == cases.cases.len() {
                    true => writeln!(f, "{pad}otherwise:")?,
                    false => writeln!(f, "{pad}case {name} < {}:", case.end)?,
                }
                write_ops_at(nest, f, &case.body, path, depth + 1)?;
            }
            Ok(())
        }
        Op::Walk(walk) => write_walk(nest, f, walk, path, &pad),
        Op::Reduce(reduce) => write_reduce(nest, f, reduce, path, &pad),
    }
}

/// Writes the statements of a walk inside the loops of `path`, with the indentation `pad`.
fn write_walk(
    nest: &LoopNest,
    f: &mut fmt::Formatter<'_>,
    walk: &Walk,
    path: &[&IndexVar],
    pad: &str,
) -> fmt::Result {
    let [trees, rows] = [Dim::Tree, Dim::Batch].map(|d| index(path, walk.lanes.as_ref(), d));
    let mut unroll = match walk.unroll {
        None => String::new(),
        Some(None) if walk.table => ", unrollDepth=table".to_owned(),
        Some(None) => ", unrollDepth=all".to_owned(),
        Some(Some(n)) => format!(", unrollDepth={n}"),
    };
    if let Some(n) = walk.peel {
        unroll += &format!(", peel={n}");
    }
    if let Some(percent) = walk.likely {
        unroll += &format!(", peel={percent}%");
    }
    if walk.evaluate.blends() {
        unroll += &format!(", evaluate={}", walk.evaluate);
    }
    let buffer = match walk.into {
        BufferId::Result => "result".to_owned(),
        BufferId::Partial(b) => nest.partials[b]
            .loops
            .iter()
            .fold(format!("partial{b}"), |text, l| format!("{text}[{}]", copy(&l.var))),
    };
    let reduce = if walk.atomic { "atomicReduce" } else { "reduce" };
    writeln!(f, "{pad}t = getTree(model, {trees})")?;
    writeln!(f, "{pad}p = walkDecisionTree(t, rows[{rows}]{unroll})")?;
    writeln!(f, "{pad}{reduce}({buffer}[{rows}], p)")
}

/// Writes a stage that adds up private sums inside the loops of `path`, with the indentation `pad`.
fn write_reduce(
    nest: &LoopNest,
    f: &mut fmt::Formatter<'_>,
    reduce: &Reduce,
    path: &[&IndexVar],
    pad: &str,
) -> fmt::Result {
    let partial = &nest.partials[reduce.buffer];
    let outer: Vec<String> =
        partial.loops[..reduce.dimension].iter().map(|l| format!("[{}]", copy(&l.var))).collect();
    let rows: Vec<String> = reduce.rows.iter().map(|d| path[*d].name.clone()).collect();
    let rows = if rows.is_empty() {
        ":".to_owned()
    } else {
        format!("{} : +{}", rows.join(" + "), span(path, &reduce.rows))
    };
    let outer = outer.concat();
    let name = format!("partial{}", reduce.buffer);
    let vector = reduce.vector.map_or_else(String::new, |n| format!(", vector={n}"));
    let d = reduce.dimension;
    match (reduce.last, reduce.atomic) {
        (true, false) => {
            writeln!(f, "{pad}result[{rows}] += reduceDimension({name}{outer}[:, {rows}], {d}{vector})")
        }
        (true, true) => {
            let sum = format!("reduceDimension({name}{outer}[:, {rows}], {d}{vector})");
            writeln!(f, "{pad}atomicReduce(result[{rows}], {sum})")
        }
        (false, _) => writeln!(f, "{pad}reduceDimInplace({name}{outer}[:, {rows}], {d}{vector})"),
    }
}

/// Returns the number of rows in one iteration of all enclosing row loops: the finest stride of these loops.
fn span(path: &[&IndexVar], rows: &[usize]) -> String {
    let strides = || rows.iter().map(|d| &path[*d].stride);
    let finest = strides().filter(|s| s.constant().is_some()).min_by_key(|s| s.constant());
    finest.or(strides().next_back()).map_or_else(String::new, Size::to_string)
}
