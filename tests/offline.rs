//! Kernels made for GPUs that are not here: PTX, which NVIDIA's assembler is asked about where it is at hand, and AMD's
//! code objects.

#![cfg(any(feature = "cuda", feature = "rocm"))]

mod support;

use fangorn::{
    cube::offline::{self, Kernel},
    plan::{Request, lower},
    schedule::{Architecture, Preset},
};

/// Models whose kernels differ: few and many columns, one and several outputs, deep and shallow, categories.
const MODELS: [&str; 6] =
    ["churn", "forest-softprob", "lightgbm-leafwise", "lightgbm-categories", "deep-lossguide", "vector-leaf"];

/// Every preset's kernel for an architecture, over all models.
fn kernels(name: &str, mut check: impl FnMut(&str, Kernel)) {
    let architecture: Architecture = name.parse().unwrap();
    for model in MODELS {
        let forest = support::named(model).forest;
        for preset in Preset::ALL {
            let request = Request { device: architecture.device(), threads: 1, ..Request::cpu() };
            let what = format!("{name}, {model}, {}", preset.name());
            let lowered = lower(&forest, &preset.schedule(&forest, true), request);
            let kernel = offline::kernel(architecture, &lowered.unwrap_or_else(|e| panic!("{what}: {e}")));
            check(&what, kernel.unwrap_or_else(|e| panic!("{what}: {e}")));
        }
    }
}

/// The file that `FANGORN_PTXAS` names: NVIDIA's assembler.
#[cfg(feature = "cuda")]
fn assembler() -> Option<std::path::PathBuf> {
    let path = std::env::var_os("FANGORN_PTXAS").map(Into::into);
    if path.is_none() {
        eprintln!(
            "skipped: FANGORN_PTXAS does not name NVIDIA's assembler, so PTX is made and not assembled"
        );
    }
    path
}

#[cfg(feature = "cuda")]
#[test]
fn ptx_of_every_preset_is_assembled() {
    let assembler = assembler();
    let folder = tempfile();
    for name in ["sm_80", "sm_90a"] {
        kernels(name, |what, kernel| {
            assert!(kernel.text.contains(&format!(".target {name}")), "{what}: {}", kernel.text);
            // A walk's values stay in registers: nothing is indexed by what is known only when it runs.
            assert!(!kernel.text.contains(".local"), "{what}: local memory: {}", kernel.text);
            let Some(assembler) = &assembler else { return };
            let ptx = folder.join("kernel.ptx");
            std::fs::write(&ptx, &kernel.binary).unwrap();
            let ran = std::process::Command::new(assembler)
                .args(["-v", &format!("-arch={name}"), "-o"])
                .args([folder.join("kernel.cubin"), ptx])
                .output()
                .expect("FANGORN_PTXAS names a program");
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(ran.status.success(), "{what}: {said}");
            // The presets are made for Hopper's registers.
            if name != "sm_90a" {
                return;
            }
            let spills = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
            assert!(said.contains(spills), "{what}: {said}");
        });
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[cfg(feature = "cuda")]
fn tempfile() -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("fangorn-offline-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// The whole number that a code object's metadata has under a name, which is MessagePack: a number below 128 is a byte.
#[cfg(feature = "rocm")]
fn metadata(object: &[u8], name: &str) -> u8 {
    let at = object.windows(name.len()).position(|w| w == name.as_bytes());
    object[at.unwrap_or_else(|| panic!("no {name}")) + name.len()]
}

#[cfg(feature = "rocm")]
#[test]
fn code_objects_of_every_preset_keep_to_registers() {
    for name in ["gfx90a", "gfx942"] {
        kernels(name, |what, kernel| {
            assert_eq!(&kernel.binary[..4], b"\x7fELF", "{what}");
            // EM_AMDGPU
            assert_eq!(kernel.binary[18..20], [224, 0], "{what}");
            assert!(
                kernel.binary.windows(name.len()).any(|w| w == name.as_bytes()),
                "{what}: not for {name}"
            );
            for count in [".vgpr_spill_count", ".sgpr_spill_count", ".private_segment_fixed_size"] {
                assert_eq!(metadata(&kernel.binary, count), 0, "{what}: {count}");
            }
        });
    }
}
