//! Contributions and interactions against a background on one device.

use cubecl::client::Client;
use fangorn_kernels::contributions::Explained;

use super::{
    contribution_words::{Extras, Sides},
    explainer::{Explainer, Uploads, check_width},
};
use crate::{
    contributions::{self, pairs::Pairs, program::Program},
    error::{Error, Result},
    forest::CompareType,
};

/// The maximum number of words for the sides that the background's rows take.
const MOST_SIDES: usize = 1 << 28;

impl Explainer {
    /// Prepares the device behind `client` for the contributions that `explainer` computes on the CPU, and uploads
    /// pattern tables and instructions. This makes the explainer's tables if no call has made them. A row has
    /// `outputs x (features + 1)` results, the bias last.
    ///
    /// Trees that have [pattern tables](contributions::Interventional) on the CPU have the same tables here, in calls of
    /// any number of rows. For other trees, each unit follows its row and every background row through the tree.
    ///
    /// # Errors
    /// [`Error::Contributions`]: a path of a tree without tables is too long for a unit's memory, a row has too many
    /// contributions, the background has too many rows, or tables and instructions are more than the device binds.
    pub fn against(client: &Client, explainer: &contributions::Interventional) -> Result<Self> {
        check_width(client, explainer.forest(), Explained { pairs: false, background: true })?;
        let tabled = explainer.tabled();
        let has_tables = |tree: usize| tabled.as_ref().is_some_and(|tabled| tabled.has(tree));
        let instructions = instructions(explainer, |tree| !has_tables(tree));
        let sides = sides(explainer, &instructions)?;
        let tables = tabled.as_ref().map(|tabled| &tabled.singles);
        let uploads = Uploads { client, instructions: &instructions, tables };
        let extras = Extras { pairs: None, sides: Some(&sides) };
        uploads.upload(extras, explainer.background_rows() as u32)
    }

    /// Prepares the device behind `client` for the interactions that `explainer` computes on the CPU, and uploads
    /// instructions. Each unit follows its row and every background row through each tree. A row has
    /// `outputs x (features + 1) x (features + 1)` results, the bias last.
    ///
    /// # Errors
    /// [`Error::Contributions`]: a path of a tree is too long for a unit's memory or has too many features, a row has too
    /// many interactions, the background has too many rows, or the instructions are more than the device binds.
    pub fn of_interactions_against(
        client: &Client,
        explainer: &contributions::Interventional,
    ) -> Result<Self> {
        check_width(client, explainer.forest(), Explained { pairs: true, background: true })?;
        let instructions = instructions(explainer, |_| true);
        let pairs = Pairs::new(&instructions)?;
        let sides = sides(explainer, &instructions)?;
        let uploads = Uploads { client, instructions: &instructions, tables: None };
        let extras = Extras { pairs: Some(&pairs), sides: Some(&sides) };
        uploads.upload(extras, explainer.background_rows() as u32)
    }
}

/// Returns the instructions of some of an explainer's trees. `keeps` takes the index of a tree.
fn instructions(explainer: &contributions::Interventional, keeps: impl Fn(usize) -> bool) -> Program {
    // Rows are f32, f16 or bf16, so thresholds of f64 are narrowed without changing a decision.
    let mut instructions = Program::new(explainer.forest(), CompareType::F32);
    instructions.retain(keeps);
    let outputs = instructions.outputs.iter_mut().zip(explainer.bias());
    outputs.for_each(|(output, bias)| output.bias = *bias);
    instructions
}

/// Returns the sides that the background's rows take at the splits of a program's trees.
fn sides(explainer: &contributions::Interventional, program: &Program) -> Result<Sides> {
    let rows = explainer.background_rows();
    let of_split = rows.div_ceil(32);
    let mut sides = Sides {
        words: Vec::new(),
        trees: vec![0; explainer.forest().trees.len()],
        of_split: of_split as u32,
    };
    let mut is_done = vec![false; sides.trees.len()];
    for tree in program.trees() {
        // Trees of vector leaves have a program for each output.
        if std::mem::replace(&mut is_done[tree.source.0], true) {
            continue;
        }
        let first = sides.words.len();
        if tree.splits.len().saturating_mul(of_split) > MOST_SIDES - first {
            return Err(Error::Contributions(format!(
                "a background of {rows} rows needs more than {MOST_SIDES} words for this model; give fewer rows, or \
                 explain it on the CPU"
            )));
        }
        sides.trees[tree.source.0] = first as u32;
        for left in explainer.sides_of_background(tree.source.0) {
            let word =
                |rows: &[bool]| (0..).zip(rows).fold(0, |word, (bit, left)| word | u32::from(*left) << bit);
            sides.words.extend(left.chunks(32).map(word));
        }
    }
    Ok(sides)
}
