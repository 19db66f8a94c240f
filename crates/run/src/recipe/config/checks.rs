//! Which settings go together.

use super::Config;
use crate::recipe::keys::{DataFormat, ModelKind, Transformer};
use crate::recipe::optimizer;
use crate::recipe::value::Origin;
use crate::recipe::words::Word;
use lessen_base::{Error, Result};
use lessen_compile::Placement;
use lessen_data::{Documents, adder};
use lessen_nn::AttentionConfig;
use lessen_nn::models::vision::Network;

/// The kinds of models that are encoders with heads.
const BERTS: [Transformer; 3] = [Transformer::Bert, Transformer::Roberta, Transformer::DistilBert];

impl Config {
    /// Cross-field validation.
    pub(super) fn check(&self) -> Result<()> {
        let origin = |name: &str| self.settings.origin(name);
        let say = |name: &str, what: String| Err(Error::user(format!("{}: {name} {what}", origin(name))));
        let (model, train) = (&self.model, &self.train);
        if !model.width.is_multiple_of(model.heads) {
            let (width, heads) = (model.width, model.heads);
            return say(
                "model.heads",
                format!("= {heads} does not divide model.width = {width}; choose a divisor"),
            );
        }
        self.check_attention()?;
        for (name, size, most) in [
            // Work is done for each of them, so larger numbers would not end in reasonable time.
            ("model.layers", model.layers, 1 << 10),
            ("model.classes", model.classes, 1 << 16),
            ("train.accumulate", train.accumulate, 1 << 16),
            // Beyond this no memory holds an array.
            ("model.patch", model.patch, 1 << 14),
            ("model.width", model.width, 1 << 28),
            ("model.ffn", model.ffn, 1 << 28),
            ("model.fire_width", model.fire_width.unwrap_or(1), 1 << 16),
            ("model.vocab", model.vocab, 1 << 28),
            ("data.max_length", self.data.max_length, 1 << 28),
            ("train.batch", train.batch, 1 << 28),
            ("train.tokens", train.tokens, 1 << 28),
        ] {
            if size > most {
                return say(
                    name,
                    format!("= {size} is more than Lessen can do; choose at most {most}"),
                );
            }
        }
        if self.placement == Placement::ForwardFused && train.accumulate > 1 {
            return Err(Error::user(format!(
                "{} does not go with train.accumulate = {}; leave one of them out",
                self.place("optimizer.placement"),
                train.accumulate
            )));
        }
        self.check_data()?;
        for (name, share, what) in [
            ("model.dropout", model.dropout, "drop everything"),
            ("lora.dropout", Some(self.lora.dropout), "drop everything"),
            ("train.ema", Some(train.ema), "never move from the first average"),
            (
                "train.label_smoothing",
                Some(train.label_smoothing),
                "leave nothing of the labels",
            ),
        ] {
            if share == Some(1.0) {
                return say(name, format!("= 1 would {what}; choose a number below 1"));
            }
        }
        if train.layer_decay == 0.0 {
            let what =
                "= 0 would train the last layers only; choose a number above 0, or name what stays with train.freeze";
            return say("train.layer_decay", what.to_string());
        }
        if let Some((name, mistake)) = optimizer::mistake(&self.optimizer) {
            return Err(Error::user(format!("{} {mistake}", self.place(name))));
        }
        self.check_kind()
    }

    /// Checks the attention of a model from scratch.
    fn check_attention(&self) -> Result<()> {
        let model = &self.model;
        if model.init.is_some() {
            return Ok(());
        }
        let mistake = match (model.kv_heads, model.kind) {
            (None, _) => None,
            (Some(count), ModelKind::Transformer(Transformer::Encoder | Transformer::Llama)) => {
                (!model.heads.is_multiple_of(count))
                    .then(|| format!("does not divide model.heads = {}; choose a divisor", model.heads))
            }
            (Some(_), kind) => Some(format!(
                "is not for model.kind = {kind}, whose checkpoints hold keys and values of every head; leave it out, or \
                 choose llama or encoder"
            )),
        };
        if let Some(mistake) = mistake {
            return Err(Error::user(format!("{} {mistake}", self.place("model.kv_heads"))));
        }
        if model.reversible == Some(true) && model.kind != Transformer::Encoder.into() {
            return Err(Error::user(format!(
                "{} is not for model.kind = {}; leave it out, or choose encoder",
                self.place("model.reversible"),
                model.kind
            )));
        }
        let head_width = model.width / model.heads;
        let own = model.kind.attention(head_width);
        let attention = AttentionConfig {
            position: model.position.unwrap_or(own.position),
            ..own
        };
        let checked = attention.check(head_width);
        checked.map_err(|error| Error::user(format!("{}: {error}", self.place("model.position"))))
    }

