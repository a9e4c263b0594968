#![cfg(feature = "cube")]
mod support;
use fangorn::{cube::Executable, forest::reference, plan::{Emit, RowType}, schedule::Preset};
#[test]
fn probe() {
    let device = cubecl::Device::wgpu(cubecl::device::WgpuDeviceKind::default()).unwrap();
    let client = device.client();
    println!("{:?} {:?}", client.properties().identity, client.properties().hardware);
    support::for_each_specimen(|s| {
        if s.forest.trees.is_empty() { return; }
        for preset in Preset::ALL {
            let t0 = std::time::Instant::now();
            let schedule = preset.schedule(&s.forest, true);
            for emit in [Emit::Slots, Emit::Margins] {
            let exe = Executable::new(&client, &s.forest, &schedule, emit, RowType::F32).unwrap_or_else(|e| panic!("{} {}: {e}", s.name, preset.name()));
            let bytes: Vec<u8> = s.rows.iter().flat_map(|v| v.to_ne_bytes()).collect();
            let rows = fangorn_kernels::cube::Rows { words: client.create_from_slice(&bytes), len: s.rows.len(), batch: s.count as u32, row_stride: s.columns() as u32, column_stride: 1, offset: 0 };
            let leaves: Vec<u8> = s.forest.leaf_values.iter().flat_map(|v| (v.0 as f32).to_ne_bytes()).collect();
            let lv = client.create_from_slice(&leaves);
            let width = if emit == Emit::Slots { s.forest.trees.len() } else { s.forest.outputs as usize };
            let out = client.empty(s.count * width * 4);
            exe.run(&rows, (lv, s.forest.leaf_values.len()), (out.clone(), s.count * width));
            let got = client.read_one(out).unwrap();
            let words: Vec<u32> = got.chunks(4).map(|c| u32::from_ne_bytes(c.try_into().unwrap())).collect();
            if emit == Emit::Slots {
                for r in 0..s.count { assert_eq!(reference::slots(&s.forest, s.row(r)), &words[r * width..][..width], "{} {} row {r}", s.name, preset.name()); }
            } else {
                let m: Vec<f32> = words.into_iter().map(f32::from_bits).collect();
                support::assert_margins(&format!("{} {}", s.name, preset.name()), &s.forest, &m, support::reference_margins(s));
            }
            }
            println!("{} {} ok {:?}", s.name, preset.name(), t0.elapsed());
        }
    });
}
