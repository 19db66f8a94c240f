//! What condensed images are good for: `cargo run --release --example condense_uses -- FOLDER [EPOCHS [WHOLE_EPOCHS
//! [NETWORKS [ITERATIONS]]]]` reads a folder that `lessen condense` wrote and the data that it names.
//!
//! First the images are a proxy: ten small ConvNets are ranked by what they learn from them, and by what they learn
//! from the whole training split. Then classes come in four steps, and of each a memory of as many images of a class
//! stays: condensed ones, or real ones that are chosen at random.

mod arguments;

use arguments::number;
use lessen::condense::experiments::{Remember, continual, proxy, small_convnets};
use lessen::condense::{
    Condensation, Condenser, Coreset, ImageSource, LabelledImages, Method, Network, Settings, TrainingSettings, coreset,
};
use lessen::jobs::condensing::{CondensedFolder, RecipeImages};
use lessen::nn::models::vision::{ConvNet, VisionModel};
use lessen::prelude::*;
use std::path::Path;

/// Steps in which classes come.
const STEPS: usize = 4;

/// Real images of a class in an update of the memory.
const REAL: usize = 16;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.first().map(Path::new) else {
        return Err(Error::user("name a folder that `lessen condense` wrote"));
    };
    let number = |place: usize, default: usize| Ok::<usize, Error>(number(&arguments, place)?.unwrap_or(default));
    let (epochs, whole_epochs) = (number(1, 300)?, number(2, 5)?);
    let (networks, iterations) = (number(3, 2)?, number(4, 50)?);
    let folder = CondensedFolder::open(folder)?;
    let (condensed, images) = (folder.images()?, RecipeImages::read(&folder.config()?)?);
    let device = SharedDevice::new(device()?);
    let of = |epochs: usize| TrainingSettings {
        epochs: Some(epochs),
        ..TrainingSettings::default()
    };

    let (few, all) = (of(epochs), of(whole_epochs));
    let classes = images.names.len();
    let candidates = small_convnets(classes);
    let candidates: Vec<(&str, &dyn Network)> = candidates
        .iter()
        .map(|(name, net)| (*name, net as &dyn Network))
        .collect();
    let sets = [(&condensed as &dyn ImageSource, &few), (&images.train, &all)];
    let found = proxy(&device, &candidates, (sets, &images.test), networks, &mut |candidate| {
        println!(
            "{}: condensed {} %, whole {} %",
            candidate.name, candidate.condensed, candidate.whole
        );
        Ok(())
    })?;
    let [short, long] = found.seconds();
    match found.rank_correlation() {
        Some(correlation) => println!("rank correlation {correlation:.2}, {short:.0} s instead of {long:.0} s"),
        None => println!("no rank correlation, {short:.0} s instead of {long:.0} s"),
    }

    let per_class = condensed.labels().len() / classes;
    let numbers: Vec<u32> = (0..classes as u32).collect();
    let steps: Vec<&[u32]> = numbers.chunks(classes.div_ceil(STEPS)).collect();
    let network_of = |classes: usize| -> Box<dyn Network> { Box::new(VisionModel::from(ConvNet::new(classes))) };
    let memory_of_condensed = &mut |network: &dyn Network, source: &dyn ImageSource| -> Result<LabelledImages> {
        let settings = Settings {
            iterations,
            real_batch: REAL,
            ..Settings::published(Method::Md, per_class)?
        };
        let mut condenser = Condenser::new(device.clone(), network, source, settings)?;
        for _ in 0..iterations {
            condenser.iterate(&mut |_| Ok(()))?;
        }
        condenser.images()
    };
    let memory_of_random = &mut |network: &dyn Network, source: &dyn ImageSource| -> Result<LabelledImages> {
        let chosen = coreset(
            device.clone(),
            network,
            source,
            (Coreset::Random, per_class),
            &few,
            &mut |_, _| Ok(()),
        )?;
        LabelledImages::part_of(source, &chosen)
    };
    let memories: [(&str, &mut Remember<'_>); 2] = [("condensed", memory_of_condensed), ("random", memory_of_random)];
    for (name, remember) in memories {
        continual(
            &device,
            &network_of,
            (&images.train, &images.test, &steps),
            remember,
            (&few, networks),
            &mut |step, accuracy| {
                println!("{name} memory after step {}: {accuracy} %", step + 1);
                Ok(())
            },
        )?;
    }
    Ok(())
}
