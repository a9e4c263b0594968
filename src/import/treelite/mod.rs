//! treelite's checkpoint: its [`header`], its [`tree`]s, and the forest they make.
//!
//! GTIL, treelite's own interpreter, defines what a checkpoint means.
//!
//! | file | subject |
//! |---|---|
//! | `reader` | scalars, arrays and strings from the front of the bytes |
//! | `header` | what a checkpoint says before its trees |
//! | `outputs` | targets, classes, and which of them a tree adds to |
//! | `postprocessor` | the transform of margins into values |
//! | `arrays` | a tree's arrays |
//! | `tree` | nodes from a tree's arrays |

mod arrays;
mod header;
mod outputs;
mod postprocessor;
mod reader;
mod tree;

use super::budget::Budget;
use super::error::at;
use super::{ErrorKind, ImportError, LoadOptions};
use crate::Forest;
use crate::forest::Classes;
use header::Header;
use reader::Reader;
use tree::TreeGrower;

/// The remedy for a damaged file.
const SAVE_AGAIN: &str =
    "the file is damaged or incomplete: save the model again with treelite's Model.serialize('model.tl')";

/// Reads the forest that a file describes.
pub(super) fn forest(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    read(bytes, options).map_err(|error| match error.kind() {
        ErrorKind::Syntax | ErrorKind::Schema | ErrorKind::Value | ErrorKind::Structure => {
            error.with_remedy(SAVE_AGAIN)
        }
        _ => error,
    })
}

fn read(bytes: &[u8], options: &LoadOptions) -> Result<Forest, ImportError> {
    if options.iteration_range.as_ref().is_some_and(|range| *range != (0..0)) {
        let cause = "a treelite checkpoint does not say which trees belong to a boosting round";
        return Err(at(ErrorKind::Options, "iteration_range", cause)
            .with_remedy("leave out the range, or slice the booster before treelite imports it"));
    }
    let mut reader = Reader::new(bytes);
    let mut budget = Budget::new(&options.limits);
    let header = Header::read(&mut reader, &budget)?;
    let classes = Classes { rule: header.classes(), ..Classes::default() };
    let mut forest = Forest::builder(header.features, header.outputs.count())
        .producer("treelite", &header.version, &header.postprocessor)
        .compare(header.compare)
        .base_score(header.base_scores.iter().copied())
        .scale(header.meaning.scale)
        .transform(header.meaning.transform)
        .classes(classes);
    let mut grower = TreeGrower::new(&header, bytes.len());
    for (t, reach) in header.reaches.iter().enumerate() {
        reader.enter(t);
        grower.grow(t, *reach, &mut reader, &mut budget, &mut forest)?;
    }
    reader.end()?;
    budget.finish(forest)
}

#[cfg(test)]
mod tests;
