//! Damaged checkpoints: each gives an error that names the file and the tensor, never a panic.

use std::fs;

use crate::support::{Folder, Tensors, fault, fixture, load, model, read, write};
use lessen_nn::{Family, Head, Model, checkpoint};
use safetensors::Dtype;

#[test]
fn a_tied_tensor_that_differs_is_refused_where_the_model_uses_it() {
    let folder = Folder::new();
    let with_copy = |name: &str, copy: &str, source: &str| {
        let mut tensors = read(name);
        let mut other = tensors[source].clone();
        other.2[5] ^= 1;
        tensors.insert(copy.into(), other);
        write(&folder, "model.safetensors", &tensors);
    };
    let (gpt2, _) = model("gpt2-tiny");
    with_copy("gpt2-tiny", "lm_head.weight", "transformer.wte.weight");
    let sentence = load(&folder, &gpt2.parameters()).unwrap_err().to_string();
    assert_eq!(
        sentence.replace(&folder.0.display().to_string(), "DIR"),
        "DIR/model.safetensors: the tensor `lm_head.weight` differs from `transformer.wte.weight`, and Lessen \
         computes this model only with both the same (`tie_word_embeddings`)"
    );
    let words = "bert.embeddings.word_embeddings.weight";
    with_copy("bert-tiny-mlm", "cls.predictions.decoder.weight", words);
    let (mlm, _) = model("bert-tiny-mlm");
    let sentence = load(&folder, &mlm.parameters()).unwrap_err().to_string();
    assert!(
        sentence.contains("`cls.predictions.decoder.weight` differs"),
        "{sentence}"
    );
    // A classifier ignores the masked-language-model head.
    let architecture = lessen_nn::Architecture::Bert(Family::Bert, Head::SequenceClassification);
    let classifier = Model::from_dir_as(&fixture("bert-tiny-mlm"), architecture).unwrap();
    let head = |name: &str| classifier.is_head(name);
    checkpoint::load(&folder.0, &classifier.parameters(), &head).unwrap();
}

#[test]
fn a_fault_of_a_tensor_names_it() {
    let folder = Folder::new();
    let with = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = read("bert-tiny-cls");
        change(&mut tensors);
        write(&folder, "model.safetensors", &tensors);
        fault(&folder)
    };
    assert_eq!(
        with(&|t| drop(t.remove("classifier.weight"))),
        "DIR/model.safetensors has no tensor `classifier.weight`, which the model needs; is it of \
         another model?"
    );
    assert_eq!(
        with(&|t| t.get_mut("classifier.weight").unwrap().1 = vec![32, 5]),
        "DIR/model.safetensors: the tensor `classifier.weight` has the shape [32, 5], the model needs \
         [5, 32]; the checkpoint and the model's configuration do not fit together"
    );
    assert_eq!(
        with(&|t| t.get_mut("classifier.bias").unwrap().0 = Dtype::I32),
        "DIR/model.safetensors: the tensor `classifier.bias` holds I32, and Lessen reads F32, F64, F16 and \
         BF16, and I8 with scales; convert it to one of these"
    );
}

