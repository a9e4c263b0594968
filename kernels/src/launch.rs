//! Runs a plan over all rows, in pieces.

use fangorn_ir::{Number, RowType};

use super::{
    device::{Buffer, Job, Rows},
    epilogue_steps::EpilogueInputs,
    grid::PIECE,
    piece::RowPiece,
    recorded::RecordedInputs,
};

impl Job<'_> {
    /// Writes margins (bits of `f32`), values, leaf slots or a trace of all rows into `out`, in pieces of at
    /// most `most` rows. `epilogue` holds the inputs of the plan's epilogue; its tensors of the result's
    /// shape have as many values as `out`. Nothing is read back. A batch of 0 launches nothing.
    pub fn run(&self, rows: &Rows, epilogue: &EpilogueInputs, out: &Buffer, most: u32) {
        let width = self.plan.emit.width(self.plan.outputs, self.model.trees);
        let mut first = 0;
        for (rows, out) in pieces(self.plan.input(), rows, out, self.plan.own.epilogue.number, most) {
            RowPiece::new(*self, &rows, &out).run(&epilogue.from(first, width), None);
            first += rows.batch;
        }
    }

    /// Runs a plan whose epilogue is operations that burn's fusion recorded. These operations write the
    /// results. The rows must be few enough for one launch.
    pub fn run_recorded(&self, rows: &Rows, recorded: RecordedInputs) {
        if rows.batch > 0 {
            let none = Buffer::none(self.client);
            RowPiece::new(*self, rows, &none).run(&EpilogueInputs::default(), Some(recorded));
        }
    }
}

/// Cuts `rows` of type `of`, and `out` with their results of type `number`, into pieces of at most `most`
/// rows. If there is more than one piece, `most` is rounded down to a multiple of 128 and is at least 128, so
/// that each piece begins where a binding may begin.
pub fn pieces(
    of: RowType,
    rows: &Rows,
    out: &Buffer,
    number: Number,
    most: u32,
) -> impl Iterator<Item = (Rows, Buffer)> + use<> {
    let whole = rows.batch <= most;
    let most = if whole { rows.batch.max(1) } else { (most / PIECE * PIECE).max(PIECE) };
    let width = out.len / rows.batch.max(1) as usize;
    let (rows, out) = (rows.clone(), out.clone());
    (0..rows.batch).step_by(most as usize).map(move |first| {
        if whole {
            return (rows.clone(), out.clone());
        }
        let batch = most.min(rows.batch - first);
        let skipped = first as usize * rows.row_stride as usize / of.per_word() as usize;
        let words = Buffer {
            handle: rows.words.handle.clone().offset_start(skipped as u64 * 4),
            len: rows.words.len - skipped,
        };
        let at = first as usize * width;
        let own = Buffer {
            handle: out.handle.clone().offset_start(at as u64 * number.bytes()),
            len: batch as usize * width,
        };
        (Rows { words, batch, ..rows.clone() }, own)
    })
}
