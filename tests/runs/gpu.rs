//! A case on the cubecl device that is built in.

use cubecl::client::Client;
use fangorn::{
    Error, Forest,
    cube::Executable,
    plan::{Emit, Request, lower_with},
    sum::Contract,
};
use fangorn_kernels::{Buffer, Rows};

use super::{follows, near_margins_without_denormals, same_margins, same_slots};
use crate::{generate::Case, support};

/// The device under test, if its driver answers.
pub fn client() -> Option<Client> {
    use burn::backend::DispatchDevice;
    let (_, device) = support::gpu()?;
    match device.as_dispatch() {
        DispatchDevice::Cube(device) => Some(device.client()),
        _ => None,
    }
}

/// What became of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// It ran, and everything was right.
    Right,
    /// The driver would miscompile shared memory.
    LacksSharedMemory,
    /// The layout can't hold the forest.
    TooLarge,
    /// No loop of the schedule is mapped to the device.
    Unmapped,
    /// The schedule wants tiles of nodes, which a GPU has not.
    Tiled,
}

/// Runs a case, and batches of fewer of its rows by the same kernels, for slots, margins and traces, and holds them against
/// the reference and the loop nest.
pub fn on_gpu(client: &Client, case: &Case) -> Result<Ran, String> {
    let Case { forest, schedule, batch, .. } = case;
    let cases: Vec<Case> = case.batches().into_iter().map(|batch| case.first(batch)).collect();
    for emit in [Emit::Slots, Emit::Margins, Emit::Trace] {
        // Whole numbers take the place of floats in one case of three.
        let exact = emit == Emit::Margins && (case.rows.len() + batch).is_multiple_of(3);
        let sum = if exact { Contract::Exact } else { Contract::Any };
        let request =
            Request { device: fangorn::cube::device(client), emit, threads: 1, sum, ..Request::cpu() };
        let lowered = match lower_with(forest, schedule, request, Some(&case.profile())) {
            Ok(lowered) => lowered,
            Err(refused) if support::lacks_shared_memory(&refused) => return Ok(Ran::LacksSharedMemory),
            Err(Error::Layout(_)) => return Ok(Ran::TooLarge),
            Err(Error::Schedule(_)) if !schedule.is_mapped() => return Ok(Ran::Unmapped),
            Err(Error::Schedule(_)) if schedule.tiles().is_some() => return Ok(Ran::Tiled),
            Err(refused) => return Err(refused.to_string()),
        };
        let exe = Executable::from_lowered(client, forest, &lowered).map_err(|e| e.to_string())?;
        let width = emit.width(forest.outputs, forest.trees.len() as u32) as usize;
        for case in &cases {
            let batch = case.batch;
            let found = words(client, &exe, forest, &case.rows, batch, batch * width);
            let what = |e: String| format!("{emit:?} of {batch} rows on the GPU: {e}");
            match emit {
                Emit::Slots => same_slots(case, &found).map_err(what)?,
                Emit::Margins | Emit::Values(_) => {
                    let found: Vec<f32> = found.into_iter().map(f32::from_bits).collect();
                    if exact {
                        same_margins(case, &found).map_err(what)?;
                    }
                    near_margins_without_denormals(case, &found).map_err(what)?;
                }
                Emit::Trace => {
                    // Nothing is launched for no rows.
                    let cubes = if batch == 0 { [1; 3] } else { exe.cubes(batch as u32) };
                    follows(case, &lowered, cubes, exe.plan().own.cube_dim, &found).map_err(what)?
                }
            }
        }
    }
    Ok(Ran::Right)
}

/// What a buffer is made of; no buffer is empty.
fn bytes(values: impl Iterator<Item = f32>) -> Vec<u8> {
    let bytes: Vec<u8> = values.flat_map(f32::to_ne_bytes).collect();
    if bytes.is_empty() { vec![0; 4] } else { bytes }
}

/// The first `len` words that an executable writes for `batch` rows.
pub fn words(
    client: &Client,
    exe: &Executable,
    forest: &Forest,
    rows: &[f32],
    batch: usize,
    len: usize,
) -> Vec<u32> {
    let columns = forest.features.len();
    let rows = Rows {
        words: Buffer {
            handle: client.create_from_slice(&bytes(rows.iter().copied())),
            len: batch * columns,
        },
        batch: batch as u32,
        row_stride: columns as u32,
        column_stride: 1,
        offset: 0,
    };
    let values = bytes(forest.leaf_values.iter().map(|v| v.0 as f32));
    let leaves = Buffer { handle: client.create_from_slice(&values), len: forest.leaf_values.len() };
    // Not zero, so that a word no kernel writes shows.
    let out = Buffer { handle: client.create_from_slice(&vec![0xfe; len.max(1) * 4]), len };
    exe.run(&rows, &leaves, &out);
    let bytes = client.read_one(out.handle).expect("the launch went well");
    bytes.chunks_exact(4).take(len).map(|c| u32::from_ne_bytes([c[0], c[1], c[2], c[3]])).collect()
}
