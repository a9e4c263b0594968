//! Contributions and interactions on one device: a forest's instructions as words.

use cubecl::client::Client;
use fangorn_kernels::{
    Buffer, ContributionProgram, Rows,
    contributions::{self as kernels, Explained, encoding},
};

use super::{
    contribution_words::{Extras, ProgramWords, encode},
    executable::upload,
};
use crate::{
    contributions::{
        self,
        pairs::Pairs,
        program::{Program, TreeProgram},
    },
    error::{Error, Result},
    forest::{CompareType, Forest},
    plan::RowType,
};

/// Explains a forest's margins on a device, in f32 sums: the contributions or interactions of
/// [`contributions::Explainer`], or the contributions of [`contributions::Interventional`]. It is immutable, and launches
/// take no lock.
#[derive(Clone)]
pub struct Explainer {
    client: Client,
    program: ContributionProgram,
    /// Maximum number of rows of a launch, if it is smaller than the device allows.
    most_rows: u32,
}

impl std::fmt::Debug for Explainer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Explainer")
            .field("device", &self.client.name())
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

impl Explainer {
    /// Prepares path-dependent contributions of a forest on the device behind `client`, and uploads its instructions.
    /// The work and the memory are linear in the forest's size. A row has `outputs x (features + 1)` results, the bias
    /// last.
    ///
    /// # Errors
    /// The errors of [`contributions::Explainer::new`]. [`Error::Contributions`]: a path of the forest is too long for
    /// a unit's memory, a row has too many contributions, or the instructions are more than the device binds.
    pub fn new(client: &Client, forest: &Forest) -> Result<Self> {
        let explained = contributions::prepare(forest)?;
        check_width(client, forest, Explained { pairs: false, background: false })?;
        // Rows are f32, f16 or bf16, so thresholds of f64 are narrowed without changing a decision.
        let instructions = Program::new(&explained, CompareType::F32);
        Uploads { client, instructions: &instructions, tables: None }.upload(Extras::default(), 1)
    }

    /// Prepares interactions of a forest, as [`new`](Self::new) prepares contributions. A row has
    /// `outputs x (features + 1) x (features + 1)` results, the bias last.
    ///
    /// # Errors
    /// Those of [`new`](Self::new). [`Error::Contributions`]: the paths have too many features.
    pub fn of_interactions(client: &Client, forest: &Forest) -> Result<Self> {
        let explained = contributions::prepare(forest)?;
        check_width(client, forest, Explained { pairs: true, background: false })?;
        let instructions = Program::new(&explained, CompareType::F32);
        let pairs = Pairs::new(&instructions)?;
        let uploads = Uploads { client, instructions: &instructions, tables: None };
        uploads.upload(Extras { pairs: Some(&pairs), sides: None }, 1)
    }

    /// Limits launches to `rows` rows, rounded down to a multiple of 128. The least limit is 128.
    #[must_use]
    pub fn with_most_rows(self, rows: u32) -> Self {
        Self { most_rows: rows, ..self }
    }

    /// Returns the number of results of a row.
    pub fn width(&self) -> usize {
        self.program.width() as usize
    }

    /// Writes the results of rows into `out`, `rows x width` numbers of f32. `rows` hold values of type `of` (f32, f16 or
    /// bf16), with the forest's number of columns. Nothing is read back.
    pub fn run(&self, rows: &Rows, of: RowType, out: &Buffer) {
        kernels::contributions(&self.client, &self.program, rows, of, self.most_rows, out);
    }
}

/// What is uploaded to a device.
pub(super) struct Uploads<'a> {
    pub(super) client: &'a Client,
    /// The trees that are explained by instructions. Their outputs have the biases.
    pub(super) instructions: &'a Program,
    /// The trees that are explained by pattern tables.
    pub(super) tables: Option<&'a Program>,
}

impl Uploads<'_> {
    /// Encodes the programs and uploads them. `background_rows` is 1 if there is no background.
    pub(super) fn upload(&self, extras: Extras<'_>, background_rows: u32) -> Result<Explainer> {
        let Self { client, instructions, tables } = *self;
        let deepest = instructions.deepest;
        let most_points = encoding::points_for(deepest).ok_or_else(|| {
            on_cpu(format!(
                "a path of the model has {deepest} splits, a GPU's units have room for {}",
                encoding::deepest_path()
            ))
        })?;
        let needed = instructions.trees().map(TreeProgram::points).max().unwrap_or(1).max(1) as u32;
        let points = most_points.min(needed);
        let explained = Explained { pairs: extras.pairs.is_some(), background: extras.sides.is_some() };
        let encoded = encode(instructions, tables, extras, points as usize)
            .ok_or_else(|| on_cpu("the model's instructions need more than 2^32 words".into()))?;
        let ProgramWords { words, passes, subtrees, sums, .. } = encoded;
        let blocks = background_rows.div_ceil(encoding::BLOCK_ROWS);
        if passes.checked_mul(blocks).is_none() {
            return Err(on_cpu(format!(
                "the background has {background_rows} rows, too many for this model"
            )));
        }
        let (most, bytes) = (kernels::most_row_sums(client), 4 * words.len() as u64);
        if u64::from(sums) > most {
            return Err(on_cpu(format!(
                "a row of the model has {sums} sums, the device has room for {most}"
            )));
        }
        let most = client.properties().memory.max_page_size;
        if bytes > most {
            return Err(on_cpu(format!(
                "the model's instructions take {bytes} bytes, the device binds {most}"
            )));
        }
        let program = ContributionProgram {
            words: upload(client, &words)?,
            explained,
            passes,
            subtrees,
            ancestors_at: encoded.ancestors_at,
            sides_at: encoded.sides_at,
            subtrees_at: encoded.subtrees_at,
            questions_at: encoded.questions_at,
            matrices_at: encoded.matrices_at,
            biases_at: encoded.biases_at,
            columns: instructions.width as u32,
            outputs: instructions.outputs.len() as u32,
            sums,
            points,
            deepest: deepest as u32,
            background_rows,
        };
        Ok(Explainer { client: client.clone(), program, most_rows: u32::MAX })
    }
}

/// Checks that a device has room for the results of a row.
pub(super) fn check_width(client: &Client, forest: &Forest, explained: Explained) -> Result<()> {
    let side = forest.features.len() as u64 + 1;
    let (of_output, most, what) = match (explained.pairs, explained.background) {
        (true, _) => (side.saturating_mul(side), kernels::most_interactions(client), "interactions"),
        (false, false) => (side, kernels::most_row_sums(client), "contributions"),
        // Instructions and tables have sums of their own.
        (false, true) => (side, kernels::most_row_sums(client) / 2, "contributions"),
    };
    let width = u64::from(forest.outputs).saturating_mul(of_output);
    match width > most {
        true => Err(on_cpu(format!("a row of the model has {width} {what}, the device has room for {most}"))),
        false => Ok(()),
    }
}

fn on_cpu(what: String) -> Error {
    Error::Contributions(format!("{what}; explain it on the CPU"))
}
