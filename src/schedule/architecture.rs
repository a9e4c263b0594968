//! The capabilities of the GPUs of an architecture, so that kernels can be compiled without such a GPU.

use super::{CodeLimits, Device, Gpu};

/// The error of a name that no architecture has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no architecture; write sm_90a, sm_80, gfx90a, gfx942 or the like")]
pub struct UnknownArchitecture(pub String);

/// An architecture of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Architecture {
    /// NVIDIA's compute capability times ten: 90 is `sm_90a`.
    Nvidia(u32),
    /// AMD's architecture, as the hexadecimal digits of its name: `0x90a` is `gfx90a`.
    Amd(u32),
}

impl std::str::FromStr for Architecture {
    type Err = UnknownArchitecture;

    fn from_str(name: &str) -> Result<Self, UnknownArchitecture> {
        let unknown = || UnknownArchitecture(name.to_owned());
        let nvidia = name.strip_prefix("sm_").map(|n| n.trim_end_matches(['a', 'f']));
        if let Some(capability) = nvidia.and_then(|n| n.parse().ok()) {
            // LLVM's target needs features that older architectures lack. No capability with one more digit
            // is to be expected soon.
            return if (60..1000).contains(&capability) {
                Ok(Self::Nvidia(capability))
            } else {
                Err(unknown())
            };
        }
        let amd = name.strip_prefix("gfx").and_then(|n| u32::from_str_radix(n, 16).ok());
        amd.filter(|n| (0x900..0x2000).contains(n)).map(Self::Amd).ok_or_else(unknown)
    }
}

impl std::fmt::Display for Architecture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // From Hopper on, cubecl asks for the variant that has the features of that architecture alone.
            Self::Nvidia(capability) if *capability >= 90 => write!(f, "sm_{capability}a"),
            Self::Nvidia(capability) => write!(f, "sm_{capability}"),
            Self::Amd(name) => write!(f, "gfx{name:x}"),
        }
    }
}

impl Architecture {
    /// Returns the number of units that step together: a warp or a wavefront.
    pub fn plane(self) -> u32 {
        match self {
            Self::Nvidia(_) => 32,
            Self::Amd(name) if name < 0x1000 => 64,
            Self::Amd(_) => 32,
        }
    }

    /// Returns the device that schedules are checked against.
    pub fn device(self) -> Device {
        let shared_bytes = match self {
            Self::Nvidia(90 | 100..120) => 227 << 10,
            Self::Nvidia(80 | 87) => 163 << 10,
            Self::Nvidia(_) => 99 << 10,
            Self::Amd(_) => 64 << 10,
        };
        // Of the largest card of an architecture.
        let multiprocessors = match self {
            Self::Nvidia(80) => 108,
            Self::Nvidia(90) => 132,
            Self::Nvidia(100..120) => 148,
            Self::Amd(0x90a) => 110,
            Self::Amd(0x942) => 304,
            Self::Nvidia(_) | Self::Amd(_) => Gpu::PORTABLE.multiprocessors,
        };
        Device::Gpu(Gpu {
            max_units: 1024,
            max_dim: [1024, 1024, 64],
            multiprocessors,
            shared_bytes,
            shared_memory: true,
            plane_ops: true,
            atomic_add: true,
            units_are_threads: false,
            code: match self {
                Self::Nvidia(_) => CodeLimits::PTX,
                // AMD's compiler has not been timed.
                Self::Amd(_) => CodeLimits::PORTABLE,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_named_as_their_compilers_name_them() {
        for name in ["sm_60", "sm_80", "sm_86", "sm_90a", "sm_120a", "gfx90a", "gfx942", "gfx1100"] {
            assert_eq!(name.parse::<Architecture>().unwrap().to_string(), name);
        }
        assert_eq!("sm_90".parse::<Architecture>().unwrap(), Architecture::Nvidia(90));
        for name in ["", "sm_", "sm_9", "sm_90x", "gfx", "gfx9", "gfxzz", "90", "sm_99999999999999999999"] {
            let refusal = name.parse::<Architecture>().unwrap_err().to_string();
            assert!(refusal.contains("write sm_90a"), "{name}: {refusal}");
        }
    }
}
