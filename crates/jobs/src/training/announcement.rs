//! What a run says before the steps of a training phase.

use super::Run;
use super::unknown_tokens::UnknownTokens;
use crate::job::Driver;
use lessen_data::images::Preprocessing;
use lessen_saved::cut_texts::{CutTexts, is_warning, remark};
use lessen_task::class_names::unnamed;
use lessen_task::first_weights::{self, FirstWeights};
use lessen_task::formats::images::network_of;
use lessen_task::wording::{counted, in_phase, report, some_of, tell};
use lessen_train::show_size;

impl Run {
    /// Says what is about to be trained, and where it differs from the checkpoint to start from, or from the training
    /// phase before.
    pub(super) fn announce(&self, first: &FirstWeights, driver: &mut Driver) {
        driver.measure(self.trainer.peak());
        let parameters = self.trainer.params().iter().filter(|param| !param.is_buffer);
        let count: usize = parameters.map(|param| param.shape.iter().product::<usize>()).sum();
        let phase = self.phase.task.config().phase.as_deref();
        let phase_name = phase.map_or(String::new(), |name| format!(", {}", in_phase(name)));
        let trained = self.trainer.params().iter().filter(|param| self.trainer.trains(param));
        let trained: usize = trained.map(|param| param.shape.iter().product::<usize>()).sum();
        let trained = if trained == count {
            String::new()
        } else {
            format!(" ({trained} trained)")
        };
        let image = self.phase.task.model().image();
        let image = image.map_or(String::new(), |[h, w, c]| format!(" on images of {h} x {w} x {c}"));
        report(&format!(
            "{}{phase_name}: {} with {count} parameters{trained}{image}, {}, peak memory {}, in {}",
            self.recipe.name(),
            self.phase.task.model().architecture().name(),
            counted(self.phase.steps.total, "step"),
            show_size(driver.peak().planned),
            self.folder.root().display()
        ));
        self.announce_unmeant();
        if self.phase.begun == 0
            && let Ok(data) = self.phase.task.data()
        {
            data.corpus()
                .remarks()
                .iter()
                .for_each(|remark| self.note_of_data(remark));
            let unnamed = unnamed(self.phase.task.model(), self.phase.task.goal().class_names());
            unnamed.iter().for_each(|remark| tell(remark));
            self.announce_network();
            let unknown = UnknownTokens::of(&self.phase.sources).remark();
            unknown.iter().for_each(|remark| self.note_of_data(remark));
            if self.trainer.widens_bf16() {
                tell(
                    "warning: train.precision is bf16, which this device has no instructions for: products widen it, which \
                     takes longer than train.precision=f32",
                );
            }
        }
        let length = self.phase.task.config().data.max_length;
        let cut = CutTexts::of_sources(&self.phase.sources, length);
        let cut: Vec<(CutTexts, &str)> = cut
            .into_iter()
            .zip([" of the training data", " of the evaluation data"])
            .filter_map(|((_, texts), whose)| Some((texts?, whose)))
            .collect();
        match remark(&cut) {
            Some(warning) if is_warning(&warning) => self.note_of_data(&warning),
            Some(remark) => report(&remark),
            None => {}
        }
        let before = match self.phase.begun {
            0 => "the checkpoint",
            _ => "the phase before",
        };
        if !first.drawn.is_empty() {
            let drawn: Vec<String> = first.drawn.iter().map(first_weights::show).collect();
            let drawn = some_of(&drawn);
            tell(&format!("{before} has no {drawn}; starting with new ones"));
        }
        if !first.grown.is_empty() {
            let (tokens, grown) = (self.phase.task.model().vocab_size(), some_of(&first.grown));
            tell(&format!(
                "the tokenizer has more tokens, {tokens}, than {before}; their rows of {grown} are new"
            ));
        }
        if let Some(unused) = first.unused.first() {
            let tensors = counted(first.unused.len() as u64, "tensor");
            tell(&format!(
                "the model has no use for {tensors} of {before}, such as {unused}; left out"
            ));
        }
    }

    /// Prints a remark on the data, unless another run on it has printed the same.
    fn note_of_data(&self, remark: &str) {
        if self.shared.is_news(remark) {
            tell(remark);
        }
    }

    /// Says what training changes in the network of an ONNX file to start from, and what it sees of images, which the
    /// file does not say.
    fn announce_network(&self) {
        let config = self.phase.task.config();
        let file = if self.start == 0 { network_of(config) } else { Ok(None) };
        let Ok(Some(file)) = file else { return };
        let shown = file.network().path();
        for remark in file.remarks() {
            tell(&format!("{}: {remark}", shown.display()));
        }
        if let Ok(Preprocessing { size, mean, std, .. }) = self.reader.preprocessing() {
            let how = match config.image.is_normalized_by_data() {
                true => "those of the training images; to have others, set image.mean and image.std",
                false => "of image.mean and image.std",
            };
            report(&format!(
                "{} sees images of {} x {} pixels, from 0 to 1, by mean {mean:?} and deviation {std:?}, {how}",
                shown.display(),
                size[0],
                size[1]
            ));
        }
    }

    /// Says where the settings were made for another run: one that starts from a checkpoint, or a longer one.
    fn announce_unmeant(&self) {
        let config = self.phase.task.config();
        let (train, steps) = (&config.train, self.phase.steps.total);
        if self.start == 0 && self.phase.begun == 0 && config.model.expects_init && config.model.init.is_none() {
            tell(&format!(
                "warning: the recipe {} is meant to start from a trained model, and none is named, so all weights begin at \
                 random; name a Hugging Face folder with --init",
                self.recipe.name()
            ));
        }
        if train.warmup.is_shortened(steps) {
            tell(&format!(
                "note: {} is more than half of the {}, so the learning rate rises in {} of them only; to have it \
                 otherwise, give a share, such as train.warmup=75%",
                config.place("train.warmup"),
                counted(steps, "step"),
                train.warmup.steps(steps)
            ));
        }
    }
}
