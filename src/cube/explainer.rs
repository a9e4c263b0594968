//! Contributions and interactions on one device: a forest's instructions as words.

use std::sync::OnceLock;

use cubecl::client::Client;
use fangorn_kernels::{
    Buffer, ContributionProgram, Rows,
    contributions::{self as kernels, Explained, encoding},
};

use super::{
    contribution_words::{Beside, ProgramWords, encode},
    executable::upload,
};
use crate::{
    contributions::{self, pairs::Pairs, program::Program},
    error::{Error, Result},
    forest::{CompareType, Forest},
    plan::RowType,
};

/// Explains a forest's margins on a device: the numbers of [`contributions::Explainer`], in f32 sums. It is immutable,
/// and launches take no lock.
#[derive(Clone)]
pub struct Explainer {
    client: Client,
    /// The instructions as the CPU has them.
    instructions: Program,
    program: ContributionProgram,
    /// The program for interactions. The first call for interactions makes it.
    interactions: OnceLock<ContributionProgram>,
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
    /// The work and the memory are linear in the forest's size.
    ///
    /// # Errors
    /// The errors of [`contributions::Explainer::new`]. [`Error::Contributions`]: a path of the forest is too long for
    /// a unit's memory, a row has too many contributions, or the instructions are more than the device binds.
    pub fn new(client: &Client, forest: &Forest) -> Result<Self> {
        let explained = contributions::prepare(forest)?;
        // Rows are f32, f16 or bf16, so thresholds of f64 are narrowed without changing a decision.
        let instructions = Program::new(&explained, CompareType::F32);
        let biases: Vec<f64> = instructions.outputs.iter().map(|output| output.bias).collect();
        let program = Uploads { client, instructions: &instructions, tables: None, biases: &biases }
            .upload(Beside::Nothing, 1)?;
        Ok(Self {
            client: client.clone(),
            instructions,
            program,
            interactions: OnceLock::new(),
            most_rows: u32::MAX,
        })
    }

    /// Limits launches to `rows` rows, rounded down to a multiple of 128. The least limit is 128.
    #[must_use]
    pub fn with_most_rows(self, rows: u32) -> Self {
        Self { most_rows: rows, ..self }
    }

    /// Returns the number of contributions of a row: `outputs x (features + 1)`.
    pub fn width(&self) -> usize {
        self.program.outputs as usize * (self.program.columns as usize + 1)
    }

    /// Writes the contributions of rows into `out`, `rows x outputs x (features + 1)` numbers of f32, the bias last.
    /// `rows` hold values of type `of` (f32, f16 or bf16), with the forest's number of columns. Nothing is read back.
    pub fn run(&self, rows: &Rows, of: RowType, out: &Buffer) {
        kernels::contributions(&self.client, &self.program, rows, of, self.most_rows, out);
    }

    /// Prepares interactions, and uploads their instructions. [`run_interactions`](Self::run_interactions) does so
    /// at its first call.
    ///
    /// # Errors
    /// [`Error::Contributions`]: the paths of the forest's trees have too many features, a row has too many
    /// interactions, or the instructions are more than the device binds.
    pub fn prepare_interactions(&self) -> Result<()> {
        self.interactions().map(drop)
    }

    /// Writes the interactions of rows into `out`, `rows x outputs x (features + 1) x (features + 1)` numbers of f32, the
    /// numbers of [`contributions::Explainer::interactions`]. `rows` are those of [`run`](Self::run). Nothing is read
    /// back.
    ///
    /// # Errors
    /// Those of [`prepare_interactions`](Self::prepare_interactions).
    pub fn run_interactions(&self, rows: &Rows, of: RowType, out: &Buffer) -> Result<()> {
        kernels::contributions(&self.client, self.interactions()?, rows, of, self.most_rows, out);
        Ok(())
    }

