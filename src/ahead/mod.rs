//! Compiles a forest ahead of time, to C99 source with its tables as constants.
//!
//! It serves those who deploy one model to a machine that has no room for a library: a small computer, a function in a
//! cloud. The source needs a C compiler with `math.h`, and `libm` to link for some transforms. It has no importer,
//! allocates nothing and keeps no state, so that several threads may call it.
//!
//! Trees are cut into the tiles of the library's engines for one row, if the forest and the processor allow that. From
//! node to node, a row walks eight trees side by side, so that a processor works on several walks while each waits for its
//! nodes (Asadi, Lin and de Vries, "Runtime Optimizations for Tree-Based Machine Learning Models", 2014, do so with several
//! rows in one tree, and call it VPred). Nodes and tiles are data and not nested `if`s, so that the time to compile grows
//! no faster than the model.

mod encode;
mod nodes;
mod text;
mod tiles;
mod transform;
mod walks;

use crate::{
    error::{Error, Result},
    forest::Forest,
};

/// Maximum number of outputs. `NAME_classes` has a row's margins on the stack, up to twice: 16 bytes an output.
const MOST_OUTPUTS: u32 = 1 << 13;

/// A forest as C99 source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CSource {
    /// The header, `NAME.h`: the sizes, the types and the functions.
    pub header: String,
    /// The source, `NAME.c`, which includes `NAME.h`.
    pub source: String,
}

/// Compiles a forest to C99 source. `name` is a name in C: it begins the names of the functions, and names the files.
///
/// | function | what it writes for a row |
/// |---|---|
/// | `NAME_margins` | a margin for each output, to the last bit [`producer_margins`](crate::forest::reference::producer_margins) |
/// | `NAME_values` | the values, after the scale and the transform; `libm` computes exponentials |
/// | `NAME_classes` | the class numbers of a classifier |
/// | `NAME_leaves` | the producer's leaf id in each tree, if `NAME_LEAVES` is defined |
///
/// # Errors
/// The forest does not verify, `name` is no name in C, or the forest has more than 8192 outputs, or more leaves than
/// the type of its thresholds can number.
///
/// ```
/// use fangorn::{Forest, ahead::c_source};
///
/// let mut forest = Forest::builder(2, 1);
/// forest.tree(0).leaf(0, &[0.5]);
/// let compiled = c_source(&forest.build()?, "risk")?;
/// assert!(compiled.header.contains("void risk_margins(const risk_value *row, risk_number *margins);"));
/// # Ok::<(), fangorn::Error>(())
/// ```
pub fn c_source(forest: &Forest, name: &str) -> Result<CSource> {
    source_of(forest, name, walks::Walks::new)
}

/// Compiles a forest as [`c_source`] does, but with the smallest tables, for a machine with little memory. A row walks from
/// node to node, which may take longer.
///
/// # Errors
/// Those of [`c_source`].
///
/// ```
/// use fangorn::{Forest, ahead::smallest_c_source};
///
/// let mut forest = Forest::builder(2, 1);
/// forest.tree(0).leaf(0, &[0.5]);
/// assert!(smallest_c_source(&forest.build()?, "risk")?.source.contains("nodes["));
/// # Ok::<(), fangorn::Error>(())
/// ```
pub fn smallest_c_source(forest: &Forest, name: &str) -> Result<CSource> {
    source_of(forest, name, |forest, _| walks::Walks::by_nodes(forest))
}

fn source_of(
    forest: &Forest,
    name: &str,
    walks: impl Fn(&Forest, &str) -> Result<walks::Walks>,
) -> Result<CSource> {
    check_name(name)?;
    forest.verify()?;
    if forest.outputs > MOST_OUTPUTS {
        let outputs = forest.outputs;
        return Err(Error::Ahead(format!(
            "{outputs} outputs, at most {MOST_OUTPUTS}; predict with the library instead"
        )));
    }
    let walks = if forest.trees.is_empty() { None } else { Some(walks(forest, name)?) };
    Ok(CSource { header: text::header(forest, name), source: text::source(forest, walks.as_ref(), name) })
}

/// Headers of C that a header of the same name would hide.
const INCLUDED: [&str; 10] =
    ["errno", "features", "float", "limits", "math", "stddef", "stdint", "stdio", "stdlib", "string"];

/// Checks that functions and a header in C can have this name.
///
/// # Errors
/// They can't.
pub fn check_name(name: &str) -> Result<()> {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let goes_on = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // Headers of a processor's instructions have such names, immintrin.h for one.
    let hides = INCLUDED.iter().any(|included| name.eq_ignore_ascii_case(included))
        || name.to_ascii_lowercase().ends_with("intrin");
    if starts && goes_on && !hides {
        return Ok(());
    }
    Err(Error::Ahead(format!(
        "`{name}` is no name for functions and a header in C; give letters, digits and _, a letter first, and not \
         the name of a header of C"
    )))
}
