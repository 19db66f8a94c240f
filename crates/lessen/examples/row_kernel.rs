//! An operation of one's own with a kernel in safe Rust: sparsemax, the point of the simplex that is nearest to a row
//! (Martins and Astudillo, 2016). The decomposition says what it computes, and gives the derivative; the kernel is the
//! fast way, a row at a time. The checks of devices compare both.
use lessen::backend::suite::{Sample, check_operation};
use lessen::cpu::CpuBackend;
use lessen::prelude::*;

#[derive(PartialEq, Debug)]
struct Sparsemax;

impl Op for Sparsemax {
    fn name(&self) -> &'static str {
        "example.sparsemax"
    }
    fn infer(&self, inputs: &[Type]) -> Result<Vec<Type>> {
        Ok(inputs.to_vec())
    }
    fn decompose(&self, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
        let x = inputs[0];
        let count = x.trace().iota(x.dtype(), &x.shape(), x.axis(-1)) + 1.0;
        let least = ((x.sort(-1, true).0.cumsum(-1) - 1.0) / count).max_last();
        Some(vec![(x - least).relu()])
    }
    fn row_wise(&self, inputs: &[Type], outputs: &[Type]) -> RowWise {
        RowWise::of_last_axis(inputs, outputs)
    }
    fn row_kernel(&self) -> Option<RowKernel> {
        Some(RowKernel::new(|inputs, outputs| {
            let (x, y) = (inputs[0].f32(), outputs[0].f32());
            let mut z = x.to_vec();
            z.sort_by(|a, b| b.total_cmp(a));
            let (mut sum, mut least) = (0.0, f32::NEG_INFINITY);
            for (i, z) in z.iter().enumerate() {
                sum += z;
                least = least.max((sum - 1.0) / (i + 1) as f32);
            }
            y.iter_mut().zip(x).for_each(|(y, x)| *y = (x - least).max(0.0));
        }))
    }
}

fn main() -> Result<()> {
    let sample = |rows, columns| Sample::new(Sparsemax, &[Type::f32(&[rows, columns])]);
    let device_of = |workers| -> Box<dyn Backend> { Box::new(CpuBackend::new(workers).expect("threads")) };
    check_operation(&device_of, 1, &sample).map_err(Error::user)?;
    let mut trainer = Trainer::new(device()?, TrainerOptions::new(0.1), |cx| {
        let weights = cx.trace().apply1(Sparsemax, &[cx.param("scores", &[4], Init::Zeros)]);
        let target = cx.input("target", DType::F32, &[4]);
        ((weights - target) * (weights - target)).sum()
    })?;
    let target = [0.0, 0.7, 0.3, 0.0];
    for _ in 0..100 {
        trainer.step(&[("target", Host::F32(&target))])?;
    }
    let loss = trainer.step(&[("target", Host::F32(&target))])?.loss;
    println!("the kernel computes what the decomposition does; after 100 steps the loss is {loss:.6}");
    Ok(())
}
