//! Learning classes one after another with a memory of few images: new classes come with all their images, of which a
//! memory is kept.

use super::class_view::ClassView;
use crate::evaluation::{Accuracy, evaluate};
use crate::network::Network;
use crate::training::TrainingSettings;
use lessen_base::Result;
use lessen_data::images::{ImageSource, LabelledImages};
use lessen_device::SharedDevice;

/// A network with this number of classes.
pub type NetworkOf<'a> = dyn Fn(usize) -> Box<dyn Network> + 'a;

/// What is remembered of the images of new classes, which are numbered from 0; the network has as many classes.
pub type Remember<'a> = dyn FnMut(&dyn Network, &dyn ImageSource) -> Result<LabelledImages> + 'a;

/// Learns classes in steps: `steps` has the classes that come in each. Of the images of new classes `remember` keeps
/// some, such as a coreset or condensed ones. Then `networks` networks are trained from scratch on all that has been
/// remembered, and on nothing else (Prabhu, Torr and Dokania 2020), and tested on the test images of all classes that
/// have come. Returns the accuracies of each step; `progress` hears the number of the step and its accuracies.
///
/// # Errors
/// A class that does not exist or comes twice; memory without labels of its classes; the errors of [`evaluate`], of
/// `remember` and `progress`.
pub fn continual(
    device: &SharedDevice,
    network: &NetworkOf<'_>,
    (source, test, steps): (&dyn ImageSource, &dyn ImageSource, &[&[u32]]),
    remember: &mut Remember<'_>,
    (settings, networks): (&TrainingSettings, usize),
    progress: &mut dyn FnMut(usize, &Accuracy) -> Result<()>,
) -> Result<Vec<Accuracy>> {
    let mut memory: Vec<LabelledImages> = Vec::new();
    let mut accuracies = Vec::with_capacity(steps.len());
    // All classes are checked before the first step.
    ClassView::new(test, &steps.concat())?;
    for (step, classes) in steps.iter().enumerate() {
        let new = ClassView::new(source, classes)?;
        memory.push(remember(&*network(classes.len()), &new)?);
        let all = LabelledImages::of_more_classes(&memory)?;
        let seen = ClassView::new(test, &steps[..=step].concat())?;
        let how = (settings, networks);
        let network = network(all.classes());
        let accuracy = evaluate(device.clone(), &*network, (&[&all], &seen), how, &mut |_| Ok(()))?;
        progress(step, &accuracy)?;
        accuracies.push(accuracy);
    }
    Ok(accuracies)
}
