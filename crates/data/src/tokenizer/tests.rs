use super::*;
use std::fs;
use std::mem::discriminant;
use tempfile::TempDir;

const VOCAB: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nfall\n##en\n##s\nfal\nThe\n红\n牛\n!\ncafe\n";

fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    files
        .iter()
        .for_each(|(name, text)| fs::write(dir.path().join(name), text).unwrap());
    dir
}

fn bert(config: Option<&str>) -> Tokenizer {
    let mut files = vec![("vocab.txt", VOCAB)];
    files.extend(config.map(|config| (CONFIG, config)));
    Tokenizer::from_dir(folder(&files).path()).unwrap()
}

/// A BPE of the bytes of "a", "b", a space ("Ġ") and a new line ("Ċ"), with three merges.
fn gpt2() -> Tokenizer {
    let vocab = r#"{"a":0,"b":1,"Ġ":2,"Ċ":3,"ab":4,"Ġab":5,"abab":6,"<|endoftext|>":7}"#;
    let dir = folder(&[
        ("vocab.json", vocab),
        ("merges.txt", "#version: 0.2\na b\nĠ ab\nab ab\n"),
    ]);
    Tokenizer::from_dir(dir.path()).unwrap()
}

#[test]
fn word_pieces_are_the_longest_that_fit() {
    let tokenizer = bert(None);
    assert_eq!(tokenizer.encode("The FALLEN falls!").unwrap(), [5, 6, 7, 6, 8, 13]);
    assert_eq!(tokenizer.encode("红牛 café zebra [MASK]").unwrap(), [11, 12, 14, 1, 4]);
    assert_eq!(
        (tokenizer.vocab_size(), tokenizer.pad_id(), tokenizer.id_of("fall")),
        (15, 0, Some(6))
    );
    assert_eq!(tokenizer.id_of("zebra"), None);
    assert_eq!(
        tokenizer.decode(&[2, 5, 6, 7, 13, 3, 0, -100, 99]).unwrap(),
        "the fallen!"
    );
}

