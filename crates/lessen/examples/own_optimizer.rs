//! An optimizer of one's own: Lion (Chen et al. 2023), written with tensors and compared with the built-in one.

use lessen::prelude::*;

#[derive(Debug)]
struct MyLion;

impl UpdateAlgorithm for MyLion {
    fn updated(&self, of: &mut ParamUpdate<'_>) -> Tensor {
        let (parameter, gradient) = (of.parameter(), of.gradient());
        let mean = of.state("mean", &parameter.shape());
        of.set("mean", mean * 0.99 + gradient * 0.01);
        parameter - (mean * 0.9 + gradient * 0.1).sign() * of.lr()
    }
}

fn main() -> Result<()> {
    let (mut mine, mut built_in) = (TrainerOptions::new(0.01), TrainerOptions::new(0.01));
    mine.algorithm = Some(Algorithm::new(MyLion));
    built_in.optimizer = OptimizerConfig::lion(0.0);
    for options in [mine, built_in] {
        let mut trainer = Trainer::new(device()?, options, |cx| {
            losses::mse(cx.param("w", &[4], Init::Zeros), cx.input("goal", DType::F32, &[4]))
        })?;
        let goal = [0.5, -0.25, 1.0, 0.0];
        (0..150).try_for_each(|_| trainer.step(&[("goal", Host::F32(&goal))]).map(drop))?;
        println!("{:.4?}", trainer.weights()?["w"].data);
    }
    Ok(())
}
