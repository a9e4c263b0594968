//! Writes directives as text. [`super::parse`] reads the text back.

use std::fmt;

use super::Directive;

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tile { var, outer, inner, size } => write!(f, "tile({var}, {outer}, {inner}, {size})"),
            Self::Split { var, first, second, at } => write!(f, "split({var}, {first}, {second}, {at})"),
            Self::Reorder { vars } => write!(f, "reorder({})", vars.join(", ")),
            Self::Parallel { var } => write!(f, "parallel({var})"),
            Self::GpuDimension { var, dim } => write!(f, "gpuDimension({var}, {dim})"),
            Self::Cache { var } => write!(f, "cache({var})"),
            Self::Interleave { var } => write!(f, "interleave({var})"),
            Self::UnrollWalk { var, steps: Some(n) } => write!(f, "unrollWalk({var}, {n})"),
            Self::UnrollWalk { var, steps: None } => write!(f, "unrollWalk({var})"),
            Self::Unroll { var } => write!(f, "unroll({var})"),
            Self::Specialize { var } => write!(f, "specialize({var})"),
            Self::Evaluate { var, how } => write!(f, "evaluate({var}, {how})"),
            Self::PeelWalk { var, steps } => write!(f, "peelWalk({var}, {steps})"),
            Self::PeelLikely { var, percent } => write!(f, "peelWalk({var}, {percent}%)"),
            Self::TileNodes { nodes, by } => write!(f, "tileNodes({nodes}, {})", by.name()),
            Self::AtomicReduce { var } => write!(f, "atomicReduce({var})"),
            Self::VectorReduce { var, width } => write!(f, "vectorReduce({var}, {width})"),
            Self::SharedReduce { var } => write!(f, "sharedReduce({var})"),
            Self::Layout { kind } => write!(f, "layout({kind})"),
            Self::Sort { by } => write!(f, "sort({})", by.name()),
            Self::Pad { percent } => write!(f, "pad({percent})"),
            Self::FewRows { by } => write!(f, "fewRows({})", by.name()),
            Self::Ranks { choice } => write!(f, "ranks({})", choice.map_or("off", |c| c.name())),
        }
    }
}
