//! Fangorn's kernels in a browser, on WebGPU. The page loads this module only when it is asked to run on the GPU.
//!
//! A [`Gpu`] is the browser's GPU, and a [`GpuForest`] a forest that is compiled for it. An error is a message of one
//! line. Rows are matrices of `f32`, and every read waits without blocking the worker.

use cubecl::{
    client::Client,
    device::WgpuDeviceKind,
    wgpu::{RuntimeOptions, WebGpu, WgpuDevice, try_init_setup_async},
};
use fangorn::{
    Forest,
    cube::{Buffer, Executable, Rows, device},
    file::Contents,
    import::LoadOptions,
    plan::Emit,
    schedule::{Preset, Schedule},
    sum::Contract,
};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = globalThis, js_name = fangornPanicked)]
    fn panicked(message: &str);
}

/// Makes panics call `fangornPanicked`. Runs once, when the module is loaded.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| panicked(&panic.to_string().replace('\n', " "))));
}

/// The browser's GPU.
#[wasm_bindgen]
pub struct Gpu {
    client: Client,
    adapter: String,
}

#[wasm_bindgen]
impl Gpu {
    /// Asks the browser for its GPU.
    ///
    /// # Errors
    /// The browser has no WebGPU, or gives no adapter.
    pub async fn open() -> Result<Gpu, JsError> {
        let selected = WgpuDevice::default();
        let setup =
            try_init_setup_async::<WebGpu>(&selected, RuntimeOptions::try_default().map_err(message)?)
                .await
                .map_err(|e| JsError::new(&format!("this browser gives no WebGPU adapter: {e}")))?;
        let info = setup.adapter.get_info();
        let adapter = [info.name, info.driver, info.driver_info].into_iter().find(|name| !name.is_empty());
        let client = cubecl::Device::wgpu(WgpuDeviceKind::default()).map_err(message)?.client();
        Ok(Self { client, adapter: adapter.unwrap_or_else(|| "an adapter without a name".into()) })
    }

    /// Returns the name of the adapter.
    pub fn adapter(&self) -> String {
        self.adapter.clone()
    }

    /// Compiles a forest, given as a `.fangorn` file, with a schedule: a preset's name or text. `sum` names the contract
    /// of sums: `any`, `tree` or `exact`.
    ///
    /// # Errors
    /// The file can't be read, or the device can't carry out the schedule or hold the forest.
    pub fn compile(&self, model: &[u8], schedule: &str, sum: &str) -> Result<GpuForest, JsError> {
        let forest = Contents::from_bytes(model, &LoadOptions::default()).map_err(message)?.forest;
        let sum = Contract::parse(sum).ok_or_else(|| JsError::new("sum: give any, tree or exact"))?;
        let schedule = match Preset::ALL.into_iter().find(|preset| preset.name() == schedule) {
            Some(preset) => preset.schedule_on(&forest, device(&self.client)),
            None => Schedule::parse(schedule).map_err(message)?,
        };
        let build = |emit| {
            let builder = Executable::builder(&self.client, &forest).schedule(schedule.clone());
            builder.emit(emit).sum(sum).build().map_err(message)
        };
        let leaves: Vec<u32> = forest.leaf_values.iter().map(|v| (v.0 as f32).to_bits()).collect();
        Ok(GpuForest {
            margins: build(Emit::Margins)?,
            slots: build(Emit::Slots)?,
            leaves: upload(&self.client, &leaves),
            client: self.client.clone(),
            forest,
        })
    }
}

/// A forest that is compiled for the browser's GPU.
#[wasm_bindgen]
pub struct GpuForest {
    client: Client,
    margins: Executable,
    slots: Executable,
    /// The leaf values, by leaf slot.
    leaves: Buffer,
    forest: Forest,
}

#[wasm_bindgen]
impl GpuForest {
    /// Returns the text of the kernel that makes margins, in WGSL.
    ///
    /// # Errors
    /// The kernel can't be compiled.
    pub fn kernel(&self) -> Result<String, JsError> {
        self.margins.source().map_err(message)
    }

    /// Returns the text of its plan.
    pub fn plan(&self) -> String {
        self.margins.plan().to_string()
    }

    /// Returns the margins of contiguous rows, `rows x outputs`.
    ///
    /// # Errors
    /// The rows are no whole number of rows, or the GPU fails.
    pub async fn margins(&self, rows: Vec<f32>) -> Result<Vec<f32>, JsError> {
        let words = self.run(&self.margins, &rows, self.forest.outputs as usize).await?;
        Ok(words.into_iter().map(f32::from_bits).collect())
    }

    /// Returns the leaf slots of contiguous rows, `rows x trees`.
    ///
    /// # Errors
    /// Those of [`margins`](Self::margins).
    pub async fn leaf_slots(&self, rows: Vec<f32>) -> Result<Vec<u32>, JsError> {
        self.run(&self.slots, &rows, self.forest.trees.len()).await
    }

    async fn run(&self, executable: &Executable, rows: &[f32], width: usize) -> Result<Vec<u32>, JsError> {
        let columns = self.forest.features.len();
        if columns == 0 || !rows.len().is_multiple_of(columns) {
            let what = format!("{} values are no whole number of rows of {columns} columns", rows.len());
            return Err(JsError::new(&what));
        }
        let batch = rows.len() / columns;
        if batch * width == 0 {
            return Ok(Vec::new());
        }
        let words: Vec<u32> = rows.iter().map(|value| value.to_bits()).collect();
        let rows = Rows {
            words: upload(&self.client, &words),
            batch: batch as u32,
            row_stride: columns as u32,
            column_stride: 1,
            offset: 0,
        };
        let out = Buffer { handle: self.client.empty(batch * width * 4), len: batch * width };
        executable.run(&rows, &self.leaves, &out);
        let read = self.client.read_async(vec![out.handle]).await;
        let bytes = read.map_err(|e| JsError::new(&format!("the GPU failed: {e:?}")))?.remove(0);
        let words = bytes.chunks_exact(4).take(batch * width);
        Ok(words.map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect())
    }
}

/// Uploads words. A buffer is never empty.
fn upload(client: &Client, words: &[u32]) -> Buffer {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let handle = client.create_from_slice(if bytes.is_empty() { &[0; 4] } else { &bytes });
    Buffer { handle, len: words.len() }
}

fn message(error: impl std::fmt::Display) -> JsError {
    JsError::new(&error.to_string())
}
