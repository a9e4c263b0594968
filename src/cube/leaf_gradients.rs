//! The gradient of the leaf values on one device: each row's gradient is added to the leaves that the row reached.

use cubecl::client::Client;
use fangorn_kernels::{Buffer, GRADIENT_ROWS, GradientSources, Rows, leaf_gradients, pieces};

use super::Executable;
use crate::{
    forest::{Forest, Targets},
    plan::{Number, RowType},
};

/// The sources of the leaf values' gradient in a device's memory. It is immutable, and launches take no lock.
#[derive(Clone)]
pub struct LeafGradients {
    client: Client,
    sources: GradientSources,
}

impl std::fmt::Debug for LeafGradients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeafGradients")
            .field("device", &self.client.name())
            .field("sources", &self.sources)
            .finish()
    }
}

impl LeafGradients {
    /// Uploads the source of each leaf value's gradient: its leaf slot, its tree and the output it is added to.
    pub fn new(client: &Client, forest: &Forest) -> Self {
        let words: Vec<u32> = sources(forest).into_iter().flatten().collect();
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        // No binding may be empty.
        let handle = client.create_from_slice(if bytes.is_empty() { &[0; 4] } else { &bytes });
        let sources = GradientSources {
            words: Buffer { handle, len: words.len() },
            values: forest.leaf_values.len() as u32,
            trees: forest.trees.len() as u32,
            outputs: forest.outputs,
        };
        Self { client: client.clone(), sources }
    }

    /// Writes the gradient of all leaf values into `out`. `slots` writes the same forest's leaf slots, `rows` hold
    /// values of type `of`, and `grad` is the gradient of the margins, `rows x outputs`. Nothing is read back.
    ///
    /// # Panics
    /// `out` or `grad` is too short.
    pub fn run(&self, slots: &Executable, rows: &Rows, of: RowType, grad: &Buffer, out: &Buffer) {
        let Self { client, sources } = self;
        assert!(out.len >= sources.values as usize, "room for {} leaf values", sources.values);
        let gradients = rows.batch as usize * sources.outputs as usize;
        assert!(grad.len >= gradients, "{gradients} gradients of margins");
        // The leaf slots and the gradients of a piece each fit a binding.
        let words = client.properties().memory.max_page_size.min(1 << 33) / 4;
        let most = (words / sources.trees.max(sources.outputs).max(1) as u64).min(1 << 31) as u32;
        let most = (most / GRADIENT_ROWS * GRADIENT_ROWS).max(GRADIENT_ROWS);
        if rows.batch == 0 {
            let none = Buffer::none(client);
            leaf_gradients(client, sources, &none, &none, 0, out, true);
        }
        for (piece, (rows, grad)) in pieces(of, rows, grad, Number::F32, most).enumerate() {
            let reached = Buffer::of_words(client, rows.batch as usize * sources.trees as usize);
            // Leaf slots are written without reading leaf values.
            slots.run(&rows, &Buffer::none(client), &reached);
            leaf_gradients(client, sources, &reached, &grad, rows.batch, out, piece == 0);
        }
    }
}

/// Returns the leaf slot, the tree and the output of each leaf value.
fn sources(forest: &Forest) -> Vec<[u32; 3]> {
    let width = forest.leaf_width();
    let mut sources = vec![[0; 3]; forest.leaf_values.len()];
    for (t, tree) in forest.trees.iter().enumerate() {
        for slot in tree.nodes.iter().filter_map(|n| n.slot()) {
            for (o, source) in sources[slot as usize * width..][..width].iter_mut().enumerate() {
                let output = match &forest.targets {
                    Targets::One(targets) => targets[t],
                    Targets::All => o as u32,
                };
                *source = [slot, t as u32, output];
            }
        }
    }
    sources
}
