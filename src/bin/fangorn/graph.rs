//! `fangorn graph`: prints the graph that a classical model becomes.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::Args;
use fangorn::{
    graph::{self, Pass, PassChange, Passes},
    import::{self, LoadOptions},
};
use layout::{
    backends::svg::SVGWriter,
    gv::{DotParser, GraphBuilder},
};

use crate::{
    Outcome,
    atomic_file::AtomicFile,
    error::{Error, Result},
    library_error,
    limits::LimitsChoice,
    output,
    schedule::compiled_graph,
};

/// The maximum number of nodes of a picture. The time of the layout grows with their square.
const MOST_IN_A_PICTURE: usize = 2000;

/// Print the graph of a classical model, and what each pass does to it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  fangorn graph pipeline.onnx                      what is computed, and what each pass did
  fangorn graph pipeline.onnx --before             what the file says
  fangorn graph pipeline.onnx --passes redundant   one pass alone
  fangorn graph pipeline.onnx --svg pipeline.svg   a picture
  fangorn graph pipeline.onnx --run inputs.txt     its outputs; a line of inputs.txt is `f32[1, 2] = [0.5, 1.0]`")]
pub struct Graph {
    /// The model file: ONNX, or LightGBM with linear trees
    model: PathBuf,
    /// Print the graph before the passes
    #[arg(long, conflicts_with_all = ["after", "passes"])]
    before: bool,
    /// Print the graph after the passes [default]
    #[arg(long)]
    after: bool,
    /// The passes to run, instead of the default ones: names with commas between them, `all` or `none`
    #[arg(long, value_name = "PASS,…", value_parser = passes)]
    passes: Option<Passes>,
    /// Print all weights and trees, as `Graph::parse` reads them
    #[arg(long)]
    whole: bool,
    /// Print the picture in Graphviz's language
    #[arg(long, conflicts_with_all = ["whole", "svg"])]
    dot: bool,
    /// Draw the graph into an SVG file
    #[arg(long, value_name = "FILE", conflicts_with = "whole")]
    svg: Option<PathBuf>,
    /// Evaluate the graph and print its outputs. FILE holds the inputs in their order, one tensor a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["whole", "dot", "svg"])]
    run: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitsChoice,
}

/// Reads a list of passes.
///
/// # Errors
/// There is no pass of a name.
pub fn passes(text: &str) -> std::result::Result<Passes, String> {
    match text {
        "none" => return Ok(Passes::none()),
        "all" => return Ok(Passes::none().with(Pass::ALL)),
        _ => {}
    }
    let known = || Pass::ALL.map(Pass::name).join(", ");
    let named = |name: &str| {
        Pass::named(name).ok_or_else(|| format!("there is no pass `{name}`; the passes are {}", known()))
    };
    let all = text.split(',').map(named).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(Passes::none().with(all))
}

/// Runs the command.
///
/// # Errors
/// The file can't be read, an operator in it is not supported, or the picture can't be written.
pub fn run(args: &Graph) -> Result<Outcome> {
    let options = LoadOptions { limits: args.limits.limits(), ..LoadOptions::default() };
    let mut graph = import::load_graph(&args.model, &options).map_err(library_error)?;
    let mut changes = Vec::new();
    if !args.before {
        let passes = args.passes.clone().unwrap_or_default();
        (graph, changes) = passes.apply(&graph).map_err(|e| Error::file(&args.model, e.to_string()))?;
    }
    if let Some(path) = &args.run {
        return evaluate(&args.model, graph, path);
    }
    if let Some(path) = &args.svg {
        draw(&args.model, &graph, path)?;
        return Ok(Outcome::Done);
    }
    let text = match (args.dot, args.whole) {
        (true, _) => graph.to_dot(),
        (_, true) => comment(&changes) + &graph.to_string(),
        _ => comment(&changes) + &graph.summary(),
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Evaluates a graph on the tensors of a file, and prints its outputs. The passes have rewritten the graph.
fn evaluate(model: &Path, graph: graph::Graph, path: &Path) -> Result<Outcome> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::file(path, e.to_string()))?;
    let tensor = |(at, line): (usize, &str)| {
        graph::Tensor::parse(line).map_err(|e| Error::file(path, format!("line {}: {e}", at + 1)))
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let inputs = lines.map(tensor).collect::<Result<Vec<_>>>()?;
    let refused = |e: String| Error::file(model, e);
    let predictor = compiled_graph(&graph, 1, &Passes::none()).map_err(|e| refused(e.to_string()))?;
    let found = predictor.predict(&inputs).map_err(|e| refused(e.to_string()))?;
    let lines: Vec<String> = found.iter().map(|tensor| format!("{tensor}\n")).collect();
    output::print(&lines.concat())?;
    Ok(Outcome::Done)
}

/// Returns what each pass did, as comments in the graph's text.
fn comment(changes: &[PassChange]) -> String {
    let of_change = |change: &PassChange| {
        let rewrites: String = change.rewrites.iter().map(|rewrite| format!("//   {rewrite}\n")).collect();
        format!("// {change}\n{rewrites}")
    };
    changes.iter().map(of_change).collect()
}

fn draw(model: &Path, graph: &graph::Graph, path: &Path) -> Result<()> {
    if graph.nodes.len() > MOST_IN_A_PICTURE {
        let what = format!(
            "a picture of {} nodes is too large to be drawn here; use --dot and Graphviz",
            graph.nodes.len()
        );
        return Err(Error::file(model, what));
    }
    let dot = graph.to_dot();
    let parsed = DotParser::new(&dot).process().map_err(|e| Error::file(model, e))?;
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&parsed);
    let mut svg = SVGWriter::new();
    builder.get().do_it(false, false, false, &mut svg);
    let picture = svg.finalize();
    AtomicFile::write(path, |out| out.write_all(picture.as_bytes()))
}
