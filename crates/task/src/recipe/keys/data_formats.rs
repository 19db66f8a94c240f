//! The data formats that recipes can name: a line for each, with its word and its implementation in
//! [`formats`](crate::formats).

use lessen_base::words;

/// Calls a macro with the lines of all data formats.
macro_rules! data_formats {
    ($with:ident) => {
        $with! {
            /// Sums made on the fly.
            Adder = "adder": adder::AdderFormat;
            /// Texts with labels: `text<TAB>label`, CSV, TSV, JSON lines, folders of classes.
            Labelled = "labelled": labelled::LabelledFormat;
            /// A task of GLUE.
            Glue = "glue": glue::GlueFormat;
            /// Plain text for a language model.
            Text = "text": text::TextFormat;
            /// Plain text for a masked language model.
            Masked = "masked": masked::MaskedFormat;
            /// Sentences whose words have labels.
            Tagged = "tagged": tagged::TaggedFormat;
            /// Questions about texts, in the files of SQuAD.
            Squad = "squad": squad::SquadFormat;
            /// Tables of numbers and categories: CSV, TSV, JSON lines, Parquet.
            Table = "table": table::TableFormat;
            /// Images with labels: idx files, CIFAR, arrays of NumPy, folders of classes.
            Images = "images": images::ImagesFormat;
        }
    };
}

macro_rules! enumeration {
    ($($(#[$doc:meta])* $variant:ident = $word:literal: $format:path;)*) => {
        words! {
            /// The format of the data.
            pub enum DataFormat {
                $($(#[$doc])* $variant = $word,)*
            }
        }
    };
}

data_formats!(enumeration);

pub(crate) use data_formats;
