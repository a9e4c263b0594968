//! How a few rows find their leaves: the choice of an engine, which schedules and plans name.

/// How rows that are too few to fill vectors find their leaves (CPU). If the chosen engine can't serve the plan
/// on the machine, rows are walked: one after the other where the plan allows it, and otherwise like many rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FewRows {
    /// The fastest engine that can serve the forest on the machine.
    #[default]
    Auto,
    /// Keeps the row in registers and decides four levels of a tree with one compare.
    Registers,
    /// Walks 64 trees abreast, with gathers.
    Abreast,
    /// Walks trees that are filled up to full trees, four side by side.
    Full,
    /// Walks one row after the other on the schedule's layout.
    Rows,
    /// Walks a few rows as many rows are walked: in the order of the loops.
    Walk,
}

impl FewRows {
    /// All choices.
    pub const ALL: [Self; 6] =
        [Self::Auto, Self::Registers, Self::Abreast, Self::Full, Self::Rows, Self::Walk];

    /// Returns what of the plan does not reach a few rows, for the plan's text.
    pub(crate) fn out_of_reach(self) -> &'static str {
        match self {
            Self::Registers | Self::Full => "; the layout and the walks' steps do not reach them",
            Self::Abreast => "; the walks' steps do not reach them",
            Self::Auto | Self::Rows | Self::Walk => "",
        }
    }

    /// Returns the name in a schedule's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Registers => "registers",
            Self::Abreast => "abreast",
            Self::Full => "full",
            Self::Rows => "rows",
            Self::Walk => "walk",
        }
    }
}
