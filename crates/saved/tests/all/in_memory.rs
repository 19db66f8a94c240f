//! Images and rows in memory are answered as those of files are.

use lessen_cpu::CpuBackend;
use lessen_data::images::{Filter, Image, Preprocessing, Resize, png, read_image};
use lessen_data::table::{ColumnKind, TableColumn, TableRows, TableSchema};
use lessen_nn::models::vision::{ImageClassifier, ImageClassifierConfig, Network};
use lessen_nn::{Model, checkpoint};
use lessen_saved::saved_run::{AdapterOptions, Cell, ImageInput, SavedRun};
use lessen_task::device::NewBackend;
use lessen_task::folder::WhichModel;
use lessen_train::Session;
use std::fs;
use std::path::Path;

/// A classifier of images of this shape, with drawn parameters, in a folder.
fn write_model(dir: &Path, shape: [usize; 3]) {
    let config = ImageClassifierConfig::of(Network::of("mlp").unwrap(), shape);
    let model = Model::from(ImageClassifier { config });
    let mut session = Session::zeros(Box::new(CpuBackend::new(1).unwrap()), model.parameters()).unwrap();
    session.draw(|_| true, 3).unwrap();
    checkpoint::save(dir, &model.config_json(), &session.weights().unwrap()).unwrap();
    model.save_files(dir).unwrap();
}

fn open(dir: &Path) -> SavedRun {
    let device = NewBackend::new(|| Ok(Box::new(CpuBackend::new(1)?)));
    SavedRun::open(dir, WhichModel::Last, AdapterOptions::default(), &device).unwrap()
}

#[test]
fn images_in_memory_are_answered_as_files_are() {
    let dir = tempfile::tempdir().unwrap();
    write_model(dir.path(), [8, 8, 3]);
    let preprocessing = Preprocessing {
        resize: Resize::Shorter(8),
        filter: Filter::Bilinear,
        size: [8, 8],
        mean: vec![0.5, 0.4, 0.3],
        std: vec![0.2, 0.3, 0.4],
    };
    preprocessing.save(dir.path()).unwrap();
    let predictor = open(dir.path()).image_predictor().unwrap();
    let (mut files, mut pixels, mut decoded, mut numbers) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..5_usize {
        let shape = [9 + number, 12, if number == 2 { 1 } else { 3 }];
        let bytes: Vec<u8> = (0..shape.iter().product())
            .map(|i: usize| (i * i + 31 * number) as u8)
            .collect();
        let path = dir.path().join(format!("{number}.png"));
        fs::write(&path, png(&Image::new(shape, bytes.clone()))).unwrap();
        decoded.push(ImageInput::from(read_image(&path).unwrap()));
        numbers.push(ImageInput::Numbers(preprocessing.numbers(read_image(&path).unwrap())));
        files.push(ImageInput::File(path));
        pixels.push(ImageInput::Pixels(shape, bytes));
    }
    let expected = predictor.ask(&files).unwrap();
    assert_eq!(expected.len(), 5);
    for images in [pixels, decoded, numbers] {
        assert_eq!(predictor.ask(&images).unwrap(), expected);
    }
    for (image, wanted) in [
        (
            ImageInput::Pixels([2, 2, 3], vec![0; 11]),
            "image 2 has 11 bytes in the shape [2, 2, 3]",
        ),
        (ImageInput::Pixels([2, 2, 4], vec![0; 16]), "1 or 3 channels"),
        (ImageInput::Pixels([0, 2, 3], vec![]), "image 2 has 0 bytes"),
        (
            ImageInput::Pixels([usize::MAX, 2, 3], vec![0; 6]),
            "image 2 has 6 bytes",
        ),
        (
            ImageInput::Numbers(vec![0.0; 191]),
            "image 2 has 191 numbers, and the model reads [8, 8, 3]",
        ),
    ] {
        let error = predictor.ask(&[files[0].clone(), image]).unwrap_err();
        assert!(error.to_string().contains(wanted), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn rows_in_memory_are_answered_as_those_of_a_file_are() {
    let dir = tempfile::tempdir().unwrap();
    let column = |name: &str, kind| TableColumn {
        name: name.to_string(),
        kind,
    };
    let age = ColumnKind::Number {
        mean: 30.0,
        std: 12.5,
        is_missing_marked: true,
    };
    let colour = ColumnKind::Category {
        values: vec!["red".to_string(), "2".to_string()],
    };
    let schema = TableSchema {
        columns: vec![column("age", age), column("colour", colour)],
        label: "kind".to_string(),
        target: None,
    };
    write_model(dir.path(), [1, schema.width(), 1]);
    schema.save(dir.path()).unwrap();
    let predictor = open(dir.path()).row_predictor().unwrap();
    let file = dir.path().join("rows.csv");
    fs::write(&file, "colour,extra,age\nred,x,31.25\n2,y,\n,z,1e-3\nblue,,44\n").unwrap();
    let rows = TableRows::open(&file, predictor.schema()).unwrap();
    let rows: Vec<Vec<f32>> = rows.map(|row| row.unwrap().values).collect();
    let expected = predictor.ask(&rows).unwrap();
    let text = |text: &str| Cell::Text(text.to_string());
    let cells = [
        vec![Cell::Number(31.25), text("red")],
        vec![Cell::Missing, Cell::Number(2.0)],
        vec![Cell::Number(1e-3), Cell::Missing],
        vec![text("44"), text("blue")],
    ];
    assert_eq!(predictor.ask_cells(&["age", "colour"], &cells).unwrap(), expected);
    let refused = |names: &[&str], cells: &[Vec<Cell>]| predictor.ask_cells(names, cells).unwrap_err().to_string();
    assert!(refused(&["age"], &cells).contains("have no column \"colour\""));
    assert!(refused(&["age", "colour", "more"], &cells).contains("row 1 has 2 cells, and there are 3 columns"));
}
