//! Operators on texts.

use std::collections::HashSet;

use fancy_regex::Regex;
use lessen_base::Result;

use super::extents::{bounded, product};
use super::patterns::translated;
use crate::operators::broadcast::Broadcast;
use lessen_onnx::host::{Data, HostCall, HostOperators, HostTensor, HostValue, one};

pub(crate) const OPERATORS: HostOperators = &[
    ("", "StringConcat", string_concat),
    ("", "StringSplit", string_split),
    ("", "StringNormalizer", string_normalizer),
    ("", "RegexFullMatch", regex_full_match),
];

/// The texts of an input.
fn texts<'c>(call: &'c HostCall<'_>, input: usize) -> Result<&'c [String]> {
    match call.tensor(input)?.data() {
        Data::Text(texts) => Ok(texts),
        _ => call.refused(format!("its input {input} has no texts")),
    }
}

fn string_concat(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let (a, b) = (texts(call, 0)?, texts(call, 1)?);
    let pairs = Broadcast::of([call.tensor(0)?.shape(), call.tensor(1)?.shape()])?;
    bounded(call, pairs.shape(), call.tensor(0)?.data())?;
    bounded(call, pairs.shape(), call.tensor(1)?.data())?;
    one(HostTensor::new(
        pairs.shape(),
        pairs.map(a, b, |a, b| [a.as_str(), b].concat()),
    )?)
}

fn string_split(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let all = texts(call, 0)?;
    let delimiter = call.text("delimiter").unwrap_or_default();
    let most = usize::try_from(call.int("maxsplit", -1)).unwrap_or(usize::MAX);
    let mut shape = call.tensor(0)?.shape().to_vec();
    let split: Vec<Vec<&str>> = all.iter().map(|text| parts(text, &delimiter, most)).collect();
    let counts: Vec<i64> = split.iter().map(|parts| parts.len() as i64).collect();
    let longest = split.iter().map(Vec::len).max().unwrap_or(0);
    let counts = HostTensor::new(&shape, counts)?;
    shape.push(longest);
    bounded(call, &shape, &Data::Text(Vec::new()))?;
    let mut padded = Vec::with_capacity(product(&[all.len(), longest]));
    for parts in split {
        let missing = longest - parts.len();
        padded.extend(parts.into_iter().map(str::to_string));
        padded.extend(std::iter::repeat_n(String::new(), missing));
    }
    Ok(vec![HostTensor::new(&shape, padded)?.into(), counts.into()])
}

/// The parts of a text between delimiters or, without one, between white space; at most `most` cuts are made.
fn parts<'t>(text: &'t str, delimiter: &str, most: usize) -> Vec<&'t str> {
    let most = most.saturating_add(1);
    if !delimiter.is_empty() {
        return text.splitn(most, delimiter).collect();
    }
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if parts.len() + 1 == most {
            parts.push(rest);
            break;
        }
        let (part, after) = rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len()));
        parts.push(part);
        rest = after.trim_start();
    }
    parts
}

fn string_normalizer(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let all = texts(call, 0)?;
    let is_row = match call.tensor(0)?.shape() {
        [_] => false,
        [1, _] => true,
        shape => return call.refused(format!("texts of extents {shape:?} are no list")),
    };
    let change: fn(&str) -> String = match call.text("case_change_action").as_deref() {
        None | Some("NONE") => str::to_string,
        Some("LOWER") => str::to_lowercase,
        Some("UPPER") => str::to_uppercase,
        Some(other) => return call.refused(format!("the change of case {other} is not known")),
    };
    let language = call.text("locale").unwrap_or_default();
    let is_plain = ["", "C", "POSIX"].contains(&language.as_str()) || language.starts_with("en");
    if !is_plain {
        return call.refused(format!("letters of the locale {language} are not known"));
    }
    let folded = |text: &str| match call.int("is_case_sensitive", 0) {
        0 => text.to_lowercase(),
        _ => text.to_string(),
    };
    let stopwords = call.attribute("stopwords").map_or(&[][..], |words| &words.strings);
    let stopwords: HashSet<String> = stopwords
        .iter()
        .map(|word| folded(&String::from_utf8_lossy(word)))
        .collect();
    let kept = all.iter().filter(|text| !stopwords.contains(&folded(text)));
    let mut kept: Vec<String> = kept.map(|text| change(text)).collect();
    if kept.is_empty() {
        kept.push(String::new());
    }
    let shape = [1, kept.len()];
    one(HostTensor::new(if is_row { &shape } else { &shape[1..] }, kept)?)
}

fn regex_full_match(call: &HostCall<'_>) -> Result<Vec<HostValue>> {
    let all = texts(call, 0)?;
    let pattern = translated(&call.text("pattern").unwrap_or_default());
    // The pattern alone is tried first, since brackets around it could complete one that is none.
    let whole = Regex::new(&pattern).and_then(|_| Regex::new(&format!(r"\A(?:{pattern})\z")));
    let Ok(whole) = whole else {
        return call.refused(format!("its pattern `{pattern}` is not known"));
    };
    let mut matches = Vec::with_capacity(all.len());
    for text in all {
        match whole.is_match(text) {
            Ok(is_match) => matches.push(is_match),
            Err(_) => return call.refused(format!("its pattern `{pattern}` takes too many steps")),
        }
    }
    one(HostTensor::new(call.tensor(0)?.shape(), matches)?)
}
