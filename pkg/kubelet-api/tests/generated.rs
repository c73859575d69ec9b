//! The code of `src/generated` is what `proto` generates. With `UPDATE_GENERATED=1`, this test writes it.

use std::{env, fs, path::Path};

#[test]
fn the_generated_code_is_up_to_date() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let scratch = tempfile::tempdir().unwrap();
    let protos = ["deviceplugin.proto", "podresources.proto"].map(|name| directory.join("proto").join(name));
    tonic_prost_build::configure()
        .out_dir(scratch.path())
        .compile_protos(&protos, &[directory.join("proto")])
        .expect("protoc, of Debian's package protobuf-compiler");
    for name in ["v1.rs", "v1beta1.rs"] {
        let (generated, committed) = (scratch.path().join(name), directory.join("src/generated").join(name));
        let text = fs::read_to_string(generated).unwrap();
        if env::var_os("UPDATE_GENERATED").is_some() {
            fs::write(&committed, &text).unwrap();
        }
        let is_same = fs::read_to_string(&committed).unwrap() == text;
        assert!(
            is_same,
            "{name} differs from the code of proto/: UPDATE_GENERATED=1 cargo test -p kubelet-api"
        );
    }
}
