extern crate alloc;
use burn::prelude::*;
use burn::nn::Linear;
use burn::nn::LinearConfig;
use burn::tensor::Bytes;
use burn_store::BurnpackStore;
use burn_store::ModuleSnapshot;


#[derive(Module, Debug)]
pub struct Model {
    constant1: burn::module::Param<Tensor<2>>,
    constant2: burn::module::Param<Tensor<1>>,
    custom1: ::fangorn_graphs::forest::ForestModule,
    linear1: Linear,
    #[module(skip)]
    device: Device,
}


impl Model {
    /// Load model weights from in-memory bytes.
    ///
    /// The bytes must be the contents of a `.bpk` file.
    pub fn from_bytes(bytes: Bytes, device: &Device) -> Self {
        let mut model = Self::new(device);
        let mut store = BurnpackStore::from_bytes(Some(bytes));
        model
            .load_from(&mut store)
            .unwrap_or_else(|e| panic!("Failed to load burnpack bytes: {e}"));
        model
    }
}

impl Model {
    #[allow(unused_variables)]
    pub fn new(device: &Device) -> Self {
        let constant1: burn::module::Param<Tensor<2>> = burn::module::Param::uninitialized(
            burn::module::ParamId::new(),
            move |device, _require_grad| Tensor::<
                2,
            >::zeros([6, 5], (device, burn::tensor::DType::F32)),
            device.clone(),
            false,
            [6, 5].into(),
        );
        let constant2: burn::module::Param<Tensor<1>> = burn::module::Param::uninitialized(
            burn::module::ParamId::new(),
            move |device, _require_grad| Tensor::<
                1,
            >::zeros([6], (device, burn::tensor::DType::F32)),
            device.clone(),
            false,
            [6].into(),
        );
        let custom1 = ::fangorn_graphs::forest::ForestModule::unloaded(
            [77usize, 2usize],
            1408usize,
            device,
        );
        let linear1 = LinearConfig::new(2, 3).with_bias(false).init(device);
        Self {
            constant1,
            constant2,
            custom1,
            linear1,
            device: device.clone(),
        }
    }

    #[allow(clippy::let_and_return, clippy::approx_constant)]
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let constant1_out1 = self.constant1.val();
        let constant2_out1 = self.constant2.val();
        let gemm1_out1 = x.matmul(constant1_out1.transpose())
            + constant2_out1.unsqueeze();
        let relu1_out1 = burn::tensor::activation::relu(gemm1_out1);
        let custom1_out1 = self
            .custom1
            .values(relu1_out1.narrow(1, 0, 6usize))
            .unwrap_or_else(|error| panic!("TreeEnsembleRegressor `custom1`: {error}"));
        let linear1_out1 = self.linear1.forward(custom1_out1);
        linear1_out1
    }
}