#[test]
fn a_fault_of_the_file_is_told() {
    let folder = Folder::copy_of("bert-tiny-cls");
    let path = folder.file("model.safetensors");
    let sound = fs::read(&path).unwrap();
    let size = u64::from_le_bytes(sound[..8].try_into().unwrap()) as usize;
    let with = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        fault(&folder)
    };
    let no = "DIR/model.safetensors is no valid safetensors file: ";
    assert_eq!(with(&sound[..5]), format!("{no}it has 5 bytes, too few for a header"));
    assert_eq!(
        with(&sound[..100]),
        format!("{no}its header claims {size} bytes, and the file has 100")
    );
    let needed = sound.len() - 8 - size;
    assert_eq!(
        with(&sound[..sound.len() - 1]),
        format!(
            "{no}its tensors need {needed} bytes, and {} follow the header; it is truncated or damaged",
            needed - 1
        )
    );
    assert_eq!(
        with(&[&sound[..], b"more"].concat()),
        format!(
            "{no}its tensors need {needed} bytes, and {} follow the header; it is truncated or damaged",
            needed + 4
        )
    );
    assert!(
        with(&[&[255; 8], &sound[8..]].concat()).starts_with(&format!("{no}its header claims 18446744073709551615"))
    );
    assert!(
        with(&[&sound[..8], &vec![b'['; size], &sound[8 + size..]].concat())
            .starts_with(&format!("{no}its header is damaged ("))
    );

    // A header with a wrong shape.
    let header = String::from_utf8(sound[8..8 + size].to_vec()).unwrap();
    let lie = header.replace(
        "\"classifier.weight\":{\"dtype\":\"F32\",\"shape\":[5,32]",
        "\"classifier.weight\":{\"dtype\":\"F32\",\"shape\":[5,99]",
    );
    assert_ne!(lie, header);
    let sentence = with(&[&sound[..8], lie.as_bytes(), &sound[8 + size..]].concat());
    assert!(sentence.starts_with(&format!(
        "{no}its header contradicts itself about the tensor `classifier.weight`: "
    )));

    fs::remove_file(&path).unwrap();
    assert_eq!(
        fault(&folder),
        "DIR has no model.safetensors; name a folder with config.json and model.safetensors, as \
         transformers' save_pretrained writes it"
    );
    fs::write(folder.file("pytorch_model.bin"), "").unwrap();
    assert_eq!(
        fault(&folder),
        "DIR has a pytorch_model.bin but no model.safetensors; convert it with: python -c \"import transformers as t; d = \
         'DIR'; getattr(t, t.AutoConfig.from_pretrained(d).architectures[0]).from_pretrained(d).save_pretrained(d)\""
    );
}

#[test]
fn no_damage_to_the_header_panics() {
    let folder = Folder::copy_of("bert-tiny-cls");
    let path = folder.file("model.safetensors");
    let sound = fs::read(&path).unwrap();
    let params = Model::from_dir(&fixture("bert-tiny-cls")).unwrap().parameters();
    let size = u64::from_le_bytes(sound[..8].try_into().unwrap()) as usize;
    let mut refused = 0;
    // Flip every 91st bit of length and header, one at a time, which covers all bits of a byte.
    for bit in (0..8 * (8 + size)).step_by(91) {
        let mut bytes = sound.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, bytes).unwrap();
        match load(&folder, &params) {
            Err(_) => refused += 1,
            Ok(loaded) => assert!(params.iter().all(|p| loaded.weights[&p.name].shape == p.shape)),
        }
    }
    assert!(refused > 300, "only {refused} of the damaged files were refused");
}

#[test]
fn a_folder_that_cannot_be_written_is_told_and_nothing_is_left() {
    let (model, weights) = model("gpt2-tiny");
    let folder = Folder::new();
    fs::write(folder.file("file"), "").unwrap();
    let sentence = checkpoint::save(&folder.file("file/run"), &model.config_json(), &weights).unwrap_err();
    assert!(sentence.to_string().contains("file/run cannot be made: "), "{sentence}");

    // A folder at the destination fails the last step, the rename.
    fs::create_dir_all(folder.file("run/model.safetensors/full")).unwrap();
    let sentence = checkpoint::save(&folder.file("run"), &model.config_json(), &weights).unwrap_err();
    assert!(
        sentence
            .to_string()
            .contains("run/model.safetensors cannot be written ("),
        "{sentence}"
    );
    assert_eq!(
        fs::read_dir(folder.file("run")).unwrap().count(),
        1,
        "what was written aside is gone"
    );
}

#[test]
fn pointers_of_git_lfs_in_place_of_weights_are_named_with_the_remedy() {
    for file in ["model.safetensors", "pytorch_model.bin"] {
        let folder = Folder::new();
        fs::write(
            folder.file(file),
            "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 132735\n",
        )
        .unwrap();
        let sentence = fault(&folder);
        let wanted = format!("DIR/{file} is a pointer of Git LFS in place of the file itself; ");
        assert!(
            sentence.starts_with(&wanted) && sentence.contains("`git lfs pull`"),
            "{sentence}"
        );
    }
}
