//! `docs/reference/fields.md` is generated from the tables of fields; `LESSEN_BLESS=1` writes it anew.

use lessen_nn::checkpoint::ADAPTER_FIELDS;
use lessen_nn::{Architecture, FieldEffect, Head, KnownField, config_fields};
use lessen_task::generation_config::fields::GENERATION_FIELDS;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// A table of fields by their effects.
fn table(fields: &[KnownField]) -> String {
    let mut text = String::from("| effect | fields |\n|---|---|\n");
    let mut effects: Vec<FieldEffect> = Vec::new();
    for (_, effect) in fields {
        if !effects.contains(effect) {
            effects.push(*effect);
        }
    }
    for effect in effects {
        let own = fields.iter().filter(|(_, other)| *other == effect);
        let names: Vec<String> = own.map(|(name, _)| format!("`{name}`")).collect();
        writeln!(text, "| {} | {} |", effect.describe(), names.join(", ")).unwrap();
    }
    text
}

fn page() -> String {
    let mut text = String::from(
        "# Fields of configuration files\n\n\
         Generated from the code by the test `the_page_of_fields_is_the_tables_of_the_code`; `LESSEN_BLESS=1` writes it anew. \
         A field\nthat is unknown is refused in `config.json` and `adapter_config.json`, unless it is null, false, empty or, in \
         `config.json`, a\ntext or begins with `_`; in `generation_config.json` a note names it. Every field of every family \
         is compared with\ntransformers by `every_field_of_a_config_has_the_effect_of_transformers_or_is_refused`. Fields of \
         `tokenizer_config.json` are in\n[`data.md`](data.md).\n",
    );
    let mut families: Vec<&str> = Vec::new();
    for architecture in Architecture::all() {
        let family = architecture.model_type();
        let is_first = !families.contains(&family);
        let (true, Some(fields)) = (is_first, config_fields(architecture)) else {
            continue;
        };
        families.push(family);
        write!(text, "\n## `config.json` of `{family}`\n\n{}", table(&fields)).unwrap();
    }
    assert!(families.contains(&Architecture::with_head("bert", Head::MaskedLM).unwrap().model_type()));
    write!(text, "\n## `adapter_config.json`\n\n{}", table(&ADAPTER_FIELDS)).unwrap();
    write!(text, "\n## `generation_config.json`\n\n{}", table(&GENERATION_FIELDS)).unwrap();
    text
}

#[test]
fn the_page_of_fields_is_the_tables_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/fields.md");
    if std::env::var_os("LESSEN_BLESS").is_some() {
        fs::write(&path, page()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page(),
        "docs/reference/fields.md differs; LESSEN_BLESS=1 writes it anew"
    );
}