    fn interactions(&self) -> Result<&ContributionProgram> {
        if let Some(program) = self.interactions.get() {
            return Ok(program);
        }
        let pairs = Pairs::new(&self.instructions)?;
        let biases: Vec<f64> = self.instructions.outputs.iter().map(|output| output.bias).collect();
        let uploads =
            Uploads { client: &self.client, instructions: &self.instructions, tables: None, biases: &biases };
        let program = uploads.upload(Beside::Pairs(&pairs), 1)?;
        Ok(self.interactions.get_or_init(|| program))
    }
}

/// What is uploaded to a device.
pub(super) struct Uploads<'a> {
    pub(super) client: &'a Client,
    /// The trees that are explained by instructions.
    pub(super) instructions: &'a Program,
    /// The trees that are explained by pattern tables.
    pub(super) tables: Option<&'a Program>,
    pub(super) biases: &'a [f64],
}

impl Uploads<'_> {
    /// Encodes the programs and uploads them. `others` is the number of background rows, or 1.
    pub(super) fn upload(&self, beside: Beside<'_>, others: u32) -> Result<ContributionProgram> {
        let Self { client, instructions, tables, biases } = *self;
        let on_cpu = |what: String| Error::Contributions(format!("{what}; explain it on the CPU"));
        let deepest = instructions.deepest;
        let most_points = encoding::points_for(deepest).ok_or_else(|| {
            on_cpu(format!(
                "a path of the model has {deepest} splits, a GPU's units have room for {}",
                encoding::deepest_path()
            ))
        })?;
        let points = most_points.min(needed_points(instructions));
        let explained = match beside {
            Beside::Nothing => Explained::Contributions,
            Beside::Pairs(_) => Explained::Interactions,
            Beside::Sides(_) => Explained::AgainstBackground,
        };
        let (outputs, side) = (instructions.outputs.len() as u64, instructions.width as u64 + 1);
        let (width, most, what) = match explained {
            Explained::Interactions => {
                let width = outputs.saturating_mul(side).saturating_mul(side);
                (width, kernels::most_interactions(client), "interactions")
            }
            // Instructions and tables have partial sums of their own.
            Explained::AgainstBackground => {
                (outputs * side, kernels::most_contributions(client) / 2, "contributions")
            }
            Explained::Contributions => {
                (outputs * side, kernels::most_contributions(client), "contributions")
            }
        };
        let too_many = |count: u64, most| {
            on_cpu(format!("a row of the model has {count} {what}, the device has room for {most}"))
        };
        if width > most {
            return Err(too_many(width, most));
        }
        let encoded = encode(instructions, tables, beside, points as usize, biases);
        let ProgramWords {
            words,
            passes,
            subtrees,
            beside_at,
            subtrees_at,
            questions_at,
            matrices_at,
            biases_at,
            sums,
        } = encoded.ok_or_else(|| on_cpu("the model's instructions need more than 2^32 words".into()))?;
        let most = kernels::most_contributions(client);
        if u64::from(sums) > most {
            return Err(too_many(u64::from(sums), most));
        }
        let (bytes, most) = (4 * words.len() as u64, client.properties().memory.max_page_size);
        if bytes > most {
            return Err(on_cpu(format!("the model's {what} take {bytes} bytes, the device binds {most}")));
        }
        Ok(ContributionProgram {
            words: upload(client, &words)?,
            explained,
            passes,
            subtrees,
            beside_at,
            subtrees_at,
            questions_at,
            matrices_at,
            biases_at,
            columns: instructions.width as u32,
            outputs: outputs as u32,
            sums,
            points,
            deepest: deepest as u32,
            others,
        })
    }
}

/// Returns the greatest number of points that a tree needs, which is at least 1.
fn needed_points(program: &Program) -> u32 {
    let trees = program.outputs.iter().flat_map(|output| &output.groups).flat_map(|group| &group.trees);
    let points = trees.map(|tree| tree.passes.iter().map(|pass| pass.at.len()).sum::<usize>());
    points.max().unwrap_or(1).max(1) as u32
}
