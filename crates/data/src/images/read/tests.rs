use super::*;
use crate::images::Image;
use crate::images::cifar::tests::record;
use crate::images::decode::tests::{encoded, sloping};
use image::ImageFormat;
use std::fs;

fn folder(files: &[(&str, Vec<u8>)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir
}

/// An idx file of bytes that count from 0.
fn idx(shape: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, 8, shape.len() as u8];
    bytes.extend(shape.iter().flat_map(|size| [0, 0, 0, *size]));
    bytes.extend(0..shape.iter().product::<u8>());
    bytes
}

fn png(shape: [usize; 3]) -> Vec<u8> {
    encoded(&sloping(shape), ImageFormat::Png)
}

fn refused(path: &Path, options: &Options) -> String {
    let error = read(path, options).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

#[test]
fn idx_files_are_splits_by_their_names() {
    let dir = folder(&[
        ("train-images-idx3-ubyte", idx(&[4, 2, 3])),
        ("train-labels-idx1-ubyte", idx(&[4])),
        ("t10k-images-idx3-ubyte", idx(&[2, 2, 3])),
        ("t10k-labels-idx1-ubyte", idx(&[2])),
    ]);
    let data = read(dir.path(), &Options::default()).unwrap();
    assert_eq!(
        (data.train.len(), data.dev.len(), data.test.as_ref().unwrap().len()),
        (3, 1, 2)
    );
    assert_eq!(data.names, ["0", "1", "2", "3"]);
    assert_eq!((data.size, data.train.channels()), (Some([2, 3]), 1));
    assert_eq!(
        data.remarks,
        ["there are no images for validation: 1 of 4 examples are kept for it"]
    );
    assert_eq!(
        data.split("test").unwrap().image(1).unwrap().bytes(),
        [6, 7, 8, 9, 10, 11]
    );
    let sentence = data.split("valid").unwrap_err().to_string();
    assert!(sentence.contains("choose one of train, dev, test"), "{sentence}");
    // Without images kept, evaluations are of the test split.
    let options = Options {
        held_out: 0.0,
        ..Options::default()
    };
    let data = read(dir.path(), &options).unwrap();
    assert_eq!((data.train.len(), data.dev.len()), (4, 2));
    // A file alone, and another one for evaluations.
    let options = Options {
        dev: Some(dir.path().join("t10k-images-idx3-ubyte")),
        ..Options::default()
    };
    let data = read(&dir.path().join("train-images-idx3-ubyte"), &options).unwrap();
    assert_eq!((data.train.len(), data.dev.len(), data.test), (4, 2, None));
}

#[test]
fn records_of_cifar_have_the_names_of_their_folder() {
    let names: Vec<String> = (0..10).map(|class| format!("class {class}")).collect();
    let dir = folder(&[
        ("data_batch_1.bin", record(&[1], [1; 3])),
        (
            "data_batch_2.bin",
            [record(&[9], [2; 3]), record(&[9], [3; 3])].concat(),
        ),
        ("test_batch.bin", record(&[0], [4; 3])),
        ("batches.meta.txt", format!("{}\n\n", names.join("\n")).into_bytes()),
    ]);
    let options = Options {
        held_out: 0.0,
        channels: Some(1),
        ..Options::default()
    };
    let data = read(dir.path(), &options).unwrap();
    assert_eq!((data.train.labels(), data.dev.labels()), (&[1, 9, 9][..], &[0][..]));
    assert_eq!((data.names, data.size), (names, Some([32, 32])));
    assert_eq!(
        data.remarks,
        ["4 of 4 images are in colour; such images are converted to grey"]
    );
    assert_eq!(
        data.train.image(2).unwrap(),
        Image::new([32, 32, 1], {
            let mut bytes = vec![3; 1024];
            bytes[0] = 1;
            bytes
        })
    );
    // Files by a pattern are one split.
    let data = read(
        &dir.path().join("data_batch_*.bin"),
        &Options {
            held_out: 0.3,
            ..Options::default()
        },
    )
    .unwrap();
    assert_eq!((data.train.len(), data.dev.len()), (2, 1));
    fs::write(dir.path().join("batches.meta.txt"), "a\nb\n").unwrap();
    assert!(
        refused(dir.path(), &Options::default())
            .contains("image 2 has the label '9', but the 2 classes of batches.meta.txt are a, b")
    );
}

#[test]
fn folders_of_classes_may_hold_grey_images_and_different_sizes() {
    let dir = folder(&[
        ("train/cat/1.png", png([4, 6, 3])),
        ("train/cat/2.png", png([4, 6, 1])),
        ("train/dog/3.jpg", encoded(&sloping([9, 5, 3]), ImageFormat::Jpeg)),
        ("val/dog/4.png", png([4, 6, 3])),
    ]);
    let data = read(dir.path(), &Options::default()).unwrap();
    assert_eq!(
        (data.names.clone(), data.train.labels()),
        (vec!["cat".into(), "dog".into()], &[0, 0, 1][..])
    );
    assert_eq!(
        (data.dev.labels(), data.size, data.train.channels()),
        (&[1][..], None, 3)
    );
    assert_eq!(
        data.remarks,
        [
            "1 of 4 images is in grey; such images are converted to colour",
            "images differ in size, such as 4 x 6 and 9 x 5 (height x width); each is resized to what the model sees"
        ]
    );
    assert_eq!(data.train.image(1).unwrap(), sloping([4, 6, 1]).with_channels(3));
    assert!(data.train.is_in_files() && data.train.file(2).unwrap().ends_with("dog/3.jpg"));
    // The classes of a model go before those of the folder.
    let classes = Some(["dog", "fox", "cat"].map(String::from).to_vec());
    let data = read(
        dir.path(),
        &Options {
            classes,
            ..Options::default()
        },
    )
    .unwrap();
    assert_eq!(data.train.labels(), [2, 2, 0]);
    // A damaged file is told when it is looked at.
    fs::write(dir.path().join("train/dog/5.png"), "GIF89a").unwrap();
    assert!(refused(dir.path(), &Options::default()).contains("5.png is neither a PNG nor a JPEG file"));
}

#[test]
fn what_is_no_data_set_is_refused() {
    let dir = folder(&[("a/1.png", png([1, 1, 3])), ("notes.txt", b"x".to_vec())]);
    let options = Options::default();
    assert!(refused(dir.path(), &options).contains("has the folder a only"));
    assert!(refused(&dir.path().join("a"), &options).contains("there are no images in"));
    assert!(refused(&dir.path().join("notes.txt"), &options).contains("is no data set of images; name a folder"));
    assert!(refused(&dir.path().join("none"), &options).contains("there is no file or folder"));
    let svhn = folder(&[("train_32x32.mat", b"MATLAB 5.0 MAT-file".to_vec())]);
    let sentence = refused(&svhn.path().join("train_32x32.mat"), &options);
    assert!(
        sentence.contains("is a file of MATLAB, as SVHN's are; convert it"),
        "{sentence}"
    );
    let one = folder(&[
        ("train-images-idx3-ubyte", idx(&[2, 1, 1])),
        ("train-labels-idx1-ubyte", vec![0, 0, 8, 1, 0, 0, 0, 2, 0, 0]),
    ]);
    assert!(refused(one.path(), &options).contains("has only one class"));
    let two = folder(&[("a.npz", vec![]), ("b.npz", vec![])]);
    assert!(refused(two.path(), &options).contains("are two archives"));
    let tests = folder(&[("test.bin", record(&[1], [0; 3]))]);
    assert!(refused(tests.path(), &options).contains("none for training"));
}
