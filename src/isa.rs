//! The instruction sets that the CPU's kernels use.

use std::{ffi::OsStr, sync::OnceLock};

/// The environment variable that limits the instruction set of kernels, for testing on a machine that has
/// more. On x86-64 its value is `portable`, `avx2` or `avx512`, on 64-bit ARM `portable` or `neon`. An empty
/// value is as if it were unset. The variable is read once.
pub const ISA: &str = "FANGORN_ISA";

/// The environment variable that says how fast the machine gathers values, `slow` or `fast`, where otherwise
/// this is measured. It is for testing what another machine would do. It matters with AVX2 and up. An empty
/// value is as if it were unset. The variable is read once.
pub const GATHERS: &str = "FANGORN_GATHERS";

/// Instruction sets. Among those of one architecture, each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    /// The instructions that every machine of the target has.
    Portable,
    /// NEON, on 64-bit ARM.
    Neon,
    /// AVX2, on x86-64.
    Avx2,
    /// AVX-512 F, DQ and BW, on x86-64.
    Avx512,
}

impl Isa {
    /// Returns the name, which [`ISA`] takes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

/// Returns the instruction sets that [`ISA`] may name on this architecture, by name.
fn sets() -> impl Iterator<Item = (&'static str, Isa)> + Clone {
    let all = [Isa::Portable, Isa::Neon, Isa::Avx2, Isa::Avx512].map(|isa| (isa.name(), isa));
    all.into_iter().filter(|(_, isa)| match isa {
        Isa::Portable => true,
        Isa::Neon => cfg!(target_arch = "aarch64"),
        Isa::Avx2 | Isa::Avx512 => cfg!(target_arch = "x86_64"),
    })
}

/// The values of [`GATHERS`]: whether gathers are fast, by name.
const SPEEDS: [(&str, bool); 2] = [("slow", false), ("fast", true)];

/// An environment variable whose value means nothing here.
#[derive(Clone, Debug)]
pub(crate) struct WrongVariable {
    pub(crate) variable: &'static str,
    pub(crate) value: String,
    pub(crate) names: String,
}

/// Returns what a variable's value stands for; `None` if the variable is unset or empty.
fn chosen<T>(
    variable: &'static str,
    value: Option<&OsStr>,
    choices: impl Iterator<Item = (&'static str, T)> + Clone,
) -> Result<Option<T>, WrongVariable> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    match choices.clone().find(|(name, _)| value == *name) {
        Some((_, choice)) => Ok(Some(choice)),
        None => {
            let names: Vec<_> = choices.map(|(name, _)| name).collect();
            let value = value.to_string_lossy().escape_debug().to_string();
            Err(WrongVariable { variable, value, names: names.join(", ") })
        }
    }
}

/// What the environment variables say.
#[derive(Clone, Debug)]
struct EnvironmentSettings {
    most: Option<Isa>,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    gathers: Option<bool>,
    wrong: Option<WrongVariable>,
}

fn environment() -> &'static EnvironmentSettings {
    static SAID: OnceLock<EnvironmentSettings> = OnceLock::new();
    SAID.get_or_init(|| {
        let most = chosen(ISA, std::env::var_os(ISA).as_deref(), sets());
        let gathers = chosen(GATHERS, std::env::var_os(GATHERS).as_deref(), SPEEDS.into_iter());
        let wrong = most.as_ref().err().or(gathers.as_ref().err()).cloned();
        EnvironmentSettings { most: most.ok().flatten(), gathers: gathers.ok().flatten(), wrong }
    })
}

/// Refuses a value of [`ISA`] or [`GATHERS`] that means nothing here, because a test under it would not test
/// what was meant. Programs call this when they are made. What only prints a schedule's text does not.
pub(crate) fn check() -> Result<(), WrongVariable> {
    environment().wrong.clone().map_or(Ok(()), Err)
}

/// Returns the instruction set that this machine has and [`ISA`] allows. A wrong value of [`ISA`] allows all
/// until [`check`] refuses it.
pub(crate) fn isa() -> Isa {
    static FOUND: OnceLock<Isa> = OnceLock::new();
    *FOUND.get_or_init(|| environment().most.map_or(detected(), |most| detected().min(most)))
}

#[cfg(target_arch = "x86_64")]
fn detected() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        _ => Isa::Portable,
    }
}

#[cfg(target_arch = "aarch64")]
fn detected() -> Isa {
    // Kernels permute the bytes of a word with the lowest byte first, and Miri knows few of the instructions.
    if cfg!(any(target_endian = "big", miri)) { Isa::Portable } else { Isa::Neon }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detected() -> Isa {
    Isa::Portable
}

/// Returns whether the machine has one instruction for a multiplication and an addition, and [`ISA`] allows it.
pub(crate) fn fma() -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa() >= Isa::Avx2 && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    return isa() == Isa::Neon;
}

/// Returns whether the machine counts bits in one instruction.
#[cfg(target_arch = "x86_64")]
pub(crate) fn popcnt() -> bool {
    is_x86_feature_detected!("popcnt")
}

/// Returns whether the machine has AVX-512 VBMI, which permutes bytes, and [`ISA`] allows it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn vbmi() -> bool {
    isa() == Isa::Avx512 && is_x86_feature_detected!("avx512vbmi")
}

/// Returns whether the machine has AVX-512 VBMI2, which compresses and expands bytes, and [`ISA`] allows it.
#[cfg(target_arch = "x86_64")]
pub(crate) fn vbmi2() -> bool {
    isa() == Isa::Avx512 && is_x86_feature_detected!("avx512vbmi2")
}

/// Returns what [`GATHERS`] says, if anything: whether gathers are fast.
#[cfg(target_arch = "x86_64")]
pub(crate) fn gathers_said() -> Option<bool> {
    environment().gathers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_a_name_or_nothing() {
        let speed = |value: &str| chosen(GATHERS, Some(OsStr::new(value)), SPEEDS.into_iter());
        assert!(matches!(chosen(GATHERS, None, SPEEDS.into_iter()), Ok(None)));
        assert!(matches!(speed(""), Ok(None)));
        assert!(matches!(speed("slow"), Ok(Some(false))));
        assert!(matches!(speed("fast"), Ok(Some(true))));
        let wrong = crate::Error::from(speed("Fast").expect_err("a name of another case")).to_string();
        assert!(wrong.contains("FANGORN_GATHERS is `Fast`") && wrong.contains("slow, fast"), "{wrong}");
    }

    #[test]
    fn sets_are_those_of_the_target() {
        let of = |name: &str| chosen(ISA, Some(OsStr::new(name)), sets()).ok().flatten();
        assert_eq!(of("portable"), Some(Isa::Portable));
        assert_eq!(of("avx512").is_some(), cfg!(target_arch = "x86_64"));
        assert_eq!(of("avx2").is_some(), cfg!(target_arch = "x86_64"));
        assert_eq!(of("neon").is_some(), cfg!(target_arch = "aarch64"));
        assert_eq!(of("sse2"), None);
    }
}
