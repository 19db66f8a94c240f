//! How the layer norms of a model are computed: with the mean that they subtract, or without where it is redundant.

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::config::{Fields, put_own};
use lessen_base::{Error, Result};

/// The field for how norms are computed.
const OWN_NORM: &str = "lessen_norm";

lessen_base::words! {
    /// How the layer norms of a model are computed. All kinds are the same function of the same parameters: a stream of
    /// mean zero needs no mean subtracted (Jiang et al. 2023, section 3.1).
    #[derive(Default)]
    pub enum NormKind {
        /// LayerNorm, as the model says.
        #[default]
        Layer = "layer",
        /// RMSNorm, on parameters that are recentred after each update; a mean that stays needed is subtracted where it
        /// arises.
        Rms = "rms",
        /// CRMSNorm, on the same parameters: values lack their last element, which follows from the others.
        Crms = "crms",
        /// RMSNorm where that spares means, else LayerNorm.
        Auto = "auto",
    }
}

impl NormKind {
    /// All kinds.
    pub const ALL: [NormKind; 4] = [NormKind::Layer, NormKind::Rms, NormKind::Crms, NormKind::Auto];

    /// The word in recipes.
    pub fn name(self) -> &'static str {
        lessen_base::word::Word::word(self)
    }

    /// Reads the field that [`NormKind::put`] writes.
    pub(crate) fn of_fields(fields: &Fields) -> Result<NormKind> {
        let word = fields.word(OWN_NORM)?;
        word.map_or(Ok(NormKind::default()), |word| {
            word.parse().map_err(|_| {
                let known = NormKind::ALL.map(NormKind::name).join(", ");
                fields.error(
                    OWN_NORM,
                    format!("is `{word}`, which Lessen does not have; it has {known}"),
                )
            })
        })
    }

    /// Writes a field that transformers ignores, unless norms are as the model says.
    pub(crate) fn put(self, map: &mut Map<String, Value>) {
        put_own(
            map,
            OWN_NORM,
            (self != NormKind::Layer).then(|| Value::from(self.name())),
        );
    }
}

impl FromStr for NormKind {
    type Err = Error;

    fn from_str(word: &str) -> Result<NormKind> {
        let found = NormKind::ALL.into_iter().find(|kind| kind.name() == word);
        found.ok_or_else(|| {
            Error::user(format!(
                "`{word}` is none of {}",
                NormKind::ALL.map(NormKind::name).join(", ")
            ))
        })
    }
}