    /// Checks that the keys of `data` suit the format.
    fn check_data(&self) -> Result<()> {
        let data = &self.data;
        let have_lengths = match data.format {
            DataFormat::Labelled | DataFormat::Glue | DataFormat::Tagged | DataFormat::Squad => true,
            DataFormat::Masked => data.lines,
            DataFormat::Text | DataFormat::Adder | DataFormat::Images => false,
        };
        self.check_batching(have_lengths)?;
        self.check_labels()?;
        if data.format == DataFormat::Adder
            && let Some(key) = ["data.path", "data.dev", "data.test"]
                .into_iter()
                .find(|key| self.settings.get(key).is_some())
        {
            return Err(Error::user(format!(
                "{}: the recipe {} makes its own data and reads none; leave {key} out, or choose a recipe for your data, \
                 such as shakespeare for a text or thucnews for labelled ones",
                self.settings.origin(key),
                self.recipe()
            )));
        }
        if data.documents != Documents::Off && data.format != DataFormat::Text {
            return Err(Error::user(format!(
                "{} is for data.format = text, and this is {}; leave it out",
                self.place("data.documents"),
                data.format
            )));
        }
        let named = [
            ("data.text", data.text.is_some()),
            ("data.text_pair", data.text_pair.is_some()),
            ("data.label", data.label.is_some()),
        ];
        if let Some((key, _)) = named.into_iter().find(|(_, is_named)| *is_named)
            && data.format != DataFormat::Labelled
            && !(data.format == DataFormat::Squad && key != "data.label")
        {
            return Err(Error::user(format!(
                "{} is for data.format = labelled, and this is {}; leave it out",
                self.place(key),
                data.format
            )));
        }
        self.check_questions()?;
        self.check_images()?;
        if data.format == DataFormat::Adder && data.max_length != adder::LENGTH {
            return Err(Error::user(format!(
                "{}: data.max_length = {} cannot change the adder, whose examples have {} tokens; leave it out",
                self.settings.origin("data.max_length"),
                data.max_length,
                adder::LENGTH
            )));
        }
        let is_split = matches!(
            data.format,
            DataFormat::Text | DataFormat::Masked | DataFormat::Labelled | DataFormat::Squad | DataFormat::Images
        );
        // Images can be evaluated on their test split instead.
        let leaves_nothing = data.held_out == 0.0 && data.format != DataFormat::Images;
        if data.format == DataFormat::Masked && (data.mask == 0.0 || data.mask == 1.0) {
            return Err(Error::user(format!(
                "{}: data.mask = {} leaves nothing to {}; choose a number between 0 and 1, such as 0.15",
                self.settings.origin("data.mask"),
                data.mask,
                if data.mask == 0.0 { "predict" } else { "predict from" }
            )));
        }
        if is_split && (leaves_nothing || data.held_out == 1.0) {
            return Err(Error::user(format!(
                "{}: data.held_out = {} leaves nothing to {}; choose a number between 0 and 1, such as 0.1",
                self.settings.origin("data.held_out"),
                data.held_out,
                if data.held_out == 0.0 {
                    "validate with"
                } else {
                    "learn from"
                }
            )));
        }
        Ok(())
    }

    /// Checks what batches are made of, of examples that have different lengths or not.
    fn check_batching(&self, have_lengths: bool) -> Result<()> {
        let (train, length) = (&self.train, self.data.max_length);
        if self.data.group && (train.tokens > 0 || !have_lengths) {
            let reason = match have_lengths {
                true => "is so with train.tokens anyway",
                false => "is for texts of different lengths, and all examples of this data have the same one",
            };
            return Err(Error::user(format!(
                "{} {reason}; leave it out",
                self.place("data.group")
            )));
        }
        if train.tokens == 0 {
            return Ok(());
        }
        if train.tokens < length {
            return Err(Error::user(format!(
                "{} is less than the {length} tokens of data.max_length, so that an example may not fit; choose at least that",
                self.place("train.tokens")
            )));
        }
        match [
            self.settings.origin("train.tokens"),
            self.settings.origin("train.batch"),
        ] {
            [Origin::Flag(tokens), Origin::Flag(batch)] => Err(Error::user(format!(
                "{tokens} and {batch} both say what a batch is; leave out one of the two"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the model can learn the data: language models texts, BERTs masked texts, classifiers labels of texts
    /// or of images.
    fn check_kind(&self) -> Result<()> {
        let transformers: &[Transformer] = match self.data.format {
            DataFormat::Adder | DataFormat::Text => &[
                Transformer::Gpt2,
                Transformer::Llama,
                Transformer::GptNeox,
                Transformer::Gptj,
            ],
            DataFormat::Masked | DataFormat::Tagged | DataFormat::Squad => &BERTS,
            DataFormat::Images => &[Transformer::Vit, Transformer::Deit],
            DataFormat::Labelled | DataFormat::Glue => &[
                Transformer::Bert,
                Transformer::Roberta,
                Transformer::DistilBert,
                Transformer::Encoder,
            ],
        };
        let networks = match self.data.format {
            DataFormat::Images => &Network::ALL[..],
            _ => &[],
        };
        let transformers = transformers.iter().copied().map(ModelKind::Transformer);
        let fitting = transformers.chain(networks.iter().copied().map(ModelKind::Network));
        if fitting.clone().any(|kind| kind == self.model.kind) {
            return Ok(());
        }
        let fitting: Vec<&str> = fitting.map(Word::word).collect();
        for (name, what, words) in [
            ("data.format", "what the data is", DataFormat::WORDS.join(", ")),
            ("model.kind", "what learns it", fitting.join(", ")),
        ] {
            if self.settings.origin(name) == Origin::Default {
                let recipe = self.recipe();
                return Err(Error::user(format!(
                    "the recipe {recipe} has no {name}; say {what} with {name}, one of {words}"
                )));
            }
        }
        let (kind, format) = (self.model.kind, self.data.format);
        Err(Error::user(format!(
            "{}: model.kind = {kind} cannot learn data.format = {format}; choose {}",
            self.settings.origin("model.kind"),
            fitting.join(" or ")
        )))
    }
}
