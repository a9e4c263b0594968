//! Dimensions of a GPU launch.

use std::fmt;

/// An axis of a GPU launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Axis {
    /// The axis whose index changes fastest.
    X,
    /// The second axis.
    Y,
    /// The axis whose index changes slowest.
    Z,
}

impl Axis {
    /// All axes, `X` first.
    pub const ALL: [Self; 3] = [Self::X, Self::Y, Self::Z];
}

/// A dimension of a GPU launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GpuDim {
    /// An axis of the grid: the launch's cubes.
    Grid(Axis),
    /// An axis of a cube, which schedules call a block: the cube's units.
    Block(Axis),
}

impl GpuDim {
    /// Parses one of the names `grid.x` to `block.z`. Returns `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, axis) = text.trim().split_once('.')?;
        let axis = match axis {
            "x" => Axis::X,
            "y" => Axis::Y,
            "z" => Axis::Z,
            _ => return None,
        };
        match kind {
            "grid" => Some(Self::Grid(axis)),
            "block" => Some(Self::Block(axis)),
            _ => None,
        }
    }
}

impl fmt::Display for GpuDim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, axis) = match self {
            Self::Grid(axis) => ("grid", axis),
            Self::Block(axis) => ("block", axis),
        };
        write!(f, "{kind}.{}", ["x", "y", "z"][*axis as usize])
    }
}