#[test]
fn the_config_decides_about_case() {
    assert_eq!(
        bert(Some(r#"{"do_lower_case": false}"#)).encode("The the THE").unwrap(),
        [10, 5, 1]
    );
    assert_eq!(bert(Some(r#"{"pad_token": {"content": "[MASK]"}}"#)).pad_id(), 4);
}

#[test]
fn pairs_have_special_tokens_and_types_and_the_longer_text_is_cut() {
    let tokenizer = bert(None);
    let (ids, types) = tokenizer.encode_pair("the fall", Some("falls"), 16).unwrap();
    assert_eq!(ids, [2, 5, 6, 3, 6, 8, 3]);
    assert_eq!(types, [0, 0, 0, 0, 1, 1, 1]);
    assert_eq!(
        tokenizer.encode_pair("the the the the", None, 4).unwrap(),
        (vec![2, 5, 5, 3], vec![0; 4])
    );
    let cut = |a, b, length| tokenizer.encode_pair(a, Some(b), length).unwrap().0;
    assert_eq!(cut("the the the the", "!", 6), [2, 5, 5, 3, 13, 3]);
    assert_eq!(cut("the", "! ! ! !", 6), [2, 5, 3, 13, 13, 3]);
    assert_eq!(cut("the the the", "! ! !", 7), [2, 5, 5, 3, 13, 13, 3]);
    assert_eq!(tokenizer.encode_pair("", None, 4).unwrap().0, [2, 3]);
    for (second, length) in [(None, 2), (Some("a"), 3)] {
        let error = tokenizer.encode_pair("the", second, length).unwrap_err().to_string();
        assert!(
            error.contains("no room for text") && error.contains("data.max_length"),
            "{error}"
        );
    }
}

#[test]
fn byte_pairs_are_merged_in_order_and_no_space_is_put_before() {
    let tokenizer = gpt2();
    assert_eq!(tokenizer.encode("abab ab\nb").unwrap(), [6, 5, 3, 1]);
    assert_eq!(tokenizer.encode("a<|endoftext|>b").unwrap(), [0, 7, 1]);
    assert_eq!(tokenizer.decode(&[6, 5, 3, 1, 7]).unwrap(), "abab ab\nb");
    assert_eq!(
        tokenizer.encode_pair("ab", Some("b"), 8).unwrap(),
        (vec![4, 1], vec![0, 1])
    );
    assert_eq!((tokenizer.vocab_size(), tokenizer.pad_id()), (8, 7));
}

/// The same BPE with more tokens in files beside the vocabulary.
/// The vocabulary of [`gpt2`] with RoBERTa's special tokens.
const ROBERTA: &str = r#"{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"a":4,"b":5,"Ġ":6,"Ċ":7,"ab":8,"Ġab":9,"<mask>":10}"#;

#[test]
fn robertas_texts_are_between_its_own_tokens() {
    let dir = folder(&[("vocab.json", ROBERTA), ("merges.txt", "#version: 0.2\na b\nĠ ab\n")]);
    let tokenizer = Tokenizer::from_dir(dir.path()).unwrap();
    let single = tokenizer.encode_pair("ab ab", None, 16).unwrap();
    assert_eq!(single, (vec![0, 8, 9, 2], vec![0; 4]));
    // The second text of a pair has no type of its own.
    let pair = tokenizer.encode_pair("ab", Some("b ab"), 16).unwrap();
    assert_eq!(pair, (vec![0, 8, 2, 2, 5, 9, 2], vec![0; 7]));
    let cut = tokenizer.encode_pair("ab", Some("b ab ab ab"), 7).unwrap();
    assert_eq!(cut.0, [0, 8, 2, 2, 5, 9, 2]);
    assert_eq!(tokenizer.around_a_text().unwrap(), (vec![0], vec![2]));
    assert_eq!(tokenizer.mask_id(), Some(10));
    // The mask takes the space before it.
    assert_eq!(tokenizer.encode("ab <mask>").unwrap(), [8, 10]);
    assert_eq!(
        (tokenizer.pad_id(), tokenizer.decode(&single.0).unwrap().as_str()),
        (1, "ab ab")
    );
    let again = tempfile::tempdir().unwrap();
    tokenizer.save(again.path()).unwrap();
    let again = Tokenizer::from_dir(again.path()).unwrap();
    assert_eq!(again.encode_pair("ab ab", None, 16).unwrap(), single);
}

/// As in MPNet's checkpoints, the words of BERT stand after special tokens of its own.
#[test]
fn mpnets_texts_are_words_of_bert_between_its_own_tokens() {
    let vocab = format!("<s>\n<pad>\n</s>\n<unk>\n{VOCAB}<mask>\n");
    let dir = folder(&[("vocab.txt", &vocab)]);
    let tokenizer = Tokenizer::from_dir(dir.path()).unwrap();
    let single = tokenizer.encode_pair("The FALLEN zebra <mask>", None, 16).unwrap();
    assert_eq!(single, (vec![0, 9, 10, 11, 5, 19, 2], vec![0; 7]));
    let pair = tokenizer.encode_pair("the", Some("fall"), 16).unwrap();
    assert_eq!(pair, (vec![0, 9, 2, 2, 10, 2], vec![0; 6]));
    assert_eq!((tokenizer.pad_id(), tokenizer.mask_id()), (1, Some(19)));
    let again = tempfile::tempdir().unwrap();
    tokenizer.save(again.path()).unwrap();
    let again = Tokenizer::from_dir(again.path()).unwrap();
    assert_eq!(again.encode_pair("The FALLEN zebra <mask>", None, 16).unwrap(), single);
    let none = folder(&[("vocab.txt", &vocab.replace("[UNK]\n", ""))]);
    let sentence = Tokenizer::from_dir(none.path()).map(|_| ()).unwrap_err().to_string();
    assert!(sentence.contains("vocab.txt has no line [UNK]"), "{sentence}");
}

fn gpt2_with(files: &[(&str, &str)]) -> Result<Tokenizer> {
    let dir = tempfile::tempdir().unwrap();
    gpt2().save(dir.path()).unwrap();
    fs::remove_file(dir.path().join(TOKENIZER)).unwrap();
    fs::remove_file(dir.path().join(CONFIG)).unwrap();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let tokenizer = Tokenizer::from_dir(dir.path());
    tokenizer.map_err(|error| Error::user(error.to_string().replace(&dir.path().display().to_string(), "DIR")))
}

#[test]
fn tokens_beside_the_vocabulary_are_tokens() {
    let added = (ADDED, r#"{"<b>":9,"[PAD]":8}"#);
    let roles = (ROLES, r#"{"pad_token":"[PAD]"}"#);
    let decoder = r#"{"added_tokens_decoder":{"7":{"content":"<|endoftext|>","special":true},
        "8":{"content":"[PAD]","special":true,"normalized":false},"9":{"content":"<b>","special":false}},
        "pad_token":"[PAD]"}"#;
    for files in [&[added, roles][..], &[(CONFIG, decoder)]] {
        let tokenizer = gpt2_with(files).unwrap();
        let check = |tokenizer: &Tokenizer| {
            assert_eq!((tokenizer.vocab_size(), tokenizer.pad_id()), (10, 8));
            assert_eq!(tokenizer.encode("ab[PAD]a<b>b").unwrap(), [4, 8, 0, 9, 1]);
            assert_eq!(
                tokenizer.decode(&[4, 8, 9]).unwrap(),
                "ab<b>",
                "padding is special, <b> is not"
            );
        };
        check(&tokenizer);
        let dir = tempfile::tempdir().unwrap();
        tokenizer.save(dir.path()).unwrap();
        check(&Tokenizer::from_dir(dir.path()).unwrap());
        for (name, text) in files {
            assert_eq!(&fs::read_to_string(dir.path().join(name)).unwrap(), text);
        }
    }
}

#[test]
fn merges_that_do_not_make_the_vocabulary_are_told() {
    let message = |merges: &str| {
        let error = gpt2_with(&[("merges.txt", merges)]).err().expect("an error");
        error.to_string()
    };
    assert_eq!(
        message("#version: 0.2\na b\nĠ ab\n"),
        "DIR/merges.txt has no line that makes 'abab' of DIR/vocab.json; restore the file, which was cut \
         short or is of another model"
    );
    assert!(message("#version: 0.2\n").contains(" and 2 others of DIR/vocab.json; restore"));
    // The end of the last line is missing, and what is left is a merge of its own.
    assert!(message("a b\nĠ ab\na b").contains("makes 'abab'"));
    // Tokens that stand for no text, as in the vocabularies of several libraries, need no merge.
    for (files, whole) in [
        (vec![], "<ab>"),
        (vec![], "[ab]"),
        // Nothing in the vocabulary that it could be made of.
        (vec![], "madeupword0000"),
        (vec![(ROLES, r#"{"mask_token":{"content":"ba"}}"#)], "ba"),
        (vec![(ROLES, r#"{"additional_special_tokens":["ba"]}"#)], "ba"),
        (vec![(CONFIG, r#"{"cls_token":"ba"}"#)], "ba"),
        (
            vec![(CONFIG, r#"{"added_tokens_decoder":{"8":{"content":"ba"}}}"#)],
            "ba",
        ),
        (vec![(ADDED, r#"{"ba":8}"#)], "ba"),
    ] {
        let vocab = r#"{"a":0,"b":1,"Ġ":2,"Ċ":3,"ab":4,"Ġab":5,"abab":6,"<|endoftext|>":7,"WHOLE":8,
            "<ab":9,">":10,"[ab":11,"]":12}"#;
        let vocab = vocab.replace("WHOLE", whole);
        let files = [vec![("vocab.json", vocab.as_str())], files].concat();
        gpt2_with(&files).unwrap_or_else(|error| panic!("{whole}: {error}"));
    }
}

#[test]
fn added_tokens_out_of_order_are_told() {
    let message = |files: &[(&str, &str)]| gpt2_with(files).err().expect("an error").to_string();
    assert_eq!(
        message(&[(ADDED, r#"{"[PAD]":11}"#)]),
        "DIR gives the added token [PAD] the id 11, which is not the next one after its vocabulary; restore its \
         files"
    );
    assert!(message(&[(ADDED, r#"{"ab":8}"#)]).contains("gives the added token ab the id 8"));
    assert_eq!(
        message(&[(ADDED, r#"{"[PAD]":"8"}"#)]),
        "DIR/added_tokens.json gives '[PAD]' no id; restore the file"
    );
    assert_eq!(
        message(&[(CONFIG, r#"{"added_tokens_decoder":{"eight":{"content":"x"}}}"#)]),
        "DIR/tokenizer_config.json has no id and token in added_tokens_decoder 'eight'; restore the file"
    );
}

#[test]
fn a_text_in_pieces_gives_the_ids_of_the_whole() {
    let tokenizer = gpt2();
    assert!(matches!(tokenizer.shortcut, Shortcut::Pieces));
    let text = "abab  ab\n\nb ba<|endoftext|> ab\n a ".repeat(50);
    let whole = ids_of(&tokenizer.encoding(&text).unwrap());
    for size in [1, 7, 100, 5_000] {
        let parts = pieces(&text, size).flat_map(|piece| ids_of(&tokenizer.encoding(piece).unwrap()));
        assert_eq!(parts.collect::<Vec<_>>(), whole, "pieces of {size} bytes");
    }
    assert_eq!(tokenizer.encode(&text).unwrap(), whole);
    assert!(matches!(bert(None).shortcut, Shortcut::Words));
}

#[test]
fn characters_are_sorted_and_rare_ones_unknown() {
    let tokenizer = Tokenizer::characters(["牛ba\n", "ab牛?"], 2);
    assert_eq!(tokenizer.vocab_size(), 5);
    assert_eq!(
        (tokenizer.id_of("a"), tokenizer.id_of("牛"), tokenizer.id_of("?")),
        (Some(2), Some(4), None)
    );
    assert_eq!(tokenizer.encode("ab牛?\n").unwrap(), [2, 3, 4, 1, 1]);
    assert_eq!(tokenizer.decode(&[2, 3, 0, 4]).unwrap(), "ab牛");
    assert_eq!(
        tokenizer.encode_pair("abba", None, 3).unwrap(),
        (vec![2, 3, 3], vec![0; 3])
    );
    assert_eq!(
        tokenizer.encode_pair("abba", Some("牛"), 3).unwrap(),
        (vec![2, 3, 4], vec![0, 0, 1])
    );
}

#[test]
fn characters_with_marks_have_berts_special_tokens() {
    let tokenizer = Tokenizer::marked_characters(["ab"], 1);
    assert_eq!(tokenizer.encode("abc").unwrap(), [5, 6, 1]);
    assert_eq!(
        tokenizer.encode_pair("a", Some("b"), 8).unwrap(),
        (vec![2, 5, 3, 6, 3], vec![0, 0, 0, 1, 1])
    );
    assert_eq!((tokenizer.mask_id(), tokenizer.pad_id()), (Some(4), 0));
    assert_eq!(tokenizer.around_a_text().unwrap(), (vec![2], vec![3]));
    let plain = Tokenizer::characters(["ab"], 1);
    assert_eq!(
        (plain.mask_id(), plain.around_a_text().unwrap()),
        (None, (vec![], vec![]))
    );
}

#[test]
fn the_short_way_of_characters_gives_the_ids_of_the_long_way() {
    let text = "a \r\n\n\u{3000}b\u{301}é牛\u{1F600}\u{0}~ [PAD]x[UNK] [UNK";
    for text in [text, &text.replace('[', "("), ""] {
        let tokenizer = Tokenizer::characters([text.replace('~', "")], 1);
        let long = ids_of(&tokenizer.encoding(text).unwrap());
        assert_eq!(tokenizer.encode(text).unwrap(), long);
        assert_eq!(tokenizer.encode_pair(text, None, 99).unwrap().0, long);
    }
    assert!(matches!(
        Tokenizer::characters(["ab"], 1).shortcut,
        Shortcut::Characters(_)
    ));
}

#[test]
fn what_is_saved_is_read_back_the_same() {
    let texts = ["the fallen 红牛!", "abab ab\nb", "<|endoftext|>[MASK]"];
    let kinds = [
        bert(None),
        bert(Some(r#"{"do_lower_case": false}"#)),
        gpt2(),
        Tokenizer::characters(texts, 1),
    ];
    for (tokenizer, kept) in kinds.into_iter().zip([3, 3, 4, 2]) {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("run/tokenizer");
        tokenizer.save(&inner).unwrap();
        assert_eq!(fs::read_dir(&inner).unwrap().count(), kept);
        let again = Tokenizer::from_dir(&inner).unwrap();
        for text in texts {
            assert_eq!(again.encode(text).unwrap(), tokenizer.encode(text).unwrap());
            let pair = |tokenizer: &Tokenizer| tokenizer.encode_pair(text, Some("ab"), 9).unwrap();
            assert_eq!(pair(&again), pair(&tokenizer));
        }
        assert_eq!(
            (again.vocab_size(), again.pad_id()),
            (tokenizer.vocab_size(), tokenizer.pad_id())
        );
        assert_eq!(discriminant(&again.shortcut), discriminant(&tokenizer.shortcut));
        assert_eq!(again.files.len(), kept);
        // The vocabulary files alone stand for the same tokenizer.
        if !matches!(again.shortcut, Shortcut::Characters(_)) {
            fs::remove_file(inner.join(TOKENIZER)).unwrap();
            let alone = Tokenizer::from_dir(&inner).unwrap();
            texts
                .iter()
                .for_each(|t| assert_eq!(alone.encode(t).unwrap(), tokenizer.encode(t).unwrap()));
        }
    }
}

#[test]
fn padding_and_truncation_of_a_file_do_not_leak_into_encodings() {
    let dir = tempfile::tempdir().unwrap();
    bert(None).save(dir.path()).unwrap();
    let path = dir.path().join(TOKENIZER);
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json["truncation"] = serde_json::json!({
        "direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0
    });
    json["padding"] = serde_json::json!({
        "strategy": { "Fixed": 9 }, "direction": "Right", "pad_to_multiple_of": null,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"
    });
    fs::write(&path, json.to_string()).unwrap();
    let tokenizer = Tokenizer::from_dir(dir.path()).unwrap();
    assert_eq!(
        tokenizer.encode_pair("the the the", None, 16).unwrap().0,
        [2, 5, 5, 5, 3]
    );
    assert_eq!(tokenizer.encode("the the the the the").unwrap().len(), 5);
}

#[test]
fn a_damaged_template_is_an_error_before_it_can_do_harm() {
    let damaged = |good: &str, bad: &str| {
        let dir = tempfile::tempdir().unwrap();
        bert(None).save(dir.path()).unwrap();
        // A tokenizer of BERT's class makes its template anew.
        fs::write(
            dir.path().join(CONFIG),
            r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#,
        )
        .unwrap();
        let path = dir.path().join(TOKENIZER);
        let json = fs::read_to_string(&path).unwrap();
        assert!(json.contains(good), "{json}");
        fs::write(&path, json.replace(good, bad)).unwrap();
        Tokenizer::from_dir(dir.path()).err().expect("an error").to_string()
    };
    let name = damaged(r#""SpecialToken":{"id":"[CLS]"#, r#""SpecialToken":{"id":"[CLX]"#);
    assert!(name.contains("names [CLX] without its ids"), "{name}");
    let id = damaged(r#""ids":[3]"#, r#""ids":[99]"#);
    assert!(
        id.contains("puts the token 99 around a text, but its vocabulary ends at 14"),
        "{id}"
    );
}

#[test]
fn damaged_folders_are_named() {
    let message = |files: &[(&str, &str)]| {
        let dir = folder(files);
        let error = Tokenizer::from_dir(dir.path()).err().expect("an error").to_string();
        error.replace(&format!("{}/", dir.path().display()), "")
    };
    assert!(message(&[]).contains("there is no tokenizer in"));
    assert!(message(&[("vocab.txt", "")]).contains("vocab.txt is empty"));
    assert!(message(&[("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n")]).contains("vocab.txt has no line [SEP]"));
    assert!(message(&[("vocab.json", "{}")]).contains("no file merges.txt"));
    assert!(message(&[("vocab.json", "{\"a\":0"), ("merges.txt", "a b")]).contains("vocab.json is not valid JSON"));
    assert!(message(&[("vocab.json", "[1]"), ("merges.txt", "a b")]).contains("no object of tokens and ids"));
    let vocab = ("vocab.json", r#"{"a":0,"b":1,"ab":2}"#);
    assert!(message(&[vocab, ("merges.txt", "a b\nab\n")]).contains("merges.txt line 2 is not two tokens"));
    assert!(message(&[vocab, ("merges.txt", "a b\nb a\n")]).contains("line 2 merges to or from 'ba'"));
    assert!(message(&[(TOKENIZER, "{\"model\"")]).contains("tokenizer.json is not valid JSON"));
    assert!(message(&[(TOKENIZER, "{\"model\": {}}")]).contains("is not valid ("));
    assert!(message(&[(CONFIG, "{"), ("vocab.txt", VOCAB)]).contains("tokenizer_config.json is not valid JSON"));
    let pad = (ROLES, r#"{"pad_token":"[PAD]"}"#);
    for file in [CONFIG, ADDED] {
        assert_eq!(
            message(&[("vocab.txt", VOCAB), pad, (file, "[1]")]),
            format!("{file} must hold a JSON object; restore the file")
        );
    }
    assert!(message(&[("vocab.txt", VOCAB), (ROLES, "7")]).contains("special_tokens_map.json must hold"));
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let dir = folder(&[("taken", "a file")]);
    let error = gpt2().save(&dir.path().join("taken")).unwrap_err().to_string();
    assert!(error.contains("taken") && error.contains("cannot be made"), "{error}");
}

#[test]
fn a_pointer_of_git_lfs_in_place_of_a_vocabulary_is_named_with_the_remedy() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 132735\n";
    for file in ["tokenizer.json", "vocab.txt"] {
        let dir = folder(&[(file, pointer)]);
        let sentence = Tokenizer::from_dir(dir.path()).err().expect("an error").to_string();
        let wanted = format!("{file} is a pointer of Git LFS in place of the file itself; ");
        assert!(
            sentence.contains(&wanted) && sentence.contains("`git lfs pull`"),
            "{sentence}"
        );
    }
}
