//! Texts of tokens that come one after another, with the decoders of published tokenizers and odd ones.

use lessen_base::SplitMix64;
use lessen_data::{TextStream, Tokenizer};
use serde_json::{Value, json};
use std::fs;

/// A tokenizer of these tokens, of which the first is special.
fn tokenizer(tokens: &[String], decoder: &Value) -> Tokenizer {
    let vocab: serde_json::Map<String, Value> = tokens.iter().cloned().zip((0..).map(Value::from)).collect();
    let special = json!({ "id": 0, "content": tokens[0], "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true });
    let description = json!({ "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special],
        "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": decoder,
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": tokens[0] } });
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tokenizer.json"), description.to_string()).unwrap();
    Tokenizer::from_dir(dir.path()).unwrap()
}

/// Tokens of SentencePiece, with bytes of line ends, letters, whole and broken characters.
fn pieces() -> Vec<String> {
    let words = [
        "<s>", "▁", "▁▁", "▁the", "▁sea", "s", "é", "▁a", "\u{fffd}", "ab", "a", "b",
    ];
    let bytes = [
        0x0a, 0x20, 0x6a, 0xc3, 0xa9, 0xe6, 0xb0, 0xb4, 0xf0, 0x9f, 0x99, 0x82, 0xff,
    ];
    let bytes = bytes.iter().map(|byte| format!("<0x{byte:02X}>"));
    words.map(String::from).into_iter().chain(bytes).collect()
}

/// Tokens whose characters are bytes, among them the parts of "水", "🙂" and "é".
fn byte_level() -> Vec<String> {
    let tokens = [
        "<s>", "Ġ", "Ġthe", "s", "Ċ", "Ã", "©", "æ", "°", "´", "ð", "Ł", "Ļ", "Ĥ", "ÿ", "ĠÃ", "ðŁ", "ab",
    ];
    tokens.map(String::from).into()
}

fn replaced(pattern: &Value, content: &str) -> Value {
    json!({ "type": "Replace", "pattern": pattern, "content": content })
}

fn sequence(decoders: &[Value]) -> Value {
    json!({ "type": "Sequence", "decoders": decoders })
}

fn strip(start: usize, stop: usize) -> Value {
    json!({ "type": "Strip", "content": " ", "start": start, "stop": stop })
}

fn metaspace(scheme: &str) -> Value {
    json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true })
}

/// The decoder of Llama 2, with this one at its end.
fn llama(last: &[Value]) -> Value {
    let joined = [
        replaced(&json!({ "String": "▁" }), " "),
        json!({ "type": "ByteFallback" }),
        json!({ "type": "Fuse" }),
    ];
    sequence(&[&joined[..], last].concat())
}

/// Names, decoders and their tokens.
fn decoders() -> Vec<(&'static str, Value, Vec<String>)> {
    let words = ["[PAD]", "the", "##s", "sea", ".", "'", "##'", "n't", "do", "not"].map(String::from);
    let suffixed = ["<s>", "the</w>", "se", "a</w>", "a</w>b", "</w>"].map(String::from);
    let letters = ["<s>", "<pad>", "a", "b", "|", "'s"].map(String::from);
    let ctc = json!({ "type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true });
    vec![
        ("Llama 2", llama(&[strip(1, 0)]), pieces()),
        ("Gemma", llama(&[]), pieces()),
        ("both ends", llama(&[strip(2, 1)]), pieces()),
        ("three at the end", llama(&[strip(0, 3)]), pieces()),
        ("first", metaspace("first"), pieces()),
        ("always", metaspace("always"), pieces()),
        ("never", metaspace("never"), pieces()),
        (
            "bytes, then spaces",
            sequence(&[json!({ "type": "ByteFallback" }), metaspace("always")]),
            pieces(),
        ),
        ("pairs", llama(&[replaced(&json!({ "String": "aab" }), "x")]), pieces()),
        (
            "regular expression",
            llama(&[replaced(&json!({ "Regex": "a+$|\\n" }), "x")]),
            pieces(),
        ),
        (
            "byte level",
            json!({ "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true }),
            byte_level(),
        ),
        (
            "WordPiece",
            json!({ "type": "WordPiece", "prefix": "##", "cleanup": true }),
            words.into(),
        ),
        (
            "BPE",
            json!({ "type": "BPEDecoder", "suffix": "</w>" }),
            suffixed.into(),
        ),
        ("CTC", ctc, letters.into()),
        ("none", Value::Null, pieces()),
    ]
}

/// What a text has after the beginning that it shares with another.
fn after(text: &str, other: &str) -> String {
    let same = text
        .chars()
        .zip(other.chars())
        .take_while(|(one, other)| one == other)
        .count();
    text.chars().skip(same).collect()
}

#[test]
fn pieces_of_a_text_are_the_whole_text_with_every_decoder() {
    for (number, (name, decoder, tokens)) in decoders().into_iter().enumerate() {
        let tokenizer = tokenizer(&tokens, &decoder);
        for seed in 0..400 {
            let mut random = SplitMix64::keyed(seed, number as u64);
            let mut draw = |most: u64| -> Vec<i32> {
                let length = random.below(most);
                (0..length).map(|_| random.below(tokens.len() as u64) as i32).collect()
            };
            let (mut prompt, added) = (draw(6), draw(30));
            if name.ends_with("end") || name.ends_with("ends") {
                // The library takes characters from the end of a text only where there are as many.
                prompt.splice(0..0, [3, 3]);
            }
            let whole = tokenizer.decode(&[&prompt[..], &added].concat()).unwrap();
            let expected = after(&whole, &tokenizer.decode(&prompt).unwrap());
            let mut stream = TextStream::new(&tokenizer, &prompt, &[]).unwrap();
            let mut text = String::new();
            for end in 1..=added.len() {
                text += stream.push(&added[..end]).unwrap();
            }
            text += stream.finish(&added).unwrap();
            assert_eq!(text, expected, "{name}, seed {seed}: {prompt:?}, then {added:?}");
            assert_eq!(text, stream.text());
            assert_eq!(
                text,
                tokenizer.decode_after(&prompt, &added).unwrap(),
                "{name}, seed {seed}"
            );
        }
    }
}

/// What a text shows after each token, and at its end.
fn shown(tokenizer: &Tokenizer, prompt: &[&str], added: &[&str], stops: &[&str]) -> (Vec<String>, bool) {
    let ids = |tokens: &[&str]| -> Vec<i32> { tokens.iter().map(|token| tokenizer.id_of(token).unwrap()).collect() };
    let stops: Vec<String> = stops.iter().map(|stop| stop.to_string()).collect();
    let (prompt, added) = (ids(prompt), ids(added));
    let mut stream = TextStream::new(tokenizer, &prompt, &stops).unwrap();
    let mut parts = Vec::new();
    for end in 1..=added.len() {
        parts.push(stream.push(&added[..end]).unwrap().to_string());
        if stream.is_stopped() {
            return (parts, true);
        }
    }
    parts.push(stream.finish(&added).unwrap().to_string());
    assert_eq!(parts.concat(), stream.text());
    (parts, stream.is_stopped())
}

#[test]
fn the_first_token_behind_a_prompt_keeps_its_space() {
    for (name, decoder, tokens) in decoders().into_iter().take(8) {
        let tokenizer = tokenizer(&tokens, &decoder);
        let parts = |prompt: &[&str], added: &[&str]| shown(&tokenizer, prompt, added, &[]).0.concat();
        assert_eq!(parts(&["<s>", "▁the"], &["▁sea", "s"]), " seas", "{name}");
        // A special token between them writes nothing.
        assert_eq!(parts(&["▁the", "<s>"], &["<s>", "▁sea", "s"]), " seas", "{name}");
        let alone = tokenizer.decode(&[4, 5]).unwrap();
        assert_eq!(parts(&["<s>"], &["▁sea", "s"]), alone, "{name}");
    }
}

#[test]
fn a_piece_is_shown_when_no_token_can_change_it() {
    let all = decoders();
    let tokenizer_of = |wanted: &str| {
        let (_, decoder, tokens) = all.iter().find(|(name, ..)| *name == wanted).unwrap();
        tokenizer(tokens, decoder)
    };
    let llama = tokenizer_of("Llama 2");
    let parts = |prompt: &[&str], added: &[&str], stops: &[&str]| shown(&llama, prompt, added, stops);
    // A run of bytes is shown when it has ended, and what follows is not lost if it was no text.
    assert_eq!(
        parts(&["▁the"], &["<0x6A>", "<0xF0>", "▁sea", "s"], &[]).0,
        ["", "", "\u{fffd}\u{fffd} sea", "s", ""]
    );
    assert_eq!(parts(&["▁the"], &["<0xC3>", "<0xA9>", "s"], &[]).0, ["", "", "és", ""]);
    assert_eq!(
        parts(&["▁the"], &["<0x0A>", "<0xC3>"], &[]).0,
        ["", "", "\u{fffd}\u{fffd}"]
    );
    // A run that the prompt began.
    assert_eq!(
        parts(&["▁the", "<0x0A>"], &["<0x0A>", "▁sea"], &[]).0,
        ["", "\n sea", ""]
    );
    assert_eq!(parts(&["▁the", "<0x0A>"], &["▁sea", "s"], &[]).0, [" sea", "s", ""]);
    let bytes = tokenizer_of("byte level");
    assert_eq!(
        shown(&bytes, &["Ġthe"], &["s", "Ã", "©", "s"], &[]).0,
        ["s", "", "é", "s", ""]
    );
    assert_eq!(shown(&bytes, &["Ġthe", "Ã"], &["©", "s"], &[]).0, ["é", "s", ""]);
    assert_eq!(
        shown(&bytes, &["Ġthe"], &["ÿ", "ÿ", "s"], &[]).0,
        ["", "\u{fffd}", "\u{fffd}s", ""]
    );
    assert_eq!(shown(&bytes, &["Ġthe"], &["s", "Ã"], &[]).0, ["s", "", "\u{fffd}"]);
}

#[test]
fn a_text_ends_before_the_first_stop_string() {
    let llama = tokenizer(&pieces(), &llama(&[strip(1, 0)]));
    let parts = |added: &[&str], stops: &[&str]| shown(&llama, &["▁the"], added, stops);
    let ends = |parts: &[&str], stopped: bool| (parts.iter().map(|part| part.to_string()).collect::<Vec<_>>(), stopped);
    assert_eq!(parts(&["▁sea", "s"], &[" sea"]), ends(&[""], true));
    assert_eq!(parts(&["▁sea", "s"], &["sea"]), ends(&[" "], true));
    assert_eq!(parts(&["a", "▁", "b"], &[" sea"]), ends(&["a", "", " b", ""], false));
    assert_eq!(parts(&["a", "▁sea"], &["seas", "as"]), ends(&["", "a ", "sea"], false));
    assert_eq!(parts(&["a", "▁sea", "s"], &["seas"]), ends(&["a", " ", ""], true));
    // A stop string of bytes ends the text at once.
    assert_eq!(parts(&["a", "<0x0A>", "<0x0A>"], &["\n\n"]), ends(&["a", "", ""], true));
    assert_eq!(
        parts(&["a", "<0x0A>", "b"], &["\n\n"]),
        ends(&["a", "", "\nb", ""], false)
    );
    assert_eq!(parts(&["a"], &[""]), ends(&["a", ""], false));
}
